/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys are two keyed hashes (map_hash), so that clients cannot make one request look like another.
 * An entry is in one of two lists: suspects, ordered by the time of the last death, oldest first;
 * or held.
 */
#include "lb/rules/poison.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/list.h"
#include "common/base/map.h"

struct death {
    uint64_t at_ms;
    const void *worker;
};

struct poison_entry {
    struct map_node node;
    uint64_t key[2];
    struct list in_list;
    bool held;
    uint64_t until_ms;                      /* held */
    struct death deaths[POISON_DEATHS_MAX]; /* the oldest first */
    unsigned ndeaths;
    uint64_t responses; /* since the first of them */
    char cls[CLASS_BYTES_MAX + 1], path[POISON_PATH_MAX + 1];
};

struct poison {
    struct poison_counts n; /* first */
    pthread_mutex_t lock;
    struct map entries;
    struct list suspects, held;
};

struct poison *poison_create(void)
{
    struct poison *p = xcalloc(1, sizeof(*p));

    pthread_mutex_init(&p->lock, NULL);
    list_init(&p->suspects);
    list_init(&p->held);
    return p;
}

static void poison_count(_Atomic size_t *n, int change)
{
    /* Unsigned arithmetic wraps as it should. */
    atomic_fetch_add_explicit(n, (size_t)change, memory_order_relaxed);
}

static void drop_locked(struct poison *p, struct poison_entry *e)
{
    poison_count(e->held ? &p->n.nheld : &p->n.nsuspects, -1);
    list_remove(&e->in_list);
    map_remove(&p->entries, &e->node);
    free(e);
}

static void drop_list_locked(struct poison *p, struct list *entries)
{
    while (!list_empty(entries))
        drop_locked(p, list_entry(entries->next, struct poison_entry, in_list));
}

void poison_destroy(struct poison *p)
{
    if (p == NULL)
        return;
    drop_list_locked(p, &p->suspects);
    drop_list_locked(p, &p->held);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

/* KEY's entry, or NULL; and its hashes, to HASHED. */
static struct poison_entry *find_locked(struct poison *p, const struct poison_key *key,
                                        uint64_t hashed[2])
{
    hashed[0] = map_hash(key->cls.p, key->cls.len);
    hashed[1] = map_hash(key->path.p, key->path.len);
    return map_entry(map_find(&p->entries, hashed, 2 * sizeof(hashed[0])), struct poison_entry,
                     node);
}

/* To the end of its list: HELD, or suspects. A new entry is in none. */
static void enter_locked(struct poison *p, struct poison_entry *e, bool held)
{
    if (list_linked(&e->in_list))
        poison_count(e->held ? &p->n.nheld : &p->n.nsuspects, -1);
    poison_count(held ? &p->n.nheld : &p->n.nsuspects, 1);
    list_remove(&e->in_list);
    list_push_back(held ? &p->held : &p->suspects, &e->in_list);
    e->held = held;
}

/* Its time is over. Another death, and it is held again. */
static void release_locked(struct poison *p, struct poison_entry *e, uint64_t now_ms)
{
    e->ndeaths -= e->ndeaths > 0;
    for (unsigned i = 0; i < e->ndeaths; ++i)
        e->deaths[i] = (struct death){.at_ms = now_ms};
    e->responses = 0;
    enter_locked(p, e, false);
}

/* Loops read their clocks at different moments: NOW may be a little before. */
static uint64_t since_ms(const struct death *d, uint64_t now_ms)
{
    return now_ms > d->at_ms ? now_ms - d->at_ms : 0;
}

static void drop_old_deaths(struct poison_entry *e, uint64_t window_ms, uint64_t now_ms)
{
    unsigned old = 0;

    while (old < e->ndeaths && since_ms(&e->deaths[old], now_ms) > window_ms)
        ++old;
    e->ndeaths -= old;
    memmove(e->deaths, e->deaths + old, e->ndeaths * sizeof(e->deaths[0]));
    if (e->ndeaths == 0)
        e->responses = 0;
}

/* Removes expired holds and suspicions. Suspects are walked up to the first valid entry. */
static void sweep_locked(struct poison *p, uint64_t window_ms, uint64_t now_ms)
{
    struct poison_entry *e;

    list_for_each_entry_safe (e, &p->held, in_list) {
        if (now_ms >= e->until_ms)
            release_locked(p, e, now_ms);
    }
    list_for_each_entry_safe (e, &p->suspects, in_list) {
        drop_old_deaths(e, window_ms, now_ms);
        if (e->ndeaths != 0)
            return;
        drop_locked(p, e);
    }
}

/* False: it is the same death as before. */
static bool note_death(struct poison_entry *e, const void *worker, uint64_t now_ms)
{
    for (unsigned i = 0; i < e->ndeaths; ++i) {
        if (e->deaths[i].worker == worker && since_ms(&e->deaths[i], now_ms) < POISON_SAME_DEATH_MS)
            return false;
    }
    if (e->ndeaths == POISON_DEATHS_MAX)
        memmove(e->deaths, e->deaths + 1, --e->ndeaths * sizeof(e->deaths[0]));
    e->deaths[e->ndeaths++] = (struct death){.at_ms = now_ms, .worker = worker};
    return true;
}

enum poison_verdict poison_death(struct poison *p, const struct poison_rule *r,
                                 const struct poison_key *key, const void *worker, uint64_t now_ms)
{
    enum poison_verdict v = POISON_NOTHING;
    uint64_t hashed[2];

    if (r->deaths == 0)
        return POISON_NOTHING;
    pthread_mutex_lock(&p->lock);
    sweep_locked(p, r->window_ms, now_ms);
    struct poison_entry *e = find_locked(p, key, hashed);
    if (e == NULL) {
        if (map_count(&p->entries) >= POISON_KEYS_MAX)
            drop_locked(p, list_entry(p->suspects.next, struct poison_entry, in_list));
        e = xcalloc(1, sizeof(*e));
        memcpy(e->key, hashed, sizeof(e->key));
        snprintf(e->cls, sizeof(e->cls), "%.*s", SLICE_FMT(key->cls));
        snprintf(e->path, sizeof(e->path), "%.*s", SLICE_FMT(key->path));
        map_add(&p->entries, &e->node, e->key, sizeof(e->key));
        enter_locked(p, e, false);
    }
    /* Requests in flight when it became blocked may still kill workers. */
    if (!e->held) {
        drop_old_deaths(e, r->window_ms, now_ms);
        if (note_death(e, worker, now_ms))
            enter_locked(p, e, false);
        if (e->ndeaths >= r->deaths && e->responses <= e->ndeaths)
            v = POISON_HELD;
    }
    if (v == POISON_HELD &&
        atomic_load_explicit(&p->n.nheld, memory_order_relaxed) == POISON_HELD_MAX) {
        drop_list_locked(p, &p->suspects);
        drop_list_locked(p, &p->held);
        v = POISON_TOO_MANY;
    } else if (v == POISON_HELD) {
        e->until_ms = now_ms + r->hold_ms;
        enter_locked(p, e, true);
    }
    pthread_mutex_unlock(&p->lock);
    return v;
}

void poison_responded(struct poison *p, const struct poison_rule *r, const struct poison_key *key,
                      uint64_t now_ms)
{
    uint64_t hashed[2];

    if (!poison_any_suspects(p))
        return;
    pthread_mutex_lock(&p->lock);
    sweep_locked(p, r->window_ms, now_ms);
    struct poison_entry *e = find_locked(p, key, hashed);
    if (e != NULL && !e->held)
        ++e->responses;
    pthread_mutex_unlock(&p->lock);
}

bool poison_holds(struct poison *p, const struct poison_key *key, uint64_t now_ms)
{
    uint64_t hashed[2];

    if (!poison_any_held(p))
        return false;
    pthread_mutex_lock(&p->lock);
    struct poison_entry *e = find_locked(p, key, hashed);
    bool held = e != NULL && e->held;
    if (held && now_ms >= e->until_ms) {
        release_locked(p, e, now_ms);
        held = false;
    }
    pthread_mutex_unlock(&p->lock);
    return held;
}

void poison_view(struct poison *p, uint64_t now_ms, struct poison_view *out)
{
    const struct poison_entry *e;

    out->nheld = 0;
    pthread_mutex_lock(&p->lock);
    list_for_each_entry (e, &p->held, in_list) {
        struct poison_held *h = &out->held[out->nheld];

        if (now_ms >= e->until_ms)
            continue;
        memcpy(h->cls, e->cls, sizeof(h->cls));
        memcpy(h->path, e->path, sizeof(h->path));
        h->for_ms = e->until_ms - now_ms;
        ++out->nheld;
    }
    pthread_mutex_unlock(&p->lock);
}
