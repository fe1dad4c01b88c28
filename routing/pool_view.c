/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of the pool: copies for status pages, and explanations of a choice.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/json.h"
#include "routing/pool_internal.h"

/* Sets all of OUT except its skills. */
static void view_worker_locked(struct worker *w, struct worker_view *out)
{
    const char *version = w->version != NULL ? w->version->name : "";
    const struct pool_pick *pick;

    *out = (struct worker_view){
        .name = w->name,
        .instance = w->instance,
        .active = w->state == WORKER_ELIGIBLE,
        .available = !w->unavailable,
        .backlog = worker_backlog(w),
        .report = atomic_load_explicit(&w->report, memory_order_relaxed),
        .mean_backlog = w->mean.mean,
        .nskills = worker_nskills(w),
        .worker = worker_ref(w),
    };
    memcpy(out->version, version, strnlen(version, VERSION_MAX));
    /* Tunnels and responses without an end are not requests that the worker has yet to respond to.
     */
    list_for_each_entry (pick, &w->in_flight, node_) {
        if (!atomic_load_explicit(&pick->responded, memory_order_relaxed)) {
            out->oldest_us = pick->started_us;
            break;
        }
    }
}

uint64_t pool_view_others(const struct pool_view *v, const struct worker_view *w, uint64_t now_ms)
{
    return report_others(w->report, pool_reports_since(&v->settings, now_ms));
}

void pool_view_fini(struct pool_view *v)
{
    for (size_t i = 0; i < v->n + v->ndetached; ++i) {
        resume_fini(&v->workers[i].skills);
        worker_unref(v->workers[i].worker);
    }
    free(v->workers);
    free(v->active_version);
    *v = (struct pool_view){0};
}

/*
 * ---- in pieces, while requests are processed ----
 *
 * Between two pieces other threads may acquire the lock; code that removes a worker from the list
 * being scanned advances the position of the scan (pool_scan_skip_locked). With the lock held, only
 * a few bytes for the pool itself are allocated.
 */

enum { TRIES = 3 /* to copy the skills of one worker in pieces */ };

/* Appends the workers of HEAD that this scan has not included yet to the N of OUT, which has ROOM.
 * MEMBERS: it is p->members, else p->leaving. */
static void scan_list(struct pool *p, struct list *head, bool members, size_t *room, size_t *n,
                      struct pool_view *out)
{
    pool_lock(p);
    p->scan_next = head->next;
    pool_let_in(p);
    for (bool more = true; more;) {
        out->workers = xgrow(out->workers, *n + POOL_LOOK_WORKERS, room, sizeof(out->workers[0]));
        pool_lock(p);
        struct list *it = p->scan_next;
        for (size_t i = 0; i < POOL_LOOK_WORKERS && it != head; ++i, it = it->next) {
            struct worker *w = members ? list_entry(it, struct worker, member_node)
                                       : list_entry(it, struct worker, state_node);

            if (w->scanned != p->scan)
                view_worker_locked(w, &out->workers[(*n)++]);
            w->scanned = p->scan;
        }
        more = it != head;
        p->scan_next = more ? it : NULL;
        pool_let_in(p);
    }
}

/* Copies W's skills in pieces. False: scores were deleted meanwhile, so some may be missing. */
static bool try_skills(struct pool *p, const struct worker *w, struct resume *out)
{
    struct {
        double score;
        size_t len;
        char cls[CLASS_BYTES_MAX];
    } rows[POOL_LOOK_SKILLS];
    uint32_t lost = 0;
    size_t from = 0;
    bool more = true;

    while (more) {
        size_t n = 0;

        pool_lock(p);
        if (from == 0)
            lost = w->lost;
        bool same = lost == w->lost;
        for (; same && n < POOL_LOOK_SKILLS && from < worker_nskills(w); ++n, ++from) {
            struct slice cls;

            if (w->state == WORKER_ELIGIBLE) {
                cls = class_name(&w->slots[from].cls->base);
                rows[n].score = pool_skills_score(w, (uint32_t)from);
            } else {
                cls = w->stored.rows[from].cls;
                rows[n].score = w->stored.rows[from].score;
            }
            ASSERT(cls.len <= CLASS_BYTES_MAX);
            rows[n].len = cls.len;
            if (cls.len != 0)
                memcpy(rows[n].cls, cls.p, cls.len);
        }
        more = same && from < worker_nskills(w);
        pool_let_in(p);
        if (!same)
            return false;
        for (size_t i = 0; i < n; ++i)
            resume_push(out, (struct slice){rows[i].cls, rows[i].len}, rows[i].score);
    }
    return true;
}

void pool_scan(struct pool *p, bool skills, struct pool_view *out)
{
    size_t n = 0, room = 0;

    pthread_mutex_lock(&p->scan_lock);
    pool_lock(p);
    double workers = (double)p->neligible;
    double spread = workers > 0 ? p->settings.variance * p->mean.mean / workers : 0;
    *out = (struct pool_view){
        .nactive = p->neligible,
        .settings = p->settings,
        .backlog = p->backlog,
        .mean_backlog = p->mean.mean,
        .max_backlog = spread > 1 ? spread : 1,
        .classes = p->nscored,
        .waiting = p->nwaiting,
        .shadow = p->shadow_counts,
    };
    if (p->rule == &pool_rule_classless)
        out->mean_backlog = workers > 0 ? (double)p->backlog / workers : 0;
    if (p->settings.single_version && p->active != NULL)
        out->active_version = xstrdup(p->active->name);
    memcpy(out->picks, p->picks, sizeof(out->picks));
    ++p->scan;
    pool_let_in(p);
    scan_list(p, &p->members, true, &room, &n, out);
    out->n = n;
    scan_list(p, &p->leaving, false, &room, &n, out);
    out->ndetached = n - out->n;
    pthread_mutex_unlock(&p->scan_lock);
    if (!skills)
        return;
    for (struct worker_view *v = out->workers; v < out->workers + n; ++v) {
        int tries = 0;

        for (; tries < TRIES && !try_skills(p, v->worker, &v->skills); ++tries)
            resume_fini(&v->skills);
        if (tries < TRIES)
            continue;
        /* It changed during each try: copied with the lock held throughout. */
        pool_lock(p);
        pool_skills_copy(v->worker, &v->skills);
        pool_let_in(p);
    }
}

/* ---- single figures ---- */

void pool_class_view(struct pool *p, struct slice cls, struct pool_class_view *out)
{
    out->total = out->n = 0;
    pool_lock(p);
    out->lives = p->rule->homes_of != NULL;
    out->homes = out->lives ? p->rule->homes_of(p, cls) : 0;
    const struct pool_class *c = pool_skills_find(p, cls);
    out->total = c != NULL ? c->n : 0;
    for (; out->n < out->total && out->n < POOL_CLASS_ROWS_MAX; ++out->n) {
        const struct skill *s = &c->skills[out->n];
        size_t len = strnlen(s->worker->name, POOL_CLASS_NAME_MAX);

        memcpy(out->rows[out->n].name, s->worker->name, len);
        out->rows[out->n].name[len] = '\0';
        out->rows[out->n].score = s->score;
    }
    pool_unlock(p);
}

void pool_active_version(struct pool *p, char *out, size_t room)
{
    pool_lock(p);
    bool has = p->settings.single_version && p->active != NULL;
    snprintf(out, room, "%s", has ? p->active->name : "");
    pool_unlock(p);
}

void pool_shadow_put_json(const struct pool_shadow_counts *c, struct json_writer *w)
{
    json_put_int(w, "requests", (int64_t)c->requests);
    json_put_int(w, "differed", (int64_t)c->differed);
    json_put_int(w, "policy_skilled", (int64_t)c->live_skilled);
    json_put_int(w, "shadow_skilled", (int64_t)c->shadow_skilled);
    json_put_real(w, "policy_wait_s", (double)c->live_wait_us / 1e6);
    json_put_real(w, "shadow_wait_s", (double)c->shadow_wait_us / 1e6);
    json_put_int(w, "overdue", (int64_t)c->overdue);
}

/*
 * ---- explanations ----
 *
 * The policy chooses as usual and adds its intermediate results; the request is not begun.
 */

void pool_explain_value(struct pool_explain *e, const char *name, double value)
{
    if (e == NULL || e->nvalues == EXPLAIN_VALUES_MAX)
        return;
    e->values[e->nvalues].name = name;
    e->values[e->nvalues++].value = value;
}

void pool_explain_step(struct pool_explain *e, const char *name, size_t before, size_t after)
{
    if (e == NULL || e->nsteps == EXPLAIN_STEPS_MAX)
        return;
    e->steps[e->nsteps].name = name;
    e->steps[e->nsteps].before = before;
    e->steps[e->nsteps++].after = after;
}

void pool_explain_candidate(struct pool_explain *e, struct worker *w, double criterion,
                            double work_s, const char *why)
{
    struct explain_candidate *c = NULL;

    if (e == NULL)
        return;
    ++e->considered;
    if (e->ncandidates < EXPLAIN_CANDIDATES_MAX)
        c = &e->candidates[e->ncandidates++];
    /* The last candidate that was passed over is replaced by one that was not. */
    for (size_t i = EXPLAIN_CANDIDATES_MAX; c == NULL && why == NULL && i-- != 0;)
        c = e->candidates[i].why != NULL ? &e->candidates[i] : NULL;
    if (c == NULL)
        return;
    worker_unref(c->worker);
    *c = (struct explain_candidate){
        .worker = worker_ref(w), .criterion = criterion, .work_s = work_s, .why = why};
}

void pool_explain(struct pool *p, const struct pool_request *r, uint64_t now_us,
                  struct pool_explain *out)
{
    struct pool_question q;
    struct pool_choice choice = {0};
    bool listed = false;

    ASSERT(r->nexcluded <= TRIED_MAX);
    pool_lock(p);
    *out = (struct pool_explain){.policy = pool_policy_text(p->settings.policy),
                                 .workers = p->neligible};
    if (!pool_question_locked(p, r, now_us, &q)) {
        pool_unlock(p);
        return;
    }
    q.explain = out;
    pool_choose_locked(p, &q, &choice);
    out->worker = worker_ref(choice.worker);
    out->reason = r->retry ? PICK_RETRY : choice.reason;
    /* Only the chosen worker, maybe a fallback or activated, is not passed over. */
    for (size_t i = 0; i < out->ncandidates; ++i) {
        struct explain_candidate *c = &out->candidates[i];

        if (c->worker == choice.worker) {
            c->why = NULL;
            listed = true;
        } else if (c->why == NULL) {
            c->why = "above spawn_backlog, and another was activated";
        }
    }
    if (!listed)
        pool_explain_candidate(out, choice.worker, 0, 0, NULL);
    for (struct explain_candidate *c = out->candidates; c < out->candidates + out->ncandidates; ++c)
        c->backlog = worker_backlog(c->worker) + worker_others(c->worker, q.since_ms);
    pool_unlock(p);
}

bool pool_explain_shadow(struct pool *p, const struct pool_request *r, uint64_t now_us,
                         struct pool_explain *out)
{
    *out = (struct pool_explain){0};
    pool_lock(p);
    bool shadowed = p->shadow != NULL;
    if (shadowed) {
        if (now_us > p->now_us)
            p->now_us = now_us;
        pool_shadow_catch_up_locked(p);
        pool_explain(p->shadow, r, now_us, out);
    }
    pool_unlock(p);
    return shadowed;
}

void pool_explain_fini(struct pool_explain *e)
{
    for (size_t i = 0; i < e->ncandidates; ++i)
        worker_unref(e->candidates[i].worker);
    worker_unref(e->worker);
    *e = (struct pool_explain){0};
}
