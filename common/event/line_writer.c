/* SPDX-License-Identifier: Apache-2.0
 *
 *   buffer 0: records --+
 *   buffer 1: records --+-- swapped for an empty one --> writer thread: lines --> write()
 *   buffer n: records --+
 *
 * The writer sleeps while every buffer is empty. The first record in an empty buffer schedules a
 * round after batch_ms, so that busy threads pay one wake-up for many lines.
 */
#include "common/event/line_writer.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/event/worker_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    /* Size of a buffer: over a second of records at 10,000 requests per second. */
    BUFFER_MAX = 4 << 20,
    /* The writer is woken early above this. */
    BUFFER_FULL = 256 << 10,
    /* Lines are collected up to this size before they are written. */
    WRITE_BYTES = 64 << 10,
    /* The writer sees at most this late that it has to end. */
    WAIT_MS = 50,
    /* Maximum time at the end for a reader that does not read. */
    LAST_WRITE_MS = 1000,
    /* Maximum time at the end for a disk; formatting the last lines is much shorter. */
    DISK_MS = 10000,
};

struct line_buffer {
    _Alignas(CACHE_LINE_BYTES) pthread_mutex_t lock;
    struct text filling; /* under the lock */
    bool first;          /* it was empty before the record that is being added; under the lock */
    bool full;           /* the writer was notified; under the lock */
};

struct line_writer {
    struct line_writer_options o;
    char *file;
    struct line_buffer *buffers;
    _Atomic uint64_t dropped, written;

    struct worker_thread *thread;
    struct worker_job round;
    _Atomic bool reopen;     /* at the end of the round */
    _Atomic uint64_t end_us; /* monotonic: when it must have ended; 0: not yet known */
    /* Used by the writer's thread only, once it runs. */
    struct output output;
    struct text lines;
    struct text spare; /* an empty buffer */
    uint64_t nlines;   /* in LINES */
};

/* ---- appending ---- */

struct text *line_writer_begin(struct line_writer *w, unsigned i)
{
    ASSERT(i < w->o.nbuffers);
    struct line_buffer *b = &w->buffers[i];

    pthread_mutex_lock(&b->lock);
    if (b->filling.len >= BUFFER_MAX) {
        pthread_mutex_unlock(&b->lock);
        atomic_fetch_add_explicit(&w->dropped, 1, memory_order_relaxed);
        return NULL;
    }
    b->first = b->filling.len == 0;
    return &b->filling;
}

void line_writer_end(struct line_writer *w, unsigned i)
{
    struct line_buffer *b = &w->buffers[i];
    bool first = b->first;
    bool full = b->filling.len >= BUFFER_FULL && !b->full;

    b->full = b->full || full;
    pthread_mutex_unlock(&b->lock);
    if (first || full)
        worker_thread_add(w->thread, &w->round, full ? 0 : w->o.batch_ms);
}

/* ---- the writer ---- */

/* A pipe with a stuck reader does not block the thread; write_lines() waits for it. */
static struct output lines_open(const struct line_writer_options *o)
{
    const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

    if (o->file == NULL)
        return o->output;
    if (strcmp(o->file, "-") == 0)
        return output_open(STDOUT_FILENO);
    return (struct output){.fd = open(o->file, flags | O_CREAT | O_APPEND, 0640),
                           .kind = OUTPUT_NON_BLOCKING};
}

/* Waits for room. Returns false if there is none when the writer must have ended. */
static bool wait_for_reader(const struct line_writer *w)
{
    for (;;) {
        uint64_t end_us = atomic_load_explicit(&w->end_us, memory_order_relaxed);
        uint64_t now_us = clock_mono_us();

        if (end_us != 0 && now_us >= end_us)
            return false;
        if (output_wait(&w->output, WAIT_MS))
            return true;
    }
}

/* Standard error is shared with other processes: whole lines are written to it, as many as a pipe
 * takes completely or not at all. */
static struct slice next_part(const struct line_writer *w, struct slice s)
{
    if (w->file != NULL || s.len <= PIPE_BUF)
        return s;
    const char *end = memrchr(s.p, '\n', PIPE_BUF);

    return (struct slice){s.p, end != NULL ? (size_t)(end + 1 - s.p) : PIPE_BUF};
}

static void write_lines(struct line_writer *w)
{
    struct slice s = text_slice(&w->lines);
    bool whole = true;

    while (s.len != 0 && whole) {
        ssize_t n = output_write(&w->output, next_part(w, s));

        if (n < 0 && errno == EAGAIN) {
            whole = wait_for_reader(w);
        } else if (n < 0) {
            if (w->file != NULL)
                log_warn(NULL, w->o.write_event, "file=%s reason=\"%s\"", w->file, strerror(errno));
            whole = false;
        } else {
            s.p += n;
            s.len -= (size_t)n;
        }
    }
    uint64_t lost = 0;

    for (size_t i = 0; i < s.len; ++i)
        lost += s.p[i] == '\n';
    atomic_fetch_add_explicit(&w->dropped, lost, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->written, w->nlines - lost, memory_order_relaxed);
    if (lost != 0 && w->o.lost != NULL)
        w->o.lost(w->o.context, lost);
    text_clear(&w->lines);
    w->nlines = 0;
}

static void write_round(struct worker_job *j)
{
    struct line_writer *w = container_of(j, struct line_writer, round);
    bool reopen = atomic_exchange(&w->reopen, false);

    for (unsigned i = 0; i < w->o.nbuffers; ++i) {
        struct line_buffer *b = &w->buffers[i];

        /* Takes the records by swapping the buffer for an empty one. */
        pthread_mutex_lock(&b->lock);
        struct text taken = b->filling;

        b->filling = w->spare;
        b->full = false;
        pthread_mutex_unlock(&b->lock);
        for (struct slice records = text_slice(&taken); records.len != 0;) {
            w->o.print(w->o.context, &records, &w->lines);
            ++w->nlines;
            if (w->lines.len >= WRITE_BYTES)
                write_lines(w);
        }
        write_lines(w);
        text_clear(&taken);
        w->spare = taken;
    }
    if (!reopen)
        return;
    struct output again = lines_open(&w->o);
    if (again.fd < 0) {
        log_error(NULL, w->o.open_event, "file=%s reason=\"%s\" action=\"keep the old file\"",
                  w->file, strerror(errno));
        return;
    }
    close(w->output.fd);
    w->output = again;
}

/* ---- life ---- */

enum err line_writer_create(const struct line_writer_options *o, struct line_writer **out)
{
    struct output output = lines_open(o);

    if (output.fd < 0 && o->file != NULL)
        return ERR_SYSTEM;
    struct line_writer *w = xcalloc(1, sizeof(*w));

    w->o = *o;
    w->file = xstrdup(o->file);
    w->o.file = w->file;
    w->output = output;
    w->buffers = xcalloc_lines(o->nbuffers, sizeof(*w->buffers));
    for (unsigned i = 0; i < o->nbuffers; ++i)
        pthread_mutex_init(&w->buffers[i].lock, NULL);
    w->round.work = write_round;
    w->thread = worker_thread_create(NULL);
    *out = w;
    return ERR_OK;
}

void line_writer_reopen(struct line_writer *w)
{
    atomic_store(&w->reopen, true);
    worker_thread_add(w->thread, &w->round, 0);
}

void line_writer_count(const struct line_writer *w, uint64_t *written, uint64_t *dropped)
{
    *written = atomic_load_explicit(&w->written, memory_order_relaxed);
    *dropped = atomic_load_explicit(&w->dropped, memory_order_relaxed);
}

bool line_writer_destroy(struct line_writer *w)
{
    if (w == NULL)
        return true;
    atomic_store_explicit(&w->end_us, clock_mono_us() + UINT64_C(1000) * LAST_WRITE_MS,
                          memory_order_relaxed);
    /* A thread that hangs in the kernel, for instance in a write to a disk, retains the writer. */
    if (!worker_thread_destroy(w->thread, DISK_MS))
        return false;
    write_round(&w->round);
    for (unsigned i = 0; i < w->o.nbuffers; ++i) {
        text_fini(&w->buffers[i].filling);
        pthread_mutex_destroy(&w->buffers[i].lock);
    }
    text_fini(&w->lines);
    text_fini(&w->spare);
    if (w->file != NULL)
        close(w->output.fd);
    free(w->buffers);
    free(w->file);
    free(w);
    return true;
}
