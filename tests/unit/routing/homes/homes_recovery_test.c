/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker is absent until all classes live elsewhere, and comes back or is replaced. In virtual
 * time: each worker serves one request at a time, in order; as many clients as given send their
 * next request as soon as they have the response to the last one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/homes/homes_fixture.h"

enum {
    WORKERS = 4,
    ABSENT = 2,
    CLASSES_MAX = 16,
    CLIENTS = 16,
    WARM_US = 10 * MS,
    COLD_US = 15 * MS,
    STEADY = 30 * SECOND,
    AWAY = 8 * SECOND,
    HUNG = 20 * SECOND,
    WITHIN = 2 * SECOND,
};

struct flight {
    bool busy;
    int worker;
    uint64_t end_us;
};

struct load {
    struct lodgers f;
    int classes;
    unsigned random;
    struct flight flights[CLIENTS]; /* of the ticket of the same number */
    uint64_t free_us[WORKERS];
    bool cached[CLASSES_MAX][WORKERS];
    size_t served[WORKERS]; /* requests sent to it */
    size_t cold;
};

static int random_below(struct load *l, int n)
{
    l->random = l->random * 1664525u + 1013904223u;
    return (int)((l->random >> 8) % (unsigned)n);
}

static void send_request(struct load *l, int client)
{
    char cls[16];
    int c = random_below(l, l->classes);

    snprintf(cls, sizeof(cls), "c%d", c);
    l->f.ntickets = (size_t)client;
    int w = ask(&l->f, cls);
    assert_in_range(w, 0, WORKERS - 1);
    uint64_t from_us = l->free_us[w] > l->f.now_us ? l->free_us[w] : l->f.now_us;
    l->free_us[w] = from_us + (l->cached[c][w] ? WARM_US : COLD_US);
    l->cold += !l->cached[c][w];
    l->cached[c][w] = true;
    l->flights[client] = (struct flight){true, w, l->free_us[w]};
    ++l->served[w];
}

static void run(struct load *l, uint64_t for_us)
{
    uint64_t until_us = l->f.now_us + for_us;

    for (;;) {
        int next = 0;

        for (int i = 0; i < CLIENTS; ++i) {
            if (!l->flights[i].busy)
                send_request(l, i);
            if (l->flights[i].end_us < l->flights[next].end_us)
                next = i;
        }
        if (l->flights[next].end_us > until_us)
            break;
        l->f.now_us = l->flights[next].end_us;
        response_how(&l->f, (size_t)next, false);
        l->flights[next].busy = false;
    }
    l->f.now_us = until_us;
    homes_check(l->f.homes);
}

/* Each class has a home at another worker than ABSENT when this returns. */
static void be_absent(struct load *l, int classes)
{
    *l = (struct load){.classes = classes, .random = 1};
    lodgers_start(&l->f, WORKERS, 1);
    run(l, STEADY);
    homes_set_eligible(l->f.homes, l->f.workers[ABSENT], false, l->f.now_us);
    run(l, AWAY);
    assert_int_equal(view_of(&l->f, ABSENT).homes, 0);
    memset(l->served, 0, sizeof(l->served));
    l->cold = 0;
}

static void assert_gets_its_share(struct load *l)
{
    size_t all = 0;

    run(l, WITHIN);
    for (int w = 0; w < WORKERS; ++w)
        all += l->served[w];
    print_message("%d classes: %zu of %zu requests, %zu cold\n", l->classes, l->served[ABSENT], all,
                  l->cold);
    /* Half of what is fair. */
    assert_true(2 * WORKERS * l->served[ABSENT] >= all);
    /* Each class is loaded there once at the most. */
    assert_true(l->cold <= (size_t)l->classes);
    for (size_t i = 0; i < CLIENTS; ++i)
        response_how(&l->f, i, false);
    l->f.ntickets = 0;
    lodgers_end(&l->f);
}

static void a_worker_that_is_back_gets_its_share_within_two_seconds(void **state)
{
    static const int classes[] = {3, 4, 6, 8, 16};
    static struct load l;

    (void)state;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); ++i) {
        be_absent(&l, classes[i]);
        homes_set_eligible(l.f.homes, l.f.workers[ABSENT], true, l.f.now_us);
        assert_gets_its_share(&l);
    }
}

static void a_new_worker_gets_its_share_within_two_seconds(void **state)
{
    static const int classes[] = {3, 4, 6, 8, 16};
    static struct load l;

    (void)state;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); ++i) {
        be_absent(&l, classes[i]);
        homes_leave(l.f.homes, l.f.workers[ABSENT]);
        for (int c = 0; c < CLASSES_MAX; ++c)
            l.cached[c][ABSENT] = false;
        lodgers_join(&l.f, ABSENT, 1);
        assert_gets_its_share(&l);
    }
}

/* Its requests get a response when it continues; it stays eligible. */
static void a_worker_that_hung_gets_its_share_within_two_seconds(void **state)
{
    static const int classes[] = {3, 4, 6, 8, 16};
    static struct load l;

    (void)state;
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); ++i) {
        l = (struct load){.classes = classes[i], .random = 1};
        lodgers_start(&l.f, WORKERS, 1);
        run(&l, STEADY);
        for (int client = 0; client < CLIENTS; ++client) {
            if (l.flights[client].busy && l.flights[client].worker == ABSENT)
                l.flights[client].end_us += HUNG;
        }
        l.free_us[ABSENT] += HUNG;
        run(&l, HUNG);
        memset(l.served, 0, sizeof(l.served));
        l.cold = 0;
        assert_gets_its_share(&l);
    }
}

static void the_time_until_a_worker_has_failed_is_not_its_work(void **state)
{
    struct lodgers f;

    (void)state;
    lodgers_start(&f, 2, 1);
    for (int i = 0; i < 20; ++i)
        serve(&f, "a", 10 * MS);
    int w = ask(&f, "a");
    double before = view_of(&f, w).work;
    f.now_us += 60 * MS;
    response_how(&f, --f.ntickets, true);
    double soon = view_of(&f, w).work;
    assert_true(soon <= before * 1.2);
    w = ask(&f, "a");
    f.now_us += 10 * SECOND;
    response_how(&f, --f.ntickets, true);
    /* As if it had been served in the usual time. */
    assert_true(view_of(&f, w).work <= before * 1.5);
    lodgers_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_is_back_gets_its_share_within_two_seconds),
        cmocka_unit_test(a_new_worker_gets_its_share_within_two_seconds),
        cmocka_unit_test(a_worker_that_hung_gets_its_share_within_two_seconds),
        cmocka_unit_test(the_time_until_a_worker_has_failed_is_not_its_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
