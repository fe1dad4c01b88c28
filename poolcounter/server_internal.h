/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's inside, shared by its files: server.c (thread, rounds, time), listeners.c (who may
 * come in), client.c (bytes in and out, ends), commands.c (what the lines do). The server's thread
 * only, but for what stands under `mutex`.
 *
 *     epoll -> listeners_accept           client_readable -> lines -> commands_run -> answers
 *                                                              | woken
 *                                         server_deliver  <----+      (to other clients)
 */
#ifndef RLB_POOLCOUNTER_SERVER_INTERNAL_H
#define RLB_POOLCOUNTER_SERVER_INTERNAL_H

#include "common/event/timer_wheel.h"
#include "common/limiter/counter_line.h"
#include "common/stats/topk.h"
#include "poolcounter/server.h"
#include "poolcounter/sources.h"

#include <pthread.h>
#include <sys/epoll.h>

enum {
    /* Locks of one client, as in the original. */
    CLIENT_LOCKS_MAX = 4,
    /* What is read of one client in a turn; the others wait for as long as its lines take. */
    READ_BYTES = 16 * 1024,
    /* What is left of that when a client must take answers first, and a line before it. */
    REST_BYTES_MAX = READ_BYTES + COUNTER_LINE_MAX,
    /* Answers gathered before they are sent; while they are not taken no more lines are run, so
     * that a client has at most this, one answer (STATS FULL is the longest, below 2 KiB) and one
     * wake-up to come. */
    ANSWERS_PAUSE_BYTES = 16 * 1024,
    ANSWERS_BYTES_MAX = ANSWERS_PAUSE_BYTES + 4096,
    EVENTS_MAX = 256,
    /* Connections accepted at one listener in a turn. */
    ACCEPTS_MAX = 64,
    /* Waiters told by one release, and in one turn; the rest is told in the next turns, so that
     * other clients are served in between. */
    WAKES_MAX = 512,
    /* How long accepting pauses when there is no descriptor; less when a client leaves. */
    ACCEPT_PAUSE_MS = 100,
};

enum watched_kind { WATCHED_CLIENT, WATCHED_LISTENER, WATCHED_ASK };

/* First member of whatever epoll tells about. */
struct watched {
    uint8_t kind; /* enum watched_kind */
};

struct listener {
    struct watched watched;
    bool accepting; /* epoll watches it */
    /* Who waited in its queue before it had options, and so has none of them, has been accepted. */
    bool has_options;
    int fd;
};

struct client;

struct client_lock {
    struct counter_lock lock;
    struct client *client;
    struct type_entry *type;
};

/* Bytes that the socket has not taken. */
struct answers {
    size_t len;
    /* Bytes that the kernel had for the client when we began to wait: fewer later, and it reads.
     * That the socket takes more is told only when much of its buffer is free. */
    int unread;
    char bytes[ANSWERS_BYTES_MAX];
};

/*
 * One client. In the server's `clients`, or, once its socket is closed, in `closed` until the end
 * of the round, as epoll may still tell about it. Small while it is idle: no buffers.
 */
struct client {
    struct watched watched;
    uint8_t nlocks;
    bool skipping; /* in a line that is too long */
    int fd;        /* -1: closed */
    uint32_t rest_bytes;
    struct server *server;
    struct list node;
    struct timer wait;     /* of the newest lock, while it waits */
    struct timer patience; /* with its reading, or with its idling */
    char *rest;            /* lines not yet run: the start of one, or what waits for `answers` */
    struct answers *answers;
    struct source_entry *source;
    uint64_t active_ms; /* when it sent something last; for idle_timeout */
    uint64_t wait_since_us;
    char *wait_key; /* what it waits for, for the figures by key; or NULL */
    size_t wait_key_bytes;
    struct client_lock *more; /* the second lock and those after it, when there ever was one */
    struct client_lock first;
};

struct server {
    const struct configuration *config;
    struct stats *stats;
    struct stats_cell *cell;
    void (*drained)(void *context);
    void *context;

    int epoll;
    struct listener listeners[LISTENERS_MAX];
    size_t nlisteners;
    bool accepting;
    struct timer accept_again;
    struct list clients, closed;
    size_t nclients;
    struct sources sources;

    struct counter_table *table;
    struct types types;
    struct topk *top;  /* keys by what was waited for them */
    struct list woken; /* locks whose clients are not yet told */

    uint64_t now_us; /* read once a round */
    uint64_t started_us;
    struct timer_wheel wheel;

    char *input;         /* REST_BYTES_MAX + READ_BYTES, for the client whose turn it is */
    struct text replies; /* to it */

    bool handed_over, is_drained;

    /* ---- server_ask ---- */
    struct watched ask_watched;
    int ask_fd;
    pthread_t thread;
    bool running; /* the asking thread's */
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    void (*ask)(struct server *s, void *context); /* under mutex */
    void *ask_context;                            /* under mutex */
    bool stop;                                    /* under mutex */
};

/* ---- server.c ---- */
void server_timer_start(struct server *s, struct timer *t, uint64_t delay_ms);
static inline uint64_t server_now_ms(const struct server *s)
{
    return s->now_us / 1000;
}
/* Tell at most MAX of those who have been woken. */
void server_deliver(struct server *s, size_t max);

/* ---- listeners.c ---- */
/* Takes over N sockets. */
void listeners_add(struct server *s, const int *fds, size_t n);
void listeners_accept(struct server *s, struct listener *l);
/* There may be room again: a client has left, limits have changed, a pause is over. */
void listeners_resume(struct server *s);
void listeners_pause(struct server *s);
void listeners_close(struct server *s);

/* ---- client.c ---- */
/* Takes over FD. NULL: out of memory, or epoll has no room; FD is closed then. */
struct client *client_create(struct server *s, int fd, struct source_entry *source);
void client_ready(struct client *c, uint32_t events);
/* Settings have changed. */
void client_configured(struct client *c);
/* To a client whose turn it is not. May close it. */
void client_send(struct client *c, struct slice bytes);
/* What it holds goes to the next, nobody is told that it was done. Freed at the end of the round.
 */
void client_close(struct client *c);
struct client_lock *client_newest(struct client *c);
struct client_lock *client_lock_at(struct client *c, size_t i);

/* ---- commands.c ---- */
/* Run one line of C; the answer, if there is one now, is appended to the server's replies. */
void commands_run(struct client *c, struct slice line);
void commands_too_long(struct client *c);
/* Tell the client of a lock that has been woken. May close it. */
void commands_wake(struct client_lock *cl);
/* Whether C's newest lock has been woken, and C is not yet told. */
bool commands_is_woken(struct client *c);
/* C has gone. */
void commands_leave(struct client *c);
/* The wait of C's newest lock is over. */
void commands_expire(struct timer *t);

#endif
