/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of few daemons (POOL_COUNTER_SERVERS_MAX per application), searched one by one. Log lines
 * are written after the lock is released.
 */
#include "common/counters/pool_counter_health.h"
#include "common/base/list.h"
#include "common/base/log.h"
#include "common/base/text.h"

#include <pthread.h>
#include <stdlib.h>

struct pool_counter_health {
    char *name;
    pthread_mutex_t lock; /* all that follows, and all of the daemons but their constant part */
    struct list daemons;
    unsigned max_connections;
};

struct pool_counter_daemon {
    struct list in_health;
    struct pool_counter_health *health; /* constant, as name and address */
    char *name;
    struct addr addr;
    unsigned refs;
    unsigned connections;
    atomic_uint idle;      /* not under the lock: it changes with each request */
    unsigned failures;     /* in a row */
    uint64_t suspended_ms; /* length of its suspension; 0: not suspended */
    uint64_t until_ms;     /* the end of that; then it is probed */
    uint64_t suspensions;
    uint64_t responded_ms;
    bool probed; /* some loop's probe is in flight */
    enum pool_counter_slots slots;
    bool slots_asked;
    char *types[POOL_COUNTER_SLOTS_TYPES_MAX]; /* that were sent with slots; the first NWARNED are
                                                * logged
                                                */
    size_t ntypes, nwarned;
};

struct pool_counter_health *pool_counter_health_create(const char *name)
{
    struct pool_counter_health *h = xcalloc(1, sizeof(*h));

    h->name = xstrdup(name);
    h->max_connections = POOL_COUNTER_CONNECTIONS_MAX;
    pthread_mutex_init(&h->lock, NULL);
    list_init(&h->daemons);
    return h;
}

void pool_counter_health_destroy(struct pool_counter_health *h)
{
    if (h == NULL)
        return;
    ASSERT(list_empty(&h->daemons));
    pthread_mutex_destroy(&h->lock);
    free(h->name);
    free(h);
}

void pool_counter_health_set_connections(struct pool_counter_health *h, unsigned max)
{
    ASSERT(max != 0);
    pthread_mutex_lock(&h->lock);
    h->max_connections = max;
    pthread_mutex_unlock(&h->lock);
}

/* ---- daemons ---- */

static struct pool_counter_daemon *find_locked(const struct pool_counter_health *h,
                                               struct slice name, const struct addr *a)
{
    struct pool_counter_daemon *d;

    list_for_each_entry (d, &h->daemons, in_health) {
        if (slice_is(name, d->name) && addr_equal(a, &d->addr))
            return d;
    }
    return NULL;
}

struct pool_counter_daemon *pool_counter_daemon_get(struct pool_counter_health *h,
                                                    struct slice name, const struct addr *a)
{
    pthread_mutex_lock(&h->lock);
    struct pool_counter_daemon *d = find_locked(h, name, a);
    if (d == NULL) {
        d = xcalloc(1, sizeof(*d));
        d->health = h;
        d->name = xslicedup(name);
        d->addr = *a;
        list_push_back(&h->daemons, &d->in_health);
    }
    ++d->refs;
    pthread_mutex_unlock(&h->lock);
    return d;
}

void pool_counter_daemon_put(struct pool_counter_daemon *d)
{
    struct pool_counter_health *h = d->health;

    pthread_mutex_lock(&h->lock);
    bool last = --d->refs == 0;
    if (last)
        list_remove(&d->in_health);
    pthread_mutex_unlock(&h->lock);
    if (!last)
        return;
    for (size_t i = 0; i < d->ntypes; ++i)
        free(d->types[i]);
    free(d->name);
    free(d);
}

enum err pool_counter_servers_check(const struct pool_counter_server_address *servers, size_t n)
{
    if (n > POOL_COUNTER_SERVERS_MAX)
        return ERR_TOO_LARGE;
    for (size_t i = 0; i < n; ++i) {
        struct slice name = servers[i].name;

        if (name.len == 0 || name.len > POOL_COUNTER_SERVER_NAME_MAX)
            return ERR_RANGE;
        for (size_t k = 0; k < name.len; ++k) {
            if (name.p[k] < 0x21 || name.p[k] > 0x7e)
                return ERR_SYNTAX;
        }
        for (size_t k = 0; k < i; ++k) {
            if (slice_eq(name, servers[k].name))
                return ERR_EXISTS;
        }
    }
    return ERR_OK;
}

/* ---- connections ---- */

bool pool_counter_daemon_reserve(struct pool_counter_daemon *d, bool beyond)
{
    struct pool_counter_health *h = d->health;

    pthread_mutex_lock(&h->lock);
    unsigned max = h->max_connections;
    bool room = beyond || d->connections < max;
    d->connections += room;
    pthread_mutex_unlock(&h->lock);
    if (!room)
        log_warn(NULL, "pool-counter-connections-exhausted",
                 "application=%s server=%s limit=%u action=\"reject\" "
                 "hint=\"raise pool_counter_connections, or lower maxqueue\"",
                 h->name, d->name, max);
    return room;
}

void pool_counter_daemon_release(struct pool_counter_daemon *d)
{
    pthread_mutex_lock(&d->health->lock);
    ASSERT(d->connections != 0);
    --d->connections;
    pthread_mutex_unlock(&d->health->lock);
}

void pool_counter_daemon_count_idle(struct pool_counter_daemon *d, int delta)
{
    atomic_fetch_add_explicit(&d->idle, (unsigned)delta, memory_order_relaxed);
}

/* ---- whether it responds ---- */

static struct pool_counter_daemon_state state_locked(const struct pool_counter_daemon *d,
                                                     uint64_t now_ms)
{
    return (struct pool_counter_daemon_state){
        .connections = d->connections,
        .idle = atomic_load_explicit(&d->idle, memory_order_relaxed),
        .suspended = d->suspended_ms != 0,
        .suspensions = d->suspensions,
        .suspended_ms = d->suspended_ms != 0 && d->until_ms > now_ms ? d->until_ms - now_ms : 0,
        .responded_ms = d->responded_ms,
    };
}

struct pool_counter_daemon_state pool_counter_daemon_read(struct pool_counter_daemon *d,
                                                          uint64_t now_ms)
{
    pthread_mutex_lock(&d->health->lock);
    struct pool_counter_daemon_state s = state_locked(d, now_ms);
    pthread_mutex_unlock(&d->health->lock);
    return s;
}

struct pool_counter_daemon_state pool_counter_health_view(struct pool_counter_health *h,
                                                          struct slice name, const struct addr *a,
                                                          uint64_t now_ms)
{
    struct pool_counter_daemon_state s = {0};

    pthread_mutex_lock(&h->lock);
    const struct pool_counter_daemon *d = find_locked(h, name, a);
    if (d != NULL)
        s = state_locked(d, now_ms);
    pthread_mutex_unlock(&h->lock);
    return s;
}

bool pool_counter_daemon_begin_probe(struct pool_counter_daemon *d, uint64_t silent_ms,
                                     uint64_t now_ms)
{
    pthread_mutex_lock(&d->health->lock);
    uint64_t due_ms = d->suspended_ms != 0 ? d->until_ms : d->responded_ms + silent_ms;
    bool probe = !d->probed && now_ms >= due_ms;
    d->probed = d->probed || probe;
    pthread_mutex_unlock(&d->health->lock);
    return probe;
}

void pool_counter_daemon_end_probe(struct pool_counter_daemon *d)
{
    pthread_mutex_lock(&d->health->lock);
    d->probed = false;
    pthread_mutex_unlock(&d->health->lock);
}

bool pool_counter_daemon_responded(struct pool_counter_daemon *d, uint64_t now_ms)
{
    pthread_mutex_lock(&d->health->lock);
    bool back = d->suspended_ms != 0;
    d->suspended_ms = d->failures = 0;
    /* Loops read the clock at different times. */
    if (now_ms > d->responded_ms)
        d->responded_ms = now_ms;
    /* It may be another program now. */
    if (back)
        d->slots = POOL_COUNTER_SLOTS_UNKNOWN;
    pthread_mutex_unlock(&d->health->lock);
    return back;
}

uint64_t pool_counter_daemon_failed(struct pool_counter_daemon *d, bool probe, uint64_t now_ms)
{
    uint64_t suspended_ms = 0;

    pthread_mutex_lock(&d->health->lock);
    if (d->suspended_ms == 0 && ++d->failures == POOL_COUNTER_FAILURES_MAX)
        suspended_ms = POOL_COUNTER_SUSPENSION_FIRST_MS;
    else if (d->suspended_ms != 0 && probe && now_ms >= d->until_ms)
        suspended_ms = d->suspended_ms * 2 < POOL_COUNTER_SUSPENSION_MAX_MS
                           ? d->suspended_ms * 2
                           : (uint64_t)POOL_COUNTER_SUSPENSION_MAX_MS;
    if (suspended_ms != 0) {
        d->suspended_ms = suspended_ms;
        d->until_ms = now_ms + suspended_ms;
        ++d->suspensions;
    }
    pthread_mutex_unlock(&d->health->lock);
    return suspended_ms;
}

/* ---- slots ---- */

static void warn_ignored_slots(struct pool_counter_daemon *d)
{
    for (;;) {
        pthread_mutex_lock(&d->health->lock);
        bool more = d->slots == POOL_COUNTER_SLOTS_IGNORED && d->nwarned < d->ntypes;
        /* The text remains valid as long as D is referenced. */
        const char *type = more ? d->types[d->nwarned++] : NULL;
        pthread_mutex_unlock(&d->health->lock);
        if (!more)
            return;
        log_line(LOG_LEVEL_WARN, false, NULL, "pool-counter-server-ignores-slots",
                 "application=%s server=%s limit_name=%s reason=\"daemon does not support slots\" "
                 "action=\"ignore slots\" hint=\"use resumelb-poolcounter, or remove slots\"",
                 d->health->name, d->name, type);
    }
}

bool pool_counter_daemon_needs_slots(struct pool_counter_daemon *d, struct slice type)
{
    size_t at = 0;

    pthread_mutex_lock(&d->health->lock);
    while (at < d->ntypes && !slice_is(type, d->types[at]))
        ++at;
    if (d->slots != POOL_COUNTER_SLOTS_KNOWN && at == d->ntypes &&
        at < POOL_COUNTER_SLOTS_TYPES_MAX)
        d->types[d->ntypes++] = xslicedup(type);
    bool must_warn = d->slots == POOL_COUNTER_SLOTS_IGNORED && d->nwarned < d->ntypes;
    bool ask = d->slots == POOL_COUNTER_SLOTS_UNKNOWN && !d->slots_asked;
    d->slots_asked = d->slots_asked || ask;
    pthread_mutex_unlock(&d->health->lock);
    if (must_warn)
        warn_ignored_slots(d);
    return ask;
}

void pool_counter_daemon_slots(struct pool_counter_daemon *d, enum pool_counter_slots s)
{
    pthread_mutex_lock(&d->health->lock);
    d->slots = s;
    d->slots_asked = false;
    pthread_mutex_unlock(&d->health->lock);
    if (s == POOL_COUNTER_SLOTS_IGNORED)
        warn_ignored_slots(d);
}
