/* SPDX-License-Identifier: Apache-2.0
 *
 * A job belongs to the queue, then to the thread, then to the message that brings it back; the
 * request it is for is only looked at on the loop, where it may have been cancelled (job->request
 * == NULL). What the thread shares is counted, so that a thread inside a hanging look-up can be
 * left behind.
 */
#include "lb/resolver.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/base/text.h"

/* Addresses of one name; more would be a mistake of its zone. */
enum { ADDRS_MAX = 64 };

struct shared {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct list queue; /* of jobs */
    struct loop *loop; /* NULL: nobody waits for answers any more */
    unsigned refs;
};

struct resolver {
    struct shared *shared;
    struct list jobs; /* the loop's: all that have not come back */
};

struct resolver_job {
    struct list node;     /* in the queue */
    struct list all_node; /* resolver->jobs; the loop's */
    struct loop_message message;
    struct resolve_request *request; /* the loop's; NULL: cancelled */
    char *name;
    struct addr addrs[ADDRS_MAX];
    size_t n;
    enum err error;
    bool posted; /* in the loop's mailbox, which runs it */
};

static void shared_unref_locked(struct shared *s)
{
    bool last = --s->refs == 0;

    pthread_mutex_unlock(&s->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->wake);
    free(s);
}

static void job_free(struct resolver_job *j)
{
    list_remove(&j->all_node);
    free(j->name);
    free(j);
}

/* On the loop. */
static void on_answer(struct loop_message *m)
{
    struct resolver_job *j = container_of(m, struct resolver_job, message);
    struct resolve_request *q = j->request;

    if (q != NULL) {
        q->job = NULL;
        q->done(q, j->error, j->addrs, j->n);
    }
    job_free(j);
}

static void look_up(struct resolver_job *j)
{
    j->n = ADDRS_MAX;
    j->error = addr_resolve(slice_of(j->name), j->addrs, &j->n);
}

static void *run(void *context)
{
    struct shared *s = context;

    pthread_mutex_lock(&s->lock);
    while (s->loop != NULL) {
        struct list *node = list_pop_front(&s->queue);

        if (node == NULL) {
            pthread_cond_wait(&s->wake, &s->lock);
            continue;
        }
        struct resolver_job *j = list_entry(node, struct resolver_job, node);
        /* The look-up works on a copy: whoever ends meanwhile frees the job. */
        struct resolver_job *copy = xcalloc(1, sizeof(*copy));
        copy->name = xstrdup(j->name);
        pthread_mutex_unlock(&s->lock);
        look_up(copy);
        pthread_mutex_lock(&s->lock);
        if (s->loop != NULL) {
            memcpy(j->addrs, copy->addrs, sizeof(j->addrs));
            j->n = copy->n;
            j->error = copy->error;
            j->posted = true;
            loop_post(s->loop, &j->message);
        }
        free(copy->name);
        free(copy);
    }
    shared_unref_locked(s);
    return NULL;
}

struct resolver *resolver_create(struct loop *l)
{
    struct resolver *r = xcalloc(1, sizeof(*r));
    pthread_attr_t attr;
    pthread_t thread;

    list_init(&r->jobs);
    r->shared = xcalloc(1, sizeof(*r->shared));
    pthread_mutex_init(&r->shared->lock, NULL);
    pthread_cond_init(&r->shared->wake, NULL);
    list_init(&r->shared->queue);
    r->shared->loop = l;
    r->shared->refs = 2;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    ASSERT(pthread_create(&thread, &attr, run, r->shared) == 0);
    pthread_attr_destroy(&attr);
    return r;
}

void resolver_destroy(struct resolver *r)
{
    struct list *it = NULL;
    struct list *tmp = NULL;

    if (r == NULL)
        return;
    pthread_mutex_lock(&r->shared->lock);
    r->shared->loop = NULL;
    pthread_cond_signal(&r->shared->wake);
    /* None of them is touched by the thread any more; those in the mailbox free themselves there.
     */
    list_for_each_safe (it, tmp, &r->jobs) {
        struct resolver_job *j = list_entry(it, struct resolver_job, all_node);

        ASSERT(j->request == NULL);
        list_remove(&j->all_node);
        if (!j->posted)
            job_free(j);
    }
    shared_unref_locked(r->shared);
    free(r);
}

void resolver_ask(struct resolver *r, struct slice name, struct resolve_request *q)
{
    struct resolver_job *j = xcalloc(1, sizeof(*j));

    ASSERT(q->job == NULL);
    j->name = xslicedup(name);
    j->message.run = on_answer;
    j->request = q;
    q->job = j;
    list_push_back(&r->jobs, &j->all_node);
    pthread_mutex_lock(&r->shared->lock);
    list_push_back(&r->shared->queue, &j->node);
    pthread_cond_signal(&r->shared->wake);
    pthread_mutex_unlock(&r->shared->lock);
}

void resolver_cancel(struct resolve_request *q)
{
    if (q->job != NULL)
        q->job->request = NULL;
    q->job = NULL;
}
