/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of bytes with one writer and one reader. A note is a head and its two texts, and never
 * wraps: where the rest of the ring is too short for one, a head without bytes marks that.
 *
 *     tail (reader)           head (writer)
 *       v                       v
 *   ....|note|note|note|note....|.........
 */
#include "lb/core/traffic.h"

#include <stdlib.h>

enum {
    /* About a thousand notes: several thousand requests a second at four drains a second. */
    TRAFFIC_BYTES = 64 * 1024,
    TRAFFIC_TEXT_MAX = 255, /* cls_len is a byte; worker names of this length are omitted */
};

struct note_head {
    uint32_t bytes; /* of the whole note, padded; 0: continue at the start */
    uint16_t application;
    uint8_t flags;
    uint8_t cls_len;
    uint32_t total_us;
    uint32_t wait_us;
    uint32_t worker_len;
    uint32_t unused; /* heads stay aligned */
};

struct traffic {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t head; /* bytes ever written */
    _Atomic uint64_t dropped;                         /* notes, ever */
    uint64_t seen_tail;                               /* the writer's copy of the reader's place */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t tail; /* bytes ever read */
    uint64_t reported;                                /* the reader's: dropped, last time */
    _Alignas(CACHE_LINE_BYTES) char bytes[TRAFFIC_BYTES];
};

struct traffic *traffic_create(void)
{
    return xcalloc_lines(1, sizeof(struct traffic));
}

void traffic_destroy(struct traffic *t)
{
    free(t);
}

static uint32_t clamp_us(uint64_t us)
{
    return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

void traffic_add(struct traffic *t, const struct traffic_note *n)
{
    uint64_t head = atomic_load_explicit(&t->head, memory_order_relaxed);
    struct note_head h = {
        .application = (uint16_t)n->application,
        .flags = (uint8_t)n->flags,
        .cls_len = (uint8_t)(n->cls.len < TRAFFIC_TEXT_MAX ? n->cls.len : TRAFFIC_TEXT_MAX),
        .worker_len = (uint32_t)(n->worker.len < TRAFFIC_TEXT_MAX ? n->worker.len : 0),
        .total_us = clamp_us(n->total_us),
        .wait_us = clamp_us(n->wait_us),
    };
    size_t bytes = sizeof(h) + h.cls_len + h.worker_len;

    bytes = (bytes + sizeof(h) - 1) / sizeof(h) * sizeof(h);
    /* In one piece behind HEAD, after SKIP bytes to the start of the ring. */
    size_t left = TRAFFIC_BYTES - (size_t)(head % TRAFFIC_BYTES);
    size_t skip = left < bytes ? left : 0;
    uint64_t end = head + skip + bytes;
    if (end - t->seen_tail > TRAFFIC_BYTES)
        t->seen_tail = atomic_load_explicit(&t->tail, memory_order_acquire);
    if (end - t->seen_tail > TRAFFIC_BYTES) {
        uint64_t dropped = atomic_load_explicit(&t->dropped, memory_order_relaxed);
        atomic_store_explicit(&t->dropped, dropped + 1, memory_order_relaxed);
        return;
    }
    if (skip != 0) {
        memset(t->bytes + head % TRAFFIC_BYTES, 0, sizeof(h.bytes));
        head += skip;
    }
    char *at = t->bytes + head % TRAFFIC_BYTES;
    h.bytes = (uint32_t)bytes;
    memcpy(at, &h, sizeof(h));
    if (h.cls_len != 0)
        memcpy(at + sizeof(h), n->cls.p, h.cls_len);
    if (h.worker_len != 0)
        memcpy(at + sizeof(h) + h.cls_len, n->worker.p, h.worker_len);
    atomic_store_explicit(&t->head, end, memory_order_release);
}

/* The note at TAIL, or false: none before HEAD. TAIL is moved behind it. */
static bool traffic_take(const struct traffic *t, uint64_t head, uint64_t *tail,
                         struct traffic_note *out)
{
    struct note_head h;

    while (*tail != head) {
        const char *at = t->bytes + *tail % TRAFFIC_BYTES;

        /* At the end of the ring there may be less than a head. */
        memcpy(&h.bytes, at, sizeof(h.bytes));
        if (h.bytes == 0) {
            *tail += TRAFFIC_BYTES - *tail % TRAFFIC_BYTES;
            continue;
        }
        memcpy(&h, at, sizeof(h));
        *tail += h.bytes;
        *out = (struct traffic_note){
            .application = h.application,
            .flags = h.flags,
            .cls = {at + sizeof(h), h.cls_len},
            .worker = {at + sizeof(h) + h.cls_len, h.worker_len},
            .total_us = h.total_us,
            .wait_us = h.wait_us,
        };
        return true;
    }
    return false;
}

size_t traffic_drain(struct traffic *t,
                     void (*each)(void *context, const struct traffic_note *n, double weight),
                     void *context)
{
    uint64_t head = atomic_load_explicit(&t->head, memory_order_acquire);
    uint64_t dropped = atomic_load_explicit(&t->dropped, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&t->tail, memory_order_relaxed);
    uint64_t at = tail;
    struct traffic_note n;
    size_t noted = 0;

    double weight = 1;
    if (dropped != t->reported) {
        while (traffic_take(t, head, &at, &n))
            ++noted;
        if (noted != 0)
            weight += (double)(dropped - t->reported) / (double)noted;
    }
    for (noted = 0, at = tail; traffic_take(t, head, &at, &n); ++noted)
        each(context, &n, weight);
    t->reported = dropped;
    atomic_store_explicit(&t->tail, head, memory_order_release);
    return noted;
}
