/* SPDX-License-Identifier: Apache-2.0
 *
 * The server: clients, their lines, the counters. Owned by the program. It owns its listening
 * sockets, its clients and the table of counters, all used only by its own thread, which waits in
 * epoll. Other threads use server_call. It borrows configuration and metrics, which must outlive
 * it.
 */
#pragma once

#include "common/event/loop.h"
#include "common/stats/stats.h"
#include "poolcounter/configuration.h"

/* The metrics of stats.def by name. */
enum poolcounter_stat {
#define STAT(name, kind, unit, doc) STAT_##name,
#include "poolcounter/stats.def"
    POOLCOUNTER_STATS
};

extern const struct stats_table poolcounter_stats_table;
/* Prefix of metric names. */
#define POOLCOUNTER_PREFIX "resumelb_poolcounter"

struct server;

struct sockets {
    int fds[LISTENERS_MAX];
    size_t n;
};

/*
 *   stats    of poolcounter_stats_table; cell 0 is written by the server's thread
 *   sockets  bound and listening; ownership passes to the server
 *   drained  posted to LOOP once, when the last client has disconnected after server_hand_over
 * Returns NULL if out of memory or descriptors; the caller retains ownership of the sockets then.
 */
struct server *server_create(const struct poolcounter_config *config, struct stats *stats,
                             const struct sockets *sockets, struct loop *loop,
                             struct loop_message *drained);
/* Starts the thread. Returns false and sets errno on failure. */
bool server_start(struct server *s) must_check;
/* Stops the thread; server_destroy closes the connections. Not for the server's own thread. */
void server_stop(struct server *s);
/* Must not be called while the thread runs. S may be NULL. */
void server_destroy(struct server *s);

/*
 * Runs FN on the server's thread between two rounds, and waits for its return. May be used by one
 * thread only. If the server's thread does not run, FN is called directly.
 */
void server_call(struct server *s, void (*fn)(struct server *s, void *context), void *context);

/* ---- for server_call ---- */

/* Makes CONFIG, a struct poolcounter_config, effective. */
void server_configure(struct server *s, void *config);
/* Stops accepting and closes the listening sockets; existing clients are served until they
 * disconnect. CONTEXT is not used. */
void server_hand_over(struct server *s, void *context);
/* Copies the listening sockets, which the server still owns, to OUT, a struct sockets. */
void server_sockets(struct server *s, void *out);

enum { SNAPSHOT_KEYS_MAX = 20 };

struct type_figures {
    uint64_t acquired, done, full, timeouts, no_room;
    uint64_t waited_us; /* of waits that ended in LOCKED or DONE */
    uint64_t worked_us; /* of holders that have ended */
    size_t held, waiting;
};

struct server_snapshot {
    struct counter_stats counters;
    uint64_t uptime_us;
    size_t clients, addresses;
    /* The lock held for the longest time; has_oldest is false if no lock is held. */
    bool has_oldest;
    uint64_t oldest_us;
    char oldest_key[1024];
    size_t oldest_key_bytes;
    char oldest_client[ADDR_TEXT_MAX];
    /* In the order of first use; the last row is the sum of the others. Owned by the snapshot. */
    struct type_row {
        struct slice name; /* the server's, as long as that exists */
        struct type_figures figures;
    } * types;
    size_t ntypes;
    /* The keys with the longest total waiting time, in descending order; see topk.h for the
     * numbers. */
    struct key_row {
        struct slice name; /* owned */
        uint64_t waited_us, over_us, waits;
    } keys[SNAPSHOT_KEYS_MAX];
    size_t nkeys;
};
/* Fills OUT, a struct server_snapshot, which is to be released with server_snapshot_fini. */
void server_snapshot(struct server *s, void *out);
void server_snapshot_fini(struct server_snapshot *snapshot);
