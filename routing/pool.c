/* SPDX-License-Identifier: Apache-2.0
 *
 * Membership, which members are eligible, requests that wait, and the counting of requests. Other
 * files: skills (pool_skills.c), the choice of a worker (pool_policy.c, pool_resume.c, ...),
 * workers activated because of overload (pool_activation.c).
 */
#include "routing/pool.h"

#include <math.h>
#include <stdlib.h>

#include "routing/pool_internal.h"

static const struct {
    const char *text, *doc;
} reasons[PICK_REASONS] = {
#define REASON(name, text, doc) [PICK_##name] = {(text), (doc)},
#include "routing/pick_reason.def"
};

const char *pick_reason_text(enum pick_reason r)
{
    ASSERT((unsigned)r < PICK_REASONS);
    return reasons[r].text;
}

const char *pick_reason_doc(enum pick_reason r)
{
    ASSERT((unsigned)r < PICK_REASONS);
    return reasons[r].doc;
}

static void apply_locked(struct pool *p, const struct pool_settings *s)
{
    ASSERT(isfinite(s->variance));
    ASSERT(isfinite(s->unskilled_score));
    ASSERT(s->backlog_history >= 1);
    ASSERT(!s->backlog_shared || s->backlog_max_age_ms >= 1);
    p->settings = *s;
    /* Twice the history, as each request makes two events: get and put. */
    p->worker_decay = decay_over(2.0 * (double)s->backlog_history);
}

struct pool *pool_create(const struct pool_settings *s, const char *fingerprint)
{
    struct pool *p = xcalloc(1, sizeof(*p));

    pthread_mutex_init(&p->scan_lock, NULL);
    list_init(&p->members);
    list_init(&p->eligible);
    list_init(&p->ineligible);
    list_init(&p->leaving);
    list_init(&p->versions);
    list_init(&p->waiting);
    list_init(&p->activated);
    p->fingerprint = xstrdup(fingerprint != NULL ? fingerprint : "");
    pool_lock(p);
    apply_locked(p, s);
    pool_skills_init(p);
    pool_policy_set_locked(p);
    pool_shadow_set_locked(p);
    pool_unlock(p);
    return p;
}

static void version_free(struct version *v)
{
    list_remove(&v->node);
    free(v->name);
    free(v);
}

void pool_let_in(struct pool *p)
{
    pool_unlock(p);
}

void pool_destroy(struct pool *p)
{
    if (p == NULL)
        return;
    ASSERT(p->nmembers == 0);
    ASSERT(p->backlog == 0);
    ASSERT(p->nwaiting == 0);
    ASSERT(p->nreleased == 0);
    ASSERT(list_empty(&p->activated));
    pool_lock(p);
    pool_shadow_fini_locked(p);
    pool_unlock(p);
    if (p->rule->destroy != NULL)
        p->rule->destroy(p->state);
    classes_fini(&p->classes);
    while (!list_empty(&p->versions))
        version_free(list_first(&p->versions, struct version, node));
    pthread_mutex_destroy(&p->scan_lock);
    free(p->fingerprint);
    free(p);
}

void pool_set(struct pool *p, const struct pool_settings *s)
{
    pool_lock(p);
    apply_locked(p, s);
    classes_set_max(&p->classes, s->max_classes);
    pool_policy_set_locked(p);
    pool_shadow_set_locked(p);
    pool_update_eligible_locked(p);
    pool_release_locked(p, NULL);
    pool_unlock(p);
}

/*
 * ---- which workers are eligible ----
 *
 * The available members except those just woken (pool_activation.c), and with single_version only
 * those of the active version. The active version is the one that most members run. It changes only
 * if another version has strictly more members; of several such versions, the one seen first is
 * elected. A version without available members counts as having no members, because an outage of
 * one version must not keep another one idle. Source: zc.resumelb lb.py Pool._new_version and
 * _quorum (formulas: tests/oracle/README.md).
 */

static struct version *version_named(struct pool *p, const char *name)
{
    struct version *first_idle = NULL;
    struct version *v;
    size_t idle = 0;

    list_for_each_entry (v, &p->versions, node) {
        if (strcmp(v->name, name) == 0)
            return v;
        if (v->members == 0 && v != p->active && idle++ == 0)
            first_idle = v;
    }
    /* Names come from workers, so the number of stored unused names is limited. */
    if (idle >= VERSIONS_IDLE_MAX)
        version_free(first_idle);
    v = xcalloc(1, sizeof(*v));
    v->name = xstrdup(name);
    list_push_back(&p->versions, &v->node);
    return v;
}

static size_t count_available(const struct version *v)
{
    return v != NULL && v->available != 0 ? v->members : 0;
}

static uint64_t free_places(const struct worker *w)
{
    uint64_t backlog = worker_backlog(w);

    return backlog < w->concurrency ? w->concurrency - backlog : 0;
}

static void make_eligible(struct pool *p, struct worker *w)
{
    ASSERT(w->state == WORKER_INELIGIBLE);
    list_remove(&w->state_node);
    w->state = WORKER_ELIGIBLE;
    list_push_front(&p->eligible, &w->state_node);
    ++p->neligible;
    p->places += free_places(w);
    pool_skills_replace(p, w, &w->stored);
    resume_fini(&w->stored);
    ++w->lost;
    if (p->rule->set_eligible != NULL)
        p->rule->set_eligible(p, w, true);
}

/* RETURNS: it may become eligible again, so its skills are stored. */
static void make_ineligible(struct pool *p, struct worker *w, bool returns)
{
    ASSERT(w->state == WORKER_ELIGIBLE);
    if (p->rule->set_eligible != NULL)
        p->rule->set_eligible(p, w, false);
    if (returns)
        pool_skills_copy(w, &w->stored);
    pool_skills_clear(p, w);
    p->places -= free_places(w);
    --p->neligible;
    list_remove(&w->state_node);
    w->state = WORKER_INELIGIBLE;
    list_push_back(&p->ineligible, &w->state_node);
}

static bool is_eligible(const struct pool *p, const struct worker *w)
{
    return !w->unavailable && w->activation != POOL_ACTIVATION_WOKEN_ &&
           (!p->settings.single_version || w->version == p->active);
}

void pool_update_eligible_locked(struct pool *p)
{
    struct version *v;
    struct worker *w;

    ASSERT(p->held);
    list_for_each_entry (v, &p->versions, node)
        v->members = v->available = 0;
    list_for_each_entry (w, &p->members, member_node) {
        ++w->version->members;
        w->version->available += !w->unavailable;
    }
    list_for_each_entry (v, &p->versions, node) {
        if (count_available(v) > count_available(p->active))
            p->active = v;
    }
    list_for_each_entry (w, &p->members, member_node) {
        if (w->state == WORKER_ELIGIBLE && !is_eligible(p, w))
            make_ineligible(p, w, true);
    }
    /* In reverse order of joining, so that the worker that joined first is at the front. */
    for (struct list *it = p->members.prev; it != &p->members; it = it->prev) {
        w = list_entry(it, struct worker, member_node);
        if (w->state == WORKER_INELIGIBLE && is_eligible(p, w))
            make_eligible(p, w);
    }
    /* Without workers the last decay remains, for the puts of workers that left. */
    if (p->neligible != 0)
        p->decay = decay_over(2.0 * (double)p->settings.backlog_history * (double)p->neligible);
    if (p->shadow != NULL)
        pool_shadow_update_eligible_locked(p);
}

/*
 * ---- waiting requests ----
 *
 * One queue for all loops, in the order of tickets. A grant is the right to call pool_get although
 * other requests wait. Grants are made while fewer of them are outstanding than the eligible
 * workers have free places:
 *
 *     waiting == 0  or  released >= places  or  owes_grants
 *
 * Each event that adds a free place or ends a grant makes the next: a worker that joins, a put, a
 * get that picked another worker or none, a cancel. Thus, as long as there is a free place, a
 * released request is about to use it.
 */

/* Ends the grant of W, if it has one. W may be NULL. */
static void end_grant(struct pool *p, struct pool_waiter *w)
{
    if (w == NULL || w->state != WAITER_RELEASED)
        return;
    ASSERT(p->nreleased != 0);
    --p->nreleased;
    w->state = WAITER_IDLE;
}

/* Returns ERR_BUSY if parked, or ERR_QUEUE_FULL if not. */
static noinline_ enum err park_waiter(struct pool *p, struct pool_waiter *w)
{
    ASSERT(w->state != WAITER_PARKED);
    ASSERT(!list_linked(&w->node));
    if (w->state == WAITER_RELEASED) {
        /* It was released in vain, so its place is near the front: few steps. */
        struct list *at = p->waiting.next;

        end_grant(p, w);
        while (at != &p->waiting && list_entry(at, struct pool_waiter, node)->ticket_ < w->ticket_)
            at = at->next;
        list_insert_before(at, &w->node);
    } else {
        /* Outstanding grants count, because each may return to the queue. */
        if (p->nwaiting + p->nreleased >= p->settings.max_waiting)
            return ERR_QUEUE_FULL;
        w->ticket_ = p->next_ticket++;
        list_push_back(&p->waiting, &w->node);
    }
    w->state = WAITER_PARKED;
    ++p->nwaiting;
    return ERR_BUSY;
}

static bool grant_is_due(const struct pool *p)
{
    return p->nwaiting != 0 && p->nreleased < p->places;
}

void pool_release_waiting_locked_(struct pool *p, struct list *released)
{
    ASSERT(p->held);
    while (grant_is_due(p) && released != NULL) {
        struct pool_waiter *w = list_first(&p->waiting, struct pool_waiter, node);

        w->state = WAITER_RELEASED;
        --p->nwaiting;
        ++p->nreleased;
        list_move_back(released, &w->node);
    }
    p->owes_grants = grant_is_due(p);
}

bool pool_wait_cancel(struct pool *p, struct pool_waiter *w, struct list *released)
{
    pool_lock(p);
    bool still_ours = w->state != WAITER_RELEASED;
    if (w->state == WAITER_PARKED) {
        list_remove(&w->node);
        w->state = WAITER_IDLE;
        --p->nwaiting;
    }
    end_grant(p, w);
    pool_release_locked(p, released);
    pool_unlock(p);
    return still_ours;
}

/* ---- membership ---- */

/* W returns, or the last of its requests in flight was put. */
static cold_ void drop_leaving(struct pool *p, struct worker *w)
{
    pool_scan_skip_locked(p, &w->state_node);
    list_remove(&w->state_node);
    --p->nleaving;
}

void pool_new_resume(struct pool *p, struct worker *w, const struct resume *r, const char *version,
                     const char *fingerprint, struct list *released)
{
    static const struct resume no_skills = {0};

    pool_lock(p);
    if (strcmp(fingerprint != NULL ? fingerprint : "", p->fingerprint) != 0)
        r = &no_skills;
    if (!worker_is_member(w)) {
        ASSERT(w->pool == NULL || w->pool == p);
        /* A worker that returns with requests in flight retains backlog and mean. */
        if (w->state == WORKER_LEAVING)
            drop_leaving(p, w);
        else
            w->mean = (struct decayed){0};
        atomic_store_explicit(&w->report, 0, memory_order_relaxed);
        atomic_store_explicit(&w->full_until_ms, 0, memory_order_relaxed);
        w->pool = p;
        w->state = WORKER_INELIGIBLE;
        list_push_back(&p->ineligible, &w->state_node);
        list_push_back(&p->members, &w->member_node);
        ++p->nmembers;
        worker_ref(w);
        pool_policy_joined_locked(p, w);
    }
    struct version *v = version_named(p, version != NULL ? version : "");
    if (w->version != v) {
        /* Among the workers of its new version it counts as the last that joined. */
        pool_scan_skip_locked(p, &w->member_node);
        list_move_back(&p->members, &w->member_node);
        w->version = v;
    }
    w->has_shown = r->n != 0;
    if (w->activation == POOL_ACTIVATION_RELIEVE && w->has_shown)
        pool_deactivate_locked(p, w);
    if (w->state == WORKER_ELIGIBLE) {
        pool_skills_replace(p, w, r);
    } else {
        resume_copy(&w->stored, r);
        ++w->lost;
    }
    if (p->shadow != NULL)
        pool_shadow_resume_locked(p, w, r);
    pool_update_eligible_locked(p);
    pool_release_locked(p, released);
    pool_unlock(p);
}

/* Its last request was put, or it had none when it left: nothing of W remains here. */
static cold_ void forget_worker_locked(struct pool *p, struct worker *w)
{
    free(w->policy);
    w->policy = NULL;
    pool_shadow_removed_locked(p, w);
    w->state = WORKER_OUTSIDE;
    w->pool = NULL;
}

void pool_remove(struct pool *p, struct worker *w, struct list *released)
{
    pool_lock(p);
    if (!worker_is_member(w)) {
        pool_unlock(p);
        return;
    }
    ASSERT(w->pool == p);
    if (w->state == WORKER_ELIGIBLE)
        make_ineligible(p, w, false);
    pool_deactivate_locked(p, w);
    pool_scan_skip_locked(p, &w->member_node);
    list_remove(&w->state_node);
    list_remove(&w->member_node);
    --p->nmembers;
    resume_fini(&w->stored);
    ++w->lost;
    w->version = NULL;
    if (p->rule->left != NULL)
        p->rule->left(p, w);
    if (p->shadow != NULL)
        pool_shadow_left_locked(p, w);
    if (worker_backlog(w) != 0) {
        w->state = WORKER_LEAVING;
        list_push_back(&p->leaving, &w->state_node);
        ++p->nleaving;
    } else {
        forget_worker_locked(p, w);
    }
    pool_update_eligible_locked(p);
    pool_release_locked(p, released);
    pool_unlock(p);
    worker_unref(w);
}

void pool_set_available(struct pool *p, struct worker *w, bool available, struct list *released)
{
    pool_lock(p);
    w->unavailable = !available;
    if (worker_is_member(w)) {
        pool_update_eligible_locked(p);
        pool_release_locked(p, released);
    }
    pool_unlock(p);
}

void pool_hand_over(struct pool *p, struct worker *from, struct worker *to)
{
    pool_lock(p);
    bool ineligible = from->state == WORKER_INELIGIBLE;
    if (to != NULL ? worker_is_member(from) && worker_is_member(to) : ineligible) {
        if (p->rule->leaves != NULL)
            p->rule->leaves(p, from, to);
        if (p->shadow != NULL && from->mirror != NULL && (to == NULL || to->mirror != NULL))
            pool_hand_over(p->shadow, from->mirror, to != NULL ? to->mirror : NULL);
    }
    pool_unlock(p);
}

size_t pool_forget(struct pool *p, struct worker *w, const struct slice *cls)
{
    size_t n = 0;

    pool_lock(p);
    if (w->state == WORKER_ELIGIBLE)
        n = pool_skills_forget(p, w, cls);
    else if (w->state == WORKER_INELIGIBLE)
        n = resume_forget(&w->stored, cls);
    ++w->lost;
    pool_unlock(p);
    return n;
}

/* Returns true if waiting is useless because all workers are excluded. */
static cold_ bool is_hopeless(const struct pool *p, const struct pool_request *r)
{
    const struct worker *w;

    if (r->waiter == NULL || p->neligible != 0)
        return true;
    list_for_each_entry (w, &p->members, member_node) {
        if (!pool_excludes(r, w))
            return false;
    }
    return p->nmembers != 0;
}

static void pool_tick(struct pool *p, struct worker *w)
{
    decayed_add(&p->mean, p->decay, (double)p->backlog);
    decayed_add(&w->mean, p->worker_decay, (double)worker_backlog(w));
}

bool pool_question_locked(struct pool *p, const struct pool_request *r, uint64_t now_us,
                          struct pool_question *out)
{
    struct worker *w;

    ASSERT(p->held);
    if (now_us > p->now_us)
        p->now_us = now_us;
    *out = (struct pool_question){
        .request = r,
        .now_ms = now_us / 1000,
        .since_ms = pool_reports_since(&p->settings, now_us / 1000),
    };
    /* The first eligible worker that is not excluded and has room; else the first not excluded. */
    list_for_each_entry (w, &p->eligible, state_node) {
        if (pool_excludes(r, w))
            continue;
        out->some_have_room = !worker_is_full(w, out->now_ms);
        if (out->front == NULL || out->some_have_room)
            out->front = w;
        if (out->some_have_room)
            break;
    }
    return out->front != NULL;
}

static void pool_choose(struct pool *p, const struct pool_question *q, uint64_t now_us,
                        struct pool_pick *out)
{
    const struct homes_ticket *home = &out->hand_.homes;
    struct pool_choice c = {0};

    pool_choose_locked(p, q, &c);
    struct worker *w = c.worker;
    ASSERT(w->state == WORKER_ELIGIBLE);
    /* Set member by member: a compound literal would be built elsewhere and copied. */
    memset(out, 0, sizeof(*out));
    out->reason = q->request->retry ? PICK_RETRY : c.reason;
    out->started_us = now_us;
    out->max_backlog = c.max_backlog;
    out->min_backlog = c.min_backlog;
    out->skipped = c.skipped;
    ++p->picks[out->reason];
    if (p->rule->begin != NULL) {
        out->counted_ = true;
        p->rule->begin(p, q, &c, &out->hand_);
    }
    /* What is to be reported to the worker. */
    if (home->worker != NULL) {
        out->passing = home->passing;
        out->home = home->kind;
        if (home->from != NULL)
            out->home_from = worker_ref(homes_worker_context(home->from));
    }
    uint64_t backlog = worker_backlog(w);
    list_move_back(&p->eligible, &w->state_node);
    if (backlog < w->concurrency)
        --p->places;
    out->backlog = backlog;
    worker_set_backlog(w, backlog + 1);
    ++p->backlog;
    if (w->activation != POOL_ACTIVATION_NONE)
        pool_activated_took_locked(p, w);
    pool_tick(p, w);
    list_push_back(&w->in_flight, &out->node_);
    out->worker = worker_ref(w);
    if (p->shadow != NULL)
        pool_shadow_get_locked(p, q->request, now_us, out);
}

enum err pool_get(struct pool *p, const struct pool_request *r, uint64_t now_us,
                  struct pool_pick *out)
{
    enum err result = ERR_OK;
    struct pool_question q;

    ASSERT(r->nexcluded <= TRIED_MAX);
    pool_lock(p);
    /* Must be first; otherwise a request that is parked below could be released by this call. */
    if (p->owes_grants)
        pool_release_locked(p, r->released);
    bool must_queue = r->waiter != NULL && r->waiter->state != WAITER_RELEASED && p->nwaiting != 0;
    bool somebody = pool_question_locked(p, r, now_us, &q);
    if (!somebody && is_hopeless(p, r)) {
        end_grant(p, r->waiter);
        result = ERR_NO_WORKER;
    } else if (!somebody || must_queue) {
        result = park_waiter(p, r->waiter);
    } else {
        pool_choose(p, &q, now_us, out);
        end_grant(p, r->waiter);
    }
    pool_release_locked(p, r->released);
    pool_unlock(p);
    return result;
}

bool pool_get_at(struct pool *p, struct worker *w, uint64_t now_us, struct pool_pick *out)
{
    pool_lock(p);
    bool member = worker_is_member(w);
    if (member) {
        uint64_t backlog = worker_backlog(w);

        memset(out, 0, sizeof(*out));
        out->reason = PICK_PROBE;
        out->started_us = now_us;
        ++p->picks[PICK_PROBE];
        if (w->state == WORKER_ELIGIBLE && backlog < w->concurrency)
            --p->places;
        out->backlog = backlog;
        worker_set_backlog(w, backlog + 1);
        ++p->backlog;
        pool_tick(p, w);
        pool_policy_adopt_locked(p, w, out);
        list_push_back(&w->in_flight, &out->node_);
        out->worker = worker_ref(w);
    }
    pool_unlock(p);
    return member;
}

struct worker *pool_put_worker(struct pool *p, struct pool_pick *pick,
                               const struct pool_served *how, struct list *released)
{
    struct worker *w = pick->worker;

    pool_lock(p);
    ASSERT(w->pool == p);
    uint64_t backlog = worker_backlog(w);
    ASSERT(backlog != 0);
    list_remove(&pick->node_);
    pick->worker = NULL;
    struct worker *from = pick->home_from;
    pick->home_from = NULL;
    worker_set_backlog(w, --backlog);
    --p->backlog;
    pool_tick(p, w);
    if (w->state == WORKER_ELIGIBLE && backlog < w->concurrency)
        ++p->places;
    struct pool_served given_up = {.now_us = p->now_us, .failed = true};
    const struct pool_served *end = how != NULL ? how : &given_up;
    if (end->now_us > p->now_us)
        p->now_us = end->now_us;
    if (pick->counted_ && p->rule->end != NULL)
        p->rule->end(p, w, &pick->hand_, end);
    pick->counted_ = false;
    if (pick->shadow_ != NULL)
        pool_shadow_put_locked(p, pick, how);
    if (w->state == WORKER_LEAVING && backlog == 0) {
        drop_leaving(p, w);
        forget_worker_locked(p, w);
    }
    pool_release_locked(p, released);
    pool_unlock(p);
    worker_unref(from);
    return w;
}

void pool_put(struct pool *p, struct pool_pick *pick, const struct pool_served *how,
              struct list *released)
{
    worker_unref(pool_put_worker(p, pick, how, released));
}

void pool_set_balancers(struct pool *p, const uint64_t ids[], size_t n, size_t self)
{
    pool_lock(p);
    p->nbalancers = n <= HOMES_BALANCERS_MAX ? n : 0;
    p->self = self;
    if (p->nbalancers != 0)
        memcpy(p->balancers, ids, p->nbalancers * sizeof(ids[0]));
    if (p->rule->balancers != NULL)
        p->rule->balancers(p);
    pool_unlock(p);
}

void pool_new_homes(struct pool *p, struct worker *w, const struct pool_home *homes, size_t n,
                    uint64_t now_us)
{
    pool_lock(p);
    if (now_us > p->now_us)
        p->now_us = now_us;
    if (worker_is_member(w) && p->rule->housed != NULL) {
        for (size_t i = 0; i < n; ++i)
            p->rule->housed(p, w, &homes[i]);
    }
    pool_unlock(p);
}
