/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/pool/resume_store.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/event/worker_thread.h"

/* The pending contents of a file; none: it is to be removed. */
struct resume_change {
    struct list node;
    struct state_file file;
    struct text bytes;
};

struct resume_store {
    struct worker_thread *thread;
    struct worker_job job;
    pthread_mutex_t mutex; /* of CHANGES */
    struct list changes;
    bool ending; /* the thread has ended: nothing is retried */
};

static void change_free(struct resume_change *c)
{
    state_file_fini(&c->file);
    text_fini(&c->bytes);
    free(c);
}

static struct resume_change *find_change_locked(struct resume_store *s, const char *path)
{
    struct resume_change *c;

    list_for_each_entry (c, &s->changes, node) {
        if (strcmp(c->file.path, path) == 0)
            return c;
    }
    return NULL;
}

/* A change that cannot be applied remains, unless there is a newer one. */
static void apply_all(struct worker_job *j)
{
    struct resume_store *s = container_of(j, struct resume_store, job);

    struct list now;
    struct resume_change *c;
    bool failed = false;

    pthread_mutex_lock(&s->mutex);
    list_take(&now, &s->changes);
    pthread_mutex_unlock(&s->mutex);
    while ((c = list_pop_entry(&now, struct resume_change, node)) != NULL) {
        if (c->bytes.len == 0 ? state_file_remove(&c->file)
                              : state_file_write(&c->file, text_slice(&c->bytes), 0640)) {
            change_free(c);
            continue;
        }
        failed = true;
        pthread_mutex_lock(&s->mutex);
        struct resume_change *newer = find_change_locked(s, c->file.path);
        if (newer == NULL)
            list_push_back(&s->changes, &c->node);
        pthread_mutex_unlock(&s->mutex);
        if (newer != NULL)
            change_free(c);
    }
    if (failed && !s->ending)
        worker_thread_add(s->thread, j, STATE_FILE_RETRY_MS);
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
    s->ending = true;
    apply_all(&s->job);
    struct resume_change *c;
    while ((c = list_pop_entry(&s->changes, struct resume_change, node)) != NULL)
        change_free(c);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

void resume_store_put(struct resume_store *s, const char *path, struct slice bytes)
{
    pthread_mutex_lock(&s->mutex);
    struct resume_change *c = find_change_locked(s, path);
    if (c == NULL) {
        c = xcalloc(1, sizeof(*c));
        state_file_init(&c->file, path);
        list_push_back(&s->changes, &c->node);
    }
    text_clear(&c->bytes);
    text_add(&c->bytes, bytes);
    pthread_mutex_unlock(&s->mutex);
    worker_thread_add(s->thread, &s->job, 0);
}
