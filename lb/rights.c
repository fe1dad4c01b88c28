/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rights.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/privileges.h"
#include "lb/lb_parts.h"
#include "lb/predecessor.h"

struct bound_admin {
    size_t n;
    struct bound {
        struct addr address;
        int fd; /* -1: taken */
    } items[];
};

int bound_admin_take(struct bound_admin *b, const struct addr *address)
{
    for (size_t i = 0; b != NULL && i < b->n; ++i) {
        int fd = b->items[i].fd;

        if (fd >= 0 && addr_equal(&b->items[i].address, address)) {
            b->items[i].fd = -1;
            return fd;
        }
    }
    return -1;
}

void bound_admin_destroy(struct bound_admin *b)
{
    for (size_t i = 0; b != NULL && i < b->n; ++i) {
        if (b->items[i].fd >= 0)
            close(b->items[i].fd);
    }
    free(b);
}

static void say_failed(const char *what, const char *name, enum err e)
{
    log_error(NULL, "rights-not-settled", "%s=%s why=\"%s\"", what, name,
              e == ERR_SYSTEM ? strerror(errno) : err_text(e));
}

/* So that its mode says what the user's group may. */
static bool own_socket(const struct addr *a, const struct privileges *p)
{
    bool is_path = a->sa.sa_family == AF_UNIX && a->un.sun_path[0] == '/';

    if (!is_path || lchown(a->un.sun_path, p->uid, p->gid) == 0)
        return true;
    say_failed("socket", a->un.sun_path, ERR_SYSTEM);
    return false;
}

static bool bind_admin(struct lb_parts *parts, const struct privileges *p)
{
    const struct configuration *c = &parts->config;
    struct addr_listen_options o = {.mode = 0660};
    char shown[ADDR_TEXT_MAX];

    parts->bound_admin =
        xcalloc(1, sizeof(*parts->bound_admin) + c->nadmin_addrs * sizeof(struct bound));
    for (size_t i = 0; i < c->nadmin_addrs; ++i) {
        const struct addr *a = &c->admin_addrs[i];
        int fd = predecessor_take_admin(parts->predecessor, a);
        enum err e = fd < 0 ? addr_listen(a, &o, &fd) : ERR_OK;

        if (e != ERR_OK) {
            say_failed("admin", addr_format(a, shown), e);
            return false;
        }
        parts->bound_admin->items[parts->bound_admin->n++] = (struct bound){*a, fd};
        if (!own_socket(a, p))
            return false;
    }
    return true;
}

/* One that is there already is somebody's, with reason. */
static bool make_state_dir(const char *folder, const struct privileges *p)
{
    if (folder == NULL || (mkdir(folder, 0770) != 0 && errno == EEXIST))
        return true;
    if (chown(folder, p->uid, p->gid) == 0)
        return true;
    say_failed("state_dir", folder, ERR_SYSTEM);
    return false;
}

static bool bind_first(struct lb *lb, const struct privileges *p)
{
    struct lb_parts *parts = lb->parts;

    parts->listeners = listeners_create(&parts->config, lb->nloops, parts->predecessor);
    if (parts->listeners == NULL)
        return false;
    for (size_t i = 0; i < listeners_count(parts->listeners); ++i) {
        if (!own_socket(listeners_address(parts->listeners, i), p))
            return false;
    }
    return bind_admin(parts, p) && make_state_dir(lb->settings.state_dir, p);
}

bool rights_settle(struct lb *lb)
{
    const struct program_settings *s = &lb->settings;
    struct privileges p;
    const char *why = "";

    if (privileges_find(s->user, s->group, &p, &why) != ERR_OK) {
        log_error(NULL, "rights-not-settled", "user=%s why=\"%s\"", s->user, why);
        return false;
    }
    if (!p.wanted && geteuid() == 0)
        log_warn(NULL, "runs-as-root", "action=\"set user, or start it as one\"");
    if (!privileges_differ(&p))
        return true;
    if (geteuid() != 0) {
        log_error(NULL, "rights-not-settled", "user=%s why=\"only root can become another user\"",
                  s->user);
        return false;
    }
    if (!bind_first(lb, &p))
        return false;
    if (privileges_drop(&p, &why) != ERR_OK) {
        log_error(NULL, "rights-not-settled", "user=%s step=\"%s\" why=\"%s\"", s->user, why,
                  strerror(errno));
        return false;
    }
    log_info(NULL, "rights-dropped", "user=%s uid=%ld gid=%ld", s->user, (long)p.uid, (long)p.gid);
    return true;
}
