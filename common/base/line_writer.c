/* SPDX-License-Identifier: Apache-2.0
 *
 *   buffer 0: records --+
 *   buffer 1: records --+-- swapped for an empty one --> writer thread: lines --> write()
 *   buffer n: records --+
 *
 * The writer sleeps while every buffer is empty. Whoever adds the first record to an empty buffer
 * wakes it; it then waits a moment, so that busy threads pay one wake-up for many lines.
 */
#include "common/base/line_writer.h"

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
    /* A buffer: over a second's worth of records at 10,000 requests a second. */
    BUFFER_MAX = 4 << 20,
    /* The writer is woken early above this. */
    BUFFER_FULL = 256 << 10,
    /* Lines of so many bytes are written at once. */
    WRITE_BYTES = 64 << 10,
    BATCH_MS = 50,
    /* How long at the end one waits for a reader that takes nothing. */
    LAST_WRITE_MS = 1000,
};

struct line_buffer {
    _Alignas(CACHE_LINE_BYTES) pthread_mutex_t lock;
    struct text filling; /* under the lock */
    bool first;          /* it was empty before the record that is being added; under the lock */
    bool full;           /* the writer was told; under the lock */
};

struct line_writer {
    struct line_writer_options o;
    char *file;
    struct line_buffer *buffers;
    _Atomic uint64_t dropped, written;

    pthread_t writer;
    /* The writer's, once it runs. */
    int fd;
    struct text lines;
    uint64_t nlines; /* in LINES */
    bool given_up;   /* at the end, nobody having taken any */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Under the lock: why the writer should run. */
    bool pending, full, reopen;
    _Atomic bool stop; /* set under it too */
};

/* ---- who adds ---- */

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
    if (!first && !full)
        return;
    pthread_mutex_lock(&w->lock);
    w->pending = true;
    w->full = w->full || full;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

/* ---- the writer ---- */

/* A pipe whose reader is stuck must not hold us: it is waited for in write_lines. */
static int open_file(const char *file)
{
    if (strcmp(file, "-") == 0)
        return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    return open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
}

static bool stopping(const struct line_writer *w)
{
    return atomic_load_explicit(&w->stop, memory_order_relaxed);
}

/* Until there is room. False: there is none, and no time left. */
static bool wait_for_reader(struct line_writer *w)
{
    struct pollfd p = {.fd = w->fd, .events = POLLOUT};

    while (!stopping(w)) {
        if (poll(&p, 1, BATCH_MS) > 0)
            return true;
    }
    /* Only once: what is left may be many lines. */
    w->given_up = w->given_up || poll(&p, 1, LAST_WRITE_MS) <= 0;
    return !w->given_up;
}

static void count_lines(_Atomic uint64_t *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static void write_lines(struct line_writer *w)
{
    struct slice s = text_slice(&w->lines);
    bool whole = true;

    while (s.len != 0 && whole) {
        ssize_t n = write(w->fd, s.p, s.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            whole = wait_for_reader(w);
        } else if (n < 0) {
            log_warn(NULL, w->o.write_event, "file=%s error=\"%s\"", w->file, strerror(errno));
            whole = false;
        } else {
            s.p += n;
            s.len -= (size_t)n;
        }
    }
    uint64_t lost = 0;

    for (size_t i = 0; i < s.len; ++i)
        lost += s.p[i] == '\n';
    count_lines(&w->dropped, lost);
    count_lines(&w->written, w->nlines - lost);
    text_clear(&w->lines);
    w->nlines = 0;
}

static void write_records(struct line_writer *w, struct slice records)
{
    while (records.len != 0) {
        w->o.print(w->o.context, &records, &w->lines);
        ++w->nlines;
        if (w->lines.len >= WRITE_BYTES)
            write_lines(w);
    }
    write_lines(w);
}

/* Takes the records of each by swapping it for the empty SPARE, which then is in its place. */
static void write_buffers(struct line_writer *w, struct text *spare)
{
    for (unsigned i = 0; i < w->o.nbuffers; ++i) {
        struct line_buffer *b = &w->buffers[i];

        pthread_mutex_lock(&b->lock);
        struct text taken = b->filling;

        b->filling = *spare;
        b->full = false;
        pthread_mutex_unlock(&b->lock);
        write_records(w, text_slice(&taken));
        text_clear(&taken);
        *spare = taken;
    }
}

static void reopen_file(struct line_writer *w)
{
    int fd = open_file(w->file);

    if (fd < 0) {
        log_error(NULL, w->o.open_event, "file=%s error=\"%s\" kept=old", w->file, strerror(errno));
        return;
    }
    close(w->fd);
    w->fd = fd;
}

/* Wait until there is something to do, then a little longer for more of it. True: stop. */
static bool writer_wait(struct line_writer *w, bool *reopen)
{
    struct timespec until;

    pthread_mutex_lock(&w->lock);
    while (!w->pending && !w->reopen && !stopping(w))
        pthread_cond_wait(&w->wake, &w->lock);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += BATCH_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        ++until.tv_sec;
    }
    while (!w->full && !w->reopen && !stopping(w)) {
        if (pthread_cond_timedwait(&w->wake, &w->lock, &until) == ETIMEDOUT)
            break;
    }
    bool stop = stopping(w);

    *reopen = w->reopen;
    w->pending = w->full = w->reopen = false;
    pthread_mutex_unlock(&w->lock);
    return stop;
}

static void *writer_main(void *arg)
{
    struct line_writer *w = arg;
    struct text spare = {0};
    bool stop = false;

    while (!stop) {
        bool reopen = false;

        stop = writer_wait(w, &reopen);
        write_buffers(w, &spare);
        if (reopen)
            reopen_file(w);
    }
    text_fini(&spare);
    return NULL;
}

/* ---- life ---- */

static void init_wake(struct line_writer *w)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
}

enum err line_writer_create(const struct line_writer_options *o, struct line_writer **out)
{
    int fd = open_file(o->file);

    if (fd < 0)
        return ERR_SYSTEM;
    struct line_writer *w = xcalloc(1, sizeof(*w));

    w->o = *o;
    w->file = xstrdup(o->file);
    w->o.file = w->file;
    w->fd = fd;
    w->buffers = xcalloc_lines(o->nbuffers, sizeof(*w->buffers));
    for (unsigned i = 0; i < o->nbuffers; ++i)
        pthread_mutex_init(&w->buffers[i].lock, NULL);
    init_wake(w);
    int e = pthread_create(&w->writer, NULL, writer_main, w);

    ASSERT(e == 0);
    *out = w;
    return ERR_OK;
}

void line_writer_reopen(struct line_writer *w)
{
    pthread_mutex_lock(&w->lock);
    w->reopen = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

void line_writer_count(const struct line_writer *w, uint64_t *written, uint64_t *dropped)
{
    *written = atomic_load_explicit(&w->written, memory_order_relaxed);
    *dropped = atomic_load_explicit(&w->dropped, memory_order_relaxed);
}

void line_writer_destroy(struct line_writer *w)
{
    if (w == NULL)
        return;
    pthread_mutex_lock(&w->lock);
    atomic_store_explicit(&w->stop, true, memory_order_relaxed);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->writer, NULL);
    for (unsigned i = 0; i < w->o.nbuffers; ++i) {
        text_fini(&w->buffers[i].filling);
        pthread_mutex_destroy(&w->buffers[i].lock);
    }
    text_fini(&w->lines);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    close(w->fd);
    free(w->buffers);
    free(w->file);
    free(w);
}
