/* SPDX-License-Identifier: Apache-2.0
 *
 * The times at which requests end for a shadow, compared with workers that serve in order in a time
 * that the test sets. A shadow of policy adaptive has no effect on the policy that is used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/routing/pool_fixture.h"

enum { REQUESTS = 400, CLASSES = 7, WORKERS = FIXTURE_WORKERS };

static const uint64_t BEGIN_US = 1000000;

/* Request I comes at at_us, and keeps its worker busy for so long, whichever it is. */
struct request {
    uint64_t at_us, busy_us;
    uint64_t end_us; /* at the worker that has it */
    struct pool_pick pick;
    int worker;
};

struct story {
    struct fixture f;
    struct request requests[REQUESTS];
    uint64_t free_us[WORKERS];
    uint64_t now_us;
    uint64_t waited_us;
    size_t next;
};

static uint32_t some(size_t i)
{
    return (uint32_t)(i + 1) * 2654435761u >> 8;
}

static struct pool_settings settings_of(enum pool_policy policy)
{
    struct pool_settings s = fixture_settings;

    s.policy = policy;
    s.hash_balance_percent = 200;
    s.seed = 7;
    return s;
}

static struct pool_shadow_counts counts(struct fixture *f)
{
    struct pool_view v;

    pool_view(f->pool, false, &v);
    struct pool_shadow_counts c = v.shadow;
    pool_view_fini(&v);
    return c;
}

/* One each GAP_US on the average, each of 7 GAP_US on the average. */
static void start(struct story *t, const struct pool_settings *s, uint64_t gap_us)
{
    *t = (struct story){.now_us = BEGIN_US};
    fixture_start(&t->f, s);
    for (int i = 0; i < WORKERS; ++i)
        fixture_resume(&t->f, i, "");
    uint64_t at_us = BEGIN_US;
    for (size_t i = 0; i < REQUESTS; ++i) {
        at_us += gap_us / 2 + some(i) % gap_us;
        t->requests[i].at_us = at_us;
        t->requests[i].busy_us = 2 * gap_us + some(i + REQUESTS) % (3 * gap_us);
    }
}

/* The next to end, or NULL. */
static struct request *next_end(struct story *t)
{
    struct request *first = NULL;

    for (size_t i = 0; i < t->next; ++i) {
        struct request *r = &t->requests[i];

        if (r->pick.worker != NULL && (first == NULL || r->end_us < first->end_us))
            first = r;
    }
    return first;
}

static void end(struct story *t, struct request *r)
{
    struct pool_served how = {.now_us = r->end_us, .service_us = r->busy_us};

    t->now_us = r->end_us;
    pool_put(t->f.pool, &r->pick, &how, NULL);
    pool_check(t->f.pool);
}

static void begin(struct story *t, struct request *r)
{
    char cls[16];

    snprintf(cls, sizeof(cls), "c%u", some(t->next) % CLASSES);
    struct pool_request q = {.cls = slice_of(cls)};
    t->now_us = r->at_us;
    assert_int_equal(pool_get(t->f.pool, &q, r->at_us, &r->pick), ERR_OK);
    pool_check(t->f.pool);
    r->worker = fixture_number(&t->f, r->pick.worker);
    uint64_t *free_us = &t->free_us[r->worker];
    uint64_t serve_us = *free_us > r->at_us ? *free_us : r->at_us;
    t->waited_us += serve_us - r->at_us;
    *free_us = r->end_us = serve_us + r->busy_us;
    ++t->next;
}

/* Runs all requests; the last one arrives when all others have ended. */
static void tell(struct story *t)
{
    t->requests[REQUESTS - 1].at_us = t->requests[REQUESTS - 2].at_us + 100000000;
    while (t->next < REQUESTS || next_end(t) != NULL) {
        struct request *r = next_end(t);

        if (t->next < REQUESTS && (r == NULL || t->requests[t->next].at_us < r->end_us))
            begin(t, &t->requests[t->next]);
        else
            end(t, r);
    }
}

static void a_shadow_has_the_queues_that_its_own_choices_would_make(void **state)
{
    static struct story alone, obeyed;

    (void)state;
    for (int policy = 0; policy < POOL_POLICIES; ++policy) {
        struct pool_settings s = settings_of(POOL_POLICY_CLASSLESS);
        uint64_t differ = 0;

        s.shadowed = true;
        s.shadow = (enum pool_policy)policy;
        start(&alone, &s, 1000);
        tell(&alone);
        s = settings_of((enum pool_policy)policy);
        start(&obeyed, &s, 1000);
        tell(&obeyed);
        for (int i = 0; i < REQUESTS; ++i)
            differ += alone.requests[i].worker != obeyed.requests[i].worker;
        struct pool_shadow_counts c = counts(&alone.f);
        /* Nothing waits in truth, so all is known in time. */
        assert_int_equal(alone.waited_us, 0);
        assert_int_equal(c.live_wait_us, 0);
        assert_int_equal(c.overdue, 0);
        assert_int_equal(c.requests, REQUESTS);
        assert_int_equal(c.differed, differ);
        assert_int_equal(c.shadow_wait_us, obeyed.waited_us);
        /* Otherwise there was no difference to measure. */
        assert_true(policy != POOL_POLICY_ADAPTIVE || (differ > 0 && obeyed.waited_us > 0));
        fixture_end(&alone.f);
        fixture_end(&obeyed.f);
    }
}

static void the_wait_of_the_effective_policy_is_reported_as_it_was(void **state)
{
    static struct story t;
    struct pool_settings s = settings_of(POOL_POLICY_HASH);

    (void)state;
    s.shadowed = true;
    s.shadow = POOL_POLICY_HASH;
    start(&t, &s, 1000);
    tell(&t);
    struct pool_shadow_counts c = counts(&t.f);
    assert_true(t.waited_us > 0);
    assert_int_equal(c.live_wait_us, t.waited_us);
    assert_int_equal(c.shadow_wait_us, t.waited_us);
    assert_int_equal(c.differed, 0);
    fixture_end(&t.f);
}

/* A second policy that gives all to one worker, which could do a tenth of it. */
static void a_shadow_that_could_not_keep_up_lets_the_oldest_end(void **state)
{
    enum { MANY = 400, BUSY_US = 10000, GAP_US = 1000 };
    static struct pool_pick picks[MANY];
    struct fixture f;
    struct pool_settings s = settings_of(POOL_POLICY_ROUND_ROBIN);
    struct pool_request r = {.cls = SLICE_LIT("a")};

    (void)state;
    s.shadowed = true;
    s.shadow = POOL_POLICY_HASH;
    s.hash_balance_percent = 0;
    fixture_start(&f, &s);
    for (int i = 0; i < WORKERS; ++i)
        fixture_resume(&f, i, "");
    for (uint64_t i = 0; i < MANY + BUSY_US / GAP_US; ++i) {
        uint64_t now_us = BEGIN_US + i * GAP_US;
        struct pool_served how = {.now_us = now_us, .service_us = BUSY_US};

        if (i >= BUSY_US / GAP_US)
            pool_put(f.pool, &picks[i - BUSY_US / GAP_US], &how, NULL);
        if (i < MANY)
            assert_int_equal(pool_get(f.pool, &r, now_us, &picks[i]), ERR_OK);
        pool_check(f.pool);
    }
    struct pool_shadow_counts c = counts(&f);
    assert_int_equal(c.live_wait_us, 0);
    /* Of 400 the one worker has served 40, and 4 times 10 may be behind. */
    assert_true(c.overdue >= 300);
    assert_true(c.overdue <= 330);
    assert_true(c.shadow_wait_us > 300 * (uint64_t)BUSY_US);
    fixture_end(&f);
}

static const char *shadow_says(struct fixture *f, const char *cls, uint64_t now_us)
{
    static char name[64];
    struct pool_request r = {.cls = slice_of(cls)};
    struct pool_explain e;

    assert_true(pool_explain_shadow(f->pool, &r, now_us, &e));
    assert_non_null(e.worker);
    snprintf(name, sizeof(name), "%s %s", pick_reason_text(e.reason), worker_name(e.worker));
    pool_explain_fini(&e);
    return name;
}

static void serve_one(struct fixture *f, const char *cls, uint64_t now_us)
{
    struct pool_request r = {.cls = slice_of(cls)};
    struct pool_served how = {.now_us = now_us + 500, .service_us = 500};
    struct pool_pick pick;

    assert_int_equal(pool_get(f->pool, &r, now_us, &pick), ERR_OK);
    assert_false(pick.passing);
    assert_int_equal(pick.home, HOME_USED);
    assert_null(pick.home_from);
    pool_put(f->pool, &pick, &how, NULL);
    pool_check(f->pool);
}

static void homes_of_a_shadow_are_reported_to_none_and_taken_from_none(void **state)
{
    static const uint64_t ids[] = {11, 12};
    struct fixture f;
    struct pool_settings s = settings_of(POOL_POLICY_ROUND_ROBIN);
    char home[64];

    (void)state;
    s.shadowed = true;
    s.shadow = POOL_POLICY_ADAPTIVE;
    fixture_start(&f, &s);
    for (int i = 0; i < 4; ++i)
        fixture_resume(&f, i, "");
    pool_set_balancers(f.pool, ids, 2, 0);
    for (uint64_t i = 0; i < 40; ++i)
        serve_one(&f, "a", BEGIN_US + i * 1000);
    snprintf(home, sizeof(home), "%s", shadow_says(&f, "a", BEGIN_US + 40000));
    assert_int_equal(strncmp(home, "home ", 5), 0);
    /* Another load balancer's policy adaptive has just moved it to another home. */
    for (int i = 0; i < 4; ++i) {
        struct pool_home there = {.cls = SLICE_LIT("a"),
                                  .kind = HOME_NEW,
                                  .since_us = BEGIN_US + 1,
                                  .used_us = BEGIN_US + 40000,
                                  .rate = 1};

        pool_new_homes(f.pool, f.workers[i], &there, 1, BEGIN_US + 40000);
    }
    assert_string_equal(shadow_says(&f, "a", BEGIN_US + 41000), home);
    fixture_end(&f);
}

static void a_worker_that_leaves_hands_over_its_homes_of_the_shadow(void **state)
{
    struct fixture f;
    struct pool_settings s = settings_of(POOL_POLICY_ROUND_ROBIN);
    int home = -1;

    (void)state;
    s.shadowed = true;
    s.shadow = POOL_POLICY_ADAPTIVE;
    fixture_start(&f, &s);
    for (int i = 0; i < 3; ++i)
        fixture_resume(&f, i, "");
    for (uint64_t i = 0; i < 20; ++i)
        serve_one(&f, "a", BEGIN_US + i * 1000);
    assert_int_equal(sscanf(shadow_says(&f, "a", BEGIN_US + 20000), "home w%d", &home), 1);
    fixture_resume(&f, 5, "");
    pool_hand_over(f.pool, f.workers[home], f.workers[5]);
    assert_string_equal(shadow_says(&f, "a", BEGIN_US + 21000), "home w5");
    fixture_end(&f);
}

static void without_a_shadow_nothing_explains_itself(void **state)
{
    struct fixture f;
    struct pool_settings s = settings_of(POOL_POLICY_ADAPTIVE);
    struct pool_request r = {.cls = SLICE_LIT("a")};
    struct pool_explain e;

    (void)state;
    fixture_start(&f, &s);
    fixture_resume(&f, 0, "");
    assert_false(pool_explain_shadow(f.pool, &r, BEGIN_US, &e));
    assert_null(e.worker);
    pool_explain_fini(&e);
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shadow_has_the_queues_that_its_own_choices_would_make),
        cmocka_unit_test(the_wait_of_the_effective_policy_is_reported_as_it_was),
        cmocka_unit_test(a_shadow_that_could_not_keep_up_lets_the_oldest_end),
        cmocka_unit_test(homes_of_a_shadow_are_reported_to_none_and_taken_from_none),
        cmocka_unit_test(a_worker_that_leaves_hands_over_its_homes_of_the_shadow),
        cmocka_unit_test(without_a_shadow_nothing_explains_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
