/* SPDX-License-Identifier: Apache-2.0
 *
 * A variant is in three lists: that of its URL and that of all variants, both least recently used
 * first, and that of all variants by the time of storing.
 *
 *     urls (map) -> url -> variants --+
 *     by_use  --------------------------> variant -> copy (one reference)
 *     by_time ------------------------+
 *
 * Removed variants are unlinked under the lock and released after it.
 */
#include "lb/limits/copies.h"

#include "common/base/list.h"
#include "common/base/map.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    /*
     * When URLs were invalidated, by their hash: two with the same hash share the entry, which may
     * cost a copy of a response in progress at that time.
     */
    INVALIDATED_SLOTS = 1024,
};

struct url {
    struct map_node node;
    struct list variants; /* least recently used first */
    size_t n;
    size_t key_len;
    char key[];
};

struct variant {
    struct list in_url, by_use, by_time;
    struct url *url;
    struct copy *copy;
    size_t cost;
    uint64_t put_us;
};

_Static_assert(sizeof(struct url) + sizeof(struct variant) <= COPIES_ENTRY_BYTES,
               "what is charged for an entry covers it");

struct copies {
    pthread_mutex_t lock;
    struct copy_memory *memory;
    /* The rest under the lock. */
    struct copies_limits limits;
    struct map urls;
    struct list by_use, by_time;
    struct list removed; /* variants, by by_use: unlock() releases them */
    uint64_t clock_us;   /* the latest time received; loops differ a little */
    struct copies_stats stats;
    uint64_t invalidated_us[INVALIDATED_SLOTS];
};

/* A URL as one string. */
struct url_key {
    size_t len;
    char bytes[COPIES_KEY_MAX];
};

/* ---- keys ---- */

static bool put_part(struct url_key *k, struct slice part)
{
    if (part.len > sizeof(k->bytes) - k->len)
        return false;
    if (part.len != 0)
        memcpy(k->bytes + k->len, part.p, part.len);
    k->len += part.len;
    return true;
}

/* RFC 9110 4.2.3: scheme and host without case, the rest as it is. False: over its limit. */
static bool make_key(const struct copies_url *url, struct url_key *k)
{
    k->len = 0;
    if (!put_part(k, url->scheme) || !put_part(k, SLICE_LIT("://")) || !put_part(k, url->authority))
        return false;
    for (size_t i = 0; i < k->len; ++i)
        k->bytes[i] = ascii_lower(k->bytes[i]);
    return put_part(k, url->target);
}

static struct url *find_url(const struct copies *s, const struct url_key *k)
{
    return map_entry(map_find(&s->urls, k->bytes, k->len), struct url, node);
}

static uint64_t *invalidated_slot(struct copies *s, const struct url_key *k)
{
    return &s->invalidated_us[map_hash(k->bytes, k->len) % INVALIDATED_SLOTS];
}

/* ---- coming and going ---- */

/* Removes V, and its URL with its last variant. */
static void remove_variant(struct copies *s, struct variant *v)
{
    struct url *u = v->url;

    ASSERT(u != NULL);
    list_remove(&v->in_url);
    list_remove(&v->by_time);
    list_move_back(&s->removed, &v->by_use);
    s->stats.bytes -= v->cost;
    --s->stats.copies;
    v->url = NULL;
    if (--u->n == 0) {
        map_remove(&s->urls, &u->node);
        free(u);
    }
}

static void add_variant(struct copies *s, const struct url_key *k, struct copy *copy, size_t cost)
{
    struct url *u = find_url(s, k);
    struct variant *v = xcalloc(1, sizeof(*v));

    if (u == NULL) {
        u = xmalloc(sizeof(*u) + k->len);
        *u = (struct url){.key_len = k->len};
        list_init(&u->variants);
        memcpy(u->key, k->bytes, k->len);
        map_add(&s->urls, &u->node, u->key, u->key_len);
    }
    *v = (struct variant){.url = u, .copy = copy, .cost = cost, .put_us = s->clock_us};
    list_push_back(&u->variants, &v->in_url);
    list_push_back(&s->by_use, &v->by_use);
    list_push_back(&s->by_time, &v->by_time);
    ++u->n;
    ++s->stats.copies;
    s->stats.bytes += cost;
}

/* Releases what was removed, after the lock: freeing large memory is a system call, and another
 * user may hold the last reference anyway. */
static void unlock(struct copies *s)
{
    struct list removed = LIST_INIT(removed);
    struct list *node;

    list_splice_back(&removed, &s->removed);
    pthread_mutex_unlock(&s->lock);
    while ((node = list_pop_front(&removed)) != NULL) {
        struct variant *v = list_entry(node, struct variant, by_use);

        copy_put(v->copy);
        free(v);
    }
}

static void evict(struct copies *s, struct variant *v)
{
    ++s->stats.evictions;
    remove_variant(s, v);
}

/* Until a copy of COST, and COPIES of them, fit. */
static void make_fit(struct copies *s, size_t cost, size_t copies)
{
    while (s->stats.copies != 0 && (s->stats.copies + copies > s->limits.max_copies ||
                                    s->stats.bytes + cost > s->limits.max_bytes))
        evict(s, list_first(&s->by_use, struct variant, by_use));
}

static void set_clock(struct copies *s, uint64_t now_us)
{
    if (now_us > s->clock_us)
        s->clock_us = now_us;
    while (list_linked(&s->by_time)) {
        struct variant *v = list_first(&s->by_time, struct variant, by_time);

        if ((s->clock_us - v->put_us) / 1000000 <= s->limits.max_age_s)
            return;
        ++s->stats.expired;
        remove_variant(s, v);
    }
}

/* ---- life ---- */

/* A maker has found the memory used up. */
static bool give_up_bytes(void *context, size_t bytes)
{
    struct copies *s = context;
    size_t freed = 0;

    pthread_mutex_lock(&s->lock);
    while (freed < bytes && list_linked(&s->by_use)) {
        struct variant *v = list_first(&s->by_use, struct variant, by_use);

        freed += copy_bytes(v->copy);
        evict(s, v);
    }
    unlock(s);
    return freed != 0;
}

struct copies *copies_create(const struct copies_limits *l, struct copy_memory *memory)
{
    struct copies *s = xcalloc(1, sizeof(*s));

    pthread_mutex_init(&s->lock, NULL);
    s->memory = memory;
    memory->make_room = give_up_bytes;
    memory->context = s;
    s->limits = *l;
    list_init(&s->by_use);
    list_init(&s->by_time);
    list_init(&s->removed);
    return s;
}

void copies_destroy(struct copies *s)
{
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    while (list_linked(&s->by_use))
        remove_variant(s, list_first(&s->by_use, struct variant, by_use));
    unlock(s);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void copies_set_limits(struct copies *s, const struct copies_limits *l, uint64_t now_us)
{
    pthread_mutex_lock(&s->lock);
    s->limits = *l;
    set_clock(s, now_us);
    make_fit(s, 0, 0);
    unlock(s);
}

/* ---- making copies ---- */

struct copy_maker *copies_begin(struct copies *s)
{
    pthread_mutex_lock(&s->lock);
    size_t max_bytes = s->limits.max_copy_bytes;
    pthread_mutex_unlock(&s->lock);
    return copy_maker_create(s->memory, max_bytes);
}

/* Stores *COPY, which is NULL then, unless it is not to be stored. */
static void store(struct copies *s, const struct url_key *k, struct copy **copy)
{
    size_t cost = copy_bytes(*copy) + k->len + COPIES_ENTRY_BYTES;
    struct url *u = find_url(s, k);
    struct variant *same = NULL; /* that *COPY takes the place of */
    struct variant *v;

    if (u != NULL) {
        list_for_each_entry (v, &u->variants, in_url) {
            if (slice_eq(v->copy->variant, (*copy)->variant))
                same = v;
        }
    }
    if (s->limits.max_copies == 0 || cost > s->limits.max_bytes ||
        copy_bytes(*copy) > s->limits.max_copy_bytes ||
        (*copy)->asked_us <= *invalidated_slot(s, k) ||
        (same != NULL && same->copy->made_us > (*copy)->made_us))
        return;
    if (same != NULL)
        remove_variant(s, same); /* this may have freed U */
    else if (u != NULL && u->n == COPIES_VARIANTS_MAX)
        evict(s, list_first(&u->variants, struct variant, in_url));
    make_fit(s, cost, 1);
    add_variant(s, k, *copy, cost);
    *copy = NULL;
}

void copies_put(struct copies *s, const struct copies_url *url, struct copy **copy, uint64_t now_us)
{
    struct url_key k;
    bool fits = make_key(url, &k);

    pthread_mutex_lock(&s->lock);
    set_clock(s, now_us);
    if (fits)
        store(s, &k, copy);
    if (*copy == NULL)
        ++s->stats.stored;
    else
        ++s->stats.refused;
    unlock(s);
    copy_put(*copy);
    *copy = NULL;
}

void copies_invalidate(struct copies *s, const struct copies_url *url, uint64_t now_us)
{
    struct url_key k;

    if (!make_key(url, &k))
        return;
    pthread_mutex_lock(&s->lock);
    set_clock(s, now_us);
    /* Loops' clocks differ a little: the later one counts, for what they have asked. */
    *invalidated_slot(s, &k) = s->clock_us;
    struct url *u = find_url(s, &k);
    for (size_t left = u != NULL ? u->n : 0; left != 0; --left) {
        ++s->stats.invalidated;
        remove_variant(s, list_first(&u->variants, struct variant, in_url));
    }
    unlock(s);
}

void copies_clear(struct copies *s, uint64_t now_us)
{
    pthread_mutex_lock(&s->lock);
    set_clock(s, now_us);
    for (size_t i = 0; i < ARRAY_LEN(s->invalidated_us); ++i)
        s->invalidated_us[i] = s->clock_us;
    while (list_linked(&s->by_use)) {
        ++s->stats.invalidated;
        remove_variant(s, list_first(&s->by_use, struct variant, by_use));
    }
    unlock(s);
}

/* ---- finding ---- */

struct copy *copies_find(struct copies *s, const struct copies_url *url,
                         const struct cache_request *request, const struct copies_need *need,
                         uint64_t now_us)
{
    struct copy *found = NULL;
    struct variant *newest = NULL;
    struct variant *v;
    struct url_key k;

    if (!make_key(url, &k))
        return NULL;
    pthread_mutex_lock(&s->lock);
    set_clock(s, now_us);
    struct url *u = find_url(s, &k);
    if (u == NULL)
        goto out;
    /* RFC 9111 4.1: the most recent of those that the request chooses. */
    list_for_each_entry (v, &u->variants, in_url) {
        if (newest != NULL && newest->copy->made_us >= v->copy->made_us)
            continue;
        if (cache_variant_matches(v->copy->variant, request->fields))
            newest = v;
    }
    if (newest == NULL)
        goto out;
    const struct cache_facts *facts = &newest->copy->facts;
    uint64_t age_s = copy_age_s(newest->copy, now_us);
    bool good = need->stale == NULL
                    ? newest->put_us >= need->not_before_us && cache_may_share(facts, age_s)
                    : age_s <= need->max_age_s && cache_may_serve_stale(facts, need->stale, age_s);
    if (good) {
        ++*(need->stale != NULL ? &s->stats.hits_stale : &s->stats.hits_coalesced);
        list_move_back(&u->variants, &newest->in_url);
        list_move_back(&s->by_use, &newest->by_use);
        found = copy_get(newest->copy);
    }
out:
    unlock(s);
    return found;
}

/* ---- status and checks ---- */

void copies_read_stats(struct copies *s, struct copies_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    pthread_mutex_unlock(&s->lock);
}

void copies_check(struct copies *s)
{
    size_t copies = 0;
    size_t bytes = 0;

    pthread_mutex_lock(&s->lock);
    map_for_each (struct url, u, &s->urls, node) {
        const struct variant *v;
        size_t n = 0;

        ASSERT(u->n != 0);
        ASSERT(u->n <= COPIES_VARIANTS_MAX);
        list_for_each_entry (v, &u->variants, in_url) {
            ASSERT(v->url == u);
            ASSERT(v->cost == copy_bytes(v->copy) + u->key_len + COPIES_ENTRY_BYTES);
            ++n;
            bytes += v->cost;
        }
        ASSERT(n == u->n);
        copies += n;
    }
    ASSERT(copies == s->stats.copies);
    ASSERT(bytes == s->stats.bytes);
    ASSERT(copies <= s->limits.max_copies);
    ASSERT(bytes <= s->limits.max_bytes);
    ASSERT(list_length(&s->by_use) == copies);
    ASSERT(list_length(&s->by_time) == copies);
    pthread_mutex_unlock(&s->lock);
}
