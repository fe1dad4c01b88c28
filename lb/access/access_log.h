/* SPDX-License-Identifier: Apache-2.0
 *
 * The access log: one line per exchange. Created and destroyed by the control thread (lb/program);
 * outlives the data loops. Each loop leaves the values of a line in a buffer of its own, as a
 * compact record in memory; a line_writer makes lines of these, on its thread.
 */
#ifndef RLB_LB_ACCESS_ACCESS_LOG_H
#define RLB_LB_ACCESS_ACCESS_LOG_H

#include "common/base/err.h"
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

/* ---- the log ---- */

struct access_log;

struct access_options {
    enum access_format format;
    uint64_t fields;  /* bits of enum access_field */
    double sample;    /* the part of the lines that is written; 0..1 */
    bool keep_errors; /* ... but of errors each one */
};

/*
 * Opens FILE for appending ("-": standard output) and starts the writer thread. Returns ERR_SYSTEM
 * and sets errno if FILE cannot be opened, or if it is a FIFO without a reader.
 */
enum err access_log_create(const char *file, const struct access_options *o, unsigned nloops,
                           struct access_log **out) must_check;
/* Any thread: later lines are as O specifies. */
void access_log_set(struct access_log *log, const struct access_options *o);
/* Any thread. Writes buffered lines to the old file, then reopens the file by its name. */
void access_log_reopen(struct access_log *log);

/* Whether the next line of loop LOOP_INDEX is one of the sample; to be asked once for each, on its
 * thread. */
bool access_log_wants(struct access_log *log, unsigned loop_index, bool error);
/*
 * Where data loop LOOP_INDEX puts the record of its next line, on its thread: nothing else
 * until access_log_end. NULL: the writer cannot keep up, and the line is dropped;
 * nothing is to be ended then.
 */
struct text *access_log_begin(struct access_log *log, unsigned loop_index);
void access_log_end(struct access_log *log, unsigned loop_index);
/* The same for a line that is an entry already. */
void access_log_add(struct access_log *log, unsigned loop_index, const struct access_entry *e);

struct access_counts {
    uint64_t written;  /* lines given to the file */
    uint64_t dropped;  /* the writer could not keep up, or could not write */
    uint64_t left_out; /* by `sample` */
};
/* Any thread. */
void access_log_count(const struct access_log *log, struct access_counts *out);
/* Writes the remaining lines, unless the file does not accept them. LOG may be NULL. */
void access_log_destroy(struct access_log *log);

#endif
