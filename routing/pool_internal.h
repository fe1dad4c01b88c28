/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of rlb::routing: only pool*.c and worker.c include this. Everything here is guarded by
 * pool->lock, but for what is constant after creation and a worker's count of references.
 *
 * A member stands in the line, or aside (another version is active, it is drained or ejected, or it
 * has just been woken).
 * What a worker in the line is good at stands in the table of classes; what one aside is good at is
 * kept as a resume until it is back.
 *
 *     outside --new_resume--> aside <--reseat--> line
 *        ^  ^                   |                 |
 *        |  '----- remove ------+-----------------'
 *        |                      v  with requests in hand
 *        '---- last put ---- leaving
 */
#ifndef RLB_ROUTING_POOL_INTERNAL_H
#define RLB_ROUTING_POOL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/latch.h"
#include "common/base/log.h"
#include "common/skills/classes.h"
#include "common/stats/decay.h"
#include "routing/pool.h"

enum {
    /* Versions remembered without a member, for the order in which they were first seen. */
    VERSIONS_IDLE_MAX = 64,
    /* Of a worker's report: the lower ones are requests, those above a time in ms. */
    WORKER_REPORT_BITS = 24,
};

enum worker_call {
    WORKER_NOT_CALLED,
    WORKER_TO_WAKE,
    WORKER_WOKEN, /* it was to be woken, and has got its request: it stands aside */
    WORKER_RELIEVES,
};

enum worker_place { WORKER_OUTSIDE, WORKER_ASIDE, WORKER_IN_LINE, WORKER_LEAVING };

/* A worker's score for one class. A class's skills are in the order they were given, oldest first.
 */
struct skill {
    struct worker *worker;
    double score;
    uint32_t slot; /* worker->slots[slot] is the way back */
};

struct pool_class {
    struct class_entry base;
    struct skill *skills;
    uint32_t n;
    uint32_t room;
};

struct skill_slot {
    struct pool_class *cls;
    uint32_t resume_no; /* the worker's resume that gave the score */
};

struct version {
    struct list node; /* pool->versions, first seen first */
    char *name;
    size_t members;
    size_t available; /* of them */
};

struct worker {
    struct log_subject subject; /* first */
    atomic_uint refs;
    char *name;
    size_t name_bytes; /* without its end */
    char *incarnation;
    unsigned concurrency;
    void *context;
    void (*context_release)(void *context);

    /* What follows is the pool's. */
    struct pool *pool; /* NULL outside */
    enum worker_place place;
    struct list place_node;  /* pool->aside, ->line or ->leaving, as PLACE says */
    struct list member_node; /* pool->members */
    struct list called_node; /* pool->called: those to be woken and those that relieve */
    enum worker_call call;   /* a member's */
    bool has_shown;          /* its last resume had skills */
    bool unavailable;
    struct version *version;  /* NULL when no member */
    _Atomic uint64_t backlog; /* written under the lock, read by worker_report without */
    struct decayed mean;
    /* What others had in hand and when (WORKER_REPORT_BITS); 0: nothing. Written without the lock:
     * in one word, so that nobody sees the one without the other. */
    _Atomic uint64_t report;
    _Atomic uint64_t full_until_ms; /* it refused a request; written without the lock; 0: not */
    struct list in_hand;            /* pool_pick.node_, oldest first */
    struct worker *of;     /* whose report and refusals count: itself, or of whom it is a mirror */
    struct worker *mirror; /* in pool->shadow; or NULL */
    struct shadow_notes *notes; /* pool_shadow.c's; or NULL */
    void *policy;               /* pool_rule.worker_bytes of the policy's own, or NULL */
    struct skill_slot *slots;
    uint32_t nslots;
    uint32_t slots_room;
    uint32_t resume_no;
    struct resume kept; /* while aside */
    uint32_t lost;      /* another number since then: a score has gone, or its place is another */
    uint64_t looked_at; /* pool->look that has seen it */
};

/* What a policy is asked. */
struct pool_question {
    const struct pool_request *request;
    struct worker *front; /* the first of the line that is not excluded, nor spared */
    uint64_t now_us;      /* pool->now_us */
    uint64_t now_ms;
    uint64_t since_ms;            /* for worker_others: reports since then count */
    bool some_have_room;          /* who refused a request a moment ago is left out: pool_spares */
    struct pool_explain *explain; /* to be told how it comes to its choice (pool_explain.c); or NULL
                                   */
};

/* What it says. */
struct pool_choice {
    struct worker *worker;
    enum pick_reason reason;
    double max_backlog, min_backlog; /* as pool_pick's */
    size_t skipped;
    void *entry; /* its own, from choose to begin: what it has found of the class; may be NULL */
    double work_s;
    uint64_t flags;
};

/*
 * A policy: a const table. All but choose may be NULL. Called under the pool's lock, at a time that
 * never goes back (pool->now_us: the latest that any caller has given; between requests it stands).
 *
 *     create     the pool's from now on
 *       joined, adopt, learned    for each member: adopt for each request it has in hand, oldest
 *                                 first; learned with scores that the pool has assigned
 *       seated                    for each in the line, front first
 *
 *       joined < learned < seated ... unseated < left     as workers come and go
 *       choose, begin ... end                             for each request
 *       choose                                            alone, for pool_explain
 *     destroy    what it has made; no left or end comes before
 *
 * It may keep
 *   - a state of its own: what create returns, pool->state;
 *   - worker_bytes for each worker, at worker->policy: zero when it first joins, there until its
 *     last request is put (from left to the last end, or to joined when it comes back before
 *     that), then freed by the pool. What that points to is the policy's to free: in left, and in
 *     destroy for members;
 *   - a pool_hand for each request in hand, zero until begin or adopt.
 */
struct pool_rule {
    size_t worker_bytes;

    void *(*create)(struct pool *p);
    void (*destroy)(struct pool *p, void *state);
    /* p->settings has changed, p->rule has not. */
    void (*changed)(struct pool *p);

    /* W has become a member, or is none any more; its requests in hand still end. */
    void (*joined)(struct pool *p, struct worker *w);
    void (*left)(struct pool *p, struct worker *w);
    /* W stands in the line, or no longer: drained, ejected, of another version, about to leave. */
    void (*seated)(struct pool *p, struct worker *w);
    void (*unseated)(struct pool *p, struct worker *w);
    /* W, a member that stands aside, is about to leave; or TO, another member, takes its place. */
    void (*leaves)(struct pool *p, struct worker *w, struct worker *to);
    /* W, a member, has sent a resume: R, empty when it is of another classifier. */
    void (*learned)(struct pool *p, struct worker *w, const struct resume *r);

    /*
     * Choose a worker of the line that is not excluded, nor spared; there is one, q->front. Fills
     * worker, reason and, where the policy has them, the numbers. Without an effect that a later
     * choice could notice: nobody may get the request, or another (pool_explain, pool_called.c).
     */
    void (*choose)(struct pool *p, const struct pool_question *q, struct pool_choice *out);
    /* c->worker gets the request: the one chosen, or who was brought in (PICK_CALLED). Right after
     * choose, but before the counts and the line know. H is at the same place until end. */
    void (*begin)(struct pool *p, const struct pool_question *q, const struct pool_choice *c,
                  struct pool_hand *h);
    /* A request that W got by another policy, whatever its class: right after joined. */
    void (*adopt)(struct pool *p, struct worker *w, struct pool_hand *h, uint64_t started_us);
    /* Of each that was begun or adopted; the counts know already. HOW->now_us is not after
     * pool->now_us. */
    void (*end)(struct pool *p, struct worker *w, struct pool_hand *h,
                const struct pool_served *how);
    /* p->balancers is another set; also right after create. */
    void (*balancers)(struct pool *p);
    /* W, a member, has published that. */
    void (*housed)(struct pool *p, struct worker *w, const struct pool_home *home);
    /* At how many workers CLS lives; NULL: this rule has no such places. */
    size_t (*homes_of)(struct pool *p, struct slice cls);
    /* Asserts every invariant. */
    void (*check)(struct pool *p);
};

struct pool {
    struct latch lock;
    bool held; /* lock is; for the assertions of _locked functions */
    struct pool_settings settings;
    const struct pool_rule *rule;
    void *state;     /* the rule's */
    uint64_t now_us; /* the latest that any caller has given */
    char *fingerprint;

    struct list members; /* in the order they joined */
    size_t nmembers;
    struct list line; /* least recently picked first */
    size_t nline;
    struct list aside;
    struct list leaving;
    size_t nleaving;
    struct list versions;
    struct version *active; /* the version elected last, or NULL; counts under single_version */

    uint64_t backlog; /* of members and of those leaving */
    struct decayed mean;
    double decay; /* 0 before the first worker */
    double worker_decay;
    uint64_t places; /* sum over the line of max(concurrency - backlog, 0) */

    struct classes classes; /* of struct pool_class */
    size_t nscored;         /* classes with at least one skill */

    struct list waiting; /* pool_waiter.node by ticket */
    size_t nwaiting;
    size_t nreleased; /* turns given and not yet used or given back */
    uint64_t next_ticket;
    bool owes_turns; /* one was due when there was no list to put the waiter on */

    struct list called;
    bool above;              /* the last look found all of the line above spawn_backlog ... */
    uint64_t above_since_ms; /* ... and each since then */

    uint64_t balancers[HOMES_BALANCERS_MAX];
    size_t nbalancers, self;

    uint64_t picks[PICK_REASONS];

    struct pool *shadow;               /* or NULL */
    struct shadow_clock *shadow_clock; /* with it */
    struct pool_shadow_counts shadow_counts;

    /* pool_look.c. The lock is taken before the pool's, and held throughout a look. */
    pthread_mutex_t look_lock;
    uint64_t look;          /* looks so far */
    struct list *look_next; /* the node, of members or leaving, that the look goes on with; or NULL
                             */
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

/* pool.c: pool_unlock between two pieces of a look, where others get their turn. Not inline: a test
 * does there what they might do. */
void pool_let_in(struct pool *p);

static inline bool pool_excludes(const struct pool_request *r, const struct worker *w)
{
    for (size_t i = 0; i < r->nexcluded; ++i) {
        if (r->excluded[i] == w)
            return true;
    }
    return r->unfit != NULL && r->unfit(r->unfit_context, w);
}

static inline uint64_t worker_backlog(const struct worker *w)
{
    return atomic_load_explicit(&w->backlog, memory_order_relaxed);
}

/* Under the lock: no other writer, so no locked instruction. */
static inline void worker_set_backlog(struct worker *w, uint64_t backlog)
{
    atomic_store_explicit(&w->backlog, backlog, memory_order_relaxed);
}

/* Reports as old as this count, older ones do not. */
static inline uint64_t pool_reports_since(const struct pool_settings *s, uint64_t now_ms)
{
    if (!s->backlog_shared)
        return UINT64_MAX;
    return now_ms >= s->backlog_max_age_ms ? now_ms - s->backlog_max_age_ms + 1 : 0;
}

static inline uint64_t report_others(uint64_t report, uint64_t since_ms)
{
    if (report == 0 || report >> WORKER_REPORT_BITS < since_ms)
        return 0;
    return report & WORKER_REPORT_MAX;
}

/* What other load balancers have in hand at W, as far as we know. */
static inline uint64_t worker_others(const struct worker *w, uint64_t since_ms)
{
    return report_others(atomic_load_explicit(&w->of->report, memory_order_relaxed), since_ms);
}

/* W refused a request a moment ago. */
static inline bool worker_is_full(const struct worker *w, uint64_t now_ms)
{
    return atomic_load_explicit(&w->of->full_until_ms, memory_order_relaxed) > now_ms;
}

/* W is full, and others are not, of which one will be chosen. */
static inline bool pool_spares(const struct pool_question *q, const struct worker *w)
{
    return q->some_have_room && worker_is_full(w, q->now_ms);
}

/* Whether W, of the line, may be chosen. */
static inline bool pool_may_choose(const struct pool_question *q, const struct worker *w)
{
    return !pool_excludes(q->request, w) && !pool_spares(q, w);
}

/* NODE is about to leave members or leaving: a look that was to go on there goes on behind it. */
static inline void pool_look_past_locked(struct pool *p, const struct list *node)
{
    if (p->look_next == node)
        p->look_next = node->next;
}

extern const struct pool_rule pool_rule_resume;
extern const struct pool_rule pool_rule_classless;
extern const struct pool_rule pool_rule_round_robin;
extern const struct pool_rule pool_rule_p2c;
extern const struct pool_rule pool_rule_hash;
extern const struct pool_rule pool_rule_adaptive;

/* pool_policy.c: the pool's policy, its state, and what it is told */
/* The policy that p->settings names; another one's state is made anew. */
void pool_policy_set_locked(struct pool *p);
void pool_policy_fini(struct pool *p);
void pool_policy_joined_locked(struct pool *p, struct worker *w);
void pool_policy_left_locked(struct pool *p, struct worker *w);
/* W's last request is put, or it had none when it left. */
void pool_policy_gone_locked(struct pool *p, struct worker *w);
void pool_policy_seated_locked(struct pool *p, struct worker *w);
void pool_policy_unseated_locked(struct pool *p, struct worker *w);
/* TO may be NULL: then W stands aside. */
void pool_policy_leaves_locked(struct pool *p, struct worker *w, struct worker *to);
void pool_policy_learned_locked(struct pool *p, struct worker *w, const struct resume *r);
/* Who gets the request, and why. No side effect. */
void pool_policy_choose_locked(struct pool *p, const struct pool_question *q,
                               struct pool_choice *out);
void pool_policy_begin_locked(struct pool *p, const struct pool_question *q,
                              const struct pool_choice *c, struct pool_pick *pick);
/* After W's counts; HOW may be NULL. */
void pool_policy_end_locked(struct pool *p, struct worker *w, struct pool_pick *pick,
                            const struct pool_served *how);

void pool_policy_balancers_locked(struct pool *p);
void pool_policy_housed_locked(struct pool *p, struct worker *w, const struct pool_home *home);

/* What W, a member, is good at, with scores that were assigned. */
void pool_resume_copy_locked(const struct pool *p, const struct worker *w, struct resume *out);

/* pool_shadow.c: a second policy beside it. All but _set, _fini, _gone and _check while there is
 * one. */
/* As p->settings has it. */
void pool_shadow_set_locked(struct pool *p);
void pool_shadow_fini_locked(struct pool *p);
void pool_shadow_resume_locked(struct pool *p, struct worker *w, const struct resume *r);
void pool_shadow_left_locked(struct pool *p, struct worker *w);
/* W is about to leave, or TO takes its place; as pool_hand_over. */
void pool_shadow_leaves_locked(struct pool *p, struct worker *w, struct worker *to);
void pool_shadow_gone_locked(struct pool *p, struct worker *w);
void pool_shadow_forget(struct worker *w);
/* The line is another. */
void pool_shadow_reseat_locked(struct pool *p);
/* PICK is made. */
void pool_shadow_get_locked(struct pool *p, const struct pool_request *r, uint64_t now_us,
                            struct pool_pick *pick) apart;
/* Requests that have ended for the shadow by now end. */
void pool_shadow_catch_up_locked(struct pool *p);
void pool_shadow_put_locked(struct pool *p, struct pool_pick *pick, const struct pool_served *how);
void pool_shadow_check(const struct pool *p);

/* pool_explain.c: nothing when E is NULL, so that a rule need not ask */
void pool_explain_value(struct pool_explain *e, const char *name, double value);
void pool_explain_step(struct pool_explain *e, const char *name, size_t before, size_t after);
/* WHY: it was passed over; NULL: it was not. */
void pool_explain_candidate(struct pool_explain *e, struct worker *w, double score, double work_s,
                            const char *why);

/* pool_adaptive_explain.c: what H has planned for R, told to Q */
void pool_adaptive_explain(struct homes *h, const struct pool_question *q,
                           const struct homes_request *r, const struct homes_plan *plan) apart;

/* pool.c */
/* Fills OUT but for explain. False: there is nobody who may be chosen. */
bool pool_question_locked(struct pool *p, const struct pool_request *r, uint64_t now_us,
                          struct pool_question *out);

/* pool_view.c */
/* All of OUT but workers, n and ndetached. */
void pool_view_figures_locked(const struct pool *p, struct pool_view *out);
/* All of OUT but its texts and its skills. */
void pool_view_worker_locked(struct worker *w, struct worker_view *out);
/* The texts of OUT that are constant for as long as a worker lives. */
void pool_view_names(struct worker_view *out);

/* pool_skills.c: which workers of the line are good at a class */
void pool_skills_init(struct pool *p);
void pool_skills_fini(struct pool *p);
/* The entry of CLS, or NULL when nobody has a score for it and it is not known. */
struct pool_class *pool_skills_find(const struct pool *p, struct slice cls);
/* Counts one request of a class; C is its entry, or NULL when it has none. */
void pool_skills_request(struct pool *p, struct pool_class *c);
/* C may be NULL. NULL when W has no score for it. */
const struct skill *pool_skill_of(const struct pool_class *c, const struct worker *w);
/* Gives W a score for CLS, as its youngest. */
void pool_skill_assign(struct pool *p, struct worker *w, struct slice cls, double score);
/* What W is good at is R from now on, and nothing else. */
void pool_skills_replace(struct pool *p, struct worker *w, const struct resume *r);
/* Of CLS, or of all classes (NULL); W is in the line. Returns how many. */
size_t pool_skills_forget(struct pool *p, struct worker *w, const struct slice *cls);
void pool_skills_clear(struct pool *p, struct worker *w);
void pool_skills_copy(const struct worker *w, struct resume *out);
/* The score of W, of the line, for the class of its slot I. */
double pool_skills_score(const struct worker *w, uint32_t i);
void pool_skills_check(const struct pool *p);

/* pool_version.c: who may stand in the line */
struct version *pool_version_locked(struct pool *p, const char *name);
/* Elect the active version anew and move everybody where they belong. After each change of
 * membership, version, availability or settings. */
void pool_reseat_locked(struct pool *p);
void pool_versions_fini(struct pool *p);
/* Takes W out of the line. KEEP: with a copy of what it is good at. */
void pool_unseat_locked(struct pool *p, struct worker *w, bool keep);

/* pool_called.c: who was brought in because of overload */
/* Who gets the request rather than PICKED, whom the rule names; or NULL. */
struct worker *pool_called_locked(struct pool *p, const struct pool_question *q,
                                  const struct worker *picked);
/* W, who is called in, has got a request, by whatever rule. */
void pool_called_took_locked(struct pool *p, struct worker *w);
void pool_uncall_locked(struct pool *p, struct worker *w);

/* pool_wait.c: who waits for a worker */
/* ERR_BUSY: parked. ERR_QUEUE_FULL: not. */
enum err pool_park_locked(struct pool *p, struct pool_waiter *w) apart;
/* Whether W has to stand behind others who wait. W may be NULL. */
bool pool_must_park(const struct pool *p, const struct pool_waiter *w);
/* W's turn, if it had one, is over. W may be NULL. */
void pool_end_turn_locked(struct pool *p, struct pool_waiter *w);
/* Hand out the turns that are due. RELEASED may be NULL: they are owed then. */
void pool_release_waiting_locked_(struct pool *p, struct list *released);
static inline void pool_release_locked(struct pool *p, struct list *released)
{
    /* Mostly nobody waits. */
    if (p->nwaiting != 0)
        pool_release_waiting_locked_(p, released);
    else
        p->owes_turns = false;
}

#endif
