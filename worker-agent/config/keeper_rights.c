/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/config/keeper_rights.h"

#include <stdlib.h>

#include "worker-agent/config/app_config.h"

_Static_assert((int)APP_GROUPS_MAX == (int)PRIVILEGES_GROUPS_MAX, "groups of the agent's user fit");

static bool same_user(const struct keeper_user *a, const struct keeper_user *b)
{
    return a->uid == b->uid && a->gid == b->gid && a->ngroups == b->ngroups &&
           memcmp(a->groups, b->groups, (size_t)a->ngroups * sizeof(gid_t)) == 0;
}

static void set_groups(struct keeper_user *u, const gid_t *groups, int n)
{
    u->ngroups = n;
    memcpy(u->groups, groups, (size_t)n * sizeof(gid_t));
}

/* Returns false if the table is full. */
static bool add(struct keeper_rights *r, const struct keeper_user *user)
{
    if (keeper_rights_allow(r, user))
        return true;
    if (r->n == KEEPER_USERS_MAX)
        return false;
    r->users[r->n++] = *user;
    return true;
}

struct keeper_rights *keeper_rights_create(const struct privileges *own,
                                           struct app_config *const *apps, size_t napps)
{
    struct keeper_rights *r = xcalloc(1, sizeof(*r));
    struct keeper_user user = {.uid = own->uid, .gid = own->gid};
    bool fits;

    set_groups(&user, own->groups, own->ngroups);
    fits = add(r, &user);
    for (size_t i = 0; i < napps && fits; ++i) {
        if (!apps[i]->switch_user)
            continue;
        user = (struct keeper_user){.uid = apps[i]->uid, .gid = apps[i]->gid};
        set_groups(&user, apps[i]->groups, apps[i]->ngroups);
        fits = add(r, &user);
    }
    if (fits)
        return r;
    free(r);
    return NULL;
}

bool keeper_rights_has_others(const struct keeper_rights *r)
{
    return r != NULL && r->n > 1;
}

bool keeper_rights_allow(const struct keeper_rights *r, const struct keeper_user *user)
{
    for (size_t i = 0; i < r->n; ++i) {
        if (same_user(&r->users[i], user))
            return true;
    }
    return false;
}

bool keeper_rights_cover(const struct keeper_rights *r, const struct keeper_rights *wanted)
{
    if (r == NULL || wanted == NULL)
        return r == wanted;
    for (size_t i = 0; i < wanted->n; ++i) {
        if (!keeper_rights_allow(r, &wanted->users[i]))
            return false;
    }
    return same_user(&r->users[0], &wanted->users[0]);
}

/* ---- messages ---- */

json_t *keeper_rights_message(const struct keeper_rights *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < r->n; ++i) {
        const struct keeper_user *u = &r->users[i];
        json_t *groups = json_array();

        for (int k = 0; k < u->ngroups; ++k)
            json_array_append_new(groups, json_integer(u->groups[k]));
        json_array_append_new(list, json_pack("{s:I, s:I, s:o}", "uid", (json_int_t)u->uid, "gid",
                                              (json_int_t)u->gid, "groups", groups));
    }
    return list;
}

static bool take_number(const json_t *v, uint32_t *out)
{
    json_int_t n = json_integer_value(v);

    *out = (uint32_t)n;
    return json_is_integer(v) && n >= 0 && n < UINT32_MAX;
}

bool keeper_user_parse(const json_t *m, struct keeper_user *out)
{
    const json_t *groups = json_object_get(m, "groups");

    *out = (struct keeper_user){.ngroups = 0};
    if (!take_number(json_object_get(m, "uid"), &out->uid) ||
        !take_number(json_object_get(m, "gid"), &out->gid) || !json_is_array(groups) ||
        json_array_size(groups) > APP_GROUPS_MAX)
        return false;
    for (size_t i = 0; i < json_array_size(groups); ++i) {
        if (!take_number(json_array_get(groups, i), &out->groups[out->ngroups++]))
            return false;
    }
    return true;
}

bool keeper_rights_allow_all(const struct keeper_rights *r, const json_t *list)
{
    struct keeper_user user;

    for (size_t i = 0; i < json_array_size(list); ++i) {
        if (!keeper_user_parse(json_array_get(list, i), &user) || !keeper_rights_allow(r, &user))
            return false;
    }
    return json_array_size(list) > 0;
}
