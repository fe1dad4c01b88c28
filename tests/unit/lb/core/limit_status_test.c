/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/core/limits_live.h"

#include <pthread.h>
#include <stdatomic.h>

#include "lb/limits/limit.h"
#include "lb/status/status.h"
#include "tests/unit/lb/core/control_fixture.h"

enum { US = 1000000 };

static struct limit make_limit(const char *name, int where)
{
    struct limit_settings s;
    struct limit_problem p;
    struct limit limit;

    settings_defaults(&limit_table, &s);
    s.where = where;
    s.maxqueue = 1000;
    assert_true(limit_compile(name, &s, &limit, &p));
    limit_settings_fini(&s);
    limit.counter = limit_counter_create(name);
    return limit;
}

/* One request asks for KEY in TABLE, which is one of LIMIT's, at AT_US. */
static enum counter_result ask_in(struct counter_table *table, const struct limit *limit,
                                  struct counter_lease *lock, const char *key, uint64_t at_us)
{
    const struct counter_request a = {
        .key = slice_of(key),
        .type = slice_of(limit->name),
        .kind = COUNTER_ME,
        .workers = 1,
        .maxqueue = 1000,
        .timeout_ms = 1,
    };

    *lock = (struct counter_lease){0};
    return counter_acquire(table, lock, &a, at_us);
}

static void leave_from(struct counter_table *table, struct counter_lease *lock, uint64_t at_us)
{
    struct list woken;

    list_init(&woken);
    counter_leave(table, lock, at_us, &woken);
    while (list_pop_front(&woken) != NULL)
        ;
}

static enum counter_result ask(struct limit *limit, struct counter_lease *lock, const char *key,
                               uint64_t at_us)
{
    return ask_in(limit->counter->table, limit, lock, key, at_us);
}

static void leave(struct limit *limit, struct counter_lease *lock, uint64_t at_us)
{
    leave_from(limit->counter->table, lock, at_us);
}

/* ---- one counter ---- */

static void a_view_has_holders_waiters_and_the_longest_holder(void **state)
{
    struct limit limit = make_limit("pages", LIMIT_LOCAL);
    struct limit_keys_view keys;
    struct counter_lease first;
    struct counter_lease second;
    struct counter_lease third;
    struct limit_view v;

    (void)state;
    assert_int_equal(ask(&limit, &first, "pages:/a", 10 * US), COUNTER_LOCKED);
    assert_int_equal(ask(&limit, &second, "pages:/b", 11 * US), COUNTER_LOCKED);
    assert_int_equal(ask(&limit, &third, "pages:/a", 12 * US), COUNTER_WAIT);
    limit_view(&limit, 15 * US, &v, &keys);
    assert_int_equal(v.held, 2);
    assert_int_equal(v.waiting, 1);
    assert_int_equal(v.keys, 2);
    assert_int_equal(v.acquired, 2);
    assert_int_equal(v.longest_us, 5 * US);
    assert_memory_equal(keys.longest.key, "pages:/a", keys.longest.len);
    assert_int_equal(keys.longest.len, 8);
    leave(&limit, &first, 15 * US);
    limit_view(&limit, 17 * US, &v, &keys);
    assert_int_equal(v.waiting, 0);
    assert_int_equal(v.acquired, 3);
    assert_int_equal(v.waited_acquired_us, 3 * US);
    assert_int_equal(v.longest_us, 6 * US);
    assert_memory_equal(keys.longest.key, "pages:/b", keys.longest.len);
    leave(&limit, &second, 17 * US);
    leave(&limit, &third, 17 * US);
    limit_view(&limit, 18 * US, &v, &keys);
    assert_int_equal(v.held, 0);
    assert_int_equal(v.longest_us, 0);
    assert_int_equal(keys.longest.len, 0);
    limit_fini(&limit);
}

static void the_keys_most_waited_for_come_first_and_are_ten_at_most(void **state)
{
    struct limit limit = make_limit("pages", LIMIT_LOCAL);
    struct limit_keys_view keys;
    struct limit_view v;
    uint64_t sum = 0;

    (void)state;
    for (uint64_t i = 1; i <= 15; ++i) {
        char *key = xasprintf("pages:/%llu", (unsigned long long)i);

        topk_add(limit.counter->top, slice_of(key), i * US);
        sum += i * US;
        free(key);
    }
    limit_view(&limit, US, &v, &keys);
    assert_int_equal(v.waited_us, sum);
    assert_int_equal(keys.n, LIMIT_TOP_KEYS);
    for (size_t i = 0; i < keys.n; ++i) {
        assert_int_equal(keys.top[i].waited_us, (15 - i) * US);
        assert_int_equal(keys.top[i].waits, 1);
    }
    /* They are copies: the summary may change. */
    topk_resize(limit.counter->top, 1);
    assert_memory_equal(keys.top[0].key, "pages:/15", keys.top[0].len);
    limit_fini(&limit);
}

static void at_a_daemon_one_that_asks_it_counts_and_not_one_in_flight(void **state)
{
    struct limit limit = make_limit("far", LIMIT_DAEMON);
    struct counter_table *coalescing = limit.counter->coalescing;
    struct limit_figures *f = &limit.counter->figures;
    struct limit_keys_view keys;
    struct counter_lease leader;
    struct counter_lease behind;
    struct limit_view v;

    (void)state;
    assert_int_equal(ask_in(coalescing, &limit, &leader, "far:x", US), COUNTER_LOCKED);
    assert_int_equal(ask_in(coalescing, &limit, &behind, "far:x", US), COUNTER_WAIT);
    atomic_store(&f->daemon_waiting, 1);
    limit_view(&limit, 9 * US, &v, &keys);
    assert_int_equal(v.held, 0);
    assert_int_equal(v.waiting, 2);
    assert_int_equal(v.acquired, 0);
    assert_int_equal(v.longest_us, 0);
    assert_int_equal(keys.longest.len, 0);
    atomic_store(&f->daemon_waiting, 0);
    atomic_store(&f->daemon_held, 1);
    atomic_store(&f->daemon_acquired, 1);
    atomic_store(&f->daemon_lost, 3);
    limit_view(&limit, 9 * US, &v, NULL);
    assert_int_equal(v.held, 1);
    assert_int_equal(v.waiting, 1);
    assert_int_equal(v.acquired, 1);
    assert_int_equal(v.lost, 3);
    leave_from(coalescing, &behind, 9 * US);
    leave_from(coalescing, &leader, 9 * US);
    limit_fini(&limit);
}

/* ---- pages ---- */

static const char yaml[] = "listen: [{address: 127.0.0.1:1}]\n"
                           "workers: [127.0.0.1:2]\n"
                           "metrics_classes: 0\n" /* there is no observer */
                           "pool_counter_servers: [127.0.0.1:7531, 'unix:/run/\"x']\n";

static void put_effective(struct control *c, const struct limit *limits, size_t n)
{
    struct limit_set *set = limit_set_create(limits, n);

    application_set_limits(c->app, set);
    limit_set_unref(set);
    loop_turn(c->lb.control, 0);
}

static json_t *figures_of(struct control *c, const char *name)
{
    struct text out = {0};
    struct json_writer w = {.out = &out};
    char why[JSON_WHY_ROOM];
    json_t *v = NULL;

    json_open_object(&w, NULL);
    limit_status_put(c->app, name, &w);
    limit_status_describe(c->app, &w);
    json_close_object(&w);
    assert_int_equal(json_parse(text_slice(&out), 1 << 20, &v, why), ERR_OK);
    text_fini(&out);
    return v;
}

static void figures_are_json_whatever_bytes_a_key_has(void **state)
{
    static const char hostile[] = "pages:\"></script>\\\x01\xff\n%";
    struct control *c = control_create(yaml);
    struct limit limit = make_limit("pages", LIMIT_LOCAL);
    struct limit mine = limit;
    struct counter_lease lock;

    (void)state;
    put_effective(c, &limit, 1);
    assert_int_equal(ask(&mine, &lock, hostile, US), COUNTER_LOCKED);
    topk_add(mine.counter->top, slice_of(hostile), US);
    json_t *page = figures_of(c, "pages");
    const json_t *f = json_object_get(page, "figures");
    assert_int_equal(json_integer_value(json_object_get(f, "held")), 1);
    const char *shown = json_string_value(json_object_get(json_object_get(f, "longest"), "key"));
    assert_non_null(shown);
    assert_memory_equal(shown, hostile, strlen("pages:\"></script>\\\x01"));
    const json_t *top = json_array_get(json_object_get(f, "top"), 0);
    assert_string_equal(json_string_value(json_object_get(top, "key")), shown);
    assert_true(json_real_value(json_object_get(top, "waited_s")) == 1.0 ||
                json_integer_value(json_object_get(top, "waited_s")) == 1);
    leave(&mine, &lock, US);
    json_decref(page);
    control_destroy(c);
}

static void a_name_without_an_effective_rule_has_no_figures(void **state)
{
    struct control *c = control_create(yaml);
    struct limit limit = make_limit("pages", LIMIT_LOCAL);

    (void)state;
    json_t *page = figures_of(c, "pages");
    assert_true(json_is_null(json_object_get(page, "figures")));
    json_decref(page);
    put_effective(c, &limit, 1);
    page = figures_of(c, "other");
    assert_true(json_is_null(json_object_get(page, "figures")));
    json_decref(page);
    page = figures_of(c, "pages");
    assert_true(json_is_object(json_object_get(page, "figures")));
    json_decref(page);
    control_destroy(c);
}

static void expect_line(const struct text *page, const char *line)
{
    char *whole = xasprintf("\n%s\n", line);

    if (memmem(page->p, page->len, whole, strlen(whole)) == NULL)
        fail_msg("not there: %s\n%.*s", line, (int)page->len, page->p);
    free(whole);
}

static void metrics_have_a_series_for_each_limit_and_daemon(void **state)
{
    struct control *c = control_create(yaml);
    struct limit limits[] = {make_limit("pages", LIMIT_LOCAL), make_limit("far", LIMIT_DAEMON)};
    struct limit mine = limits[0];
    struct counter_lease lock;
    struct text out = {0};
    struct metrics m = {.out = &out};

    (void)state;
    put_effective(c, limits, ARRAY_LEN(limits));
    assert_int_equal(ask(&mine, &lock, "pages:/a", US), COUNTER_LOCKED);
    topk_add(mine.counter->top, SLICE_LIT("pages:/a"), 2500000);
    atomic_store(&mine.counter->figures.rejected_full, 7);
    status_metrics(&c->lb, &m);
    expect_line(&out, "resumelb_limit_held{application=\"default\",limit=\"pages\"} 1");
    expect_line(&out, "resumelb_limit_held{application=\"default\",limit=\"far\"} 0");
    expect_line(&out, "resumelb_limit_waited_seconds_total{application=\"default\","
                      "limit=\"pages\"} 2.5");
    expect_line(&out,
                "resumelb_limit_rejected_full_total{application=\"default\",limit=\"pages\"} 7");
    expect_line(&out, "resumelb_limit_maxqueue{application=\"default\",limit=\"pages\"} 1000");
    expect_line(&out, "resumelb_pool_counter_server_suspended{application=\"default\","
                      "server=\"unix:/run/\\\"x\"} 0");
    expect_line(&out, "resumelb_stored_total{application=\"default\"} 0");
    leave(&mine, &lock, US);
    text_fini(&out);
    control_destroy(c);
}

/* ---- daemons ---- */

static void a_daemon_is_shown_as_all_loops_know_it(void **state)
{
    struct control *c = control_create(yaml);
    struct limit_daemon_view daemons[POOL_COUNTER_SERVERS_MAX];
    struct addr a;

    (void)state;
    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:7531"), &a), ERR_OK);
    assert_int_equal(limit_daemons(c->app, daemons), 2);
    assert_int_equal(daemons[0].now.connections, 0);
    struct pool_counter_daemon *d =
        pool_counter_daemon_get(c->app->pool_counter_health, SLICE_LIT("127.0.0.1:7531"), &a);
    for (unsigned i = 0; i < POOL_COUNTER_FAILURES_MAX; ++i)
        (void)pool_counter_daemon_failed(d, false, 1000);
    assert_true(pool_counter_daemon_reserve(d, false));
    assert_true(pool_counter_daemon_reserve(d, false));
    pool_counter_daemon_count_idle(d, 1);
    assert_int_equal(limit_daemons(c->app, daemons), 2);
    assert_true(slice_is(daemons[0].name, "127.0.0.1:7531"));
    assert_int_equal(daemons[0].now.connections, 2);
    assert_int_equal(daemons[0].now.idle, 1);
    assert_true(daemons[0].now.suspended);
    assert_int_equal(daemons[1].now.connections, 0);
    assert_false(daemons[1].now.suspended);
    pool_counter_daemon_count_idle(d, -1);
    pool_counter_daemon_release(d);
    pool_counter_daemon_release(d);
    pool_counter_daemon_put(d);
    control_destroy(c);
}

/* ---- many threads ---- */

enum { THREADS = 3, ROUNDS = 5000 };

struct holder {
    struct limit *limit;
    unsigned index;
    _Atomic unsigned *left;
    pthread_t thread;
};

/* As leases do it: table and summary under the counter's mutex. */
static void *hold_and_leave(void *context)
{
    struct holder *h = context;
    struct limit_counter *c = h->limit->counter;
    struct counter_lease lock;
    char *key = xasprintf("pages:/%u", h->index);

    for (uint64_t i = 0; i < ROUNDS; ++i) {
        pthread_mutex_lock(&c->lock);
        ASSERT(ask(h->limit, &lock, key, i) == COUNTER_LOCKED);
        pthread_mutex_unlock(&c->lock);
        atomic_fetch_add_explicit(&c->figures.coalesced, 1, memory_order_relaxed);
        pthread_mutex_lock(&c->lock);
        topk_add(c->top, slice_of(key), 1);
        leave(h->limit, &lock, i + 1);
        pthread_mutex_unlock(&c->lock);
    }
    free(key);
    atomic_fetch_sub(h->left, 1);
    return NULL;
}

static void each_view_of_a_busy_counter_is_of_one_moment(void **state)
{
    struct limit limit = make_limit("pages", LIMIT_LOCAL);
    _Atomic unsigned left = THREADS;
    struct holder holders[THREADS];
    struct limit_keys_view keys;
    struct limit_view v;
    uint64_t before = 0;

    (void)state;
    for (unsigned i = 0; i < THREADS; ++i) {
        holders[i] = (struct holder){.limit = &limit, .index = i, .left = &left};
        assert_int_equal(pthread_create(&holders[i].thread, NULL, hold_and_leave, &holders[i]), 0);
    }
    while (atomic_load(&left) != 0) {
        uint64_t sum = 0;

        limit_view(&limit, ROUNDS, &v, &keys);
        assert_int_equal(v.held, v.keys);
        assert_true(v.held <= THREADS);
        assert_int_equal(keys.longest.len != 0, v.held != 0);
        assert_true(v.acquired >= before);
        for (size_t i = 0; i < keys.n; ++i) {
            assert_int_equal(keys.top[i].len, strlen("pages:/0"));
            assert_int_equal(keys.top[i].waited_us, keys.top[i].waits);
            sum += keys.top[i].waited_us;
        }
        assert_int_equal(sum, v.waited_us);
        assert_int_equal(v.acquired, v.waited_us + v.held);
        before = v.acquired;
    }
    for (unsigned i = 0; i < THREADS; ++i)
        pthread_join(holders[i].thread, NULL);
    limit_view(&limit, ROUNDS, &v, &keys);
    assert_int_equal(v.acquired, THREADS * ROUNDS);
    assert_int_equal(v.coalesced, THREADS * ROUNDS);
    limit_fini(&limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_has_holders_waiters_and_the_longest_holder),
        cmocka_unit_test(the_keys_most_waited_for_come_first_and_are_ten_at_most),
        cmocka_unit_test(at_a_daemon_one_that_asks_it_counts_and_not_one_in_flight),
        cmocka_unit_test(figures_are_json_whatever_bytes_a_key_has),
        cmocka_unit_test(a_name_without_an_effective_rule_has_no_figures),
        cmocka_unit_test(metrics_have_a_series_for_each_limit_and_daemon),
        cmocka_unit_test(a_daemon_is_shown_as_all_loops_know_it),
        cmocka_unit_test(each_view_of_a_busy_counter_is_of_one_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
