/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of the access log: its values, the compact record in which a data loop leaves that to
 * the writer, and the text that the writer makes of it. Stateless but for struct access_clock,
 * which is the writer's. A record is in memory only and never leaves the process.
 */
#ifndef RLB_LB_ACCESS_ACCESS_LINE_H
#define RLB_LB_ACCESS_ACCESS_LINE_H

#include "common/base/put.h"
#include "common/base/text.h"

/* In the order of setting `access_log_format`. */
enum access_format { ACCESS_COMBINED, ACCESS_JSON };

enum access_field {
#define TEXT(name, key, doc) ACCESS_FIELD_##name,
#define WORD(name, key, doc) ACCESS_FIELD_##name,
#define NUMBER(name, key, doc) ACCESS_FIELD_##name,
#include "lb/access/access_field.def"
    ACCESS_FIELDS
};

enum {
    /* Bytes of one text of a line: enough for a useful target, and a flood of long ones stays
     * small. The rest is cut off. */
    ACCESS_TEXT_MAX = 4096,
};

/*
 * The values of a line. Numbers first, then texts that outlive the log (tables' own, applications'
 * names), then those that are borrowed for the call.
 */
struct access_entry {
    uint64_t wall_ms; /* when the request arrived */
#define NUMBER(name, key, doc) uint64_t name;
#include "lb/access/access_field.def"
#define WORD(name, key, doc) const char *name; /* NULL: empty */
#include "lb/access/access_field.def"
#define TEXT(name, key, doc) struct slice name;
#include "lb/access/access_field.def"
};

/* Every field. */
#define ACCESS_ALL_FIELDS (((uint64_t)1 << ACCESS_FIELDS) - 1)
/* The field called NAME (as in lines), or ACCESS_FIELDS. */
enum access_field access_field_find(struct slice name);
/* Its name in lines. */
const char *access_field_name(enum access_field f);

/*
 * ---- records: what a data loop leaves of a line for the log's writer ----
 *
 *   [ bytes | length of each text | numbers, words | texts, one behind the other | padding ]
 *
 * Each request makes one, in place, so this is inline. Making one is copying; all that costs more
 * (escaping, digits, dates) is the writer's.
 */

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

/* Append E to OUT as a record: room is made for the longest there can be. */
void access_record_add(struct text *out, const struct access_entry *e);
/*
 * The first record of *RECORDS, which begins at one, as an entry that borrows from it; *RECORDS is
 * what follows.
 */
void access_record_take(struct slice *records, struct access_entry *out);

/* The second that was printed last. Zero-initialise. */
struct access_clock {
    uint64_t second;
    char text[32];
};
/*
 * Append E as one line, bytes from strangers escaped.
 *   fields  bits of enum access_field: those that are written. The combined part of the combined
 *           format is always whole:
 *   CLIENT - - [DAY/MON/YEAR:TIME +0000] "METHOD TARGET PROTOCOL" STATUS BYTES "REFERER" "AGENT"
 */
void access_line_add(const struct access_entry *e, enum access_format format, uint64_t fields,
                     struct access_clock *clock, struct text *out);

#endif
