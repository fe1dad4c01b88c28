/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/text.h"
#include "common/counters/pool_counter_line.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- keys ---- */

static char *escaped(struct slice key)
{
    char word[POOL_COUNTER_KEY_WIRE_MAX];

    return xslicedup((struct slice){word, pool_counter_key_escape(key, word)});
}

static void check_escaped(struct slice key, const char *expected)
{
    char *word = escaped(key);

    assert_string_equal(word, expected);
    free(word);
}

static void keys_become_one_word_of_visible_ascii(void **state)
{
    (void)state;
    check_escaped(SLICE_LIT("page:Main~Page"), "page:Main~Page");
    check_escaped(SLICE_LIT("a b"), "a%20b");
    check_escaped(SLICE_LIT("a%20b"), "a%2520b");
    check_escaped(SLICE_LIT("\0\t\r\n\x7f\xff"), "%00%09%0D%0A%7F%FF");
    check_escaped(SLICE_NULL, "%~");
}

static struct slice repeated(char *room, size_t n, char c)
{
    memset(room, c, n);
    return (struct slice){room, n};
}

static void put(char *room, struct slice s)
{
    memcpy(room, s.p, s.len);
}

static void long_keys_are_cut_and_still_differ(void **state)
{
    enum { MAX = POOL_COUNTER_KEY_WIRE_MAX, CUT = 34, LONGEST = 3 * MAX };
    char room[LONGEST];

    (void)state;
    char *fits = escaped(repeated(room, MAX, 'x'));
    assert_int_equal(strlen(fits), MAX);
    assert_null(strchr(fits, '%'));
    char *longer = escaped(repeated(room, MAX + 1, 'x'));
    char *longest = escaped(repeated(room, LONGEST, 'x'));
    room[LONGEST - 1] = 'y';
    char *other = escaped((struct slice){room, LONGEST});
    assert_int_equal(strlen(longer), MAX);
    assert_string_equal(longer + MAX - CUT, "%~0fe19903bd58c802609fb90c112df76d");
    assert_memory_equal(longer, longest, MAX - CUT);
    assert_memory_equal(longest, other, MAX - CUT);
    assert_memory_equal(longest + MAX - CUT, "%~", 2);
    assert_string_not_equal(longer, longest);
    assert_string_not_equal(longest, other);
    /* A key that is made to look like a cut one is escaped, and so another. */
    char *forged = escaped(slice_of(longest));
    assert_string_not_equal(forged, longest);
    free(fits);
    free(longer);
    free(longest);
    free(other);
    free(forged);
}

static void a_long_key_is_not_cut_within_an_escaped_byte(void **state)
{
    (void)state;
    for (size_t plain = 0; plain < 3; ++plain) {
        char room[POOL_COUNTER_KEY_WIRE_MAX];
        (void)repeated(room, sizeof(room), '\n');
        (void)repeated(room, plain, 'x');
        char *word = escaped((struct slice){room, sizeof(room)});
        const char *cut = strstr(word, "%~");
        assert_non_null(cut);
        assert_int_equal(cut - word, plain + (366 - plain) / 3 * 3);
        assert_memory_equal(cut - 3, "%0A", 3);
        free(word);
    }
}

static void the_type_of_a_key_survives_its_encoding(void **state)
{
    char room[5000];

    (void)state;
    (void)repeated(room, sizeof(room), ' ');
    put(room, SLICE_LIT("newspaper:"));
    char *word = escaped((struct slice){room, sizeof(room)});
    assert_memory_equal(word, "newspaper:%20", 13);
    free(word);
}

/* ---- requests ---- */

static void check_line(struct counter_request l, const char *expected)
{
    char line[POOL_COUNTER_REQUEST_LINE_MAX];
    size_t n = pool_counter_acquire_print(&l, line);

    assert_int_equal(n, strlen(expected));
    assert_memory_equal(line, expected, n);
}

static void requests_are_written_as_daemons_read_them(void **state)
{
    (void)state;
    check_line((struct counter_request){SLICE_LIT("k"), SLICE_NULL, COUNTER_ME, 1, 2, 0, 3000},
               "ACQ4ME k 1 2 3\n");
    check_line((struct counter_request){SLICE_LIT("k"), SLICE_NULL, COUNTER_ANY, 1, 2, 9, 0},
               "ACQ4ANY k 1 2 0 9\n");
    assert_true(slice_is(POOL_COUNTER_RELEASE_LINE, "RELEASE\n"));
    assert_true(slice_is(POOL_COUNTER_UPTIME_LINE, "STATS UPTIME\n"));
}

static void the_longest_request_has_room(void **state)
{
    char room[POOL_COUNTER_KEY_WIRE_MAX];
    char line[POOL_COUNTER_REQUEST_LINE_MAX];
    struct counter_request l = {
        .key = repeated(room, sizeof(room), 'x'),
        .kind = COUNTER_ANY,
        .workers = UINT32_MAX,
        .maxqueue = UINT32_MAX,
        .timeout_ms = (uint64_t)UINT32_MAX * 1000,
        .slots = UINT32_MAX,
    };

    (void)state;
    assert_int_equal(pool_counter_acquire_print(&l, line), 8 + 400 + 4 * 11 + 1);
}

/* ---- responses ---- */

static enum err parse(const char *bytes, struct pool_counter_response *r, size_t *used)
{
    return pool_counter_response_parse(slice_of(bytes), r, used);
}

static void every_response_is_known_by_its_line(void **state)
{
    static const struct {
        const char *line;
        enum pool_counter_response_kind kind;
        const char *text;
    } lines[] = {
        {"LOCKED\n", POOL_COUNTER_RESPONSE_LOCKED, ""},
        {"DONE\n", POOL_COUNTER_RESPONSE_DONE, ""},
        {"QUEUE_FULL\n", POOL_COUNTER_RESPONSE_QUEUE_FULL, ""},
        {"TIMEOUT\n", POOL_COUNTER_RESPONSE_TIMEOUT, ""},
        {"LOCK_HELD\n", POOL_COUNTER_RESPONSE_LOCK_HELD, ""},
        {"RELEASED\n", POOL_COUNTER_RESPONSE_RELEASED, ""},
        {"NOT_LOCKED\n", POOL_COUNTER_RESPONSE_NOT_LOCKED, ""},
        {"ERROR BAD_SYNTAX\n", POOL_COUNTER_RESPONSE_ERROR, "BAD_SYNTAX"},
        {"uptime: 633 days, 15h 10m 52s\n", POOL_COUNTER_RESPONSE_UPTIME, "633 days, 15h 10m 52s"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lines); ++i) {
        struct pool_counter_response r;
        size_t used = 0;
        assert_int_equal(parse(lines[i].line, &r, &used), ERR_OK);
        assert_int_equal(r.kind, lines[i].kind);
        assert_int_equal(used, strlen(lines[i].line));
        assert_true(slice_is(r.text, lines[i].text));
    }
}

static void a_line_is_waited_for_until_its_newline_and_no_further(void **state)
{
    const char *line = "LOCKED\nDONE\n";
    struct pool_counter_response r;
    size_t used = 0;

    (void)state;
    for (size_t n = 0; n < 7; ++n)
        assert_int_equal(pool_counter_response_parse((struct slice){line, n}, &r, &used),
                         ERR_NOT_FOUND);
    assert_int_equal(parse(line, &r, &used), ERR_OK);
    assert_int_equal(r.kind, POOL_COUNTER_RESPONSE_LOCKED);
    assert_int_equal(used, 7);
}

static void an_invalid_response_line_is_rejected(void **state)
{
    static const char *const lines[] = {
        "\n",
        "LOCKED\r\n",
        "locked\n",
        " LOCKED\n",
        "LOCKED \n",
        "LOCKEDD\n",
        "LOCK\n",
        "ERROR\n",
        "ERROR \n",
        "ERROR a\tb\n",
        "ERROR \x80\n",
        "uptime: \n",
        "uptime:1\n",
        "HTTP/1.1 400 Bad Request\n",
        "220 mail.example ESMTP\n",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(lines); ++i) {
        struct pool_counter_response r;
        size_t used = 0;
        assert_int_equal(parse(lines[i], &r, &used), ERR_SYNTAX);
    }
    struct pool_counter_response r;
    size_t used = 0;
    assert_int_equal(pool_counter_response_parse(SLICE_LIT("LOCKED\0\n"), &r, &used), ERR_SYNTAX);
}

static void a_line_without_end_is_too_large(void **state)
{
    char room[POOL_COUNTER_RESPONSE_LINE_MAX + 1];
    struct pool_counter_response r;
    size_t used = 0;
    struct slice s = repeated(room, POOL_COUNTER_RESPONSE_LINE_MAX - 1, 'x');

    (void)state;
    put(room, SLICE_LIT("ERROR "));
    assert_int_equal(pool_counter_response_parse(s, &r, &used), ERR_NOT_FOUND);
    s.len = POOL_COUNTER_RESPONSE_LINE_MAX;
    room[POOL_COUNTER_RESPONSE_LINE_MAX - 1] = '\n';
    assert_int_equal(pool_counter_response_parse(s, &r, &used), ERR_OK);
    room[POOL_COUNTER_RESPONSE_LINE_MAX - 1] = 'x';
    assert_int_equal(pool_counter_response_parse(s, &r, &used), ERR_TOO_LARGE);
    room[POOL_COUNTER_RESPONSE_LINE_MAX] = '\n';
    s.len = POOL_COUNTER_RESPONSE_LINE_MAX + 1;
    assert_int_equal(pool_counter_response_parse(s, &r, &used), ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_become_one_word_of_visible_ascii),
        cmocka_unit_test(long_keys_are_cut_and_still_differ),
        cmocka_unit_test(a_long_key_is_not_cut_within_an_escaped_byte),
        cmocka_unit_test(the_type_of_a_key_survives_its_encoding),
        cmocka_unit_test(requests_are_written_as_daemons_read_them),
        cmocka_unit_test(the_longest_request_has_room),
        cmocka_unit_test(every_response_is_known_by_its_line),
        cmocka_unit_test(a_line_is_waited_for_until_its_newline_and_no_further),
        cmocka_unit_test(an_invalid_response_line_is_rejected),
        cmocka_unit_test(a_line_without_end_is_too_large),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
