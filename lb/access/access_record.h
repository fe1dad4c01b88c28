/* SPDX-License-Identifier: Apache-2.0
 *
 * What a data loop leaves of an access line for the log's writer, made in place: each request makes
 * one, so this is inline. In memory only; it never leaves the process.
 *
 *   [ bytes | length of each text | numbers, words | texts, one behind the other | padding ]
 *
 * Making one is copying; all that costs more (escaping, digits, dates) is the writer's.
 */
#ifndef RLB_LB_ACCESS_ACCESS_RECORD_H
#define RLB_LB_ACCESS_ACCESS_RECORD_H

#include "common/base/put.h"
#include "lb/access/access_line.h"

enum access_text {
#define TEXT(name, key, doc) ACCESS_TEXT_##name,
#include "lb/access/access_field.def"
    ACCESS_TEXTS,
};

/* An access_entry without its texts. */
struct access_fixed {
    uint64_t wall_ms;
#define NUMBER(name, key, doc) uint64_t name;
#include "lb/access/access_field.def"
#define WORD(name, key, doc) const char *name;
#include "lb/access/access_field.def"
};

struct access_record {
    uint32_t bytes; /* of all of it */
    uint16_t lengths[ACCESS_TEXTS];
    struct access_fixed fixed;
};

enum {
    ACCESS_RECORD_ALIGN = 8,
    ACCESS_RECORD_MAX =
        sizeof(struct access_record) + (size_t)ACCESS_TEXTS * ACCESS_TEXT_MAX + ACCESS_RECORD_ALIGN,
};

struct access_pen {
    struct access_record *record;
    char *at;
};

/* A record at the end of OUT, where room is made for the longest there can be: all its texts are
 * empty, its numbers and words are the caller's to set. */
static inline struct access_pen access_record_begin(struct text *out)
{
    struct access_record *r = (struct access_record *)(void *)text_reserve(out, ACCESS_RECORD_MAX);

    memset(r->lengths, 0, sizeof(r->lengths));
    return (struct access_pen){r, (char *)(r + 1)};
}

/* The text that is WHICH; in the order of access_field.def, each at most once. */
static inline __attribute__((always_inline)) void
access_record_put(struct access_pen *p, enum access_text which, struct slice s)
{
    size_t len = s.len < ACCESS_TEXT_MAX ? s.len : ACCESS_TEXT_MAX;

    p->record->lengths[which] = (uint16_t)len;
    p->at = put_slice(p->at, (struct slice){s.p, len});
}

static inline void access_record_end(const struct access_pen *p, struct text *out)
{
    size_t bytes = (size_t)(p->at - (char *)p->record);

    bytes = (bytes + ACCESS_RECORD_ALIGN - 1) / ACCESS_RECORD_ALIGN * ACCESS_RECORD_ALIGN;
    p->record->bytes = (uint32_t)bytes;
    out->len += bytes;
}

#endif
