/* SPDX-License-Identifier: Apache-2.0
 *
 * The access log: one line per exchange, combined format with our own figures appended, or JSON.
 * Made and destroyed by the control thread (lb.c); outlives the data loops. Each loop formats its
 * lines into a buffer of its own, which one writer thread takes and writes: a slow disk stalls no
 * request. The buffers are bounded; lines over the bound are dropped and counted.
 * Locks: each buffer's, held to append or to swap; the log's own, for waking the writer.
 */
#ifndef RLB_LB_ACCESS_LOG_H
#define RLB_LB_ACCESS_LOG_H

#include "common/base/err.h"

struct access_log;

/* In the order of setting `access_log_format`. */
enum access_format { ACCESS_COMBINED, ACCESS_JSON };

/*
 * What a line says. All borrowed for the call; bytes from strangers are escaped.
 *
 * Combined:
 *   CLIENT - - [DAY/MON/YEAR:TIME +0000] "METHOD TARGET PROTOCOL" STATUS BYTES "REFERER" "AGENT"
 * and then, as key=value, all that follows here in the same order. Times are microseconds.
 */
struct access_entry {
    uint64_t wall_ms; /* when the request arrived */
    struct slice client, method, target, protocol;
    int status;          /* as sent; 499: the client left before there was one */
    uint64_t sent_bytes; /* of body */
    struct slice referer, agent;
    struct slice host;
    struct slice application; /* empty: none */
    struct slice cls;         /* encoded */
    struct slice worker;      /* the last one tried; empty: none */
    struct slice reason;      /* why it was picked; of a refused request, what is wrong with it */
    unsigned tries;           /* workers picked */
    uint64_t received_bytes;  /* of body */
    uint64_t limit_wait_us, worker_wait_us, connection_wait_us;
    uint64_t first_byte_us, service_us; /* of the last try */
    uint64_t total_us;
    struct slice outcome;
    struct slice request_id;
};

/*
 * FILE is appended to; "-" is standard output. Starts the writer.
 * Errors: ERR_SYSTEM (errno says): it cannot be opened.
 */
enum err access_log_create(const char *file, enum access_format format, unsigned nloops,
                           struct access_log **out) must_check;
/* Any thread: later lines are in FORMAT. */
void access_log_set_format(struct access_log *log, enum access_format format);
/* Any thread: what is buffered goes to the old file, then the name is opened anew. */
void access_log_reopen(struct access_log *log);
/* Lines that were dropped: the writer could not keep up, or could not write. Any thread. */
uint64_t access_log_dropped(const struct access_log *log);
/* Add a line from data loop LOOP_INDEX, on its thread. */
void access_log_add(struct access_log *log, unsigned loop_index, const struct access_entry *e);
/* Writes what is left. NULL is fine. */
void access_log_destroy(struct access_log *log);

#endif
