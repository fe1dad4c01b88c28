/* SPDX-License-Identifier: Apache-2.0
 *
 * Each data loop's records and the sample that it takes of them; the rest is line_writer.h's.
 */
#include "lb/access/access_log.h"

#include "common/event/line_writer.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    /* `sample` 1 on the scale that numbers at random are compared with. */
    SAMPLE_BITS = 32,
};

/* A loop's own. */
struct access_sample {
    _Alignas(CACHE_LINE_BYTES) uint64_t seed; /* its numbers at random */
    _Atomic uint64_t left_out;                /* the loop writes it */
};

struct access_log {
    struct line_writer *writer;
    unsigned nloops;
    struct access_sample *samples;
    _Atomic int format;
    _Atomic uint64_t fields;
    _Atomic uint64_t sample; /* lines wanted of 1 << SAMPLE_BITS */
    _Atomic bool keep_errors;
    struct access_clock clock; /* the writer's thread's */
};

/* ---- the loops ---- */

/* splitmix64 (Steele, Lea, Flood 2014): a sample that follows no rhythm of the requests. */
static uint64_t next_random(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

bool access_log_wants(struct access_log *log, unsigned loop_index, bool error)
{
    uint64_t sample = atomic_load_explicit(&log->sample, memory_order_relaxed);
    struct access_sample *b = &log->samples[loop_index];

    ASSERT(loop_index < log->nloops);
    if (sample == (uint64_t)1 << SAMPLE_BITS ||
        (error && atomic_load_explicit(&log->keep_errors, memory_order_relaxed)) ||
        next_random(&b->seed) >> (64 - SAMPLE_BITS) < sample)
        return true;
    atomic_store_explicit(&b->left_out,
                          atomic_load_explicit(&b->left_out, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return false;
}

struct text *access_log_begin(struct access_log *log, unsigned loop_index)
{
    return line_writer_begin(log->writer, loop_index);
}

void access_log_end(struct access_log *log, unsigned loop_index)
{
    line_writer_end(log->writer, loop_index);
}

void access_log_add(struct access_log *log, unsigned loop_index, const struct access_entry *e)
{
    struct text *records = access_log_begin(log, loop_index);

    if (records == NULL)
        return;
    access_record_add(records, e);
    access_log_end(log, loop_index);
}

/* ---- the writer ---- */

static void print(void *context, struct slice *records, struct text *lines)
{
    struct access_log *log = context;
    struct access_entry e;

    access_record_take(records, &e);
    access_line_add(&e,
                    (enum access_format)atomic_load_explicit(&log->format, memory_order_relaxed),
                    atomic_load_explicit(&log->fields, memory_order_relaxed), &log->clock, lines);
}

/* ---- life ---- */

enum err access_log_create(const char *file, const struct access_options *o, unsigned nloops,
                           struct access_log **out)
{
    struct access_log *log = xcalloc(1, sizeof(*log));
    const struct line_writer_options wo = {.file = file,
                                           .nbuffers = nloops,
                                           .print = print,
                                           .context = log,
                                           .open_event = "access-log-reopen-failed",
                                           .write_event = "access-log-write-failed"};

    access_log_set(log, o);
    enum err e = line_writer_create(&wo, &log->writer);
    if (e != ERR_OK) {
        free(log);
        return e;
    }
    log->nloops = nloops;
    log->samples = xcalloc_lines(nloops, sizeof(*log->samples));
    for (unsigned i = 0; i < nloops; ++i)
        log->samples[i].seed = i;
    *out = log;
    return ERR_OK;
}

void access_log_set(struct access_log *log, const struct access_options *o)
{
    ASSERT(o->sample >= 0);
    ASSERT(o->sample <= 1);
    atomic_store_explicit(&log->format, (int)o->format, memory_order_relaxed);
    atomic_store_explicit(&log->fields, o->fields, memory_order_relaxed);
    atomic_store_explicit(&log->sample,
                          (uint64_t)(o->sample * (double)((uint64_t)1 << SAMPLE_BITS)),
                          memory_order_relaxed);
    atomic_store_explicit(&log->keep_errors, o->keep_errors, memory_order_relaxed);
}

void access_log_reopen(struct access_log *log)
{
    line_writer_reopen(log->writer);
}

void access_log_count(const struct access_log *log, struct access_counts *out)
{
    line_writer_count(log->writer, &out->written, &out->dropped);
    out->left_out = 0;
    for (unsigned i = 0; i < log->nloops; ++i)
        out->left_out += atomic_load_explicit(&log->samples[i].left_out, memory_order_relaxed);
}

void access_log_destroy(struct access_log *log)
{
    if (log == NULL)
        return;
    line_writer_destroy(log->writer);
    free(log->samples);
    free(log);
}
