/* SPDX-License-Identifier: Apache-2.0
 *
 * A dialog is the same however its questions are cut into pieces, and no more is answered than was
 * asked. Input: pieces of a byte (its lowest bit: 0 asked, 1 heard), another that is its length,
 * and as many bytes.
 */
#include "common/wire/zookeeper_dialog.h"
#include "tests/fuzz/fuzz.h"

static enum zookeeper_fault sent_by_bytes(struct zookeeper_dialog *d, struct slice bytes)
{
    enum zookeeper_fault f = ZOOKEEPER_FAULT_NONE;

    for (size_t i = 0; f == ZOOKEEPER_FAULT_NONE && i < bytes.len; ++i)
        f = zookeeper_dialog_sent(d, (struct slice){bytes.p + i, 1});
    return f;
}

static size_t under_way(const struct zookeeper_dialog *d)
{
    return d->n + d->pings + d->identities + d->watches;
}

static void assert_same(const struct zookeeper_dialog *a, const struct zookeeper_dialog *b)
{
    ASSERT(a->begun == b->begun);
    ASSERT(a->greeted == b->greeted);
    ASSERT(a->session == b->session);
    ASSERT(a->head_bytes == b->head_bytes);
    ASSERT(a->n == b->n);
    ASSERT(a->pings == b->pings);
    ASSERT(a->identities == b->identities);
    ASSERT(a->watches == b->watches);
    ASSERT(a->n <= a->room);
    for (size_t i = 0; i < a->n; ++i) {
        const struct zookeeper_question *p = &a->asked[(a->first + i) & (a->room - 1)];
        const struct zookeeper_question *q = &b->asked[(b->first + i) & (b->room - 1)];

        ASSERT(p->xid == q->xid);
        ASSERT(p->kind == q->kind);
        ASSERT(p->xid >= 0);
    }
}

static enum zookeeper_fault hear(struct zookeeper_dialog *d, struct slice frame)
{
    size_t before = under_way(d);
    bool greeted = d->greeted;
    enum zookeeper_fault f = zookeeper_dialog_length(d, (uint32_t)frame.len);

    if (f == ZOOKEEPER_FAULT_NONE)
        f = zookeeper_dialog_heard(d, frame);
    bool event = greeted && frame.len >= 4 && memcmp(frame.p, "\xff\xff\xff\xff", 4) == 0;
    if (f == ZOOKEEPER_FAULT_NONE)
        ASSERT(under_way(d) == (greeted && !event ? before - 1 : before));
    return f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zookeeper_dialog a = {0};
    struct zookeeper_dialog b = {0};
    enum zookeeper_fault f = ZOOKEEPER_FAULT_NONE;

    while (f == ZOOKEEPER_FAULT_NONE && size >= 2) {
        size_t n = data[1] < size - 2 ? data[1] : size - 2;
        struct slice piece = {(const char *)data + 2, n};

        if ((data[0] & 1) == 0) {
            f = zookeeper_dialog_sent(&a, piece);
            ASSERT(sent_by_bytes(&b, piece) == f);
        } else {
            f = hear(&a, piece);
            ASSERT(hear(&b, piece) == f);
        }
        if (f == ZOOKEEPER_FAULT_NONE)
            assert_same(&a, &b);
        data += 2 + n;
        size -= 2 + n;
    }
    zookeeper_dialog_fini(&a);
    zookeeper_dialog_fini(&b);
    return 0;
}
