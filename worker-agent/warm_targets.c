/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/warm_targets.h"

#include <stdlib.h>

#include "common/base/text.h"

enum { BYTES_MAX = WARM_TARGET_MAX + WARM_HOST_MAX + CLASS_BYTES_MAX + 2 };

static uint64_t certain(const struct warm_target *t)
{
    return t->count - t->error;
}

static void forget(struct warm_targets *w, size_t i)
{
    struct warm_target *t = w->items[i];

    map_remove(&w->by_bytes, &t->node);
    free(t);
    w->items[i] = w->items[--w->n];
}

static size_t least(const struct warm_targets *w)
{
    size_t found = 0;

    for (size_t i = 1; i < w->n; ++i) {
        if (w->items[i]->count < w->items[found]->count)
            found = i;
    }
    return found;
}

void warm_targets_want(struct warm_targets *w, size_t wanted)
{
    size_t room = wanted * WARM_COUNTERS_EACH;

    ASSERT(wanted <= WARM_WANTED_MAX);
    if (room == w->room)
        return;
    while (w->n > room)
        forget(w, least(w));
    w->wanted = wanted;
    w->room = room;
    w->until_halved = room * WARM_HALVE_AFTER;
    if (room > 0) {
        w->items = xrealloc(w->items, room * sizeof(struct warm_target *));
    } else {
        free(w->items);
        w->items = NULL;
    }
}

static size_t put(char *out, size_t at, struct slice s, char end)
{
    if (s.len > 0)
        memcpy(out + at, s.p, s.len);
    out[at + s.len] = end;
    return at + s.len + 1;
}

static struct warm_target *create(struct slice bytes, struct slice host, struct slice cls)
{
    struct warm_target *t = xcalloc(1, sizeof(*t) + bytes.len);

    memcpy(t->bytes, bytes.p, bytes.len);
    t->nbytes = bytes.len;
    t->host = (struct slice){t->bytes, host.len};
    t->cls = (struct slice){t->bytes + host.len + 1, cls.len};
    t->target = (struct slice){t->cls.p + cls.len + 1, bytes.len - host.len - cls.len - 2};
    return t;
}

static void halve(struct warm_targets *w)
{
    for (size_t i = 0; i < w->n; ++i) {
        w->items[i]->count /= 2;
        w->items[i]->error /= 2;
    }
    w->until_halved = w->room * WARM_HALVE_AFTER;
}

static bool fits(struct slice s, size_t max)
{
    return s.len > 0 && s.len <= max;
}

void warm_targets_add(struct warm_targets *w, struct slice host, struct slice cls,
                      struct slice target)
{
    char buf[BYTES_MAX];
    struct warm_target *t;

    if (w->room == 0 || !fits(host, WARM_HOST_MAX) || cls.len > CLASS_BYTES_MAX ||
        !fits(target, WARM_TARGET_MAX))
        return;
    /* No part has a NUL: they come from a request's head. */
    size_t len = put(buf, put(buf, 0, host, '\0'), cls, '\0');
    memcpy(buf + len, target.p, target.len);
    len += target.len;
    t = map_entry(map_find(&w->by_bytes, buf, len), struct warm_target, node);
    if (t == NULL) {
        uint64_t inherited = 0;

        t = create((struct slice){buf, len}, host, cls);
        if (w->n == w->room) {
            size_t i = least(w);

            inherited = w->items[i]->count;
            forget(w, i);
        }
        t->count = t->error = inherited;
        w->items[w->n++] = t;
        map_add(&w->by_bytes, &t->node, t->bytes, t->nbytes);
    }
    ++t->count;
    if (--w->until_halved == 0)
        halve(w);
}

/* ---- from a head of ours ---- */

struct parts {
    struct slice host, cls, target;
};

static bool is_one_of(struct slice name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        if (slice_eq_nocase(name, slice_of(names[i])))
            return true;
    }
    return false;
}

/* False: with this field the request is not one for all. */
static bool take_field(struct slice line, struct parts *out)
{
    static const char *const not_for_all[] = {"Cookie",         "Authorization",     "Range",
                                              "Content-Length", "Transfer-Encoding", "Upgrade"};
    struct slice value = line;
    struct slice name = slice_cut(&value, ':');

    if (slice_eq_nocase(name, SLICE_LIT("Host")))
        out->host = slice_trim(value);
    else if (slice_eq_nocase(name, SLICE_LIT("Resumelb-Class")))
        out->cls = slice_trim(value);
    return !is_one_of(name, not_for_all, ARRAY_LEN(not_for_all));
}

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
    struct parts parts = {.host = SLICE_NULL};
    struct slice line;

    if (w->room == 0)
        return;
    line = next_line(&head);
    if (line.len < before.len + after.len || !slice_starts(line, before) ||
        !slice_ends(line, after))
        return;
    parts.target = (struct slice){line.p + before.len, line.len - before.len - after.len};
    while ((line = next_line(&head)).len > 0) {
        if (!take_field(line, &parts))
            return;
    }
    warm_targets_add(w, parts.host, parts.cls, parts.target);
}

static int more_certain_first(const void *a, const void *b)
{
    const struct warm_target *x = *(const struct warm_target *const *)a;
    const struct warm_target *y = *(const struct warm_target *const *)b;

    return (certain(y) > certain(x)) - (certain(y) < certain(x));
}

size_t warm_targets_top(const struct warm_targets *w, const struct warm_target **out)
{
    const struct warm_target *all[WARM_WANTED_MAX * WARM_COUNTERS_EACH];
    size_t n = 0;

    for (size_t i = 0; i < w->n; ++i) {
        if (certain(w->items[i]) >= WARM_SEEN_MIN)
            all[n++] = w->items[i];
    }
    if (n > 1)
        qsort(all, n, sizeof(struct warm_target *), more_certain_first);
    if (n > w->wanted)
        n = w->wanted;
    for (size_t i = 0; i < n; ++i)
        out[i] = all[i];
    return n;
}

void warm_targets_fini(struct warm_targets *w)
{
    warm_targets_want(w, 0);
}
