/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool of one application: decides which worker gets a request. Plain computation: no I/O, no
 * threads, and no clock except the time passed to it. The server, the replay tool, the simulator
 * and the tests use the same code. Owned by the application, which destroys it after every worker
 * has left and every request was put. Shared by all loops: every function acquires pool->lock,
 * holds it briefly, and while holding it makes no callbacks except pool_request.unfit.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/base/list.h"
#include "common/skills/resume.h"
#include "routing/homes/homes.h"
#include "routing/worker.h"

struct pool;
struct json_writer;

/* One row each in pool_policy.def: name and text. */
enum pool_policy {
#define POLICY(name, text, rule, doc) POOL_POLICY_##name,
#include "routing/pool_policy.def"
    POOL_POLICIES
};
const char *pool_policy_text(enum pool_policy policy);

struct pool_settings {
    enum pool_policy policy;
    bool single_version;
    double variance;          /* limit of mean backlog above the front's, in means per worker */
    uint64_t backlog_history; /* requests over which backlogs are averaged; >= 1 */
    double max_share;         /* adaptive: maximum part of the workers for one class; 0: 7/16 */
    bool max_share_always;    /* ... even if hardly any other class is requested */
    double unskilled_score; /* score assigned to an unskilled worker for the class of its request */
    size_t max_classes;     /* classes kept; a tenth of the room is for those on probation */
    size_t max_waiting;     /* of requests parked or released; above it ERR_QUEUE_FULL */
    bool backlog_shared;    /* requests in flight from other load balancers count (worker_report) */
    uint64_t backlog_max_age_ms; /* ... for this time after the report; >= 1 */
    /* A worker is overloaded if it has more requests in flight than this per unit of its
     * concurrency (pool_overloaded); 0: never. */
    uint64_t spawn_backlog;
    /* Policy hash: maximum requests in flight at a worker, percent of the mean; 0: no limit. */
    uint64_t hash_balance_percent;
    /* A second policy that makes the same decisions without effect (pool_shadow.c). */
    enum pool_policy shadow;
    bool shadowed;
    uint64_t seed; /* of the random numbers, used when the policy is created; may be 0 */
};

/* Converts S, a pointer to a struct with the fields of pool_settings.def; without max_waiting. */
#define POOL_SETTINGS_OF(s)                                                                        \
    ((struct pool_settings){                                                                       \
        .policy = (enum pool_policy)(s)->policy,                                                   \
        .single_version = (s)->single_version,                                                     \
        .variance = (s)->variance,                                                                 \
        .backlog_history = (uint64_t)(s)->backlog_history,                                         \
        .max_share = (s)->max_share,                                                               \
        .max_share_always = (s)->max_share_always,                                                 \
        .unskilled_score = (s)->unskilled_score,                                                   \
        .max_classes = (size_t)(s)->max_classes,                                                   \
        .backlog_shared = (s)->backlog_shared,                                                     \
        .backlog_max_age_ms = (s)->backlog_max_age_ms,                                             \
        .spawn_backlog = (uint64_t)(s)->spawn_backlog,                                             \
        .shadowed = (s)->shadow_policy != 0,                                                       \
        .shadow = (enum pool_policy)((s)->shadow_policy != 0 ? (s)->shadow_policy - 1 : 0),        \
        .hash_balance_percent = (uint64_t)(s)->hash_balance_factor,                                \
    })

/* Returns true if at least one worker is always below PERCENT of the mean; 0 means unbounded. */
static inline bool pool_hash_balances(uint64_t percent)
{
    return percent == 0 || percent > 100;
}

/* Why a worker was picked. One row each in pick_reason.def: name (access log, metrics) and text. */
enum pick_reason {
#define REASON(name, text, doc) PICK_##name,
#include "routing/pick_reason.def"
    PICK_REASONS
};
const char *pick_reason_text(enum pick_reason r);
/* A one-sentence description. */
const char *pick_reason_doc(enum pick_reason r);

/*
 * A request that waits for any worker. Embedded in the exchange, which owns it. While parked it is
 * in the pool's queue. When it is granted, the granting call appends it to its RELEASED
 * list (see below), and that caller must wake the exchange on the exchange's own loop. A woken
 * exchange calls pool_get again with the same waiter, or pool_wait_cancel; either ends the grant
 * to the pool.
 */
struct pool_waiter {
    struct list node;
    void *context;                                              /* the exchange, used to wake it */
    enum { WAITER_IDLE, WAITER_PARKED, WAITER_RELEASED } state; /* written under the pool's lock */
    uint64_t ticket_; /* private: its position in the queue; retained if it was released in vain */
};

struct pool_request {
    struct slice cls;  /* encoded class */
    uint64_t cls_hash; /* class_hash of it; 0: not computed yet */
    /* Workers already tried, ejected for this request, or with a full queue: they are neither
     * candidates nor the front of the list. Their counts and means do not change. */
    struct worker *const *excluded; /* all must be alive; NULL: none */
    size_t nexcluded;               /* <= TRIED_MAX */
    bool retry;                     /* not the first attempt: the reason is PICK_RETRY */
    /* Also excludes W if true. Called with the lock held. NULL: no further exclusion. */
    bool (*unfit)(void *context, const struct worker *w);
    void *unfit_context;
    /* Parked if there are no workers or if other requests already wait. NULL: do not wait. */
    struct pool_waiter *waiter;
    /* Receives the released waiters, as in pool_put. Required if WAITER is set; otherwise a grant
     * may stay unused until the next pool_put. */
    struct list *released;
};

/* A policy's private data of a request in flight, initially zero; see pool_internal.h. */
struct pool_hand {
    struct list node;
    void *entry;
    double work_s;
    struct homes_ticket homes;
};

struct pool_pick {
    struct worker *worker; /* counted reference; pool_put drops it */
    enum pick_reason reason;
    uint64_t started_us; /* as passed to pool_get */
    uint64_t backlog;    /* the worker's, of our requests before this one; valid after pool_put */
    /*
     * Numbers behind the decision (policy resume; else 0). SKIPPED skilled workers had a mean
     * backlog of more than MAX_BACKLOG above MIN_BACKLOG, or had just rejected a request
     * (WORKER_REJECTION_MS); including those above only with others' requests, if they would have
     * been picked.
     */
    double max_backlog, min_backlog;
    size_t skipped;
    /* Report to the worker about the class's homes (policy adaptive), if one of these is set. */
    bool passing;             /* the worker is not a home of the class */
    enum home_kind home;      /* how the worker has become a home; HOME_USED: it was one before */
    struct worker *home_from; /* HOME_REASSIGN; counted reference, pool_put drops it; else NULL */
    struct list node_;        /* pool's: the worker's requests in flight, oldest first */
    atomic_bool responded;  /* set by the caller at any time: the response headers were received */
    struct pool_hand hand_; /* pool's: its policy's */
    bool counted_;          /* pool's: it is registered with the policy */
    struct shadow_request *shadow_; /* pool's: the shadow's side of it; owned; or NULL */
};

/* How a request ended, for policies that learn from it. */
struct pool_served {
    uint64_t now_us;     /* monotonic */
    uint64_t service_us; /* from the request written to the last byte received; 0: not measured */
    /* An error, a reset, a 5xx; or, if service_us is 0: aborted, never sent, upgraded. */
    bool failed;
};

/* FINGERPRINT: of the application's classifier, FINGERPRINT_LEN hex digits or "". */
struct pool *pool_create(const struct pool_settings *s, const char *fingerprint);
/* Asserts that the pool has no members and no waiters. P may be NULL. */
void pool_destroy(struct pool *p);
/* Effective from the next call on; means, skills and assigned scores are retained. */
void pool_set(struct pool *p, const struct pool_settings *s);

/*
 * The first resume of a worker makes it a member, at the front of the list of eligible workers. A
 * later one replaces its skills; its place and backlog do not change. Acquires its own reference.
 *   version      application version of the worker; used with single_version; NULL is ""
 *   fingerprint  of the classifier that produced R; skills are ignored if it is not the pool's
 *                fingerprint
 *   released     receives the released waiters; the caller must wake them. Here and below it may be
 *                NULL: the grants are then made by the next call with a list
 */
void pool_new_resume(struct pool *p, struct worker *w, const struct resume *r, const char *version,
                     const char *fingerprint, struct list *released) cold_;
/* Removes the worker, if it is a member. Its requests in flight must still be put. If it returns
 * (pool_new_resume) before that, it retains its backlog and mean. */
void pool_remove(struct pool *p, struct worker *w, struct list *released);
/* Deletes the score of W for CLS, or all its scores (NULL); requests assign new ones. Returns the
 * number of deleted scores; 0 if W is not a member. */
size_t pool_forget(struct pool *p, struct worker *w, const struct slice *cls);
/* Drained or ejected workers (available = false) are ineligible, like those of an inactive version:
 * they leave the list of eligible workers, retain backlog, means and resume, and return to its
 * front. May be called before the first resume. */
void pool_set_available(struct pool *p, struct worker *w, bool available, struct list *released);

/*
 * FROM will leave permanently and gets no more requests (it is not available), or TO, another
 * member, is a new instance of the same worker. FROM still completes its requests in flight. Policy
 * adaptive assigns other homes to the classes of FROM at once, all at TO if that is not NULL; the
 * other policies have nothing to hand over. No effect if FROM is not a member, or if TO is neither
 * NULL nor a member.
 */
void pool_hand_over(struct pool *p, struct worker *from, struct worker *to);

/*
 * Picks a worker for one request and counts the request as in flight there. Must be paired with
 * pool_put().
 *   now_us  monotonic microseconds; may be slightly earlier than a value passed by another thread
 *   out     filled on ERR_OK; must not be moved until pool_put
 * Errors: ERR_BUSY       parked: the waiter is in the queue
 *         ERR_NO_WORKER  all workers are excluded, or there are none and WAITER is NULL
 *         ERR_QUEUE_FULL max_waiting reached
 * Source: zc.resumelb lb.py Pool.get (tests/oracle/README.md, section 2). Additions: requests in
 * flight from other load balancers count as the worker's backlog, but not in the means; other
 * policies.
 * Cost: O(workers skilled in cls); allocates only for a new class or a new skill.
 */
enum err pool_get(struct pool *p, const struct pool_request *r, uint64_t now_us,
                  struct pool_pick *out) must_check;
/* Counts a request at W regardless of policy and eligibility, as PICK_PROBE. Returns false if W is
 * not a member. Pair with pool_put. */
bool pool_get_at(struct pool *p, struct worker *w, uint64_t now_us, struct pool_pick *out) cold_;
/* Ends a request: updates counts and means and releases the pick's reference. HOW is NULL if the
 * request was aborted; it ends then at the latest time passed to the pool. */
void pool_put(struct pool *p, struct pool_pick *pick, const struct pool_served *how,
              struct list *released);
/* The same, but returns the worker and passes the pick's reference to the caller. */
struct worker *pool_put_worker(struct pool *p, struct pool_pick *pick,
                               const struct pool_served *how, struct list *released) must_check;
/* Removes the waiter from the queue, or ends its grant. No effect if the waiter is idle. Returns
 * false if it had been released: the caller that received it in a RELEASED list may still have to
 * deliver the wake-up, before which it must not be freed. */
bool pool_wait_cancel(struct pool *p, struct pool_waiter *w, struct list *released);

/* ---- several load balancers before the same workers ---- */

/* IDS: all load balancers that send requests to the same workers, which publish the homes reported
 * to them. SELF: the index of this one. See homes_set_balancers. Ignored by other policies. */
void pool_set_balancers(struct pool *p, const uint64_t ids[], size_t n, size_t self);

/* A worker's record about a class of which it is a home. */
struct pool_home {
    struct slice cls;
    enum home_kind kind;
    struct worker *from;    /* of HOME_REASSIGN; borrowed; NULL: not known here, or not yet */
    struct slice from_name; /* of HOME_REASSIGN: the worker_name of FROM */
    uint64_t since_us, used_us;
    double rate; /* recent work, in units of one worker's full time */
};
/* No effect if W is not a member. Ignored by other policies. */
void pool_new_homes(struct pool *p, struct worker *w, const struct pool_home *homes, size_t n,
                    uint64_t now_us);

/* ---- why ---- */

enum {
    /* Of an explanation. */
    EXPLAIN_CANDIDATES_MAX = 32,
    EXPLAIN_VALUES_MAX = 12,
    EXPLAIN_STEPS_MAX = 12,
};

struct explain_candidate {
    struct worker *worker; /* counted reference */
    double criterion; /* the value that the policy compares (docs/guide/policies.md); 0: none */
    uint64_t backlog; /* including requests of others */
    double work_s;    /* expected duration of the work in flight; 0: unknown */
    const char *why;  /* reason why it was not picked; NULL: it was not passed over */
};

/* Which worker would get a request, and how the policy decides. */
struct pool_explain {
    const char *policy;
    struct worker *worker; /* counted reference; NULL: there are no workers, or all are excluded */
    enum pick_reason reason; /* valid if WORKER is not NULL */
    size_t workers;          /* eligible */
    /* The first workers considered and the chosen one; CONSIDERED is the total number. */
    struct explain_candidate candidates[EXPLAIN_CANDIDATES_MAX];
    size_t ncandidates, considered;
    /* Cutoffs and the like; names are words with '_'. */
    struct {
        const char *name;
        double value;
    } values[EXPLAIN_VALUES_MAX];
    size_t nvalues;
    /* Number of candidates before and after each step. */
    struct {
        const char *name;
        size_t before, after;
    } steps[EXPLAIN_STEPS_MAX];
    size_t nsteps;
};

/* Determines what pool_get would do with R at NOW_US, but for its waiter and list; no side effects.
 * Cost: as pool_get's; for some policies O(eligible workers). Pair with pool_explain_fini. */
void pool_explain(struct pool *p, const struct pool_request *r, uint64_t now_us,
                  struct pool_explain *out);
/* Determines what shadow_policy would do with R, given its own state. Returns false and an empty
 * OUT if shadow_policy is not set. */
bool pool_explain_shadow(struct pool *p, const struct pool_request *r, uint64_t now_us,
                         struct pool_explain *out);
void pool_explain_fini(struct pool_explain *e);

/* ---- workers brought in because of overload; by one thread ---- */

/*
 * Checks whether every eligible worker is overloaded, including requests of other load
 * balancers; slots to be activated are not considered.
 *   for_ms  how long every check has returned true, since the last check that returned false or
 *           pool_overload_forget
 * Cost: O(eligible workers) if true; else stops at the first worker that is not overloaded.
 */
bool pool_overloaded(struct pool *p, uint64_t now_ms, uint64_t *for_ms);
/* Resets the overload time. */
void pool_overload_forget(struct pool *p);

enum pool_activation {
    POOL_ACTIVATION_NONE,
    /* A dormant slot: it gets the next request that would go to an overloaded worker, which starts
     * its process. It is then ineligible until it leaves or pool_activate changes it. */
    POOL_ACTIVATION_WAKE,
    /* A new process: it gets such requests while it is not overloaded itself, until it has a resume
     * with skills. No effect if it has already sent one. */
    POOL_ACTIVATION_RELIEVE,
    /* Private: a slot to be woken has received its request, so it is ineligible. */
    POOL_ACTIVATION_WOKEN_,
};
/* Activates W; this ends when it leaves. No effect if W is not a member. */
void pool_activate(struct pool *p, struct worker *w, enum pool_activation how,
                   struct list *released);
/* Returns true if W was to be woken and has received its request. */
bool pool_woke(struct pool *p, const struct worker *w);

/* ---- for status pages and tests ---- */

struct worker_view {
    const char *name, *instance;   /* of WORKER */
    char version[VERSION_MAX + 1]; /* truncated; "" of one that has left */
    bool active;                   /* eligible */
    bool available;
    uint64_t backlog;
    double mean_backlog;
    uint64_t oldest_us;    /* monotonic start of the oldest request not RESPONDED; 0: none */
    size_t nskills;        /* number of classes it has a score for */
    struct resume skills;  /* with assigned scores; filled only when asked for */
    struct worker *worker; /* counted reference */
    uint64_t report;       /* for pool_view_others */
};

/* Since the pool was created; each attempt of a request is counted. */
struct pool_shadow_counts {
    uint64_t requests; /* decided by both policies */
    uint64_t differed; /* ... to different workers */
    /* ... to workers that had served the class within 256 requests, under that policy. */
    uint64_t live_skilled, shadow_skilled;
    /* Total waiting time of the completed requests, at workers that serve in order. */
    uint64_t live_wait_us, shadow_wait_us;
    uint64_t overdue; /* ended for the shadow because it had too many requests in flight */
};

/* Adds C, under the names of docs/guide/policies.md, to the object that is open. */
void pool_shadow_put_json(const struct pool_shadow_counts *c, struct json_writer *w);

struct pool_view {
    /* Members in the order they joined, then those that left with requests in flight. */
    struct worker_view *workers;
    size_t n, nactive; /* members; those eligible */
    size_t ndetached;  /* behind the members: workers[n] .. workers[n + ndetached - 1] */
    struct pool_settings settings;
    uint64_t backlog;
    double mean_backlog; /* per pool; classless: backlog / workers */
    double max_backlog;  /* the cutoff's L: max(variance * mean per worker, 1) */
    size_t classes, waiting;
    char *active_version; /* or NULL */
    uint64_t picks[PICK_REASONS];
    struct pool_shadow_counts shadow;
};

enum {
    POOL_LOOK_WORKERS = 32, /* workers scanned per acquisition of the lock */
    POOL_LOOK_SKILLS = 64,  /* scores copied per acquisition of the lock */
};
/*
 * A copy. SKILLS: include each worker's resume (bounded by max_classes; large). Copied in pieces,
 * so that the lock is never held for longer than one piece takes. Each piece is consistent, but the
 * pieces are of different times:
 *   - the pool's own metrics are read first; the workers' metrics are read later and need not add
 *     up to them;
 *   - each worker is listed at most once, with its state when it was scanned. A worker that was a
 *     member throughout is listed; one that joins, leaves or changes its version during the scan
 *     may be missing;
 *   - the skills of one worker are consistent, but read later than its other metrics.
 * Scans of the same pool are serialized.
 */
void pool_scan(struct pool *p, bool skills, struct pool_view *out);
void pool_view_fini(struct pool_view *v);
/* Requests in flight from other load balancers at W of V, as far as they count at NOW_MS. */
uint64_t pool_view_others(const struct pool_view *v, const struct worker_view *w, uint64_t now_ms);
/* Workers skilled at one class: up to POOL_CLASS_ROWS_MAX, in order of assignment. */
enum { POOL_CLASS_ROWS_MAX = 128, POOL_CLASS_NAME_MAX = 127 };
struct pool_class_view {
    size_t total; /* eligible workers with a score for the class */
    bool lives;   /* the policy assigns homes to classes (adaptive) */
    size_t homes; /* number of homes */
    size_t n;
    struct {
        char name[POOL_CLASS_NAME_MAX + 1]; /* of the worker, truncated */
        double score;
    } rows[POOL_CLASS_ROWS_MAX];
};
/* Empty if no worker is skilled at CLS. Cost: O(POOL_CLASS_ROWS_MAX) under the lock. */
void pool_class_view(struct pool *p, struct slice cls, struct pool_class_view *out);
/* The version that gets requests if single_version is set; else "". */
void pool_active_version(struct pool *p, char *out, size_t room);
