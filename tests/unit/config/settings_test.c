/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/config/settings.h"
#include "tests/support/settings_check.h"

/* clang-format off */
#define ROWS(ROW)                                                                              \
    ROW(enabled,  BOOL,   NONE,     "yes",    NULL,   NULL,   LIVE,   "Whether.")              \
    ROW(count,    INT,    REQUESTS, "7",      "-5",   "100",  LIVE,   "How many.")             \
    ROW(variance, REAL,   RATIO,    "4",      "0.1",  "1000", LIVE,   "How far.")              \
    ROW(wait,     TIME,   MS,       "3500ms", "1ms",  "60s",  LIVE,   "How long.")             \
    ROW(total,    TIME,   MS,       "off",    "1s",   "1h",   LIVE,   "How long in all.")      \
    ROW(grace,    TIME,   MS,       "1s",     "0s",   "1h",   LIVE,   "How long after.")       \
    ROW(buffer,   SIZE,   BYTES,    "256KiB", "1",    "1GiB", LIVE,   "How large.")            \
    ROW(title,    TEXT,   NAME,     NULL,     NULL,   NULL,   RELOAD, "What to say.")          \
    ROW(motto,    TEXT,   NAME,     "go",     NULL,   NULL,   RELOAD, "What else to say.")     \
    ROW(token,    SECRET, NONE,     NULL,     NULL,   NULL,   LOCAL,  "What not to say.")      \
    ROW(policy,   CHOICE, NONE,     "resume", "resume|classless", NULL, BOOT, "Which a|b.")    \
    ROW(hosts,    LIST,   NAMES,    "a, b",   NULL,   NULL,   LOCAL,  "Hosts.")                \
    ROW(inner,    NODE,   NONE,     NULL,     NULL,   NULL,   LOCAL,  "What else.")
/* clang-format on */

struct example {
#define ROW(...) SETTINGS_FIELD(__VA_ARGS__)
    ROWS(ROW)
#undef ROW
};
static const struct setting_row rows[] = {
#define ROW(...) SETTINGS_ROW(struct example, __VA_ARGS__)
    ROWS(ROW)
#undef ROW
};
static const struct settings_table table = {.scope = "EXAMPLE",
                                            .where = "examples.NAME",
                                            .rows = rows,
                                            ARRAY_LEN(rows),
                                            sizeof(struct example)};

struct strict {
#define ROW(...) SETTINGS_FIELD(__VA_ARGS__)
    ROW(port, INT, NONE, NULL, "1", "65535", LOCAL, "Which port.")
#undef ROW
};
static const struct setting_row strict_rows[] = {
#define ROW(...) SETTINGS_ROW(struct strict, __VA_ARGS__)
    ROW(port, INT, NONE, NULL, "1", "65535", LOCAL, "Which port.")
#undef ROW
};
static const struct settings_table strict_table = {
    .scope = "STRICT", .where = "top of the file", .rows = strict_rows, 1, sizeof(struct strict)};

static const struct setting_row *row_of(const char *name)
{
    const struct setting_row *row = settings_find(&table, slice_of(name));

    assert_non_null(row);
    return row;
}

/* A fixture of one configuration and what was read from it. */
struct fixture {
    struct config c;
    struct diag d;
    struct example s;
    enum setting_origin origins[ARRAY_LEN(rows)];
};

static void read_text(struct fixture *f, const char *yaml)
{
    struct diag d = {0};

    *f = (struct fixture){0};
    if (!config_parse("f", slice_of(yaml), &f->c, &d))
        fail_msg("rejected: %s", d.text);
    settings_read(&table, &f->c, f->c.root, &f->s, f->origins, &f->d);
}

static void fixture_fini(struct fixture *f)
{
    settings_fini(&table, &f->s);
    diag_fini(&f->d);
    config_fini(&f->c);
}

static void expect_problems(const char *yaml, const char *expected)
{
    struct fixture f;

    read_text(&f, yaml);
    assert_non_null(f.d.text);
    assert_string_equal(f.d.text, expected);
    fixture_fini(&f);
}

static void expect_set(const char *name, const char *text, const char *printed)
{
    struct example s;
    struct text t = {0};
    char why[SETTINGS_WHY_ROOM] = "";

    settings_defaults(&table, &s);
    if (settings_set(row_of(name), slice_of(text), &s, why) != ERR_OK)
        fail_msg("%s: %s: %s", name, text, why);
    settings_print(row_of(name), &s, &t);
    assert_string_equal(text_cstr(&t), printed);
    text_fini(&t);
    settings_fini(&table, &s);
}

static void expect_unset(const char *name, struct slice text, enum err error, const char *reason)
{
    struct example s;
    struct example before;
    char why[SETTINGS_WHY_ROOM] = "";

    settings_defaults(&table, &s);
    settings_copy(&table, &s, &before);
    assert_int_equal(settings_set(row_of(name), text, &s, why), error);
    assert_string_equal(why, reason);
    assert_true(settings_same(row_of(name), &s, &before));
    settings_fini(&table, &s);
    settings_fini(&table, &before);
}

/* ---- tests ---- */

static void tables_of_this_test_are_sound(void **state)
{
    (void)state;
    settings_check_table(&table);
    settings_check_table(&strict_table);
}

static void defaults_go_through_the_parser(void **state)
{
    struct example s;

    (void)state;
    settings_defaults(&table, &s);
    assert_true(s.enabled);
    assert_int_equal(s.count, 7);
    assert_true(s.variance == 4.0);
    assert_int_equal(s.wait_ms, 3500);
    assert_int_equal(s.total_ms, 0);
    assert_int_equal(s.buffer_bytes, 256 * 1024);
    assert_null(s.title);
    assert_string_equal(s.motto, "go");
    assert_null(s.token);
    assert_int_equal(s.policy, 0);
    assert_int_equal(s.hosts.n, 2);
    assert_string_equal(s.hosts.items[1], "b");
    assert_null(s.inner);
    settings_fini(&table, &s);
}

static void read_takes_what_the_file_states_and_remembers_origins(void **state)
{
    struct fixture f;

    (void)state;
    read_text(&f,
              "enabled: off\ncount: -3\nvariance: \"2.5\"\nwait: 250ms\ntotal: 2\nbuffer: 1.5MiB\n"
              "title: 'a title'\ntoken: s3cret\npolicy: classless\nhosts: [x, 'y, z', 8080]\n"
              "inner: {any: [1]}\nmotto: ~\n");
    assert_null(f.d.text);
    assert_false(f.s.enabled);
    assert_int_equal(f.s.count, -3);
    assert_true(f.s.variance == 2.5);
    assert_int_equal(f.s.wait_ms, 250);
    assert_int_equal(f.s.total_ms, 2000);
    assert_int_equal(f.s.buffer_bytes, 1536 * 1024);
    assert_string_equal(f.s.title, "a title");
    assert_string_equal(f.s.token, "s3cret");
    assert_int_equal(f.s.policy, 1);
    assert_int_equal(f.s.hosts.n, 3);
    assert_string_equal(f.s.hosts.items[1], "y, z");
    assert_string_equal(f.s.hosts.items[2], "8080");
    assert_ptr_equal(f.s.inner, config_get(f.c.root, "inner"));
    /* null is the default */
    assert_string_equal(f.s.motto, "go");
    assert_int_equal(f.origins[row_of("motto") - rows], ORIGIN_DEFAULT);
    assert_int_equal(f.origins[row_of("count") - rows], ORIGIN_YAML);
    fixture_fini(&f);
}

static void null_means_the_default_only_without_quotes(void **state)
{
    struct fixture f;

    (void)state;
    read_text(&f, "title: 'null'\nmotto: ''\ncount:\nhosts: Null\n");
    assert_null(f.d.text);
    assert_string_equal(f.s.title, "null");
    assert_string_equal(f.s.motto, "");
    assert_int_equal(f.s.count, 7);
    assert_int_equal(f.s.hosts.n, 2);
    fixture_fini(&f);
}

static void one_text_makes_a_list_too(void **state)
{
    struct fixture f;

    (void)state;
    read_text(&f, "hosts: one.example\n");
    assert_null(f.d.text);
    assert_int_equal(f.s.hosts.n, 1);
    assert_string_equal(f.s.hosts.items[0], "one.example");
    fixture_fini(&f);
}

static void all_problems_are_reported_in_one_go_with_their_places(void **state)
{
    (void)state;
    expect_problems("varience: 3\ncount: many\nwait: 2m\nbuffer: 3kB\nnothing_like_it: 1\n"
                    "policy: random\nhosts: [a, [b], ~]\nenabled: {a: 1}\n",
                    "f:1:1: unknown setting \"varience\" (did you mean \"variance\"?)\n"
                    "f:2:8: count: expected a whole number, not \"many\"\n"
                    "f:3:7: wait: must be at most 60s\n"
                    "f:4:9: buffer: expected a size such as 4096, 256KiB or 1GiB, not \"3kB\"\n"
                    "f:5:1: unknown setting \"nothing_like_it\"\n"
                    "f:6:9: policy: \"random\" is not one of resume, classless\n"
                    "f:7:12: hosts: each item must be a text\n"
                    "f:7:17: hosts: this item is empty\n"
                    "f:8:10: enabled: expected true or false, not a map\n");
}

static void a_slip_of_the_pen_is_recognised(void **state)
{
    (void)state;
    expect_problems("buffre: 1\n",
                    "f:1:1: unknown setting \"buffre\" (did you mean \"buffer\"?)\n");
    expect_problems("host: 1\n", "f:1:1: unknown setting \"host\" (did you mean \"hosts\"?)\n");
    expect_problems("totall: 1\n", "f:1:1: unknown setting \"totall\" (did you mean \"total\"?)\n");
    expect_problems("xy: 1\n", "f:1:1: unknown setting \"xy\"\n");
}

static void a_name_in_the_wrong_place_is_reported_where_it_belongs(void **state)
{
    static const struct settings_table *const all[] = {&table, &strict_table};
    struct settings_table outer = strict_table;
    struct fixture f = {0};
    struct strict out;

    (void)state;
    outer.all = all;
    outer.nall = ARRAY_LEN(all);
    const char *yaml = "variance: 3\nvarience: 4\nprot: 5\nport: 6\nnothing_like_it: 7\n";
    assert_true(config_parse("f", slice_of(yaml), &f.c, &f.d));
    settings_read(&outer, &f.c, f.c.root, &out, NULL, &f.d);
    assert_string_equal(f.d.text,
                        "f:1:1: \"variance\" does not belong here, but in: examples.NAME\n"
                        "f:2:1: unknown setting \"varience\" (did you mean \"variance\", of: "
                        "examples.NAME?)\n"
                        "f:3:1: unknown setting \"prot\" (did you mean \"port\"?)\n"
                        "f:5:1: unknown setting \"nothing_like_it\"\n");
    assert_int_equal(out.port, 6);
    settings_fini(&outer, &out);
    diag_fini(&f.d);
    config_fini(&f.c);
}

static void hostile_names_and_values_are_escaped_and_cut(void **state)
{
    (void)state;
    expect_problems("\"\\e[31m\": 1\n", "f:1:1: unknown setting \"\\x1b[31m\"\n");
    expect_problems("count: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
                    "f:1:8: count: expected a whole number, not \"aaaaaaaaaaaaaaaaaaaaaaaa...\"\n");
}

static void a_missing_required_setting_is_reported(void **state)
{
    struct config c;
    struct diag d = {0};
    struct strict s;

    (void)state;
    assert_true(config_parse("f", SLICE_LIT("port:\n"), &c, &d));
    settings_read(&strict_table, &c, c.root, &s, NULL, &d);
    assert_string_equal(d.text, "f:1:1: port: is required and missing\n");
    diag_fini(&d);
    settings_read(&strict_table, &c, NULL, &s, NULL, &d);
    assert_string_equal(d.text, "f: port: is required and missing\n");
    diag_fini(&d);
    config_fini(&c);
}

static void a_map_is_expected_where_a_scope_stands(void **state)
{
    struct config c;
    struct diag d = {0};
    struct example s;

    (void)state;
    assert_true(config_parse("f", SLICE_LIT("a: [1]\nb:\n"), &c, &d));
    settings_read(&table, &c, config_get(c.root, "a"), &s, NULL, &d);
    assert_string_equal(d.text, "f:1:4: expected \"name: value\" lines here, not a list\n");
    assert_int_equal(s.count, 7);
    settings_fini(&table, &s);
    diag_fini(&d);
    settings_read(&table, &c, config_get(c.root, "b"), &s, NULL, &d);
    assert_null(d.text);
    settings_fini(&table, &s);
    config_fini(&c);
}

static void times_are_exact_and_have_units(void **state)
{
    (void)state;
    expect_set("wait", "250ms", "250ms");
    expect_set("wait", "3.5s", "3.5s");
    expect_set("wait", "3500ms", "3.5s");
    expect_set("wait", "1250ms", "1.25s");
    expect_set("wait", "59", "59s");
    expect_set("wait", "0.1", "100ms");
    expect_set("wait", "1m", "1m");
    expect_set("total", "90s", "90s");
    expect_set("total", "1h", "1h");
    expect_set("total", "0.5m", "30s");
    expect_unset("wait", SLICE_LIT("0.5ms"), ERR_SYNTAX,
                 "expected a time such as 250ms, 3.5s, 5m or 2h, not \"0.5ms\"");
    expect_unset("wait", SLICE_LIT("1e3"), ERR_SYNTAX,
                 "expected a time such as 250ms, 3.5s, 5m or 2h, not \"1e3\"");
    expect_unset("wait", SLICE_LIT("-1s"), ERR_SYNTAX,
                 "expected a time such as 250ms, 3.5s, 5m or 2h, not \"-1s\"");
    expect_unset("wait", SLICE_LIT("1."), ERR_SYNTAX,
                 "expected a time such as 250ms, 3.5s, 5m or 2h, not \"1.\"");
    expect_unset("wait", SLICE_LIT(".5s"), ERR_SYNTAX,
                 "expected a time such as 250ms, 3.5s, 5m or 2h, not \".5s\"");
    expect_unset("wait", SLICE_LIT("1.2.3s"), ERR_SYNTAX,
                 "expected a time such as 250ms, 3.5s, 5m or 2h, not \"1.2.3s\"");
    expect_unset("wait", SLICE_LIT(""), ERR_SYNTAX,
                 "expected a time such as 250ms, 3.5s, 5m or 2h, not \"\"");
    expect_unset("wait", SLICE_LIT("99999999999999999999d"), ERR_SYNTAX,
                 "expected a time such as 250ms, 3.5s, 5m or 2h, not \"99999999999999999999d\"");
    expect_unset("wait", SLICE_LIT("61s"), ERR_RANGE, "must be at most 60s");
}

static void off_is_for_those_that_may_be_off(void **state)
{
    (void)state;
    expect_set("total", "off", "off");
    expect_set("total", "0", "off");
    expect_unset("total", SLICE_LIT("999ms"), ERR_RANGE, "must be at least 1s");
    expect_unset("wait", SLICE_LIT("off"), ERR_RANGE, "must be at least 1ms");
    expect_unset("total", SLICE_LIT("soon"), ERR_SYNTAX,
                 "expected a time such as 250ms, 3.5s, 5m or 2h, or off, not \"soon\"");
}

static void sizes_are_powers_of_two(void **state)
{
    (void)state;
    expect_set("buffer", "1024", "1KiB");
    expect_set("buffer", "1025", "1025");
    expect_set("buffer", "1GiB", "1GiB");
    expect_set("buffer", "0.5KiB", "512");
    expect_unset("buffer", SLICE_LIT("2GiB"), ERR_RANGE, "must be at most 1GiB");
    expect_unset("buffer", SLICE_LIT("0"), ERR_RANGE, "must be at least 1");
    expect_unset("buffer", SLICE_LIT("99999999999TiB"), ERR_SYNTAX,
                 "expected a size such as 4096, 256KiB or 1GiB, not \"99999999999TiB\"");
}

static void numbers_are_decimal_and_in_range(void **state)
{
    (void)state;
    expect_set("count", "-5", "-5");
    expect_set("count", "0", "0");
    expect_unset("count", SLICE_LIT("-6"), ERR_RANGE, "must be at least -5");
    expect_unset("count", SLICE_LIT("101"), ERR_RANGE, "must be at most 100");
    expect_unset("count", SLICE_LIT("1.0"), ERR_SYNTAX, "expected a whole number, not \"1.0\"");
    expect_unset("count", SLICE_LIT("0x10"), ERR_SYNTAX, "expected a whole number, not \"0x10\"");
    expect_unset("count", SLICE_LIT("--1"), ERR_SYNTAX, "expected a whole number, not \"--1\"");
    expect_unset("count", SLICE_LIT("9223372036854775808"), ERR_SYNTAX,
                 "expected a whole number, not \"9223372036854775808\"");
    expect_set("variance", "0.1", "0.1");
    expect_set("variance", "1e2", "100");
    expect_set("variance", "0.30000000000000004", "0.30000000000000004");
    expect_unset("variance", SLICE_LIT("nan"), ERR_SYNTAX, "expected a number, not \"nan\"");
    expect_unset("variance", SLICE_LIT("inf"), ERR_SYNTAX, "expected a number, not \"inf\"");
    expect_unset("variance", SLICE_LIT("0.09"), ERR_RANGE, "must be at least 0.1");
    expect_set("enabled", "No", "false");
    expect_set("enabled", "ON", "true");
    expect_unset("enabled", SLICE_LIT("1"), ERR_SYNTAX, "expected true or false, not \"1\"");
}

static void texts_may_be_anything_but_nul(void **state)
{
    (void)state;
    expect_set("title", "a\nb", "a\nb");
    /* where none is the default, the empty text is none */
    expect_set("title", "", "");
    expect_set("motto", "", "");
    expect_unset("title", SLICE_LIT("a\0b"), ERR_SYNTAX, "expected a text, not \"a\\x00b\"");
    expect_unset("token", SLICE_LIT("s\0b"), ERR_SYNTAX, "expected a text, not \"***\"");
    expect_unset("inner", SLICE_LIT("a"), ERR_SYNTAX, "cannot be written as a single value");
}

static void secrets_are_not_printed(void **state)
{
    (void)state;
    expect_set("token", "hunter2", "***");
    expect_set("token", "", "");
}

static void lists_as_texts_quote_what_needs_it(void **state)
{
    (void)state;
    expect_set("hosts", "", "");
    expect_set("hosts", " a ,b", "a, b");
    expect_set("hosts", "\"a, b\",c", "\"a, b\", c");
    expect_set("hosts", "\"\"", "\"\"");
    expect_set("hosts", "\"\\\"x\\\\\"", "\"\\\"x\\\\\"");
    expect_set("hosts", "a\"b", "a\"b");
    expect_set("hosts", "\" a\"", "\" a\"");
    expect_unset("hosts", SLICE_LIT("a,"), ERR_SYNTAX, "expected a list of texts, not \"a,\"");
    expect_unset("hosts", SLICE_LIT(",a"), ERR_SYNTAX, "expected a list of texts, not \",a\"");
    expect_unset("hosts", SLICE_LIT("\"a\","), ERR_SYNTAX,
                 "expected a list of texts, not \"\\x22a\\x22,\"");
    expect_unset("hosts", SLICE_LIT("\"a\", b, "), ERR_SYNTAX,
                 "expected a list of texts, not \"\\x22a\\x22, b, \"");
    expect_unset("hosts", SLICE_LIT("\"a"), ERR_SYNTAX, "expected a list of texts, not \"\\x22a\"");
    expect_unset("hosts", SLICE_LIT("\"a\\"), ERR_SYNTAX,
                 "expected a list of texts, not \"\\x22a\\x5c\"");
    expect_unset("hosts", SLICE_LIT("\"a\"b"), ERR_SYNTAX,
                 "expected a list of texts, not \"\\x22a\\x22b\"");
}

/* A small generator of our own: the same numbers in every run. */
static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void random_values(struct example *s, uint64_t *seed)
{
    static const char letters[] = "ab,\"\\ \t\n\xff";

    s->enabled = next_random(seed) % 2 != 0;
    s->count = (int64_t)(next_random(seed) % 106) - 5;
    s->variance = 0.1 + (double)(next_random(seed) % 1000000) / 1001.0;
    s->wait_ms = 1 + next_random(seed) % 60000;
    s->total_ms = next_random(seed) % 2 != 0 ? 0 : 1000 + next_random(seed) % 3599001;
    s->buffer_bytes = 1 + next_random(seed) % (1 << 30);
    s->policy = (int)(next_random(seed) % 2);
    s->hosts.n = next_random(seed) % 5;
    s->hosts.items = xcalloc(8, sizeof(char *));
    for (size_t i = 0; i < s->hosts.n; ++i) {
        size_t len = next_random(seed) % 6;

        s->hosts.items[i] = xcalloc(1, len + 1);
        for (size_t k = 0; k < len; ++k)
            s->hosts.items[i][k] = letters[next_random(seed) % (sizeof(letters) - 1)];
    }
    s->title = xslicedup((struct slice){letters, 1 + next_random(seed) % (sizeof(letters) - 1)});
}

static void a_printed_value_is_read_back_as_the_same_value(void **state)
{
    static const char *const names[] = {"enabled", "count",  "variance", "wait", "total",
                                        "buffer",  "policy", "hosts",    "title"};
    uint64_t seed = 0x9e3779b97f4a7c15;
    struct text t = {0};

    (void)state;
    for (int round = 0; round < 2000; ++round) {
        struct example s = {0};
        struct example again;

        random_values(&s, &seed);
        settings_defaults(&table, &again);
        for (size_t i = 0; i < ARRAY_LEN(names); ++i) {
            const struct setting_row *row = row_of(names[i]);
            char why[SETTINGS_WHY_ROOM];

            text_clear(&t);
            settings_print(row, &s, &t);
            if (settings_set(row, text_slice(&t), &again, why) != ERR_OK)
                fail_msg("%s: %s: %s", names[i], text_cstr(&t), why);
            if (!settings_same(row, &s, &again))
                fail_msg("%s: %s is another value", names[i], text_cstr(&t));
        }
        settings_fini(&table, &s);
        settings_fini(&table, &again);
    }
    text_fini(&t);
}

static void copies_own_their_texts(void **state)
{
    struct fixture f;
    struct example copy;

    (void)state;
    read_text(&f, "title: t\nhosts: [x, y]\ntoken: s\ninner: [1]\n");
    settings_copy(&table, &f.s, &copy);
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i)
        assert_true(rows[i].type == SETTING_NODE || settings_same(&rows[i], &f.s, &copy));
    assert_null(copy.inner);
    assert_ptr_not_equal(copy.title, f.s.title);
    assert_ptr_not_equal(copy.hosts.items[0], f.s.hosts.items[0]);
    /* onto itself and over an old value */
    settings_take(row_of("hosts"), &copy, &copy);
    assert_string_equal(copy.hosts.items[1], "y");
    char why[SETTINGS_WHY_ROOM];
    assert_int_equal(settings_set(row_of("title"), SLICE_LIT("u"), &copy, why), ERR_OK);
    assert_false(settings_same(row_of("title"), &f.s, &copy));
    settings_take(row_of("title"), &copy, &f.s);
    assert_string_equal(f.s.title, "u");
    settings_fini(&table, &copy);
    fixture_fini(&f);
}

static void the_manual_has_every_row(void **state)
{
    const struct settings_table *tables[] = {&table, &strict_table};
    char *manual = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&manual, &bytes);

    (void)state;
    settings_describe(tables, 2, out);
    fclose(out);
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        char *cell = xasprintf("| `%s` | ", rows[i].name);

        assert_non_null(strstr(manual, cell));
        free(cell);
    }
    assert_non_null(strstr(manual, "### examples.NAME\n"));
    assert_non_null(strstr(manual, "### top of the file\n"));
    assert_non_null(
        strstr(manual, "| `wait` | time, 1ms to 60s | `3500ms` | live | How long. |\n"));
    assert_non_null(
        strstr(manual, "| `total` | time, 1s to 1h, or off | `off` | live | How long in all. |\n"));
    assert_non_null(
        strstr(manual, "| `policy` | `resume`, `classless` | `resume` | boot | Which a\\|b. |\n"));
    assert_non_null(
        strstr(manual, "| `port` | whole number, 1 to 65535 | required | local | Which port. |\n"));
    assert_non_null(
        strstr(manual, "| `grace` | time, 0s to 1h | `1s` | live | How long after. |\n"));
    assert_non_null(strstr(manual, "| `count` | whole number (requests), -5 to 100 | `7` | live "));
    free(manual);
}

static void words_for_origins_and_whens(void **state)
{
    (void)state;
    assert_string_equal(setting_when_text(SETTING_LOCAL), "local");
    assert_string_equal(setting_when_text(SETTING_BOOT), "boot");
    assert_string_equal(setting_origin_text(ORIGIN_TREE), "tree");
    assert_string_equal(setting_origin_text(ORIGIN_DEFAULT), "default");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_this_test_are_sound),
        cmocka_unit_test(defaults_go_through_the_parser),
        cmocka_unit_test(read_takes_what_the_file_states_and_remembers_origins),
        cmocka_unit_test(null_means_the_default_only_without_quotes),
        cmocka_unit_test(one_text_makes_a_list_too),
        cmocka_unit_test(all_problems_are_reported_in_one_go_with_their_places),
        cmocka_unit_test(a_slip_of_the_pen_is_recognised),
        cmocka_unit_test(a_name_in_the_wrong_place_is_reported_where_it_belongs),
        cmocka_unit_test(hostile_names_and_values_are_escaped_and_cut),
        cmocka_unit_test(a_missing_required_setting_is_reported),
        cmocka_unit_test(a_map_is_expected_where_a_scope_stands),
        cmocka_unit_test(times_are_exact_and_have_units),
        cmocka_unit_test(off_is_for_those_that_may_be_off),
        cmocka_unit_test(sizes_are_powers_of_two),
        cmocka_unit_test(numbers_are_decimal_and_in_range),
        cmocka_unit_test(texts_may_be_anything_but_nul),
        cmocka_unit_test(secrets_are_not_printed),
        cmocka_unit_test(lists_as_texts_quote_what_needs_it),
        cmocka_unit_test(a_printed_value_is_read_back_as_the_same_value),
        cmocka_unit_test(copies_own_their_texts),
        cmocka_unit_test(the_manual_has_every_row),
        cmocka_unit_test(words_for_origins_and_whens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
