/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames as a ZooKeeper server and its client write them. Each put_... appends.
 */
#ifndef RLB_TESTS_ZOOKEEPER_FRAMES_H
#define RLB_TESTS_ZOOKEEPER_FRAMES_H

#include "common/wire/zookeeper_dialog.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static inline void put_number(struct text *t, uint64_t v, unsigned bytes)
{
    while (bytes-- != 0)
        text_add_char(t, (char)(v >> 8 * bytes));
}

static inline void put_i32(struct text *t, int32_t v)
{
    put_number(t, (uint32_t)v, 4);
}

static inline void put_i64(struct text *t, int64_t v)
{
    put_number(t, (uint64_t)v, 8);
}

/* With its length in front. */
static inline void put_bytes(struct text *t, struct slice bytes)
{
    put_i32(t, (int32_t)bytes.len);
    text_add(t, bytes);
}

/* Figures of a node with DATA bytes and CHILDREN. */
static inline void put_figures(struct text *t, int64_t created, int64_t modified, int32_t data,
                               int32_t children)
{
    put_i64(t, created);
    put_i64(t, modified);
    put_i64(t, 1700000000000);
    put_i64(t, 1700000000001);
    for (int i = 0; i < 3; ++i)
        put_i32(t, i - 1);
    put_i64(t, 0x100000001);
    put_i32(t, data);
    put_i32(t, children);
    put_i64(t, modified);
}

static inline void put_greeting(struct text *t, int32_t timeout_ms, int64_t id)
{
    put_i32(t, 0);
    put_i32(t, timeout_ms);
    put_i64(t, id);
    put_bytes(t, SLICE_LIT("0123456789abcdef"));
    text_add_char(t, '\0');
}

static inline void put_head(struct text *t, int32_t xid, int64_t zxid, int32_t error)
{
    put_i32(t, xid);
    put_i64(t, zxid);
    put_i32(t, error);
}

static inline void put_event(struct text *t, int32_t kind, int32_t state, struct slice path)
{
    put_i32(t, kind);
    put_i32(t, state);
    put_bytes(t, path);
}

#endif
