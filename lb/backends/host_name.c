/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/backends/host_name.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "lb/core/lb.h"

static bool same_addrs(const struct host_name *h, const struct addr *addrs, size_t naddrs)
{
    if (h->naddrs != naddrs)
        return false;
    for (size_t i = 0; i < naddrs; ++i) {
        if (!addr_equal(&h->addrs[i], &addrs[i]))
            return false;
    }
    return true;
}

static void on_resolved(struct resolve_request *r, enum err e, const struct addr *addrs, size_t n)
{
    struct host_name *h = container_of(r, struct host_name, request);

    h->answered = true;
    timer_start(h->app->lb->control, &h->again, h->app->settings->s.resolve_interval_ms);
    if (e != ERR_OK || n == 0) {
        /* The last addresses are retained: a failing name server does not remove workers. */
        if (!h->failing)
            log_warn(NULL, "worker-not-resolved", "application=%s worker=%s reason=\"%s\"",
                     h->app->name, h->text, err_text(e));
        h->failing = true;
        return;
    }
    h->failing = false;
    if (same_addrs(h, addrs, n))
        return;
    free(h->addrs);
    h->addrs = xcalloc(n, sizeof(*addrs));
    memcpy(h->addrs, addrs, n * sizeof(*addrs));
    h->naddrs = n;
    log_info_folded(NULL, "worker-resolved", "application=%s worker=%s count=%zu", h->app->name,
                    h->text, n);
    h->changed(h->context);
}

static void on_again(struct timer *t)
{
    host_name_ask(container_of(t, struct host_name, again));
}

struct host_name *host_name_create(struct application *a, const char *text,
                                   void (*changed)(void *context), void *context)
{
    struct host_name *h = xcalloc(1, sizeof(*h));

    h->app = a;
    h->text = xstrdup(text);
    h->changed = changed;
    h->context = context;
    h->request.done = on_resolved;
    timer_init(&h->again, on_again);
    host_name_ask(h);
    return h;
}

void host_name_destroy(struct host_name *h)
{
    if (h == NULL)
        return;
    resolver_cancel(&h->request);
    timer_stop(&h->again);
    free(h->addrs);
    free(h->text);
    free(h);
}

void host_name_ask(struct host_name *h)
{
    timer_stop(&h->again);
    if (h->request.job == NULL)
        resolver_ask(h->app->lb->resolver, slice_of(h->text), &h->request);
}
