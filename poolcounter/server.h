/* SPDX-License-Identifier: Apache-2.0
 *
 * The server: clients, their lines, the counters. Owned by the program; it owns its listening
 * sockets, its clients and the table of counters. All of that belongs to one thread of its own,
 * which waits in epoll; others talk to it by server_ask. It borrows configuration and figures,
 * which outlive it.
 */
#ifndef RLB_POOLCOUNTER_SERVER_H
#define RLB_POOLCOUNTER_SERVER_H

#include "common/net/addr.h"
#include "poolcounter/configuration.h"
#include "poolcounter/figures.h"
#include "poolcounter/types.h"

struct server;

struct server_options {
    const struct configuration *config;
    struct stats *stats; /* of poolcounter_stats_table; cell 0 is written by the server's thread */
    const int *fds;      /* bound and listening; the server's from now on */
    size_t nfds;
    /* After server_hand_over: the last client has gone. On the server's thread, once. */
    void (*drained)(void *context);
    void *context;
};

/* NULL: out of memory; the sockets are still the caller's then. */
struct server *server_create(const struct server_options *o);
/* Start the thread. False: errno says. */
bool server_start(struct server *s) must_check;
/* End the thread: clients are just closed. Any thread but its own. */
void server_stop(struct server *s);
/* Not while its thread runs. NULL is fine. */
void server_destroy(struct server *s);

/*
 * Run FN on the server's thread between two rounds, and wait until it has run. One at a time, from
 * one thread; while the server's thread does not run, at once.
 */
void server_ask(struct server *s, void (*fn)(struct server *s, void *context), void *context);

/* ---- on the server's thread, within server_ask ---- */

/* CONFIG is the one from now on. */
void server_configure(struct server *s, const struct configuration *config);
/* Stop accepting and close the listening sockets; clients are served to the last. */
void server_hand_over(struct server *s);
/* The listening sockets, which stay the server's; returns how many. */
size_t server_sockets(const struct server *s, int fds[LISTENERS_MAX]);

enum { SNAPSHOT_KEYS_MAX = 20 };

struct server_snapshot {
    struct counter_stats counters;
    uint64_t uptime_us;
    size_t clients, addresses;
    /* Who holds the longest; 0 clients hold: no key. */
    bool has_oldest;
    uint64_t oldest_us;
    char oldest_key[1024];
    size_t oldest_key_bytes;
    char oldest_client[ADDR_TEXT_MAX];
    /* In the order in which they came; the others, counted together, are last. Owned: free both. */
    struct type_row {
        struct slice name; /* within NAMES */
        struct type_figures figures;
    } * types;
    size_t ntypes;
    /* The keys most waited for, the most first; see topk.h for what the numbers mean. */
    struct key_row {
        struct slice name; /* within NAMES */
        uint64_t waited_us, over_us, waits;
    } keys[SNAPSHOT_KEYS_MAX];
    size_t nkeys;
    struct text names;
};
/* Call server_snapshot_fini then. */
void server_snapshot(struct server *s, struct server_snapshot *out);
void server_snapshot_fini(struct server_snapshot *snapshot);

#endif
