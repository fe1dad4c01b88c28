/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace log: a record at each stage of a request (common/wire/trace_line.h), to show where time
 * is spent and which requests hang. Created and destroyed by the agent; outlives the front. The
 * control loop writes records to a buffer; a line_writer formats them as lines in its own thread.
 * All functions accept a NULL log and then do nothing.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/text.h"

struct trace_log;

/* Appends to FILE; "-": standard output. ERR_SYSTEM (see errno): FILE cannot be opened. */
enum err trace_log_create(const char *file, struct trace_log **out) must_check;
/* Writes the remaining records, unless the file does not accept them. */
void trace_log_destroy(struct trace_log *log);
/* Writes buffered records to the old file, then reopens the file by name. */
void trace_log_reopen(struct trace_log *log);
/* Lines written, and records dropped because the file was too slow or failed. */
void trace_log_count(const struct trace_log *log, uint64_t *written, uint64_t *dropped);

/* Writes a record that belongs to no request. STAGE S (the agent starts) or X (it exits): no
 * earlier request is in progress; NAME is NULL. STAGE '-': a note; NAME is a literal. */
void trace_log_mark(struct trace_log *log, char stage, const char *name);
/* The trace of a request, from record B to its last. Embedded; if zeroed, nothing is recorded. */
struct trace_request {
    struct trace_log *log; /* NULL: nothing more is recorded */
    uint64_t number;
    bool called;
};

/* Writes records B and I: R was received, with a body of BODY_BYTES. */
void trace_request_begin(struct trace_request *r, struct trace_log *log, struct slice method,
                         struct slice path, uint64_t body_bytes);
/* Writes record C at the first call, and a note about a retry at later calls. */
void trace_request_activated(struct trace_request *r);
/* Writes record A: a response begins. BYTES: size of its body; UINT64_MAX: unknown. */
void trace_request_responded(struct trace_request *r, unsigned status, uint64_t bytes);
/* Writes record E, the last one of R. */
void trace_request_ended(struct trace_request *r);
/* Writes the last record of R, which ended abnormally. NAME: the kind of end, a literal. */
void trace_request_failed(struct trace_request *r, const char *name, struct slice text);
