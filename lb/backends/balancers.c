/* SPDX-License-Identifier: Apache-2.0
 *
 * A load balancer may be registered under several names, one for each address that it listens on.
 * Instances are counted, not names. A registration without an instance (another program) is not
 * counted.
 */
#include "lb/backends/balancers.h"

#include <stdlib.h>

#include "common/base/json.h"
#include "common/base/log.h"
#include "routing/pool.h"

struct balancers {
    struct application *app;
    struct tree_watch *watch;
    uint64_t own;
    uint64_t ids[HOMES_BALANCERS_MAX + 1]; /* in order */
    size_t n;
};

/* The first 16 of its hexadecimal digits; 0: it is none. */
static uint64_t id_of(struct slice instance)
{
    uint64_t id = 0;

    if (instance.len != BALANCER_INSTANCE_ROOM - 1)
        return 0;
    for (size_t i = 0; i < 16; ++i) {
        static const char digits[] = "0123456789abcdef";
        const char *at = memchr(digits, instance.p[i], sizeof(digits) - 1);

        if (at == NULL)
            return 0;
        id = id << 4 | (uint64_t)(at - digits);
    }
    return id;
}

/* Keeps the order; one more than may be is enough to know that they are too many. */
static void add(uint64_t *ids, size_t *n, uint64_t id)
{
    size_t at = 0;

    while (at < *n && ids[at] < id)
        ++at;
    if (id == 0 || *n > HOMES_BALANCERS_MAX || (at < *n && ids[at] == id))
        return;
    memmove(&ids[at + 1], &ids[at], (*n - at) * sizeof(ids[0]));
    ids[at] = id;
    ++*n;
}

static void tell_pool(struct balancers *b)
{
    size_t self = 0;

    while (self < b->n && b->ids[self] != b->own)
        ++self;
    bool shared = b->n > 1 && b->n <= HOMES_BALANCERS_MAX && self < b->n;
    /* Workers without an agent store no homes to agree on. */
    shared = shared && b->app->settings->s.resume != RESUME_FROM_MEASURE;
    pool_set_balancers(b->app->pool, b->ids, shared ? b->n : 0, shared ? self : 0);
    log_info(NULL, "balancers-changed", "application=%s registered=%zu shared=%s", b->app->name,
             b->n, shared ? "yes" : "no");
}

static void on_changed(void *context, const struct tree_node *node)
{
    struct balancers *b = context;
    uint64_t ids[HOMES_BALANCERS_MAX + 1];
    size_t n = 0;

    if (!node->providers_known)
        return;
    for (size_t i = 0; i < node->nproviders; ++i)
        add(ids, &n, id_of(json_text(node->providers[i].properties, BALANCER_INSTANCE)));
    if (n == b->n && memcmp(ids, b->ids, n * sizeof(ids[0])) == 0)
        return;
    memcpy(b->ids, ids, n * sizeof(ids[0]));
    b->n = n;
    tell_pool(b);
}

struct balancers *balancers_create(struct application *a, struct tree *t, const char *path,
                                   const char *own)
{
    struct balancers *b = xcalloc(1, sizeof(*b));

    b->app = a;
    b->own = id_of(slice_of(own));
    b->watch = tree_watch(t, path, on_changed, b);
    return b;
}

void balancers_destroy(struct balancers *b)
{
    if (b == NULL)
        return;
    tree_unwatch(b->watch);
    pool_set_balancers(b->app->pool, NULL, 0, 0);
    free(b);
}

size_t balancers_count(const struct balancers *b)
{
    return b != NULL && b->n > 1 ? b->n : 1;
}
