/* SPDX-License-Identifier: Apache-2.0
 *
 * The shadow: a second policy that decides on the same requests as the pool's policy, without
 * effect.
 *
 * The shadow is a separate pool of mirrors of the workers, so that it decides as if its decisions
 * took effect: it has its own backlogs, means, list, skills and state. It is notified of each
 * resume, of each change of the list of eligible workers (which is always that of the pool), of
 * workers that leave and their successors, and of each request that begins. It is notified of a
 * request's end when the request would have ended at the shadow's worker (pool_shadow_time.c). The
 * workers' reports of other load balancers' requests, their rejections, and whether they have a
 * process are those of the real workers. Its decisions about homes are not published, and homes
 * published by other load balancers are ignored, because those use another policy.
 *
 *     pool                                     shadow
 *     w1 (eligible)  <-------- of --------    mirror of w1 (eligible)
 *     pick: w1      --- pool_pick.shadow_ -->  pick: mirror of w2
 *
 * A choice is rated by whether the worker has served the class within its last RECENT requests,
 * under that policy. Both sides are rated in the same way, independent of known skills.
 *
 * Called with the pool's lock held; acquires the shadow's lock inside it, as no other code does.
 */
#include <stdlib.h>

#include "common/base/map.h"
#include "common/base/text.h"
#include "routing/pool_shadow.h"

/* ---- what a worker has served lately ---- */

/* Returns the entry of TAG, or the oldest. */
static struct shadow_recent *place_of(struct shadow_recent *set, uint32_t tag)
{
    struct shadow_recent *oldest = &set[0];

    for (int i = 0; i < SHADOW_WAYS; ++i) {
        if (set[i].at != 0 && set[i].tag == tag)
            return &set[i];
        if (set[i].at < oldest->at)
            oldest = &set[i];
    }
    return oldest;
}

struct shadow_notes *shadow_notes_of(struct worker *w)
{
    if (w->notes == NULL) {
        w->notes = xcalloc(1, sizeof(*w->notes));
        list_init(&w->notes->turns.waiting);
    }
    return w->notes;
}

/* W gets one of the class of HASH; whether it had one lately. */
static bool recall(struct worker *w, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);
    struct shadow_notes *n = shadow_notes_of(w);
    struct shadow_recent *c = place_of(n->sets[hash % SHADOW_SETS], tag);
    bool had = c->at != 0 && c->tag == tag && n->served - c->at < SHADOW_RECENT;

    *c = (struct shadow_recent){.tag = tag, .at = ++n->served};
    return had;
}

void pool_shadow_forget(struct worker *w)
{
    ASSERT(w->notes == NULL || w->notes->turns.serving == 0);
    free(w->notes);
    w->notes = NULL;
}

/* ---- requests ---- */

void pool_shadow_get_locked(struct pool *p, const struct pool_request *r, uint64_t now_us,
                            struct pool_pick *pick)
{
    struct worker *excluded[TRIED_MAX];
    struct pool_request asked = {.cls = r->cls, .excluded = excluded, .retry = r->retry};
    uint64_t hash = map_hash(r->cls.p != NULL ? r->cls.p : "", r->cls.len);

    ASSERT(p->held);
    shadow_time_catch_up(p);
    for (size_t i = 0; i < r->nexcluded; ++i) {
        const struct worker *w = r->excluded[i];

        /* One that has left has none. */
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
    shadow_time_begin(p, shadow);
    ++p->shadow_counts.requests;
    p->shadow_counts.differed += shadow->pick.worker != pick->worker->mirror;
    p->shadow_counts.live_skilled += recall(pick->worker, hash);
    p->shadow_counts.shadow_skilled += recall(shadow->pick.worker, hash);
}

void pool_shadow_catch_up_locked(struct pool *p)
{
    ASSERT(p->held);
    shadow_time_catch_up(p);
}

void pool_shadow_put_locked(struct pool *p, struct pool_pick *pick, const struct pool_served *how)
{
    ASSERT(p->held);
    if (pick->shadow_ == NULL)
        return;
    shadow_time_tell(p, pick->shadow_, how);
    pick->shadow_ = NULL;
}

/* ---- workers ---- */

/* W is a member: so is its mirror, ineligible, with what it is good at. */
void pool_shadow_resume_locked(struct pool *p, struct worker *w, const struct resume *r)
{
    ASSERT(p->held);
    if (w->mirror == NULL) {
        struct worker_options o = {.name = slice_of(w->name),
                                   .incarnation = slice_of(w->incarnation),
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
    shadow_time_cut(p, w->mirror);
    pool_remove(p->shadow, w->mirror, NULL);
    w->mirror->unavailable = true;
}

void pool_shadow_leaves_locked(struct pool *p, struct worker *w, struct worker *to)
{
    ASSERT(p->held);
    if (w->mirror != NULL && (to == NULL || to->mirror != NULL))
        pool_hand_over(p->shadow, w->mirror, to != NULL ? to->mirror : NULL);
}

void pool_shadow_gone_locked(struct pool *p, struct worker *w)
{
    ASSERT(p->held);
    pool_shadow_forget(w);
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
    struct list *it;

    ASSERT(p->held);
    pool_lock(p->shadow);
    list_for_each (it, &p->members) {
        struct worker *w = list_entry(it, struct worker, member_node);
        bool ineligible = w->place != WORKER_ELIGIBLE;

        /* One that is just coming in has none yet. */
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

static struct pool_settings settings_of(const struct pool *p)
{
    struct pool_settings s = p->settings;

    s.policy = s.shadow;
    s.shadowed = false;
    /* The list of eligible workers is the pool's. */
    s.single_version = false;
    s.spawn_backlog = 0;
    s.max_waiting = 0;
    return s;
}

static void start(struct pool *p)
{
    struct pool_settings s = settings_of(p);
    struct list *it;

    p->shadow = pool_create(&s, p->fingerprint);
    p->shadow_clock = xcalloc(1, sizeof(*p->shadow_clock));
    list_init(&p->shadow_clock->waiting);
    list_init(&p->shadow_clock->served);
    list_for_each (it, &p->members) {
        struct worker *w = list_entry(it, struct worker, member_node);
        struct resume r = {0};

        pool_resume_copy_locked(p, w, &r);
        pool_shadow_resume_locked(p, w, &r);
        resume_fini(&r);
    }
}

static void end_requests(struct pool *p, struct worker *w)
{
    struct list *it;

    list_for_each (it, &w->in_flight)
        pool_shadow_put_locked(p, list_entry(it, struct pool_pick, node_), NULL);
}

static void stop(struct pool *p)
{
    struct list *it;

    list_for_each (it, &p->members)
        end_requests(p, list_entry(it, struct worker, member_node));
    list_for_each (it, &p->leaving)
        end_requests(p, list_entry(it, struct worker, place_node));
    shadow_time_cut(p, NULL);
    list_for_each (it, &p->members) {
        struct worker *w = list_entry(it, struct worker, member_node);

        pool_shadow_left_locked(p, w);
        pool_shadow_gone_locked(p, w);
    }
    list_for_each (it, &p->leaving)
        pool_shadow_gone_locked(p, list_entry(it, struct worker, place_node));
    pool_destroy(p->shadow);
    free(p->shadow_clock);
    p->shadow = NULL;
    p->shadow_clock = NULL;
}

void pool_shadow_fini_locked(struct pool *p)
{
    ASSERT(p->held);
    if (p->shadow != NULL)
        stop(p);
}

void pool_shadow_set_locked(struct pool *p)
{
    ASSERT(p->held);
    if (!p->settings.shadowed) {
        if (p->shadow != NULL)
            stop(p);
        return;
    }
    if (p->shadow == NULL) {
        start(p);
        return;
    }
    struct pool_settings s = settings_of(p);
    pool_set(p->shadow, &s);
}

void pool_shadow_check(const struct pool *p)
{
    struct list *it;

    list_for_each (it, &p->members) {
        const struct worker *w = list_entry(it, struct worker, member_node);

        ASSERT((w->mirror != NULL) == (p->shadow != NULL));
        ASSERT(w->mirror == NULL || w->mirror->of == w);
        ASSERT(w->mirror == NULL || w->mirror->place == w->place);
    }
    if (p->shadow == NULL)
        return;
    pool_check(p->shadow);
    shadow_time_check(p);
    ASSERT(p->shadow->neligible == p->neligible);
    ASSERT(p->shadow->nmembers == p->nmembers);
    /* A request that was in flight before the shadow was enabled has none. */
    ASSERT(p->shadow->backlog <= p->backlog + p->shadow_clock->nreported);
}
