/* SPDX-License-Identifier: Apache-2.0 */
#include "common/program/user_rights.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"

/* Whether we may become it shows at the start: a test need not be root's. */
void user_rights_check(const struct config *file, const char *user, const char *group,
                       struct privileges *out, struct diag *d)
{
    const struct config_node *at = config_get(file->root, user != NULL ? "user" : "group");
    const char *why;

    *out = (struct privileges){.wanted = false};
    if (privileges_find(user, group, out, &why) != ERR_OK && at != NULL)
        config_complain(file, at, d, "%s %s: %s", user != NULL ? "user" : "group",
                        user != NULL ? user : group, why);
}

bool user_rights_find(const char *user, const char *group, struct privileges *out, bool *change)
{
    const char *why = "";

    if (privileges_find(user, group, out, &why) != ERR_OK) {
        log_error(NULL, "rights-not-settled", "user=%s reason=\"%s\"", user, why);
        return false;
    }
    *change = privileges_differ(out);
    if (*change && geteuid() != 0) {
        log_error(NULL, "rights-not-settled",
                  "user=%s reason=\"only root can become another user\"", user);
        return false;
    }
    return true;
}

void user_rights_warn_of_root(const struct privileges *p)
{
    if (!p->wanted && geteuid() == 0)
        log_warn(NULL, "runs-as-root", "hint=\"set user, or start it as one\"");
}

static bool say_failed(const char *file)
{
    log_error(NULL, "rights-not-settled", "file=%s reason=\"%s\"", file, strerror(errno));
    return false;
}

bool user_rights_own_socket(const struct addr *a, const struct privileges *p)
{
    bool is_path = a->sa.sa_family == AF_UNIX && a->un.sun_path[0] == '/';

    if (!is_path || lchown(a->un.sun_path, p->uid, p->gid) == 0)
        return true;
    return say_failed(a->un.sun_path);
}

bool user_rights_make_folder(const char *folder, unsigned mode, const struct privileges *p)
{
    if (folder == NULL || (mkdir(folder, mode) != 0 && errno == EEXIST))
        return true;
    return chown(folder, p->uid, p->gid) == 0 || say_failed(folder);
}

bool user_rights_drop(const char *user, const struct privileges *p)
{
    const char *step = "";

    if (privileges_drop(p, &step) != ERR_OK) {
        log_error(NULL, "rights-not-settled", "user=%s step=\"%s\" reason=\"%s\"", user, step,
                  strerror(errno));
        return false;
    }
    log_info(NULL, "rights-dropped", "user=%s uid=%ld gid=%ld", user, (long)p->uid, (long)p->gid);
    return true;
}
