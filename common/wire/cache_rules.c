/* SPDX-License-Identifier: Apache-2.0
 *
 * Section numbers refer to RFC 9111.
 */
#include "common/wire/cache_rules.h"
#include "common/wire/http1_bytes.h"
#include "common/wire/http_date.h"

/* ---- Cache-Control ---- */

/*
 * Directive by directive (RFC 9111 5.2, RFC 9110 5.6.1 lists, 5.6.4 quoted strings):
 *
 *     line -> [blanks and commas] name [= token or "string"] [blanks] -> , or end
 *
 * Known names are rows of a table; others are skipped. Input that does not fit the grammar makes
 * all fields malformed, because it could hide a directive that forbids sharing.
 */

enum directive_kind {
    DIRECTIVE_FLAG,     /* with an argument or without */
    DIRECTIVE_LEAST,    /* seconds, the smallest of several; malformed ones are 0 */
    DIRECTIVE_MOST,     /* seconds, the largest; malformed ones are SECONDS_MAX */
    DIRECTIVE_OPTIONAL, /* as LEAST, but without an argument it is SECONDS_MAX */
};

static const struct directive {
    struct slice name;
    enum directive_kind kind;
    size_t offset; /* in struct cache_control */
} directives[] = {
    {{"no-store", 8}, DIRECTIVE_FLAG, offsetof(struct cache_control, no_store)},
    {{"no-cache", 8}, DIRECTIVE_FLAG, offsetof(struct cache_control, no_cache)},
    {{"private", 7}, DIRECTIVE_FLAG, offsetof(struct cache_control, private_)},
    {{"public", 6}, DIRECTIVE_FLAG, offsetof(struct cache_control, public_)},
    {{"must-revalidate", 15}, DIRECTIVE_FLAG, offsetof(struct cache_control, must_revalidate)},
    {{"proxy-revalidate", 16}, DIRECTIVE_FLAG, offsetof(struct cache_control, proxy_revalidate)},
    {{"must-understand", 15}, DIRECTIVE_FLAG, offsetof(struct cache_control, must_understand)},
    {{"max-age", 7}, DIRECTIVE_LEAST, offsetof(struct cache_control, max_age_s)},
    {{"s-maxage", 8}, DIRECTIVE_LEAST, offsetof(struct cache_control, s_maxage_s)},
    {{"stale-if-error", 14}, DIRECTIVE_LEAST, offsetof(struct cache_control, stale_if_error_s)},
    {{"max-stale", 9}, DIRECTIVE_OPTIONAL, offsetof(struct cache_control, max_stale_s)},
    {{"min-fresh", 9}, DIRECTIVE_MOST, offsetof(struct cache_control, min_fresh_s)},
};

/* RFC 9111 1.2.2: a number that is too large is the largest. False: it is none. */
static bool parse_seconds(struct slice s, uint32_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        v = v * 10 + (uint64_t)(s.p[i] - '0');
        if (v > CACHE_SECONDS_MAX)
            v = CACHE_SECONDS_MAX;
    }
    *out = (uint32_t)v;
    return s.len != 0;
}

/* Takes "=argument" off *S: a token, or the inside of a quoted string, in which escapes stay as
 * they are. OUT->p is NULL if there is none. */
static bool take_argument(struct slice *s, struct slice *out)
{
    size_t i = 1;

    *out = SLICE_NULL;
    if (s->len == 0 || s->p[0] != '=')
        return true;
    slice_take(s, 1);
    if (s->len == 0 || s->p[0] != '"') {
        *out = slice_take(s, http1_token_length(*s));
        return out->len != 0;
    }
    while (i < s->len && s->p[i] != '"')
        i += s->p[i] == '\\' ? 2 : 1;
    if (i >= s->len)
        return false;
    *out = (struct slice){s->p + 1, i - 1};
    slice_take(s, i + 1);
    return true;
}

static bool take_directive(struct slice *s, struct cache_control *c)
{
    const struct directive *d = directives;
    struct slice name = slice_take(s, http1_token_length(*s));
    struct slice argument;
    uint32_t v;

    if (name.len == 0 || !take_argument(s, &argument))
        return false;
    while (s->len != 0 && http1_is_blank(s->p[0]))
        slice_take(s, 1);
    if (s->len != 0 && s->p[0] != ',')
        return false;
    while (d != directives + ARRAY_LEN(directives) && !slice_eq_nocase(name, d->name))
        ++d;
    if (d == directives + ARRAY_LEN(directives))
        return true;
    void *member = (char *)c + d->offset;
    if (d->kind == DIRECTIVE_FLAG) {
        *(bool *)member = true;
        return true;
    }
    uint32_t *seconds = member;
    bool most = d->kind == DIRECTIVE_MOST;
    if (argument.p == NULL && d->kind == DIRECTIVE_OPTIONAL)
        v = CACHE_SECONDS_MAX;
    else if (!parse_seconds(argument, &v))
        v = most ? CACHE_SECONDS_MAX : 0;
    if (*seconds == CACHE_SECONDS_NONE || (most ? v > *seconds : v < *seconds))
        *seconds = v;
    return true;
}

void cache_control_parse(struct cache_fields f, struct cache_control *out)
{
    size_t bytes = 0;
    size_t count = 0;

    *out = (struct cache_control){
        .max_age_s = CACHE_SECONDS_NONE,
        .s_maxage_s = CACHE_SECONDS_NONE,
        .stale_if_error_s = CACHE_SECONDS_NONE,
        .max_stale_s = CACHE_SECONDS_NONE,
        .min_fresh_s = CACHE_SECONDS_NONE,
    };
    for (size_t i = 0; i < f.n; ++i) {
        struct slice value = f.fields[i].value;

        if (!slice_eq_nocase(f.fields[i].name, SLICE_LIT("cache-control")))
            continue;
        bytes += value.len;
        out->malformed = bytes > CACHE_CONTROL_BYTES_MAX || !http1_is_text(value);
        while (!out->malformed) {
            while (value.len != 0 && (value.p[0] == ',' || http1_is_blank(value.p[0])))
                slice_take(&value, 1);
            if (value.len == 0)
                break;
            out->malformed = ++count > CACHE_DIRECTIVES_MAX || !take_directive(&value, out);
        }
        if (out->malformed)
            return;
    }
}

/* ---- requests ---- */

/* Fields of a request that exclude it from sharing. */
static const struct slice unshared_fields[] = {
    {"transfer-encoding", 17},
    {"upgrade", 7},
    {"range", 5},
    {"if-match", 8},
    {"if-none-match", 13},
    {"if-modified-since", 17},
    {"if-unmodified-since", 19},
    {"if-range", 8},
    {"expect", 6},
};

/* Names as CGI-like interfaces see them, in lower case and with '-' for '_': as memcmp. */
static int cache_compare(struct slice a, struct slice b)
{
    for (size_t i = 0; i < a.len && i < b.len; ++i) {
        int difference =
            (unsigned char)http1_variable_byte(a.p[i]) - (unsigned char)http1_variable_byte(b.p[i]);

        if (difference != 0)
            return difference;
    }
    return a.len == b.len ? 0 : a.len < b.len ? -1 : 1;
}

static bool same_variable(struct slice a, struct slice b)
{
    return a.len == b.len && cache_compare(a, b) == 0;
}

static bool identifies_user(const struct message_field *h, const struct cache_policy *policy)
{
    const struct cache_names *names = policy->private_fields;

    /* 3.5 would allow some responses to these; a user that logs in gets its own. */
    if (same_variable(h->name, SLICE_LIT("authorization")) ||
        same_variable(h->name, SLICE_LIT("proxy-authorization")))
        return true;
    if (same_variable(h->name, SLICE_LIT("cookie")))
        return !policy->cookies;
    if (h->kind == FIELD_CLIENT_CERTIFICATE) {
        bool none =
            h->value.len == 0 || (same_variable(h->name, SLICE_LIT("x-ssl-client-verify")) &&
                                  slice_is(h->value, "NONE"));

        return !policy->certificates && !none;
    }
    if (names == NULL)
        return false;
    for (size_t i = 0; i < names->n; ++i) {
        if (same_variable(h->name, names->names[i]))
            return true;
    }
    return false;
}

bool cache_has_user(struct cache_fields fields, const struct cache_policy *policy)
{
    for (size_t i = 0; i < fields.n; ++i) {
        if (identifies_user(&fields.fields[i], policy))
            return true;
    }
    return false;
}

static bool is_unshared(const struct message_field *h)
{
    struct slice rest = h->value;

    if (slice_eq_nocase(h->name, SLICE_LIT("connection"))) {
        /* With anything but keep-alive and close, fields are named that the worker does not get,
         * so that what it has seen is not what the client has sent. */
        while (rest.len != 0) {
            struct slice token = slice_trim(slice_cut(&rest, ','));

            if (token.len != 0 && !slice_eq_nocase(token, SLICE_LIT("keep-alive")) &&
                !slice_eq_nocase(token, SLICE_LIT("close")))
                return true;
        }
        return false;
    }
    if (same_variable(h->name, SLICE_LIT("content-length")))
        return !slice_is(slice_trim(h->value), "0");
    /* 5.4: Pragma only counts without Cache-Control. Obeying it in any case is stricter. */
    if (same_variable(h->name, SLICE_LIT("pragma")))
        return http1_list_has(h->value, SLICE_LIT("no-cache"));
    for (size_t i = 0; i < ARRAY_LEN(unshared_fields); ++i) {
        if (same_variable(h->name, unshared_fields[i]))
            return true;
    }
    return false;
}

bool cache_check_request(const struct cache_request *request, const struct cache_policy *policy,
                         struct cache_wish *wish)
{
    struct cache_control c;

    if (!slice_is(request->method, "GET") || request->body || request->upgrade ||
        cache_has_user(request->fields, policy))
        return false;
    for (size_t i = 0; i < request->fields.n; ++i) {
        if (is_unshared(&request->fields.fields[i]))
            return false;
    }
    cache_control_parse(request->fields, &c);
    *wish = (struct cache_wish){c.max_age_s, c.max_stale_s, c.min_fresh_s};
    return !c.no_store && !c.no_cache && !c.malformed;
}

bool cache_invalidates(struct slice method, int status)
{
    bool safe = slice_is(method, "GET") || slice_is(method, "HEAD") ||
                slice_is(method, "OPTIONS") || slice_is(method, "TRACE");

    /* 4.4: a method that is not known counts as unsafe; "non-error" is 2xx and 3xx. */
    return !safe && status >= 200 && status < 400;
}

/* ---- responses ---- */

/* RFC 9110 15.1; 206 requires support of ranges, which are not supported. */
static bool is_heuristically_cacheable(int status)
{
    static const int statuses[] = {200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501};

    for (size_t i = 0; i < ARRAY_LEN(statuses); ++i) {
        if (statuses[i] == status)
            return true;
    }
    return false;
}

/* Whether the caching rules of STATUS are implemented (5.2.2.3). */
static bool is_understood(int status)
{
    return is_heuristically_cacheable(status) || status == 302 || status == 303 || status == 307;
}

struct response_facts {
    struct cache_control control;
    bool has_date, has_expires, has_age, sets_cookie;
    int64_t date_s, expires_s; /* of several Expires the earliest; a malformed one is in the past */
    uint32_t age_s;
};

static uint32_t clip_seconds(int64_t s)
{
    return s < CACHE_SECONDS_MAX ? (uint32_t)(s > 0 ? s : 0) : CACHE_SECONDS_MAX;
}

static void note_field(const struct message_field *h, int64_t now_s, struct response_facts *f)
{
    struct slice value = h->value;
    uint32_t age_s;
    int64_t at;

    if (slice_eq_nocase(h->name, SLICE_LIT("set-cookie"))) {
        f->sets_cookie = true;
    } else if (slice_eq_nocase(h->name, SLICE_LIT("date"))) {
        if (!f->has_date)
            f->has_date = http_date_parse(value, now_s, &f->date_s);
    } else if (slice_eq_nocase(h->name, SLICE_LIT("expires"))) {
        /* 5.3: "0" and the like mean that it has expired. */
        if (!http_date_parse(value, now_s, &at))
            at = INT64_MIN / 2;
        if (!f->has_expires || at < f->expires_s)
            f->expires_s = at;
        f->has_expires = true;
    } else if (slice_eq_nocase(h->name, SLICE_LIT("age"))) {
        /* 5.1: the first element of a list counts; a value that is not a number is ignored. */
        if (!f->has_age && parse_seconds(slice_trim(slice_cut(&value, ',')), &age_s))
            f->age_s = age_s;
        f->has_age = true;
    }
}

static bool is_cacheable(int status, const struct response_facts *f)
{
    const struct cache_control *c = &f->control;
    /* Section 3: directives that make a response cacheable although its status is not by default.
     */
    bool is_explicit = c->public_ || c->max_age_s != CACHE_SECONDS_NONE ||
                       c->s_maxage_s != CACHE_SECONDS_NONE || f->has_expires;

    if (status < 200 || status == 206 || status == 304)
        return false;
    /* Server errors are not shared: the next worker may succeed, and an error must not replace the
     * last good response. 501 is caused by the method. */
    if (status >= 500 && status != 501)
        return false;
    if (!is_heuristically_cacheable(status) && !is_explicit)
        return false;
    /* 5.2.2.3: with must-understand, no-store is for caches that do not know the status. */
    if (c->must_understand ? !is_understood(status) : c->no_store)
        return false;
    return !c->malformed && !c->no_cache && !c->private_ && !f->sets_cookie;
}

bool cache_check_response(const struct cache_response *r, struct cache_facts *facts)
{
    struct response_facts f = {0};
    const struct cache_control *c = &f.control;

    cache_control_parse(r->fields, &f.control);
    for (size_t i = 0; i < r->fields.n; ++i)
        note_field(&r->fields.fields[i], r->received_s, &f);
    /* 4.2.3 */
    uint32_t apparent_s = f.has_date ? clip_seconds(r->received_s - f.date_s) : 0;
    uint32_t corrected_s = clip_seconds((int64_t)f.age_s + r->delay_s);
    *facts = (struct cache_facts){
        .age_s = apparent_s > corrected_s ? apparent_s : corrected_s,
        .lifetime_s = c->s_maxage_s != CACHE_SECONDS_NONE ? c->s_maxage_s : c->max_age_s,
        .must_validate =
            c->must_revalidate || c->proxy_revalidate || c->s_maxage_s != CACHE_SECONDS_NONE,
        .good = is_understood(r->status),
        .stale_s = c->stale_if_error_s,
    };
    /* 4.2.1; a response without an explicit lifetime is not given a heuristic one. */
    if (facts->lifetime_s == CACHE_SECONDS_NONE)
        facts->lifetime_s =
            f.has_expires ? clip_seconds(f.expires_s - (f.has_date ? f.date_s : r->received_s)) : 0;
    return is_cacheable(r->status, &f) && cache_may_share(facts, facts->age_s);
}

/* ---- use ---- */

bool cache_may_share(const struct cache_facts *f, uint64_t age_s)
{
    return !f->must_validate || f->lifetime_s > age_s;
}

bool cache_may_serve_stale(const struct cache_facts *f, const struct cache_wish *wish,
                           uint64_t age_s)
{
    bool fresh = f->lifetime_s > age_s;
    uint64_t over_s = fresh ? 0 : age_s - f->lifetime_s;

    if (!f->good)
        return false;
    if (!fresh && (f->must_validate || (f->stale_s != CACHE_SECONDS_NONE && over_s > f->stale_s)))
        return false;
    /* 5.2.1: max-age narrows the response's own lifetime, max-stale permits exceeding it. */
    if (wish->min_fresh_s != CACHE_SECONDS_NONE &&
        (!fresh || f->lifetime_s - age_s < wish->min_fresh_s))
        return false;
    if (wish->max_age_s != CACHE_SECONDS_NONE && age_s > wish->max_age_s) {
        fresh = false;
        over_s = over_s > age_s - wish->max_age_s ? over_s : age_s - wish->max_age_s;
    }
    if (fresh)
        return true;
    if (wish->max_stale_s == CACHE_SECONDS_NONE)
        return wish->max_age_s == CACHE_SECONDS_NONE;
    return over_s <= wish->max_stale_s;
}

/* ---- variants ---- */

/*
 * The key of a variant and its comparison are one piece of code: a request matches a key when the
 * key that its own fields give, for the names in that key, is the same.
 *
 *     names (of Vary, or of the key) + those that always count -> sorted, each once -> lines
 */

/*
 * By these fields a proxy informs an application of its external address, and applications derive
 * links and decisions from them without listing them in Vary. Those of clients are passed to the
 * worker if the configuration trusts them.
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

struct vary_names {
    struct slice names[VARY_NAMES_MAX + ARRAY_LEN(always)];
    size_t n;
};

struct key {
    char bytes[VARIANT_KEY_MAX];
    size_t len;
};

/* Inserts NAME in order, unless it is there already. There are few names. */
static void add_name(struct vary_names *set, struct slice name)
{
    size_t at = 0;
    int order = 1;

    for (; at < set->n; ++at) {
        order = cache_compare(name, set->names[at]);
        if (order <= 0)
            break;
    }
    if (order == 0)
        return;
    ASSERT(set->n < ARRAY_LEN(set->names));
    memmove(set->names + at + 1, set->names + at, (set->n - at) * sizeof(set->names[0]));
    set->names[at] = name;
    ++set->n;
}

static bool vary_of(struct cache_fields response, struct vary_names *set)
{
    size_t bytes = 0;
    size_t count = 0;

    for (size_t i = 0; i < response.n; ++i) {
        struct slice line = response.fields[i].value;

        if (!slice_eq_nocase(response.fields[i].name, SLICE_LIT("vary")))
            continue;
        bytes += line.len;
        if (bytes > VARY_BYTES_MAX)
            return false;
        while (line.len != 0) { /* RFC 9110 12.5.5 */
            struct slice name = slice_trim(slice_cut(&line, ','));

            if (name.len == 0)
                continue;
            /* The load balancer sets some differently for each request. */
            enum http_field kind = http_field_kind(name);
            if (slice_is(name, "*") || !http1_is_token(name) || kind == FIELD_OURS ||
                kind == FIELD_REQUEST_ID || ++count > VARY_NAMES_MAX)
                return false;
            add_name(set, name);
        }
    }
    return true;
}

static bool key_append(struct key *k, struct slice s)
{
    if (s.len > sizeof(k->bytes) - k->len)
        return false;
    if (s.len != 0)
        memcpy(k->bytes + k->len, s.p, s.len);
    k->len += s.len;
    return true;
}

/* Of the names in SET, and those that always count. */
static bool cache_make_key(struct vary_names *set, struct cache_fields request, struct key *k)
{
    for (size_t i = 0; i < ARRAY_LEN(always); ++i) {
        for (size_t at = 0; at < request.n; ++at) {
            if (same_variable(request.fields[at].name, always[i]))
                add_name(set, always[i]);
        }
    }
    k->len = 0;
    for (size_t i = 0; i < set->n; ++i) {
        struct slice name = set->names[i];
        /* HTTP/2 clients may send a cookie in pieces (RFC 9113 8.2.3). */
        bool cookie = same_variable(name, SLICE_LIT("cookie"));
        struct slice glue = SLICE_LIT("=");
        size_t start = k->len;

        if (!key_append(k, name))
            return false;
        for (size_t at = start; at < k->len; ++at)
            k->bytes[at] = http1_variable_byte(k->bytes[at]);
        for (size_t at = 0; at < request.n; ++at) {
            struct slice value = slice_trim(request.fields[at].value);

            if (!same_variable(request.fields[at].name, name))
                continue;
            /* A line end in the value could imitate another line of the key. */
            if (!http1_is_text(value))
                return false;
            if (!key_append(k, glue) || !key_append(k, value))
                return false;
            glue = cookie ? SLICE_LIT("; ") : SLICE_LIT(", ");
        }
        if (!key_append(k, SLICE_LIT("\n")))
            return false;
    }
    return true;
}

bool cache_variant_key(struct cache_fields response, struct cache_fields request, struct text *out)
{
    struct vary_names set = {.n = 0};
    struct key k;
    bool good = vary_of(response, &set) && cache_make_key(&set, request, &k);

    if (good)
        text_add(out, (struct slice){k.bytes, k.len});
    return good;
}

bool cache_variant_matches(struct slice key, struct cache_fields request)
{
    struct vary_names set = {.n = 0};
    struct slice rest = key;
    struct key k;

    while (rest.len != 0) {
        struct slice line = slice_cut(&rest, '\n');

        add_name(&set, (struct slice){line.p, http1_token_length(line)});
    }
    return cache_make_key(&set, request, &k) && slice_eq(key, (struct slice){k.bytes, k.len});
}
