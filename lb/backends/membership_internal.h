/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of membership: the table of backends (membership.c); the sources that write into it,
 * with the rules that they have in common (source.c); the list of the configuration with its host
 * names (names.c); the providers of the tree (discovery.c); workers that are registered by calls
 * (call_source.c); which of the backends without a process are in the pool (activation.c); and
 * which ones are drained (drained_names.c). Control thread.
 */
#pragma once

#include "common/base/map.h"
#include "common/dns/resolver.h"
#include "lb/backends/backend.h"
#include "lb/backends/membership.h"
#include "lb/config/configuration.h"
#include "lb/core/lb.h"
#include "routing/pool.h"

/* A host name, resolved at once, and again when its answer expires. Embedded in its owner. */
struct host_name {
    struct application *app;
    char *text;    /* NAME:PORT, or a service */
    bool answered; /* once, if only by an error */
    /* There is an answer, which may have failed, be empty, or be the same as before. Never called
     * from inside host_name_start. */
    void (*answer)(void *context, const struct resolve_answer *a);
    void *context;
    struct resolve_request request; /* service and family are the owner's */
    struct timer again;
    uint64_t pause_ms;    /* after failed answers */
    const char *problem;  /* of the last answer; NULL: it is complete */
    uint64_t failures;    /* answers with a problem */
    uint64_t answered_ms; /* the last answer that did not fail; 0: none */
    uint32_t ttl_s;       /* of it */
    size_t naddrs;        /* in it */
    bool truncated;       /* had too many */
};

struct listed_name;

/* The list of the configuration. */
struct listed_workers {
    struct worker_config *items; /* owned */
    struct listed_name **names;  /* per item; NULL: it is an address */
    size_t n;
};

/* What one source reports of one worker. */
struct provider {
    struct source *source;
    char *name;
    json_t *properties;     /* as reported last; counted */
    struct backend *worker; /* the backend that it registers; NULL: none */
    struct host_name *host; /* its name is one; with its last NADDRS addresses */
    struct addr *addrs;
    size_t naddrs;
    const char *why; /* the reason why it is rejected; NULL: it is not */
};

/* Reports, each time as a whole, at which addresses workers are. */
struct source {
    struct list node; /* membership's sources */
    struct membership *membership;
    enum source_kind kind;
    const struct worker_config *config; /* of its workers; SOURCE_TREE: NULL */
    struct provider **items;            /* by name */
    size_t n;
    size_t nhosts, nrejected;
    size_t nregistered; /* backends with a provider of this source */
    size_t before;      /* registered before this reading */
    /* backend->missing: it had them just now; what that means is not decided yet. */
    struct list vanished;
    size_t window_base; /* registered when the present window began */
    size_t held_base;   /* registered before most of them vanished, and were held */
    struct timer window;
};

/* The providers of the tree; used if there is a tree. */
struct tree_source {
    struct source source;
    struct tree_watch *watch;
    char *problem; /* of the last reading; NULL: none */
    bool received; /* from the tree */
    bool restored; /* from the snapshot of a previous run */
    struct timer store, wait;
    uint64_t stored_ms;
};

struct call_source;

/* Backends that a source had, with many others, and has no longer. */
struct held_workers {
    struct list list; /* backend->missing: until their removal is confirmed */
    struct timer check;
};

/* The property of a registration that identifies a process, and its length with NUL. */
#define BALANCER_INSTANCE "instance"
enum { BALANCER_INSTANCE_ROOM = 33 };

/*
 * The load balancers that are registered for the application in the tree, this one included. The
 * pool computes the homes of classes from this set (pool_set_balancers).
 */
struct balancers {
    struct tree_watch *watch;
    uint64_t own;
    uint64_t ids[HOMES_BALANCERS_MAX + 1]; /* in order */
    size_t n;
};

/* activation.c's. */
struct activation {
    struct timer check;
    struct backend *active; /* activated because of overload; dormant or starting; NULL: none */
    uint64_t activated_ms;
    uint64_t woken_ms; /* when it was found to have got its request; 0: not */
    bool overloaded;   /* as of the last check */
};

struct membership {
    struct application *app;
    struct map known;                /* of struct backend, by name */
    struct list kinds[WORKER_KINDS]; /* each backend is in one of them */
    struct list touched;             /* those to be checked for whether anything holds them */
    struct list sources;             /* of struct source */
    struct listed_workers listed;
    struct drained_names *drained; /* by operators, in this run and before */
    char *path;                    /* the application's node in it: "" or "/a/b" */
    struct snapshot *snapshot;
    struct snapshot *names; /* the last answers, for the next run */
    struct tree_source providers;
    struct call_source *calls;
    struct held_workers held;
    struct activation activation;
    struct tree_registration **entries; /* own registration, if there is one */
    size_t nentries;
    char instance[BALANCER_INSTANCE_ROOM]; /* identifies this process in them */
    struct balancers balancers;
    struct timer each_second; /* files of worker_tls, and priorities */
    bool stopping;
};

/* The backend at ADDR, created if need be. Touch it, or nothing may ever hold it. */
struct backend *membership_at(struct membership *ms, const struct addr *addr);
/* Called when the references to B or its state may have changed; membership_update evaluates it. */
void membership_touch(struct backend *b);
/* After touching: starts new backends, destroys those that nothing holds any more. */
void membership_update(struct membership *ms);
/* How an operator confirms that held workers were removed; format of the application's name. */
#define CONFIRM_REMOVAL "resumelbctl confirm-removal --token-file FILE --application %s"

/* ---- source.c ---- */

/* S (zero) is one of MS until source_fini. */
void source_init(struct source *s, struct membership *ms, enum source_kind kind);
/* Its workers are removed, the held ones too, unless another source has them. */
void source_fini(struct source *s);
/*
 * A reading: FOUND has the properties of each provider by its name, in order (tree_set_sorted);
 * NULL: there are none. Compares it with the last one. Then membership_update.
 */
void source_report(struct source *s, json_t *found);
/* The reading of S that was reported is of all its workers at one time, as the response of a name
 * server is: if it has most of those again that it had before others were held, the others have
 * been removed. Then membership_update. */
void source_end_hold(struct source *s);
/* The same, but what is missing in it was removed on purpose: it is not held. */
void source_replace(struct source *s, json_t *found);
/* Why a provider would be rejected; NULL: it would not, or that depends on what NAME resolves to.
 */
const char *source_rejection(const struct source *s, const char *name, const json_t *properties);
/* The provider with exactly this name, or NULL. */
const struct provider *source_find(const struct source *s, const char *name);
/* The rules for addresses have changed. Then membership_update. */
void source_recheck(struct source *s);
/* Whether each name was resolved once, and what the last reading lacks is decided on. */
bool source_settled(const struct source *s);
/* The timer's function: whether held workers still respond. */
void held_check(struct timer *t);
/* B is registered again, or destroyed. Harmless when it is not missing. */
void membership_find_again(struct backend *b);

/* B's sources may have changed: sets its configuration. */
void source_configure(struct backend *b);
/* Array NAME: the names of the first rejected providers; WHY: as objects, with the reason. */
void source_describe_rejected(const struct source *s, struct json_writer *w, const char *name,
                              bool why);

/* ---- names.c ---- */

/* Starts H (zero but for service and family of its request). */
void host_name_start(struct host_name *h, struct application *a, const char *text,
                     void (*answer)(void *context, const struct resolve_answer *a), void *context);
void host_name_stop(struct host_name *h);
/* Exchanges the list with *WORKERS, which the caller has to free, and resolves its names. */
void listed_workers_swap(struct membership *ms, struct worker_config **workers, size_t *n);
/* The names' addresses, or the missing backends, have changed: stores them for the next run. */
void listed_workers_store(struct membership *ms);
/* Whether each name was resolved once, or its workers are those of the previous run. */
bool listed_workers_settled(const struct membership *ms);
/* Names with a last answer that failed or was empty. */
size_t listed_workers_failing(const struct membership *ms);
/* Member "names" of the application's status. */
void listed_workers_describe(const struct membership *ms, struct json_writer *w);
/* The name that S, of kind SOURCE_NAME, stands for. */
const char *source_name(struct source *s);

/* ---- discovery.c ---- */

/* Watches the workers of MS->path; WAIT_MS: how long the tree may take to respond. */
void providers_start(struct membership *ms, uint64_t wait_ms);
/* Stops watching, and drops all providers. */
void providers_stop(struct membership *ms);
/* The providers, or the missing backends, have changed: stores them for the next run. */
void providers_store(struct membership *ms);
/* Members of the tree's status. */
void providers_describe(const struct membership *ms, struct json_writer *w);
/* Whether the providers were received (or restored). */
bool providers_settled(const struct membership *ms);

/* ---- call_source.c ---- */

/* Reads the file in state_dir, if there is one. Then membership_update. */
struct call_source *call_source_open(struct membership *ms);
/* Writes what is not saved. */
void call_source_close(struct call_source *c);
/* The missing backends have changed: writes the file soon. */
void call_source_store(struct call_source *c);
/* Member "ends_in_s" of the status of B, which is one of C's. */
void call_source_describe_worker(const struct call_source *c, const struct backend *b,
                                 struct json_writer *w);
/* The number of registrations. */
size_t call_source_count(const struct call_source *c);
/* Member "calls" of the application's status. */
void call_source_describe(const struct call_source *c, struct json_writer *w);

/* ---- activation.c: which workers without a process are in the pool ---- */

/* The timer's function: checks for overload. */
void activation_check(struct timer *t);
/* No worker is the activated one any more: restarts the wait of spawn_after. */
void activation_end(struct membership *ms);

/* ---- drained_names.c: the addresses that an operator has drained, in a file in state_dir ---- */

/* Neither a restart nor an upgrade returns a worker to service during its maintenance. */
struct drained_names;

enum {
    /*
     * Far above the number of workers under maintenance at any one time. Names of workers that were
     * removed while the program did not run stay in the file; above this limit the oldest name is
     * dropped, which is logged. A file of this many names is within the limit for reading it.
     */
    DRAINED_NAMES_MAX = 4096,
};

/*
 * Reads the list of APPLICATION from the file. An invalid file is renamed, logged, and counts as
 * empty.
 *   state_dir  NULL: nothing is stored
 */
struct drained_names *drained_names_open(struct loop *l, const char *state_dir,
                                         const char *application);
void drained_names_close(struct drained_names *d);
bool drained_names_has(const struct drained_names *d, const char *name);
/* NAME is drained, or no longer. Written at once if that is a change, or if the last one is not
 * saved; until it is, it is written again. */
void drained_names_set(struct drained_names *d, const char *name, bool on);
/* The reason for which the list is not saved, or NULL. */
const char *drained_names_unsaved(const struct drained_names *d);
