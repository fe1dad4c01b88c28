/* SPDX-License-Identifier: Apache-2.0
 *
 * A frame that is taken has one length: neither a part of it nor more than it is. The first byte
 * says as what the rest is read.
 */
#include "common/wire/zookeeper_reply.h"
#include "tests/fuzz/fuzz.h"

enum { EVENT = 254, GREETING = 255, CUT_BYTES_MAX = 512 };

static enum zookeeper_fault check(unsigned as, struct slice bytes)
{
    struct zookeeper_reply r = {0};
    int64_t id = 0;

    if (as == GREETING)
        return zookeeper_greeting_check(bytes, 0, &id);
    enum zookeeper_fault f = zookeeper_reply_read(bytes, &r);
    if (f != ZOOKEEPER_FAULT_NONE)
        return f;
    ASSERT(r.body.p == bytes.p + ZOOKEEPER_HEAD_BYTES);
    ASSERT(r.body.len == bytes.len - ZOOKEEPER_HEAD_BYTES);
    return as == EVENT ? zookeeper_event_check(&r) : zookeeper_reply_check(&r, (int8_t)as);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct slice bytes = {(const char *)data + 1, size - 1};
    enum zookeeper_fault f = check(data[0], bytes);

    ASSERT(zookeeper_fault_text(f)[0] != '\0');
    if (f != ZOOKEEPER_FAULT_NONE || bytes.len > CUT_BYTES_MAX)
        return 0;
    /* Old servers' greetings lack the last byte. */
    size_t shortest = data[0] == GREETING ? 36 : bytes.len;
    ASSERT(shortest <= bytes.len);
    for (size_t n = 0; n < shortest; ++n)
        ASSERT(check(data[0], (struct slice){bytes.p, n}) != ZOOKEEPER_FAULT_NONE);
    char more[CUT_BYTES_MAX + 2];
    memcpy(more, bytes.p, bytes.len);
    memset(more + bytes.len, 0, 2);
    ASSERT(check(data[0], (struct slice){more, bytes.len + 2}) != ZOOKEEPER_FAULT_NONE);
    return 0;
}
