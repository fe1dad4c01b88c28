/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop, a client of pool counter daemons, and requesters that record their results.
 */
#pragma once

#include "common/counters/pool_counter_client.h"
#include "tests/support/raw_peer.h"

struct asker {
    struct pool_counter_call call;
    struct fixture *f;
    bool reported, lost;
    enum counter_result result;
    unsigned order; /* among all responses */
};

struct fixture {
    struct loop *loop;
    struct pool_counter_health *health;
    struct pool_counter_client *client;
    struct addr addr; /* of the server "one" */
    unsigned responses;
    bool inside; /* a call of the client's interface */
};

static inline void fixture_open(struct fixture *f)
{
    raw_ignore_sigpipe();
    *f = (struct fixture){.loop = loop_create(0), .health = pool_counter_health_create("test")};
}

static inline void fixture_close(struct fixture *f)
{
    pool_counter_client_destroy(f->client);
    pool_counter_health_destroy(f->health);
    loop_destroy(f->loop);
}

/* A client of one server at A. */
static inline void create_client(struct fixture *f, const struct addr *a,
                                 struct pool_counter_client_settings s)
{
    struct pool_counter_server_address server = {SLICE_LIT("one"), *a};

    f->addr = *a;
    s.health = f->health;
    f->client = pool_counter_client_create(f->loop, &s);
    pool_counter_client_set_servers(f->client, &server, 1);
}

static inline void on_responded(struct pool_counter_call *c, enum counter_result r)
{
    struct asker *a = container_of(c, struct asker, call);

    assert_false(a->f->inside);
    assert_false(a->reported);
    assert_int_equal(c->state,
                     r == COUNTER_LOCKED ? POOL_COUNTER_CALL_HELD : POOL_COUNTER_CALL_FREE);
    a->reported = true;
    a->result = r;
    a->order = ++a->f->responses;
}

static inline void on_lost(struct pool_counter_call *c)
{
    struct asker *a = container_of(c, struct asker, call);

    assert_false(a->f->inside);
    assert_false(a->lost);
    assert_int_equal(c->state, POOL_COUNTER_CALL_LOST);
    a->lost = true;
}

static inline void acquire(struct fixture *f, struct asker *a, const struct counter_request *r)
{
    a->f = f;
    a->reported = false;
    a->call.responded = on_responded;
    a->call.lost = on_lost;
    f->inside = true;
    pool_counter_client_acquire(f->client, &a->call, r);
    f->inside = false;
}

static inline void release(struct asker *a)
{
    a->f->inside = true;
    pool_counter_client_release(&a->call);
    a->f->inside = false;
    assert_int_equal(a->call.state, POOL_COUNTER_CALL_FREE);
}

static inline void leave(struct asker *a)
{
    a->f->inside = true;
    pool_counter_client_leave(&a->call);
    a->f->inside = false;
    assert_int_equal(a->call.state, POOL_COUNTER_CALL_FREE);
}

static inline enum counter_result await_response(struct asker *a)
{
    raw_turn_until_set(a->f->loop, &a->reported);
    return a->result;
}

static inline enum counter_result ask(struct fixture *f, struct asker *a,
                                      const struct counter_request *r)
{
    acquire(f, a, r);
    return await_response(a);
}

static inline struct pool_counter_daemon_state view(const struct fixture *f)
{
    return pool_counter_health_view(f->health, SLICE_LIT("one"), &f->addr, 0);
}

struct wait_for {
    struct fixture *f;
    unsigned n;
};

static inline bool has_idle(void *context)
{
    struct wait_for *w = context;

    return view(w->f).idle == w->n;
}

/* Until N connections to the first server are idle. */
static inline void await_idle(struct fixture *f, unsigned n)
{
    raw_turn_until(f->loop, has_idle, &(struct wait_for){f, n});
}

static inline bool has_connections(void *context)
{
    struct wait_for *w = context;

    return view(w->f).connections == w->n;
}

static inline void await_connections(struct fixture *f, unsigned n)
{
    raw_turn_until(f->loop, has_connections, &(struct wait_for){f, n});
}
