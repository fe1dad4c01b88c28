/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers of a client: which of them a key belongs to, and the connections each of them has. A
 * server that goes is out of the ring at once; it stays in memory while a connection needs it.
 */
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/limiter/counter_breaker.h"
#include "common/limiter/counter_conn.h"

#include <stdlib.h>

_Static_assert((int)COUNTER_SERVERS_MAX <= (int)HASH_RING_SERVERS_MAX, "all are in the ring");

/* ---- connections of a server ---- */

static void destroy_server(struct counter_server *s)
{
    ASSERT(s->nall == 0);
    timer_stop(&s->watch);
    counter_daemon_put(s->daemon);
    list_remove(&s->in_retired);
    free(s->name);
    free(s);
}

void counter_server_join(struct counter_server *s, struct counter_conn *c)
{
    c->server = s;
    list_push_back(&s->all, &c->in_server);
    ++s->nall;
}

static void leave_kept(struct counter_conn *c)
{
    if (c->state != COUNTER_CONN_KEPT)
        return;
    list_remove(&c->in_kept);
    --c->server->nkept;
}

static void end_probe(struct counter_conn *c)
{
    if (c->probe)
        counter_daemon_end_probe(c->server->daemon, loop_now_ms(c->loop));
    c->probe = false;
}

void counter_server_part(struct counter_conn *c)
{
    struct counter_server *s = c->server;

    end_probe(c);
    if (c->inquiry)
        counter_daemon_slots(s->daemon, COUNTER_SLOTS_UNKNOWN);
    counter_daemon_release(s->daemon);
    leave_kept(c);
    list_remove(&c->in_server);
    --s->nall;
    c->server = NULL;
    if (s->retired && s->nall == 0)
        destroy_server(s);
}

struct counter_conn *counter_server_take(struct counter_server *s)
{
    while (!list_empty(&s->kept)) {
        struct counter_conn *c = list_first(&s->kept, struct counter_conn, in_kept);

        /* Its end may have come since the loop last looked. */
        if (!counter_conn_alive(c)) {
            counter_conn_close(c);
            continue;
        }
        leave_kept(c);
        timer_stop(&c->timer);
        c->reused = true;
        return c;
    }
    return NULL;
}

void counter_server_keep(struct counter_conn *c)
{
    struct counter_server *s = c->server;

    ASSERT(c->call == NULL);
    end_probe(c);
    if (s->retired || s->nkept >= s->client->max_idle) {
        counter_conn_close(c);
        return;
    }
    c->state = COUNTER_CONN_KEPT;
    list_push_front(&s->kept, &c->in_kept);
    ++s->nkept;
    timer_start(c->loop, &c->timer, s->client->idle_ms);
}

/* ---- how it fares ---- */

static void drop_kept(struct counter_server *s)
{
    while (!list_empty(&s->kept))
        counter_conn_close(list_first(&s->kept, struct counter_conn, in_kept));
}

/* Waiting calls are ended as those are that ask from now on. */
static void let_waiters_go(struct counter_server *s)
{
    struct list *it;

    list_for_each (it, &s->all) {
        struct counter_conn *c = list_entry(it, struct counter_conn, in_server);

        if (c->state == COUNTER_CONN_ASKING && !list_linked(&c->end_later.node)) {
            c->trouble = COUNTER_TROUBLE_SILENT;
            loop_defer(c->loop, &c->end_later);
        }
    }
}

struct counter_daemon_state counter_server_look(struct counter_server *s)
{
    struct counter_daemon_state now = counter_daemon_look(s->daemon, loop_now_ms(s->client->loop));

    if (now.rests != s->rests) {
        s->rests = now.rests;
        drop_kept(s); /* of a server that is gone there are none: S stays */
        let_waiters_go(s);
    }
    return now;
}

void counter_server_good(struct counter_conn *c)
{
    struct counter_server *s = c->server;

    if (counter_daemon_heard(s->daemon, loop_now_ms(c->loop)))
        log_info(NULL, "counter-server-back", "server=%s", s->name);
}

void counter_server_bad(struct counter_conn *c)
{
    struct counter_server *s = c->server;
    uint64_t rest_ms = counter_daemon_failed(s->daemon, c->probe, loop_now_ms(c->loop));

    /* At once: the next probe of a daemon that may hang, or the wait for the end of its rest. */
    if (c->probe || rest_ms != 0)
        timer_start(c->loop, &s->watch, 0);
    if (rest_ms == 0)
        return;
    ++s->client->stats.rests;
    (void)counter_server_look(s); /* C itself is not among those closed */
    log_warn(NULL, "counter-server-rests", "server=%s for_ms=%llu", s->name,
             (unsigned long long)rest_ms);
}

/* ---- whether it responds ---- */

static void probe(struct counter_server *s)
{
    struct counter_conn *c = counter_server_take(s);

    ++s->client->stats.probes;
    if (c != NULL) {
        c->probe = true;
        if (!counter_conn_send_and_await(c, COUNTER_CONN_GREETING, counter_uptime_line()))
            counter_conn_close(c);
        return;
    }
    bool reserved = counter_daemon_reserve(s->daemon, true);
    ASSERT(reserved);
    c = counter_conn_open(s);
    c->probe = true;
}

static bool is_asked(const struct counter_server *s)
{
    struct list *it;

    list_for_each (it, &s->all) {
        if (list_entry(it, struct counter_conn, in_server)->state == COUNTER_CONN_ASKING)
            return true;
    }
    return false;
}

static void on_watch(struct timer *t)
{
    struct counter_server *s = container_of(t, struct counter_server, watch);
    uint64_t silent_ms = s->client->answer_timeout_ms;
    struct loop *l = s->client->loop;
    struct counter_daemon_state now = counter_server_look(s);

    if (!now.resting && s->asked_ms <= now.heard_ms && !is_asked(s))
        return;
    if (now.resting)
        timer_start(l, &s->watch, now.rest_ms != 0 ? now.rest_ms : COUNTER_BREAKER_REST_FIRST_MS);
    else
        timer_start(l, &s->watch, silent_ms);
    if (counter_daemon_begin_probe(s->daemon, silent_ms, loop_now_ms(l)))
        probe(s);
}

void counter_server_watch(struct counter_server *s)
{
    struct loop *l = s->client->loop;

    s->asked_ms = loop_now_ms(l);
    if (!timer_running(&s->watch))
        timer_start(l, &s->watch, s->client->answer_timeout_ms);
}

void counter_server_restart_watch(struct counter_server *s)
{
    if (timer_running(&s->watch))
        timer_start(s->client->loop, &s->watch, s->client->answer_timeout_ms);
}

void counter_server_inquire(struct counter_server *s, struct slice type)
{
    if (!counter_daemon_needs_slots(s->daemon, type))
        return;
    bool reserved = counter_daemon_reserve(s->daemon, true);
    ASSERT(reserved);
    counter_conn_open(s)->inquiry = true;
}

/* ---- the set of servers ---- */

struct counter_server *counter_server_of(struct counter_client *c, struct slice word)
{
    size_t i = hash_ring_find(c->ring, word);

    return i != SIZE_MAX ? c->servers[i] : NULL;
}

static bool is_visible(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] < 0x21 || s.p[i] > 0x7e)
            return false;
    }
    return true;
}

enum err counter_client_check(const struct counter_server_address *servers, size_t n)
{
    if (n > COUNTER_SERVERS_MAX)
        return ERR_TOO_LARGE;
    for (size_t i = 0; i < n; ++i) {
        if (servers[i].name.len == 0 || servers[i].name.len > COUNTER_SERVER_NAME_MAX)
            return ERR_RANGE;
        if (!is_visible(servers[i].name))
            return ERR_SYNTAX;
        for (size_t k = 0; k < i; ++k) {
            if (slice_eq(servers[i].name, servers[k].name))
                return ERR_EXISTS;
        }
    }
    return ERR_OK;
}

static struct counter_server *create_server(struct counter_client *c,
                                            const struct counter_server_address *a)
{
    struct counter_server *s = xcalloc(1, sizeof(*s));

    s->client = c;
    s->name = xslicedup(a->name);
    s->addr = a->addr;
    s->daemon = counter_daemon_get(c->health, a->name, &a->addr);
    s->rests = counter_daemon_look(s->daemon, 0).rests;
    timer_init(&s->watch, on_watch);
    list_init(&s->in_retired);
    list_init(&s->all);
    list_init(&s->kept);
    return s;
}

/* No key is S's from now on. */
static void retire(struct counter_server *s)
{
    struct list *it;
    struct list *next;

    s->retired = true;
    list_push_back(&s->client->retired, &s->in_retired);
    /* The last of them takes the server along: none is closed before all it is asked for is. */
    ++s->nall;
    list_for_each_safe (it, next, &s->all) {
        struct counter_conn *c = list_entry(it, struct counter_conn, in_server);
        bool wanted = c->call != NULL || c->state == COUNTER_CONN_RELEASING;

        if (!wanted)
            counter_conn_close(c);
    }
    if (--s->nall == 0)
        destroy_server(s);
}

/* The server of that name and address, taken out of OLD, or a new one. */
static struct counter_server *take_or_create(struct counter_client *c,
                                             const struct counter_server_address *a,
                                             struct counter_server **old, size_t nold)
{
    for (size_t i = 0; i < nold; ++i) {
        struct counter_server *s = old[i];

        if (s != NULL && slice_is(a->name, s->name) && addr_equal(&a->addr, &s->addr)) {
            old[i] = NULL;
            return s;
        }
    }
    return create_server(c, a);
}

void counter_client_set_servers(struct counter_client *c,
                                const struct counter_server_address *servers, size_t n)
{
    struct counter_server *old[COUNTER_SERVERS_MAX];
    struct slice names[COUNTER_SERVERS_MAX];
    size_t nold = c->nservers;

    ASSERT(counter_client_check(servers, n) == ERR_OK);
    memcpy(old, c->servers, sizeof(old));
    for (size_t i = 0; i < n; ++i) {
        c->servers[i] = take_or_create(c, &servers[i], old, nold);
        names[i] = slice_of(c->servers[i]->name);
    }
    c->nservers = n;
    hash_ring_destroy(c->ring);
    c->ring = hash_ring_create(names, n);
    for (size_t i = 0; i < nold; ++i) {
        if (old[i] != NULL)
            retire(old[i]);
    }
}

static void drop_all_of(struct counter_server *s)
{
    struct list *it;
    struct list *next;

    ++s->nall; /* as in retire */
    list_for_each_safe (it, next, &s->all)
        counter_conn_close(list_entry(it, struct counter_conn, in_server));
    --s->nall;
    destroy_server(s);
}

void counter_server_drop_all(struct counter_client *c)
{
    struct list *node;

    for (size_t i = 0; i < c->nservers; ++i)
        drop_all_of(c->servers[i]);
    c->nservers = 0;
    while ((node = list_pop_front(&c->retired)) != NULL)
        drop_all_of(list_entry(node, struct counter_server, in_retired));
    hash_ring_destroy(c->ring);
}

/* ---- to be shown ---- */

size_t counter_client_servers(const struct counter_client *c)
{
    return c->nservers;
}

struct counter_server_view counter_client_server(const struct counter_client *c, size_t i)
{
    ASSERT(i < c->nservers);
    const struct counter_server *s = c->servers[i];
    struct counter_daemon_state now = counter_daemon_look(s->daemon, loop_now_ms(c->loop));

    return (struct counter_server_view){
        .name = slice_of(s->name),
        .addr = s->addr,
        .connections = s->nall,
        .idle = s->nkept,
        .resting = now.resting,
        .rest_ms = now.rest_ms,
    };
}
