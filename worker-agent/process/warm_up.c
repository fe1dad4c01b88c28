/* SPDX-License-Identifier: Apache-2.0
 *
 * Each request has its own connection: a process may close it after any response.
 */
#include "worker-agent/process/warm_up.h"

#include <stdlib.h>

#include "common/base/text.h"

/* ---- targets ---- */

enum { BYTES_MAX = WARM_TARGET_MAX + WARM_HOST_MAX + CLASS_BYTES_MAX + 2 };

static uint64_t counters_max(const struct warm_targets *w)
{
    return (uint64_t)w->max * WARM_COUNTERS_EACH;
}

void warm_targets_resize(struct warm_targets *w, size_t max)
{
    ASSERT(max <= WARM_TARGETS_MAX);
    if (max == w->max)
        return;
    w->max = max;
    w->until_halved = counters_max(w) * WARM_HALVE_AFTER;
    if (max == 0) {
        topk_destroy(w->top);
        w->top = NULL;
    } else if (w->top == NULL) {
        w->top = topk_create(counters_max(w), BYTES_MAX);
    } else {
        topk_resize(w->top, counters_max(w));
    }
}

static size_t warm_put(char *out, size_t at, struct slice s, char end)
{
    if (s.len > 0)
        memcpy(out + at, s.p, s.len);
    out[at + s.len] = end;
    return at + s.len + 1;
}

void warm_targets_add(struct warm_targets *w, struct slice host, struct slice cls,
                      struct slice target)
{
    char buf[BYTES_MAX];

    if (w->top == NULL || host.len == 0 || host.len > WARM_HOST_MAX || cls.len > CLASS_BYTES_MAX ||
        target.len == 0 || target.len > WARM_TARGET_MAX)
        return;
    /* No part has a NUL: they come from a request's head. */
    size_t len = warm_put(buf, warm_put(buf, 0, host, '\0'), cls, '\0');
    memcpy(buf + len, target.p, target.len);
    len += target.len;
    topk_add(w->top, (struct slice){buf, len}, 1);
    if (--w->until_halved == 0) {
        topk_halve(w->top);
        w->until_halved = counters_max(w) * WARM_HALVE_AFTER;
    }
}

/* ---- from a head of ours ---- */

static struct slice next_line(struct slice *rest)
{
    struct slice line = slice_cut(rest, '\n');

    if (line.len > 0 && line.p[line.len - 1] == '\r')
        --line.len;
    return line;
}

void warm_targets_add_head(struct warm_targets *w, struct slice head)
{
    static const struct slice before = {"GET ", 4};
    static const struct slice after = {" HTTP/1.1", 9};
    /* A request with one of these fields is not counted. */
    static const char *const not_for_all[] = {"Cookie",         "Authorization",     "Range",
                                              "Content-Length", "Transfer-Encoding", "Upgrade"};
    struct warm_target parts = {.host = SLICE_NULL};
    struct slice line;

    if (w->top == NULL)
        return;
    line = next_line(&head);
    if (line.len < before.len + after.len || !slice_starts(line, before) ||
        !slice_ends(line, after))
        return;
    parts.target = (struct slice){line.p + before.len, line.len - before.len - after.len};
    while ((line = next_line(&head)).len > 0) {
        struct slice name = slice_cut(&line, ':');

        if (slice_eq_nocase(name, SLICE_LIT("Host")))
            parts.host = slice_trim(line);
        else if (slice_eq_nocase(name, SLICE_LIT("Resumelb-Class")))
            parts.cls = slice_trim(line);
        for (size_t i = 0; i < ARRAY_LEN(not_for_all); ++i) {
            if (slice_eq_nocase(name, slice_of(not_for_all[i])))
                return;
        }
    }
    warm_targets_add(w, parts.host, parts.cls, parts.target);
}

static uint64_t certain_count(const struct topk_row *r)
{
    return r->sum - r->over;
}

static int more_certain_first(const void *a, const void *b)
{
    const struct topk_row *x = a;
    const struct topk_row *y = b;

    return (certain_count(y) > certain_count(x)) - (certain_count(y) < certain_count(x));
}

size_t warm_targets_top(const struct warm_targets *w, struct warm_target *out)
{
    struct topk_row rows[WARM_TARGETS_MAX * WARM_COUNTERS_EACH];
    size_t rows_n = w->top != NULL ? topk_read(w->top, rows, ARRAY_LEN(rows)) : 0;
    size_t n = 0;

    if (rows_n > 1)
        qsort(rows, rows_n, sizeof(rows[0]), more_certain_first);
    for (; n < rows_n && n < w->max && certain_count(&rows[n]) >= WARM_SEEN_MIN; ++n) {
        struct slice target = rows[n].key;

        out[n] = (struct warm_target){.count = rows[n].sum};
        out[n].host = slice_cut(&target, '\0');
        out[n].cls = slice_cut(&target, '\0');
        out[n].target = target;
    }
    return n;
}

void warm_targets_fini(struct warm_targets *w)
{
    warm_targets_resize(w, 0);
}

/* ---- the warm-up ---- */

static void try_next(struct warm_up *w);

static void on_warm_done(struct http_fetch *f, enum err e)
{
    struct warm_up *w = container_of(f, struct warm_up, fetch);

    if (e == ERR_OK && f->status == 200)
        ++w->responded;
    else
        ++w->failed;
    if (++w->at < w->n && loop_active_ms(w->loop) < w->due_ms) {
        try_next(w);
        return;
    }
    warm_up_stop(w);
    w->done(w);
}

static const struct http_fetch_events events = {.done = on_warm_done};

static void try_next(struct warm_up *w)
{
    const struct http_fetch_request q = {.addr = &w->addr,
                                         .bytes = w->heads[w->at],
                                         .timeout_ms = w->due_ms - loop_active_ms(w->loop),
                                         .events = &events};

    w->heads[w->at] = (struct text){0};
    http_fetch_start(&w->fetch, w->loop, &q);
}

bool warm_up_start(struct warm_up *w, struct loop *l, const struct addr *a,
                   const struct warm_targets *targets, uint64_t limit_ms)
{
    struct warm_target top[WARM_TARGETS_MAX];
    size_t n = warm_targets_top(targets, top);

    if (n == 0)
        return false;
    w->loop = l;
    w->addr = *a;
    w->due_ms = loop_due_ms(l, limit_ms);
    for (w->n = 0; w->n < n; ++w->n) {
        const struct warm_target *t = &top[w->n];
        struct text *head = &w->heads[w->n];

        text_addf(head, "GET %.*s HTTP/1.1\r\nHost: %.*s\r\n", SLICE_FMT(t->target),
                  SLICE_FMT(t->host));
        if (t->cls.len > 0)
            text_addf(head, "Resumelb-Class: %.*s\r\n", SLICE_FMT(t->cls));
        text_add(head, SLICE_LIT("Resumelb-Warm-Up: 1\r\nUser-Agent: resumelb-agent\r\n"
                                 "Connection: close\r\n\r\n"));
    }
    w->at = 0;
    w->responded = w->failed = 0;
    try_next(w);
    return true;
}

void warm_up_stop(struct warm_up *w)
{
    if (w->loop == NULL)
        return;
    http_fetch_stop(&w->fetch);
    while (w->n > 0)
        text_fini(&w->heads[--w->n]);
    w->loop = NULL;
}
