/* SPDX-License-Identifier: Apache-2.0
 *
 * Each change gives its record the next number and the last place in a list, so that what a reader
 * has not seen yet is the list's end.
 */
#include "common/skills/home_records.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/text.h"
#include "common/skills/classes.h"

struct record {
    struct class_entry base;
    struct list node; /* home_records->changed */
    uint64_t change;
    enum home_kind kind;
    char *from; /* or NULL */
    uint64_t since_us, used_us;
    double work_us; /* decayed, as of WORK_AT_US */
    uint64_t work_at_us;
};

struct home_records {
    struct classes classes; /* of struct record */
    struct list changed;    /* the longest unchanged first */
    uint64_t changes;
    uint64_t decided; /* the last change that was a decision */
};

static const char *const kinds[HOME_KINDS] = {"used", "new", "copy", "move"};

const char *home_kind_text(enum home_kind k)
{
    ASSERT((unsigned)k < HOME_KINDS);
    return kinds[k];
}

enum home_kind home_kind_find(struct slice text)
{
    unsigned k = 0;

    while (k < HOME_KINDS && !slice_is(text, kinds[k]))
        ++k;
    return (enum home_kind)k;
}

static struct record *record_of(struct class_entry *e)
{
    return container_of(e, struct record, base);
}

static void dropped(void *owner, struct class_entry *e)
{
    struct record *r = record_of(e);

    (void)owner;
    list_remove(&r->node);
    free(r->from);
}

struct home_records *home_records_create(size_t max_classes)
{
    struct home_records *h = xcalloc(1, sizeof(*h));

    list_init(&h->changed);
    classes_init(&h->classes, sizeof(struct record), max_classes, dropped, h);
    return h;
}

void home_records_destroy(struct home_records *h)
{
    if (h == NULL)
        return;
    classes_fini(&h->classes);
    free(h);
}

static double work_at(const struct record *r, uint64_t now_us)
{
    return r->work_us * exp(-(double)(now_us - r->work_at_us) / HOME_TAU_US);
}

static void mark(struct home_records *h, struct record *r)
{
    r->change = ++h->changes;
    list_remove(&r->node);
    list_push_back(&h->changed, &r->node);
}

static struct record *add(struct home_records *h, struct slice cls, uint64_t now_us)
{
    struct record *r = record_of(classes_add(&h->classes, cls));

    r->since_us = r->used_us = r->work_at_us = now_us;
    list_push_back(&h->changed, &r->node);
    return r;
}

void home_records_use(struct home_records *h, struct slice cls, enum home_kind kind,
                      struct slice from, uint64_t now_us)
{
    struct class_entry *e = classes_find(&h->classes, cls);

    ASSERT((unsigned)kind < HOME_KINDS);
    classes_request(&h->classes, e);
    struct record *r = e != NULL ? record_of(e) : add(h, cls, now_us);
    if (e == NULL || kind != HOME_USED || (double)(now_us - r->used_us) > HOME_AGE_US) {
        r->since_us = now_us;
        r->kind = kind;
        free(r->from);
        r->from = kind == HOME_MOVE ? xasprintf("%.*s", (int)from.len, from.p) : NULL;
    }
    r->used_us = now_us;
    mark(h, r);
    if (kind != HOME_USED)
        h->decided = r->change;
}

void home_records_served(struct home_records *h, struct slice cls, uint64_t service_us,
                         uint64_t now_us)
{
    struct class_entry *e = classes_find(&h->classes, cls);

    if (e == NULL)
        return;
    struct record *r = record_of(e);
    r->work_us = work_at(r, now_us) + (double)service_us;
    r->work_at_us = now_us;
    mark(h, r);
}

/* The first that CURSOR does not cover, or the head. */
static struct list *first_after(const struct home_records *h, uint64_t cursor)
{
    struct list *it = h->changed.prev;

    while (it != &h->changed && list_entry(it, struct record, node)->change > cursor)
        it = it->prev;
    return it->next;
}

uint64_t home_records_changed(const struct home_records *h, uint64_t cursor, size_t max,
                              uint64_t now_us,
                              void (*each)(void *context, const struct home_record *r),
                              void *context)
{
    size_t n = 0;

    for (struct list *it = first_after(h, cursor); it != &h->changed && n < max; it = it->next) {
        const struct record *r = list_entry(it, const struct record, node);
        struct home_record out = {.cls = class_name(&r->base),
                                  .kind = r->kind,
                                  .from = r->from != NULL ? slice_of(r->from) : SLICE_NULL,
                                  .since_us = r->since_us,
                                  .used_us = r->used_us,
                                  .rate = work_at(r, now_us) / HOME_TAU_US};

        cursor = r->change;
        ++n;
        each(context, &out);
    }
    return cursor;
}

bool home_records_decided(const struct home_records *h, uint64_t cursor)
{
    return h->decided > cursor;
}

size_t home_records_count(const struct home_records *h)
{
    return h->classes.n;
}

void home_records_check(const struct home_records *h)
{
    struct list *it;
    uint64_t change = 0;
    size_t n = 0;

    classes_check(&h->classes);
    list_for_each (it, &h->changed) {
        const struct record *r = list_entry(it, const struct record, node);

        ASSERT(r->change > change);
        ASSERT(r->since_us <= r->used_us);
        ASSERT((r->from != NULL) == (r->kind == HOME_MOVE));
        ASSERT(r->work_us >= 0);
        change = r->change;
        ++n;
    }
    ASSERT(change <= h->changes);
    ASSERT(n == h->classes.n);
}
