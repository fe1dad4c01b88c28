/* SPDX-License-Identifier: Apache-2.0
 *
 * A response and two requests, as fields, a line each, with an empty line between the messages; the
 * first two bytes are the status. What may be shared keeps to the rules however it is written: one
 * word that forbids is enough, in any place; numbers stay within their bounds; and a variant's key
 * fits a request exactly when that request would get the same key.
 */
#include "common/wire/cache_rules.h"

#include "common/wire/http1_bytes.h"
#include "tests/fuzz/fuzz.h"

/* 2026-03-01 */
static const int64_t now_s = 1772366400;

struct message {
    struct message_field fields[RESPONSE_HEADERS_MAX];
    size_t n;
};

/* Leaves room for one more field. Skips lines that http1_split_header() rejects, which never get
 * this far in the programs. */
static struct cache_fields take_message(struct slice *rest, struct message *m)
{
    m->n = 0;
    while (rest->len != 0) {
        struct slice line = slice_cut(rest, '\n');
        struct message_field *h = &m->fields[m->n];

        if (line.len == 0)
            break;
        if (m->n == RESPONSE_HEADERS_MAX - 1 || !http1_split_header(line, &h->name, &h->value))
            continue;
        h->kind = http_field_kind(h->name);
        ++m->n;
    }
    return (struct cache_fields){m->fields, m->n};
}

static struct cache_fields with(struct message *m, struct slice name, struct slice value)
{
    m->fields[m->n] =
        (struct message_field){.name = name, .value = value, .kind = http_field_kind(name)};
    return (struct cache_fields){m->fields, m->n + 1};
}

static bool has(struct cache_fields f, const char *name)
{
    for (size_t i = 0; i < f.n; ++i) {
        if (slice_eq_nocase(f.fields[i].name, slice_of(name)))
            return true;
    }
    return false;
}

static void check_seconds(uint32_t s)
{
    ASSERT(s <= CACHE_SECONDS_MAX || s == CACHE_SECONDS_NONE);
}

static void check_control(struct message *m)
{
    struct cache_control c;
    struct cache_control more;

    cache_control_parse((struct cache_fields){m->fields, m->n}, &c);
    check_seconds(c.max_age_s);
    check_seconds(c.s_maxage_s);
    check_seconds(c.max_stale_s);
    check_seconds(c.min_fresh_s);
    check_seconds(c.stale_if_error_s);
    cache_control_parse(with(m, SLICE_LIT("cache-control"), SLICE_LIT("no-store, max-age=0")),
                        &more);
    ASSERT(more.malformed || (more.no_store && more.max_age_s == 0));
    ASSERT(more.malformed || !c.malformed);
    ASSERT(more.malformed || more.private_ == c.private_);
}

static void check_request(struct message *m)
{
    static const char *const forbidden[] = {"authorization",     "range",
                                            "if-match",          "if-none-match",
                                            "if-modified-since", "if-unmodified-since",
                                            "if-range",          "expect",
                                            "upgrade",           "transfer-encoding",
                                            "x-api-key"};
    static const struct cache_names names = {1, {{"X_Api_Key", 9}}};
    static const struct cache_policy strict = {.private_fields = &names};
    static const struct cache_policy lax = {true, true, &names};
    struct cache_request r = {.method = SLICE_LIT("GET"), .fields = {m->fields, m->n}};
    struct cache_wish wish;

    if (!cache_check_request(&r, &lax, &wish)) {
        ASSERT(!cache_check_request(&r, &strict, &wish));
        return;
    }
    ASSERT(!cache_has_user(r.fields, &lax));
    if (cache_check_request(&r, &strict, &wish)) {
        ASSERT(!has(r.fields, "cookie"));
        r.fields = with(m, SLICE_LIT("X-SSL-Client-S-DN"), SLICE_LIT("x"));
        ASSERT(!cache_check_request(&r, &strict, &wish));
    }
    r.fields.n = m->n;
    for (size_t i = 0; i < ARRAY_LEN(forbidden); ++i) {
        ASSERT(!has(r.fields, forbidden[i]));
        r.fields = with(m, slice_of(forbidden[i]), SLICE_LIT("x"));
        ASSERT(!cache_check_request(&r, &lax, &wish));
        r.fields.n = m->n;
    }
    r.fields = with(m, SLICE_LIT("Cache-Control"), SLICE_LIT("no-cache"));
    ASSERT(!cache_check_request(&r, &lax, &wish));
    check_seconds(wish.max_age_s);
}

static bool response_to(int status, struct cache_fields f, struct cache_facts *facts)
{
    struct cache_response r = {.status = status, .fields = f, .received_s = now_s, .delay_s = 1};

    return cache_check_response(&r, facts);
}

static void check_response(int status, struct message *m)
{
    static const char *const forbidding[] = {"private", "no-cache", "no-cache=\"a\"",
                                             "private=\"b\"", "\""};
    static const struct cache_wish no_wish = {CACHE_SECONDS_NONE, CACHE_SECONDS_NONE,
                                              CACHE_SECONDS_NONE};
    struct cache_fields fields = {m->fields, m->n};
    struct cache_facts facts;
    struct cache_facts other;

    if (!response_to(status, fields, &facts))
        return;
    ASSERT(status >= 200 && status != 206 && status != 304);
    ASSERT(!has(fields, "set-cookie"));
    ASSERT(facts.age_s >= 1);
    ASSERT(facts.age_s <= CACHE_SECONDS_MAX);
    ASSERT(facts.lifetime_s <= CACHE_SECONDS_MAX);
    check_seconds(facts.stale_s);
    ASSERT(cache_may_share(&facts, facts.age_s));
    /* What has grown too old does not become good again. */
    if (!cache_may_serve_stale(&facts, &no_wish, facts.age_s))
        ASSERT(!cache_may_serve_stale(&facts, &no_wish, (uint64_t)facts.age_s + 1000));
    for (size_t i = 0; i < ARRAY_LEN(forbidding); ++i)
        ASSERT(!response_to(status, with(m, SLICE_LIT("cache-control"), slice_of(forbidding[i])),
                            &other));
    ASSERT(!response_to(status, with(m, SLICE_LIT("set-cookie"), SLICE_LIT("a=b")), &other));
    if (response_to(status, with(m, SLICE_LIT("cache-control"), SLICE_LIT("must-revalidate")),
                    &other))
        ASSERT(other.lifetime_s > other.age_s);
}

static void check_variant(struct cache_fields response, struct cache_fields a,
                          struct cache_fields b)
{
    struct text key = {0};
    struct text other = {0};

    if (!cache_variant_key(response, a, &key)) {
        ASSERT(key.len == 0);
        return;
    }
    ASSERT(key.len <= VARIANT_KEY_MAX);
    ASSERT(cache_variant_matches(text_slice(&key), a));
    bool same =
        cache_variant_key(response, b, &other) && slice_eq(text_slice(&key), text_slice(&other));
    ASSERT(cache_variant_matches(text_slice(&key), b) == same);
    text_fini(&key);
    text_fini(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct message response;
    static struct message first;
    static struct message second;
    struct text none = {0};

    if (size < 2)
        return 0;
    int status = 100 + (data[0] << 8 | data[1]) % 900;
    struct slice rest = {(const char *)data + 2, size - 2};
    struct cache_fields r = take_message(&rest, &response);
    struct cache_fields a = take_message(&rest, &first);
    struct cache_fields b = take_message(&rest, &second);
    check_control(&response);
    check_control(&first);
    check_response(status, &response);
    check_request(&first);
    check_request(&second);
    check_variant(r, a, b);
    ASSERT(!cache_variant_key(with(&response, SLICE_LIT("vary"), SLICE_LIT("*")), a, &none));
    ASSERT(none.len == 0);
    return 0;
}
