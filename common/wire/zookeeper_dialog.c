/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/zookeeper_dialog.h"

#include <stdlib.h>

enum {
    /* Of what is answered out of turn, and of news. */
    XID_EVENT = -1,
    XID_PING = -2,
    XID_AUTH = -4,
    XID_SET_WATCHES = -8,
    /* A greeting; with a last byte since ZooKeeper 3.4. */
    GREETING_BYTES_MIN = 36,
    GREETING_BYTES_MAX = 37,
    QUESTION_BYTES_MIN = 8, /* xid, kind */
    SESSION_AT = 16,        /* in the first question, behind a version, a zxid and a time-out */
    ROOM_MIN = 64,
};

static uint64_t number_at(const unsigned char *p, size_t n)
{
    uint64_t v = 0;

    for (size_t i = 0; i < n; ++i)
        v = v << 8 | p[i];
    return v;
}

void zookeeper_dialog_fini(struct zookeeper_dialog *d)
{
    free(d->asked);
    *d = (struct zookeeper_dialog){0};
}

/* ---- questions ---- */

static enum zookeeper_fault grow(struct zookeeper_dialog *d)
{
    if (d->room == ZOOKEEPER_QUESTIONS_MAX)
        return ZOOKEEPER_FAULT_QUESTIONS;
    size_t room = d->room != 0 ? 2 * d->room : ROOM_MIN;
    struct zookeeper_question *asked = xcalloc(room, sizeof(*asked));
    for (size_t i = 0; i < d->n; ++i)
        asked[i] = d->asked[(d->first + i) & (d->room - 1)];
    free(d->asked);
    d->asked = asked;
    d->room = room;
    d->first = 0;
    return ZOOKEEPER_FAULT_NONE;
}

static enum zookeeper_fault asked(struct zookeeper_dialog *d, int32_t xid, int32_t kind)
{
    unsigned *count = NULL;
    enum zookeeper_fault f = ZOOKEEPER_FAULT_NONE;

    if (xid == XID_PING)
        count = &d->pings;
    else if (xid == XID_AUTH)
        count = &d->identities;
    else if (xid == XID_SET_WATCHES)
        count = &d->watches;
    else if (xid < 0)
        return ZOOKEEPER_FAULT_QUESTION;
    if (count != NULL && *count == ZOOKEEPER_QUESTIONS_MAX)
        return ZOOKEEPER_FAULT_QUESTIONS;
    if (count != NULL) {
        ++*count;
        return ZOOKEEPER_FAULT_NONE;
    }
    if (d->n == d->room)
        f = grow(d);
    if (f == ZOOKEEPER_FAULT_NONE)
        d->asked[(d->first + d->n++) & (d->room - 1)] = (struct zookeeper_question){xid, kind};
    return f;
}

/* A question has gone out whole, and its head is here. */
static enum zookeeper_fault whole_question(struct zookeeper_dialog *d)
{
    const unsigned char *p = d->head + 4;

    if (d->begun)
        return asked(d, (int32_t)(uint32_t)number_at(p, 4), (int32_t)(uint32_t)number_at(p + 4, 4));
    if (d->head_bytes < sizeof(d->head))
        return ZOOKEEPER_FAULT_QUESTION;
    d->begun = true;
    d->session = (int64_t)number_at(p + SESSION_AT, 8);
    return ZOOKEEPER_FAULT_NONE;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Take into the head what belongs there of the next bytes, N at most; the rest of N is passed over.
 */
static void take_head(struct zookeeper_dialog *d, struct slice *bytes, size_t n)
{
    size_t kept = min_size(n, sizeof(d->head) - d->head_bytes);

    memcpy(d->head + d->head_bytes, bytes->p, kept);
    d->head_bytes += kept;
    *bytes = (struct slice){bytes->p + n, bytes->len - n};
}

enum zookeeper_fault zookeeper_dialog_sent(struct zookeeper_dialog *d, struct slice bytes)
{
    enum zookeeper_fault f = ZOOKEEPER_FAULT_NONE;

    while (f == ZOOKEEPER_FAULT_NONE && bytes.len != 0) {
        if (d->head_bytes < 4) {
            take_head(d, &bytes, min_size(bytes.len, 4 - d->head_bytes));
            if (d->head_bytes < 4)
                break;
            d->left = number_at(d->head, 4);
            if (d->left < QUESTION_BYTES_MIN || d->left > ZOOKEEPER_FRAME_MAX)
                f = ZOOKEEPER_FAULT_QUESTION;
            continue;
        }
        size_t n = min_size(bytes.len, d->left);
        take_head(d, &bytes, n);
        d->left -= n;
        if (d->left == 0) {
            f = whole_question(d);
            d->head_bytes = 0;
        }
    }
    return f;
}

/* ---- answers ---- */

enum zookeeper_fault zookeeper_dialog_length(const struct zookeeper_dialog *d, uint32_t length)
{
    bool possible = d->greeted ? length >= ZOOKEEPER_HEAD_BYTES && length <= ZOOKEEPER_FRAME_MAX
                               : length >= GREETING_BYTES_MIN && length <= GREETING_BYTES_MAX;

    return possible ? ZOOKEEPER_FAULT_NONE : ZOOKEEPER_FAULT_LENGTH;
}

static enum zookeeper_fault heard_greeting(struct zookeeper_dialog *d, struct slice frame)
{
    if (!d->begun)
        return ZOOKEEPER_FAULT_UNASKED;
    enum zookeeper_fault f = zookeeper_greeting_check(frame, d->session, &d->session);
    d->greeted = f == ZOOKEEPER_FAULT_NONE;
    return f;
}

/* R answers one of COUNT questions of the kind KIND, out of turn. */
static enum zookeeper_fault heard_out_of_turn(const struct zookeeper_reply *r, unsigned *count,
                                              int32_t kind)
{
    if (*count == 0)
        return ZOOKEEPER_FAULT_UNASKED;
    --*count;
    return zookeeper_reply_check(r, kind);
}

static enum zookeeper_fault heard_answer(struct zookeeper_dialog *d,
                                         const struct zookeeper_reply *r)
{
    if (d->n == 0)
        return ZOOKEEPER_FAULT_UNASKED;
    struct zookeeper_question q = d->asked[d->first];
    if (q.xid != r->xid)
        return ZOOKEEPER_FAULT_ORDER;
    d->first = (d->first + 1) & (d->room - 1);
    --d->n;
    return zookeeper_reply_check(r, q.kind);
}

enum zookeeper_fault zookeeper_dialog_heard(struct zookeeper_dialog *d, struct slice frame)
{
    struct zookeeper_reply r;

    if (!d->greeted)
        return heard_greeting(d, frame);
    enum zookeeper_fault f = zookeeper_reply_read(frame, &r);
    if (f != ZOOKEEPER_FAULT_NONE)
        return f;
    switch (r.xid) {
    case XID_EVENT:
        return zookeeper_event_check(&r);
    case XID_PING:
        return heard_out_of_turn(&r, &d->pings, ZOOKEEPER_PING);
    case XID_AUTH:
        return heard_out_of_turn(&r, &d->identities, ZOOKEEPER_AUTH);
    case XID_SET_WATCHES:
        return heard_out_of_turn(&r, &d->watches, ZOOKEEPER_SET_WATCHES);
    default:
        return heard_answer(d, &r);
    }
}
