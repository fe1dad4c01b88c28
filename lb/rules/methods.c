/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/methods.h"

#include "common/wire/http1_bytes.h"

/* Sources: RFC 9110 9, 5789, 4918 (WebDAV), 3253, 3648, 3744, 5323, 5842, 4791, 2068, 4437. */
static const char registered[] =
    "GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH PROPFIND PROPPATCH MKCOL COPY "
    "MOVE LOCK UNLOCK REPORT SEARCH ACL BIND UNBIND REBIND LINK UNLINK CHECKIN CHECKOUT "
    "UNCHECKOUT UPDATE LABEL MERGE MKACTIVITY MKCALENDAR MKREDIRECTREF MKWORKSPACE "
    "ORDERPATCH UPDATEREDIRECTREF VERSION-CONTROL BASELINE-CONTROL";

bool method_is_registered(struct slice method)
{
    struct slice rest = slice_of(registered);

    while (rest.len != 0) {
        if (slice_eq(slice_cut(&rest, ' '), method))
            return true;
    }
    return false;
}

bool methods_have(const struct text_list *list, struct slice method)
{
    /* Words are short, and mostly differ in the first letter or not at all. */
    for (size_t i = 0; i < list->n; ++i) {
        const char *word = list->items[i];
        size_t k = 0;

        while (k < method.len && method.p[k] == word[k] && word[k] != '\0')
            ++k;
        if (k == method.len && word[k] == '\0')
            return true;
    }
    return false;
}

const char *method_problem(const struct text_list *list, size_t i)
{
    struct slice method = slice_of(list->items[i]);

    if (i == METHODS_MAX)
        return "too many entries";
    if (!http1_is_token(method) || method.len > METHOD_MAX)
        return "expected a method such as GET, of at most 32 characters";
    if (slice_is(method, "CONNECT"))
        return "not supported by a reverse proxy";
    return methods_have(&(struct text_list){list->items, i}, method) ? "is a duplicate" : NULL;
}

void methods_put(const struct text_list *list, struct text *out)
{
    for (size_t i = 0; i < list->n; ++i) {
        if (i != 0)
            text_add(out, SLICE_LIT(", "));
        text_add(out, slice_of(list->items[i]));
    }
}
