/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of rlb::routing, included only by pool*.c. pool->lock guards everything
 * here, except what is constant after creation, reference counts, and what is atomic.
 *
 * A member is either eligible (in the list of eligible workers) or ineligible (another version is
 * active, it is drained or ejected, or it has just been woken). The skills of an eligible worker
 * are stored in the table of classes; those of an ineligible one are stored as a resume until it
 * returns.
 *
 *     outside --new_resume--> ineligible <--update_eligible--> eligible
 *        ^  ^                     |                               |
 *        |  '------ remove -------+-------------------------------'
 *        |                        v  with requests in flight
 *        '----- last put ----- leaving
 *
 * What each file adds to a pick:
 *
 *     pool_get, pool.c                 which workers may be chosen, or the request waits; then
 *                                      counts, lists, and what is reported to the worker
 *       pool_choose_locked, here       an activated worker, if the policy's choice is overloaded
 *         choose: pool_adaptive.c      the policy; of adaptive: terms of the pool to those of homes
 *           homes_plan, homes_rule.c   the rule: a home of the class, a new one, or an overflow
 *       begin: pool_adaptive.c         the same in the other direction
 *         homes_begin, homes.c         makes the plan true, and counts the request
 *
 * Only choose has other forms: pool_explain calls it alone, and other policies have their own.
 */
#pragma once

#include <pthread.h>

#include "common/base/latch.h"
#include "common/base/log.h"
#include "common/skills/classes.h"
#include "common/stats/decay.h"
#include "routing/pool.h"

enum {
    /* Versions without members that are retained for the order in which they were first seen. */
    VERSIONS_IDLE_MAX = 64,
};

/* A worker's report: the lower bits are a number of requests, the higher a time in ms. */
enum { WORKER_REPORT_BITS = 24 };

enum worker_state { WORKER_OUTSIDE, WORKER_INELIGIBLE, WORKER_ELIGIBLE, WORKER_LEAVING };

struct worker {
    struct log_subject subject; /* first */
    atomic_uint refs;
    char *name;
    size_t name_bytes; /* without its end */
    char *instance;
    unsigned concurrency;
    void *context;
    void (*context_release)(void *context);

    /* The following members belong to the pool, which frees what they point to when W leaves. */
    struct pool *pool; /* NULL outside */
    enum worker_state state;
    struct list state_node;     /* pool->ineligible, ->eligible or ->leaving, as STATE specifies */
    struct list member_node;    /* pool->members */
    struct list activated_node; /* pool->activated: those to be woken and those that relieve */
    enum pool_activation activation; /* of a member */
    bool has_shown;                  /* its last resume had skills */
    bool unavailable;
    struct version *version;  /* NULL if not a member */
    _Atomic uint64_t backlog; /* written under the lock, read by worker_report without */
    struct decayed mean;
    /* Requests in flight from other load balancers and the time of the report (WORKER_REPORT_BITS);
     * 0: none. Written without the lock, so both are in one word and change together. */
    _Atomic uint64_t report;
    /* it rejected a request; written without the lock; 0: it did not */
    _Atomic uint64_t full_until_ms;
    struct list in_flight; /* pool_pick.node_, oldest first */
    struct worker *of;     /* its report and rejections count: itself, or the mirrored worker */
    struct worker *mirror; /* in pool->shadow; or NULL */
    struct shadow_notes *notes; /* pool_shadow.c's; or NULL */
    void *policy;               /* pool_rule.worker_bytes of the policy's own, or NULL */
    struct skill_slot *slots;
    uint32_t nslots;
    uint32_t slots_room;
    uint32_t resume_no;
    struct resume stored; /* skills while ineligible */
    uint32_t lost;        /* changes whenever a score is deleted or its place changes */
    uint64_t scanned;     /* number of the last scan (pool->scan) that included it */
};

static inline uint64_t worker_backlog(const struct worker *w)
{
    return atomic_load_explicit(&w->backlog, memory_order_relaxed);
}

static inline bool worker_is_member(const struct worker *w)
{
    return w->state == WORKER_INELIGIBLE || w->state == WORKER_ELIGIBLE;
}

/* Number of classes that W has a score for: it has either slots or stored skills. */
static inline size_t worker_nskills(const struct worker *w)
{
    return w->nslots + w->stored.n;
}

/* Under the lock: no other writer, so no locked instruction. */
static inline void worker_set_backlog(struct worker *w, uint64_t backlog)
{
    atomic_store_explicit(&w->backlog, backlog, memory_order_relaxed);
}

static inline uint64_t report_others(uint64_t report, uint64_t since_ms)
{
    if (report == 0 || report >> WORKER_REPORT_BITS < since_ms)
        return 0;
    return report & WORKER_REPORT_MAX;
}

/* Returns the known number of requests in flight at W from other load balancers. */
static inline uint64_t worker_others(const struct worker *w, uint64_t since_ms)
{
    return report_others(atomic_load_explicit(&w->of->report, memory_order_relaxed), since_ms);
}

/* Returns true if W recently rejected a request (WORKER_REJECTION_MS). */
static inline bool worker_is_full(const struct worker *w, uint64_t now_ms)
{
    return atomic_load_explicit(&w->of->full_until_ms, memory_order_relaxed) > now_ms;
}

/* Skills of a class are in the order of assignment, oldest first. */
struct skill {
    struct worker *worker;
    double score;
    uint32_t slot; /* worker->slots[slot] refers back to this skill */
};

struct pool_class {
    struct class_entry base;
    struct skill *skills;
    uint32_t n;
    uint32_t room;
};

struct skill_slot {
    struct pool_class *cls;
    uint32_t resume_no; /* number of the worker's resume that set the score */
};

struct version {
    struct list node; /* pool->versions, first seen first */
    char *name;
    size_t members;
    size_t available; /* of them */
};

/* Input of a policy's choice. */
struct pool_question {
    const struct pool_request *request;
    struct worker *front; /* the first eligible that is neither excluded nor spared */
    uint64_t now_ms;
    uint64_t since_ms;   /* for worker_others: reports from this time on count */
    bool some_have_room; /* workers that recently rejected a request are left out (pool_spares) */
    /* receives the explanation of the choice (pool_view.c); or NULL */
    struct pool_explain *explain;
};

/* Output of a policy's choice. */
struct pool_choice {
    struct worker *worker;
    enum pick_reason reason;
    double max_backlog, min_backlog; /* as pool_pick's */
    size_t skipped;
    void *entry; /* the policy's, from choose to begin: its entry of the class; may be NULL */
    uint64_t flags;
};

/*
 * A policy: a const table. All members except choose may be NULL, and adopt is called only if there
 * is an end. The functions are called with the pool's lock held. The time, pool->now_us, is the
 * latest that any caller has passed; it never decreases, and does not advance between requests.
 *
 *     create     creates the state of the policy, owned by the pool
 *       joined, adopt             for each member: adopt for each request in flight, oldest first
 *       set_eligible              for each eligible worker, front first
 *
 *       joined < set_eligible < left                      as workers join and leave
 *       choose, begin ... end                             for each request
 *       choose                                            without begin, for pool_explain
 *     destroy    frees the state; left and end are not called before
 *
 * A policy may store
 *   - its own state: the result of create, in pool->state;
 *   - worker_bytes for each worker, at worker->policy: zero when it first joins, valid until its
 *     last request is put (after left until the last end, or until joined if it returns before
 *     that), then freed by the pool. The policy must free what this memory points to: in left, and
 *     in destroy for members;
 *   - a pool_hand for each request in flight, zero until begin or adopt.
 */
struct pool_rule {
    size_t worker_bytes;

    void *(*create)(struct pool *p);
    void (*destroy)(void *state);
    /* p->settings has changed but p->rule is the same. */
    void (*changed)(struct pool *p);

    /* W has become a member, or has ceased to be one; its requests in flight still end. */
    void (*joined)(struct pool *p, struct worker *w);
    void (*left)(struct pool *p, struct worker *w);
    /* W has become eligible, or ineligible: drained, ejected, of another version, leaving. */
    void (*set_eligible)(struct pool *p, struct worker *w, bool eligible);
    /* W, a member that is ineligible, is about to leave; or TO, another member, takes its place. */
    void (*leaves)(struct pool *p, struct worker *w, struct worker *to);

    /* Chooses an eligible worker that is neither excluded nor spared; q->front is one. Sets worker,
     * reason and, if the policy has them, the numbers. No effect on a later choice: the request may
     * go to another worker, or to none (pool_explain, pool_activation.c). */
    void (*choose)(struct pool *p, const struct pool_question *q, struct pool_choice *out);
    /* c->worker gets the request: the chosen worker, or an activated one (PICK_ACTIVATED). Called
     * right after choose, before counts and lists are updated. H does not move until end. */
    void (*begin)(struct pool *p, const struct pool_question *q, const struct pool_choice *c,
                  struct pool_hand *h);
    /* A request of any class, begun under another policy (called right after joined) or regardless
     * of the policy. */
    void (*adopt)(struct pool *p, struct worker *w, struct pool_hand *h, uint64_t started_us);
    /* Ends a request, after the counts were updated. HOW->now_us <= pool->now_us. */
    void (*end)(struct pool *p, struct worker *w, struct pool_hand *h,
                const struct pool_served *how);
    /* p->balancers has changed; also called immediately after create. */
    void (*balancers)(struct pool *p);
    /* W, a member, has published HOME. */
    void (*housed)(struct pool *p, struct worker *w, const struct pool_home *home);
    /* Returns the number of homes of CLS; NULL if the policy does not assign homes. */
    size_t (*homes_of)(struct pool *p, struct slice cls);
};

struct pool {
    struct latch lock;
    bool held; /* lock is; for the assertions of _locked functions */
    struct pool_settings settings;
    const struct pool_rule *rule;
    void *state;     /* the rule's */
    uint64_t now_us; /* the latest time that any caller has passed */
    char *fingerprint;

    struct list members; /* in the order they joined */
    size_t nmembers;
    struct list eligible; /* least recently picked first */
    size_t neligible;
    struct list ineligible;
    struct list leaving;
    size_t nleaving;
    struct list versions;
    struct version *active; /* the version elected last, or NULL; counts under single_version */

    uint64_t backlog; /* of members and of leaving workers */
    struct decayed mean;
    double decay; /* 0 before the first worker */
    double worker_decay;
    uint64_t places; /* sum over eligible workers of max(concurrency - backlog, 0) */

    struct classes classes; /* of struct pool_class */
    size_t nscored;         /* classes with at least one skill */

    struct list waiting; /* pool_waiter.node by ticket */
    size_t nwaiting;
    size_t nreleased; /* grants that are not yet used or ended */
    uint64_t next_ticket;
    bool owes_grants; /* a grant was due while no list for the waiter was passed */

    struct list activated;
    bool above;              /* the last check found all eligible workers above spawn_backlog ... */
    uint64_t above_since_ms; /* ... as did each check since this time */

    uint64_t balancers[HOMES_BALANCERS_MAX];
    size_t nbalancers, self;

    uint64_t picks[PICK_REASONS];

    struct pool *shadow;               /* or NULL */
    struct shadow_clock *shadow_clock; /* with it */
    struct pool_shadow_counts shadow_counts;

    /* pool_scan. This lock is acquired before the pool's, and held during a whole scan. */
    pthread_mutex_t scan_lock;
    uint64_t scan;          /* number of scans so far */
    struct list *scan_next; /* of members or leaving, where the scan continues; or NULL */
};

static inline void pool_lock(struct pool *p)
{
    latch_lock(&p->lock);
    p->held = true;
}

static inline void pool_unlock(struct pool *p)
{
    p->held = false;
    latch_unlock(&p->lock);
}

/* pool.c: pool_unlock between two pieces of a scan, so that other threads can proceed. Not inline:
 * a test replaces it, to simulate their actions. */
void pool_let_in(struct pool *p);

static inline bool pool_excludes(const struct pool_request *r, const struct worker *w)
{
    for (size_t i = 0; i < r->nexcluded; ++i) {
        if (r->excluded[i] == w)
            return true;
    }
    return r->unfit != NULL && r->unfit(r->unfit_context, w);
}

/* Returns the time from which on reports count; older ones are ignored. */
static inline uint64_t pool_reports_since(const struct pool_settings *s, uint64_t now_ms)
{
    if (!s->backlog_shared)
        return UINT64_MAX;
    return now_ms >= s->backlog_max_age_ms ? now_ms - s->backlog_max_age_ms + 1 : 0;
}

/* Returns true if W is full while other workers are not, so that one of those is chosen. */
static inline bool pool_spares(const struct pool_question *q, const struct worker *w)
{
    return q->some_have_room && worker_is_full(w, q->now_ms);
}

/* Returns true if W, which is eligible, may be chosen. */
static inline bool pool_may_choose(const struct pool_question *q, const struct worker *w)
{
    return !pool_excludes(q->request, w) && !pool_spares(q, w);
}

/* Call before NODE leaves members or leaving: a scan continues with the next node. */
static inline void pool_scan_skip_locked(struct pool *p, const struct list *node)
{
    if (p->scan_next == node)
        p->scan_next = node->next;
}

extern const struct pool_rule pool_rule_resume;
extern const struct pool_rule pool_rule_classless;
extern const struct pool_rule pool_rule_round_robin;
extern const struct pool_rule pool_rule_p2c;
extern const struct pool_rule pool_rule_hash;
extern const struct pool_rule pool_rule_adaptive;

/* pool_policy.c: the pool's policy, its state, and the calls to it */
/* Selects the policy that p->settings names; if it has changed, creates its state again. */
void pool_policy_set_locked(struct pool *p);
void pool_policy_joined_locked(struct pool *p, struct worker *w);
/* PICK, a request at W, was not begun by the policy, which counts it from now on. */
void pool_policy_adopt_locked(struct pool *p, struct worker *w, struct pool_pick *pick);

/* Maximum number of requests that have ended only in reality; 400 bytes each. */
enum { SHADOW_BEHIND_MAX = 4096 };

/* A request at a worker that serves as many at once as it has threads, in order. */
struct shadow_service {
    struct list node; /* of shadow_notes.waiting, unless it is being served */
    bool serving;
    uint64_t serve_us; /* start of service; of a waiting request, its arrival */
};

/* A request as seen by the shadow. Owned by the pool's pick until that ends, then by the clock
 * until the request would have ended at the shadow's worker. */
struct shadow_request {
    struct pool_pick pick; /* of the shadow */
    struct worker *live;   /* the real worker, until the request has ended in reality */
    struct shadow_service in_truth, here;
    uint64_t start_us;
    /* The following members are valid for a request that has ended in reality. */
    struct list reported_node; /* of shadow_clock.waiting or .served */
    uint64_t took_us;          /* time of service */
    uint64_t service_us;       /* as measured, without the wait before; 0: not measured */
    bool with_wait;            /* the measured time includes the wait */
    bool failed;
    bool reported;
    uint64_t due_us;
    size_t at; /* shadow_clock.due[at]; or SIZE_MAX */
};

/* Requests that have ended in reality but not yet for the shadow. */
struct shadow_clock {
    struct list waiting; /* to be served, oldest first */
    struct list served;
    size_t nreported;                                  /* both */
    struct shadow_request *due[SHADOW_BEHIND_MAX + 1]; /* a heap of the requests being served */
    size_t ndue;
};

/* pool_shadow.c: all except _set, _fini and _removed require p->shadow. */
/* Creates or destroys the shadow as p->settings requires. */
void pool_shadow_set_locked(struct pool *p);
/* No effect if there is no shadow. */
void pool_shadow_fini_locked(struct pool *p);
void pool_shadow_resume_locked(struct pool *p, struct worker *w, const struct resume *r);
void pool_shadow_left_locked(struct pool *p, struct worker *w);
void pool_shadow_removed_locked(struct pool *p, struct worker *w);
/* The list of eligible workers has changed. */
void pool_shadow_update_eligible_locked(struct pool *p);
/* PICK was made. */
void pool_shadow_get_locked(struct pool *p, const struct pool_request *r, uint64_t now_us,
                            struct pool_pick *pick) noinline_;
/* Ends the requests that are due to end in the shadow. */
void pool_shadow_catch_up_locked(struct pool *p);
/* PICK, which was made in the shadow as well, has ended by HOW. */
void pool_shadow_put_locked(struct pool *p, struct pool_pick *pick, const struct pool_served *how);

/* pool_view.c: no effect if E is NULL, so that a policy need not check it */
void pool_explain_value(struct pool_explain *e, const char *name, double value);
void pool_explain_step(struct pool_explain *e, const char *name, size_t before, size_t after);
/* WHY: reason why W was passed over; NULL: it was not. */
void pool_explain_candidate(struct pool_explain *e, struct worker *w, double criterion,
                            double work_s, const char *why);

/* pool.c */
/* Elects the active version and makes each member eligible or ineligible accordingly. Call after
 * each change of membership, version, availability or settings. */
void pool_update_eligible_locked(struct pool *p);
/* Sets all of OUT except explain. Returns false if no worker may be chosen. */
bool pool_question_locked(struct pool *p, const struct pool_request *r, uint64_t now_us,
                          struct pool_question *out);

/* pool_skills.c: which eligible workers are skilled at a class */
void pool_skills_init(struct pool *p);
/* Returns the entry of CLS, or NULL if the class is unknown. */
struct pool_class *pool_skills_find(const struct pool *p, struct slice cls);
/* Returns the skill of W for C, or NULL if it has none. C may be NULL. */
struct skill *pool_skill_of(const struct pool_class *c, const struct worker *w);
/* Assigns a score for CLS to W, as the most recent skill of CLS. */
void pool_skill_assign(struct pool *p, struct worker *w, struct slice cls, double score);
/* Replaces the skills of W with R. */
void pool_skills_replace(struct pool *p, struct worker *w, const struct resume *r);
/* Deletes the score of W, which is eligible, for CLS, or all (NULL). Returns their number. */
size_t pool_skills_forget(struct pool *p, struct worker *w, const struct slice *cls);
void pool_skills_clear(struct pool *p, struct worker *w);
/* Copies the skills of W, a member, including assigned scores, to OUT, which is empty. */
void pool_skills_copy(const struct worker *w, struct resume *out);
/* Returns the score of W, which is eligible, for the class of its slot I. */
double pool_skills_score(const struct worker *w, uint32_t i);

/* pool_activation.c: workers activated because of overload */
/* If the policy's choice is overloaded, an activated worker gets the request instead, if it can. */
void pool_activated_locked(struct pool *p, const struct pool_question *q, struct pool_choice *out);
/* Chooses the worker and states the reason: the policy's choice, or an activated worker. No side
 * effects. */
static inline void pool_choose_locked(struct pool *p, const struct pool_question *q,
                                      struct pool_choice *out)
{
    ASSERT(p->held);
    p->rule->choose(p, q, out);
    ASSERT(out->worker != NULL);
    if (!list_empty(&p->activated))
        pool_activated_locked(p, q, out);
}
/* W, which is activated, has received a request, by any rule. */
void pool_activated_took_locked(struct pool *p, struct worker *w);
void pool_deactivate_locked(struct pool *p, struct worker *w);

/* Makes the grants that are due. If RELEASED is NULL, they remain owed. */
void pool_release_waiting_locked_(struct pool *p, struct list *released);
static inline void pool_release_locked(struct pool *p, struct list *released)
{
    /* In most cases there are no waiters. */
    if (p->nwaiting != 0)
        pool_release_waiting_locked_(p, released);
    else
        p->owes_grants = false;
}
