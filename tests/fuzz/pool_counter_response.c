/* SPDX-License-Identifier: Apache-2.0
 *
 * An accepted response is one line, independent of what follows it, and no prefix of it is
 * accepted. The bytes are also used as a key: it stays within its line, and a request line with it
 * is not a valid response.
 */
#include "common/base/text.h"
#include "common/counters/pool_counter_line.h"

#include "tests/fuzz/fuzz.h"

static void check_response(struct slice bytes)
{
    struct pool_counter_response r;
    struct pool_counter_response again;
    size_t used = 0;
    size_t used_again = 0;
    enum err e = pool_counter_response_parse(bytes, &r, &used);

    if (e == ERR_NOT_FOUND) {
        ASSERT(bytes.len < POOL_COUNTER_RESPONSE_LINE_MAX);
        ASSERT(slice_find(bytes, '\n') == SIZE_MAX);
    }
    if (e != ERR_OK)
        return;
    ASSERT(used <= bytes.len);
    ASSERT(used <= POOL_COUNTER_RESPONSE_LINE_MAX);
    ASSERT(slice_find(bytes, '\n') == used - 1);
    ASSERT(r.text.len < used);
    bool has_text = r.kind == POOL_COUNTER_RESPONSE_ERROR ||
                    r.kind == POOL_COUNTER_RESPONSE_UPTIME || r.kind == POOL_COUNTER_RESPONSE_SLOTS;
    ASSERT(has_text == (r.text.len != 0));
    ASSERT(pool_counter_response_parse((struct slice){bytes.p, used}, &again, &used_again) ==
           ERR_OK);
    ASSERT(again.kind == r.kind);
    ASSERT(used_again == used);
    for (size_t n = 0; n < used; ++n)
        ASSERT(pool_counter_response_parse((struct slice){bytes.p, n}, &again, &used_again) ==
               ERR_NOT_FOUND);
}

static void check_word(struct slice key)
{
    char word[POOL_COUNTER_KEY_WIRE_MAX];
    char line[POOL_COUNTER_REQUEST_LINE_MAX];
    struct pool_counter_response r;
    size_t used;
    size_t n = pool_counter_key_escape(key, word);

    ASSERT(n != 0);
    ASSERT(n <= POOL_COUNTER_KEY_WIRE_MAX);
    for (size_t i = 0; i < n; ++i) {
        ASSERT(word[i] >= 0x21);
        ASSERT(word[i] <= 0x7e);
    }
    struct counter_request l = {.key = {word, n}, .workers = 1, .maxqueue = 1};
    size_t len = pool_counter_acquire_print(&l, line);
    ASSERT(slice_find((struct slice){line, len}, '\n') == len - 1);
    ASSERT(pool_counter_response_parse((struct slice){line, len}, &r, &used) != ERR_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {(const char *)data, size};

    check_response(bytes);
    check_word(bytes);
    return 0;
}
