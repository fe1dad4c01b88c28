/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of the server, shared by its files: server.c (thread, rounds, time, accepting
 * connections), client.c (input, output, execution of lines, closing), figures.c. Used only by the
 * server's thread, except for server_call.
 *
 *     epoll -> accept_one                 client_ready -> lines -> locks -> responses
 *                                                                    | woken
 *                                         server_deliver  <----------+      (to other clients)
 */
#pragma once

#include "common/base/map.h"
#include "common/counters/pool_counter_line.h"
#include "common/event/loop.h"
#include "common/net/address_counts.h"
#include "common/stats/topk.h"
#include "poolcounter/server.h"

#include <pthread.h>
#include <sys/epoll.h>

enum {
    /* Maximum number of locks of one client, as in the original. */
    CLIENT_LOCKS_MAX = 4,
    /* Bytes read from one client in a turn; the other clients wait while its lines are executed. */
    READ_BYTES = 16 * 1024,
    /* Unprocessed input while a client must first receive responses, and a partial line before it.
     */
    REST_BYTES_MAX = READ_BYTES + POOL_COUNTER_LINE_MAX,
    /* Responses collected before they are sent. While the client does not receive them no further
     * lines are executed, so at most this, one response (STATS FULL is the longest, below 2 KiB)
     * and one wake-up are pending for a client. */
    RESPONSES_PAUSE_BYTES = 16 * 1024,
    RESPONSES_BYTES_MAX = RESPONSES_PAUSE_BYTES + 4096,
    EVENTS_MAX = 256,
    /* Maximum number of connections accepted at one listener in a turn. */
    ACCEPTS_MAX = 64,
    /* Maximum number of waiters notified by one release, and in one turn; the rest are notified in
     * the next turns, so that other clients are served in between. */
    WAKES_MAX = 512,
    /* How long accepting pauses if out of file descriptors; less if a client disconnects. */
    ACCEPT_PAUSE_MS = 100,
};

enum watched_kind { WATCHED_CLIENT, WATCHED_LISTENER, WATCHED_ASK };

/* First member of each struct that epoll reports. */
struct server_watch {
    uint8_t kind; /* enum watched_kind */
};

struct server_listener {
    struct server_watch watched;
    /* All connections that were queued before the socket options were set, and therefore lack them,
     * have been accepted. */
    bool has_options;
    int fd;
};

/*
 * Figures by type of key, which is what stands before a key's first ':'. Bounded: the first MAX
 * types have an entry each, what comes later is counted together, as clients name the types. An
 * entry lives as long as the table.
 */
struct type_entry {
    struct map_node node;
    struct slice name; /* its own bytes; empty: the others, counted together */
    struct type_figures figures;
};

struct types {
    struct map map;
    size_t max;
    struct type_entry others;
};

struct server_client;

struct client_lock {
    struct counter_lease lock;
    struct server_client *client;
    struct type_entry *type;
};

/* Bytes that the socket has not accepted yet. */
struct responses {
    size_t len;
    /* Bytes queued in the kernel for the client when the wait began: if there are fewer later, the
     * client reads. epoll reports a writable socket only when much of its buffer is free. */
    int unread;
    char bytes[RESPONSES_BYTES_MAX];
};

/*
 * One client. It is in the server's `clients` or, after its socket was closed, in `closed` until
 * the end of the round, because epoll may still report it. An idle client has no buffers.
 */
struct server_client {
    struct server_watch watched;
    uint8_t nlocks;
    bool skipping; /* discarding the rest of a line that is too long */
    int fd;        /* -1: closed */
    uint32_t rest_bytes;
    struct server *server;
    struct list node;
    struct timer wait;     /* of the newest lock while it waits */
    struct timer patience; /* time-out for reading responses, or for being idle */
    char *rest; /* unprocessed input: a partial line, or lines that wait for `responses` */
    struct responses *responses;
    struct address_count *source; /* NULL: not counted */
    uint64_t active_ms;           /* when it last sent data; for idle_timeout */
    uint64_t wait_since_us;
    char *wait_key; /* the key it waits for, for the metrics by key; or NULL */
    size_t wait_key_bytes;
    struct client_lock *more; /* the second and later locks; NULL if there never was a second one */
    struct client_lock first;
};

struct server {
    const struct poolcounter_config *config;
    struct stats *stats;
    struct stats_cell *cell;
    struct loop *loop;            /* of DRAINED */
    struct loop_message *drained; /* NULL once it is posted */

    int epoll;
    struct server_listener listeners[LISTENERS_MAX];
    size_t nlisteners;
    bool accepting; /* the listeners are registered with epoll */
    struct timer accept_again;
    struct list clients, closed;
    size_t nclients;
    struct address_counts *sources;

    struct counter_table *table;
    struct types types;
    struct topk *top;  /* keys by their total waiting time */
    struct list woken; /* woken locks; their clients are not yet notified */

    /* Monotonic time without PAUSED_US, the pauses of the process; read once a round. */
    uint64_t now_us, paused_us;
    uint64_t started_us;
    struct timer_wheel wheel;

    char *input;           /* REST_BYTES_MAX + READ_BYTES, for the current client */
    struct text responses; /* to the current client */

    bool handed_over, stop;

    /* ---- server_call ---- */
    struct server_watch ask_watched;
    int ask_fds[2]; /* a pipe of struct ask * */
    pthread_t thread;
    bool running; /* accessed only by the thread that uses server_call */
};

/* ---- server.c ---- */
void server_timer_start(struct server *s, struct timer *t, uint64_t delay_ms);
static inline uint64_t server_now_ms(const struct server *s)
{
    return s->now_us / 1000;
}
/* Notifies woken clients, at most WAKES_MAX. */
void server_deliver(struct server *s);

/* Call when capacity may be available again: a client has disconnected, limits have changed, or a
 * pause has ended. */
void listeners_resume(struct server *s);

/* ---- figures.c ---- */
void types_fini(struct types *t);
/* Returns the entry of NAME, creating it if there is room; otherwise that of the other types. */
struct type_entry *types_get(struct types *t, struct slice name);

/* What STATS shows. */
struct stats_figures {
    struct counter_stats counters;
    uint64_t uptime_us;
    uint64_t stats[POOLCOUNTER_STATS]; /* by enum poolcounter_stat */
};
/*
 * Appends the response to "STATS WHAT", with its last newline, to OUT, in the original's names,
 * order and format of times. SLOTS states that an acquire may have a fifth word. extra  our own
 * counters are known as well; FULL has them after the original's Returns false, and does not change
 * OUT, if WHAT is unknown (ERROR WRONG_STAT).
 */
bool stats_text(const struct stats_figures *f, struct slice what, bool extra, struct text *out);

/* ---- client.c ---- */
/* Takes ownership of FD. Returns NULL and closes FD if out of memory or if epoll cannot add it. */
struct server_client *client_create(struct server *s, int fd, struct address_count *source);
void client_ready(struct server_client *c, uint32_t events);
/* Starts the time-out of an idle client, if there is one; not while responses wait. */
void client_watch_idling(struct server_client *c);
/* Notifies the client of a woken lock. May close the client. */
void client_wake(struct client_lock *cl);
/* Its locks pass to the next clients, without reporting the work as done. C is freed at the end of
 * the round.
 */
void client_close(struct server_client *c);
