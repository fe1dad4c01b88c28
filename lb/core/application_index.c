/* SPDX-License-Identifier: Apache-2.0
 *
 * Selects the application for a Host and path: a table of hosts, exact and wildcard
 * ("*.shop.example" is stored as ".shop.example"), each with its applications, longest path first.
 *
 *   a.b.example  ->  "a.b.example", then ".b.example", ".example", then the default
 *
 * For a Host that has entries, but none for the path, the search continues at the next wider one.
 * The default is only for Hosts that no application has.
 */
#include "lb/core/application.h"

#include <stdlib.h>

#include "common/base/map.h"
#include "lb/core/lb.h"

enum { HOST_ROOM = 256 };

struct host_entry {
    struct map_node in_hosts;
    char *host;
    struct application **applications; /* longest path first */
    size_t n;
};

struct application_index {
    struct map hosts;           /* of host_entry, by host */
    struct host_entry fallback; /* hosts that no application has */
    struct application *only;   /* serves every Host and path; or NULL */
};

static void entry_add(struct host_entry *e, struct application *a)
{
    size_t i = e->n;

    e->applications = xrealloc(e->applications, (e->n + 1) * sizeof(struct application *));
    for (; i > 0 && e->applications[i - 1]->path.len < a->path.len; --i)
        e->applications[i] = e->applications[i - 1];
    e->applications[i] = a;
    ++e->n;
}

static struct host_entry *entry_find(const struct application_index *x, struct slice host)
{
    return map_entry(map_find(&x->hosts, host.p, host.len), struct host_entry, in_hosts);
}

static void index_add(struct application_index *x, const char *host, struct application *a)
{
    struct slice key = slice_of(host[0] == '*' ? host + 1 : host);
    struct host_entry *e = entry_find(x, key);

    if (e == NULL) {
        e = xcalloc(1, sizeof(*e));
        e->host = xslicedup(key);
        map_add(&x->hosts, &e->in_hosts, e->host, key.len);
    }
    entry_add(e, a);
}

struct application_index *application_index_create(struct application *const *applications,
                                                   size_t n)
{
    struct application_index *x = xcalloc(1, sizeof(*x));

    for (size_t i = 0; i < n; ++i) {
        struct application *a = applications[i];

        for (size_t k = 0; k < a->hosts.n; ++k)
            index_add(x, a->hosts.items[k], a);
        if (a->is_default)
            entry_add(&x->fallback, a);
    }
    if (x->hosts.first == NULL && x->fallback.n == 1 && x->fallback.applications[0]->path.len == 0)
        x->only = x->fallback.applications[0];
    return x;
}

void application_index_destroy(struct application_index *x)
{

    if (x == NULL)
        return;
    map_for_each_safe (struct host_entry, e, &x->hosts, in_hosts) {
        map_remove(&x->hosts, &e->in_hosts);
        free(e->applications);
        free(e->host);
        free(e);
    }
    free(x->fallback.applications);
    free(x);
}

static bool serves(const struct application *a, struct slice path)
{
    if (!slice_starts(path, a->path))
        return false;
    /* "/w" takes /w and /w/x, not /wonder. */
    return path.len == a->path.len || path.p[a->path.len] == '/' || path.p[a->path.len] == '?' ||
           a->path.len == 0;
}

static struct application *entry_pick(const struct host_entry *e, struct slice path)
{
    for (size_t i = 0; i < e->n; ++i) {
        if (serves(e->applications[i], path))
            return e->applications[i];
    }
    return NULL;
}

/* Host as sent, into OUT: lower case, without port and trailing dot. Empty when no application can
 * have it.
 */
static noinline_ struct slice normalise(struct slice host, char out[HOST_ROOM])
{
    size_t n = host.len;

    /* "[::1]:80" keeps its brackets; "a:80" loses what follows the colon. */
    if (n > 0 && host.p[0] == '[') {
        size_t end = slice_find(host, ']');

        n = end == SIZE_MAX ? 0 : end + 1;
    } else if (slice_find(host, ':') != SIZE_MAX) {
        n = slice_find(host, ':');
    }
    if (n > 0 && host.p[n - 1] == '.')
        --n;
    if (n >= HOST_ROOM)
        n = 0;
    ascii_lower_copy(out, (struct slice){host.p, n});
    return (struct slice){out, n};
}

struct application *application_only(const struct lb *lb)
{
    return lb->index->only;
}

struct application *application_find(const struct lb *lb, struct slice host, struct slice path)
{
    const struct application_index *x = lb->index;
    char room[HOST_ROOM];
    bool known = false;

    if (x->hosts.first == NULL)
        return entry_pick(&x->fallback, path);
    struct slice name = normalise(host, room);
    while (name.len > 0) {
        const struct host_entry *e = entry_find(x, name);
        struct application *a = e != NULL ? entry_pick(e, path) : NULL;

        if (a != NULL)
            return a;
        known = known || e != NULL;
        /* "a.b.c" -> ".b.c" -> ".c" */
        const char *dot = name.len > 1 ? memchr(name.p + 1, '.', name.len - 1) : NULL;
        if (dot == NULL)
            break;
        name = (struct slice){dot, name.len - (size_t)(dot - name.p)};
    }
    return known ? NULL : entry_pick(&x->fallback, path);
}
