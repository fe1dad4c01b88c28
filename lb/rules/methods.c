/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/methods.h"

#include <stdio.h>

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
        return "too many entries";
    if (!http1_is_token(method) || method.len > METHOD_MAX)
        return "expected a method such as GET, of at most 32 characters";
    if (slice_is(method, "CONNECT"))
        return "not supported by a reverse proxy";
    return listed(list, i, method) ? "is a duplicate" : NULL;
}

bool methods_check(const struct text_list *list, size_t *at, char why[SETTINGS_WHY_ROOM])
{
    *at = 0;
    if (list->n == 0)
        snprintf(why, SETTINGS_WHY_ROOM, "methods: at least one is required");
    return list->n != 0 && settings_list_check("methods", list, problem_of, at, why);
}

bool methods_have(const struct text_list *list, struct slice method)
{
    return listed(list, list->n, method);
}

void methods_put(const struct text_list *list, struct text *out)
{
    for (size_t i = 0; i < list->n; ++i) {
        if (i != 0)
            text_add(out, SLICE_LIT(", "));
        text_add(out, slice_of(list->items[i]));
    }
}
