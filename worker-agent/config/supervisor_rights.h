/* SPDX-License-Identifier: Apache-2.0
 *
 * The users that processes may be started as, where the agent has a user itself and the supervisor
 * alone keeps the right to switch users. The list is made from the configuration at the start, and
 * inherited by the supervisor when it is forked: no later message of an agent changes it.
 */
#pragma once

#include <jansson.h>

#include "common/program/privileges.h"

enum { SUPERVISOR_USERS_MAX = 100 };

struct supervisor_rights {
    size_t n;
    struct privileges users[SUPERVISOR_USERS_MAX]; /* the first: the agent's own */
};

/* Adds USER unless R has it already. Returns false if R is full. */
bool supervisor_rights_add(struct supervisor_rights *r, const struct privileges *user) must_check;
/* There are users besides the agent's own: the supervisor must be able to switch. R may be NULL. */
bool supervisor_rights_has_others(const struct supervisor_rights *r);
/* Whether R has exactly this user, with the same group and the same supplementary groups. */
bool supervisor_rights_allow(const struct supervisor_rights *r, const struct privileges *user);
/* WANTED has the same user of the agent, and no user that is not in R; both may be NULL. */
bool supervisor_rights_cover(const struct supervisor_rights *r,
                             const struct supervisor_rights *wanted);

/* ---- messages ---- */
/* Adds the members "uid", "gid", "groups" to M; and back: false if they are incomplete. */
void supervisor_user_put(const struct privileges *user, json_t *m);
bool supervisor_user_parse(const json_t *m, struct privileges *out);
/* For the hello: a list of all users (new); and whether R allows each of such a list. */
json_t *supervisor_rights_message(const struct supervisor_rights *r);
bool supervisor_rights_allow_all(const struct supervisor_rights *r, const json_t *list);
