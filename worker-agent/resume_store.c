/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/resume_store.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/base/list.h"
#include "common/base/log.h"

struct job {
    struct list node;
    char *path;
    struct text bytes;
    bool remove;
};

struct resume_store {
    pthread_t thread;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t wake;
    struct list jobs;
    bool stop;
};

static void job_free(struct job *j)
{
    free(j->path);
    text_fini(&j->bytes);
    free(j);
}

static void do_job(struct job *j)
{
    if (j->remove) {
        if (unlink(j->path) != 0 && errno != ENOENT)
            log_warn(NULL, "resume-not-removed", "path=%s error=\"%s\"", j->path, strerror(errno));
    } else if (file_write(j->path, text_slice(&j->bytes)) != ERR_OK) {
        log_warn(NULL, "resume-not-written", "path=%s error=\"%s\"", j->path, strerror(errno));
    }
    job_free(j);
}

static void *run(void *arg)
{
    struct resume_store *s = arg;

    pthread_mutex_lock(&s->mutex);
    for (;;) {
        struct list *node = list_pop_front(&s->jobs);

        if (node != NULL) {
            pthread_mutex_unlock(&s->mutex);
            do_job(list_entry(node, struct job, node));
            pthread_mutex_lock(&s->mutex);
        } else if (s->stop) {
            break;
        } else {
            pthread_cond_wait(&s->wake, &s->mutex);
        }
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

struct resume_store *resume_store_create(void)
{
    struct resume_store *s = xcalloc(1, sizeof(*s));

    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->wake, NULL);
    list_init(&s->jobs);
    ASSERT(pthread_create(&s->thread, NULL, run, s) == 0);
    return s;
}

void resume_store_destroy(struct resume_store *s)
{
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->mutex);
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

/* The waiting job for PATH, which J is put in the place of; or NULL. */
static struct job *take_older_locked(struct resume_store *s, const char *path)
{
    struct list *it;

    list_for_each (it, &s->jobs) {
        struct job *j = list_entry(it, struct job, node);

        if (strcmp(j->path, path) == 0) {
            list_remove(&j->node);
            return j;
        }
    }
    return NULL;
}

static void add(struct resume_store *s, struct job *j)
{
    pthread_mutex_lock(&s->mutex);
    struct job *older = take_older_locked(s, j->path);
    list_push_back(&s->jobs, &j->node);
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->mutex);
    if (older != NULL)
        job_free(older);
}

void resume_store_put(struct resume_store *s, const char *path, struct slice bytes)
{
    struct job *j = xcalloc(1, sizeof(*j));

    j->path = xstrdup(path);
    text_add(&j->bytes, bytes);
    add(s, j);
}

void resume_store_remove(struct resume_store *s, const char *path)
{
    struct job *j = xcalloc(1, sizeof(*j));

    j->path = xstrdup(path);
    j->remove = true;
    add(s, j);
}
