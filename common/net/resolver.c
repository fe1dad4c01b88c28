/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/resolver.h"

#include <stdlib.h>

#include "common/base/text.h"

/* Addresses of one name; more would be a mistake of its zone. */
enum { ADDRS_MAX = 64 };

struct resolver_job {
    struct worker_job base;
    struct resolve_request *request; /* the loop's; NULL: cancelled */
    char *name;
    struct addr addrs[ADDRS_MAX];
    size_t n;
    enum err error;
};

static void look_up(struct worker_job *base)
{
    struct resolver_job *j = container_of(base, struct resolver_job, base);

    j->n = ADDRS_MAX;
    j->error = addr_resolve(slice_of(j->name), j->addrs, &j->n);
}

static void on_answer(struct worker_job *base, bool dropped)
{
    struct resolver_job *j = container_of(base, struct resolver_job, base);
    struct resolve_request *q = j->request;

    /* At the end of the thread every request is answered or cancelled. */
    ASSERT(q == NULL || !dropped);
    if (q != NULL) {
        q->job = NULL;
        q->done(q, j->error, j->addrs, j->n);
    }
    free(j->name);
    free(j);
}

void resolver_ask(struct worker_thread *t, struct slice name, struct resolve_request *q)
{
    struct resolver_job *j = xcalloc(1, sizeof(*j));

    ASSERT(q->job == NULL);
    j->base.work = look_up;
    j->base.done = on_answer;
    j->name = xslicedup(name);
    j->request = q;
    q->job = j;
    worker_thread_add(t, &j->base, 0);
}

void resolver_cancel(struct resolve_request *q)
{
    if (q->job != NULL)
        q->job->request = NULL;
    q->job = NULL;
}
