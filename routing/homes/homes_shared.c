/* SPDX-License-Identifier: Apache-2.0
 *
 * Several load balancers in front of the same workers. Each of them would choose different homes
 * for each class, so they share state by means of the workers. When a worker has become a home of a
 * class, this is reported to it with the request, together with the reason. The worker stores that,
 * with the time of the class's last use and the work it does for it, and publishes it to all load
 * balancers (common/skills/home_records.h).
 *
 *     balancer A: "move; from=w1" -> w2: { "a": since, used, move from w1, rate }
 *                                     '--> A, B, ...: a class that moved from w1 has left it
 *
 * Each class is owned by one of the load balancers, by rendezvous hashing. Only the owner assigns
 * additional homes, moves the class to less loaded workers, and moves it away from a flood before
 * the wait exceeds V. Any load balancer assigns a first home when it needs one, and moves the class
 * away from a home that is slow because of other classes, because the owner may not have a request
 * of the class for a long time. Load balancers apply published records as follows:
 *
 *     a move from w that is younger than w's own record:  w ceases to be a home
 *     several first homes:                                the oldest remains
 *     several moves from one worker:                      the youngest remains
 *     a home that was given up here:                      a home again if its record is younger, or
 *                                                         if others have used it for long since
 *     more homes than a class may have:                   the youngest remain
 *     not used for long when the class was last used:     not a home
 *
 * Near-simultaneous decisions may be observed in opposite order by another balancer, which then
 * continues to use a worker that is not a home here. If that persists, the owner reports with its
 * next request that the class has moved from there.
 *
 * A load balancer that decides alone applies records only for classes of which it has not had a
 * request yet: it was restarted, and the workers still have the assignment of classes. From its
 * first request of a class on, its own state is more accurate.
 *
 * A worker's work is the sum over its classes: the published work of a class at all workers is
 * divided by its homes. Until it is published, it is estimated as if the other load balancers had
 * the same amount as this one.
 */

#include "common/base/map.h"
#include "routing/homes/homes_internal.h"

bool homes_owns(const struct homes *h, struct slice cls)
{
    if (!homes_shared(h))
        return true;
    uint64_t hash = hash_fixed(cls);
    uint64_t own = hash_mixed(hash ^ hash_mixed(h->balancers[h->self]));
    for (size_t i = 0; i < h->nbalancers; ++i) {
        if (i != h->self && hash_mixed(hash ^ hash_mixed(h->balancers[i])) > own)
            return false;
    }
    return true;
}

/* ---- a change between one and several load balancers ---- */

/* Drops decisions and others' work; to share, our own work is the first estimate. */
static void begin_again(struct homes *h, struct list *classes)
{
    struct class_entry *e;

    list_for_each_entry (e, classes, node) {
        struct homes_class *c = homes_class_of(e);
        double work_us = fading_value(&c->work, &h->fade);

        for (uint32_t i = 0; i < c->npairs; ++i) {
            struct homes_pair *p = c->pairs[i];

            p->kind = HOME_USED;
            p->from = p->from_name = p->since_us = p->made_us = p->left_us = 0;
            p->rate = p->weight = (struct fading){0};
        }
        if (!homes_shared(h))
            continue;
        for (uint32_t i = 0; i < c->nhomes; ++i)
            homes_weigh(h, c->pairs[i], work_us / c->nhomes);
    }
}

void homes_set_balancers(struct homes *h, const uint64_t ids[], size_t n, size_t self,
                         uint64_t now_us)
{
    bool was_shared = homes_shared(h);
    struct homes_worker *w;

    ASSERT(n <= 1 || self < n);
    homes_tick(h, now_us);
    if (n > HOMES_BALANCERS_MAX)
        n = 1;
    h->nbalancers = n > 1 ? n : 1;
    h->self = n > 1 ? self : 0;
    homes_set_pace(h);
    if (n > 1)
        memcpy(h->balancers, ids, n * sizeof(ids[0]));
    if (homes_shared(h) == was_shared)
        return;
    /* A load balancer that decides alone retains the workers' work as the work of their classes. */
    if (!was_shared) {
        list_for_each_entry (w, &h->workers, node)
            homes_load_add(h, w, -w->work / h->fade.weight, 0);
    }
    begin_again(h, &h->classes.known);
    begin_again(h, &h->classes.probation);
}

void homes_made(struct homes *h, struct homes_pair *p, enum home_kind kind,
                const struct homes_worker *from)
{
    if (!homes_shared(h))
        return;
    p->kind = kind;
    p->from = from != NULL ? from->number : HOMES_NO_WORKER;
    p->from_name = 0;
    p->since_us = p->made_us = h->now_us;
    p->published = false;
    p->left_us = 0;
}

/* ---- published records ---- */

/* Returns true if P had not been used for long when its class was last used, at LAST_US. */
static bool is_stale(const struct homes *h, const struct homes_pair *p, uint64_t last_us)
{
    return (double)last_us > (double)p->used_us + homes_tau_us(h) / 2;
}

/* Returns true if the record of P counts. */
static bool is_counted(const struct homes *h, const struct homes_pair *p, uint64_t last_us)
{
    return p->since_us != 0 && p->worker->eligible && !is_stale(h, p, last_us);
}

static bool is_before(const struct homes_pair *a, const struct homes_pair *b)
{
    return a->since_us < b->since_us ||
           (a->since_us == b->since_us && a->worker->number < b->worker->number);
}

/* Returns true if A and B have the same kind and A must be removed. */
static bool gives_way(const struct homes_pair *a, const struct homes_pair *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == HOME_NEW)
        return is_before(b, a);
    return a->kind == HOME_REASSIGN && a->from != HOMES_NO_WORKER && a->from == b->from &&
           is_before(a, b);
}

static void find_gone(const struct homes *h, struct homes_class *c, uint64_t last_us)
{
    for (uint32_t i = 0; i < c->npairs; ++i)
        c->pairs[i]->gone = c->pairs[i]->since_us != 0 && is_stale(h, c->pairs[i], last_us);
    for (uint32_t i = 0; i < c->npairs; ++i) {
        const struct homes_pair *move = c->pairs[i];

        if (move->kind != HOME_REASSIGN || !is_counted(h, move, last_us))
            continue;
        /* Even a home that has not been used for long: it is the only one of its class. The worker
         * that the class left may have been unknown when the record came. */
        bool by_name = move->from == HOMES_NO_WORKER && move->from_name != 0;
        for (uint32_t k = 0; k < c->npairs; ++k) {
            struct homes_pair *p = c->pairs[k];

            p->gone |= p->since_us < move->since_us && (by_name ? move->from_name == p->worker->name
                                                                : move->from == p->worker->number);
        }
    }
    for (uint32_t i = 0; i < c->npairs; ++i) {
        struct homes_pair *a = c->pairs[i];

        if ((a->kind != HOME_NEW && a->kind != HOME_REASSIGN) || a->gone ||
            !is_counted(h, a, last_us))
            continue;
        /* A removed pair does not remove others; the first and the last are never removed. */
        for (uint32_t k = 0; k < c->npairs && !a->gone; ++k) {
            const struct homes_pair *b = c->pairs[k];

            a->gone = b != a && !b->gone && is_counted(h, b, last_us) && gives_way(a, b);
        }
    }
}

struct homes_worker *homes_stray(const struct homes *h, const struct homes_pair *home)
{
    const struct homes_class *c = home->cls;

    for (uint32_t i = c->nhomes; i < c->npairs; ++i) {
        const struct homes_pair *p = c->pairs[i];
        uint64_t since_us = p->since_us > home->since_us ? p->since_us : home->since_us;

        if (p->gone && is_counted(h, p, h->now_us) &&
            (double)p->used_us > (double)since_us + HOMES_FOLLOW_US)
            return p->worker;
    }
    return NULL;
}

struct homes_pair *homes_oldest(const struct homes_class *c, const struct homes_worker *keep)
{
    struct homes_pair *oldest = NULL;

    for (uint32_t i = 0; i < c->nhomes; ++i) {
        struct homes_pair *p = c->pairs[i];

        if (p->worker != keep && (oldest == NULL || is_before(p, oldest)))
            oldest = p;
    }
    return oldest;
}

static void follow_records(struct homes *h, struct homes_class *c)
{
    uint64_t last_us = 0; /* when the class was last used, here or elsewhere */
    bool others = false;

    for (uint32_t i = 0; i < c->npairs; ++i) {
        if (c->pairs[i]->used_us > last_us)
            last_us = c->pairs[i]->used_us;
    }
    find_gone(h, c, last_us);
    /* A pair that becomes a home is swapped with the first past one, which was already examined. */
    for (uint32_t i = c->nhomes; i < c->npairs; ++i) {
        struct homes_pair *p = c->pairs[i];

        /* If other load balancers still use one that was given up here, they have not applied our
         * decision by now, and will not. */
        if (homes_is_home(p) || !is_counted(h, p, last_us) || p->gone ||
            (p->left_us >= p->since_us &&
             (double)p->used_us <= (double)p->left_us + HOMES_FOLLOW_US))
            continue;
        if (c->nhomes >= homes_room(h, h->o.settings.max_share, fading_value(&c->work, &h->fade),
                                    fading_value(&h->work, &h->fade))) {
            struct homes_pair *oldest = homes_oldest(c, NULL);

            if (!is_before(oldest, p))
                continue;
            homes_remove_home(h, oldest, 0);
        }
        homes_add_home(h, p, 0);
    }
    for (uint32_t i = 0; i < c->nhomes; ++i)
        others |= !c->pairs[i]->gone && c->pairs[i]->worker->eligible;
    for (uint32_t i = c->nhomes; others && i-- != 0;) {
        if (c->pairs[i]->gone)
            homes_remove_home(h, c->pairs[i], 0);
    }
}

void homes_published(struct homes *h, struct homes_worker *w, struct slice cls,
                     const struct homes_record *r, uint64_t now_us)
{
    struct homes_record own = *r;

    homes_tick(h, now_us);
    if (w->gone)
        return;
    /* Times of different clocks, compared over the network, are inexact. */
    if (own.used_us > h->now_us)
        own.used_us = h->now_us;
    if (own.since_us > own.used_us)
        own.since_us = own.used_us;
    struct homes_class *c = homes_class_of(classes_find(&h->classes, cls));
    if (c == NULL)
        c = homes_class_of(classes_add(&h->classes, cls));
    if (!homes_shared(h) && c->asked.sum > 0)
        return; /* this load balancer has had requests of C */
    struct homes_pair *p = homes_pair_get(h, c, w, own.used_us);
    double before_us = fading_value(&p->rate, &h->fade);
    p->rate = fading_of(own.rate * homes_tau_us(h), &h->fade);
    if (own.used_us > p->used_us)
        p->used_us = own.used_us;
    p->touched = true;
    bool news = false; /* it contains a decision that was not known */
    /* Otherwise it is older than our own decision, which is being sent to the worker. */
    if (own.since_us >= p->made_us) {
        uint64_t from = own.from != NULL ? own.from->number : HOMES_NO_WORKER;
        bool same = p->since_us != 0 && own.kind == p->kind && from == p->from &&
                    own.since_us <= p->since_us + HOMES_JITTER_US;

        news = !same || !p->published;
        /* The others compare the time at which the worker received it; so must this one. */
        if (news || own.since_us < p->since_us)
            p->since_us = own.since_us;
        p->published = true;
        p->kind = own.kind;
        p->from = from;
        p->from_name = own.from_name;
    }
    if (news || !homes_is_home(p) || c->nhomes > 1)
        follow_records(h, c);
    if (!homes_shared(h)) {
        /* It takes over the work that W has done for the class; BEFORE_US of it was known. */
        double grown_us = fading_value(&p->rate, &h->fade) - before_us;

        homes_load_add(h, w, grown_us, 0);
        fading_add(&c->work, grown_us, &h->fade);
        fading_add(&h->work, grown_us, &h->fade);
        return;
    }
    /* The class's work, as published by all workers, is divided by its homes. */
    double work_us = 0;
    for (uint32_t i = 0; i < c->npairs; ++i)
        work_us += fading_value(&c->pairs[i]->rate, &h->fade);
    for (uint32_t i = 0; i < c->nhomes; ++i) {
        struct homes_pair *home = c->pairs[i];
        double weight_us = fading_value(&home->weight, &h->fade);

        home->weight = fading_of(work_us / c->nhomes, &h->fade);
        homes_load_add(h, home->worker, work_us / c->nhomes - weight_us, 0);
    }
}
