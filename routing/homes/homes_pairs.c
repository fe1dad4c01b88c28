/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs of a class and a worker. Those with requests in flight stay, whatever their number;
 * requests in flight are bounded elsewhere.
 */
#include <stdlib.h>

#include "routing/homes/homes_internal.h"

struct homes_class *homes_class_of(struct class_entry *e)
{
    return container_of(e, struct homes_class, base);
}

struct homes_pair *homes_pair_find(const struct homes_class *c, const struct homes_worker *w)
{
    for (uint32_t i = 0; i < c->npairs; ++i) {
        if (c->pairs[i]->worker == w)
            return c->pairs[i];
    }
    return NULL;
}

static void swap(struct homes_class *c, uint32_t a, uint32_t b)
{
    struct homes_pair *p = c->pairs[a];

    c->pairs[a] = c->pairs[b];
    c->pairs[b] = p;
    c->pairs[a]->at = a;
    c->pairs[b]->at = b;
}

void homes_settle(struct homes *h, struct homes_pair *p, double work_us)
{
    ASSERT(!homes_is_home(p));
    swap(p->cls, p->at, p->cls->nhomes++);
    p->settled_us = h->now_us;
    p->cls->oldest_us = 0; /* it may be one of the past that is used again */
    homes_load_add(h, p->worker, 0, 1);
    homes_weigh(h, p, work_us);
}

void homes_weigh(struct homes *h, struct homes_pair *p, double work_us)
{
    if (homes_shared(h)) {
        /* The others have as much of the class. */
        double before = fading_value(&p->weight, &h->fade);

        fading_add(&p->weight, work_us * (double)h->nbalancers, &h->fade);
        work_us = fading_value(&p->weight, &h->fade) - before;
    }
    homes_load_add(h, p->worker, work_us, 0);
}

void homes_unsettle(struct homes *h, struct homes_pair *p, double work_us)
{
    ASSERT(homes_is_home(p));
    swap(p->cls, p->at, --p->cls->nhomes);
    if (homes_shared(h))
        work_us = fading_value(&p->weight, &h->fade);
    p->weight = (struct fading){0};
    homes_load_add(h, p->worker, -work_us, -1);
}

void homes_pair_free(struct homes *h, struct homes_pair *p)
{
    struct homes_class *c = p->cls;
    struct list *node;

    if (homes_is_home(p))
        homes_unsettle(h, p, 0);
    while ((node = list_pop_front(&p->in_flight)) != NULL)
        list_entry(node, struct homes_ticket, of_pair)->pair = NULL;
    list_remove(&p->of_worker);
    if (p->worker->most == p)
        p->worker->most = NULL;
    swap(c, p->at, --c->npairs);
    free(p);
    if (c->npairs == 0) {
        free(c->pairs);
        c->pairs = NULL;
        c->room = 0;
    }
}

void homes_class_dropped(void *owner, struct class_entry *e)
{
    struct homes_class *c = homes_class_of(e);

    while (c->npairs != 0)
        homes_pair_free(owner, c->pairs[c->npairs - 1]);
}

/* The one of the past that was used the longest ago goes. */
static void forget_one(struct homes *h, const struct homes_class *c)
{
    struct homes_pair *oldest = NULL;

    for (uint32_t i = c->nhomes; i < c->npairs; ++i) {
        struct homes_pair *p = c->pairs[i];

        if (p->in_flight_n == 0 && (oldest == NULL || p->used_us < oldest->used_us))
            oldest = p;
    }
    if (oldest != NULL)
        homes_pair_free(h, oldest);
}

struct homes_pair *homes_pair_get(struct homes *h, struct homes_class *c, struct homes_worker *w,
                                  uint64_t now_us)
{
    struct homes_pair *p = homes_pair_find(c, w);

    if (p != NULL)
        return p;
    if (c->npairs - c->nhomes >= HOMES_PAST_MAX)
        forget_one(h, c);
    if (c->npairs == c->room) {
        c->room = c->room != 0 ? c->room * 2 : 1;
        c->pairs = xrealloc(c->pairs, c->room * sizeof(struct homes_pair *));
    }
    p = xcalloc(1, sizeof(*p));
    *p = (struct homes_pair){.cls = c, .worker = w, .used_us = now_us, .at = c->npairs};
    list_init(&p->in_flight);
    list_push_back(&w->pairs, &p->of_worker);
    c->pairs[c->npairs++] = p;
    return p;
}
