/* SPDX-License-Identifier: Apache-2.0
 *
 *   loop 0: filling --+
 *   loop 1: filling --+-- swapped for an empty one --> writer thread --> one write() each
 *   loop n: filling --+
 *
 * The writer sleeps while every buffer is empty. Whoever adds the first line to an empty buffer
 * wakes it; it then waits a moment, so that busy loops pay one wake-up for many lines.
 */
#include "lb/access_log.h"

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/wire/json.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    /* A loop's buffer: over a second's worth of lines at 10,000 requests a second. */
    BUFFER_MAX = 4 << 20,
    /* The writer is woken early above this. */
    BUFFER_FULL = 256 << 10,
    BATCH_MS = 50,
    /* One field of a line: enough for a useful target, and a flood of long ones stays small. */
    FIELD_MAX = 4096,
};

struct access_buffer {
    pthread_mutex_t lock;
    struct text filling; /* under the lock */
    bool full;           /* the writer was told; under the lock */
    /* The loop's own: the second last printed. */
    uint64_t stamp_s;
    char stamp[32];
} __attribute__((aligned(64)));

struct access_log {
    char *file;
    unsigned nloops;
    struct access_buffer *buffers;
    _Atomic int format;
    _Atomic uint64_t dropped;

    pthread_t writer;
    int fd; /* the writer's, once it runs */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    /* Under the lock: why the writer should run. */
    bool pending, full, reopen, stop;
};

/* ---- formatting ---- */

static void put_escaped(struct text *t, struct slice s)
{
    if (s.len > FIELD_MAX)
        s.len = FIELD_MAX;
    if (ascii_is_plain(s))
        text_add(t, s);
    else
        text_add_escaped(t, s);
}

/* In quotes; "-" for nothing, as the combined format has it. */
static void put_quoted(struct text *t, struct slice s)
{
    text_add_char(t, '"');
    if (s.len == 0)
        text_add_char(t, '-');
    else
        put_escaped(t, s);
    text_add_char(t, '"');
}

static void put_key_quoted(struct text *t, struct slice key, struct slice value)
{
    text_add(t, key);
    text_add_char(t, '"');
    put_escaped(t, value);
    text_add_char(t, '"');
}

/* VALUE is a word of ours: nothing in it wants escaping. */
static void put_key_word(struct text *t, struct slice key, struct slice value)
{
    text_add(t, key);
    text_add_char(t, '"');
    text_add(t, value);
    text_add_char(t, '"');
}

static void put_key_u64(struct text *t, struct slice key, uint64_t value)
{
    text_add(t, key);
    text_add_u64(t, value);
}

/* "21/Nov/2026:01:33:26 +0000", made once a second and loop. */
static struct slice stamp(struct access_buffer *b, uint64_t wall_ms)
{
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    uint64_t s = wall_ms / 1000;

    if (s != b->stamp_s) {
        time_t t = (time_t)s;
        struct tm tm;

        gmtime_r(&t, &tm);
        /* Not strftime: month names must not follow the locale. */
        snprintf(b->stamp, sizeof(b->stamp), "%02u/%s/%04u:%02u:%02u:%02u +0000",
                 (unsigned)tm.tm_mday % 100u, months[tm.tm_mon],
                 (unsigned)(tm.tm_year + 1900) % 10000u, (unsigned)tm.tm_hour % 100u,
                 (unsigned)tm.tm_min % 100u, (unsigned)tm.tm_sec % 100u);
        b->stamp_s = s;
    }
    return slice_of(b->stamp);
}

static void put_combined(struct access_buffer *b, const struct access_entry *e)
{
    struct text *t = &b->filling;

    text_add(t, e->client);
    text_add(t, SLICE_LIT(" - - ["));
    text_add(t, stamp(b, e->wall_ms));
    text_add(t, SLICE_LIT("] \""));
    put_escaped(t, e->method);
    text_add_char(t, ' ');
    put_escaped(t, e->target);
    text_add_char(t, ' ');
    text_add(t, e->protocol);
    put_key_u64(t, SLICE_LIT("\" "), (uint64_t)e->status);
    put_key_u64(t, SLICE_LIT(" "), e->sent_bytes);
    text_add_char(t, ' ');
    put_quoted(t, e->referer);
    text_add_char(t, ' ');
    put_quoted(t, e->agent);
    put_key_quoted(t, SLICE_LIT(" host="), e->host);
    put_key_quoted(t, SLICE_LIT(" application="), e->application);
    put_key_quoted(t, SLICE_LIT(" class="), e->cls);
    put_key_quoted(t, SLICE_LIT(" worker="), e->worker);
    put_key_word(t, SLICE_LIT(" reason="), e->reason);
    put_key_u64(t, SLICE_LIT(" tries="), e->tries);
    put_key_u64(t, SLICE_LIT(" received_bytes="), e->received_bytes);
    put_key_u64(t, SLICE_LIT(" limit_wait_us="), e->limit_wait_us);
    put_key_u64(t, SLICE_LIT(" worker_wait_us="), e->worker_wait_us);
    put_key_u64(t, SLICE_LIT(" connection_wait_us="), e->connection_wait_us);
    put_key_u64(t, SLICE_LIT(" first_byte_us="), e->first_byte_us);
    put_key_u64(t, SLICE_LIT(" service_us="), e->service_us);
    put_key_u64(t, SLICE_LIT(" total_us="), e->total_us);
    put_key_word(t, SLICE_LIT(" outcome="), e->outcome);
    put_key_quoted(t, SLICE_LIT(" request_id="), e->request_id);
    text_add_char(t, '\n');
}

static void put_json_field(struct json_writer *w, const char *name, struct slice s)
{
    if (s.len > FIELD_MAX)
        s.len = FIELD_MAX;
    json_put_text(w, name, s);
}

static void put_json(struct access_buffer *b, const struct access_entry *e)
{
    struct json_writer w = {.out = &b->filling};
    char time_text[40];
    time_t seconds = (time_t)(e->wall_ms / 1000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    size_t n = strftime(time_text, sizeof(time_text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(time_text + n, sizeof(time_text) - n, ".%03uZ", (unsigned)(e->wall_ms % 1000));
    json_open_object(&w, NULL);
    json_put_text(&w, "time", slice_of(time_text));
    put_json_field(&w, "client", e->client);
    put_json_field(&w, "method", e->method);
    put_json_field(&w, "target", e->target);
    put_json_field(&w, "protocol", e->protocol);
    json_put_int(&w, "status", e->status);
    json_put_int(&w, "sent_bytes", (int64_t)e->sent_bytes);
    put_json_field(&w, "referer", e->referer);
    put_json_field(&w, "agent", e->agent);
    put_json_field(&w, "host", e->host);
    put_json_field(&w, "application", e->application);
    put_json_field(&w, "class", e->cls);
    put_json_field(&w, "worker", e->worker);
    put_json_field(&w, "reason", e->reason);
    json_put_int(&w, "tries", e->tries);
    json_put_int(&w, "received_bytes", (int64_t)e->received_bytes);
    json_put_int(&w, "limit_wait_us", (int64_t)e->limit_wait_us);
    json_put_int(&w, "worker_wait_us", (int64_t)e->worker_wait_us);
    json_put_int(&w, "connection_wait_us", (int64_t)e->connection_wait_us);
    json_put_int(&w, "first_byte_us", (int64_t)e->first_byte_us);
    json_put_int(&w, "service_us", (int64_t)e->service_us);
    json_put_int(&w, "total_us", (int64_t)e->total_us);
    put_json_field(&w, "outcome", e->outcome);
    put_json_field(&w, "request_id", e->request_id);
    json_close_object(&w);
    text_add_char(&b->filling, '\n');
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
    if (atomic_load_explicit(&log->format, memory_order_relaxed) == ACCESS_JSON)
        put_json(b, e);
    else
        put_combined(b, e);
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

static int open_file(const char *file)
{
    if (strcmp(file, "-") == 0)
        return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    return open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
}

static uint64_t count_lines(struct slice s)
{
    uint64_t n = 0;

    for (size_t i = 0; i < s.len; ++i)
        n += s.p[i] == '\n';
    return n;
}

static void write_all(struct access_log *log, struct slice s)
{
    while (s.len != 0) {
        ssize_t n = write(log->fd, s.p, s.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            log_warn(NULL, "access-log-write", "file=%s error=\"%s\"", log->file, strerror(errno));
            atomic_fetch_add_explicit(&log->dropped, count_lines(s), memory_order_relaxed);
            return;
        }
        s.p += n;
        s.len -= (size_t)n;
    }
}

/* Takes each loop's lines by swapping its buffer for the empty SPARE, which then is that loop's. */
static void write_buffers(struct access_log *log, struct text *spare)
{
    for (unsigned i = 0; i < log->nloops; ++i) {
        struct access_buffer *b = &log->buffers[i];

        pthread_mutex_lock(&b->lock);
        struct text taken = b->filling;

        b->filling = *spare;
        b->full = false;
        pthread_mutex_unlock(&b->lock);
        write_all(log, text_slice(&taken));
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
    while (!log->pending && !log->reopen && !log->stop)
        pthread_cond_wait(&log->wake, &log->lock);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += BATCH_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        ++until.tv_sec;
    }
    while (!log->full && !log->reopen && !log->stop) {
        if (pthread_cond_timedwait(&log->wake, &log->lock, &until) == ETIMEDOUT)
            break;
    }
    bool stop = log->stop;

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

enum err access_log_create(const char *file, enum access_format format, unsigned nloops,
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
    for (unsigned i = 0; i < nloops; ++i)
        pthread_mutex_init(&log->buffers[i].lock, NULL);
    atomic_store(&log->format, (int)format);
    init_wake(log);
    int e = pthread_create(&log->writer, NULL, writer_main, log);

    ASSERT(e == 0);
    *out = log;
    return ERR_OK;
}

void access_log_set_format(struct access_log *log, enum access_format format)
{
    atomic_store_explicit(&log->format, (int)format, memory_order_relaxed);
}

void access_log_reopen(struct access_log *log)
{
    pthread_mutex_lock(&log->lock);
    log->reopen = true;
    pthread_cond_signal(&log->wake);
    pthread_mutex_unlock(&log->lock);
}

uint64_t access_log_dropped(const struct access_log *log)
{
    return atomic_load_explicit(&log->dropped, memory_order_relaxed);
}

void access_log_destroy(struct access_log *log)
{
    if (log == NULL)
        return;
    pthread_mutex_lock(&log->lock);
    log->stop = true;
    pthread_cond_signal(&log->wake);
    pthread_mutex_unlock(&log->lock);
    pthread_join(log->writer, NULL);
    for (unsigned i = 0; i < log->nloops; ++i) {
        text_fini(&log->buffers[i].filling);
        pthread_mutex_destroy(&log->buffers[i].lock);
    }
    pthread_cond_destroy(&log->wake);
    pthread_mutex_destroy(&log->lock);
    close(log->fd);
    free(log->buffers);
    free(log->file);
    free(log);
}
