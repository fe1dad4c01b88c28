/* SPDX-License-Identifier: Apache-2.0
 *
 * When a request ends for the shadow. Its workers are taken to serve in order, as many at once as
 * they have threads, and each request for as long as it was served in truth:
 *
 *     in truth      w1  |--- a ---|             each began at once, by two workers
 *                   w2     |--- b ---|
 *     the shadow    w1' |--- a ---|--- b ---|   has both at one: b waits, and ends later
 *
 * So a policy that puts more to a worker than it can do sees its queue grow. How long a request was
 * served is known when it has ended in truth; until then it is in flight for the shadow too, though
 * it may have ended earlier there. One that others have overtaken, was given up, or never sent, had
 * no turn in truth: it ends here when it ends there.
 *
 * It is unknown which clients would have aborted, or not sent further requests: if too many
 * requests are behind reality (SHADOW_BEHIND), the one that has waited longest is aborted.
 */
#include <stdlib.h>

#include "routing/pool_shadow.h"

/* ---- turns at a worker ---- */

static void serve(struct shadow_turns *at, struct shadow_turn *t, uint64_t now_us)
{
    /* When its worker was free, which may have been before it came. */
    if (t->serve_us < now_us)
        t->serve_us = now_us;
    t->serving = true;
    ++at->serving;
}

static void enter(struct worker *w, struct shadow_turn *t, uint64_t now_us)
{
    struct shadow_turns *at = &shadow_notes_of(w)->turns;

    *t = (struct shadow_turn){.serve_us = now_us};
    list_init(&t->node);
    if (at->serving < w->concurrency)
        serve(at, t, now_us);
    else
        list_push_back(&at->waiting, &t->node);
}

/* Returns the request that is served next, or NULL. */
static struct shadow_turn *leave(struct worker *w, struct shadow_turn *t, uint64_t now_us)
{
    struct shadow_turns *at = &shadow_notes_of(w)->turns;

    at->serving -= t->serving;
    t->serving = false;
    list_remove(&t->node);
    if (list_empty(&at->waiting) || at->serving >= w->concurrency)
        return NULL;
    struct shadow_turn *next = list_entry(list_pop_front(&at->waiting), struct shadow_turn, node);
    serve(at, next, now_us);
    return next;
}

/* ---- the heap of requests with a known end ---- */

static void put_at(struct shadow_clock *c, struct shadow_request *r, size_t at)
{
    c->due[at] = r;
    r->at = at;
}

static void rise(struct shadow_clock *c, struct shadow_request *r, size_t at)
{
    while (at != 0 && r->due_us < c->due[(at - 1) / 2]->due_us) {
        put_at(c, c->due[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    put_at(c, r, at);
}

static void sink(struct shadow_clock *c, struct shadow_request *r, size_t at)
{
    size_t child;

    while ((child = 2 * at + 1) < c->ndue) {
        if (child + 1 < c->ndue && c->due[child + 1]->due_us < c->due[child]->due_us)
            ++child;
        if (c->due[child]->due_us >= r->due_us)
            break;
        put_at(c, c->due[child], at);
        at = child;
    }
    put_at(c, r, at);
}

static void await(struct shadow_clock *c, struct shadow_request *r)
{
    ASSERT(c->ndue < ARRAY_LEN(c->due));
    r->due_us = r->here.serve_us + r->took_us;
    list_remove(&r->reported_node);
    list_push_back(&c->served, &r->reported_node);
    rise(c, r, c->ndue++);
}

static void await_no_more(struct shadow_clock *c, struct shadow_request *r)
{
    struct shadow_request *last = c->due[--c->ndue];
    size_t at = r->at;

    r->at = SIZE_MAX;
    if (last == r)
        return;
    sink(c, last, at);
    rise(c, last, last->at);
}

/* ---- ends ---- */

/* HOW: as the shadow's pool takes it. */
static void end(struct pool *p, struct shadow_request *r, uint64_t now_us,
                const struct pool_served *how)
{
    struct shadow_clock *c = p->shadow_clock;

    /* One that is cut off while it waits has waited until now. */
    uint64_t until_us = r->reported && !r->here.serving ? now_us : r->here.serve_us;
    p->shadow_counts.shadow_wait_us += until_us - r->start_us;
    if (r->at != SIZE_MAX)
        await_no_more(c, r);
    if (r->reported) {
        list_remove(&r->reported_node);
        --c->nreported;
    }
    struct shadow_turn *turn = leave(r->pick.worker, &r->here, now_us);
    if (turn != NULL) {
        struct shadow_request *next = container_of(turn, struct shadow_request, here);

        if (next->reported)
            await(c, next);
    }
    pool_put(p->shadow, &r->pick, how, NULL);
    free(r);
}

/* It has been served here, too. What a load balancer measures may have the wait in it. */
static void end_served(struct pool *p, struct shadow_request *r)
{
    uint64_t waited_us = r->with_wait ? r->here.serve_us - r->start_us : 0;
    struct pool_served how = {.now_us = r->due_us,
                              .service_us = r->service_us != 0 ? r->service_us + waited_us : 0,
                              .failed = r->failed};

    end(p, r, r->due_us, &how);
}

void shadow_time_catch_up(struct pool *p)
{
    struct shadow_clock *c = p->shadow_clock;

    while (c->ndue != 0 && c->due[0]->due_us <= p->now_us)
        end_served(p, c->due[0]);
}

/* Requests being served are aborted last. */
static struct shadow_request *longest(const struct shadow_clock *c)
{
    const struct list *of = list_empty(&c->waiting) ? &c->served : &c->waiting;

    return list_entry(of->next, struct shadow_request, reported_node);
}

static size_t behind_max(const struct pool *p)
{
    uint64_t n = p->backlog > p->neligible ? p->backlog : p->neligible;

    return n < SHADOW_BEHIND_MAX / SHADOW_BEHIND ? (size_t)n * SHADOW_BEHIND : SHADOW_BEHIND_MAX;
}

void shadow_time_tell(struct pool *p, struct shadow_request *r, const struct pool_served *how)
{
    struct shadow_clock *c = p->shadow_clock;
    bool had_turn = r->in_truth.serving;
    uint64_t waited_us = r->in_truth.serve_us - r->start_us;

    r->took_us = p->now_us - r->in_truth.serve_us;
    p->shadow_counts.live_wait_us += waited_us;
    (void)leave(r->live, &r->in_truth, p->now_us);
    r->live = NULL;
    if (how == NULL || !had_turn || (how->failed && how->service_us == 0)) {
        end(p, r, p->now_us, how);
        return;
    }
    r->failed = how->failed;
    r->with_wait = how->service_us > r->took_us && how->service_us > waited_us;
    r->service_us = how->service_us - (r->with_wait ? waited_us : 0);
    r->reported = true;
    list_push_back(&c->waiting, &r->reported_node);
    ++c->nreported;
    if (r->here.serving)
        await(c, r);
    shadow_time_catch_up(p);
    while (c->nreported > behind_max(p)) {
        ++p->shadow_counts.overdue;
        end(p, longest(c), p->now_us, NULL);
    }
}

void shadow_time_begin(struct pool *p, struct shadow_request *r)
{
    r->start_us = p->now_us;
    r->at = SIZE_MAX;
    enter(r->live, &r->in_truth, p->now_us);
    enter(r->pick.worker, &r->here, p->now_us);
}

static void cut(struct pool *p, struct list *of, const struct worker *mirror)
{
    struct list *it, *next;

    list_for_each_safe (it, next, of) {
        struct shadow_request *r = list_entry(it, struct shadow_request, reported_node);

        if (mirror == NULL || r->pick.worker == mirror)
            end(p, r, p->now_us, NULL);
    }
}

/* Waiting ones first, so that none of them is started meanwhile. */
void shadow_time_cut(struct pool *p, const struct worker *mirror)
{
    cut(p, &p->shadow_clock->waiting, mirror);
    cut(p, &p->shadow_clock->served, mirror);
}

static size_t check_reported(const struct list *of, bool serving)
{
    size_t n = 0;
    struct list *it;

    list_for_each (it, of) {
        const struct shadow_request *r = list_entry(it, struct shadow_request, reported_node);

        ASSERT(r->reported);
        ASSERT(r->live == NULL);
        ASSERT(r->here.serving == serving);
        ASSERT((r->at != SIZE_MAX) == serving);
        ++n;
    }
    return n;
}

void shadow_time_check(const struct pool *p)
{
    const struct shadow_clock *c = p->shadow_clock;
    size_t served = check_reported(&c->served, true);

    ASSERT(served == c->ndue);
    ASSERT(check_reported(&c->waiting, false) + served == c->nreported);
    ASSERT(c->nreported <= SHADOW_BEHIND_MAX);
    for (size_t i = 0; i < c->ndue; ++i) {
        ASSERT(c->due[i]->at == i);
        ASSERT(i == 0 || c->due[(i - 1) / 2]->due_us <= c->due[i]->due_us);
    }
}
