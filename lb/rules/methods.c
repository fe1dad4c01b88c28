/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/methods.h"

#include <stdio.h>

#include "common/base/nocase.h"
#include "common/wire/http1_bytes.h"
#include "lb/request/headers.h"

/* Sources: RFC 9110 9, 5789, 4918 (WebDAV), 3253, 3648, 3744, 5323, 5842, 4791, 2068, 4437. */
static const char *const registered[] = {
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "REPORT",
    "SEARCH",
    "ACL",
    "BIND",
    "UNBIND",
    "REBIND",
    "LINK",
    "UNLINK",
    "CHECKIN",
    "CHECKOUT",
    "UNCHECKOUT",
    "UPDATE",
    "LABEL",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "ORDERPATCH",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
    "BASELINE-CONTROL",
};

bool method_is_registered(struct slice method)
{
    for (size_t i = 0; i < ARRAY_LEN(registered); ++i) {
        if (slice_is(method, registered[i]))
            return true;
    }
    return false;
}

/* ---- the setting ---- */

/* Words are short, and mostly differ in the first letter or not at all. */
static bool is_word(struct slice s, const char *word)
{
    size_t i = 0;

    while (i < s.len && s.p[i] == word[i] && word[i] != '\0')
        ++i;
    return i == s.len && word[i] == '\0';
}

static bool listed(const struct text_list *list, size_t n, struct slice method)
{
    for (size_t i = 0; i < n; ++i) {
        if (is_word(method, list->items[i]))
            return true;
    }
    return false;
}

static const char *problem_of(const struct text_list *list, size_t i)
{
    struct slice method = slice_of(list->items[i]);

    if (i == METHODS_MAX)
        return "one too many";
    if (!http1_is_token(method) || method.len > METHOD_MAX)
        return "expected a method such as GET, of at most 32 characters";
    if (slice_is(method, "CONNECT"))
        return "a reverse proxy has no use for it";
    return listed(list, i, method) ? "is a duplicate" : NULL;
}

bool methods_check(const struct text_list *list, size_t *at, char why[SETTINGS_WHY_ROOM])
{
    *at = 0;
    if (list->n == 0) {
        snprintf(why, SETTINGS_WHY_ROOM, "methods: none, and so no request could be served");
        return false;
    }
    for (size_t i = 0; i < list->n; ++i) {
        const char *problem = problem_of(list, i);

        if (problem == NULL)
            continue;
        *at = i;
        snprintf(why, SETTINGS_WHY_ROOM, "methods: %.40s: %s", list->items[i], problem);
        return false;
    }
    return true;
}

void methods_put(const struct text_list *list, struct text *out)
{
    for (size_t i = 0; i < list->n; ++i) {
        if (i != 0)
            text_add(out, SLICE_LIT(", "));
        text_add(out, slice_of(list->items[i]));
    }
}

/* ---- requests ---- */

void exchange_add_allow(struct exchange *x)
{
    struct text allow = {0};

    methods_put(&exchange_settings(x)->methods, &allow);
    headers_add(x->req, SLICE_LIT("Allow"), text_slice(&allow));
    text_fini(&allow);
}

static struct slice lower_name(const struct exchange *x, struct slice name)
{
    char *lower = http_request_take(x->req, name.len + 1);

    ascii_lower_copy(lower, name);
    return (struct slice){lower, name.len};
}

/* RFC 9110 9.3.8: the request as it came, but nothing of it that is a secret. */
static void put_trace(const struct exchange *x, struct text *out)
{
    const struct message_fields *fields = &x->req->fields;

    text_add(out, SLICE_LIT("TRACE "));
    text_add(out, x->req->target);
    text_add(out, SLICE_LIT(" HTTP/1.1\r\nHost: "));
    text_add(out, x->authority);
    text_add(out, SLICE_LIT("\r\n"));
    for (size_t i = 0; i < fields->n; ++i) {
        const struct message_field *f = &fields->at[i];

        if (!http_field_is_hop(f->kind) && f->kind != FIELD_COOKIE && f->kind != FIELD_OURS &&
            !SLICE_IS_WORD(f->name, "authorization"))
            http_put_field(out, lower_name(x, f->name), f->value);
    }
    text_add(out, SLICE_LIT("\r\n"));
}

/* Max-Forwards has come to its end here. */
static apart void answer_here(struct exchange *x, bool trace)
{
    struct text body = {0};

    if (trace)
        put_trace(x, &body);
    else
        exchange_add_allow(x);
    if (exchange_settings(x)->request_id)
        headers_add(x->req, SLICE_LIT("X-Request-ID"), x->request_id);
    exchange_answer_here(x, outcome_status(OUTCOME_ANSWERED_HERE),
                         trace ? "message/http" : "text/plain", text_slice(&body));
    text_fini(&body);
}

bool exchange_method(struct exchange *x)
{
    const struct text_list *allowed = &exchange_settings(x)->methods;
    struct slice method = x->req->method;
    bool trace = slice_is(method, "TRACE");
    uint64_t forwards = 0;

    if (!listed(allowed, allowed->n, method)) {
        exchange_fail(x, method_is_registered(method) ? OUTCOME_METHOD_NOT_ALLOWED
                                                      : OUTCOME_METHOD_UNKNOWN);
        return false;
    }
    /* RFC 9110 7.6.2: of other methods it means nothing. */
    if (!trace && !slice_is(method, "OPTIONS"))
        return true;
    switch ((int)headers_max_forwards(&x->req->fields, &forwards)) {
    case ERR_NOT_FOUND:
        return true;
    case ERR_OK:
        break;
    default:
        exchange_fail(x, OUTCOME_BAD_REQUEST);
        return false;
    }
    if (forwards == 0) {
        answer_here(x, trace);
        return false;
    }
    headers_set_max_forwards(x->req, forwards - 1);
    return true;
}
