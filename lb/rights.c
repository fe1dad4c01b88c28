/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rights.h"

#include "common/net/user_rights.h"
#include "lb/lb_parts.h"

enum { ADMIN_MODE = 0660, STATE_DIR_MODE = 0770 };

static bool bind_first(struct lb *lb, const struct privileges *p)
{
    struct lb_parts *parts = lb->parts;

    parts->listeners = listeners_create(&parts->config, lb->nloops, parts->inherited);
    if (parts->listeners == NULL)
        return false;
    for (size_t i = 0; i < listeners_count(parts->listeners); ++i) {
        if (!user_rights_own_socket(listeners_address(parts->listeners, i), p))
            return false;
    }
    for (size_t i = 0; i < parts->config.admin.n; ++i) {
        if (!inherited_listen(parts->inherited, &parts->config.admin.addresses[i], ADMIN_MODE, p))
            return false;
    }
    return user_rights_make_folder(lb->settings.state_dir, STATE_DIR_MODE, p);
}

bool rights_settle(struct lb *lb)
{
    const struct program_settings *s = &lb->settings;
    struct privileges p;
    bool change;

    if (!user_rights_find(s->user, s->group, &p, &change))
        return false;
    user_rights_warn_of_root(&p);
    return !change || (bind_first(lb, &p) && user_rights_drop(s->user, &p));
}
