/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl detach: the agent takes a process out of its pool for ever.
 */
#include "common/program/admin.h"
#include "ctl/cli/ctl.h"

#include <stdio.h>

/* Letters, digits, '-', '_' and '.': it becomes part of a path. */
static bool is_id(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        char c = ascii_lower(s.p[i]);

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.')
            return false;
    }
    return s.len != 0 && s.len <= ADMIN_ARGUMENT_MAX;
}

/* What to do about STATUS; "" when its text says it all. */
static const char *advice(int status)
{
    if (status == 401)
        return " (--token-file?)";
    if (status == 405)
        return " (is this an agent's admin address?)";
    return "";
}

enum err ctl_detach(const struct ctl_options *o, struct text *out, struct diag *d)
{
    struct text body = {0};
    struct text said = {0};
    char path[ADMIN_ARGUMENT_MAX + sizeof("/processes//detach")];
    int status = 0;

    if (!is_id(slice_of(o->process))) {
        diag_add(d, NULL, 0, 0, "not the id of a process, which status shows: '%s'", o->process);
        return ERR_SYNTAX;
    }
    snprintf(path, sizeof(path), "/processes/%s/detach", o->process);
    enum err e = ctl_ask(o, "POST", path, &status, &body, d);
    if (e == ERR_OK) {
        struct slice rest = text_slice(&body);

        text_add_visible(&said, slice_cut(&rest, '\n'));
        text_add_char(&said, '\n');
    }
    if (e == ERR_OK && status != 200) {
        diag_add(d, NULL, 0, 0, "%s: status %d%s: %.*s", o->address, status, advice(status),
                 (int)said.len - 1, said.p);
        e = ERR_BAD_RESPONSE;
    } else if (e == ERR_OK) {
        text_add(out, text_slice(&said));
    }
    text_fini(&said);
    text_fini(&body);
    return e;
}
