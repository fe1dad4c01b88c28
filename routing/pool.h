/* SPDX-License-Identifier: Apache-2.0
 *
 * The pool of one application: which worker gets a request. Plain computation: no I/O, no clock but
 * the one it is given, no threads. The server, the replay tool, the simulator and the tests drive
 * the same code. Owned by the application, which destroys it after every worker has left and every
 * request is put. Shared by all loops: every function here takes pool->lock, holds it briefly, and
 * calls nothing out while it does.
 */
#ifndef RLB_ROUTING_POOL_H
#define RLB_ROUTING_POOL_H

#include "common/base/err.h"
#include "common/base/limits.h"
#include "common/base/list.h"
#include "common/skills/resume.h"
#include "routing/homes/homes.h"
#include "routing/worker.h"

#include <stdatomic.h>

struct pool;

/* One row each in pool_policy.def: name and text. */
enum pool_policy {
#define POLICY(name, text, rule, doc) POOL_POLICY_##name,
#include "routing/pool_policy.def"
#undef POLICY
    POOL_POLICIES
};
const char *pool_policy_text(enum pool_policy policy);

struct pool_settings {
    enum pool_policy policy;
    bool single_version;
    double variance;          /* how far above the front's mean backlog a worker may stand */
    uint64_t backlog_history; /* requests over which backlogs are averaged; >= 1 */
    double max_share;       /* adaptive: part of the workers that one class may live at; 0: 7/16 */
    bool max_share_always;  /* ... even where there is hardly anything else */
    double unskilled_score; /* score that an unskilled worker is given for the class it got */
    size_t max_classes;     /* classes kept; a tenth of the room is for those on probation */
    size_t max_waiting;     /* requests parked, or on the way back; over it ERR_QUEUE_FULL */
    bool backlog_shared;    /* what others have in hand counts (worker_report) */
    uint64_t backlog_max_age_ms; /* ... for so long after it was reported; >= 1 */
    /* More requests in hand than this, for each that a worker serves at once, are too many
     * (pool_overloaded); 0: never. */
    uint64_t spawn_backlog;
    /* Policy hash: how many times the mean a worker may have in hand, in percent; 0: any. */
    uint64_t hash_balance_percent;
    /* A second policy decides beside it, and is obeyed by nobody (pool_shadow.c). */
    enum pool_policy shadow;
    bool shadowed;
    uint64_t seed; /* of what a policy draws at random, from when it begins; 0 is one as well */
};

/* Why a worker was picked. One row each in pick_reason.def: name (access log, metrics) and text. */
enum pick_reason {
#define REASON(name, text, doc) PICK_##name,
#include "routing/pick_reason.def"
#undef REASON
    PICK_REASONS
};
const char *pick_reason_text(enum pick_reason r);
/* A sentence on it. */
const char *pick_reason_doc(enum pick_reason r);

/*
 * A request that waits for any worker. Embedded in the exchange; owned by it. While parked it is in
 * the pool's queue; when its turn comes it is handed to the caller of whatever freed the turn
 * (RELEASED lists below), who wakes the exchange on its own loop. A woken exchange calls pool_get
 * again with the same waiter, or pool_wait_cancel. Either gives its turn back to the pool.
 */
struct pool_waiter {
    struct list node;
    void *context; /* the exchange, for whoever wakes it */
    enum { WAITER_IDLE, WAITER_PARKED, WAITER_RELEASED } state; /* written under the pool's lock */
    uint64_t ticket_; /* pool's: its place in the order; one that comes back for nothing keeps it */
};

struct pool_request {
    struct slice cls;  /* encoded class */
    uint64_t cls_hash; /* class_hash of it; 0: nobody has made it yet */
    /* Tried before, ejected for this request, over their queue: neither candidates nor the front of
     * the line; counts and means are unchanged. */
    struct worker *const *excluded; /* each alive; NULL is nobody */
    size_t nexcluded;               /* <= TRIED_MAX */
    bool retry;                     /* a try after the first: its reason is PICK_RETRY */
    /* Whether W counts as excluded, too; called under the pool's lock. NULL: no other does. */
    bool (*unfit)(void *context, const struct worker *w);
    void *unfit_context;
    /* Park here when there is no worker, or others wait already; or NULL: never wait. */
    struct pool_waiter *waiter;
    /* Gets waiters whose turn has come, as in pool_put. To be given together with a waiter, or a
     * turn may stay unused until the next pool_put. */
    struct list *released;
};

/* A policy's own note of a request in hand, zero until it writes it; see pool_internal.h. */
struct pool_hand {
    struct list node;
    void *entry;
    double work_s;
    uint64_t flags;
    struct homes_ticket homes;
};

struct pool_pick {
    struct worker *worker; /* counted reference; pool_put drops it */
    enum pick_reason reason;
    uint64_t started_us; /* as given to pool_get */
    uint64_t backlog;    /* the worker's, of ours, before this request; stays after pool_put */
    /* Why, in numbers (policy resume; else 0): skilled workers were passed over (SKIPPED of them)
     * whose mean backlog was more than MAX_BACKLOG above MIN_BACKLOG, or who refused a request a
     * moment ago; of those over it only by what others have in hand, the ones that would have been
     * picked. */
    double max_backlog, min_backlog;
    size_t skipped;
    /* What the worker is to be told of the class's homes (policy adaptive). */
    enum pool_told { POOL_TOLD_NOTHING, POOL_TOLD_HOME, POOL_TOLD_PASSING } told;
    enum home_kind home;            /* HOME: and how it became one; not HOME_USED */
    struct worker *home_from;       /* HOME_MOVE; counted reference, pool_put drops it; else NULL */
    struct list node_;              /* pool's: the worker's requests in hand, oldest first */
    atomic_bool answered;           /* its user's, at any time: the head of the response is here */
    struct pool_hand hand_;         /* pool's: its policy's */
    bool counted_;                  /* pool's: its policy knows of it */
    struct shadow_request *shadow_; /* pool's: the shadow's side of it; owned; or NULL */
};

/* How a request ended, for policies that learn from it. */
struct pool_served {
    uint64_t now_us;     /* monotonic */
    uint64_t service_us; /* from the request written to the last byte taken; 0: none was measured */
    /* An error, a reset, a 5xx; or, with service_us 0, no measure: given up, never sent, upgraded.
     */
    bool failed;
};

/* FINGERPRINT: of the application's classifier, FINGERPRINT_LEN hex digits or "". */
struct pool *pool_create(const struct pool_settings *s, const char *fingerprint);
/* Asserts that no worker is a member and nobody waits. NULL is fine. */
void pool_destroy(struct pool *p);
/* In force from the next call on; means, skills and assigned scores stay. */
void pool_set(struct pool *p, const struct pool_settings *s);

/*
 * A worker's first resume brings it in (front of the line); a later one replaces all that was known
 * of its skills, place and backlog kept. Takes its own reference.
 *   version      what the worker runs; matters under single_version; NULL is ""
 *   fingerprint  of the classifier that produced R; skills of another than the pool's do not count
 *   released     gets waiters whose turn has come; the caller wakes them. Here and below it may be
 *                NULL: turns are owed then, and given by the next call that has a list
 */
void pool_new_resume(struct pool *p, struct worker *w, const struct resume *r, const char *version,
                     const char *fingerprint, struct list *released) rare;
/*
 * The worker leaves; its requests in hand are still put. Harmless when it is no member. One that
 * comes back (pool_new_resume) before they all are keeps its backlog and mean.
 */
void pool_remove(struct pool *p, struct worker *w, struct list *released);
/*
 * W is no longer known to be good at CLS, or at anything (NULL); what it is given next is learnt
 * anew. Returns how many scores went; 0 of one that is no member.
 */
size_t pool_forget(struct pool *p, struct worker *w, const struct slice *cls);
/*
 * Drained or ejected workers (available = false) leave the line as workers of an inactive version
 * do, keeping backlog, means and resume, and come back to its front. May precede the first resume.
 */
void pool_set_available(struct pool *p, struct worker *w, bool available, struct list *released);

/*
 * FROM is about to leave for good, and gets no more requests (it is not available), or TO, another
 * member, is the same worker in another life. What FROM has in hand it still ends. Policy adaptive
 * finds its classes other homes at once, all of them at TO when that is not NULL; the others have
 * nothing to hand over. Nothing when FROM is no member, or TO is none.
 */
void pool_hand_over(struct pool *p, struct worker *from, struct worker *to);

/*
 * Pick a worker for one request and count the request on it. Pair with pool_put().
 *   now_us  monotonic microseconds; may be somewhat behind what another thread has given
 *   out     filled on ERR_OK; must stay in place until pool_put
 * Errors: ERR_BUSY       parked: the waiter is in the queue now
 *         ERR_NO_WORKER  whoever is there is excluded, or nobody is there and no waiter was given
 *         ERR_QUEUE_FULL max_waiting reached
 * Source: zc.resumelb lb.py Pool.get (tests/oracle/README.md, section 2). Ours: what other load
 * balancers have in hand at a worker counts as its backlog, but enters no mean; other policies.
 * Cost: O(workers skilled in cls); no allocation but for a class or a skill that is new.
 */
enum err pool_get(struct pool *p, const struct pool_request *r, uint64_t now_us,
                  struct pool_pick *out) must_check;
/*
 * The request is finished or given up: counts and means updated, the pick's reference dropped.
 *   how  NULL: it was given up, at the time last seen
 */
void pool_put(struct pool *p, struct pool_pick *pick, const struct pool_served *how,
              struct list *released);
/* The same, but the reference to the worker, which it returns, is the caller's from now on. */
struct worker *pool_put_kept(struct pool *p, struct pool_pick *pick, const struct pool_served *how,
                             struct list *released) must_check;
/*
 * Leave the queue, or give back a turn that came. Harmless when idle.
 * False when the waiter had been released: unless its wake-up has arrived already, whoever was
 * given it in a RELEASED list is still about to deliver that, so its memory must stay until then.
 */
bool pool_wait_cancel(struct pool *p, struct pool_waiter *w, struct list *released);

/* ---- several load balancers before the same workers ---- */

/*
 * IDS: of all load balancers that send requests to the same workers, which publish what they are
 * told; SELF is this one's place. One or none: it decides alone. See homes_set_balancers; other
 * policies take no notice.
 */
void pool_set_balancers(struct pool *p, const uint64_t ids[], size_t n, size_t self);

/* What a worker has published of a class that lives there. */
struct pool_home {
    struct slice cls;
    enum home_kind kind;
    struct worker *from;    /* of HOME_MOVE; borrowed; NULL: it is not known here, or not yet */
    struct slice from_name; /* of HOME_MOVE: the worker_name of that */
    uint64_t since_us, used_us;
    double rate; /* recent work, in workers' worth */
};
/* Nothing when W is no member. Other policies take no notice. */
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
    double score;          /* what the policy compares, most often the higher the better; 0: none */
    uint64_t backlog;      /* with what others have in hand */
    double work_s;         /* what it has in hand, as the policy expects it to last; 0: no idea */
    const char *why;       /* it was passed over; NULL: it was not */
};

/* Who would get a request, and how the policy comes to it. */
struct pool_explain {
    const char *policy;
    struct worker *worker;   /* counted reference; NULL: nobody is there, or all are excluded */
    enum pick_reason reason; /* when there is one */
    size_t workers;          /* in the line */
    /* The first that were considered, and the one that was chosen; and how many there were. */
    struct explain_candidate candidates[EXPLAIN_CANDIDATES_MAX];
    size_t ncandidates, considered;
    /* Cutoffs and the like; names are words with '_'. */
    struct {
        const char *name;
        double value;
    } values[EXPLAIN_VALUES_MAX];
    size_t nvalues;
    /* How many were left before and after each step. */
    struct {
        const char *name;
        size_t before, after;
    } steps[EXPLAIN_STEPS_MAX];
    size_t nsteps;
};

/*
 * What pool_get would do with R (its waiter and list are not looked at) at NOW_US, if nothing
 * happened before it: no effect. Others' questions may follow: it is no promise.
 * Cost: as pool_get's, and for some policies O(workers in the line). To be ended with _fini.
 */
void pool_explain(struct pool *p, const struct pool_request *r, uint64_t now_us,
                  struct pool_explain *out);
/* What shadow_policy would do with R, in its own world. False: there is none, and OUT is empty. */
bool pool_explain_shadow(struct pool *p, const struct pool_request *r, uint64_t now_us,
                         struct pool_explain *out);
void pool_explain_fini(struct pool_explain *e);

/* ---- workers brought in because of overload; by one thread ---- */

/*
 * One look at whether each worker in the line has too much in hand, with what others have in hand,
 * those that are to be woken left out.
 *   for_ms  for how long each look has found so, since the last one that did not, or was forgotten
 * Cost: O(workers in the line) when it is so; else up to the first that has not.
 */
bool pool_overloaded(struct pool *p, uint64_t now_ms, uint64_t *for_ms);
/* The time starts anew. */
void pool_overload_forget(struct pool *p);

enum pool_call {
    POOL_CALL_NONE,
    /* It has no process yet: it gets the next request that would go to an overloaded worker, which
     * has it started; then it stands aside, until it leaves or is called otherwise. */
    POOL_CALL_WAKE,
    /* Its process is new: it gets such requests as long as it has not too many itself, until it
     * has a resume with skills. No call when it has one already. */
    POOL_CALL_RELIEVE,
};
/* W is called in; that ends when it leaves. Nothing when it is no member. */
void pool_call(struct pool *p, struct worker *w, enum pool_call how, struct list *released);
/* Whether W was to be woken and has got its request. */
bool pool_woke(struct pool *p, const struct worker *w);

/* ---- for status pages and tests ---- */

struct worker_view {
    char *name, *incarnation, *version;
    bool active; /* in the line */
    bool available;
    uint64_t backlog;
    double mean_backlog;
    double weighted_sum, weight; /* what the mean is made of */
    uint64_t oldest_us;    /* monotonic start of the oldest one in hand not ANSWERED; 0 = none */
    size_t nskills;        /* how many classes it has a score for */
    struct resume skills;  /* with assigned scores; filled only when asked for */
    struct worker *worker; /* counted reference */
    uint64_t report;       /* for pool_view_others */
};

/* Since the pool was made; each try of a request is one. */
struct pool_shadow_counts {
    uint64_t requests; /* decided by both */
    uint64_t differed; /* ... not alike */
    /* ... and given to a worker that had one of the class among its last 256, by that policy. */
    uint64_t live_skilled, shadow_skilled;
    /* Of those that have ended: how long they waited for a worker that serves in order. */
    uint64_t live_wait_us, shadow_wait_us;
    uint64_t overdue; /* ended for the shadow as it had too many in hand */
};

struct pool_view {
    /* The line, front to end; then the inactive ones; then those that have left with requests in
     * hand. */
    struct worker_view *workers;
    size_t n, nactive; /* members; those in the line */
    size_t ndetached;  /* behind the members: workers[n] .. workers[n + ndetached - 1] */
    struct pool_settings settings;
    uint64_t backlog;
    double mean_backlog;         /* per pool; classless: backlog / workers */
    double weighted_sum, weight; /* what the mean is made of */
    double pool_decay;           /* 0 before the first worker */
    double worker_decay;
    double max_backlog; /* the cutoff's L: max(variance * mean per worker, 1) */
    size_t classes, waiting;
    char *active_version; /* or NULL */
    uint64_t picks[PICK_REASONS];
    struct pool_shadow_counts shadow;
};

/*
 * A consistent copy. SKILLS: with each worker's resume (bounded by max_classes; large). The lock is
 * held throughout: for tests, and for who is alone with P.
 */
void pool_view(struct pool *p, bool skills, struct pool_view *out);
enum {
    POOL_LOOK_WORKERS = 32, /* workers looked at with the lock held once */
    POOL_LOOK_SKILLS = 64,  /* scores copied with the lock held once */
};
/*
 * The same while requests go on: a piece at a time, so that nobody waits for the lock longer than a
 * piece takes. Workers are in the order they joined (active and inactive ones), then those that
 * have left. Each piece is what was true at one moment, the pieces are of different ones:
 *   - the pool's own figures are those of the first moment; those of the workers, which come later,
 *     need not add up to them;
 *   - each worker is there once at most, and as it was when it was looked at. One that was there
 *     all the time is there; one that comes, goes or changes its version meanwhile may be missing;
 *   - the skills of one worker, when asked for, are of one moment, later than its other figures.
 * Looks at the same pool are made one after the other. A version beyond VERSION_MAX bytes is cut.
 */
void pool_look(struct pool *p, bool skills, struct pool_view *out);
void pool_view_fini(struct pool_view *v);
/* What other load balancers have in hand at W of V, as far as it counts at NOW_MS. */
uint64_t pool_view_others(const struct pool_view *v, const struct worker_view *w, uint64_t now_ms);
/* Who is good at one class: the best POOL_CLASS_ROWS_MAX in the order they were given. */
enum { POOL_CLASS_ROWS_MAX = 128, POOL_CLASS_NAME_MAX = 127 };
struct pool_class_view {
    size_t total; /* workers of the line with a score for it */
    bool lives;   /* the policy keeps classes at homes (adaptive) */
    size_t homes; /* how many it has */
    size_t n;
    struct {
        char name[POOL_CLASS_NAME_MAX + 1]; /* of the worker, cut to that */
        double score;
    } rows[POOL_CLASS_ROWS_MAX];
};
/* A copy; empty when nobody is. Cost: O(POOL_CLASS_ROWS_MAX) under the lock. */
void pool_class_view(struct pool *p, struct slice cls, struct pool_class_view *out);
/* The version that gets requests, where single_version is on; else "". */
void pool_active_version(struct pool *p, char *out, size_t room);
/* How many classes scores are kept for. */
size_t pool_class_count(struct pool *p);
/* Asserts every invariant (counts, lists, table); for tests, after each step. */
void pool_check(struct pool *p);

#endif
