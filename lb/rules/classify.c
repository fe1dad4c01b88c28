/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables are looked up by name: a table for the fixed ones, the header fields for HTTP_*. Most
 * values are bytes of the request itself. Those that have to be made (a decoded path, fields that
 * came several times, numbers) are stored in the environment's arena until the class is known.
 */
#include "lb/rules/classify.h"

#include "common/base/text.h"
#include "common/wire/http1_bytes.h"

#include <stdio.h>

static struct slice store_cstr(struct classify_environment *e, const char *s)
{
    size_t n = strlen(s);

    return (struct slice){memcpy(arena_take(&e->arena, n + 1), s, n + 1), n};
}

static struct slice store_number(struct classify_environment *e, uint64_t v)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
    return store_cstr(e, text);
}

/* As WSGI servers do it. */
static struct slice decode_percent(struct classify_environment *e, struct slice raw)
{
    if (slice_find(raw, '%') == SIZE_MAX)
        return raw;
    char *out = arena_take(&e->arena, raw.len);

    return (struct slice){out, percent_decode(raw, out, raw.len)};
}

bool header_names_same(struct slice a, struct slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; ++i) {
        if (http1_variable_byte(a.p[i]) != http1_variable_byte(b.p[i]))
            return false;
    }
    return true;
}

/* p == NULL means none, which is not the same as empty. */
static struct slice empty_if_null(struct slice s)
{
    return s.p != NULL ? s : SLICE_LIT("");
}

/* The fields named NAME as one value, in their order; p == NULL when there is none. */
static struct slice join_header(struct classify_environment *e, struct slice name)
{
    const struct classify_request *r = e->request;
    struct slice glue = slice_is(name, "COOKIE") ? SLICE_LIT("; ") : SLICE_LIT(",");
    struct slice field;
    struct slice value;
    struct slice only = SLICE_NULL;
    size_t found = 0;
    size_t bytes = 0;

    for (size_t i = 0; r->header(r->context, i, &field, &value); ++i) {
        if (!header_names_same(name, field))
            continue;
        only = empty_if_null(value);
        bytes += value.len + glue.len;
        ++found;
    }
    if (found < 2)
        return only;
    char *out = arena_take(&e->arena, bytes);
    size_t n = 0;

    for (size_t i = 0; r->header(r->context, i, &field, &value); ++i) {
        if (!header_names_same(name, field))
            continue;
        if (value.len != 0)
            memcpy(out + n, value.p, value.len);
        memcpy(out + n + value.len, glue.p, glue.len);
        n += value.len + glue.len;
    }
    return (struct slice){out, n - glue.len};
}

/* ---- the variables ---- */

enum variable {
    HTTP_HOST,
    PATH_INFO,
    METHOD,
    QUERY,
    SCRIPT_NAME,
    SERVER_NAME,
    SERVER_PORT,
    PROTOCOL,
    REMOTE_ADDR,
    REMOTE_PORT,
    CONTENT_TYPE,
    CONTENT_LENGTH,
    URL_SCHEME,
    VARIABLES
};

static const struct slice names[VARIABLES] = {
    [HTTP_HOST] = {"HTTP_HOST", 9},         [PATH_INFO] = {"PATH_INFO", 9},
    [METHOD] = {"REQUEST_METHOD", 14},      [QUERY] = {"QUERY_STRING", 12},
    [SCRIPT_NAME] = {"SCRIPT_NAME", 11},    [SERVER_NAME] = {"SERVER_NAME", 11},
    [SERVER_PORT] = {"SERVER_PORT", 11},    [PROTOCOL] = {"SERVER_PROTOCOL", 15},
    [REMOTE_ADDR] = {"REMOTE_ADDR", 11},    [REMOTE_PORT] = {"REMOTE_PORT", 11},
    [CONTENT_TYPE] = {"CONTENT_TYPE", 12},  [CONTENT_LENGTH] = {"CONTENT_LENGTH", 14},
    [URL_SCHEME] = {"wsgi.url_scheme", 15},
};

static const struct slice http_prefix = {"HTTP_", 5};

/* VARIABLES: it is none of these. */
static enum variable find_variable(struct slice name)
{
    size_t i = 0;

    while (i < VARIABLES && !slice_eq(name, names[i]))
        ++i;
    return (enum variable)i;
}

static struct slice value_of(struct classify_environment *e, enum variable v)
{
    const struct classify_request *r = e->request;
    char text[ADDR_TEXT_MAX];
    unsigned port;

    switch (v) {
    case HTTP_HOST:
        return r->host.len != 0 ? r->host : SLICE_NULL;
    case PATH_INFO:
        return empty_if_null(decode_percent(e, r->path));
    case METHOD:
        return empty_if_null(r->method);
    case QUERY:
        return empty_if_null(r->query);
    case SCRIPT_NAME:
        return empty_if_null(decode_percent(e, r->script_name));
    case SERVER_NAME:
        if (r->host.len != 0)
            return host_without_port(r->host);
        return r->local->len != 0 ? store_cstr(e, addr_host(r->local, text))
                                  : SLICE_LIT("localhost");
    case SERVER_PORT:
        port = r->local->len != 0 ? addr_port(r->local) : 0;
        return store_number(e, port != 0 ? port : r->tls ? 443 : 80);
    case PROTOCOL:
        return empty_if_null(r->protocol);
    case REMOTE_ADDR:
        return r->peer->len != 0 ? store_cstr(e, addr_host(r->peer, text)) : SLICE_NULL;
    case REMOTE_PORT:
        return r->peer->len != 0 ? store_number(e, addr_port(r->peer)) : SLICE_NULL;
    case CONTENT_TYPE:
        return join_header(e, SLICE_LIT("CONTENT_TYPE"));
    case CONTENT_LENGTH:
        return r->content_length != UINT64_MAX ? store_number(e, r->content_length) : SLICE_NULL;
    case URL_SCHEME:
        return r->tls ? SLICE_LIT("https") : SLICE_LIT("http");
    case VARIABLES:
        break;
    }
    UNREACHABLE();
}

/* Cuts "HTTP_" off the name of a variable that is a field of the request. */
static bool cut_field_name(struct slice *name)
{
    /* A plugin may ask for NULL. */
    if (name->p == NULL || !slice_starts(*name, http_prefix))
        return false;
    name->p += http_prefix.len;
    name->len -= http_prefix.len;
    /* WSGI has these two under their own names only. */
    return !slice_is(*name, "CONTENT_TYPE") && !slice_is(*name, "CONTENT_LENGTH");
}

bool classify_is_variable(struct slice name)
{
    if (find_variable(name) != VARIABLES)
        return true;
    if (!cut_field_name(&name))
        return false;
    for (size_t i = 0; i < name.len; ++i) {
        char c = name.p[i];

        if ((c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_')
            return false;
    }
    return name.len > 0;
}

static const char *get_variable(const struct rlb_environment *env, const char *name, size_t *len)
{
    /* Classifiers see the environment as constant; what is made on demand is ours. */
    union {
        const struct rlb_environment *constant;
        struct rlb_environment *super;
    } u = {.constant = env};
    struct classify_environment *e = container_of(u.super, struct classify_environment, super);
    struct slice rest = slice_of(name);
    enum variable which = find_variable(rest);
    struct slice v = SLICE_NULL;

    if (which != VARIABLES)
        v = value_of(e, which);
    else if (cut_field_name(&rest))
        v = join_header(e, rest);
    *len = v.len;
    return v.p;
}

void classify_environment_init(struct classify_environment *e, const struct classify_request *r)
{
    e->super.get = get_variable;
    e->request = r;
    arena_init(&e->arena, e->room, sizeof(e->room));
}

void classify_environment_fini(struct classify_environment *e)
{
    arena_fini(&e->arena);
}

size_t classify_run(const struct classifier *k, const struct classify_request *r,
                    char out[CLASS_BYTES_MAX])
{
    struct classify_environment e;

    classify_environment_init(&e, r);
    size_t n = classifier_classify(k, &e.super, out);

    classify_environment_fini(&e);
    return n;
}
