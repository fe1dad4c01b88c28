/* SPDX-License-Identifier: Apache-2.0 */
#include "common/stats/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>

static bool wants(const char *accept)
{
    return metrics_wants_open(slice_of(accept));
}

static void only_one_that_asks_for_openmetrics_gets_it(void **state)
{
    (void)state;
    assert_false(wants(""));
    assert_false(wants("*/*"));
    assert_false(wants("text/html,application/xhtml+xml"));
    assert_true(wants("application/openmetrics-text"));
    assert_true(wants("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8"));
    /* As Prometheus 2.42 asks. */
    assert_true(wants("application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
                      "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
    assert_false(wants("application/openmetrics-text;version=0.0.1"));
    assert_false(wants("application/openmetrics-text;q=0.4,text/plain;q=0.5"));
    assert_false(wants("application/openmetrics-text;q=0"));
    assert_false(wants("application/openmetrics-text;q=nonsense"));
    assert_false(wants(",,;;=,application/openmetrics-tex"));
}

/* ---- a table ---- */

struct item {
    const char *name;
    bool on;
    unsigned small;
    uint64_t large, time_us;
    double real, whole;
    _Atomic uint64_t counted, counted_us;
};

struct shop {
    const struct item *items;
    size_t n;
};

static void each_item(struct metrics *m, const void *context)
{
    const struct shop *s = context;

    for (size_t i = 0; i < s->n; ++i)
        metrics_put(m, &s->items[i], SLICE_LIT("application=\"shop\""), slice_of(s->items[i].name));
}

static void each_number(struct metrics *m, const void *context)
{
    (void)context;
    metrics_put_number(m, UINT64_MAX, SLICE_NULL, SLICE_NULL);
}

static double square(const void *object)
{
    const struct item *x = object;

    return x->on ? (double)x->small * x->small : (double)NAN;
}

#define ITEM(name, kind, type, member, doc)                                                        \
    {                                                                                              \
        name, STAT_##kind, "items", "item", doc, each_item,                                        \
            METRIC_MEMBER(type, struct item, member)                                               \
    }

static const struct metric rows[] = {
    ITEM("on", GAUGE, COUNT, on, "Says \"this\" \\ that."),
    ITEM("small_total", COUNTER, COUNT, small, "Small."),
    ITEM("large_total", COUNTER, COUNT, large, "Large."),
    ITEM("time_seconds_total", COUNTER, TIME, time_us, "Time."),
    ITEM("real", GAUGE, REAL, real, "Real."),
    ITEM("whole", GAUGE, WHOLE, whole, "Whole."),
    ITEM("micros", GAUGE, MICROS, whole, "Micros."),
    ITEM("counted_total", COUNTER, ATOMIC, counted, "Counted."),
    ITEM("counted_seconds_total", COUNTER, ATOMIC_TIME, counted_us, "Counted time."),
    {"square", STAT_GAUGE, "items", "item", "Of those that are on.", each_item, .get = square},
    {"number_total", STAT_COUNTER, "items", NULL, "One.", each_number, .get = NULL},
};

static const struct item items[] = {
    {"a\"b\\\n", true, 3, 4000000000000, 1500000, 0.1, 2.9999999, 5, 2500000},
    {"", false, 0, 0, 0, 1e300, 7, 0, 1},
};

static void put(bool open, struct text *out)
{
    const struct shop shop = {items, ARRAY_LEN(items)};
    struct metrics m = {.out = out, .prefix = "x", .open = open};

    metrics_put_all(&m, rows, ARRAY_LEN(rows), &shop);
    metrics_end(&m);
}

static void each_row_is_written_with_all_its_objects(void **state)
{
    struct text out = {0};

    (void)state;
    put(false, &out);
#define FIRST "{application=\"shop\",item=\"a\\\"b\\\\\\n\"} "
#define SECOND "{application=\"shop\",item=\"\"} "
    assert_string_equal(text_cstr(&out), "# HELP x_on Says \"this\" \\\\ that.\n"
                                         "# TYPE x_on gauge\n"
                                         "x_on" FIRST "1\n"
                                         "x_on" SECOND "0\n"
                                         "# HELP x_small_total Small.\n"
                                         "# TYPE x_small_total counter\n"
                                         "x_small_total" FIRST "3\n"
                                         "x_small_total" SECOND "0\n"
                                         "# HELP x_large_total Large.\n"
                                         "# TYPE x_large_total counter\n"
                                         "x_large_total" FIRST "4000000000000\n"
                                         "x_large_total" SECOND "0\n"
                                         "# HELP x_time_seconds_total Time.\n"
                                         "# TYPE x_time_seconds_total counter\n"
                                         "x_time_seconds_total" FIRST "1.5\n"
                                         "x_time_seconds_total" SECOND "0\n"
                                         "# HELP x_real Real.\n"
                                         "# TYPE x_real gauge\n"
                                         "x_real" FIRST "0.1\n"
                                         "x_real" SECOND "1e+300\n"
                                         "# HELP x_whole Whole.\n"
                                         "# TYPE x_whole gauge\n"
                                         "x_whole" FIRST "2\n"
                                         "x_whole" SECOND "7\n"
                                         "# HELP x_micros Micros.\n"
                                         "# TYPE x_micros gauge\n"
                                         "x_micros" FIRST "2.999999\n"
                                         "x_micros" SECOND "7\n"
                                         "# HELP x_counted_total Counted.\n"
                                         "# TYPE x_counted_total counter\n"
                                         "x_counted_total" FIRST "5\n"
                                         "x_counted_total" SECOND "0\n"
                                         "# HELP x_counted_seconds_total Counted time.\n"
                                         "# TYPE x_counted_seconds_total counter\n"
                                         "x_counted_seconds_total" FIRST "2.5\n"
                                         "x_counted_seconds_total" SECOND "1e-06\n"
                                         "# HELP x_square Of those that are on.\n"
                                         "# TYPE x_square gauge\n"
                                         "x_square" FIRST "9\n"
                                         "# HELP x_number_total One.\n"
                                         "# TYPE x_number_total counter\n"
                                         "x_number_total 18446744073709551615\n");
    text_fini(&out);
}

static void openmetrics_differs_in_heads_and_has_an_end(void **state)
{
    struct text plain = {0};
    struct text open = {0};

    (void)state;
    put(false, &plain);
    put(true, &open);
    assert_ptr_equal(strstr(text_cstr(&open), "# TYPE x_on gauge\n"
                                              "# HELP x_on Says \\\"this\\\" \\\\ that.\n"
                                              "x_on{"),
                     open.p);
    assert_non_null(
        strstr(open.p, "# TYPE x_small counter\n# HELP x_small Small.\nx_small_total{"));
    assert_true(slice_ends(text_slice(&open), SLICE_LIT("# EOF\n")));
    /* The samples are the same. */
    struct slice rest = text_slice(&plain);
    while (rest.len != 0) {
        struct slice line = slice_cut(&rest, '\n');

        if (line.p[0] != '#')
            assert_non_null(memmem(open.p, open.len, line.p, line.len + 1));
    }
    text_fini(&plain);
    text_fini(&open);
}

static void the_manual_has_every_row(void **state)
{
    char *manual = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&manual, &bytes);

    (void)state;
    metrics_describe_head(out);
    metrics_describe("x", &rows[1], 1, out);
    metrics_describe("x", &rows[ARRAY_LEN(rows) - 1], 1, out);
    fclose(out);
    assert_string_equal(manual, "| metric | kind | unit | label | meaning |\n"
                                "| --- | --- | --- | --- | --- |\n"
                                "| `x_small_total` | counter | items | item | Small. |\n"
                                "| `x_number_total` | counter | items |  | One. |\n");
    free(manual);
}

/* ---- stats ---- */

enum { REQUESTS, ACTIVE, SERVICE };
static const struct stat_row stat_rows[] = {
    {"requests", STAT_COUNTER, "REQUESTS", "Requests \\ responded."},
    {"active", STAT_GAUGE, "REQUESTS", "Requests in flight."},
    {"service_us", STAT_HISTOGRAM, "US", "Time a|b."},
};
static const struct stats_table table = {stat_rows, ARRAY_LEN(stat_rows)};

static void stats_are_written_once_with_all_their_sets(void **state)
{
    struct stats *a = stats_create(&table, 1);
    struct stats *b = stats_create(&table, 1);
    struct stats_set sets[] = {{a, SLICE_LIT("application=\"shop\"")}, {b, SLICE_NULL}};
    struct text t = {0};
    struct metrics m = {.out = &t, .prefix = "x"};

    (void)state;
    stat_add(stats_cell(a, 0), REQUESTS, 5);
    stat_add(stats_cell(b, 0), ACTIVE, -1);
    stat_observe(stats_cell(a, 0), SERVICE, 200);
    stat_observe(stats_cell(a, 0), SERVICE, 1500000);
    metrics_put_stats(&m, sets, 2);
    const char *out = text_cstr(&t);
    assert_ptr_equal(strstr(out,
                            "# HELP x_requests_total Requests \\\\ responded.\n"
                            "# TYPE x_requests_total counter\n"
                            "x_requests_total{application=\"shop\"} 5\n"
                            "x_requests_total 0\n"
                            "# HELP x_active Requests in flight.\n"
                            "# TYPE x_active gauge\n"
                            "x_active{application=\"shop\"} 0\n"
                            "x_active -1\n"
                            "# HELP x_service_seconds Time a|b.\n"
                            "# TYPE x_service_seconds histogram\n"
                            "x_service_seconds_bucket{application=\"shop\",le=\"0.0001\"} 0\n"
                            "x_service_seconds_bucket{application=\"shop\",le=\"0.00025\"} 1\n"),
                     out);
    assert_non_null(
        strstr(out, "le=\"1\"} 1\nx_service_seconds_bucket{application=\"shop\",le=\"2.5\"} 2\n"));
    assert_non_null(
        strstr(out, "le=\"100\"} 2\nx_service_seconds_bucket{application=\"shop\",le=\"+Inf\"} 2\n"
                    "x_service_seconds_sum{application=\"shop\"} 1.500200\n"
                    "x_service_seconds_count{application=\"shop\"} 2\n"
                    "x_service_seconds_bucket{le=\"0.0001\"} 0\n"));
    assert_non_null(strstr(out, "\nx_service_seconds_sum 0.000000\nx_service_seconds_count 0\n"));
    text_fini(&t);
    stats_destroy(a);
    stats_destroy(b);
}

static void the_manual_of_stats_has_every_row(void **state)
{
    char *manual = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&manual, &bytes);

    (void)state;
    metrics_describe_stats("x", &table, out);
    fclose(out);
    assert_string_equal(manual,
                        "| metric | kind | unit | meaning |\n| --- | --- | --- | --- |\n"
                        "| `x_requests_total` | counter | requests | Requests \\ responded. |\n"
                        "| `x_active` | gauge | requests | Requests in flight. |\n"
                        "| `x_service_seconds` | histogram | seconds | Time a\\|b. |\n");
    free(manual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_one_that_asks_for_openmetrics_gets_it),
        cmocka_unit_test(each_row_is_written_with_all_its_objects),
        cmocka_unit_test(openmetrics_differs_in_heads_and_has_an_end),
        cmocka_unit_test(the_manual_has_every_row),
        cmocka_unit_test(stats_are_written_once_with_all_their_sets),
        cmocka_unit_test(the_manual_of_stats_has_every_row),
    };

    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
