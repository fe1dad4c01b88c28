/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/config/private_headers.h"

#include <stdio.h>
#include <string.h>

#include "common/wire/http1_bytes.h"
#include "lb/rules/header_rules.h"

static bool is_listed(const struct text_list *list, size_t n, struct slice name)
{
    for (size_t i = 0; i < n; ++i) {
        if (header_names_same(name, slice_of(list->items[i])))
            return true;
    }
    return false;
}

/* Why NAME would have no effect, or too much; NULL: it is valid. */
static const char *conflict(struct slice name)
{
    switch (http_field_of(name)) {
    case FIELD_HOP:
    case FIELD_CONNECTION:
    case FIELD_FRAMING:
    case FIELD_OURS:
        return "is not a field of the client's";
    case FIELD_FOR:
    case FIELD_PROTO:
    case FIELD_FORWARDED_HOST:
    case FIELD_REQUEST_ID:
        return "is set by the load balancer in every request";
    case FIELD_COOKIE:
        return "is governed by copy_with_cookies";
    case FIELD_CLIENT_CERTIFICATE:
        return "is governed by copy_with_certificates";
    case FIELD_OTHER:
    case FIELD_FORWARDED:
    case FIELD_CLAIM:
    case FIELD_DATE:
    case FIELD_SERVER:
    case FIELD_REFERER:
    case FIELD_USER_AGENT:
        break;
    }
    return header_names_same(name, SLICE_LIT("via"))
               ? "is set by the load balancer in every request"
               : NULL;
}

static const char *problem_of(const struct text_list *list, size_t i)
{
    struct slice name = slice_of(list->items[i]);

    if (i == CACHE_NAMES_MAX)
        return "more than 128 names";
    if (name.len > PRIVATE_HEADER_MAX || !http1_is_token(name))
        return "is not a valid header field name (at most 128 characters)";
    if (is_listed(list, i, name))
        return "duplicate name ('_' counts as '-')";
    return conflict(name);
}

bool private_headers_check(const struct text_list *list, size_t *at, char why[SETTINGS_WHY_ROOM])
{
    for (size_t i = 0; i < list->n; ++i) {
        const char *problem = problem_of(list, i);

        if (problem == NULL)
            continue;
        *at = i;
        snprintf(why, SETTINGS_WHY_ROOM, "private_headers: %.40s: %s", list->items[i], problem);
        return false;
    }
    return true;
}

void private_headers_take(const struct text_list *list, struct cache_names *out)
{
    ASSERT(list->n <= CACHE_NAMES_MAX);
    out->n = list->n;
    for (size_t i = 0; i < list->n; ++i)
        out->names[i] = slice_of(list->items[i]);
}

bool private_headers_same(const struct text_list *a, const struct text_list *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; ++i) {
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    }
    return true;
}
