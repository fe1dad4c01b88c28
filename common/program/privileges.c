/* SPDX-License-Identifier: Apache-2.0 */
#include "common/program/privileges.h"
#include "common/base/log.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

const char *privileges_find(const char *user, const char *group, struct privileges *out)
{
    struct privileges p = {.required = true, .ngroups = PRIVILEGES_GROUPS_MAX};

    *out = (struct privileges){.required = false};
    if (user == NULL)
        return group == NULL ? NULL : "requires user";
    const struct passwd *u = getpwnam(user);
    if (u == NULL)
        return "unknown user";
    p.uid = u->pw_uid;
    p.gid = u->pw_gid;
    if (group != NULL) {
        const struct group *g = getgrnam(group);

        if (g == NULL)
            return "unknown group";
        p.gid = g->gr_gid;
    }
    if (getgrouplist(user, p.gid, p.groups, &p.ngroups) < 0)
        return "the user is in too many groups";
    *out = p;
    return NULL;
}

bool privileges_differ(const struct privileges *p)
{
    uid_t uids[3];
    gid_t gids[3];

    if (!p->required)
        return false;
    if (getresuid(&uids[0], &uids[1], &uids[2]) != 0 ||
        getresgid(&gids[0], &gids[1], &gids[2]) != 0)
        return true;
    for (int i = 0; i < 3; ++i) {
        if (uids[i] != p->uid || gids[i] != p->gid)
            return true;
    }
    return false;
}

const char *privileges_switch(const struct privileges *p)
{
    if (setgroups((size_t)p->ngroups, p->groups) != 0)
        return "setgroups";
    if (setresgid(p->gid, p->gid, p->gid) != 0)
        return "setgid";
    return setresuid(p->uid, p->uid, p->uid) != 0 ? "setuid" : NULL;
}

/* ---- the settings `user` and `group` ---- */

/* Whether the process may switch to it is checked at the start: a test need not run as root. */
void user_rights_check(const struct config *file, const char *user, const char *group,
                       struct privileges *out, struct diag *d)
{
    const struct config_node *at = config_get(file->root, user != NULL ? "user" : "group");
    const char *why = privileges_find(user, group, out);

    if (why != NULL && at != NULL)
        config_complain(file, at, d, "%s %s: %s", user != NULL ? "user" : "group",
                        user != NULL ? user : group, why);
}

bool user_rights_find(const char *user, const char *group, struct privileges *out, bool *change)
{
    const char *why = privileges_find(user, group, out);

    *change = why == NULL && privileges_differ(out);
    if (*change && geteuid() != 0)
        why = "only root can become another user";
    if (why != NULL) {
        log_error(NULL, "privileges-drop-failed", "user=%s reason=\"%s\"",
                  user != NULL ? user : "none", why);
        return false;
    }
    if (!out->required && geteuid() == 0)
        log_warn(NULL, "running-as-root", "hint=\"set user, or start it as another user\"");
    return true;
}

static bool log_drop_failed(const char *file)
{
    log_error(NULL, "privileges-drop-failed", "file=%s reason=\"%s\"", file, strerror(errno));
    return false;
}

bool user_rights_chown_socket(const struct addr *a, const struct privileges *p)
{
    bool is_path = a->sa.sa_family == AF_UNIX && a->un.sun_path[0] == '/';

    if (!is_path || lchown(a->un.sun_path, p->uid, p->gid) == 0)
        return true;
    return log_drop_failed(a->un.sun_path);
}

bool user_rights_make_directory(const char *directory, unsigned mode, const struct privileges *p)
{
    if (directory == NULL || (mkdir(directory, mode) != 0 && errno == EEXIST))
        return true;
    return lchown(directory, p->uid, p->gid) == 0 || log_drop_failed(directory);
}

bool user_rights_drop(const char *user, const struct privileges *p)
{
    const char *step = NULL;

    if (privileges_differ(p)) {
        step = privileges_switch(p);
        /* The switch must be permanent: no user but root may be able to become root again. */
        if (step == NULL && p->uid != 0 &&
            (setuid(0) == 0 || seteuid(0) == 0 || privileges_differ(p))) {
            errno = EPERM;
            step = "privileges could be regained";
        }
        if (step == NULL && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
            step = "no_new_privs";
    }
    if (step != NULL) {
        log_error(NULL, "privileges-drop-failed", "user=%s step=\"%s\" reason=\"%s\"", user, step,
                  strerror(errno));
        return false;
    }
    log_info(NULL, "privileges-dropped", "user=%s uid=%ld gid=%ld", user, (long)p->uid,
             (long)p->gid);
    return true;
}
