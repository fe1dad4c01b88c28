/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs are moved between lists under one mutex; one message carries any number of them to the loop.
 * Owner, thread and message each hold a reference: a thread that is abandoned, and a message that
 * is still in the mailbox, outlive the owner.
 */
#include "common/event/worker_thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/log.h"

struct worker_thread {
    struct loop *loop;
    pthread_t thread;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t wake;   /* the thread: a job, or the end */
    pthread_cond_t quiet;  /* its owner: it has ended */
    struct list jobs;      /* that wait, by due_us */
    struct list finished;  /* to be reported */
    unsigned refs;
    bool stop, ended;
    bool left;   /* abandoned by its owner, in a job */
    bool posted; /* the message is in the mailbox */
    struct loop_message message;
};

/* Must be called with the mutex held, which is released. */
static void unref_locked(struct worker_thread *t)
{
    bool last = --t->refs == 0;

    pthread_mutex_unlock(&t->mutex);
    if (!last)
        return;
    pthread_cond_destroy(&t->wake);
    pthread_cond_destroy(&t->quiet);
    pthread_mutex_destroy(&t->mutex);
    free(t);
}

static void thread_report(struct list *jobs, bool dropped)
{
    struct worker_job *j;

    while ((j = list_pop_entry(jobs, struct worker_job, node)) != NULL) {
        if (j->done != NULL)
            j->done(j, dropped);
    }
}

static void on_thread_message(struct loop_message *m)
{
    struct worker_thread *t = container_of(m, struct worker_thread, message);
    struct list finished;

    pthread_mutex_lock(&t->mutex);
    t->posted = false;
    list_take(&finished, &t->finished);
    unref_locked(t);
    thread_report(&finished, false);
}

/* The mutex is held, but not while J is worked on. */
static void work_locked(struct worker_thread *t, struct worker_job *j)
{
    bool reports = j->done != NULL;

    list_remove(&j->node);
    pthread_mutex_unlock(&t->mutex);
    j->work(j);
    pthread_mutex_lock(&t->mutex);
    if (reports)
        list_push_back(&t->finished, &j->node);
    if (!reports || t->posted || t->stop)
        return;
    t->posted = true;
    ++t->refs;
    pthread_mutex_unlock(&t->mutex);
    loop_post(t->loop, &t->message);
    pthread_mutex_lock(&t->mutex);
}

/* Waits for C until UNTIL_US of the monotonic clock at most. Returns 0, or ETIMEDOUT. */
static int wait_until_locked(struct worker_thread *t, pthread_cond_t *c, uint64_t until_us)
{
    const struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                                   .tv_nsec = (long)(until_us % 1000000) * 1000};

    return pthread_cond_clockwait(c, &t->mutex, CLOCK_MONOTONIC, &until);
}

static void *thread_run(void *arg)
{
    struct worker_thread *t = arg;
    struct list dropped;

    list_init(&dropped);
    pthread_mutex_lock(&t->mutex);
    while (!t->stop) {
        if (list_empty(&t->jobs)) {
            pthread_cond_wait(&t->wake, &t->mutex);
            continue;
        }
        struct worker_job *first = list_first(&t->jobs, struct worker_job, node);

        if (first->due_us > clock_mono_us())
            (void)wait_until_locked(t, &t->wake, first->due_us);
        else
            work_locked(t, first);
    }
    t->ended = true;
    if (t->left)
        list_splice_back(&dropped, &t->finished);
    pthread_cond_signal(&t->quiet);
    unref_locked(t);
    thread_report(&dropped, true);
    return NULL;
}

struct worker_thread *worker_thread_create(struct loop *l)
{
    struct worker_thread *t = xcalloc(1, sizeof(*t));

    t->loop = l;
    t->message.run = on_thread_message;
    t->refs = 2;
    list_init(&t->jobs);
    list_init(&t->finished);
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_cond_init(&t->quiet, NULL);
    int failed = pthread_create(&t->thread, NULL, thread_run, t);
    ASSERT(!failed);
    return t;
}

bool worker_thread_destroy(struct worker_thread *t, uint64_t patience_ms)
{
    uint64_t until_us = clock_mono_us() + patience_ms * 1000;
    struct list left;
    int r = 0;

    if (t == NULL)
        return true;
    pthread_mutex_lock(&t->mutex);
    t->stop = true;
    pthread_cond_signal(&t->wake);
    while (!t->ended && r == 0)
        r = patience_ms == WORKER_THREAD_WAIT ? pthread_cond_wait(&t->quiet, &t->mutex)
                                              : wait_until_locked(t, &t->quiet, until_us);
    bool ended = t->ended;
    pthread_t thread = t->thread;

    t->left = !ended;
    list_take(&left, &t->finished);
    list_splice_back(&left, &t->jobs);
    unref_locked(t);
    if (ended)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
    if (!ended && patience_ms != 0)
        log_warn(NULL, "background-thread-stuck", "action=\"abandon it\"");
    thread_report(&left, true);
    return ended;
}

void worker_thread_add(struct worker_thread *t, struct worker_job *j, uint64_t delay_ms)
{
    uint64_t due_us = delay_ms != 0 ? clock_mono_us() + delay_ms * 1000 : 0;
    struct list *at = &t->jobs;

    pthread_mutex_lock(&t->mutex);
    if (!list_linked(&j->node) || due_us < j->due_us) {
        list_remove(&j->node);
        j->due_us = due_us;
        /* Behind those that are due at the same time or before. */
        while (at->prev != &t->jobs &&
               list_entry(at->prev, struct worker_job, node)->due_us > due_us)
            at = at->prev;
        list_insert_before(at, &j->node);
        pthread_cond_signal(&t->wake);
    }
    pthread_mutex_unlock(&t->mutex);
}
