/* SPDX-License-Identifier: Apache-2.0
 *
 * A template becomes a list of parts; a key is written through a writer that notices when it gets
 * too long, and hashes from there on, so that a key of any length costs the same room.
 */
#include "lb/limits/limit_key.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/tls/crypto.h"

enum part_kind { PART_TEXT, PART_CLASS, PART_VARIABLE };

struct part {
    enum part_kind kind;
    char *text; /* the text, or the variable's name */
    size_t len;
    char end;    /* the byte that ends this value; NUL: nothing follows it */
    bool marked; /* END is added here, and not a byte of the template */
    bool lower;  /* a host name: its case means nothing, and is the client's to choose */
};

struct limit_key {
    bool url; /* the whole URL; no parts */
    size_t n;
    struct part parts[LIMIT_TEMPLATE_PARTS_MAX];
};

/* Terminator of a value that is not followed by text of the template. */
static const char mark = '|';

/* ---- writing ---- */

struct writer {
    char *out;
    size_t n; /* of OUT */
    /* Bytes beyond the limit: hashed, after all of OUT. */
    struct sha256 *hash;
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

static inline void put(struct writer *w, char c)
{
    /* One less than there is: that many bytes have only keys that were cut. */
    if (w->n < LIMIT_KEY_MAX - 1)
        w->out[w->n++] = c;
    else
        put_beyond(w, c);
}

static void put_text(struct writer *w, const char *p, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        put(w, p[i]);
}

static void put_escaped(struct writer *w, char c)
{
    static const char digits[] = "0123456789ABCDEF";

    put(w, '%');
    put(w, digits[(unsigned char)c >> 4]);
    put(w, digits[(unsigned char)c & 15]);
}

/* ENCODED: '%' has been seen to. */
static void put_value(struct writer *w, struct slice v, char end, bool encoded)
{
    for (size_t i = 0; i < v.len; ++i) {
        char c = v.p[i];

        if (c < 0x21 || c > 0x7e || (c == '%' && !encoded) || c == end)
            put_escaped(w, c);
        else
            put(w, c);
    }
}

/* In lower case. */
static void put_host(struct writer *w, struct slice host, char end)
{
    for (size_t i = 0; i < host.len; ++i) {
        char c = ascii_lower(host.p[i]);

        put_value(w, (struct slice){&c, 1}, end, false);
    }
}

static struct slice finish(struct writer *w)
{
    unsigned char digest[SHA256_BYTES];
    char *at = w->out + LIMIT_KEY_MAX - LIMIT_KEY_HASH - 1;

    if (w->hash == NULL)
        return (struct slice){w->out, w->n};
    sha256_add(w->hash, w->more, w->nmore);
    sha256_end(w->hash, digest);
    *at++ = '~';
    for (size_t i = 0; i < LIMIT_KEY_HASH; ++i)
        *at++ = "0123456789abcdef"[i % 2 == 0 ? digest[i / 2] >> 4 : digest[i / 2] & 15];
    return (struct slice){w->out, LIMIT_KEY_MAX};
}

/* ---- keys ---- */

/* "GET|https|example.com|/a?b=c"; the path and the query as they were sent. */
static void put_url(struct writer *w, const struct classify_request *r)
{
    put_value(w, r->method, mark, false);
    put(w, mark);
    put_text(w, r->tls ? "https" : "http", r->tls ? 5 : 4);
    put(w, mark);
    put_host(w, r->host, mark);
    put(w, mark);
    put_value(w, r->script_name, '?', false);
    put_value(w, r->path, '?', false);
    /* "/a?" is not "/a". */
    if (r->query.p == NULL)
        return;
    put(w, '?');
    put_value(w, r->query, '\0', false);
}

static void put_variable(struct writer *w, const struct part *p, struct classify_environment *e)
{
    struct slice v;

    v.p = e->super.get(&e->super, p->text, &v.len);
    if (p->lower)
        put_host(w, v, p->end);
    else
        put_value(w, v, p->end, false);
}

static void put_parts(struct writer *w, const struct limit_key *k, struct slice cls,
                      const struct classify_request *r)
{
    struct classify_environment e;

    classify_environment_init(&e, r);
    for (size_t i = 0; i < k->n; ++i) {
        const struct part *p = &k->parts[i];

        switch (p->kind) {
        case PART_TEXT:
            put_text(w, p->text, p->len);
            break;
        case PART_CLASS:
            put_value(w, cls, p->end, true);
            break;
        case PART_VARIABLE:
            put_variable(w, p, &e);
            break;
        }
        if (p->marked)
            put(w, p->end);
    }
    classify_environment_fini(&e);
}

struct slice limit_key_make(const struct limit_key *k, const char *name, struct slice cls,
                            const struct classify_request *r, char out[LIMIT_KEY_MAX])
{
    struct writer w = {.out = out};

    put_text(&w, name, strlen(name));
    put(&w, ':');
    if (k->url)
        put_url(&w, r);
    else
        put_parts(&w, k, cls, r);
    return finish(&w);
}

/* ---- templates ---- */

static bool problem(struct limit_problem *p, size_t at, const char *why)
{
    p->row = "key";
    snprintf(p->why, sizeof(p->why), "key: %s (at its character %zu)", why, at + 1);
    return false;
}

/* Borrowed for one call. */
struct template
{
    struct slice text;
    size_t at;
    struct limit_key *k;
    struct limit_problem *p;
};

static char peek(const struct template *t, size_t ahead)
{
    if (t->text.len - t->at <= ahead)
        return '\0';
    return t->text.p[t->at + ahead];
}

static bool add_part(struct template *t, enum part_kind kind, struct slice text)
{
    bool lower =
        kind == PART_VARIABLE && (slice_is(text, "HTTP_HOST") || slice_is(text, "SERVER_NAME"));

    if (t->k->n == LIMIT_TEMPLATE_PARTS_MAX)
        return problem(t->p, t->at, "more than 16 texts and {VARIABLE}s");
    t->k->parts[t->k->n++] =
        (struct part){.kind = kind, .text = xslicedup(text), .len = text.len, .lower = lower};
    return true;
}

/* At "{". */
static bool take_value(struct template *t)
{
    struct slice rest = {t->text.p + t->at + 1, t->text.len - t->at - 1};
    size_t n = slice_find(rest, '}');
    struct slice name = {rest.p, n};

    if (n == SIZE_MAX)
        return problem(t->p, t->at, "{ without }; write {{ for a brace");
    bool is_class = slice_is(name, "class");
    if (!is_class && !classify_is_variable(name))
        return problem(t->p, t->at + 1,
                       "expected {class} or {VARIABLE}, such as {PATH_INFO} or {HTTP_X_TENANT}");
    if (!add_part(t, is_class ? PART_CLASS : PART_VARIABLE, name))
        return false;
    t->at += n + 2;
    return true;
}

/* Up to a value, or the end. */
static bool take_text(struct template *t)
{
    char text[LIMIT_TEMPLATE_MAX];
    size_t n = 0;

    while (t->at < t->text.len) {
        char c = peek(t, 0);
        bool brace = c == '{' || c == '}';

        if (brace && peek(t, 1) != c) {
            if (c == '{')
                break;
            return problem(t->p, t->at, "} without {; write }} for a brace");
        }
        if (c < 0x21 || c > 0x7e)
            return problem(t->p, t->at, "only visible ASCII is permitted here");
        text[n++] = c;
        t->at += brace ? 2 : 1;
    }
    return add_part(t, PART_TEXT, (struct slice){text, n});
}

/* Sets the terminator of each value: the next byte of the template. */
static void set_ends(struct limit_key *k)
{
    for (size_t i = 0; i + 1 < k->n; ++i) {
        struct part *p = &k->parts[i];
        const struct part *next = &k->parts[i + 1];

        if (p->kind == PART_TEXT)
            continue;
        /* A '%' would look like the start of an escape. */
        p->marked = next->kind != PART_TEXT || next->text[0] == '%';
        p->end = mark;
        if (!p->marked)
            p->end = next->text[0];
    }
}

static bool parse(struct template *t)
{
    if (t->text.len > LIMIT_TEMPLATE_MAX)
        return problem(t->p, LIMIT_TEMPLATE_MAX, "longer than 256 bytes");
    while (t->at < t->text.len) {
        bool value = peek(t, 0) == '{' && peek(t, 1) != '{';

        if (!(value ? take_value(t) : take_text(t)))
            return false;
    }
    set_ends(t->k);
    return true;
}

struct limit_key *limit_key_compile(const char *template, int mode, struct limit_problem *p)
{
    struct limit_key *k = xcalloc(1, sizeof(*k));
    struct template t = {
        .text = template != NULL ? slice_of(template) : SLICE_LIT("{class}"), .k = k, .p = p};

    if (template == NULL && mode == LIMIT_ANY) {
        k->url = true;
        return k;
    }
    if (parse(&t))
        return k;
    limit_key_destroy(k);
    return NULL;
}

void limit_key_destroy(struct limit_key *k)
{
    if (k == NULL)
        return;
    for (size_t i = 0; i < k->n; ++i)
        free(k->parts[i].text);
    free(k);
}
