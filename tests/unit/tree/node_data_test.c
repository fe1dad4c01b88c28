/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/limits.h"
#include "common/tree/node_data.h"

static void bytes_become_properties_as_zc_zk_has_it(void **state)
{
    static const struct {
        struct slice bytes;
        struct slice string_value; /* p NULL: none */
        const char *json;          /* where there is none */
        bool complains;
    } rows[] = {
        {SLICE_LIT(""), SLICE_NULL, "{}", false},
        {SLICE_LIT(" \n\t\r\v\f"), SLICE_NULL, "{}", false},
        {SLICE_LIT(" {\"a\": 1} \n"), SLICE_NULL, "{\"a\":1}", false},
        {SLICE_LIT("{}"), SLICE_NULL, "{}", false},
        {SLICE_LIT("\xef\xbb\xbf{\"a\": 1}"), SLICE_NULL, "{\"a\":1}", false},
        {SLICE_LIT(" raw text "), SLICE_LIT(" raw text "), NULL, false},
        {SLICE_LIT("[1,2]"), SLICE_LIT("[1,2]"), NULL, false},
        {SLICE_LIT("{'a': 1}"), SLICE_LIT("{'a': 1}"), NULL, true},
        {SLICE_LIT("{\"a\":1,\"a\":2}"), SLICE_LIT("{\"a\":1,\"a\":2}"), NULL, true},
        {SLICE_LIT("{\"a\":\"\\u0000\"}"), SLICE_LIT("{\"a\":\"\\u0000\"}"), NULL, true},
        {SLICE_LIT("{\"a\":1"), SLICE_LIT("{\"a\":1"), NULL, false},
        {SLICE_LIT("\xff\0\x01"), SLICE_LIT("\xff\0\x01"), NULL, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        char why[JSON_WHY_ROOM];
        json_t *v = node_data_decode(rows[i].bytes, why);
        const json_t *s = json_object_get(v, NODE_STRING_VALUE);

        assert_int_equal(why[0] != '\0', rows[i].complains);
        if (rows[i].json != NULL) {
            json_t *want = json_loads(rows[i].json, 0, NULL);

            assert_true(json_equal(v, want));
            json_decref(want);
        } else {
            assert_int_equal(json_object_size(v), 1);
            assert_int_equal(json_string_length(s), rows[i].string_value.len);
            assert_memory_equal(json_string_value(s), rows[i].string_value.p,
                                rows[i].string_value.len);
        }
        json_decref(v);
    }
}

static void properties_become_bytes_that_mean_the_same(void **state)
{
    static const struct {
        const char *json;
        const char *bytes;
    } rows[] = {
        {"{}", ""},
        {"{\"b\": 1, \"a ->\": \"/c\"}", "{\"a ->\":\"/c\",\"b\":1}"},
        {"{\"string_value\": \"text\"}", "text"},
        {"{\"string_value\": \"{half\"}", "{half"},
        /* What would be read as something else goes into JSON. */
        {"{\"string_value\": \"\"}", "{\"string_value\":\"\"}"},
        {"{\"string_value\": \" \\n\"}", "{\"string_value\":\" \\n\"}"},
        {"{\"string_value\": \"{}\"}", "{\"string_value\":\"{}\"}"},
        {"{\"string_value\": 7}", "{\"string_value\":7}"},
        {"{\"string_value\": \"a\", \"b\": 1}", "{\"b\":1,\"string_value\":\"a\"}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        char why[JSON_WHY_ROOM];
        struct text out = {0};
        json_t *v = json_loads(rows[i].json, 0, NULL);

        assert_int_equal(node_data_encode(v, false, NODE_BYTES_MAX, &out), ERR_OK);
        assert_string_equal(text_cstr(&out), rows[i].bytes);
        json_t *again = node_data_decode(text_slice(&out), why);
        assert_true(json_equal(v, again));
        json_decref(again);
        json_decref(v);
        text_fini(&out);
    }
}

static void unreadable_properties_are_not_written(void **state)
{
    struct text out = {0};
    json_t *v = json_object();
    char *large = xmalloc(1000);

    (void)state;
    text_add(&out, SLICE_LIT("before"));
    memset(large, 'x', 1000);
    json_object_set_new(v, NODE_STRING_VALUE, json_stringn(large, 1000));
    assert_int_equal(node_data_encode(v, false, 999, &out), ERR_TOO_LARGE);
    json_object_set_new(v, "a", json_integer(1));
    assert_int_equal(node_data_encode(v, false, 999, &out), ERR_TOO_LARGE);
    json_object_set_new(v, NODE_STRING_VALUE, json_stringn_nocheck("\xff", 1));
    assert_int_equal(node_data_encode(v, false, 999, &out), ERR_UNSUPPORTED);
    json_object_set_new(v, NODE_STRING_VALUE, json_pack("[{s:s}]", "k", "v"));
    json_object_set_new(json_array_get(json_object_get(v, NODE_STRING_VALUE), 0), "k",
                        json_stringn_nocheck("a\0b", 3));
    assert_int_equal(node_data_encode(v, false, 999, &out), ERR_UNSUPPORTED);
    json_t *deep = json_loads("[[[[[[[[1]]]]]]]]", 0, NULL);
    json_object_clear(v);
    json_object_set_new(v, "deep", deep);
    assert_int_equal(node_data_encode(v, false, 999, &out), ERR_TOO_LARGE);
    assert_string_equal(text_cstr(&out), "before");
    json_decref(v);
    free(large);
    text_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_become_properties_as_zc_zk_has_it),
        cmocka_unit_test(properties_become_bytes_that_mean_the_same),
        cmocka_unit_test(unreadable_properties_are_not_written),
    };

    return cmocka_run_group_tests_name("node_data", tests, NULL, NULL);
}
