/* SPDX-License-Identifier: Apache-2.0
 *
 * Each change gives its record the next number and the last place in a list, so that what a reader
 * has not seen yet is the list's end.
 */
#include "common/skills/home_records.h"
#include "common/base/json.h"
#include "common/skills/resume.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const kinds[HOME_KINDS] = {"used", "new", "replicate", "reassign"};

/* Returns HOME_KINDS if TEXT is not the name of a kind. */
static enum home_kind kind_find(struct slice text)
{
    unsigned k = 0;

    while (k < HOME_KINDS && !slice_is(text, kinds[k]))
        ++k;
    return (enum home_kind)k;
}

static struct home_record *record_of(struct class_entry *e)
{
    return container_of(e, struct home_record, base);
}

static void on_dropped(unused_ void *owner, struct class_entry *e)
{
    struct home_record *r = record_of(e);

    list_remove(&r->node);
    free(r->from);
}

struct home_records *home_records_create(size_t max_classes)
{
    struct home_records *h = xcalloc(1, sizeof(*h));

    list_init(&h->changed);
    classes_init(&h->classes, sizeof(struct home_record), max_classes, on_dropped, h);
    return h;
}

void home_records_destroy(struct home_records *h)
{
    if (h == NULL)
        return;
    classes_fini(&h->classes);
    free(h);
}

static double work_at(const struct home_records *h, const struct home_record *r, uint64_t now_us)
{
    return r->work_us * exp(-(double)(now_us - r->work_at_us) / home_tau_us(h->gap_us));
}

double home_record_rate(const struct home_records *h, const struct home_record *r, uint64_t now_us)
{
    return work_at(h, r, now_us) / home_tau_us(h->gap_us);
}

static void mark_changed(struct home_records *h, struct home_record *r)
{
    r->change = ++h->changes;
    list_remove(&r->node);
    list_push_back(&h->changed, &r->node);
}

void home_records_use(struct home_records *h, struct slice cls, enum home_kind kind,
                      struct slice from, uint64_t now_us)
{
    struct class_entry *e = classes_find(&h->classes, cls);

    ASSERT((unsigned)kind < HOME_KINDS);
    classes_request(&h->classes, e);
    struct home_record *r = record_of(e != NULL ? e : classes_add(&h->classes, cls));
    if (e == NULL)
        r->work_at_us = now_us;
    if (e == NULL || kind != HOME_USED ||
        (double)(now_us - r->used_us) > home_tau_us(h->gap_us) / 2) {
        r->since_us = now_us;
        r->kind = kind;
        free(r->from);
        r->from = kind == HOME_REASSIGN ? xasprintf("%.*s", (int)from.len, from.p) : NULL;
    }
    r->used_us = now_us;
    h->gap_us = home_gap_us(h->gap_us, h->used_us, now_us);
    h->used_us = now_us;
    mark_changed(h, r);
    if (kind != HOME_USED)
        h->decided = r->change;
}

void home_records_served(struct home_records *h, struct slice cls, uint64_t service_us,
                         uint64_t now_us)
{
    struct class_entry *e = classes_find(&h->classes, cls);

    if (e == NULL)
        return;
    struct home_record *r = record_of(e);
    r->work_us = work_at(h, r, now_us) + (double)service_us;
    r->work_at_us = now_us;
    mark_changed(h, r);
}

static const struct home_record *next_of(const struct home_records *h, const struct list *node)
{
    return node->next != &h->changed ? list_first(node, const struct home_record, node) : NULL;
}

const struct home_record *home_records_after(const struct home_records *h, uint64_t cursor)
{
    struct list *it = h->changed.prev;

    while (it != &h->changed && list_entry(it, const struct home_record, node)->change > cursor)
        it = it->prev;
    return next_of(h, it);
}

const struct home_record *home_records_next(const struct home_records *h,
                                            const struct home_record *r)
{
    return next_of(h, &r->node);
}

bool home_records_decided(const struct home_records *h, uint64_t cursor)
{
    return h->decided > cursor;
}

/* ---- lines ---- */

/*
 *     {"v":1,"homes":{"shop.example":[5210,12,"reassign","127.0.0.1:9001",0.034]}}
 */

enum { FORMAT_VERSION = 1, MEMBERS = 5, RATE_MAX = 1000000 };

static const char beginning[] = "{\"v\":1,\"homes\":{";

void home_line_fini(struct home_line *l)
{
    free(l->rows);
    json_decref(l->object);
    *l = (struct home_line){0};
}

bool home_line_is(struct slice line)
{
    return slice_starts(line, slice_of(beginning));
}

/* ---- parsing ---- */

static enum err records_reject(char *why, enum err e, const char *what)
{
    snprintf(why, JSON_WHY_ROOM, "homes: %s", what);
    return e;
}

_Static_assert((int)HOME_FROM_MAX == CLASS_BYTES_MAX, "the bound of both");

static bool is_name(struct slice s)
{
    return s.len != 0 && resume_is_class(s);
}

static bool read_age(const json_t *v, uint64_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > HOME_AGE_MAX_MS)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static enum err read_row(struct slice cls, const json_t *v, struct home_row *out, char *why)
{
    const json_t *kind = json_array_get(v, 2);
    const json_t *from = json_array_get(v, 3);
    const json_t *rate = json_array_get(v, 4);

    *out = (struct home_row){.cls = cls};
    if (!resume_is_class(cls))
        return records_reject(why, ERR_SYNTAX, "class is not encoded, or too long");
    if (!json_is_array(v) || json_array_size(v) != MEMBERS)
        return records_reject(why, ERR_SYNTAX, "not [since, used, kind, from, rate]");
    if (!read_age(json_array_get(v, 0), &out->since_age_ms) ||
        !read_age(json_array_get(v, 1), &out->used_age_ms) || out->used_age_ms > out->since_age_ms)
        return records_reject(why, ERR_RANGE, "invalid age");
    if (!json_is_string(kind) || !json_is_string(from))
        return records_reject(why, ERR_SYNTAX, "kind or from is not a text");
    out->kind = kind_find(json_slice(kind));
    if (out->kind == HOME_KINDS)
        return records_reject(why, ERR_RANGE, "unknown kind");
    out->from = json_slice(from);
    if (out->kind == HOME_REASSIGN ? !is_name(out->from) : out->from.len != 0)
        return records_reject(why, ERR_SYNTAX, "invalid origin of a move");
    out->rate = json_number_value(rate);
    if (!json_is_number(rate) || !(out->rate >= 0) || out->rate > RATE_MAX)
        return records_reject(why, ERR_RANGE, "invalid rate");
    return ERR_OK;
}

enum err home_line_parse(struct slice line, struct home_line *out, char why[160])
{
    struct home_line l = {0};
    enum err e = json_parse(line, RESUME_LINE_MAX, &l.object, why);
    const json_t *v = json_object_get(l.object, "v");
    json_t *homes = json_object_get(l.object, "homes");

    if (e != ERR_OK)
        return e;
    if (json_is_object(l.object) &&
        (!json_is_integer(v) || json_integer_value(v) != FORMAT_VERSION))
        e = records_reject(why, ERR_RANGE, "not version 1");
    else if (!json_is_object(homes))
        e = records_reject(why, ERR_SYNTAX, "not an object");
    else if (json_object_size(homes) > HOME_LINE_ROWS_MAX)
        e = records_reject(why, ERR_TOO_LARGE, "too many classes for a line");
    else
        l.rows = xcalloc(json_object_size(homes) + 1, sizeof(l.rows[0]));
    for (void *it = json_object_iter(homes); it != NULL && e == ERR_OK;
         it = json_object_iter_next(homes, it)) {
        struct slice cls = {json_object_iter_key(it), json_object_iter_key_len(it)};

        e = read_row(cls, json_object_iter_value(it), &l.rows[l.n++], why);
    }
    if (e == ERR_OK)
        *out = l;
    else
        home_line_fini(&l);
    return e;
}

/* ---- printing ---- */

static int64_t cap_age(uint64_t ms)
{
    return ms < HOME_AGE_MAX_MS ? (int64_t)ms : HOME_AGE_MAX_MS;
}

void home_line_print(const struct home_row *rows, size_t n, struct text *out)
{
    struct json_writer w = {.out = out};

    ASSERT(n <= HOME_LINE_ROWS_MAX);
    json_open_object(&w, NULL);
    json_put_int(&w, "v", FORMAT_VERSION);
    json_open_object(&w, "homes");
    for (size_t i = 0; i < n; ++i) {
        const struct home_row *r = &rows[i];
        char cls[CLASS_BYTES_MAX + 1];

        snprintf(cls, sizeof(cls), "%.*s", SLICE_FMT(r->cls));
        json_open_array(&w, cls);
        json_put_int(&w, NULL, cap_age(r->since_age_ms));
        json_put_int(&w, NULL, cap_age(r->used_age_ms));
        json_put_text(&w, NULL, slice_of(kinds[r->kind]));
        json_put_text(&w, NULL, r->from.p != NULL ? r->from : SLICE_LIT(""));
        json_put_real(&w, NULL, r->rate);
        json_close_array(&w);
    }
    json_close_object(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}

/* ---- publishing ---- */

const struct home_record *home_records_find(const struct home_records *h, struct slice cls)
{
    struct class_entry *e = classes_find(&h->classes, cls);

    return e != NULL ? record_of(e) : NULL;
}

static uint64_t time_before(uint64_t now_us, uint64_t age_ms)
{
    return now_us > age_ms * 1000 ? now_us - age_ms * 1000 : 1;
}

void home_records_set(struct home_records *h, const struct home_row *row, uint64_t now_us)
{
    struct class_entry *e = classes_find(&h->classes, row->cls);

    classes_request(&h->classes, e);
    struct home_record *r = record_of(e != NULL ? e : classes_add(&h->classes, row->cls));
    free(r->from);
    r->from =
        row->kind == HOME_REASSIGN ? xasprintf("%.*s", (int)row->from.len, row->from.p) : NULL;
    r->kind = row->kind;
    r->since_us = time_before(now_us, row->since_age_ms);
    r->used_us = time_before(now_us, row->used_age_ms);
    r->work_us = row->rate * home_tau_us(h->gap_us);
    r->work_at_us = now_us;
    mark_changed(h, r);
}

/* A decision counts before uses, the latest decision before others, and the first use. */
static bool counts_before(const struct home_record *a, const struct home_record *b)
{
    bool decision = a->kind != HOME_USED;

    if (decision != (b->kind != HOME_USED))
        return decision;
    return decision ? a->since_us > b->since_us : a->since_us < b->since_us;
}

bool home_records_merge(const struct home_records *const of[], size_t n, struct slice cls,
                        uint64_t now_us, struct home_row *out)
{
    const struct home_record *best = NULL;
    double rate = 0;
    uint64_t used_us = 0;

    for (size_t i = 0; i < n; ++i) {
        const struct home_record *r = home_records_find(of[i], cls);

        if (r == NULL)
            continue;
        rate += home_record_rate(of[i], r, now_us);
        if (best == NULL || r->used_us > used_us)
            best = r;
        used_us = best->used_us;
    }
    if (best == NULL)
        return false;
    for (size_t i = 0; i < n; ++i) {
        const struct home_record *r = home_records_find(of[i], cls);

        if (r != NULL && (double)used_us <= (double)r->used_us + home_tau_us(of[i]->gap_us) / 2 &&
            counts_before(r, best))
            best = r;
    }
    *out = (struct home_row){
        .cls = cls,
        .kind = best->kind,
        .from = slice_of(best->from),
        .since_age_ms = now_us > best->since_us ? (now_us - best->since_us) / 1000 : 0,
        .used_age_ms = now_us > used_us ? (now_us - used_us) / 1000 : 0,
        .rate = rate,
    };
    return true;
}

size_t home_lines_print(const struct home_records *h, uint64_t *cursor, uint64_t now_us,
                        struct text *out)
{
    const struct home_record *r = home_records_after(h, *cursor);
    struct home_row *rows = xcalloc(HOME_LINE_ROWS_MAX, sizeof(*rows));
    size_t lines = 0;

    for (; r != NULL; ++lines) {
        size_t n = 0;

        for (; r != NULL && n < HOME_LINE_ROWS_MAX; r = home_records_next(h, r)) {
            rows[n++] = (struct home_row){
                .cls = class_name(&r->base),
                .kind = r->kind,
                .from = slice_of(r->from),
                /* Rounded down: a receiver must not assume an age that exceeds the actual one. */
                .since_age_ms = (now_us - r->since_us) / 1000,
                .used_age_ms = (now_us - r->used_us) / 1000,
                .rate = home_record_rate(h, r, now_us)};
            *cursor = r->change;
        }
        home_line_print(rows, n, out);
    }
    free(rows);
    return lines;
}

uint64_t home_lines_delay_ms(const struct home_records *h, uint64_t cursor)
{
    return home_records_decided(h, cursor) ? HOME_LINES_DECIDED_MS : HOME_LINES_MS;
}

/* ---- with a request ---- */

static const char reassign_from[] = "reassign; from=";

void home_report_print(const struct home_report *t, struct text *out)
{
    if (t->passing)
        text_add(out, SLICE_LIT("passing"));
    else if (t->kind == HOME_REASSIGN)
        text_addf(out, "%s%.*s", reassign_from, (int)t->from.len, t->from.p);
    else
        text_add(out, slice_of(kinds[t->kind]));
}

enum err home_report_parse(struct slice value, struct home_report *out)
{
    size_t n = sizeof(reassign_from) - 1;
    struct home_report t = {0};

    if (slice_is(value, "passing")) {
        t.passing = true;
    } else if (slice_starts(value, slice_of(reassign_from))) {
        t.kind = HOME_REASSIGN;
        t.from = (struct slice){value.p + n, value.len - n};
        if (!is_name(t.from))
            return ERR_SYNTAX;
    } else {
        t.kind = kind_find(value);
        if (t.kind != HOME_NEW && t.kind != HOME_REPLICATE)
            return ERR_SYNTAX;
    }
    *out = t;
    return ERR_OK;
}
