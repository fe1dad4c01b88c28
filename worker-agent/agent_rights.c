/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/agent_rights.h"

#include "common/net/bound_sockets.h"
#include "common/net/user_rights.h"

enum { SOCKET_MODE = 0660 };

static size_t count_addresses(const struct agent_config *c)
{
    size_t n = c->nadmin_addrs;

    for (size_t i = 0; i < c->napps; ++i)
        n += c->apps[i]->nslots + c->apps[i]->ndoors;
    return n;
}

/* Any port will do later as well. */
static bool is_some_port(const struct addr *a)
{
    return a->sa.sa_family != AF_UNIX && addr_port(a) == 0;
}

static bool bind_at(struct agent *a, const struct addr *address, const struct privileges *p)
{
    return is_some_port(address) || bound_sockets_listen(a->pool.bound, address, SOCKET_MODE, p);
}

static bool bind_application(struct agent *a, const struct app_config *app,
                             const struct privileges *p)
{
    for (unsigned i = 0; app->has_address && i < app->nslots; ++i) {
        struct addr address;

        slot_address_of(&app->address, i, &address);
        if (!bind_at(a, &address, p))
            return false;
    }
    for (size_t i = 0; i < app->ndoors; ++i) {
        if (!bind_at(a, &app->doors[i], p))
            return false;
    }
    return true;
}

static bool bind_all(struct agent *a, const struct privileges *p)
{
    const struct agent_config *c = a->config;

    a->pool.bound = bound_sockets_create(count_addresses(c));
    for (size_t i = 0; i < c->nadmin_addrs; ++i) {
        if (!bind_at(a, &c->admin_addrs[i], p))
            return false;
    }
    for (size_t i = 0; i < c->napps; ++i) {
        if (!bind_application(a, c->apps[i], p))
            return false;
    }
    return true;
}

/* An agent stays root to give applications their users; without any there is no reason to. */
static bool has_users(const struct agent_config *c)
{
    for (size_t i = 0; i < c->napps; ++i) {
        if (c->apps[i]->switch_user)
            return true;
    }
    return false;
}

bool agent_rights_settle(struct agent *a)
{
    const struct agent_settings *s = &a->config->s;
    struct privileges p;
    bool change;

    if (!user_rights_find(s->user, s->group, &p, &change))
        return false;
    if (!has_users(a->config))
        user_rights_warn_of_root(&p);
    return !change || (user_rights_make_folder(s->state_dir, AGENT_STATE_DIR_MODE, &p) &&
                       bind_all(a, &p) && user_rights_drop(s->user, &p));
}
