/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/config/supervisor_rights.h"

static bool same_user(const struct privileges *a, const struct privileges *b)
{
    return a->uid == b->uid && a->gid == b->gid && a->ngroups == b->ngroups &&
           memcmp(a->groups, b->groups, (size_t)a->ngroups * sizeof(gid_t)) == 0;
}

bool supervisor_rights_add(struct supervisor_rights *r, const struct privileges *user)
{
    if (supervisor_rights_allow(r, user))
        return true;
    if (r->n == SUPERVISOR_USERS_MAX)
        return false;
    r->users[r->n++] = *user;
    return true;
}

bool supervisor_rights_has_others(const struct supervisor_rights *r)
{
    return r != NULL && r->n > 1;
}

bool supervisor_rights_allow(const struct supervisor_rights *r, const struct privileges *user)
{
    for (size_t i = 0; i < r->n; ++i) {
        if (same_user(&r->users[i], user))
            return true;
    }
    return false;
}

bool supervisor_rights_cover(const struct supervisor_rights *r,
                             const struct supervisor_rights *wanted)
{
    if (r == NULL || wanted == NULL)
        return r == wanted;
    for (size_t i = 0; i < wanted->n; ++i) {
        if (!supervisor_rights_allow(r, &wanted->users[i]))
            return false;
    }
    return same_user(&r->users[0], &wanted->users[0]);
}

/* ---- messages ---- */

void supervisor_user_put(const struct privileges *user, json_t *m)
{
    json_t *groups = json_array();

    for (int i = 0; i < user->ngroups; ++i)
        json_array_append_new(groups, json_integer(user->groups[i]));
    json_object_set_new(m, "uid", json_integer(user->uid));
    json_object_set_new(m, "gid", json_integer(user->gid));
    json_object_set_new(m, "groups", groups);
}

json_t *supervisor_rights_message(const struct supervisor_rights *r)
{
    json_t *list = json_array();

    for (size_t i = 0; i < r->n; ++i) {
        json_t *user = json_object();

        supervisor_user_put(&r->users[i], user);
        json_array_append_new(list, user);
    }
    return list;
}

static bool take_number(const json_t *v, uint32_t *out)
{
    json_int_t n = json_integer_value(v);

    *out = (uint32_t)n;
    return json_is_integer(v) && n >= 0 && n < UINT32_MAX;
}

bool supervisor_user_parse(const json_t *m, struct privileges *out)
{
    const json_t *groups = json_object_get(m, "groups");

    *out = (struct privileges){.required = true};
    if (!take_number(json_object_get(m, "uid"), &out->uid) ||
        !take_number(json_object_get(m, "gid"), &out->gid) || !json_is_array(groups) ||
        json_array_size(groups) > PRIVILEGES_GROUPS_MAX)
        return false;
    for (size_t i = 0; i < json_array_size(groups); ++i) {
        if (!take_number(json_array_get(groups, i), &out->groups[out->ngroups++]))
            return false;
    }
    return true;
}

bool supervisor_rights_allow_all(const struct supervisor_rights *r, const json_t *list)
{
    struct privileges user;

    for (size_t i = 0; i < json_array_size(list); ++i) {
        if (!supervisor_user_parse(json_array_get(list, i), &user) ||
            !supervisor_rights_allow(r, &user))
            return false;
    }
    return json_array_size(list) > 0;
}
