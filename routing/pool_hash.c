/* SPDX-License-Identifier: Apache-2.0
 *
 * Consistent hashing with bounded loads. Each worker has POINTS points on a ring of 2^64 by its
 * name; a class belongs to the worker of the first point at or after its own hash; when that has
 * too many requests in flight, the next along the ring gets the request. Sources: Karger and
 * others, Consistent Hashing and Random Trees (STOC 1997); Mirrokni, Thorup, Zadimoghaddam,
 * Consistent Hashing with Bounded Loads (SODA 2018).
 *
 *     too many = at least ceil(c * (requests in flight at eligible workers + 1) / eligible workers)
 *
 * with c = hash_balance_factor / 100 > 1: at least one worker is always below it. Only requests of
 * this load balancer count: if each of several observes c times its own mean, so do all together.
 * The hashes have no key, so that all load balancers assign a class to the same worker.
 *
 * The ring is an array in the order of hashes. A change of the list of eligible workers is
 * recorded, and applied on the next request: the points of workers that left are removed, and those
 * of new workers are sorted and merged in, so a hundred changes at once cost one pass. A slot is
 * not reused for another worker while its points are still in the ring.
 */
#include <stdlib.h>

#include "common/base/map.h"
#include "routing/pool_internal.h"

enum {
    POINTS = 64, /* a worker's; shares differ by an eighth, 1 / sqrt(POINTS) */
    /* Points that one choice examines along the ring. With a bound it takes few; beyond this limit,
       as when most workers may not be chosen, the least loaded eligible worker is used instead. */
    WALK_MAX = 512,
    NO_SLOT = 0,
};

struct hash_point {
    uint64_t at;
    uint32_t slot;
};

struct hash_slot {
    struct worker *worker; /* NULL: it has left */
    bool in_ring;
};

struct hash {
    struct hash_point *ring;
    size_t n, room;
    struct hash_slot *slots; /* slots[NO_SLOT] belongs to no worker */
    size_t slots_room;
    uint32_t nslots;
    uint32_t *free; /* slots without worker and without points; as much room as SLOTS */
    uint32_t nfree;
    bool stale;         /* the ring differs from the list of eligible workers */
    uint64_t in_flight; /* of the eligible workers */
};

/* NO_SLOT: W is not eligible. */
static uint32_t *slot_of(const struct worker *w)
{
    return w->policy;
}

/* ---- the ring ---- */

static int compare_points(const void *a, const void *b)
{
    const struct hash_point *x = a;
    const struct hash_point *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* Removes the points of workers that left, and merges in those of new workers. */
static void renew_ring(struct hash *s, size_t nworkers)
{
    size_t old = 0;
    size_t left = 0;

    for (size_t i = 0; i < s->n; ++i) {
        if (s->slots[s->ring[i].slot].worker != NULL)
            s->ring[old++] = s->ring[i];
    }
    struct hash_point *fresh = xmalloc((nworkers * POINTS - old + 1) * sizeof(*fresh));
    s->nfree = 0;
    for (uint32_t i = 1; i < s->nslots; ++i) {
        struct hash_slot *slot = &s->slots[i];

        if (slot->worker == NULL) {
            slot->in_ring = false;
            s->free[s->nfree++] = i;
        } else if (!slot->in_ring) {
            uint64_t h = hash_mixed(hash_fixed(worker_name_slice(slot->worker)));

            slot->in_ring = true;
            for (uint64_t k = 0; k < POINTS; ++k)
                fresh[left++] =
                    (struct hash_point){.at = hash_mixed(h + k * 0x9e3779b97f4a7c15), .slot = i};
        }
    }
    qsort(fresh, left, sizeof(*fresh), compare_points);
    s->n = old + left;
    ASSERT(s->n == nworkers * POINTS);
    s->ring = xgrow(s->ring, s->n, &s->room, sizeof(*s->ring));
    /* From the back, so that no old point is overwritten before it has moved. */
    for (size_t to = s->n; left != 0;) {
        if (old != 0 && compare_points(&s->ring[old - 1], &fresh[left - 1]) > 0)
            s->ring[--to] = s->ring[--old];
        else
            s->ring[--to] = fresh[--left];
    }
    free(fresh);
    s->stale = false;
}

/* ---- the eligible workers ---- */

static void *hash_create(unused_ struct pool *p)
{
    struct hash *s = xcalloc(1, sizeof(*s));

    s->nslots = NO_SLOT + 1;
    return s;
}

static void hash_destroy(void *state)
{
    struct hash *s = state;

    free(s->ring);
    free(s->slots);
    free(s->free);
    free(s);
}

static void hash_set_eligible(struct pool *p, struct worker *w, bool eligible)
{
    struct hash *s = p->state;

    s->stale = true;
    if (!eligible) {
        s->slots[*slot_of(w)].worker = NULL;
        *slot_of(w) = NO_SLOT;
        s->in_flight -= worker_backlog(w);
        return;
    }
    if (s->nfree == 0 && s->nslots >= s->slots_room) {
        s->slots = xgrow(s->slots, s->nslots + 1, &s->slots_room, sizeof(*s->slots));
        s->free = xrealloc(s->free, s->slots_room * sizeof(*s->free));
    }
    *slot_of(w) = s->nfree != 0 ? s->free[--s->nfree] : s->nslots++;
    s->slots[*slot_of(w)] = (struct hash_slot){.worker = w};
    s->in_flight += worker_backlog(w);
}

/* ---- choosing ---- */

static struct worker *hash_walk(const struct hash *s, const struct pool_question *q, uint64_t most,
                                struct pool_choice *out)
{
    uint64_t hash = hash_mixed(hash_fixed(q->request->cls));
    size_t steps = s->n < WALK_MAX ? s->n : WALK_MAX;
    const struct worker *last = NULL;
    size_t at = 0;

    /* The first point at or after HASH, round the ring. */
    for (size_t end = s->n; at != end;) {
        size_t middle = at + (end - at) / 2;

        if (s->ring[middle].at < hash)
            at = middle + 1;
        else
            end = middle;
    }
    if (at == s->n)
        at = 0;
    for (size_t i = 0; i < steps; ++i) {
        struct worker *w = s->slots[s->ring[at].slot].worker;

        at = at + 1 != s->n ? at + 1 : 0;
        if (w == last)
            continue;
        last = w;
        const char *why = worker_backlog(w) >= most ? "over the bound" : NULL;
        if (!pool_may_choose(q, w))
            why = "not eligible";
        pool_explain_candidate(q->explain, w, 0, 0, why);
        if (why == NULL)
            return w;
        ++out->skipped;
    }
    return NULL;
}

static void hash_choose(struct pool *p, const struct pool_question *q, struct pool_choice *out)
{
    struct hash *s = p->state;

    /* Its contents depend only on the eligible workers, so it may be built at any time. */
    if (s->stale)
        renew_ring(s, p->neligible);
    uint64_t most = UINT64_MAX;
    uint64_t percent = p->settings.hash_balance_percent;
    uint64_t parts = 100 * (uint64_t)p->neligible;
    if (percent != 0)
        most = ((s->in_flight + 1) * percent + parts - 1) / parts;
    out->worker = hash_walk(s, q, most, out);
    out->reason = out->skipped == 0 ? PICK_HASHED : PICK_HASH_NEXT;
    if (q->explain != NULL) {
        if (most != UINT64_MAX)
            pool_explain_value(q->explain, "in_flight_limit", (double)most);
        pool_explain_step(q->explain, "along the ring", out->skipped + 1, out->worker != NULL);
    }
    if (out->worker != NULL)
        return;
    /* The least loaded. */
    out->worker = q->front;
    for (struct list *it = &q->front->state_node; it != &p->eligible; it = it->next) {
        struct worker *w = list_entry(it, struct worker, state_node);

        if (worker_backlog(w) < worker_backlog(out->worker) && pool_may_choose(q, w))
            out->worker = w;
    }
}

static void hash_begin(struct pool *p, unused_ const struct pool_question *q,
                       unused_ const struct pool_choice *c, unused_ struct pool_hand *h)
{
    struct hash *s = p->state;

    ++s->in_flight;
}

static void hash_end(struct pool *p, struct worker *w, unused_ struct pool_hand *h,
                     unused_ const struct pool_served *how)
{
    struct hash *s = p->state;

    s->in_flight -= w->state == WORKER_ELIGIBLE;
}

const struct pool_rule pool_rule_hash = {
    .worker_bytes = sizeof(uint32_t),
    .create = hash_create,
    .destroy = hash_destroy,
    .set_eligible = hash_set_eligible,
    .choose = hash_choose,
    .begin = hash_begin,
    .end = hash_end,
};
