/* SPDX-License-Identifier: Apache-2.0
 *
 * Cheap first: the method and the class are compared as they are. The path is percent-decoded on
 * the stack, and only as far as its pattern looks: a long one costs a request no more than a short
 * one. A path with dot segments or doubled slashes, encoded ones too, is matched a second time as
 * what it stands for (path_normalize): some workers resolve these and some do not, and a request
 * must not get around a limit with either.
 */
#include "lb/limits/limit_match.h"

#include <stdio.h>
#include <stdlib.h>

#include "classifiers/search.h"

/* Bytes of a path that are normalized on the stack; URLs in use are shorter. */
enum { PATH_NORMALIZED_MAX = 8192 };

enum kind { KIND_ANY, KIND_EXACT, KIND_PREFIX, KIND_REGEX };

struct pattern {
    enum kind kind;
    char *text; /* exact, prefix */
    size_t len;
    struct search *search; /* regex */
};

struct limit_match {
    struct pattern cls, path, method;
};

/* ---- fitting ---- */

static bool search_fits(const struct pattern *p, struct slice s)
{
    struct slice part;

    return search_run(p->search, s, 0, &part) != SEARCH_NONE;
}

static bool pattern_fits(const struct pattern *p, struct slice s)
{
    struct slice text = {p->text, p->len};

    switch (p->kind) {
    case KIND_ANY:
        return true;
    case KIND_EXACT:
        return slice_eq(s, text);
    case KIND_PREFIX:
        return slice_starts(s, text);
    case KIND_REGEX:
        return search_fits(p, s);
    }
    return true;
}

/* As pattern_fits, of RAW percent-decoded. */
static bool decoded_fits(const struct pattern *p, struct slice raw)
{
    char room[SEARCH_SUBJECT_BYTES_MAX + 1];
    size_t looked_at = p->kind == KIND_REGEX ? sizeof(room) : p->len + 1;

    _Static_assert((int)LIMIT_PATTERN_MAX < (int)SEARCH_SUBJECT_BYTES_MAX,
                   "an exact pattern fits the room");
    if (slice_find(raw, '%') == SIZE_MAX)
        return pattern_fits(p, raw);
    return pattern_fits(p, (struct slice){room, percent_decode(raw, room, looked_at)});
}

/* Whether path_normalize may make more of RAW than percent_decode: a segment of it, decoded, is
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

/* Too long to be normalized: fits, as what cannot be decided does. */
static noinline_ bool normalized_fits(const struct pattern *p, struct slice raw)
{
    char room[PATH_NORMALIZED_MAX];

    return raw.len > sizeof(room) ||
           pattern_fits(p, (struct slice){room, path_normalize(raw, room)});
}

static bool path_fits(const struct pattern *p, struct slice raw)
{
    return p->kind == KIND_ANY || decoded_fits(p, raw) ||
           (has_odd_segments(raw) && normalized_fits(p, raw));
}

bool limit_match_fits(const struct limit_match *m, struct slice cls,
                      const struct classify_request *r)
{
    if (m == NULL)
        return true;
    return pattern_fits(&m->method, r->method) && pattern_fits(&m->cls, cls) &&
           path_fits(&m->path, r->path);
}

/* ---- making ---- */

static bool problem(struct limit_problem *p, const char *row, const char *why)
{
    p->row = row;
    snprintf(p->why, sizeof(p->why), "%.20s: %.120s", row, why);
    return false;
}

static enum kind cut_kind(struct slice *text)
{
    static const struct {
        struct slice word;
        enum kind kind;
    } words[] = {
        {{"exact:", 6}, KIND_EXACT},
        {{"prefix:", 7}, KIND_PREFIX},
        {{"regex:", 6}, KIND_REGEX},
    };

    for (size_t i = 0; i < ARRAY_LEN(words); ++i) {
        if (!slice_starts(*text, words[i].word))
            continue;
        text->p += words[i].word.len;
        text->len -= words[i].word.len;
        return words[i].kind;
    }
    return KIND_EXACT;
}

static bool compile(const char *row, const char *written, struct pattern *out,
                    struct limit_problem *p)
{
    struct slice text = slice_of(written);
    char why[SEARCH_WHY_ROOM];

    if (written == NULL)
        return true;
    out->kind = cut_kind(&text);
    if (text.len == 0 && out->kind != KIND_EXACT)
        return problem(p, row, "the pattern is empty: it would match everything");
    if (out->kind == KIND_REGEX) {
        out->search = search_compile(text.p, why);
        return out->search != NULL || problem(p, row, why);
    }
    if (text.len > LIMIT_PATTERN_MAX)
        return problem(p, row, "longer than 1024 bytes");
    out->text = xslicedup(text);
    out->len = text.len;
    return true;
}

/* Classes are compared as they are encoded: another text would never fit. */
static bool check_class(const struct pattern *c, struct limit_problem *p)
{
    for (size_t i = 0; i < c->len; ++i) {
        if (c->text[i] < 0x21 || c->text[i] > 0x7e)
            return problem(p, "class",
                           "classes are percent-encoded: write blanks and other than visible "
                           "ASCII as %XX");
    }
    return true;
}

static bool check_path(const struct pattern *path, struct limit_problem *p)
{
    if (path->text == NULL || path->text[0] == '/')
        return true;
    return problem(p, "path", "expected /..., exact:/..., prefix:/... or regex:PATTERN");
}

bool limit_match_compile(const struct counter_settings *s, struct limit_match **out,
                         struct limit_problem *p)
{
    if (s->class == NULL && s->path == NULL && s->method == NULL) {
        *out = NULL;
        return true;
    }
    struct limit_match *m = xcalloc(1, sizeof(*m));

    if (compile("class", s->class, &m->cls, p) && check_class(&m->cls, p) &&
        compile("path", s->path, &m->path, p) && check_path(&m->path, p) &&
        compile("method", s->method, &m->method, p)) {
        *out = m;
        return true;
    }
    limit_match_destroy(m);
    return false;
}

static void pattern_fini(struct pattern *p)
{
    search_destroy(p->search);
    free(p->text);
}

void limit_match_destroy(struct limit_match *m)
{
    if (m == NULL)
        return;
    pattern_fini(&m->cls);
    pattern_fini(&m->path);
    pattern_fini(&m->method);
    free(m);
}
