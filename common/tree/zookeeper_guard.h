/* SPDX-License-Identifier: Apache-2.0
 *
 * Between ZooKeeper's client library and its sockets. The library believes whatever a server says,
 * and ends the process by an assertion or a crash over answers that do not fit its questions; so it
 * is given only whole frames that have been held against what was asked (zookeeper_dialog.h). The
 * first one that does not fit ends the connection, as if the server had; the library connects anew.
 *
 *   library ── send ──► guard (which questions?) ──► socket
 *   library ◄─ recv ─── guard (whole frames that fit) ◄─ socket
 *
 * The library has no place for that, and its connections are its own. So its calls of connect,
 * send, recv and pthread_create, and no others', are led here, by its table of foreign functions.
 *
 * A guard is of one handle. Whoever opens the handle enters the guard before, on the same thread:
 * the threads that the library starts then belong to the guard too. It outlives the handle.
 */
#ifndef RLB_TREE_ZOOKEEPER_GUARD_H
#define RLB_TREE_ZOOKEEPER_GUARD_H

#include "common/base/err.h"
#include "common/wire/zookeeper_dialog.h"

/* What can be guarded: what it does with its sockets was looked at. */
#define ZK_GUARD_LIBRARY "libzookeeper_mt.so.2"

enum {
    /* A server that was refused is not connected to for so long: another one is, and one alone
       cannot keep us busy. */
    ZK_GUARD_SHUN_MS = 250,
    ZK_GUARD_SHUNNED_MAX = 8,
};

struct zk_guard;

/* REFUSED is called on one of the library's threads, under no lock, once for each connection
 * ended. */
struct zk_guard *zk_guard_create(void (*refused)(void *context, enum zookeeper_fault why),
                                 void *context);
/* Its handle is closed, or was never opened. NULL is fine. */
void zk_guard_destroy(struct zk_guard *g);
/*
 * Whether this library can be guarded; if not (another version, or linked otherwise), D says so,
 * and it is not to be used. Errors: ERR_UNSUPPORTED
 */
enum err zk_guard_check(struct diag *d) must_check;
/* What the library does on this thread is G's from now on; NULL: nobody's, unguarded. To be checked
 * before. */
void zk_guard_enter(struct zk_guard *g);

#endif
