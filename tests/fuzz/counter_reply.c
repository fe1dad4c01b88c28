/* SPDX-License-Identifier: Apache-2.0
 *
 * An accepted reply is one line, independent of what follows it, and no prefix of it is accepted.
 * The bytes are also used as a key: it stays within its line, and a request line with it is not a
 * valid reply.
 */
#include "common/base/text.h"
#include "common/limiter/counter_line.h"

#include "tests/fuzz/fuzz.h"

static void check_reply(struct slice bytes)
{
    struct counter_reply r;
    struct counter_reply again;
    size_t used = 0;
    size_t used_again = 0;
    enum err e = counter_reply_parse(bytes, &r, &used);

    if (e == ERR_NOT_FOUND) {
        ASSERT(bytes.len < COUNTER_REPLY_LINE_MAX);
        ASSERT(slice_find(bytes, '\n') == SIZE_MAX);
    }
    if (e != ERR_OK)
        return;
    ASSERT(used <= bytes.len);
    ASSERT(used <= COUNTER_REPLY_LINE_MAX);
    ASSERT(slice_find(bytes, '\n') == used - 1);
    ASSERT(r.text.len < used);
    bool has_text = r.kind == COUNTER_REPLY_ERROR || r.kind == COUNTER_REPLY_UPTIME ||
                    r.kind == COUNTER_REPLY_SLOTS;
    ASSERT(has_text == (r.text.len != 0));
    ASSERT(counter_reply_parse((struct slice){bytes.p, used}, &again, &used_again) == ERR_OK);
    ASSERT(again.kind == r.kind);
    ASSERT(used_again == used);
    for (size_t n = 0; n < used; ++n)
        ASSERT(counter_reply_parse((struct slice){bytes.p, n}, &again, &used_again) ==
               ERR_NOT_FOUND);
}

static void check_word(struct slice key)
{
    char word[COUNTER_KEY_WIRE_MAX];
    char line[COUNTER_REQUEST_LINE_MAX];
    struct counter_reply r;
    size_t used;
    size_t n = counter_key_escape(key, word);

    ASSERT(n != 0);
    ASSERT(n <= COUNTER_KEY_WIRE_MAX);
    for (size_t i = 0; i < n; ++i) {
        ASSERT(word[i] >= 0x21);
        ASSERT(word[i] <= 0x7e);
    }
    struct counter_ask l = {.key = {word, n}, .workers = 1, .maxqueue = 1};
    size_t len = counter_acquire_print(&l, line);
    ASSERT(slice_find((struct slice){line, len}, '\n') == len - 1);
    ASSERT(counter_reply_parse((struct slice){line, len}, &r, &used) != ERR_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {(const char *)data, size};

    check_reply(bytes);
    check_word(bytes);
    return 0;
}
