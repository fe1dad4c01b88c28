/* SPDX-License-Identifier: Apache-2.0
 *
 * Cheap first: the method and the class are compared as they are. The path is percent-decoded on
 * the stack, and only as far as its pattern reads: a long one costs a request no more than a short
 * one. A path with dot segments or doubled slashes, encoded ones too, is matched a second time as
 * what it stands for (path_normalize): some workers resolve these and some do not, and a request
 * must not get around a limit with either.
 *
 * A key is written through a writer that notices when it gets too long, and hashes from there on,
 * so that a key of any length costs the same room.
 */
#include "lb/limits/request_match.h"

#include <stdio.h>
#include <stdlib.h>

#include "classifiers/search.h"
#include "common/tls/crypto.h"
#include "lb/rules/template.h"

/* Bytes of a path that are normalized on the stack; URLs in use are shorter. */
enum { PATH_NORMALIZED_MAX = 8192 };

enum pattern_kind { KIND_ANY, KIND_EXACT, KIND_PREFIX, KIND_REGEX };

struct pattern {
    enum pattern_kind kind;
    char *text; /* exact, prefix */
    size_t len;
    struct search *search; /* regex */
};

/* A part of the key's template. */
struct key_part {
    char end;    /* the byte that ends this value; NUL: nothing follows it */
    bool marked; /* END is added here, and not a byte of the template */
    bool lower;  /* a host name: written in lower case, as clients may use any case */
};

struct request_match {
    bool all; /* there are no patterns */
    struct pattern cls, path, method;
    bool url; /* the key is the whole URL: no template */
    struct template key;
    struct key_part parts[TEMPLATE_PARTS_MAX];
};

/* Terminator of a value that is not followed by text of the template. */
static const char mark = '|';

/* ---- fitting ---- */

static bool pattern_fits(const struct pattern *p, struct slice s)
{
    struct slice text = {p->text, p->len};
    struct slice part;

    switch (p->kind) {
    case KIND_ANY:
        return true;
    case KIND_EXACT:
        return slice_eq(s, text);
    case KIND_PREFIX:
        return slice_starts(s, text);
    case KIND_REGEX:
        return search_run(p->search, s, 0, &part) != SEARCH_NONE;
    }
    return true;
}

/* As pattern_fits, of RAW percent-decoded. */
static bool decoded_fits(const struct pattern *p, struct slice raw)
{
    char room[SEARCH_SUBJECT_BYTES_MAX + 1];
    size_t examined = p->kind == KIND_REGEX ? sizeof(room) : p->len + 1;

    _Static_assert((int)LIMIT_PATTERN_MAX < (int)SEARCH_SUBJECT_BYTES_MAX,
                   "an exact pattern fits the room");
    if (slice_find(raw, '%') == SIZE_MAX)
        return pattern_fits(p, raw);
    return pattern_fits(p, (struct slice){room, percent_decode(raw, room, examined)});
}

/* Whether path_normalize may change more in RAW than percent_decode: a segment of it, decoded, is
 * empty or begins with a dot, or a slash is encoded. */
static bool has_odd_segments(struct slice raw)
{
    bool slash = false;

    for (size_t i = 0; i < raw.len; ++i) {
        char c = raw.p[i];

        if (c == '%' && percent_decode((struct slice){raw.p + i, raw.len - i}, &c, 1) == 1 &&
            c != '%') {
            if (c == '/')
                return true;
            i += 2;
        }
        if (slash && (c == '/' || c == '.'))
            return true;
        slash = c == '/';
    }
    return false;
}

/* A path that is too long to be normalized counts as a match, like any undecided case. */
static noinline_ bool normalized_fits(const struct pattern *p, struct slice raw)
{
    char room[PATH_NORMALIZED_MAX];

    return raw.len > sizeof(room) ||
           pattern_fits(p, (struct slice){room, path_normalize(raw, room)});
}

bool request_match_fits(const struct request_match *m, struct slice cls,
                        const struct classify_request *r)
{
    if (m->all)
        return true;
    return pattern_fits(&m->method, r->method) && pattern_fits(&m->cls, cls) &&
           (m->path.kind == KIND_ANY || decoded_fits(&m->path, r->path) ||
            (has_odd_segments(r->path) && normalized_fits(&m->path, r->path)));
}

/* ---- keys ---- */

struct writer {
    char *out;
    size_t n; /* of OUT */
    /* Bytes beyond the limit: hashed, after all of OUT. */
    EVP_MD_CTX *hash;
    size_t nmore;
    char more[256];
};

static void put_beyond(struct writer *w, char c)
{
    if (w->hash == NULL) {
        w->hash = sha256_begin();
        sha256_add(w->hash, w->out, w->n);
    }
    if (w->nmore == sizeof(w->more)) {
        sha256_add(w->hash, w->more, w->nmore);
        w->nmore = 0;
    }
    w->more[w->nmore++] = c;
}

static inline void match_put(struct writer *w, char c)
{
    /* Only keys that were cut have all LIMIT_KEY_MAX bytes: no other key can be equal to one. */
    if (w->n < LIMIT_KEY_MAX - 1)
        w->out[w->n++] = c;
    else
        put_beyond(w, c);
}

static void put_text(struct writer *w, const char *p, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        match_put(w, p[i]);
}

/* ENCODED: V is percent-encoded already, so '%' is not encoded again. */
static void match_put_value(struct writer *w, struct slice v, char end, bool encoded)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < v.len; ++i) {
        char c = v.p[i];

        if (c < 0x21 || c > 0x7e || (c == '%' && !encoded) || c == end) {
            match_put(w, '%');
            match_put(w, digits[(unsigned char)c >> 4]);
            match_put(w, digits[(unsigned char)c & 15]);
        } else {
            match_put(w, c);
        }
    }
}

/* In lower case. */
static void put_host(struct writer *w, struct slice host, char end)
{
    for (size_t i = 0; i < host.len; ++i) {
        char c = ascii_lower(host.p[i]);

        match_put_value(w, (struct slice){&c, 1}, end, false);
    }
}

/* "GET|https|example.com|/a?b=c"; the path and the query as they were sent. */
static void put_url(struct writer *w, const struct classify_request *r)
{
    match_put_value(w, r->method, mark, false);
    match_put(w, mark);
    put_text(w, r->tls ? "https" : "http", r->tls ? 5 : 4);
    match_put(w, mark);
    put_host(w, r->host, mark);
    match_put(w, mark);
    match_put_value(w, r->script_name, '?', false);
    match_put_value(w, r->path, '?', false);
    /* "/a?" is not "/a". */
    if (r->query.p == NULL)
        return;
    match_put(w, '?');
    match_put_value(w, r->query, '\0', false);
}

static void put_parts(struct writer *w, const struct request_match *m, struct slice cls,
                      const struct classify_request *r)
{
    struct classify_environment e;
    struct slice v;

    classify_environment_init(&e, r);
    for (size_t i = 0; i < m->key.n; ++i) {
        const struct template_part *t = &m->key.parts[i];
        const struct key_part *p = &m->parts[i];

        switch (t->kind) {
        case TEMPLATE_TEXT:
            put_text(w, t->text, t->len);
            break;
        case TEMPLATE_CLASS:
            match_put_value(w, cls, p->end, true);
            break;
        case TEMPLATE_VARIABLE:
            v.p = e.super.get(&e.super, t->text, &v.len);
            if (p->lower)
                put_host(w, v, p->end);
            else
                match_put_value(w, v, p->end, false);
            break;
        }
        if (p->marked)
            match_put(w, p->end);
    }
    classify_environment_fini(&e);
}

struct slice request_match_key(const struct request_match *m, const char *name, struct slice cls,
                               const struct classify_request *r, char out[LIMIT_KEY_MAX])
{
    struct writer w = {.out = out};
    unsigned char digest[SHA256_BYTES];

    put_text(&w, name, strlen(name));
    match_put(&w, ':');
    if (m->url)
        put_url(&w, r);
    else
        put_parts(&w, m, cls, r);
    if (w.hash == NULL)
        return (struct slice){out, w.n};
    sha256_add(w.hash, w.more, w.nmore);
    sha256_end(w.hash, digest);
    char *at = out + LIMIT_KEY_MAX - LIMIT_KEY_HASH - 1;
    *at++ = '~';
    for (size_t i = 0; i < LIMIT_KEY_HASH; ++i)
        *at++ = "0123456789abcdef"[i % 2 == 0 ? digest[i / 2] >> 4 : digest[i / 2] & 15];
    return (struct slice){out, LIMIT_KEY_MAX};
}

/* ---- making ---- */

bool limit_problem_set(struct limit_problem *p, const char *row, const char *why)
{
    p->row = row;
    snprintf(p->why, sizeof(p->why), "%.20s: %.120s", row, why);
    return false;
}

const struct config_node *limit_row_node(const struct config_node *map, const char *row)
{
    const struct config_node *match = config_get(map, "match");
    const struct config_node *at = config_get(map, row);

    if (at == NULL && match != NULL)
        at = config_get(match, row);
    return at != NULL ? at : map;
}

bool limit_map_check(const struct config *c, const struct config_node *map, const char *what,
                     size_t max, struct diag *d)
{
    if (map->kind != CONFIG_MAP)
        config_complain(c, map, d, "%s: expected NAME: {...} lines here", what);
    else if (map->n > max)
        config_complain(c, map->keys[max], d,
                        "%s: at most %zu, because each request is checked against all of them",
                        what, max);
    else
        return true;
    return false;
}

static bool compile_pattern(const char *row, const char *written, struct pattern *out,
                            struct limit_problem *p)
{
    static const char *const words[] = {
        [KIND_EXACT] = "exact:", [KIND_PREFIX] = "prefix:", [KIND_REGEX] = "regex:"};
    struct slice text = slice_of(written);
    char why[SEARCH_WHY_ROOM];

    if (written == NULL)
        return true;
    out->kind = KIND_EXACT;
    for (int kind = KIND_EXACT; kind <= KIND_REGEX; ++kind) {
        struct slice word = slice_of(words[kind]);

        if (slice_starts(text, word)) {
            out->kind = (enum pattern_kind)kind;
            text = (struct slice){text.p + word.len, text.len - word.len};
            break;
        }
    }
    if (text.len == 0 && out->kind != KIND_EXACT)
        return limit_problem_set(p, row, "the pattern is empty: it would match everything");
    if (out->kind == KIND_REGEX) {
        out->search = search_compile(text.p, why);
        return out->search != NULL || limit_problem_set(p, row, why);
    }
    if (text.len > LIMIT_PATTERN_MAX)
        return limit_problem_set(p, row, "longer than 1024 bytes");
    out->text = xslicedup(text);
    out->len = text.len;
    return true;
}

/* Classes are compared as they are encoded: another text would never fit. */
static bool check_class(const struct pattern *c, struct limit_problem *p)
{
    for (size_t i = 0; i < c->len; ++i) {
        if (c->text[i] < 0x21 || c->text[i] > 0x7e)
            return limit_problem_set(
                p, "class",
                "classes are percent-encoded: write blanks and other than visible "
                "ASCII as %XX");
    }
    return true;
}

static bool compile_key(const char *template, int mode, struct request_match *m,
                        struct limit_problem *p)
{
    static const struct template_kind keys = {
        .bytes_max = LIMIT_TEMPLATE_MAX,
        .first = '!',
        .too_long = "longer than 256 bytes",
        .bad_byte = "only visible ASCII is permitted here",
        .bad_name = "expected {class} or {VARIABLE}, such as {PATH_INFO} or {HTTP_X_TENANT}"};
    struct slice text = template != NULL ? slice_of(template) : SLICE_LIT("{class}");
    size_t at;

    m->url = template == NULL && mode == LIMIT_ANY;
    if (m->url)
        return true;
    const char *why = template_parse(&keys, text, &m->key, &at);
    /* A value ends where what follows it begins. */
    for (size_t i = 0; i < m->key.n; ++i) {
        const struct template_part *t = &m->key.parts[i];
        struct key_part *part = &m->parts[i];

        if (t->kind == TEMPLATE_VARIABLE)
            part->lower = strcmp(t->text, "HTTP_HOST") == 0 || strcmp(t->text, "SERVER_NAME") == 0;
        if (t->kind == TEMPLATE_TEXT || i + 1 == m->key.n)
            continue;
        /* A '%' would look like the start of an escape. */
        part->marked = t[1].kind != TEMPLATE_TEXT || t[1].text[0] == '%';
        part->end = part->marked ? mark : t[1].text[0];
    }
    if (why == NULL)
        return true;
    p->row = "key";
    snprintf(p->why, sizeof(p->why), "key: %s (at its character %zu)", why, at + 1);
    return false;
}

struct request_match *request_match_compile(const struct limit_settings *s, const char *key,
                                            int mode, struct limit_problem *p)
{
    struct request_match *m = xcalloc(1, sizeof(*m));

    m->all = s->class == NULL && s->path == NULL && s->method == NULL;
    if (compile_pattern("class", s->class, &m->cls, p) && check_class(&m->cls, p) &&
        compile_pattern("path", s->path, &m->path, p) &&
        (m->path.text == NULL || m->path.text[0] == '/' ||
         limit_problem_set(p, "path", "expected /..., exact:/..., prefix:/... or regex:PATTERN")) &&
        compile_pattern("method", s->method, &m->method, p) && compile_key(key, mode, m, p))
        return m;
    request_match_destroy(m);
    return NULL;
}

static void pattern_fini(struct pattern *p)
{
    search_destroy(p->search);
    free(p->text);
}

void request_match_destroy(struct request_match *m)
{
    if (m == NULL)
        return;
    pattern_fini(&m->cls);
    pattern_fini(&m->path);
    pattern_fini(&m->method);
    template_fini(&m->key);
    free(m);
}
