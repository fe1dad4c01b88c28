/* SPDX-License-Identifier: Apache-2.0
 *
 * The key of a variant and its comparison are one piece of code: a request matches a key when the
 * key that its own fields give, for the names in that key, is the same.
 *
 *     names (of Vary, or of the key) + those that always count -> sorted, each once -> lines
 */
#include "common/wire/cache_rules.h"
#include "common/wire/http1_bytes.h"

/*
 * By these a proxy tells an application where it is seen from, and applications make links and
 * decisions of them without saying so in Vary. The client's pass to the worker when the
 * configuration trusts them.
 */
static const struct slice always[] = {
    {"forwarded", 9},
    {"x-forwarded-host", 16},
    {"x-forwarded-port", 16},
    {"x-forwarded-prefix", 18},
    {"x-forwarded-proto", 17},
    {"x-forwarded-scheme", 18},
    {"x-forwarded-server", 18},
    {"x-host", 6},
    {"x-http-method", 13},
    {"x-original-url", 14},
    {"x-http-method-override", 22},
    {"x-rewrite-url", 13},
};

/* The load balancer sets these differently for each request. */
static const struct slice ours[] = {{"x-request-id", 12}};
static const struct slice our_prefix = {"resumelb-", 9};

struct names {
    struct slice names[VARY_NAMES_MAX + ARRAY_LEN(always)];
    size_t n;
};

struct key {
    char bytes[VARIANT_KEY_MAX];
    size_t len;
};

/* In lower case and with '-' for '_': as memcmp. */
static int compare(struct slice a, struct slice b)
{
    for (size_t i = 0; i < a.len && i < b.len; ++i) {
        int difference =
            (unsigned char)http1_variable_byte(a.p[i]) - (unsigned char)http1_variable_byte(b.p[i]);

        if (difference != 0)
            return difference;
    }
    return a.len == b.len ? 0 : a.len < b.len ? -1 : 1;
}

/* Few names: by insertion. */
static void add_name(struct names *set, struct slice name)
{
    size_t at = set->n;

    for (size_t i = 0; i < set->n; ++i) {
        int order = compare(name, set->names[i]);

        if (order == 0)
            return;
        if (order < 0) {
            at = i;
            break;
        }
    }
    ASSERT(set->n < ARRAY_LEN(set->names));
    memmove(set->names + at + 1, set->names + at, (set->n - at) * sizeof(set->names[0]));
    set->names[at] = name;
    ++set->n;
}

static bool has(struct cache_fields f, struct slice name)
{
    for (size_t i = 0; i < f.n; ++i) {
        if (compare(f.fields[i].name, name) == 0)
            return true;
    }
    return false;
}

static void add_always(struct names *set, struct cache_fields request)
{
    for (size_t i = 0; i < ARRAY_LEN(always); ++i) {
        if (has(request, always[i]))
            add_name(set, always[i]);
    }
}

static bool is_ours(struct slice name)
{
    if (name.len >= our_prefix.len &&
        compare((struct slice){name.p, our_prefix.len}, our_prefix) == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(ours); ++i) {
        if (compare(name, ours[i]) == 0)
            return true;
    }
    return false;
}

/* One Vary line (RFC 9110 12.5.5). */
static enum cache_refusal add_vary(struct slice line, struct names *set, size_t *count)
{
    while (line.len != 0) {
        struct slice name = slice_trim(slice_cut(&line, ','));

        if (name.len == 0)
            continue;
        if (slice_is(name, "*"))
            return CACHE_REFUSAL_VARY_ALL;
        if (!http1_is_token(name))
            return CACHE_REFUSAL_RESPONSE_MALFORMED;
        if (is_ours(name))
            return CACHE_REFUSAL_VARY_OURS;
        if (++*count > VARY_NAMES_MAX)
            return CACHE_REFUSAL_VARY_TOO_LARGE;
        add_name(set, name);
    }
    return CACHE_OK;
}

static enum cache_refusal vary_of(struct cache_fields response, struct names *set)
{
    size_t bytes = 0;
    size_t count = 0;

    for (size_t i = 0; i < response.n; ++i) {
        struct slice value = response.fields[i].value;

        if (!slice_eq_nocase(response.fields[i].name, SLICE_LIT("vary")))
            continue;
        bytes += value.len;
        if (bytes > VARY_BYTES_MAX)
            return CACHE_REFUSAL_VARY_TOO_LARGE;
        enum cache_refusal r = add_vary(value, set, &count);
        if (r != CACHE_OK)
            return r;
    }
    return CACHE_OK;
}

static bool put(struct key *k, struct slice s)
{
    if (s.len > sizeof(k->bytes) - k->len)
        return false;
    if (s.len != 0)
        memcpy(k->bytes + k->len, s.p, s.len);
    k->len += s.len;
    return true;
}

static bool put_name(struct key *k, struct slice name)
{
    size_t start = k->len;

    if (!put(k, name))
        return false;
    for (size_t i = start; i < k->len; ++i)
        k->bytes[i] = http1_variable_byte(k->bytes[i]);
    return true;
}

/* The values of NAME. HTTP/2 clients may send a cookie in pieces (RFC 9113 8.2.3). */
static enum cache_refusal put_values(struct key *k, struct slice name, struct cache_fields request)
{
    struct slice glue = compare(name, SLICE_LIT("cookie")) == 0 ? SLICE_LIT("; ") : SLICE_LIT(", ");
    bool first = true;

    for (size_t i = 0; i < request.n; ++i) {
        struct slice value = slice_trim(request.fields[i].value);

        if (compare(request.fields[i].name, name) != 0)
            continue;
        /* It must not look like the next line. */
        if (!http1_is_text(value))
            return CACHE_REFUSAL_REQUEST_MALFORMED;
        if (!put(k, first ? SLICE_LIT("=") : glue) || !put(k, value))
            return CACHE_REFUSAL_VARY_TOO_LARGE;
        first = false;
    }
    return put(k, SLICE_LIT("\n")) ? CACHE_OK : CACHE_REFUSAL_VARY_TOO_LARGE;
}

static enum cache_refusal make_key(const struct names *set, struct cache_fields request,
                                   struct key *k)
{
    k->len = 0;
    for (size_t i = 0; i < set->n; ++i) {
        if (!put_name(k, set->names[i]))
            return CACHE_REFUSAL_VARY_TOO_LARGE;
        enum cache_refusal r = put_values(k, set->names[i], request);
        if (r != CACHE_OK)
            return r;
    }
    return CACHE_OK;
}

enum cache_refusal cache_variant_key(struct cache_fields response, struct cache_fields request,
                                     struct text *out)
{
    struct names set = {.n = 0};
    struct key k;
    enum cache_refusal r = vary_of(response, &set);

    if (r != CACHE_OK)
        return r;
    add_always(&set, request);
    r = make_key(&set, request, &k);
    if (r == CACHE_OK)
        text_add(out, (struct slice){k.bytes, k.len});
    return r;
}

bool cache_variant_matches(struct slice key, struct cache_fields request)
{
    struct names set = {.n = 0};
    struct slice rest = key;
    struct key k;

    while (rest.len != 0) {
        struct slice line = slice_cut(&rest, '\n');

        add_name(&set, (struct slice){line.p, http1_token_length(line)});
    }
    add_always(&set, request);
    return make_key(&set, request, &k) == CACHE_OK && slice_eq(key, (struct slice){k.bytes, k.len});
}
