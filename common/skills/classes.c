/* SPDX-License-Identifier: Apache-2.0
 *
 * Both lists are in the order of the last request: a requested class moves to the end of its list,
 * or to the end of the other list when it becomes known. The front is the next to be dropped.
 */
#include "common/skills/classes.h"

#include <stdlib.h>

static size_t probation_room(const struct classes *t)
{
    return t->max / 10 != 0 ? t->max / 10 : 1;
}

static size_t known_room(const struct classes *t)
{
    return t->max - probation_room(t);
}

void classes_init(struct classes *t, size_t entry_bytes, size_t max, class_drop_fn drop,
                  void *owner)
{
    ASSERT(entry_bytes >= sizeof(struct class_entry));
    ASSERT(max >= 1);
    *t = (struct classes){.entry_bytes = entry_bytes, .max = max, .drop = drop, .owner = owner};
    list_init(&t->known);
    list_init(&t->probation);
    t->sweep_left = probation_room(t);
}

/* Drops entries from LIST until *N is at most ROOM. */
static cold_ void limit_list(struct classes *t, struct list *list, const size_t *n, size_t room)
{
    while (*n > room) {
        ASSERT(!list_empty(list));
        classes_remove(t, list_first(list, struct class_entry, node));
    }
}

void classes_fini(struct classes *t)
{
    limit_list(t, &t->known, &t->nknown, 0);
    limit_list(t, &t->probation, &t->n, 0);
}

void classes_set_max(struct classes *t, size_t max)
{
    ASSERT(max >= 1);
    t->max = max;
    if (t->sweep_left > probation_room(t))
        t->sweep_left = probation_room(t);
    limit_list(t, &t->known, &t->nknown, known_room(t));
    limit_list(t, &t->probation, &t->n, max);
}

struct class_entry *classes_find_hashed(const struct classes *t, struct slice cls, uint64_t hash)
{
    const char *key = cls.p != NULL ? cls.p : "";

    return map_entry(map_find_hashed(&t->by_name, key, cls.len, hash), struct class_entry, by_name);
}

struct class_entry *classes_find(const struct classes *t, struct slice cls)
{
    return classes_find_hashed(t, cls, class_hash(cls));
}

struct class_entry *classes_add(struct classes *t, struct slice cls)
{
    limit_list(t, &t->probation, &t->n, t->max - 1);

    struct class_entry *e = xcalloc(1, t->entry_bytes + cls.len);
    char *name = (char *)e + t->entry_bytes;

    if (cls.len != 0)
        memcpy(name, cls.p, cls.len);
    e->sweep = t->sweep;
    map_add(&t->by_name, &e->by_name, name, cls.len);
    list_push_back(&t->probation, &e->node);
    ++t->n;
    return e;
}

static cold_ void make_known(struct classes *t, struct class_entry *e)
{
    e->known = true;
    list_remove(&e->node);
    list_push_back(&t->known, &e->node);
    ++t->nknown;
}

void classes_request(struct classes *t, struct class_entry *e)
{
    if (--t->sweep_left == 0) {
        t->sweep_left = probation_room(t);
        ++t->sweep;
    }
    if (e == NULL)
        return;
    if (e->known) {
        list_move_back(&t->known, &e->node);
    } else if (e->sweep == t->sweep || known_room(t) == 0) {
        list_move_back(&t->probation, &e->node);
    } else {
        limit_list(t, &t->known, &t->nknown, known_room(t) - 1);
        make_known(t, e);
    }
}

void classes_refresh(struct classes *t, struct class_entry *e)
{
    if (!e->known)
        list_move_back(&t->probation, &e->node);
}

void classes_trust(struct classes *t, struct class_entry *e)
{
    if (!e->known && t->nknown < known_room(t))
        make_known(t, e);
}

void classes_remove(struct classes *t, struct class_entry *e)
{
    if (t->drop != NULL)
        t->drop(t->owner, e);
    map_remove(&t->by_name, &e->by_name);
    list_remove(&e->node);
    --t->n;
    if (e->known)
        --t->nknown;
    free(e);
}

struct class_entry *classes_next(const struct classes *t, const struct class_entry *e)
{
    struct list *before = e != NULL ? e->node.prev : t->known.prev;

    if (before == &t->known)
        before = t->probation.prev;
    return before != &t->probation ? list_entry(before, struct class_entry, node) : NULL;
}
