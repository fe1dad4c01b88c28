/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool counter daemon that the test plays itself, byte by byte.
 */
#pragma once

#include "common/counters/pool_counter_health.h"
#include "tests/unit/counters/pool_counter_client_fixture.h"

struct world {
    struct fixture f;
    struct addr addr;
    int listener;
    struct raw_peer peer; /* the server's end of the latest connection */
};

enum { LONG_MS = 60000, BRIEF_MS = 30 };

static const struct counter_request waiting = {
    .key = {"page:1", 6},
    .kind = COUNTER_ME,
    .workers = 1,
    .maxqueue = 10,
    .timeout_ms = LONG_MS,
};

static inline struct counter_request within(uint64_t timeout_ms)
{
    struct counter_request r = waiting;

    r.timeout_ms = timeout_ms;
    return r;
}

static inline void create(struct world *w, struct pool_counter_client_settings s)
{
    pool_counter_client_destroy(w->f.client);
    create_client(&w->f, &w->addr, s);
}

static inline int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    fixture_open(&w->f);
    raw_init(&w->peer);
    w->listener = raw_listen(&w->addr);
    create(w, (struct pool_counter_client_settings){.connect_timeout_ms = LONG_MS,
                                                    .response_timeout_ms = LONG_MS});
    *state = w;
    return 0;
}

static inline int teardown(void **state)
{
    struct world *w = *state;

    fixture_close(&w->f);
    raw_fini(&w->peer);
    if (w->listener != -1)
        close(w->listener);
    free(w);
    return 0;
}

static inline const struct pool_counter_client_stats *stats(const struct world *w)
{
    return pool_counter_client_stats(w->f.client);
}

/* Forget the latest connection, and wait for the next. */
static inline void accept_next(struct world *w)
{
    raw_fini(&w->peer);
    raw_accept(w->f.loop, w->listener, &w->peer);
}

/* Ask for R, up to its request on a connection of its own. */
static inline void begin(struct world *w, struct asker *a, const struct counter_request *r)
{
    acquire(&w->f, a, r);
    accept_next(w);
    raw_await(w->f.loop, &w->peer, "\n");
}

static inline void say(struct world *w, const char *text)
{
    raw_send(w->f.loop, &w->peer, text);
}

/* A request that got WORD. */
static inline enum counter_result responded_by(struct world *w, struct asker *a, const char *word)
{
    begin(w, a, &waiting);
    say(w, word);
    return await_response(a);
}

/* A connection that is kept: its first lock is had and given back. */
static inline void keep_one(struct world *w)
{
    struct asker a = {0};

    assert_int_equal(responded_by(w, &a, "LOCKED\n"), COUNTER_LOCKED);
    release(&a);
    raw_await(w->f.loop, &w->peer, "RELEASE\n");
    say(w, "RELEASED\n");
    await_idle(&w->f, 1);
    text_clear(&w->peer.in);
}

static inline void check_unreachable(struct asker *a, enum pool_counter_trouble why)
{
    assert_int_equal(await_response(a), COUNTER_UNREACHABLE);
    assert_int_equal(a->call.why, why);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
