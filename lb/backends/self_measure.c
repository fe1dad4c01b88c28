/* SPDX-License-Identifier: Apache-2.0
 *
 *   data loop    served -> meter (meter_lock) -> every `history` requests: resume -> pool
 *   writer       every 5 s, and after a resume: meters that have changed -> files
 *   control      join: file -> meter and pool; leave: marked, the writer writes and drops it
 *
 * The lock guards the list of workers and their flags; it is not held during a write.
 */
#include "lb/backends/self_measure.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/list.h"
#include "common/base/log.h"
#include "common/event/worker_thread.h"
#include "common/skills/resume.h"
#include "lb/core/lb.h"
#include "lb/core/route_wait.h"

enum {
    /* Maximum age of unsaved skills that a crash may lose. */
    WRITE_EVERY_MS = 5000,
    /* With a short history resumes are frequent; they are written at most this often. */
    WRITE_PAUSE_MS = 200,
    /* A file name has at most 255 bytes, of which writing adds some (".tmp.PID"). */
    FILE_NAME_MAX = 200,
    /* Skills in a file: what resume_line_parse takes, with room for the other members. */
    FILE_SKILLS_MAX = JSON_ENTRIES_MAX - 100,
};

struct self_measure {
    char *directory; /* NULL: nothing is stored */
    int lock_fd;
    struct worker_thread *writer; /* NULL: nothing is stored */
    struct worker_job round;
    pthread_mutex_t lock;
    struct list workers;      /* member->measured; under the lock; removed by the writer only */
    _Atomic bool flushing;    /* until a round that begins now has ended */
    _Atomic bool handed_over; /* nothing is written any more */
};

/* ---- files ---- */

/* The address is the name of the file: unix paths have slashes, and may be long. */
static char *file_path(const struct self_measure *s, const struct member *m)
{
    struct slice name = slice_of(worker_name(m->worker));
    struct text path = {0};

    text_addf(&path, "%s/%s/", s->directory, m->app->name);
    size_t begin = path.len;
    for (size_t i = 0; i < name.len; ++i) {
        if (name.p[i] == '/' || name.p[i] == '%' || name.p[i] <= ' ' || name.p[i] > '~')
            text_addf(&path, "%%%02X", (unsigned)(unsigned char)name.p[i]);
        else
            text_add_char(&path, name.p[i]);
    }
    if (path.len - begin > FILE_NAME_MAX) {
        path.len = begin + FILE_NAME_MAX - 17;
        text_addf(&path, "-%016llx", (unsigned long long)hash_fixed(name));
    }
    char *out = xslicedup(text_slice(&path));
    text_fini(&path);
    return out;
}

static const char *fingerprint_of(const struct member *m)
{
    return classifier_fingerprint(m->app->classifier);
}

/* Reads the resume stored in PATH into OUT (zero). Returns false if there is no usable one. */
static bool self_measure_load(const struct member *m, const char *path, struct resume_line *out)
{
    struct text bytes = {0};
    char why[160];
    const char *bad = NULL;
    enum err e = file_read_state(path, RESUME_LINE_MAX, &bytes);
    struct slice line = text_slice(&bytes);

    if (e == ERR_OK && (line.len == 0 || line.p[line.len - 1] != '\n')) {
        bad = "truncated";
    } else if (e == ERR_OK) {
        --line.len;
        e = resume_line_parse(line, JSON_ENTRIES_MAX, out, why);
        if (e != ERR_OK || out->end != RESUME_END_NONE)
            bad = e != ERR_OK && e != ERR_NOT_FOUND ? why : "not a resume";
    } else if (e == ERR_SYSTEM) {
        log_warn(NULL, "resume-not-read", "file=%s reason=\"%s\"", path, strerror(errno));
    } else if (e != ERR_NOT_FOUND) {
        bad = err_text(e);
    }
    if (bad != NULL) {
        log_warn(NULL, "resume-file-renamed", "file=%s reason=\"%s\"", log_shown(slice_of(path)),
                 bad);
        if (file_set_aside(path) != ERR_OK)
            log_warn(NULL, "resume-file-not-renamed", "file=%s reason=\"%s\"",
                     log_shown(slice_of(path)), strerror(errno));
    }
    text_fini(&bytes);
    if (bad != NULL || e != ERR_OK)
        return false;
    bool good = strcmp(out->fingerprint, fingerprint_of(m)) == 0;
    if (!good)
        log_info_folded(NULL, "resume-classifier-mismatch", "application=%s worker=%s",
                        m->app->name, worker_name(m->worker));
    return good;
}

static void write_file(struct member *m)
{
    const char *instance = worker_instance(m->worker);
    struct resume_line line = {.state = RESUME_READY, .concurrency = 1};
    struct text bytes = {0};

    latch_lock(&m->meter_lock);
    line.generation = meter_generation(m->meter);
    if (line.generation != m->measured.written)
        meter_resume(m->meter, FILE_SKILLS_MAX, &line.skills);
    latch_unlock(&m->meter_lock);
    if (line.generation == m->measured.written)
        return;
    snprintf(line.instance, sizeof(line.instance), "%s", instance[0] != '\0' ? instance : "-");
    snprintf(line.application, sizeof(line.application), "%s", m->app->name);
    snprintf(line.version, sizeof(line.version), "%s", m->version);
    snprintf(line.fingerprint, sizeof(line.fingerprint), "%s", fingerprint_of(m));
    resume_line_print(&line, &bytes);
    /* The next round tries again. */
    if (state_file_write(&m->measured.file, text_slice(&bytes), 0640))
        m->measured.written = line.generation;
    resume_line_fini(&line);
    text_fini(&bytes);
}

/* ---- the writer ---- */

static void write_all(struct self_measure *s)
{
    bool flushing = atomic_load(&s->flushing);

    pthread_mutex_lock(&s->lock);
    struct list *it = s->workers.next;
    while (it != &s->workers) {
        struct member *m = list_entry(it, struct member, measured.node);

        /* Only the writer removes workers, so M stays while the lock is released. */
        pthread_mutex_unlock(&s->lock);
        if (!atomic_load(&s->handed_over))
            write_file(m);
        pthread_mutex_lock(&s->lock);
        it = it->next;
        if (m->measured.leaving) {
            list_remove(&m->measured.node);
            pthread_mutex_unlock(&s->lock);
            worker_unref(m->worker);
            pthread_mutex_lock(&s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    if (flushing)
        atomic_store(&s->flushing, false);
}

static void write_round(struct worker_job *j)
{
    struct self_measure *s = container_of(j, struct self_measure, round);

    write_all(s);
    worker_thread_add(s->writer, j, WRITE_EVERY_MS);
}

static cold_ void write_soon(struct self_measure *s)
{
    worker_thread_add(s->writer, &s->round, WRITE_PAUSE_MS);
}

struct self_measure *self_measure_create(const char *directory, int lock_fd)
{
    struct self_measure *s = xcalloc(1, sizeof(*s));

    s->lock_fd = lock_fd;
    list_init(&s->workers);
    s->directory = xstrdup(directory);
    pthread_mutex_init(&s->lock, NULL);
    s->round.work = write_round;
    if (directory != NULL) {
        s->writer = worker_thread_create(NULL);
        worker_thread_add(s->writer, &s->round, WRITE_EVERY_MS);
    }
    return s;
}

void self_measure_flush(struct self_measure *s)
{
    if (s->directory == NULL)
        return;
    atomic_store(&s->flushing, true);
    worker_thread_add(s->writer, &s->round, 0);
}

bool self_measure_flushed(struct self_measure *s)
{
    return !atomic_load(&s->flushing);
}

int self_measure_lock(const struct self_measure *s)
{
    return s->lock_fd;
}

void self_measure_hand_over(struct self_measure *s)
{
    atomic_store(&s->handed_over, true);
    /* It belongs to the new process only; if that exits during the drain, the next one gets it. */
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    s->lock_fd = -1;
}

void self_measure_destroy(struct self_measure *s)
{
    struct member *m;

    if (s == NULL)
        return;
    (void)!worker_thread_destroy(s->writer, WORKER_THREAD_WAIT);
    write_all(s);
    while ((m = list_pop_entry(&s->workers, struct member, measured.node)) != NULL)
        worker_unref(m->worker);
    pthread_mutex_destroy(&s->lock);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    free(s->directory);
    free(s);
}

/* ---- workers ---- */

void self_measure_join(struct self_measure *s, struct member *m, struct member *from)
{
    struct resume_line line = {0};

    if (s->directory != NULL) {
        char *path = file_path(s, m);

        state_file_init(&m->measured.file, path);
        free(path);
    }
    if (from != NULL) {
        latch_lock(&from->meter_lock);
        meter_resume(from->meter, SIZE_MAX, &line.skills);
        latch_unlock(&from->meter_lock);
    } else if (s->directory != NULL && !self_measure_load(m, m->measured.file.path, &line)) {
        resume_line_fini(&line);
        line = (struct resume_line){0};
    }
    meter_load(m->meter, &line.skills);
    /* From now on the meter of M is stored in its file, if its contents change. */
    if (s->directory != NULL) {
        m->measured.written = meter_generation(m->meter);
        worker_ref(m->worker);
        pthread_mutex_lock(&s->lock);
        list_push_back(&s->workers, &m->measured.node);
        pthread_mutex_unlock(&s->lock);
    }
    member_resume(m, &line.skills, m->version, fingerprint_of(m));
    resume_line_fini(&line);
}

void self_measure_forget(struct self_measure *s, struct member *m, const struct slice *cls)
{
    latch_lock(&m->meter_lock);
    if (m->meter != NULL)
        meter_forget(m->meter, cls);
    latch_unlock(&m->meter_lock);
    if (s->directory != NULL)
        write_soon(s);
}

void self_measure_leave(struct self_measure *s, struct member *m)
{
    if (s->directory == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    m->measured.leaving = true;
    pthread_mutex_unlock(&s->lock);
    write_soon(s);
}

/* With the meter locked, so that resumes of two loops reach the pool in their order. */
static cold_ void update_pool(struct member *m, struct list *released)
{
    struct application *a = m->app;
    struct resume r = {0};

    meter_resume(m->meter, SIZE_MAX, &r);
    pthread_mutex_lock(&a->members_lock);
    /* One that has left must not be added again by this. */
    if (m->joined)
        pool_new_resume(a->pool, m->worker, &r, m->version, fingerprint_of(m), released);
    pthread_mutex_unlock(&a->members_lock);
    resume_fini(&r);
}

void member_served(struct member *m, struct slice cls, uint64_t hash, uint64_t service_us,
                   bool failed, bool passing)
{
    struct self_measure *s = m->app->lb->self_measure;
    struct list released;

    atomic_fetch_add_explicit(&m->requests, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->service_us, service_us, memory_order_relaxed);
    if (failed)
        atomic_fetch_add_explicit(&m->failures, 1, memory_order_relaxed);
    if (m->meter == NULL)
        return;
    if (m->homes != NULL && !passing)
        member_home_served(m, cls, service_us);
    latch_lock(&m->meter_lock);
    bool due = meter_add_hashed(m->meter, cls, hash, (double)service_us / 1e6, failed);
    if (due) {
        list_init(&released);
        update_pool(m, &released);
    }
    latch_unlock(&m->meter_lock);
    if (!due)
        return;
    route_wait_wake(&released);
    if (s->directory != NULL)
        write_soon(s);
}
