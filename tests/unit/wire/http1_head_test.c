/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/text.h"
#include "common/wire/http1_bytes.h"
#include "common/wire/http1_chunked.h"
#include "common/wire/http1_head.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>

/* In memory of exactly its size, so that reading past the end shows. */
static enum err parse_bytes(struct slice bytes, bool is_head, struct http1_head *out)
{
    char *exact = xmalloc(bytes.len + (bytes.len == 0));

    memcpy(exact, bytes.p, bytes.len);
    enum err e = http1_head_parse((struct slice){exact, bytes.len}, is_head, out);
    if (e != ERR_OK) {
        free(exact);
        return e;
    }
    /* Strings are compared by the tests: point them at the caller's copy. */
    ptrdiff_t shift = bytes.p - exact;
    out->reason.p += shift;
    for (size_t i = 0; i < out->nheaders; ++i) {
        out->headers[i].name.p += shift;
        out->headers[i].value.p += shift;
    }
    free(exact);
    return e;
}

static enum err parse(const char *text, struct http1_head *out)
{
    return parse_bytes(slice_of(text), false, out);
}

static void assert_slice(struct slice s, const char *expected)
{
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.p, expected, s.len);
}

static void head_is_taken_apart(void **state)
{
    const char *text = "HTTP/1.1 404 Not Found\r\nContent-Type:text/html\r\nX-Empty:\r\n"
                       "X-Blanks: \t a b\t \r\nContent-Length: 12\r\n\r\nbody";
    struct http1_head h;

    (void)state;
    assert_int_equal(parse(text, &h), ERR_OK);
    assert_int_equal(h.status, 404);
    assert_int_equal(h.minor_version, 1);
    assert_slice(h.reason, "Not Found");
    assert_int_equal(h.nheaders, 4);
    assert_slice(h.headers[0].name, "Content-Type");
    assert_slice(h.headers[0].value, "text/html");
    assert_slice(h.headers[1].value, "");
    assert_slice(h.headers[2].value, "a b");
    assert_int_equal(h.bytes, strlen(text) - 4);
    assert_int_equal(h.framing, HTTP1_BODY_LENGTH);
    assert_int_equal(h.content_length, 12);
    assert_true(h.keep_alive);
}

static void the_kind_of_each_field_is_recorded(void **state)
{
    static const enum http_field kinds[] = {FIELD_OTHER, FIELD_CONNECTION, FIELD_FRAMING,
                                            FIELD_OTHER, FIELD_OTHER,      FIELD_HOP,
                                            FIELD_DATE,  FIELD_OURS};
    struct http1_head h;

    (void)state;
    assert_int_equal(parse("HTTP/1.1 200 OK\r\nConnexion: a\r\nCONNECTION: close\r\n"
                           "content-Length: 3\r\nContent-Lengtt: 3\r\nTransfer-Encodinh: b\r\n"
                           "Content_Length: 4\r\nDate: x\r\nResumelb_Class: c\r\n\r\n",
                           &h),
                     ERR_OK);
    assert_int_equal(h.nheaders, ARRAY_LEN(kinds));
    for (size_t i = 0; i < ARRAY_LEN(kinds); ++i)
        assert_int_equal(h.headers[i].kind, kinds[i]);
    assert_int_equal(parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &h), ERR_OK);
    assert_int_equal(h.headers[0].kind, FIELD_HOP);
}

static void reason_may_be_empty_or_missing(void **state)
{
    struct http1_head h;

    (void)state;
    assert_int_equal(parse("HTTP/1.1 200 \r\n\r\n", &h), ERR_OK);
    assert_slice(h.reason, "");
    assert_int_equal(parse("HTTP/1.1 200\r\n\r\n", &h), ERR_OK);
    assert_slice(h.reason, "");
}

static void any_prefix_of_a_head_asks_for_more(void **state)
{
    const char *text = "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 3\r\n\r\n";
    struct http1_head h;

    (void)state;
    for (size_t n = 0; n < strlen(text); ++n)
        assert_int_equal(parse_bytes((struct slice){text, n}, false, &h), ERR_BUSY);
    assert_int_equal(http1_head_parse(SLICE_NULL, false, &h), ERR_BUSY);
    assert_int_equal(parse(text, &h), ERR_OK);
}

static void malformed_heads_are_rejected(void **state)
{
    static const char *const bad[] = {
        "HTTP/1.x 200 OK\r\n\r\n",
        "HTTP/1.10 200 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 200 O\001K\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 OK\r\nA: b\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\n : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA b : c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA \r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n\tc : d\r\n\r\n",
        "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA(: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: 1234567\1771234567890\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\002\r\n\r\n",
    };
    struct http1_head h;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        if (parse(bad[i], &h) != ERR_SYNTAX)
            fail_msg("not rejected: %s", bad[i]);
    }
    assert_int_equal(parse_bytes(SLICE_LIT("HTTP/1.1 200 OK\r\nA: \0\r\n\r\n"), false, &h),
                     ERR_SYNTAX);
}

static void blanks_before_the_colon_are_no_part_of_the_name(void **state)
{
    struct http1_head h;

    (void)state;
    assert_int_equal(parse("HTTP/1.1 200 OK\r\nA : b \r\nContent-Length \t: 5\r\nC\t:\r\n\r\n", &h),
                     ERR_OK);
    assert_int_equal(h.nheaders, 3);
    assert_slice(h.headers[0].name, "A");
    assert_slice(h.headers[0].value, "b");
    assert_int_equal(h.headers[1].kind, FIELD_FRAMING);
    assert_int_equal(h.content_length, 5);
    assert_slice(h.headers[2].name, "C");
    assert_slice(h.headers[2].value, "");
}

static void garbage_is_rejected_before_it_is_whole(void **state)
{
    struct http1_head h;

    (void)state;
    assert_int_equal(parse("GARBAGE GARBAGE\r\n", &h), ERR_SYNTAX);
    assert_int_equal(parse("HTTP/1.1 200 OK\nA: b", &h), ERR_SYNTAX);
}

static void tabs_and_high_bytes_are_text(void **state)
{
    struct http1_head h;

    (void)state;
    assert_int_equal(parse("HTTP/1.1 200 \xc3\xa4\r\nA: a\tb \xff\xfe\x80 12345678\r\n\r\n", &h),
                     ERR_OK);
    assert_slice(h.headers[0].value, "a\tb \xff\xfe\x80 12345678");
}

static void a_head_has_one_valid_framing_or_is_rejected(void **state)
{
    static const char *const bad[] = {
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: 1, 1\r\n",
        "Content-Length: +1\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x1\r\n",
        "Content-Length: \r\n",
        "Content-Length: 1 1\r\n",
        "Content-Length: 9223372036854775808\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: x\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: \r\n",
    };
    struct http1_head h;
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        text_clear(&t);
        text_addf(&t, "HTTP/1.1 200 OK\r\n%s\r\n", bad[i]);
        if (parse(text_cstr(&t), &h) != ERR_SYNTAX)
            fail_msg("not rejected: %s", bad[i]);
    }
    assert_int_equal(parse("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &h),
                     ERR_SYNTAX);
    text_fini(&t);
}

/* RFC 9112 section 6.3 */
static void a_coding_wins_over_a_length_and_ends_the_connection(void **state)
{
    static const char *const fields[] = {
        "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n",
    };
    struct http1_head h;
    struct text t = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(fields); ++i) {
        text_clear(&t);
        text_addf(&t, "HTTP/1.1 200 OK\r\n%s\r\n", fields[i]);
        assert_int_equal(parse(text_cstr(&t), &h), ERR_OK);
        assert_int_equal(h.framing, HTTP1_BODY_CHUNKED);
        assert_true(h.content_length == UINT64_MAX);
        assert_false(h.keep_alive);
    }
    text_fini(&t);
}

/* RFC 9110 section 2.5 */
static void a_higher_minor_version_is_read_as_the_highest_known(void **state)
{
    struct http1_head h;

    (void)state;
    assert_int_equal(parse("HTTP/1.7 200 OK\r\nContent-Length: 1\r\n\r\n", &h), ERR_OK);
    assert_int_equal(h.minor_version, 1);
    assert_true(h.keep_alive);
}

static void framing_follows_status_method_and_headers(void **state)
{
    struct http1_head h;

    (void)state;
    assert_int_equal(parse("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n", &h), ERR_OK);
    assert_int_equal(h.framing, HTTP1_BODY_CHUNKED);
    assert_true(h.keep_alive);
    assert_int_equal(parse("HTTP/1.1 200 OK\r\n\r\n", &h), ERR_OK);
    assert_int_equal(h.framing, HTTP1_BODY_CLOSE);
    assert_false(h.keep_alive);
    assert_true(h.content_length == UINT64_MAX);
    assert_int_equal(parse("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", &h), ERR_OK);
    assert_int_equal(h.framing, HTTP1_BODY_NONE);
    assert_int_equal(parse("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 7\r\n\r\n", &h),
                     ERR_OK);
    assert_int_equal(h.content_length, 7);
    assert_int_equal(parse("HTTP/1.1 204 No\r\n\r\n", &h), ERR_OK);
    assert_int_equal(h.framing, HTTP1_BODY_NONE);
    assert_true(h.keep_alive);
    assert_int_equal(parse("HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", &h), ERR_OK);
    assert_int_equal(h.framing, HTTP1_BODY_NONE);
    assert_int_equal(h.content_length, 9);
    assert_true(h.keep_alive);
    assert_int_equal(parse("HTTP/1.1 100 Continue\r\n\r\n", &h), ERR_OK);
    assert_int_equal(h.framing, HTTP1_BODY_NONE);
    assert_int_equal(
        parse_bytes(SLICE_LIT("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), true, &h), ERR_OK);
    assert_int_equal(h.framing, HTTP1_BODY_NONE);
    assert_int_equal(h.content_length, 9);
    assert_true(h.keep_alive);
}

static void no_content_that_announces_a_body_is_not_kept_alive(void **state)
{
    struct http1_head h;

    (void)state;
    assert_int_equal(parse("HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", &h), ERR_OK);
    assert_int_equal(h.framing, HTTP1_BODY_NONE);
    assert_false(h.keep_alive);
    assert_int_equal(parse("HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", &h), ERR_OK);
    assert_true(h.keep_alive);
}

static void connection_and_version_decide_on_keep_alive(void **state)
{
    struct http1_head h;

    (void)state;
    assert_int_equal(
        parse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: a , CLOSE\r\n\r\n", &h), ERR_OK);
    assert_false(h.keep_alive);
    assert_int_equal(parse("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", &h), ERR_OK);
    assert_false(h.keep_alive);
    assert_int_equal(
        parse("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: Keep-Alive\r\n\r\n", &h),
        ERR_OK);
    assert_true(h.keep_alive);
    assert_int_equal(
        parse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: closed\r\n\r\n", &h), ERR_OK);
    assert_true(h.keep_alive);
}

static void fields_that_connection_lists_are_hop_by_hop(void **state)
{
    const char *text = "HTTP/1.1 200 OK\r\nX-One: 1\r\nConnection: x-one, X-Three\r\n"
                       "X-Two: 2\r\nContent-Length: 0\r\nX-THREE: 3\r\n\r\n";
    static const enum http_field kinds[] = {FIELD_HOP, FIELD_CONNECTION, FIELD_OTHER, FIELD_FRAMING,
                                            FIELD_HOP};
    struct http1_head h;

    (void)state;
    assert_int_equal(parse(text, &h), ERR_OK);
    assert_int_equal(h.nheaders, ARRAY_LEN(kinds));
    for (size_t i = 0; i < ARRAY_LEN(kinds); ++i)
        assert_int_equal(h.headers[i].kind, kinds[i]);
}

static void connection_may_list_sixteen_options(void **state)
{
    struct http1_head h;
    struct text head = {0};

    (void)state;
    text_add(&head, SLICE_LIT("HTTP/1.1 204 None\r\nConnection: close,,keep-alive"));
    for (int i = 0; i < CONNECTION_OPTIONS_MAX; ++i)
        text_addf(&head, ", x%d", i);
    text_add(&head, SLICE_LIT("\r\n\r\n"));
    assert_int_equal(parse(text_cstr(&head), &h), ERR_OK);
    head.len -= 4;
    text_add(&head, SLICE_LIT(", one-more\r\n\r\n"));
    assert_int_equal(parse(text_cstr(&head), &h), ERR_SYNTAX);
    assert_int_equal(h.fault, RESPONSE_FAULT_CONNECTION);
    text_fini(&head);
}

static void number_and_size_of_headers_are_bounded(void **state)
{
    struct text t = {0};
    struct http1_head h;

    (void)state;
    text_add(&t, SLICE_LIT("HTTP/1.1 200 OK\r\n"));
    for (int i = 0; i < RESPONSE_HEADERS_MAX; ++i)
        text_addf(&t, "A%d: b\r\n", i);
    size_t fits = t.len;
    text_add(&t, SLICE_LIT("\r\n"));
    assert_int_equal(parse_bytes(text_slice(&t), false, &h), ERR_OK);
    assert_int_equal(h.nheaders, RESPONSE_HEADERS_MAX);
    t.len = fits;
    text_add(&t, SLICE_LIT("X: y\r\n\r\n"));
    assert_int_equal(parse_bytes(text_slice(&t), false, &h), ERR_TOO_LARGE);

    text_clear(&t);
    text_addf(&t, "HTTP/1.1 200 OK\r\nA: %0*d", RESPONSE_HEAD_MAX - 20 - 4, 1);
    assert_int_equal(t.len, RESPONSE_HEAD_MAX - 4);
    assert_int_equal(parse_bytes(text_slice(&t), false, &h), ERR_BUSY);
    text_add(&t, SLICE_LIT("\r\n\r\n"));
    assert_int_equal(parse_bytes(text_slice(&t), false, &h), ERR_OK);
    t.len = RESPONSE_HEAD_MAX - 4;
    text_add(&t, SLICE_LIT("2\r\n\r\n"));
    assert_int_equal(parse_bytes(text_slice(&t), false, &h), ERR_TOO_LARGE);
    text_fini(&t);
}

/* ---- chunks ---- */

/* Decode BYTES, STEP at a time, each piece in memory of its own. */
static enum err decode(struct slice bytes, size_t step, struct text *out, size_t *rest)
{
    struct http1_chunked d = {0};
    enum err e = ERR_OK;
    size_t at = 0;

    text_clear(out);
    while (e == ERR_OK && at < bytes.len) {
        size_t n = bytes.len - at < step ? bytes.len - at : step;
        char *piece = xmalloc(n);
        memcpy(piece, bytes.p + at, n);
        struct slice left = {piece, n};
        while (e == ERR_OK && left.len != 0) {
            struct slice data;
            size_t used = 0;
            e = http1_chunked_decode(&d, left, &data, &used);
            if (e == ERR_OK || e == ERR_NOT_FOUND) {
                text_add(out, data);
                left.p += used;
                left.len -= used;
                at += used;
            }
        }
        free(piece);
    }
    *rest = bytes.len - at;
    return e;
}

static void chunks_decode_alike_however_they_are_cut(void **state)
{
    struct slice bytes = SLICE_LIT(
        "5\r\nhello\r\n1  ; a=\"b;c\"\r\n \r\n00A\r\n0123456789\r\n0;x\r\nT: u\r\nV:\r\n\r\nREST");
    struct text out = {0};
    size_t rest;

    (void)state;
    for (size_t step = 1; step <= bytes.len; ++step) {
        assert_int_equal(decode(bytes, step, &out, &rest), ERR_NOT_FOUND);
        assert_string_equal(text_cstr(&out), "hello 0123456789");
        assert_int_equal(rest, 4);
    }
    text_fini(&out);
}

static void malformed_chunks_are_rejected(void **state)
{
    static const char *const bad[] = {
        "\r\n",      "g\r\n",       "-1\r\n",       "+1\r\n",  "0x1\r\n",
        ";a\r\n",    " 1\r\n",      "1\n",          "1\r\r\n", "1\r\nab\r\n",
        "1\r\na\n",  "1\r\na\r\r",  "1\r\na\r\n\r", "0\r\n\n", "0\r\na\001: b\r\n",
        "0\r\n\r\r", "0\r\na: b\n", "1;a\nb\r\n",   "1 a\r\n", "0\r\nA: b\r\r\n",
    };
    struct text out = {0};
    size_t rest;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        if (decode(slice_of(bad[i]), 1, &out, &rest) != ERR_SYNTAX)
            fail_msg("not rejected: %s", bad[i]);
    }
    text_fini(&out);
}

static void sizes_of_chunks_are_bounded(void **state)
{
    struct text out = {0};
    size_t rest;

    (void)state;
    assert_int_equal(decode(SLICE_LIT("7fffffffffffffff\r\n"), 1, &out, &rest), ERR_OK);
    assert_int_equal(decode(SLICE_LIT("8000000000000000\r\n"), 1, &out, &rest), ERR_TOO_LARGE);
    assert_int_equal(decode(SLICE_LIT("ffffffffffffffff\r\n"), 1, &out, &rest), ERR_TOO_LARGE);
    assert_int_equal(decode(SLICE_LIT("00000000000000001\r\n"), 1, &out, &rest), ERR_TOO_LARGE);
    text_fini(&out);
}

static void endless_extensions_and_trailers_are_rejected(void **state)
{
    struct text t = {0};
    struct text out = {0};
    size_t rest;

    (void)state;
    text_addf(&t, "1;%05000d\r\n", 0);
    assert_int_equal(decode(text_slice(&t), 100, &out, &rest), ERR_TOO_LARGE);
    text_clear(&t);
    text_addf(&t, "1%*s\r\n", 5000, "");
    assert_int_equal(decode(text_slice(&t), 100, &out, &rest), ERR_TOO_LARGE);
    text_clear(&t);
    text_add(&t, SLICE_LIT("0\r\n"));
    for (int i = 0; i < 5000; ++i)
        text_add(&t, SLICE_LIT("A: b\r\n"));
    assert_int_equal(decode(text_slice(&t), 100, &out, &rest), ERR_TOO_LARGE);
    text_fini(&t);
    text_fini(&out);
}

static void each_fault_has_its_reason(void **state)
{
    static const struct {
        const char *text;
        enum response_fault fault;
    } rows[] = {
        {"HTTP/1.1 200 OK\nA: b\r\n\r\n", RESPONSE_FAULT_BARE_LINE_END},
        {"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", RESPONSE_FAULT_BARE_LINE_END},
        {"HTTP/1.1 200 OK\r\nA: b\x01\r\n\r\n", RESPONSE_FAULT_CONTROL},
        {"HTTP/2 200 OK\r\n\r\n", RESPONSE_FAULT_STATUS_LINE},
        {"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", RESPONSE_FAULT_HEADER},
        {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", RESPONSE_FAULT_LENGTH},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
         RESPONSE_FAULT_LENGTHS_DIFFER},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", RESPONSE_FAULT_CODING},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
         RESPONSE_FAULT_CODING_REPEATED},
        {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", RESPONSE_FAULT_CODING_TOO_OLD},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        struct http1_head h;

        assert_int_equal(parse(rows[i].text, &h), ERR_SYNTAX);
        assert_string_equal(response_fault_text(h.fault), response_fault_text(rows[i].fault));
    }
}

static void each_fault_of_chunks_has_its_reason(void **state)
{
    static const struct {
        const char *text;
        enum response_fault fault;
    } rows[] = {
        {"x\r\n", RESPONSE_FAULT_CHUNK_SIZE},       {"1;\x01\r\n", RESPONSE_FAULT_CHUNK_EXTENSION},
        {"1\rx", RESPONSE_FAULT_BARE_LINE_END},     {"1\r\nab\r\n", RESPONSE_FAULT_CHUNK_END},
        {"0\r\na\x01\r\n", RESPONSE_FAULT_TRAILER}, {"0\r\n\rx", RESPONSE_FAULT_BARE_LINE_END},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        struct http1_chunked d = {0};
        struct slice rest = slice_of(rows[i].text);
        enum err e = ERR_OK;

        while (e == ERR_OK && rest.len != 0) {
            struct slice data;
            size_t used;

            e = http1_chunked_decode(&d, rest, &data, &used);
            rest = (struct slice){rest.p + used, rest.len - used};
        }
        assert_int_equal(e, ERR_SYNTAX);
        assert_string_equal(response_fault_text(http1_chunked_fault(&d)),
                            response_fault_text(rows[i].fault));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_has_its_reason),
        cmocka_unit_test(each_fault_of_chunks_has_its_reason),
        cmocka_unit_test(head_is_taken_apart),
        cmocka_unit_test(the_kind_of_each_field_is_recorded),
        cmocka_unit_test(reason_may_be_empty_or_missing),
        cmocka_unit_test(any_prefix_of_a_head_asks_for_more),
        cmocka_unit_test(malformed_heads_are_rejected),
        cmocka_unit_test(blanks_before_the_colon_are_no_part_of_the_name),
        cmocka_unit_test(garbage_is_rejected_before_it_is_whole),
        cmocka_unit_test(tabs_and_high_bytes_are_text),
        cmocka_unit_test(a_head_has_one_valid_framing_or_is_rejected),
        cmocka_unit_test(a_coding_wins_over_a_length_and_ends_the_connection),
        cmocka_unit_test(a_higher_minor_version_is_read_as_the_highest_known),
        cmocka_unit_test(framing_follows_status_method_and_headers),
        cmocka_unit_test(no_content_that_announces_a_body_is_not_kept_alive),
        cmocka_unit_test(connection_and_version_decide_on_keep_alive),
        cmocka_unit_test(fields_that_connection_lists_are_hop_by_hop),
        cmocka_unit_test(connection_may_list_sixteen_options),
        cmocka_unit_test(number_and_size_of_headers_are_bounded),
        cmocka_unit_test(chunks_decode_alike_however_they_are_cut),
        cmocka_unit_test(malformed_chunks_are_rejected),
        cmocka_unit_test(sizes_of_chunks_are_bounded),
        cmocka_unit_test(endless_extensions_and_trailers_are_rejected),
    };

    return cmocka_run_group_tests_name("http1_head", tests, NULL, NULL);
}
