/* SPDX-License-Identifier: Apache-2.0
 *
 * Two load balancers in front of the same workers. The workers record the homes that come with
 * requests and publish them, so that both load balancers have the same homes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "tests/support/skills_check.h"
#include "tests/unit/routing/homes/homes_fixture.h"

enum { BALANCERS = 2, WORKERS = 8 };

struct street {
    struct lodgers f[BALANCERS];
    struct home_records *records[WORKERS];
    uint64_t reported[WORKERS];
    int telling; /* the worker that publishes */
    /* A balancer underestimates the age of a worker's report by this much. */
    uint64_t younger_us[BALANCERS][WORKERS];
};

static uint64_t now(const struct street *s)
{
    return s->f[0].now_us;
}

static void pass(struct street *s, uint64_t us)
{
    for (int b = 0; b < BALANCERS; ++b)
        s->f[b].now_us += us;
}

static struct street *street_create(void)
{
    static const uint64_t ids[BALANCERS] = {11, 22};
    struct street *s = xcalloc(1, sizeof(*s));

    for (int b = 0; b < BALANCERS; ++b) {
        lodgers_start(&s->f[b], WORKERS, 1);
        homes_set_balancers(s->f[b].homes, ids, BALANCERS, (size_t)b, now(s));
    }
    for (int w = 0; w < WORKERS; ++w)
        s->records[w] = home_records_create(1000);
    return s;
}

static void street_destroy(struct street *s)
{
    for (int b = 0; b < BALANCERS; ++b)
        lodgers_end(&s->f[b]);
    for (int w = 0; w < WORKERS; ++w) {
        home_records_check(s->records[w]);
        home_records_destroy(s->records[w]);
    }
    free(s);
}

static struct slice name_of(const struct homes_worker *w)
{
    static const char names[WORKERS + 1] = "01234567";

    return w != NULL ? (struct slice){names + (uintptr_t)homes_worker_context(w) - 1, 1}
                     : SLICE_NULL;
}

/* A request to balancer B that stays in flight. Returns its worker. */
static int send(struct street *s, int b, const char *cls)
{
    struct lodgers *f = &s->f[b];
    int w = ask(f, cls);
    const struct homes_ticket *t = &f->tickets[f->ntickets - 1];

    if (!t->passing)
        home_records_use(s->records[w], slice_of(cls), t->kind, name_of(t->from), now(s));
    return w;
}

/* One that is served in TOOK_US. */
static int served(struct street *s, int b, const char *cls, uint64_t took_us)
{
    struct lodgers *f = &s->f[b];
    int w = send(s, b, cls);

    pass(s, took_us);
    response_how(f, f->ntickets - 1, false);
    --f->ntickets;
    home_records_served(s->records[w], slice_of(cls), took_us, now(s));
    return w;
}

static void hear(struct street *s, const struct home_record *r)
{
    for (int b = 0; b < BALANCERS; ++b) {
        struct homes_record heard = {.kind = r->kind,
                                     .since_us = r->since_us,
                                     .used_us = r->used_us,
                                     .rate = home_record_rate(s->records[s->telling], r, now(s))};

        heard.since_us += s->younger_us[b][s->telling];
        heard.used_us += s->younger_us[b][s->telling];
        if (r->kind == HOME_REASSIGN)
            heard.from = s->f[b].workers[r->from[0] - '0'];
        homes_published(s->f[b].homes, s->f[b].workers[s->telling], class_name(&r->base), &heard,
                        now(s));
    }
}

/* Publishes what has changed at the worker; returns the cursor behind that. */
static uint64_t publish_worker(struct street *s, int worker)
{
    const struct home_records *h = s->records[worker];
    uint64_t cursor = s->reported[worker];

    s->telling = worker;
    for (const struct home_record *r = home_records_after(h, cursor); r != NULL;
         r = home_records_next(h, r)) {
        hear(s, r);
        cursor = r->change;
    }
    return cursor;
}

static void publish(struct street *s)
{
    for (int w = 0; w < WORKERS; ++w)
        s->reported[w] = publish_worker(s, w);
    for (int b = 0; b < BALANCERS; ++b)
        homes_check(s->f[b].homes);
}

/* -> the only home of CLS at balancer B */
static int home_at(struct street *s, int b, const char *cls)
{
    struct homes_worker *home = NULL;

    assert_int_equal(homes_of(s->f[b].homes, slice_of(cls), &home, 1), 1);
    return (int)(uintptr_t)homes_worker_context(home) - 1;
}

/* Of a class that B owns; room for its name in OUT. */
static void owned_class(struct street *s, int b, char out[16])
{
    for (int i = 0; i < 1000; ++i) {
        snprintf(out, 16, "k%d", i & 1023);
        if (homes_owns(s->f[b].homes, slice_of(out)))
            return;
    }
    fail();
}

/* All requests in flight of B get a response. */
static void response_all(struct street *s, int b)
{
    struct lodgers *f = &s->f[b];

    while (f->ntickets != 0)
        response_how(f, --f->ntickets, false);
}

/* Work of other classes, so that one more class has but a small share of all. */
static void serve_others(struct street *s)
{
    for (int i = 0; i < 200; ++i) {
        char cls[16];

        snprintf(cls, sizeof(cls), "other%d", i / 5);
        served(s, i % 2, cls, 50 * MS);
        publish(s);
    }
}

static void flood_home_of(struct street *s, int b, int worker)
{
    /* The work of others there, as reported. */
    struct lodgers *f = &s->f[b];

    for (int i = 0; i < 40; ++i)
        homes_adopt(f->homes, f->workers[worker], now(s), &f->tickets[f->ntickets++]);
}

static void each_class_has_one_owner(void **state)
{
    struct street *s = street_create();
    int owned = 0;

    (void)state;
    for (int i = 0; i < 1000; ++i) {
        char cls[16];

        snprintf(cls, sizeof(cls), "c%d", i);
        bool first = homes_owns(s->f[0].homes, slice_of(cls));
        assert_int_equal(first, !homes_owns(s->f[1].homes, slice_of(cls)));
        owned += first;
    }
    /* Half each: five standard deviations. */
    assert_in_range(owned, 420, 580);
    street_destroy(s);
}

static void a_home_that_one_has_given_is_followed_by_the_other(void **state)
{
    struct street *s = street_create();

    (void)state;
    /* So that the least loaded worker is not the same for both. */
    served(s, 1, "other", 10 * MS);
    int w = served(s, 0, "a", 10 * MS);
    publish(s);
    assert_int_equal(home_at(s, 1, "a"), w);
    assert_int_equal(served(s, 1, "a", 10 * MS), w);
    assert_int_equal(s->f[1].choice.reason, HOMES_HOME);
    street_destroy(s);
}

static void the_older_of_two_first_homes_stays(void **state)
{
    struct street *s = street_create();

    (void)state;
    served(s, 1, "other", 10 * MS);
    int older = served(s, 0, "a", 10 * MS);
    int younger = served(s, 1, "a", 10 * MS);
    assert_int_not_equal(older, younger);
    publish(s);
    assert_int_equal(home_at(s, 0, "a"), older);
    assert_int_equal(home_at(s, 1, "a"), older);
    street_destroy(s);
}

static void the_first_home_that_its_worker_learnt_first_stays(void **state)
{
    struct street *s = street_create();

    (void)state;
    served(s, 1, "other", 10 * MS);
    int older = ask(&s->f[0], "a");
    pass(s, 60 * MS);
    int younger = ask(&s->f[1], "a");
    assert_int_not_equal(older, younger);
    /* The delay to both workers is longer than the difference in age. The younger home must not
     * compare the time of its own decision with the time at which the other one was received. */
    pass(s, 30 * MS);
    home_records_use(s->records[older], slice_of("a"), HOME_NEW, SLICE_NULL, now(s));
    pass(s, 40 * MS);
    home_records_use(s->records[younger], slice_of("a"), HOME_NEW, SLICE_NULL, now(s));
    publish(s);
    assert_int_equal(home_at(s, 0, "a"), older);
    assert_int_equal(home_at(s, 1, "a"), older);
    response_all(s, 0);
    response_all(s, 1);
    street_destroy(s);
}

static void the_owners_home_stays_if_each_takes_its_own_for_the_older(void **state)
{
    struct street *s = street_create();
    char cls[16];

    (void)state;
    owned_class(s, 0, cls);
    serve_others(s);
    served(s, 1, "other", 10 * MS);
    int own = send(s, 0, cls);
    pass(s, 1 * MS);
    int others = send(s, 1, cls);
    assert_int_not_equal(own, others);
    s->younger_us[1][own] = 2 * MS;
    pass(s, 3 * MS);
    publish(s);
    assert_int_equal(home_at(s, 0, cls), own);
    assert_int_equal(home_at(s, 1, cls), others);
    for (int b = 0; b < BALANCERS; ++b)
        response_all(s, b);
    /* It might still be about to follow. */
    pass(s, SECOND);
    for (int b = 0; b < BALANCERS; ++b)
        served(s, b, cls, 1 * MS);
    publish(s);
    assert_int_equal(home_at(s, 1, cls), others);
    pass(s, 2 * SECOND);
    assert_int_equal(served(s, 1, cls, 1 * MS), others);
    publish(s);
    assert_int_equal(served(s, 0, cls, 1 * MS), own);
    assert_int_equal(s->f[0].choice.reason, HOMES_HOME);
    publish(s);
    assert_int_equal(home_at(s, 0, cls), own);
    assert_int_equal(home_at(s, 1, cls), own);
    street_destroy(s);
}

static void
a_load_balancer_that_reassigns_a_victim_of_a_flood_is_followed_by_the_other(void **state)
{
    (void)state;
    for (int b = 0; b < BALANCERS; ++b) {
        struct street *s = street_create();
        char cls[16];

        owned_class(s, 0, cls);
        serve_others(s);
        int first = served(s, 1 - b, cls, 10 * MS);
        publish(s);
        flood_home_of(s, b, first);
        int moved = served(s, b, cls, 10 * MS);
        assert_int_equal(s->f[b].choice.reason, HOMES_REASSIGN);
        assert_int_not_equal(moved, first);
        publish(s);
        assert_int_equal(home_at(s, b, cls), moved);
        assert_int_equal(home_at(s, 1 - b, cls), moved);
        assert_int_equal(served(s, 1 - b, cls, 10 * MS), moved);
        street_destroy(s);
    }
}

static void the_younger_of_two_moves_at_once_stays(void **state)
{
    struct street *s = street_create();

    (void)state;
    serve_others(s);
    int first = served(s, 0, "a", 10 * MS);
    publish(s);
    flood_home_of(s, 0, first);
    flood_home_of(s, 1, first);
    int older = served(s, 0, "a", 10 * MS);
    /* So that the other finds another. */
    flood_home_of(s, 1, older);
    int younger = served(s, 1, "a", 10 * MS);
    assert_int_equal(s->f[1].choice.reason, HOMES_REASSIGN);
    assert_int_not_equal(older, younger);
    publish(s);
    assert_int_equal(home_at(s, 0, "a"), younger);
    assert_int_equal(home_at(s, 1, "a"), younger);
    street_destroy(s);
}

static void only_the_owner_replicates_a_class(void **state)
{
    struct street *s = street_create();
    char cls[16];

    (void)state;
    owned_class(s, 0, cls);
    int home = served(s, 1, cls, 10 * MS);
    publish(s);
    for (int i = 0; i < 60; ++i)
        assert_int_equal(send(s, 1, cls), home);
    assert_int_equal(homes_count(&s->f[1], cls), 1);
    response_all(s, 1);
    for (int i = 0; i < 60; ++i)
        send(s, 0, cls);
    assert_true(homes_count(&s->f[0], cls) > 1);
    response_all(s, 0);
    street_destroy(s);
}

static void a_move_is_not_undone_by_what_was_published_before_it_was_known(void **state)
{
    struct street *s = street_create();
    char cls[16];

    (void)state;
    owned_class(s, 0, cls);
    serve_others(s);
    int first = served(s, 0, cls, 10 * MS);
    publish(s);
    flood_home_of(s, 0, first);
    int moved = send(s, 0, cls);
    assert_int_equal(s->f[0].choice.reason, HOMES_REASSIGN);
    assert_int_not_equal(moved, first);
    /* The other balancer is not informed yet, and uses the old home; that is published first. */
    assert_int_equal(served(s, 1, cls, 10 * MS), first);
    s->reported[first] = publish_worker(s, first);
    assert_int_equal(home_at(s, 0, cls), moved);
    assert_int_equal(home_at(s, 1, cls), first);
    publish(s);
    assert_int_equal(home_at(s, 1, cls), moved);
    response_all(s, 0);
    street_destroy(s);
}

static void a_class_that_was_not_used_for_long_leaves_its_home_for_both(void **state)
{
    struct street *s = street_create();
    char cls[16];

    (void)state;
    owned_class(s, 0, cls);
    int first = served(s, 0, cls, 10 * MS);
    pass(s, SECOND);
    serve_others(s);
    flood_home_of(s, 0, first);
    int moved = served(s, 0, cls, 10 * MS);
    assert_int_equal(s->f[0].choice.reason, HOMES_REASSIGN);
    assert_int_not_equal(moved, first);
    publish(s);
    assert_int_equal(home_at(s, 0, cls), moved);
    assert_int_equal(home_at(s, 1, cls), moved);
    street_destroy(s);
}

static void a_further_home_is_one_for_both_until_none_uses_it(void **state)
{
    struct street *s = street_create();
    char cls[16];

    (void)state;
    owned_class(s, 0, cls);
    serve_others(s);
    for (int i = 0; i < 30; ++i)
        send(s, 0, cls);
    publish(s);
    size_t n = homes_count(&s->f[0], cls);
    assert_true(n > 1);
    assert_int_equal(homes_count(&s->f[1], cls), n);
    response_all(s, 0);
    for (int i = 0; i < 6000; ++i) {
        pass(s, 10 * MS);
        served(s, i % 2, cls, 1);
        if (i % 50 == 0)
            publish(s);
    }
    publish(s);
    assert_int_equal(homes_count(&s->f[0], cls), 1);
    assert_int_equal(home_at(s, 1, cls), home_at(s, 0, cls));
    street_destroy(s);
}

static void a_workers_load_is_the_published_work_of_its_classes(void **state)
{
    struct street *s = street_create();

    (void)state;
    int busy = 0;
    for (int i = 0; i < 500; ++i)
        busy = served(s, 0, "busy", 10 * MS);
    int idle = served(s, 0, "idle", 1 * MS);
    assert_int_not_equal(busy, idle);
    publish(s);
    /* The other has not served any of it: 5 s of work of the last 20 s, fading. */
    struct homes_worker_view v = view_of(&s->f[1], busy);
    assert_true(v.work > 0.2);
    assert_true(v.work < 0.25);
    assert_true(view_of(&s->f[1], idle).work < 0.001);
    assert_true(v.load > view_of(&s->f[1], idle).load);
    /* A class that is new to the other does not go there. */
    assert_int_not_equal(served(s, 1, "new", 10 * MS), busy);
    street_destroy(s);
}

static void
one_that_is_alone_decides_alone_and_one_that_is_alone_again_keeps_its_homes(void **state)
{
    struct street *s = street_create();

    (void)state;
    int home = served(s, 0, "a", 10 * MS);
    publish(s);
    assert_int_equal(home_at(s, 1, "a"), home);
    for (int b = 0; b < BALANCERS; ++b)
        homes_set_balancers(s->f[b].homes, NULL, 0, 0, now(s));
    assert_true(homes_owns(s->f[0].homes, SLICE_LIT("a")));
    assert_true(homes_owns(s->f[1].homes, SLICE_LIT("a")));
    /* Of a class that it has had no request of it learns where the class lives ... */
    int later = served(s, 0, "later", 10 * MS);
    publish(s);
    assert_int_equal(home_at(s, 1, "later"), later);
    assert_int_equal(served(s, 1, "later", 10 * MS), later);
    /* ... and nothing more from then on. */
    int other = (later + 1) % WORKERS;
    home_records_use(s->records[other], SLICE_LIT("later"), HOME_REASSIGN,
                     name_of(s->f[0].workers[later]), now(s));
    publish(s);
    assert_int_equal(home_at(s, 1, "later"), later);
    assert_int_equal(served(s, 1, "a", 10 * MS), home);
    street_destroy(s);
}

/* ---- one load balancer that was restarted ---- */

enum { RECALLED = 30 };

/* A load balancer alone, which has served 30 classes; -> where each lives. */
static void live(struct street *s, int homes[RECALLED])
{
    for (int b = 0; b < BALANCERS; ++b)
        homes_set_balancers(s->f[b].homes, NULL, 0, 0, now(s));
    for (int round = 0; round < 20; ++round) {
        for (int i = 0; i < RECALLED; ++i) {
            char cls[16];

            snprintf(cls, sizeof(cls), "k%d", i);
            homes[i] = served(s, 0, cls, (uint64_t)(1 + i % 5) * 2 * MS);
        }
    }
}

/* Balancer 1 has had no request yet: it is the one that comes after the restart. */
static void assert_recalled(struct street *s, const int homes[RECALLED])
{
    for (int i = 0; i < RECALLED; ++i) {
        char cls[16];

        snprintf(cls, sizeof(cls), "k%d", i);
        assert_int_equal(home_at(s, 1, cls), homes[i]);
        assert_int_equal(served(s, 1, cls, 2 * MS), homes[i]);
        assert_int_equal(s->f[1].choice.reason, HOMES_HOME);
    }
}

static void after_a_restart_every_class_lives_where_it_did(void **state)
{
    struct street *s = street_create();
    int homes[RECALLED];

    (void)state;
    live(s, homes);
    publish(s);
    assert_recalled(s, homes);
    street_destroy(s);
}

static void a_restarted_load_balancer_recalls_homes_after_minutes_without_requests(void **state)
{
    struct street *s = street_create();
    int homes[RECALLED];

    (void)state;
    live(s, homes);
    pass(s, 600 * (uint64_t)SECOND);
    publish(s);
    assert_recalled(s, homes);
    street_destroy(s);
}

/* The other load balancer continues to run; the result is the same as for a single one. */
static void a_restarted_load_balancer_follows_old_records_as_well(void **state)
{
    struct street *s = street_create();
    char cls[16];

    (void)state;
    owned_class(s, 0, cls);
    int home = served(s, 0, cls, 10 * MS);
    pass(s, 600 * (uint64_t)SECOND);
    publish(s);
    assert_int_equal(home_at(s, 1, cls), home);
    assert_int_equal(served(s, 1, cls, 10 * MS), home);
    assert_int_equal(s->f[1].choice.reason, HOMES_HOME);
    street_destroy(s);
}

static void the_work_of_classes_is_recalled_as_well(void **state)
{
    struct street *s = street_create();
    int homes[RECALLED];
    struct homes_view v;

    (void)state;
    live(s, homes);
    publish(s);
    homes_view(s->f[1].homes, now(s), &v);
    assert_int_equal(v.homes, RECALLED);
    for (int w = 0; w < WORKERS; ++w) {
        struct homes_worker_view before, after;

        homes_view_worker(s->f[0].homes, s->f[0].workers[w], now(s), &before);
        homes_view_worker(s->f[1].homes, s->f[1].workers[w], now(s), &after);
        assert_int_equal(after.homes, before.homes);
        assert_true(fabs(after.load - before.load) <= 0.1 * before.load);
    }
    /* So a class is as large as it was, and not all that there is. */
    served(s, 0, "k0", 2 * MS);
    double share = s->f[0].choice.share;
    served(s, 1, "k0", 2 * MS);
    assert_true(s->f[1].choice.share < 2 * share + 0.1);
    street_destroy(s);
}

static void recalled_work_is_handed_over_once(void **state)
{
    struct street *s = street_create();
    struct lodgers *f = &s->f[1];
    struct homes_worker_view from, to, after;
    int homes[RECALLED];

    (void)state;
    live(s, homes);
    publish(s);
    struct homes_request r = {.now_us = now(s)};
    homes_view_worker(f->homes, f->workers[0], now(s), &from);
    homes_view_worker(f->homes, f->workers[1], now(s), &to);
    assert_true(from.work > 0 && from.homes > 0);
    assert_int_equal(homes_hand_over(f->homes, f->workers[0], f->workers[1], &r), from.homes);
    homes_view_worker(f->homes, f->workers[1], now(s), &after);
    assert_true(fabs(after.work - from.work - to.work) <= 1e-9);
    street_destroy(s);
}

/* What workers FIRST and SECOND have of "a" when it was new at worker 1 and moved to worker 2,
 * in this order. */
static void recall_move(struct street *s, int first, int second, bool by_name)
{
    uint64_t at_us = now(s) - 5 * SECOND;
    const struct homes_record left = {.kind = HOME_NEW, .since_us = at_us, .used_us = at_us};
    struct homes_record moved = {
        .kind = HOME_REASSIGN, .since_us = at_us + SECOND, .used_us = at_us + 2 * SECOND};
    struct lodgers *f = &s->f[1];

    moved.from = by_name ? NULL : f->workers[1];
    moved.from_name = by_name ? lodgers_name(1) : 0;
    homes_set_balancers(f->homes, NULL, 0, 0, now(s));
    for (int i = 0; i < 2; ++i) {
        int w = i == 0 ? first : second;

        homes_published(f->homes, f->workers[w], SLICE_LIT("a"), w == 1 ? &left : &moved, now(s));
        homes_check(f->homes);
    }
}

static void
a_home_that_was_left_is_none_whoever_tells_first_and_whether_it_is_known_yet(void **state)
{
    (void)state;
    for (int i = 0; i < 4; ++i) {
        struct street *s = street_create();

        recall_move(s, 1 + i % 2, 2 - i % 2, i >= 2);
        assert_int_equal(home_at(s, 1, "a"), 2);
        street_destroy(s);
    }
}

static void a_home_long_unused_at_the_last_use_is_none_whichever_reports_first(void **state)
{
    (void)state;
    for (int i = 0; i < 2; ++i) {
        struct street *s = street_create();
        struct lodgers *f = &s->f[1];

        homes_set_balancers(f->homes, NULL, 0, 0, now(s));
        for (int k = 0; k < 3; ++k) {
            int w = i == 0 ? k : 2 - k;
            /* 0 and 1 are used to the end, 2 is not. */
            uint64_t used_us = now(s) - (w == 2 ? 112 : 100) * (uint64_t)SECOND;
            const struct homes_record r = {.kind = w == 2 ? HOME_NEW : HOME_REPLICATE,
                                           .since_us = used_us,
                                           .used_us = used_us};

            homes_published(f->homes, f->workers[w], SLICE_LIT("a"), &r, now(s));
            homes_check(f->homes);
        }
        struct homes_worker *at[3] = {NULL};
        assert_int_equal(homes_of(f->homes, SLICE_LIT("a"), at, 3), 2);
        assert_true(at[0] != f->workers[2] && at[1] != f->workers[2]);
        street_destroy(s);
    }
}

static void a_worker_that_leaves_takes_its_records_along(void **state)
{
    struct street *s = street_create();

    (void)state;
    int home = served(s, 0, "a", 10 * MS);
    publish(s);
    for (int b = 0; b < BALANCERS; ++b) {
        homes_leave(s->f[b].homes, s->f[b].workers[home]);
        s->f[b].workers[home] = NULL;
        assert_int_equal(homes_count(&s->f[b], "a"), 0);
    }
    s->reported[home] = UINT64_MAX;
    int next = served(s, 1, "a", 10 * MS);
    publish(s);
    assert_int_equal(home_at(s, 0, "a"), next);
    street_destroy(s);
}

/* Whatever workers say, and in whatever order. */
static void random_records_keep_the_invariants(void **state)
{
    struct street *s = street_create();
    uint32_t x = 12345;

    (void)state;
    for (int i = 0; i < 20000; ++i) {
        char cls[16];
        struct lodgers *f = &s->f[i % 2];

        x = x * 1664525 + 1013904223;
        snprintf(cls, sizeof(cls), "c%u", x >> 24 & 15);
        uint64_t age = x >> 8 & 0xfff;
        struct homes_record r = {.kind = (enum home_kind)(x >> 12 & 3),
                                 .from = x & 1 << 20 ? f->workers[x >> 21 & 7] : NULL,
                                 .since_us = now(s) - age * 5000,
                                 .used_us = now(s) - age * 3000 + (x >> 28) * 1000,
                                 .rate = (x >> 16 & 0xff) / 256.0};
        homes_published(f->homes, f->workers[x >> 4 & 7], slice_of(cls), &r, now(s));
        if (i % 3 == 0)
            served(s, i % 2, cls, x >> 20);
        if (i % 97 == 0)
            publish(s);
        if (i % 1000 == 0)
            homes_set_balancers(f->homes, (const uint64_t[]){1, 2, 3}, (size_t)i / 1000 % 4, 0,
                                now(s));
    }
    street_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_class_has_one_owner),
        cmocka_unit_test(a_home_that_one_has_given_is_followed_by_the_other),
        cmocka_unit_test(the_older_of_two_first_homes_stays),
        cmocka_unit_test(the_first_home_that_its_worker_learnt_first_stays),
        cmocka_unit_test(the_owners_home_stays_if_each_takes_its_own_for_the_older),
        cmocka_unit_test(
            a_load_balancer_that_reassigns_a_victim_of_a_flood_is_followed_by_the_other),
        cmocka_unit_test(the_younger_of_two_moves_at_once_stays),
        cmocka_unit_test(only_the_owner_replicates_a_class),
        cmocka_unit_test(a_move_is_not_undone_by_what_was_published_before_it_was_known),
        cmocka_unit_test(a_class_that_was_not_used_for_long_leaves_its_home_for_both),
        cmocka_unit_test(a_further_home_is_one_for_both_until_none_uses_it),
        cmocka_unit_test(a_workers_load_is_the_published_work_of_its_classes),
        cmocka_unit_test(
            one_that_is_alone_decides_alone_and_one_that_is_alone_again_keeps_its_homes),
        cmocka_unit_test(after_a_restart_every_class_lives_where_it_did),
        cmocka_unit_test(a_restarted_load_balancer_recalls_homes_after_minutes_without_requests),
        cmocka_unit_test(a_restarted_load_balancer_follows_old_records_as_well),
        cmocka_unit_test(the_work_of_classes_is_recalled_as_well),
        cmocka_unit_test(recalled_work_is_handed_over_once),
        cmocka_unit_test(
            a_home_that_was_left_is_none_whoever_tells_first_and_whether_it_is_known_yet),
        cmocka_unit_test(a_home_long_unused_at_the_last_use_is_none_whichever_reports_first),
        cmocka_unit_test(a_worker_that_leaves_takes_its_records_along),
        cmocka_unit_test(random_records_keep_the_invariants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
