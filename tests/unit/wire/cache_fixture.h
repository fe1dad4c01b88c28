/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages for tests of the rules for shared responses: fields as text, a line each.
 */
#pragma once

#include "common/wire/cache_rules.h"
#include "common/wire/http1_bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Sun, 01 Mar 2026 12:00:00 GMT */
#define NOW_S INT64_C(1772366400)

enum { FIELDS_MAX = 120 };

struct message {
    struct message_field fields[FIELDS_MAX];
    size_t n;
};

/* TEXT: "Name: value\n..."; the last line may lack its end. Borrowed. */
static inline struct cache_fields fields_of(struct message *m, const char *text)
{
    struct slice rest = slice_of(text);

    m->n = 0;
    while (rest.len != 0) {
        struct slice line = slice_cut(&rest, '\n');
        struct slice name = slice_cut(&line, ':');

        assert_true(m->n < FIELDS_MAX);
        m->fields[m->n++] = (struct message_field){
            .name = name, .value = slice_trim(line), .kind = http_field_of(name)};
    }
    return (struct cache_fields){m->fields, m->n};
}

static inline struct cache_request request_of(struct message *m, const char *text)
{
    return (struct cache_request){.method = SLICE_LIT("GET"), .fields = fields_of(m, text)};
}

static const struct cache_policy cookies_allowed = {.cookies = true};

static inline bool check_request(const char *text, struct cache_wish *wish)
{
    struct message m;
    struct cache_request r = request_of(&m, text);

    return cache_check_request(&r, &cookies_allowed, wish);
}

static inline bool check_response(int status, const char *text, struct cache_facts *facts)
{
    struct message m;
    struct cache_response r = {
        .status = status, .fields = fields_of(&m, text), .received_s = NOW_S};

    return cache_check_response(&r, facts);
}

static inline struct cache_facts facts_of(const char *text)
{
    struct cache_facts facts;

    assert_true(check_response(200, text, &facts));
    return facts;
}
