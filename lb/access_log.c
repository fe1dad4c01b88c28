/* SPDX-License-Identifier: Apache-2.0
 *
 *   loop 0: records --+
 *   loop 1: records --+-- swapped for an empty buffer --> writer thread: lines --> write()
 *   loop n: records --+
 *
 * The writer sleeps while every buffer is empty. Whoever adds the first record to an empty buffer
 * wakes it; it then waits a moment, so that busy loops pay one wake-up for many lines.
 */
#include "lb/access_log.h"

#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    /* A loop's buffer: over a second's worth of records at 10,000 requests a second. */
    BUFFER_MAX = 4 << 20,
    /* The writer is woken early above this. */
    BUFFER_FULL = 256 << 10,
    /* Lines of so many bytes are written at once. */
    WRITE_BYTES = 64 << 10,
    BATCH_MS = 50,
    /* How long at the end one waits for a reader that takes nothing. */
    LAST_WRITE_MS = 1000,
    /* `sample` 1 on the scale that numbers at random are compared with. */
    SAMPLE_BITS = 32,
};

struct access_buffer {
    pthread_mutex_t lock;
    struct text filling; /* under the lock */
    bool full;           /* the writer was told; under the lock */
    /* The loop's own: its numbers at random. */
    uint64_t seed;
    _Atomic uint64_t left_out; /* the loop writes it */
} __attribute__((aligned(64)));

struct access_log {
    char *file;
    unsigned nloops;
    struct access_buffer *buffers;
    _Atomic int format;
    _Atomic uint64_t fields;
    _Atomic uint64_t sample; /* lines wanted of 1 << SAMPLE_BITS */
    _Atomic bool keep_errors;
    _Atomic uint64_t dropped, written;

    pthread_t writer;
    /* The writer's, once it runs. */
    int fd;
    struct access_clock clock;
    struct text lines;
    uint64_t nlines; /* in LINES */
    bool given_up;   /* at the end, nobody having taken any */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Under the lock: why the writer should run. */
    bool pending, full, reopen;
    _Atomic bool stop; /* set under it too */
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
    struct access_buffer *b = &log->buffers[loop_index];

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

void access_log_add(struct access_log *log, unsigned loop_index, const struct access_entry *e)
{
    ASSERT(loop_index < log->nloops);
    struct access_buffer *b = &log->buffers[loop_index];
    bool first;
    bool full = false;

    pthread_mutex_lock(&b->lock);
    if (b->filling.len >= BUFFER_MAX) {
        pthread_mutex_unlock(&b->lock);
        atomic_fetch_add_explicit(&log->dropped, 1, memory_order_relaxed);
        return;
    }
    first = b->filling.len == 0;
    access_record_add(&b->filling, e);
    if (b->filling.len >= BUFFER_FULL && !b->full)
        full = b->full = true;
    pthread_mutex_unlock(&b->lock);

    if (!first && !full)
        return;
    pthread_mutex_lock(&log->lock);
    log->pending = true;
    log->full = log->full || full;
    pthread_cond_signal(&log->wake);
    pthread_mutex_unlock(&log->lock);
}

/* ---- the writer ---- */

/* A pipe whose reader is stuck must not hold us: it is waited for in write_lines. */
static int open_file(const char *file)
{
    if (strcmp(file, "-") == 0)
        return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    return open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
}

static bool stopping(const struct access_log *log)
{
    return atomic_load_explicit(&log->stop, memory_order_relaxed);
}

/* Until there is room. False: there is none, and no time left. */
static bool wait_for_reader(struct access_log *log)
{
    struct pollfd p = {.fd = log->fd, .events = POLLOUT};

    while (!stopping(log)) {
        if (poll(&p, 1, BATCH_MS) > 0)
            return true;
    }
    /* Only once: what is left may be many lines. */
    log->given_up = log->given_up || poll(&p, 1, LAST_WRITE_MS) <= 0;
    return !log->given_up;
}

static void count_lines(_Atomic uint64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static void write_lines(struct access_log *log)
{
    struct slice s = text_slice(&log->lines);
    bool whole = true;

    while (s.len != 0 && whole) {
        ssize_t n = write(log->fd, s.p, s.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            whole = wait_for_reader(log);
        } else if (n < 0) {
            log_warn(NULL, "access-log-write", "file=%s error=\"%s\"", log->file, strerror(errno));
            whole = false;
        } else {
            s.p += n;
            s.len -= (size_t)n;
        }
    }
    uint64_t lost = 0;

    for (size_t i = 0; i < s.len; ++i)
        lost += s.p[i] == '\n';
    count_lines(&log->dropped, lost);
    count_lines(&log->written, log->nlines - lost);
    text_clear(&log->lines);
    log->nlines = 0;
}

static void write_records(struct access_log *log, struct slice records)
{
    enum access_format format =
        (enum access_format)atomic_load_explicit(&log->format, memory_order_relaxed);
    uint64_t fields = atomic_load_explicit(&log->fields, memory_order_relaxed);
    struct access_entry e;

    while (records.len != 0) {
        access_record_take(&records, &e);
        access_line_add(&e, format, fields, &log->clock, &log->lines);
        ++log->nlines;
        if (log->lines.len >= WRITE_BYTES)
            write_lines(log);
    }
    write_lines(log);
}

/* Takes each loop's records by swapping its buffer for the empty SPARE, which then is that loop's.
 */
static void write_buffers(struct access_log *log, struct text *spare)
{
    for (unsigned i = 0; i < log->nloops; ++i) {
        struct access_buffer *b = &log->buffers[i];

        pthread_mutex_lock(&b->lock);
        struct text taken = b->filling;

        b->filling = *spare;
        b->full = false;
        pthread_mutex_unlock(&b->lock);
        write_records(log, text_slice(&taken));
        text_clear(&taken);
        *spare = taken;
    }
}

static void reopen_file(struct access_log *log)
{
    int fd = open_file(log->file);

    if (fd < 0) {
        log_error(NULL, "access-log-open", "file=%s error=\"%s\" kept=old", log->file,
                  strerror(errno));
        return;
    }
    close(log->fd);
    log->fd = fd;
}

/* Wait until there is something to do, then a little longer for more of it. True: stop. */
static bool writer_wait(struct access_log *log, bool *reopen)
{
    struct timespec until;

    pthread_mutex_lock(&log->lock);
    while (!log->pending && !log->reopen && !stopping(log))
        pthread_cond_wait(&log->wake, &log->lock);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += BATCH_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        ++until.tv_sec;
    }
    while (!log->full && !log->reopen && !stopping(log)) {
        if (pthread_cond_timedwait(&log->wake, &log->lock, &until) == ETIMEDOUT)
            break;
    }
    bool stop = stopping(log);

    *reopen = log->reopen;
    log->pending = log->full = log->reopen = false;
    pthread_mutex_unlock(&log->lock);
    return stop;
}

static void *writer_main(void *arg)
{
    struct access_log *log = arg;
    struct text spare = {0};
    bool stop = false;

    while (!stop) {
        bool reopen = false;

        stop = writer_wait(log, &reopen);
        write_buffers(log, &spare);
        if (reopen)
            reopen_file(log);
    }
    text_fini(&spare);
    return NULL;
}

/* ---- life ---- */

static void init_wake(struct access_log *log)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&log->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&log->wake, &attr);
    pthread_condattr_destroy(&attr);
}

enum err access_log_create(const char *file, const struct access_options *o, unsigned nloops,
                           struct access_log **out)
{
    int fd = open_file(file);

    if (fd < 0)
        return ERR_SYSTEM;
    struct access_log *log = xcalloc(1, sizeof(*log));

    log->file = xstrdup(file);
    log->fd = fd;
    log->nloops = nloops;
    log->buffers = aligned_alloc(64, nloops * sizeof(*log->buffers));
    ASSERT(log->buffers != NULL);
    memset(log->buffers, 0, nloops * sizeof(*log->buffers));
    for (unsigned i = 0; i < nloops; ++i) {
        pthread_mutex_init(&log->buffers[i].lock, NULL);
        log->buffers[i].seed = i;
    }
    access_log_set(log, o);
    init_wake(log);
    int e = pthread_create(&log->writer, NULL, writer_main, log);

    ASSERT(e == 0);
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
    pthread_mutex_lock(&log->lock);
    log->reopen = true;
    pthread_cond_signal(&log->wake);
    pthread_mutex_unlock(&log->lock);
}

void access_log_count(const struct access_log *log, struct access_counts *out)
{
    out->written = atomic_load_explicit(&log->written, memory_order_relaxed);
    out->dropped = atomic_load_explicit(&log->dropped, memory_order_relaxed);
    out->left_out = 0;
    for (unsigned i = 0; i < log->nloops; ++i)
        out->left_out += atomic_load_explicit(&log->buffers[i].left_out, memory_order_relaxed);
}

void access_log_destroy(struct access_log *log)
{
    if (log == NULL)
        return;
    pthread_mutex_lock(&log->lock);
    atomic_store_explicit(&log->stop, true, memory_order_relaxed);
    pthread_cond_signal(&log->wake);
    pthread_mutex_unlock(&log->lock);
    pthread_join(log->writer, NULL);
    for (unsigned i = 0; i < log->nloops; ++i) {
        text_fini(&log->buffers[i].filling);
        pthread_mutex_destroy(&log->buffers[i].lock);
    }
    text_fini(&log->lines);
    pthread_cond_destroy(&log->wake);
    pthread_mutex_destroy(&log->lock);
    close(log->fd);
    free(log->buffers);
    free(log->file);
    free(log);
}
