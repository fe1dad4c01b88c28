/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs go from one list to another under one mutex; one message carries any number of them home. A
 * message that is still in the mailbox when the thread has ended frees what is left of it.
 */
#include "worker-agent/background.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/log.h"

struct background {
    struct loop *loop;
    pthread_t thread;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t wake;   /* the thread: a job, or the end */
    pthread_cond_t quiet;  /* its owner: it has ended */
    struct list jobs;
    struct list finished;
    bool stop, ended;
    bool posted; /* the message is in the mailbox */
    bool orphan; /* and is to free this */
    struct loop_message message;
};

static void free_now(struct background *b)
{
    pthread_cond_destroy(&b->wake);
    pthread_cond_destroy(&b->quiet);
    pthread_mutex_destroy(&b->mutex);
    free(b);
}

static void report(struct list *jobs, bool dropped)
{
    struct list *node;

    while ((node = list_pop_front(jobs)) != NULL) {
        struct background_job *j = list_entry(node, struct background_job, node);

        j->done(j, dropped);
    }
}

static void on_message(struct loop_message *m)
{
    struct background *b = container_of(m, struct background, message);
    struct list finished;

    if (b->stop) {
        if (b->orphan)
            free_now(b);
        return;
    }
    list_init(&finished);
    pthread_mutex_lock(&b->mutex);
    b->posted = false;
    list_splice_back(&finished, &b->finished);
    pthread_mutex_unlock(&b->mutex);
    report(&finished, false);
}

/* The mutex is held, but not while J is worked on. */
static void work_locked(struct background *b, struct background_job *j)
{
    pthread_mutex_unlock(&b->mutex);
    j->work(j);
    pthread_mutex_lock(&b->mutex);
    list_push_back(&b->finished, &j->node);
    if (b->posted || b->stop)
        return;
    b->posted = true;
    pthread_mutex_unlock(&b->mutex);
    loop_post(b->loop, &b->message);
    pthread_mutex_lock(&b->mutex);
}

static void *run(void *arg)
{
    struct background *b = arg;

    pthread_mutex_lock(&b->mutex);
    while (!b->stop) {
        struct list *node = list_pop_front(&b->jobs);

        if (node != NULL)
            work_locked(b, list_entry(node, struct background_job, node));
        else
            pthread_cond_wait(&b->wake, &b->mutex);
    }
    b->ended = true;
    pthread_cond_signal(&b->quiet);
    pthread_mutex_unlock(&b->mutex);
    return NULL;
}

struct background *background_create(struct loop *l)
{
    struct background *b = xcalloc(1, sizeof(*b));
    pthread_condattr_t monotonic;

    b->loop = l;
    b->message.run = on_message;
    list_init(&b->jobs);
    list_init(&b->finished);
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->wake, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->quiet, &monotonic);
    pthread_condattr_destroy(&monotonic);
    ASSERT(pthread_create(&b->thread, NULL, run, b) == 0);
    return b;
}

static bool await_end_locked(struct background *b)
{
    struct timespec until;
    int r = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += BACKGROUND_STUCK_MS / 1000;
    while (!b->ended && r == 0)
        r = pthread_cond_timedwait(&b->quiet, &b->mutex, &until);
    return b->ended;
}

bool background_destroy(struct background *b)
{
    struct list left;

    if (b == NULL)
        return true;
    list_init(&left);
    pthread_mutex_lock(&b->mutex);
    b->stop = true;
    pthread_cond_signal(&b->wake);
    bool ended = await_end_locked(b);
    b->orphan = ended;
    list_splice_back(&left, &b->finished);
    list_splice_back(&left, &b->jobs);
    pthread_mutex_unlock(&b->mutex);
    if (ended) {
        pthread_join(b->thread, NULL);
    } else {
        /* It finds, if ever, that it is to stop; B stays for that. */
        pthread_detach(b->thread);
        log_warn(NULL, "background-thread-hangs", "action=\"left behind\"");
    }
    report(&left, true);
    if (ended && !b->posted)
        free_now(b);
    return ended;
}

void background_add(struct background *b, struct background_job *j)
{
    pthread_mutex_lock(&b->mutex);
    list_push_back(&b->jobs, &j->node);
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->mutex);
}
