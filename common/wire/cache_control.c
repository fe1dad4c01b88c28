/* SPDX-License-Identifier: Apache-2.0
 *
 * Cache-Control, directive by directive (RFC 9111 5.2, RFC 9110 5.6.1 lists, 5.6.4 quoted strings):
 *
 *     line -> [blanks and commas] name [= token or "string"] [blanks] -> , or end
 *
 * The names we know are rows of a table; others are read over. What does not fit the grammar marks
 * all of it: a directive that forbids could be hidden in it.
 */
#include "common/wire/cache_rules.h"
#include "common/wire/http1_bytes.h"

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
#define DIRECTIVE(text, kind, member)                                                              \
    {                                                                                              \
        {text, sizeof(text) - 1}, kind, offsetof(struct cache_control, member)                     \
    }
    DIRECTIVE("no-store", DIRECTIVE_FLAG, no_store),
    DIRECTIVE("no-cache", DIRECTIVE_FLAG, no_cache),
    DIRECTIVE("private", DIRECTIVE_FLAG, private_),
    DIRECTIVE("public", DIRECTIVE_FLAG, public_),
    DIRECTIVE("must-revalidate", DIRECTIVE_FLAG, must_revalidate),
    DIRECTIVE("proxy-revalidate", DIRECTIVE_FLAG, proxy_revalidate),
    DIRECTIVE("must-understand", DIRECTIVE_FLAG, must_understand),
    DIRECTIVE("only-if-cached", DIRECTIVE_FLAG, only_if_cached),
    DIRECTIVE("max-age", DIRECTIVE_LEAST, max_age_s),
    DIRECTIVE("s-maxage", DIRECTIVE_LEAST, s_maxage_s),
    DIRECTIVE("stale-if-error", DIRECTIVE_LEAST, stale_if_error_s),
    DIRECTIVE("max-stale", DIRECTIVE_OPTIONAL, max_stale_s),
    DIRECTIVE("min-fresh", DIRECTIVE_MOST, min_fresh_s),
#undef DIRECTIVE
};

static void skip(struct slice *s, size_t n)
{
    s->p += n;
    s->len -= n;
}

static void skip_blanks(struct slice *s)
{
    while (s->len != 0 && (s->p[0] == ' ' || s->p[0] == '\t'))
        skip(s, 1);
}

static bool all_digits(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    }
    return s.len != 0;
}

/* RFC 9111 1.2.2: a number too large to be kept is the largest. False: it is none. */
static bool parse_seconds(struct slice s, uint32_t *out)
{
    uint64_t v;

    if (parse_u64(s, CACHE_SECONDS_MAX, &v)) {
        *out = (uint32_t)v;
        return true;
    }
    *out = CACHE_SECONDS_MAX;
    return all_digits(s);
}

/* ARGUMENT: p == NULL when there is none. */
static uint32_t seconds_of(enum directive_kind kind, struct slice argument)
{
    uint32_t v;

    if (argument.p == NULL && kind == DIRECTIVE_OPTIONAL)
        return CACHE_SECONDS_MAX;
    if (parse_seconds(argument, &v))
        return v;
    return kind == DIRECTIVE_MOST ? CACHE_SECONDS_MAX : 0;
}

static void note(const struct directive *d, struct slice argument, struct cache_control *c)
{
    char *member = (char *)c + d->offset;

    if (d->kind == DIRECTIVE_FLAG) {
        const bool yes = true;

        memcpy(member, &yes, sizeof(yes));
        return;
    }
    uint32_t v = seconds_of(d->kind, argument);
    uint32_t before;

    memcpy(&before, member, sizeof(before));
    if (before != CACHE_SECONDS_NONE && (d->kind == DIRECTIVE_MOST ? v < before : v > before))
        v = before;
    memcpy(member, &v, sizeof(v));
}

/* The inside of a quoted string at the start of *S, which it leaves; escapes stay as they are. */
static bool take_quoted(struct slice *s, struct slice *out)
{
    size_t i = 1;

    while (i < s->len && s->p[i] != '"')
        i += s->p[i] == '\\' ? 2 : 1;
    if (i >= s->len)
        return false;
    *out = (struct slice){s->p + 1, i - 1};
    skip(s, i + 1);
    return true;
}

static bool take_argument(struct slice *s, struct slice *out)
{
    *out = SLICE_NULL;
    if (s->len == 0 || s->p[0] != '=')
        return true;
    skip(s, 1);
    if (s->len != 0 && s->p[0] == '"')
        return take_quoted(s, out);
    *out = (struct slice){s->p, http1_token_length(*s)};
    skip(s, out->len);
    return out->len != 0;
}

static bool take_directive(struct slice *s, struct cache_control *c)
{
    struct slice name = {s->p, http1_token_length(*s)};
    struct slice argument;

    skip(s, name.len);
    if (name.len == 0 || !take_argument(s, &argument))
        return false;
    skip_blanks(s);
    if (s->len != 0 && s->p[0] != ',')
        return false;
    for (size_t i = 0; i < ARRAY_LEN(directives); ++i) {
        if (slice_eq_nocase(name, directives[i].name)) {
            note(&directives[i], argument, c);
            break;
        }
    }
    return true;
}

static bool parse_line(struct slice s, size_t *count, struct cache_control *c)
{
    for (;;) {
        while (s.len != 0 && (s.p[0] == ',' || s.p[0] == ' ' || s.p[0] == '\t'))
            skip(&s, 1);
        if (s.len == 0)
            return true;
        if (++*count > CACHE_DIRECTIVES_MAX || !take_directive(&s, c))
            return false;
    }
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
        if (bytes > CACHE_CONTROL_BYTES_MAX || !http1_is_text(value) ||
            !parse_line(value, &count, out)) {
            out->malformed = true;
            return;
        }
    }
}
