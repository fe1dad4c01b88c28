/* SPDX-License-Identifier: Apache-2.0
 *
 * The GETs of a log, in its order. Bytes that would end a line of a request are nobody's target.
 */
#include <stdlib.h>

#include "ctl/simulate/playback.h"
#include "ctl/simulate/requests.h"

static bool is_sendable(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if ((unsigned char)s.p[i] <= ' ' || s.p[i] == 0x7f)
            return false;
    }
    return true;
}

static size_t keep(struct text *texts, struct slice a, const char *between, struct slice b)
{
    size_t at = texts->len;

    text_add(texts, a);
    text_add(texts, slice_of(between));
    text_add(texts, b);
    text_add_char(texts, '\0');
    return at;
}

/* False: there are too many classes. */
static bool take(struct playback *p, const struct access_line *l, uint64_t due_us)
{
    struct playback_request q = {.due_us = due_us};

    if (!simulate_classify(&p->classifier, l, &q.cls))
        return false;
    if (p->n == p->room) {
        p->room = p->room != 0 ? p->room * 2 : 1024;
        p->requests = xrealloc(p->requests, p->room * sizeof(p->requests[0]));
    }
    q.host_at = keep(&p->texts, l->host, "", SLICE_LIT(""));
    q.target_at = keep(&p->texts, l->path, l->query.len != 0 ? "?" : "", l->query);
    p->requests[p->n++] = q;
    return true;
}

/* Times of a second: spread over it, as logs tell no more. They may go back a little, as a line is
 * written when its request is done: they stand still then. */
static void spread(struct playback *p)
{
    enum { SECOND_US = 1000000 };

    for (size_t i = 1; i < p->n; ++i) {
        if (p->requests[i].due_us < p->requests[i - 1].due_us)
            p->requests[i].due_us = p->requests[i - 1].due_us;
    }
    for (size_t i = 0; i < p->n;) {
        uint64_t begin_us = p->requests[i].due_us;
        size_t end = i;

        while (end < p->n && p->requests[end].due_us == begin_us)
            ++end;
        for (size_t k = i; k < end && begin_us % SECOND_US == 0; ++k)
            p->requests[k].due_us = begin_us + SECOND_US * (k - i) / (end - i);
        i = end;
    }
    for (size_t i = p->n; i-- != 0;)
        p->requests[i].due_us -= p->requests[0].due_us;
}

enum err playback_read(struct playback *p, struct diag *d)
{
    struct requests in;
    struct access_line l;
    enum err e = requests_open(p->file, &in, d);

    if (e != ERR_OK)
        return e;
    while (e == ERR_OK && p->n < p->limit && requests_next(&in, &l)) {
        if (!slice_is(l.method, "GET") || l.path.len == 0 || l.path.p[0] != '/' ||
            !is_sendable(l.path) || !is_sendable(l.query) || !is_sendable(l.host)) {
            ++p->others;
            continue;
        }
        if (!take(p, &l, l.time_ms * 1000)) {
            diag_add(d, p->file, 0, 0, "too many classes");
            e = ERR_TOO_LARGE;
        }
    }
    requests_print_bad(&in, &p->bad);
    enum err closed = requests_close(&in, d);
    e = e == ERR_OK ? closed : e;
    if (e == ERR_OK && p->n == 0) {
        diag_add(d, p->file, 0, 0, "no GETs in it%s%s", in.bad_why != NULL ? ": " : "",
                 in.bad_why != NULL ? in.bad_why : "");
        e = ERR_SYNTAX;
    }
    spread(p);
    return e;
}
