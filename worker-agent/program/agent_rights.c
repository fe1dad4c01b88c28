/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting `user`: operations that require root come first (keys are read with the configuration,
 * addresses bound, state_dir created), then the agent switches to that user, before any other
 * thread exists.
 *
 * If no application has another user, the agent drops its privileges, then forks the supervisor:
 * the supervisor and the processes run as that user, too. Otherwise the agent forks the supervisor
 * first: that stays root, and starts processes of users in the configuration only
 * (supervisor_rights.h); state_dir is root's.
 *
 * A new agent after SIGUSR2 runs as that user from the start, and has the supervisor of the old
 * one. Main thread.
 */
#include "worker-agent/program/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/program/privileges.h"
#include "worker-agent/config/supervisor_rights.h"

enum {
    SOCKET_MODE = 0660,
    /* The agent's group may create files. The directory is owned by root and has the sticky bit, so
       the group cannot replace root's files, which are the supervisor's. */
    SHARED_STATE_DIR_MODE = 01771,
};

/* Whether A has port 0: any port is acceptable, also when it is bound later. */
static bool is_some_port(const struct addr *a)
{
    return a->sa.sa_family != AF_UNIX && addr_port(a) == 0;
}

static bool bind_at(struct agent *a, const struct addr *address, const struct privileges *p)
{
    return is_some_port(address) || inherited_listen(a->pool.inherited, address, SOCKET_MODE, p);
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
    for (size_t i = 0; i < app->nlisten_addrs; ++i) {
        if (!bind_at(a, &app->listen_addrs[i], p))
            return false;
    }
    return true;
}

static bool bind_all(struct agent *a, const struct privileges *p)
{
    const struct agent_config *c = a->config;

    for (size_t i = 0; i < c->admin.n; ++i) {
        if (!bind_at(a, &c->admin.addresses[i], p))
            return false;
    }
    for (size_t i = 0; i < c->napps; ++i) {
        if (!bind_application(a, c->apps[i], p))
            return false;
    }
    return true;
}

/* ---- state_dir, for an agent with a user and a supervisor of root ---- */

static bool say_unsafe(const char *path, const char *why)
{
    log_error(NULL, "state-dir-insecure", "directory=%s reason=\"%s\"", path, why);
    return false;
}

/* No user but root can put anything in the place of what is below PATH, up to the root. */
static bool are_roots(char *path)
{
    for (;;) {
        struct stat st;

        if (lstat(path, &st) != 0)
            return say_unsafe(path, strerror(errno));
        if (!S_ISDIR(st.st_mode))
            return say_unsafe(path, "a link, or not a directory");
        if (st.st_uid != 0 || ((st.st_mode & 022) != 0 && (st.st_mode & S_ISVTX) == 0))
            return say_unsafe(path, "other users can write it, and the supervisor stays root");
        if (path[1] == '\0')
            return true;
        path = dirname(path);
    }
}

/* Root's, as the supervisor's files in it are; the agent's group may make more. */
static bool share_directory(const char *directory, const struct privileges *p)
{
    int fd = -1;

    if (mkdir(directory, AGENT_STATE_DIR_MODE) == 0 || errno == EEXIST)
        fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool done = fd >= 0 && fchown(fd, 0, p->gid) == 0 && fchmod(fd, SHARED_STATE_DIR_MODE) == 0;
    if (!done)
        (void)say_unsafe(directory, strerror(errno));
    if (fd >= 0)
        close(fd);
    return done;
}

static bool share_state_dir(const char *state_dir, const struct privileges *p)
{
    char *directory = xstrdup(state_dir);
    char *above = xstrdup(state_dir);

    /* With a slash at its end a link would be followed. */
    for (size_t n = strlen(directory); n > 1 && directory[n - 1] == '/'; --n)
        directory[n - 1] = '\0';
    bool done = are_roots(dirname(above)) && share_directory(directory, p);
    free(directory);
    free(above);
    return done;
}

/* ---- the two steps ---- */

static bool say_not_settled(const struct agent *a, const char *why)
{
    log_error(NULL, "privileges-drop-failed", "user=%s reason=\"%s\"", a->config->s.user, why);
    return false;
}

/* Before the supervisor is there, which stays root. */
static bool prepare_shared(struct agent *a, const struct privileges *p, bool change)
{
    /* The agent before has given up its rights; its supervisor has not. */
    if (!change && inherited_from_old(a->pool.inherited))
        return true;
    if (!change)
        return say_not_settled(a, "only root can start processes of other users");
    if (inherited_from_old(a->pool.inherited))
        return say_not_settled(a, "the old agent has another user: restart");
    a->drop_later = true;
    return share_state_dir(a->config->s.state_dir, p) && bind_all(a, p);
}

bool agent_rights_settle(struct agent *a)
{
    const struct agent_settings *s = &a->config->s;
    struct privileges p;
    bool change;

    if (!user_rights_find(s->user, s->group, &p, &change))
        return false;
    user_rights_warn_of_root(&p);
    if (supervisor_rights_has_others(a->config->users))
        return prepare_shared(a, &p, change);
    return !change || (user_rights_make_directory(s->state_dir, AGENT_STATE_DIR_MODE, &p) &&
                       bind_all(a, &p) && user_rights_drop(s->user, &p));
}

bool agent_rights_drop(struct agent *a)
{
    return !a->drop_later || user_rights_drop(a->config->s.user, &a->config->own);
}
