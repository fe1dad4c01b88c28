/* SPDX-License-Identifier: Apache-2.0
 *
 *   buffer 0: records --+
 *   buffer 1: records --+-- swapped for an empty one --> writer thread: lines --> write()
 *   buffer n: records --+
 *
 * The writer sleeps while every buffer is empty. The first record in an empty buffer schedules a
 * round after BATCH_MS, so that busy threads pay one wake-up for many lines.
 */
#include "common/event/line_writer.h"

#include "common/base/log.h"
#include "common/event/worker_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* Size of a buffer: over a second of records at 10,000 requests per second. */
    BUFFER_MAX = 4 << 20,
    /* The writer is woken early above this. */
    BUFFER_FULL = 256 << 10,
    /* Lines are collected up to this size before they are written. */
    WRITE_BYTES = 64 << 10,
    BATCH_MS = 50,
    /* Maximum wait at the end for a reader that does not read. */
    LAST_WRITE_MS = 1000,
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
    _Atomic bool reopen; /* at the end of the round */
    _Atomic bool stop;   /* do not wait for a reader */
    /* Used by the writer's thread only, once it runs. */
    int fd;
    struct text lines;
    struct text spare; /* an empty buffer */
    uint64_t nlines;   /* in LINES */
    bool given_up;     /* at the end: the reader did not read in time */
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
        worker_thread_add(w->thread, &w->round, full ? 0 : BATCH_MS);
}

/* ---- the writer ---- */

/* Non-blocking, so that a pipe with a stuck reader does not block the thread; write_lines waits
 * for it. Standard output is shared with others, so a pipe is opened a second time. */
static int lines_open_file(const char *file)
{
    const int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    struct stat st;

    if (strcmp(file, "-") != 0)
        return open(file, flags | O_CREAT | O_APPEND, 0640);
    int fd =
        fstat(STDOUT_FILENO, &st) == 0 && S_ISFIFO(st.st_mode) ? open("/dev/stdout", flags) : -1;
    return fd >= 0 ? fd : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
}

/* Waits for room. Returns false if there is none LAST_WRITE_MS after the writer was stopped. */
static bool wait_for_reader(struct line_writer *w)
{
    struct pollfd p = {.fd = w->fd, .events = POLLOUT};

    while (!atomic_load_explicit(&w->stop, memory_order_relaxed)) {
        if (poll(&p, 1, BATCH_MS) > 0)
            return true;
    }
    /* Waits only once, because many lines may remain. */
    w->given_up = w->given_up || poll(&p, 1, LAST_WRITE_MS) <= 0;
    return !w->given_up;
}

static void write_lines(struct line_writer *w)
{
    struct slice s = text_slice(&w->lines);
    bool whole = true;

    while (s.len != 0 && whole) {
        ssize_t n = TEMP_FAILURE_RETRY(write(w->fd, s.p, s.len));

        if (n < 0 && errno == EAGAIN) {
            whole = wait_for_reader(w);
        } else if (n < 0) {
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
    int fd = lines_open_file(w->file);
    if (fd < 0) {
        log_error(NULL, w->o.open_event, "file=%s reason=\"%s\" action=\"keep the old file\"",
                  w->file, strerror(errno));
        return;
    }
    close(w->fd);
    w->fd = fd;
}

/* ---- life ---- */

enum err line_writer_create(const struct line_writer_options *o, struct line_writer **out)
{
    int fd = lines_open_file(o->file);

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

void line_writer_destroy(struct line_writer *w)
{
    if (w == NULL)
        return;
    atomic_store_explicit(&w->stop, true, memory_order_relaxed);
    (void)!worker_thread_destroy(w->thread, WORKER_THREAD_WAIT);
    write_round(&w->round);
    for (unsigned i = 0; i < w->o.nbuffers; ++i) {
        text_fini(&w->buffers[i].filling);
        pthread_mutex_destroy(&w->buffers[i].lock);
    }
    text_fini(&w->lines);
    text_fini(&w->spare);
    close(w->fd);
    free(w->buffers);
    free(w->file);
    free(w);
}
