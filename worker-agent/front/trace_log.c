/* SPDX-License-Identifier: Apache-2.0
 *
 * A record in the buffer: a struct trace_record, and its two texts behind it. The id of a request
 * is PID.NUMBER, because both agents of an upgrade write to the same file.
 */
#include "worker-agent/front/trace_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/event/line_writer.h"
#include "common/wire/trace_line.h"

struct trace_record {
    uint64_t time_us;
    uint64_t number; /* of its request; 0: none */
    uint64_t bytes;
    const char *name; /* a literal */
    unsigned status;
    char stage;
    unsigned short first, second; /* bytes of the texts: method and path, or a text alone */
};

struct trace_log {
    struct line_writer *writer;
    uint64_t number; /* the last request's */
    long pid;
};

/* ---- the writer's thread ---- */

static struct slice take_text(struct slice *records, size_t len)
{
    struct slice s = {records->p, len};

    ASSERT(records->len >= len);
    records->p += len;
    records->len -= len;
    return s;
}

static void print_record(void *context, struct slice *records, struct text *lines)
{
    const struct trace_log *log = context;
    char id[TRACE_LINE_ID_MAX] = "0";
    struct trace_record r;

    ASSERT(records->len >= sizeof(r));
    memcpy(&r, records->p, sizeof(r));
    (void)take_text(records, sizeof(r));
    struct slice first = take_text(records, r.first);
    struct slice second = take_text(records, r.second);

    if (r.number != 0)
        snprintf(id, sizeof(id), "%ld.%llu", log->pid, (unsigned long long)r.number);
    const struct trace_line l = {
        .stage = r.stage,
        .id = slice_of(id),
        .time_us = r.time_us,
        .method = first,
        .path = second,
        .name = slice_of(r.name),
        .text = first,
        .bytes = r.bytes,
        .status = r.status,
    };
    trace_line_print(&l, lines);
}

/* ---- records ---- */

static void trace_add(struct trace_log *log, struct trace_record r, struct slice first,
                      struct slice second)
{
    struct text *records = log != NULL ? line_writer_begin(log->writer, 0) : NULL;

    if (records == NULL)
        return;
    /* Taken by one thread under the buffer's lock: times decrease only if the clock is set back. */
    r.time_us = clock_wall_us();
    r.first = (unsigned short)(first.len < TRACE_LINE_TEXT_MAX ? first.len : TRACE_LINE_TEXT_MAX);
    r.second =
        (unsigned short)(second.len < TRACE_LINE_PATH_MAX ? second.len : TRACE_LINE_PATH_MAX);
    text_add(records, (struct slice){(const char *)&r, sizeof(r)});
    text_add(records, (struct slice){first.p, r.first});
    text_add(records, (struct slice){second.p, r.second});
    line_writer_end(log->writer, 0);
}

void trace_log_mark(struct trace_log *log, char stage, const char *name)
{
    trace_add(log, (struct trace_record){.stage = stage, .name = name}, SLICE_NULL, SLICE_NULL);
}

void trace_request_begin(struct trace_request *r, struct trace_log *log, struct slice method,
                         struct slice path, uint64_t body_bytes)
{
    *r = (struct trace_request){.log = log};
    if (log == NULL)
        return;
    r->number = ++log->number;
    trace_add(log, (struct trace_record){.stage = 'B', .number = r->number}, method, path);
    trace_add(log, (struct trace_record){.stage = 'I', .number = r->number, .bytes = body_bytes},
              SLICE_NULL, SLICE_NULL);
}

void trace_request_activated(struct trace_request *r)
{
    trace_add(r->log,
              (struct trace_record){.stage = r->called ? '-' : 'C',
                                    .number = r->number,
                                    .name = r->called ? "resumelb.again" : NULL},
              SLICE_NULL, SLICE_NULL);
    r->called = true;
}

void trace_request_responded(struct trace_request *r, unsigned status, uint64_t bytes)
{
    trace_add(
        r->log,
        (struct trace_record){.stage = 'A', .number = r->number, .status = status, .bytes = bytes},
        SLICE_NULL, SLICE_NULL);
}

void trace_request_ended(struct trace_request *r)
{
    trace_add(r->log, (struct trace_record){.stage = 'E', .number = r->number}, SLICE_NULL,
              SLICE_NULL);
    r->log = NULL;
}

void trace_request_failed(struct trace_request *r, const char *name, struct slice text)
{
    trace_add(r->log, (struct trace_record){.stage = '-', .number = r->number, .name = name}, text,
              SLICE_NULL);
    r->log = NULL;
}

/* ---- life ---- */

enum err trace_log_create(const char *file, struct trace_log **out)
{
    struct trace_log *log = xcalloc(1, sizeof(*log));
    const struct line_writer_options o = {.file = file,
                                          .nbuffers = 1,
                                          .print = print_record,
                                          .context = log,
                                          .open_event = "trace-log-reopen-failed",
                                          .write_event = "trace-log-write-failed",
                                          .batch_ms = LINE_WRITER_BATCH_MS};

    log->pid = (long)getpid();
    enum err e = line_writer_create(&o, &log->writer);
    if (e == ERR_OK)
        *out = log;
    else
        free(log);
    return e;
}

void trace_log_destroy(struct trace_log *log)
{
    if (log != NULL && line_writer_destroy(log->writer))
        free(log);
}

void trace_log_reopen(struct trace_log *log)
{
    if (log != NULL)
        line_writer_reopen(log->writer);
}

void trace_log_count(const struct trace_log *log, uint64_t *written, uint64_t *dropped)
{
    *written = *dropped = 0;
    if (log != NULL)
        line_writer_count(log->writer, written, dropped);
}
