/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/pool/resume_store.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/event/worker_thread.h"

/* The pending contents of a file; none: it is to be removed. */
struct change {
    struct list node;
    char *path;
    struct text bytes;
};

struct resume_store {
    struct worker_thread *thread;
    struct worker_job job;
    pthread_mutex_t mutex; /* of CHANGES */
    struct list changes;
};

static void change_free(struct change *c)
{
    free(c->path);
    text_fini(&c->bytes);
    free(c);
}

static void apply_all(struct worker_job *j)
{
    struct resume_store *s = container_of(j, struct resume_store, job);

    for (;;) {
        pthread_mutex_lock(&s->mutex);
        struct change *c = list_pop_entry(&s->changes, struct change, node);
        pthread_mutex_unlock(&s->mutex);
        if (c == NULL)
            return;
        if (c->bytes.len == 0) {
            if (unlink(c->path) != 0 && errno != ENOENT)
                log_warn(NULL, "resume-not-removed", "file=%s reason=\"%s\"", c->path,
                         strerror(errno));
        } else if (file_write(c->path, text_slice(&c->bytes), 0640) != ERR_OK) {
            log_warn(NULL, "resume-not-written", "file=%s reason=\"%s\"", c->path, strerror(errno));
        }
        change_free(c);
    }
}

struct resume_store *resume_store_create(void)
{
    struct resume_store *s = xcalloc(1, sizeof(*s));

    pthread_mutex_init(&s->mutex, NULL);
    list_init(&s->changes);
    s->job.work = apply_all;
    s->thread = worker_thread_create(NULL);
    return s;
}

void resume_store_destroy(struct resume_store *s)
{
    if (s == NULL)
        return;
    (void)!worker_thread_destroy(s->thread, WORKER_THREAD_WAIT);
    apply_all(&s->job);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

void resume_store_put(struct resume_store *s, const char *path, struct slice bytes)
{
    struct change *c = xcalloc(1, sizeof(*c));
    struct change *older;

    c->path = xstrdup(path);
    text_add(&c->bytes, bytes);
    pthread_mutex_lock(&s->mutex);
    list_for_each_entry (older, &s->changes, node) {
        if (strcmp(older->path, path) == 0) {
            list_remove(&older->node);
            change_free(older);
            break;
        }
    }
    list_push_back(&s->changes, &c->node);
    pthread_mutex_unlock(&s->mutex);
    worker_thread_add(s->thread, &s->job, 0);
}
