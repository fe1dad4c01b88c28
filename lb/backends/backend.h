/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend: an address at which a worker may be, because the configuration lists it, it is
 * registered in the tree, or both. It has the present instance (member.h), if there is one, adds it
 * to the pool and removes it. Owned by membership.c; control thread.
 *
 *   with a stream    the stream's first resume makes the instance; its state decides about the pool
 *   self-measured    the instance exists, and is in the pool, while the address is listed or
 *                    registered
 */
#pragma once

#include "common/base/map.h"
#include "common/skills/home_records.h"
#include "common/skills/resume.h"
#include "lb/backends/active_check.h"
#include "lb/backends/member.h"
#include "lb/config/configuration.h"

struct membership;

/* What knows of workers, besides the configuration. */
enum source_kind { SOURCE_TREE, SOURCE_CALL, SOURCE_NAME, SOURCES };

/* State of a backend, as used for selecting the backends in the pool (membership_reserve). */
enum worker_kind {
    WORKER_OTHER,        /* absent, stream lost, draining or unhealthy */
    WORKER_WARM,         /* in the pool, ready */
    WORKER_STARTING_OUT, /* not in the pool */
    WORKER_STARTING_IN,
    WORKER_DORMANT_OUT,
    WORKER_DORMANT_IN,
    WORKER_KINDS,
    WORKER_NO_PROCESS = WORKER_STARTING_OUT /* from here on: no process that is ready */
};

/*
 * The resume stream of a backend: opened, read line by line, opened again.
 *
 *   CONNECTING -> ASKED -> OPEN --- broken: at once again ---> CONNECTING
 *       |           |        '----- orderly end -------------> PAUSED
 *       '-----------'--- failed: gone ---> PAUSED --- after a while ---> CONNECTING
 */
struct resume_feed {
    struct http_fetch fetch;
    struct timer timer; /* the next attempt */
    uint64_t pause_ms;
    struct text line;  /* the received part of the present line */
    bool open;         /* a resume was received on the present stream */
    bool skipping;     /* the present line is over its limit: the rest of it is dropped */
    bool reconnecting; /* the stream broke: this is the one attempt at once */
    bool settled; /* the worker has responded at all, or was found to be absent: for start_wait */
    bool refused; /* the last attempt failed because the connection was refused */
    bool failing; /* already logged */
};

/*
 * The standby address of a listed, self-measured worker. When the worker's own address fails, the
 * worker moves to the standby address, with the same name and skills, as its next instance
 * (connections belong to address#instance). When its own address responds again, it moves back.
 *
 *   at its own address   refused, ejected or unhealthy: to the standby, at once
 *                        reset: its own address is tried; refused: to the standby
 *   at the standby       its own address is tried at eject_time, doubling up to eject_time_max, and
 *                        whenever the standby fails; it responds (and its active checks pass): back
 */
struct standby {
    struct addr addr; /* len 0: none */
    bool in_use;
    unsigned moves; /* of the worker, between both addresses */
    struct http1_client_connect *attempt;
    struct timer timer; /* the next attempt */
    uint64_t pause_ms;
    uint64_t back_ms;          /* when it last moved back; 0: never */
    struct active_check check; /* of its own address, while at the standby */
    struct loop_deferred leave;
};

struct backend {
    struct map_node in_known; /* membership's table, by name */
    struct application *app;
    char *name; /* canonical address */
    struct addr addr;
    const struct worker_config *literal; /* the configuration lists its address so, or NULL */
    struct source *named_by; /* the listed name that has it, or had it and holds it; or NULL */
    const struct worker_config *listed; /* its configuration, by either; NULL: the defaults */
    unsigned priority;                  /* of its service: the lowest one is used */
    int share; /* the part of max_connections that it gets, of MEMBER_SHARE_ALL */
    /* The number of its providers in each source (in the tree, spelt differently); properties of
     * the last one. */
    unsigned providers[SOURCES];
    char instance[INSTANCE_MAX + 1], version[VERSION_MAX + 1];
    /* The host name that is listed or registered and that stands for it; "": none. */
    char host[TLS_PEER_NAME_MAX + 1];
    /* A source had it and does not have it now; the list of these of source.c. */
    struct list missing;
    struct source *lost_by;
    bool vanished;            /* just now: what that means is not decided yet */
    bool held;                /* with many others: it stays until its removal is confirmed */
    uint64_t sign_ms;         /* held: the last sign of life */
    uint64_t failures_before; /* connections to it that had failed when it vanished */
    bool refuted; /* its stream ended with an end line, or its address refuses connections */

    struct list touched; /* membership's: to be checked for whether anything holds it */
    struct list in_kind; /* membership's: backends of the same kind */
    enum worker_kind kind;

    bool started, streams;       /* streams: it has a resume stream, else it is self-measured */
    struct tls_peer *peer;       /* TLS peer of its address, counted; NULL: no TLS */
    struct resume_feed feed;     /* with a stream */
    struct active_check check;   /* self-measured: an agent knows its processes better */
    struct standby standby;      /* self-measured */
    struct worker *worker;       /* the present instance, counted; NULL: absent */
    struct resume_line last;     /* the last report of its stream */
    unsigned failed_activations; /* activations without a start since it was last warm */
    uint64_t starting_ms; /* since when it reports "starting", over all instances; 0: it does not */
    bool silent;
    bool drained; /* drained by an operator: applies to any process at its address */
    struct loop_deferred deferred;
};

/* Whether any source has it now. */
static inline bool backend_registered(const struct backend *b)
{
    for (int i = 0; i < SOURCES; ++i) {
        if (b->providers[i] != 0)
            return true;
    }
    return false;
}

/* Removes it from the pool permanently; freed at the end of the turn. */
void backend_destroy(struct backend *b);
/*
 * Must be called after a change of the listed or registered workers. Starts a new backend; restarts
 * one with another source, TLS, standby or instance. Returns false if nothing holds B any more;
 * the caller must then destroy it.
 */
bool backend_update(struct backend *b);
/* Whether its stream, or a connection to it, is open. */
bool backend_alive(const struct backend *b);
/* Connections to it that failed so far; for self-measured ones. */
uint64_t backend_failures(const struct backend *b);
/* Whether it is ejected because connections failed: then none may follow that fails. */
bool backend_unreachable(const struct backend *b);
bool backend_in_pool(const struct backend *b);
/* Adds it to the pool with its last resume (of a stream). */
void backend_join(struct backend *b);
void backend_leave(struct backend *b);
/* ON: no process at the address of B receives new requests, until undrained or B is removed. */
void backend_drain(struct backend *b, bool on);
/* Deletes the score of B for CLS, or all (NULL), until its next resume. Returns how many. */
size_t backend_forget(struct backend *b, const struct slice *cls);
/* "ready", "dormant", "draining", "starting"; "drained"; "silent"; "unhealthy"; "reserve"; or
 * "absent". */
const char *backend_state(const struct backend *b);
/* The host of NAME, which is HOST or HOST:PORT, stands for B. */
void backend_set_host(struct backend *b, const char *name);

/* ---- resume_feed.c ---- */

void resume_feed_start(struct backend *b);
void resume_feed_stop(struct backend *b);

/* Its events, in backend.c, never called from inside those functions. Each may stop the feed. */

/* A valid line, borrowed. Never an end line. */
void backend_on_resume(struct backend *b, const struct resume_line *line);
/* The classes that have B as a home; borrowed. After a resume of the same stream. */
void backend_on_homes(struct backend *b, const struct home_line *line);
/* The stream fell silent or ended without its end line; one reconnect is in progress. */
void backend_on_broken(struct backend *b);
/*
 * The worker is absent: it refused the connection, did not open a stream, or ended the stream in an
 * orderly way (HOW; else RESUME_END_NONE). The feed retries until it is stopped.
 */
void backend_on_absent(struct backend *b, enum resume_end how);

/* ---- source.c ---- */

/* Array "sources": what knows B. */
void source_describe(const struct backend *b, struct json_writer *w);

/* ---- membership.c: what a backend needs of its owner ---- */

/* The one of that name, or NULL. MS may be NULL: it has ended. */
struct backend *membership_find(const struct membership *ms, const char *name);
/* B fails its checks from now on: logs it if all backends do with the same 4xx status. */
void membership_check_failed(const struct backend *b);
/* B's kind may have changed: instance, state, whether it is in the pool. */
void membership_sort(struct backend *b);
/*
 * Must be called when the state of a backend has changed. Selects which dormant or starting ones
 * join the pool, and which ones leave it (activation.c).
 */
void membership_reserve(struct membership *ms);
/* B has been drained or undrained: stores that for the next run. */
void membership_store_drained(struct backend *b);
/* The reason for which the drained workers are not saved, or NULL. */
const char *membership_drained_unsaved(const struct membership *ms);
/* Nothing holds B any more: destroys it. */
void membership_forget(struct membership *ms, struct backend *b);
