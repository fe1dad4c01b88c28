/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker that was lost returns, with workers of several places and requests of 1 ms to 10 s. In
 * virtual time: sessions, each a class with one request at a time, and each worker serves as many
 * requests at once as it has places. What a session needs is in the cache of a worker once it was
 * served there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/homes/homes_fixture.h"

enum { WORKERS = 4, ABSENT = 2, SESSIONS_MAX = 400, TURNS = 40 };

struct session {
    unsigned number;
    int turns; /* left */
    int worker;
    bool queued;
    uint64_t order;
    uint64_t end_us;
    bool cached[WORKERS];
};

struct streams {
    struct lodgers f;
    unsigned places;
    int n;
    uint64_t service_us;
    unsigned numbers;
    struct session sessions[SESSIONS_MAX]; /* of the ticket of the same number */
    uint64_t orders;
    int busy[WORKERS];
    unsigned begun[WORKERS]; /* sessions */
    unsigned random;
};

static void session_starts(struct streams *s, struct session *x)
{
    uint64_t took_us = s->service_us * (x->cached[x->worker] ? 2 : 3) / 2;

    s->random = s->random * 1664525u + 1013904223u;
    took_us = took_us / 2 + took_us * (s->random >> 8) / (1u << 24); /* 0.5 to 1.5 times */
    x->queued = false;
    x->cached[x->worker] = true;
    x->end_us = s->f.now_us + took_us + 1;
    ++s->busy[x->worker];
}

static void session_sends(struct streams *s, int i)
{
    struct session *x = &s->sessions[i];
    char cls[16];
    bool first = x->turns == 0;

    if (first)
        *x = (struct session){.number = ++s->numbers, .turns = TURNS};
    --x->turns;
    snprintf(cls, sizeof(cls), "s%u", x->number);
    s->f.ntickets = (size_t)i;
    x->worker = ask(&s->f, cls);
    assert_in_range(x->worker, 0, WORKERS - 1);
    s->begun[x->worker] += first;
    x->queued = true;
    x->order = ++s->orders;
    if (s->busy[x->worker] < (int)s->places)
        session_starts(s, x);
}

/* Requests at W begin in the order in which they came. */
static void worker_continues(struct streams *s, int w)
{
    while (s->busy[w] < (int)s->places) {
        struct session *first = NULL;

        for (int i = 0; i < s->n; ++i) {
            struct session *x = &s->sessions[i];

            if (x->queued && x->worker == w && (first == NULL || x->order < first->order))
                first = x;
        }
        if (first == NULL)
            break;
        session_starts(s, first);
    }
}

static void session_ends(struct streams *s, int i, bool failed)
{
    struct session *x = &s->sessions[i];
    int w = x->worker;

    response_how(&s->f, (size_t)i, failed);
    s->busy[w] -= !x->queued;
    x->queued = false;
    worker_continues(s, w);
    session_sends(s, i);
}

static void run_streams(struct streams *s, uint64_t for_us)
{
    uint64_t until_us = s->f.now_us + for_us;

    for (;;) {
        int next = -1;

        for (int i = 0; i < s->n; ++i) {
            const struct session *x = &s->sessions[i];

            if (!x->queued && (next < 0 || x->end_us < s->sessions[next].end_us))
                next = i;
        }
        if (next < 0 || s->sessions[next].end_us > until_us)
            break;
        s->f.now_us = s->sessions[next].end_us;
        session_ends(s, next, false);
    }
    s->f.now_us = until_us;
}

static int sessions_at(const struct streams *s, int w)
{
    int n = 0;

    for (int i = 0; i < s->n; ++i)
        n += s->sessions[i].worker == w;
    return n;
}

/* N sessions, in the middle of which worker ABSENT is lost, and returns with an empty cache when
 * the others have all of them. */
static void lose_and_return(struct streams *s, unsigned places, unsigned declared, int n,
                            uint64_t service_us)
{
    *s = (struct streams){.places = places, .n = n, .service_us = service_us, .random = 1};
    lodgers_start(&s->f, WORKERS, declared);
    for (int i = 0; i < n; ++i) {
        session_sends(s, i);
        s->sessions[i].turns = i % TURNS;
    }
    run_streams(s, 20 * service_us);
    homes_set_eligible(s->f.homes, s->f.workers[ABSENT], false, s->f.now_us);
    for (int i = 0; i < n; ++i) {
        if (s->sessions[i].worker == ABSENT)
            session_ends(s, i, true);
        s->sessions[i].cached[ABSENT] = false;
    }
    run_streams(s, 20 * service_us);
    assert_int_equal(sessions_at(s, ABSENT), 0);
    homes_set_eligible(s->f.homes, s->f.workers[ABSENT], true, s->f.now_us);
    memset(s->begun, 0, sizeof(s->begun));
}

static void a_worker_that_returns_gets_half_of_its_share_in_three_service_times(void **state)
{
    /* Its requests at once, as many as are known of, and sessions. */
    static const struct {
        unsigned places, declared;
        int sessions;
    } pools[] = {{1, 1, 8},  {1, 1, 40},     {8, 8, 24},      {8, 8, 64},
                 {8, 1, 24}, {100, 100, 40}, {100, 100, 200}, {100, 1, 200}};
    static const uint64_t service_us[] = {MS, 10 * MS, 100 * MS, SECOND, 10 * SECOND};
    static struct streams s;
    unsigned there = 0, all = 0; /* new sessions */

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pools); ++i) {
        for (size_t k = 0; k < ARRAY_LEN(service_us); ++k) {
            unsigned begun = 0;

            lose_and_return(&s, pools[i].places, pools[i].declared, pools[i].sessions,
                            service_us[k]);
            run_streams(&s, 3 * service_us[k]);
            for (int w = 0; w < WORKERS; ++w)
                begun += s.begun[w];
            print_message("%u places (%u known), %d sessions, %.0f ms: %d sessions, %u of %u new\n",
                          s.places, pools[i].declared, s.n, (double)service_us[k] / MS,
                          sessions_at(&s, ABSENT), s.begun[ABSENT], begun);
            assert_true(sessions_at(&s, ABSENT) * 2 * WORKERS >= s.n);
            there += s.begun[ABSENT];
            all += begun;
            /* Later it has as many as the others. */
            run_streams(&s, 60 * service_us[k]);
            assert_true(sessions_at(&s, ABSENT) * 2 * WORKERS >= s.n);
            homes_check(s.f.homes);
            for (int x = 0; x < s.n; ++x)
                response_how(&s.f, (size_t)x, false);
            s.f.ntickets = 0;
            lodgers_end(&s.f);
        }
    }
    assert_true(all > 100);
    assert_true(there * 2 * WORKERS >= all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_returns_gets_half_of_its_share_in_three_service_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
