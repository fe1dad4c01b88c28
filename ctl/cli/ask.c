/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking an admin address: the token, the page, what went wrong in words.
 */
#include "common/base/file.h"
#include "ctl/cli/ctl.h"
#include "ctl/cli/fetch.h"

#include <errno.h>
#include <string.h>

/* The token in FILE, without the end of its line, into OUT. */
static enum err read_token(const char *file, struct text *out, struct diag *d)
{
    enum err e = file_read(file, FETCH_TOKEN_MAX, out);

    if (e != ERR_OK) {
        diag_add(d, file, 0, 0, "%s", e == ERR_SYSTEM ? strerror(errno) : err_text(e));
        return e;
    }
    while (out->len != 0 && (out->p[out->len - 1] == '\n' || out->p[out->len - 1] == '\r'))
        --out->len;
    for (size_t i = 0; i < out->len; ++i) {
        /* It becomes part of a header line. */
        if (out->p[i] <= ' ' || out->p[i] >= 0x7f) {
            diag_add(d, file, 0, 0, "not a token: blanks or other bytes that cannot be in one");
            return ERR_SYNTAX;
        }
    }
    return ERR_OK;
}

/* Sends the request Q; O contains the server's address and the credentials. */
static enum err ask(const struct ctl_options *o, struct fetch_request q, int *status,
                    struct text *body, struct diag *d)
{
    struct text token = {0};
    enum err e = o->token_file != NULL ? read_token(o->token_file, &token, d) : ERR_OK;

    if (e == ERR_OK) {
        q.address = o->address;
        q.token = o->token_file != NULL ? text_cstr(&token) : NULL;
        q.timeout_ms = o->timeout_ms;
        e = fetch(&q, status, body, d);
    }
    text_fini(&token);
    return e;
}

enum err ctl_ask(const struct ctl_options *o, const char *method, const char *path, int *status,
                 struct text *body, struct diag *d)
{
    return ask(o, (struct fetch_request){.method = method, .path = path}, status, body, d);
}

enum err ctl_order(const struct ctl_options *o, const char *path, struct slice order, int *status,
                   struct text *body, struct diag *d)
{
    return ask(o, (struct fetch_request){.method = "POST", .path = path, .body = order}, status,
               body, d);
}

enum err ctl_get(const struct ctl_options *o, const char *path, struct text *body, struct diag *d)
{
    int status = 0;
    enum err e = ctl_ask(o, "GET", path, &status, body, d);

    if (e == ERR_OK && status != 200) {
        diag_add(d, NULL, 0, 0, "%s: answered %s with status %d%s", o->address, path, status,
                 status == 401 ? " (--token-file?)" : "");
        e = ERR_BAD_RESPONSE;
    }
    return e;
}

enum err ctl_get_json(const struct ctl_options *o, const char *path, json_t **out, struct diag *d)
{
    struct text body = {0};
    json_error_t why;
    enum err e = ctl_get(o, path, &body, d);

    if (e == ERR_OK) {
        /* The bounds of wire/json.h are for strangers; this page is as large as the pool, and
         * bounded in bytes. */
        *out = json_loadb(body.p != NULL ? body.p : "", body.len, JSON_REJECT_DUPLICATES, &why);
        if (*out == NULL) {
            diag_add(d, NULL, 0, 0, "%s: %s is not JSON: %s", o->address, path, why.text);
            e = ERR_SYNTAX;
        }
    }
    text_fini(&body);
    return e;
}

enum err ctl_page_problem(const struct ctl_options *o, const char *path, enum err e, struct diag *d)
{
    if (e == ERR_NOT_FOUND)
        diag_add(d, NULL, 0, 0, "%s: has no application '%s'", o->address, o->application);
    else if (e != ERR_OK)
        diag_add(d, NULL, 0, 0,
                 "%s: %s has no applications in it; is this an admin address of ours?", o->address,
                 path);
    return e;
}
