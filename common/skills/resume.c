/* SPDX-License-Identifier: Apache-2.0 */
#include "common/skills/resume.h"
#include "common/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void resume_fini(struct resume *r)
{
    for (size_t i = 0; i < r->n; ++i)
        free((void *)(uintptr_t)r->rows[i].cls.p);
    free(r->rows);
    *r = (struct resume){0};
}

bool resume_is_class(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] < 0x21 || s.p[i] > 0x7e)
            return false;
    }
    return s.len <= CLASS_BYTES_MAX;
}

bool resume_is_fingerprint(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        bool digit = s.p[i] >= '0' && s.p[i] <= '9';

        if (!digit && (s.p[i] < 'a' || s.p[i] > 'f'))
            return false;
    }
    return s.len == FINGERPRINT_LEN || s.len == 0;
}

void resume_push(struct resume *r, struct slice cls, double score)
{
    r->rows = xgrow(r->rows, r->n + 1, &r->room, sizeof(r->rows[0]));
    r->rows[r->n++] = (struct resume_row){.cls = {xslicedup(cls), cls.len}, .score = score};
}

void resume_copy(struct resume *to, const struct resume *from)
{
    ASSERT(to != from);
    resume_fini(to);
    if (from->n != 0)
        to->rows = xcalloc(from->n, sizeof(to->rows[0]));
    to->room = from->n;
    for (size_t i = 0; i < from->n; ++i)
        resume_push(to, from->rows[i].cls, from->rows[i].score);
}

size_t resume_forget(struct resume *r, const struct slice *cls)
{
    size_t before = r->n;

    r->n = 0;
    for (size_t i = 0; i < before; ++i) {
        if (cls == NULL || slice_eq(r->rows[i].cls, *cls))
            free((void *)(uintptr_t)r->rows[i].cls.p);
        else
            r->rows[r->n++] = r->rows[i];
    }
    return before - r->n;
}

/* ---- lines ---- */

/*
 * Parsing is strict about what a load balancer's decisions depend on (states, scores, names), and
 * ignores unknown members, so that agents and load balancers need not be upgraded at the same time.
 * Printing is streamed: a line may be a megabyte.
 */

_Static_assert(JSON_WHY_ROOM == 160, "resume_line_parse passes its room on");

enum {
    FORMAT_VERSION = 1,
    /* Requests that one process may serve at once; larger values are invalid input. */
    CONCURRENCY_MAX = 1000000,
};

static const char *const states[] = {"starting", "ready", "dormant", "draining"};
static const char *const ends[] = {"", "drain", "upgrade", "stop"};

const char *resume_state_text(enum resume_state s)
{
    ASSERT((unsigned)s < ARRAY_LEN(states));
    return states[s];
}

void resume_line_fini(struct resume_line *l)
{
    resume_fini(&l->skills);
    *l = (struct resume_line){0};
}

/* ---- parsing ---- */

/* Index of the text S in WORDS from FIRST on; N when it is none of them. */
static size_t index_of(struct slice s, const char *const *words, size_t first, size_t n)
{
    size_t i = first;

    while (i < n && !slice_is(s, words[i]))
        ++i;
    return i;
}

static enum err resume_reject(char *why, enum err e, const char *member, const char *what)
{
    snprintf(why, JSON_WHY_ROOM, "%s: %s", member, what);
    return e;
}

/* A text member of at most MAX bytes into OUT (room MAX + 1); absent: "" unless REQUIRED. */
static enum err read_text(const json_t *obj, const char *name, bool required, size_t max, char *out,
                          char *why)
{
    const json_t *v = json_object_get(obj, name);
    struct slice s = json_text(obj, name);
    bool valid = !required || s.len != 0;

    out[0] = '\0';
    if (v == NULL && !required)
        return ERR_OK;
    if (v == NULL)
        return resume_reject(why, ERR_SYNTAX, name, "missing");
    if (!json_is_string(v))
        return resume_reject(why, ERR_SYNTAX, name, "not a text");
    if (s.len > max)
        return resume_reject(why, ERR_TOO_LARGE, name, "too long");
    for (size_t i = 0; i < s.len; ++i)
        valid = valid && (unsigned char)s.p[i] >= 0x20 && s.p[i] != 0x7f;
    if (!valid)
        return resume_reject(why, ERR_SYNTAX, name, "empty, or has control characters");
    memcpy(out, s.p, s.len);
    out[s.len] = '\0';
    return ERR_OK;
}

static enum err read_int(const json_t *obj, const char *name, json_int_t least, json_int_t most,
                         json_int_t *out, char *why)
{
    const json_t *v = json_object_get(obj, name);

    if (v == NULL)
        return resume_reject(why, ERR_SYNTAX, name, "missing");
    if (!json_is_integer(v))
        return resume_reject(why, ERR_SYNTAX, name, "not a whole number");
    if (json_integer_value(v) < least || json_integer_value(v) > most)
        return resume_reject(why, ERR_RANGE, name, "out of range");
    *out = json_integer_value(v);
    return ERR_OK;
}

static enum err read_skills(json_t *obj, size_t max, struct resume *out, char *why)
{
    json_t *skills = json_object_get(obj, "skills");

    if (!json_is_object(skills))
        return resume_reject(why, ERR_SYNTAX, "skills", "missing, or not an object");
    if (json_object_size(skills) > max)
        return resume_reject(why, ERR_TOO_LARGE, "skills", "too many classes");
    for (void *it = json_object_iter(skills); it != NULL; it = json_object_iter_next(skills, it)) {
        struct slice cls = {json_object_iter_key(it), json_object_iter_key_len(it)};
        const json_t *v = json_object_iter_value(it);
        double score = json_number_value(v);

        if (!resume_is_class(cls))
            return resume_reject(why, ERR_SYNTAX, "skills", "class is not encoded, or too long");
        if (!json_is_number(v))
            return resume_reject(why, ERR_SYNTAX, "skills", "a score that is not a number");
        if (!isfinite(score) || score < 0)
            return resume_reject(why, ERR_RANGE, "skills", "a score below 0");
        /* Each class once: json_parse rejects duplicate names. */
        resume_push(out, cls, score);
    }
    return ERR_OK;
}

static enum err read_resume(json_t *obj, size_t max_skills, struct resume_line *out, char *why)
{
    size_t state = index_of(json_text(obj, "state"), states, 0, ARRAY_LEN(states));
    json_int_t format;
    json_int_t generation = 0;
    json_int_t concurrency = 1;
    enum err e = read_int(obj, "v", FORMAT_VERSION, FORMAT_VERSION, &format, why);

    if (e == ERR_OK)
        e = read_text(obj, "instance", true, INSTANCE_MAX, out->instance, why);
    if (e == ERR_OK)
        e = read_text(obj, "application", true, VERSION_MAX, out->application, why);
    if (e == ERR_OK)
        e = read_text(obj, "version", false, VERSION_MAX, out->version, why);
    if (e == ERR_OK)
        e = read_text(obj, "fingerprint", false, FINGERPRINT_LEN, out->fingerprint, why);
    if (e == ERR_OK && !resume_is_fingerprint(slice_of(out->fingerprint)))
        e = resume_reject(why, ERR_SYNTAX, "fingerprint", "not 16 hexadecimal digits");
    if (e == ERR_OK && state == ARRAY_LEN(states))
        e = resume_reject(why, ERR_RANGE, "state", "not one of starting, ready, dormant, draining");
    if (e == ERR_OK)
        e = read_int(obj, "generation", 0, INT64_MAX, &generation, why);
    if (e == ERR_OK && json_object_get(obj, "concurrency") != NULL)
        e = read_int(obj, "concurrency", 1, CONCURRENCY_MAX, &concurrency, why);
    out->state = (enum resume_state)state;
    out->generation = (uint64_t)generation;
    out->concurrency = (unsigned)concurrency;
    if (e == ERR_OK)
        e = read_skills(obj, max_skills, &out->skills, why);
    return e;
}

enum err resume_line_parse(struct slice line, size_t max_skills, struct resume_line *out,
                           char why[160])
{
    struct resume_line l = {0};
    json_t *obj;

    if (line.len == 0) {
        snprintf(why, JSON_WHY_ROOM, "empty line");
        return ERR_NOT_FOUND;
    }
    enum err e = json_parse(line, RESUME_LINE_MAX, &obj, why);
    if (e != ERR_OK)
        return e;
    if (!json_is_object(obj)) {
        e = resume_reject(why, ERR_SYNTAX, "line", "not an object");
    } else if (json_object_get(obj, "end") != NULL) {
        l.end = (enum resume_end)index_of(json_text(obj, "end"), ends, 1, ARRAY_LEN(ends));
        if ((unsigned)l.end == ARRAY_LEN(ends))
            e = resume_reject(why, ERR_RANGE, "end", "not one of drain, upgrade, stop");
    } else {
        e = read_resume(obj, max_skills, &l, why);
    }
    json_decref(obj);
    if (e == ERR_OK)
        *out = l;
    else
        resume_line_fini(&l);
    return e;
}

/* ---- printing ---- */

size_t resume_line_print(const struct resume_line *l, struct text *out)
{
    enum {
        TAIL_BYTES = 3,      /* two braces and the line end */
        ENTRIES_BESIDE = 16, /* upper bound of the number of members other than skills */
    };
    const struct resume *skills = &l->skills;
    struct json_writer w = {.out = out};
    size_t limit = out->len + RESUME_LINE_MAX - TAIL_BYTES;
    size_t printed = 0;

    json_open_object(&w, NULL);
    if (l->end != RESUME_END_NONE) {
        json_put_text(&w, "end", slice_of(ends[l->end]));
        json_close_object(&w);
        text_add_char(out, '\n');
        return 0;
    }
    json_put_int(&w, "v", FORMAT_VERSION);
    json_put_text(&w, "instance", slice_of(l->instance));
    json_put_text(&w, "application", slice_of(l->application));
    json_put_text(&w, "version", slice_of(l->version));
    json_put_text(&w, "fingerprint", slice_of(l->fingerprint));
    json_put_text(&w, "state", slice_of(resume_state_text(l->state)));
    json_put_int(&w, "generation", (int64_t)l->generation);
    json_put_int(&w, "concurrency", l->concurrency);
    json_open_object(&w, "skills");
    /* The rows that fit, in order. */
    for (size_t i = 0; i < skills->n; ++i) {
        struct json_writer before = w;
        size_t len = out->len;

        if (printed < JSON_ENTRIES_MAX - ENTRIES_BESIDE)
            json_put_real_named(&w, skills->rows[i].cls, skills->rows[i].score);
        if (out->len == len || out->len > limit) {
            out->len = len;
            w = before;
        } else {
            ++printed;
        }
    }
    json_close_object(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
    return skills->n - printed;
}
