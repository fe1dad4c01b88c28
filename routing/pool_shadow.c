/* SPDX-License-Identifier: Apache-2.0
 *
 * The shadow: a second policy that decides on the same requests as the pool's policy, without
 * effect.
 *
 * The shadow is a separate pool of mirrors of the workers, so that it decides as if its decisions
 * took effect: it has its own backlogs, means, list, skills and state. It is notified of each
 * resume, of each change of the list of eligible workers (which is always that of the pool), of
 * workers that leave and their successors, and of each request that begins. It is notified of a
 * request's end when the request would have ended at the shadow's worker. The workers' reports of
 * other load balancers' requests, their rejections, and whether they have a process are those of
 * the real workers. Its decisions about homes are not published, and homes published by other load
 * balancers are ignored, because those use another policy. pool_request.unfit is ignored, too.
 *
 *     pool                                     shadow
 *     w1 (eligible)  <-------- of --------    mirror of w1 (eligible)
 *     pick: w1      --- pool_pick.shadow_ -->  pick: mirror of w2
 *
 * A choice is rated by whether the worker has served the class within its last SHADOW_RECENT
 * requests, under that policy. Both sides are rated in the same way, independent of known skills.
 *
 * Called with the pool's lock held; acquires the shadow's lock inside it, as no other code does.
 */
#include <stdlib.h>

#include "common/base/map.h"
#include "common/base/text.h"
#include "routing/pool_internal.h"

enum {
    /* SHADOW_BEHIND_MAX as a multiple of the pool's requests in flight, or of its eligible
     * workers: clients wait for responses before they send further requests, so they would not have
     * sent more. */
    SHADOW_BEHIND = 4,
    /* A worker is assumed to have the classes of this number of recent requests in its cache. */
    SHADOW_RECENT = 256,
    /* Sets for their classes, of SHADOW_WAYS entries each; the oldest is replaced. */
    SHADOW_SETS = 128,
    SHADOW_WAYS = 8,
};

struct shadow_recent {
    uint32_t tag;
    uint32_t at; /* value of served at its last request; 0: never */
};

/* Data of a worker or of its mirror. */
struct shadow_notes {
    uint32_t served;
    struct shadow_recent sets[SHADOW_SETS][SHADOW_WAYS]; /* its last classes, by hash */
    struct list waiting;                                 /* shadow_service.node */
    unsigned serving;
};

/* ---- what a worker has served lately ---- */

/* Creates the notes on the first call. */
static struct shadow_notes *notes_of(struct worker *w)
{
    if (w->notes == NULL) {
        w->notes = xcalloc(1, sizeof(*w->notes));
        list_init(&w->notes->waiting);
    }
    return w->notes;
}

/* Records a request of the class of HASH at W. Returns true if W had one recently. */
static bool note_class(struct worker *w, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);
    struct shadow_notes *n = notes_of(w);
    struct shadow_recent *set = n->sets[hash % SHADOW_SETS];
    struct shadow_recent *c = set; /* the entry of TAG, or the oldest */
    bool had = false;

    for (int i = 0; i < SHADOW_WAYS && !had; ++i) {
        had = set[i].at != 0 && set[i].tag == tag;
        if (had || set[i].at < c->at)
            c = &set[i];
    }
    had = had && n->served - c->at < SHADOW_RECENT;
    *c = (struct shadow_recent){.tag = tag, .at = ++n->served};
    return had;
}

/*
 * ---- when a request ends for the shadow ----
 *
 * Its workers are assumed to serve in order, as many at once as they have threads, and each request
 * for as long as it was served in reality:
 *
 *     in reality    w1  |--- a ---|             two workers, so each begins at once
 *                   w2     |--- b ---|
 *     the shadow    w1' |--- a ---|--- b ---|   both at one worker: b waits, and ends later
 *
 * So the queue of a worker grows if a policy assigns more to it than it can serve. The service time
 * of a request is known when it has ended in reality; until then it is in flight for the shadow,
 * too, although it might have ended earlier there. A request that was aborted, was never sent, or
 * ended before it is served has no service time: it ends in the shadow when it ends in reality.
 *
 * It is unknown which clients would have aborted, or not sent further requests: if too many
 * requests are behind reality (SHADOW_BEHIND), the one that has waited longest is aborted.
 */
static void shadow_serve(struct shadow_notes *at, struct shadow_service *t, uint64_t now_us)
{
    /* Service begins when the worker has a free thread, but not before the request arrives. */
    if (t->serve_us < now_us)
        t->serve_us = now_us;
    t->serving = true;
    ++at->serving;
}

static void shadow_enter(struct worker *w, struct shadow_service *t, uint64_t now_us)
{
    struct shadow_notes *at = notes_of(w);

    *t = (struct shadow_service){.serve_us = now_us};
    list_init(&t->node);
    if (at->serving < w->concurrency)
        shadow_serve(at, t, now_us);
    else
        list_push_back(&at->waiting, &t->node);
}

/* Returns the request that is served next, or NULL. */
static struct shadow_service *shadow_leave(struct worker *w, struct shadow_service *t,
                                           uint64_t now_us)
{
    struct shadow_notes *at = notes_of(w);

    at->serving -= t->serving;
    t->serving = false;
    list_remove(&t->node);
    if (list_empty(&at->waiting) || at->serving >= w->concurrency)
        return NULL;
    struct shadow_service *next =
        list_entry(list_pop_front(&at->waiting), struct shadow_service, node);
    shadow_serve(at, next, now_us);
    return next;
}

/* ---- the heap of requests with a known end ---- */

static void put_at(struct shadow_clock *c, struct shadow_request *r, size_t at)
{
    c->due[at] = r;
    r->at = at;
}

/* Puts R where it belongs, from the free place AT on. */
static void shadow_set_due(struct shadow_clock *c, struct shadow_request *r, size_t at)
{
    for (size_t child; (child = 2 * at + 1) < c->ndue; at = child) {
        if (child + 1 < c->ndue && c->due[child + 1]->due_us < c->due[child]->due_us)
            ++child;
        if (c->due[child]->due_us >= r->due_us)
            break;
        put_at(c, c->due[child], at);
    }
    for (; at != 0 && r->due_us < c->due[(at - 1) / 2]->due_us; at = (at - 1) / 2)
        put_at(c, c->due[(at - 1) / 2], at);
    put_at(c, r, at);
}

static void await_end(struct shadow_clock *c, struct shadow_request *r)
{
    ASSERT(c->ndue < ARRAY_LEN(c->due));
    r->due_us = r->here.serve_us + r->took_us;
    list_remove(&r->reported_node);
    list_push_back(&c->served, &r->reported_node);
    shadow_set_due(c, r, c->ndue++);
}

/* ---- ends ---- */

/* Ends R in the shadow and frees it. HOW is passed to the shadow's pool; NULL: aborted. */
static void shadow_end(struct pool *p, struct shadow_request *r, uint64_t now_us,
                       const struct pool_served *how)
{
    struct shadow_clock *c = p->shadow_clock;

    /* One that is cut off while it waits has waited until now. */
    uint64_t until_us = r->reported && !r->here.serving ? now_us : r->here.serve_us;
    p->shadow_counts.shadow_wait_us += until_us - r->start_us;
    if (r->at != SIZE_MAX) {
        struct shadow_request *last = c->due[--c->ndue];

        if (last != r)
            shadow_set_due(c, last, r->at);
    }
    if (r->reported) {
        list_remove(&r->reported_node);
        --c->nreported;
    }
    struct shadow_service *freed = shadow_leave(r->pick.worker, &r->here, now_us);
    if (freed != NULL) {
        struct shadow_request *next = container_of(freed, struct shadow_request, here);

        if (next->reported)
            await_end(c, next);
    }
    pool_put(p->shadow, &r->pick, how, NULL);
    free(r);
}

/* Cost: O(log SHADOW_BEHIND_MAX) for each request that is due. */
void pool_shadow_catch_up_locked(struct pool *p)
{
    struct shadow_clock *c = p->shadow_clock;

    ASSERT(p->held);
    while (c->ndue != 0 && c->due[0]->due_us <= p->now_us) {
        struct shadow_request *r = c->due[0];
        /* What a load balancer measures may have the wait in it. */
        uint64_t waited_us = r->with_wait ? r->here.serve_us - r->start_us : 0;
        struct pool_served how = {.now_us = r->due_us,
                                  .service_us = r->service_us != 0 ? r->service_us + waited_us : 0,
                                  .failed = r->failed};

        shadow_end(p, r, r->due_us, &how);
    }
}

/* Ends the requests at MIRROR, or all (NULL), immediately: those that wait first, so that none of
 * them is served meanwhile. Cost: O(SHADOW_BEHIND_MAX). */
static void end_immediately(struct pool *p, const struct worker *mirror)
{
    struct list *const lists[] = {&p->shadow_clock->waiting, &p->shadow_clock->served};

    for (size_t i = 0; i < ARRAY_LEN(lists); ++i) {
        struct shadow_request *r;

        list_for_each_entry_safe (r, lists[i], reported_node) {
            if (mirror == NULL || r->pick.worker == mirror)
                shadow_end(p, r, p->now_us, NULL);
        }
    }
}

/* ---- requests ---- */

void pool_shadow_get_locked(struct pool *p, const struct pool_request *r, uint64_t now_us,
                            struct pool_pick *pick)
{
    struct worker *excluded[TRIED_MAX];
    struct pool_request asked = {.cls = r->cls, .excluded = excluded, .retry = r->retry};
    uint64_t hash = map_hash(r->cls.p != NULL ? r->cls.p : "", r->cls.len);

    ASSERT(p->held);
    pool_shadow_catch_up_locked(p);
    for (size_t i = 0; i < r->nexcluded; ++i) {
        const struct worker *w = r->excluded[i];

        /* A worker that has left has no mirror. */
        if (w != NULL && w->mirror != NULL)
            excluded[asked.nexcluded++] = w->mirror;
    }
    struct shadow_request *shadow = xcalloc(1, sizeof(*shadow));
    if (pool_get(p->shadow, &asked, now_us, &shadow->pick) != ERR_OK) {
        free(shadow);
        return;
    }
    pick->shadow_ = shadow;
    shadow->live = pick->worker;
    shadow->start_us = p->now_us;
    shadow->at = SIZE_MAX;
    shadow_enter(shadow->live, &shadow->in_truth, p->now_us);
    shadow_enter(shadow->pick.worker, &shadow->here, p->now_us);
    ++p->shadow_counts.requests;
    p->shadow_counts.differed += shadow->pick.worker != pick->worker->mirror;
    p->shadow_counts.live_skilled += note_class(pick->worker, hash);
    p->shadow_counts.shadow_skilled += note_class(shadow->pick.worker, hash);
}

/* The request has ended in reality, by HOW (NULL: aborted). The clock takes it, or it is freed. */
void pool_shadow_put_locked(struct pool *p, struct pool_pick *pick, const struct pool_served *how)
{
    struct shadow_clock *c = p->shadow_clock;
    struct shadow_request *r = pick->shadow_;

    ASSERT(p->held);
    pick->shadow_ = NULL;
    bool was_served = r->in_truth.serving;
    uint64_t waited_us = r->in_truth.serve_us - r->start_us;
    r->took_us = p->now_us - r->in_truth.serve_us;
    p->shadow_counts.live_wait_us += waited_us;
    (void)shadow_leave(r->live, &r->in_truth, p->now_us);
    r->live = NULL;
    if (how == NULL || !was_served || (how->failed && how->service_us == 0)) {
        shadow_end(p, r, p->now_us, how);
        return;
    }
    r->failed = how->failed;
    r->with_wait = how->service_us > r->took_us && how->service_us > waited_us;
    r->service_us = how->service_us - (r->with_wait ? waited_us : 0);
    r->reported = true;
    list_push_back(&c->waiting, &r->reported_node);
    ++c->nreported;
    if (r->here.serving)
        await_end(c, r);
    pool_shadow_catch_up_locked(p);
    uint64_t behind_max = SHADOW_BEHIND * (p->backlog > p->neligible ? p->backlog : p->neligible);
    if (behind_max > SHADOW_BEHIND_MAX)
        behind_max = SHADOW_BEHIND_MAX;
    while (c->nreported > behind_max) {
        /* Requests being served are aborted last. */
        const struct list *of = list_empty(&c->waiting) ? &c->served : &c->waiting;

        ++p->shadow_counts.overdue;
        shadow_end(p, list_first(of, struct shadow_request, reported_node), p->now_us, NULL);
    }
}

/* ---- workers ---- */

/* Makes the mirror of W, a member, a member of the shadow, with skills R; ineligible at first. */
void pool_shadow_resume_locked(struct pool *p, struct worker *w, const struct resume *r)
{
    ASSERT(p->held);
    if (w->mirror == NULL) {
        struct worker_options o = {.name = slice_of(w->name),
                                   .instance = slice_of(w->instance),
                                   .concurrency = w->concurrency};

        w->mirror = worker_create(&o);
        w->mirror->of = w;
        w->mirror->unavailable = true;
    }
    pool_new_resume(p->shadow, w->mirror, r, "", p->fingerprint, NULL);
}

void pool_shadow_left_locked(struct pool *p, struct worker *w)
{
    ASSERT(p->held);
    end_immediately(p, w->mirror);
    pool_remove(p->shadow, w->mirror, NULL);
    w->mirror->unavailable = true;
}

void pool_shadow_removed_locked(struct pool *p, struct worker *w)
{
    ASSERT(p->held);
    ASSERT(w->notes == NULL || w->notes->serving == 0);
    free(w->notes);
    w->notes = NULL;
    if (w->mirror == NULL)
        return;
    /* Requests of the shadow may have it yet. */
    w->mirror->of = w->mirror;
    worker_unref(w->mirror);
    w->mirror = NULL;
}

void pool_shadow_update_eligible_locked(struct pool *p)
{
    bool changed = false;
    struct worker *w;

    ASSERT(p->held);
    pool_lock(p->shadow);
    list_for_each_entry (w, &p->members, member_node) {
        bool ineligible = w->state != WORKER_ELIGIBLE;

        /* A worker that is joining has no mirror yet. */
        if (w->mirror == NULL || w->mirror->unavailable == ineligible)
            continue;
        w->mirror->unavailable = ineligible;
        changed = true;
    }
    if (changed)
        pool_update_eligible_locked(p->shadow);
    pool_unlock(p->shadow);
}

/* ---- on and off ---- */

static void end_requests(struct pool *p, struct worker *w)
{
    struct pool_pick *pick;

    list_for_each_entry (pick, &w->in_flight, node_) {
        if (pick->shadow_ != NULL)
            pool_shadow_put_locked(p, pick, NULL);
    }
}

void pool_shadow_fini_locked(struct pool *p)
{
    struct worker *w;

    ASSERT(p->held);
    if (p->shadow == NULL)
        return;
    list_for_each_entry (w, &p->members, member_node)
        end_requests(p, w);
    list_for_each_entry (w, &p->leaving, state_node)
        end_requests(p, w);
    end_immediately(p, NULL);
    list_for_each_entry (w, &p->members, member_node) {
        pool_shadow_left_locked(p, w);
        pool_shadow_removed_locked(p, w);
    }
    list_for_each_entry (w, &p->leaving, state_node)
        pool_shadow_removed_locked(p, w);
    pool_destroy(p->shadow);
    free(p->shadow_clock);
    p->shadow = NULL;
    p->shadow_clock = NULL;
}

void pool_shadow_set_locked(struct pool *p)
{
    struct pool_settings s = p->settings;
    struct worker *w;

    ASSERT(p->held);
    if (!s.shadowed) {
        pool_shadow_fini_locked(p);
        return;
    }
    s.policy = s.shadow;
    s.shadowed = false;
    /* The list of eligible workers is the pool's. */
    s.single_version = false;
    s.spawn_backlog = 0;
    s.max_waiting = 0;
    if (p->shadow != NULL) {
        pool_set(p->shadow, &s);
        return;
    }
    p->shadow = pool_create(&s, p->fingerprint);
    p->shadow_clock = xcalloc(1, sizeof(*p->shadow_clock));
    list_init(&p->shadow_clock->waiting);
    list_init(&p->shadow_clock->served);
    list_for_each_entry (w, &p->members, member_node) {
        struct resume r = {0};

        pool_skills_copy(w, &r);
        pool_shadow_resume_locked(p, w, &r);
        resume_fini(&r);
    }
}

/* ---- invariants ---- */
