/* SPDX-License-Identifier: Apache-2.0
 *
 * The access log: one line per exchange. Created and destroyed by the control thread (lb/program);
 * outlives the data loops. Each loop leaves the values of a line in a buffer of its own, as a
 * compact record in memory; a line_writer makes lines of these, on its thread.
 */
#pragma once

#include "common/base/bytes.h"
#include "common/base/err.h"
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
    /* Longer texts are truncated: most targets fit, and the size of the log is bounded. */
    ACCESS_TEXT_MAX = 4096,
};

/* The values of a line: numbers and words, which outlive the log, and borrowed texts. */
struct access_entry {
    struct access_fixed {
        uint64_t wall_ms; /* when the request arrived */
#define NUMBER(name, key, doc) uint64_t name;
#include "lb/access/access_field.def"
#define WORD(name, key, doc) const char *name; /* NULL: empty */
#include "lb/access/access_field.def"
    } fixed;
#define TEXT(name, key, doc) struct slice name;
#include "lb/access/access_field.def"
};

/* All fields. */
#define ACCESS_ALL_FIELDS (((uint64_t)1 << ACCESS_FIELDS) - 1)
/* Returns the field NAME (as in lines), or ACCESS_FIELDS if it is unknown. */
enum access_field access_field_find(struct slice name);

/*
 * ---- records: what a data loop leaves of a line for the log's writer ----
 *
 *   [ bytes | length of each text | numbers, words | texts, one behind the other | padding ]
 *
 * Each request makes one, in place, so this is inline. Making one is storing; all that costs more
 * (escaping, digits, dates) is the writer's.
 */

enum access_text {
#define TEXT(name, key, doc) ACCESS_TEXT_##name,
#include "lb/access/access_field.def"
    ACCESS_TEXTS,
};

struct access_record {
    uint32_t bytes; /* total length of the record */
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

/* Starts a record at the end of OUT, with room for the longest possible one. Its texts are
 * empty; the caller must set all numbers and words. */
static inline struct access_pen access_record_begin(struct text *out)
{
    struct access_record *r = (struct access_record *)(void *)text_reserve(out, ACCESS_RECORD_MAX);

    memset(r->lengths, 0, sizeof(r->lengths));
    return (struct access_pen){r, (char *)(r + 1)};
}

/* Adds text WHICH. Texts must be added in the order of access_field.def, each at most once. */
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
    double sample;    /* fraction of the lines that is written; 0..1 */
    bool keep_errors; /* write all lines of errors */
};

/*
 * Opens FILE for appending ("-": standard output) and starts the writer thread. Returns ERR_SYSTEM
 * and sets errno if FILE cannot be opened, or if it is a FIFO without a reader.
 */
enum err access_log_create(const char *file, const struct access_options *o, unsigned nloops,
                           struct access_log **out) must_check;
/* Any thread. Changes the options for later lines. */
void access_log_set(struct access_log *log, const struct access_options *o);
/* Any thread. Writes buffered lines to the old file, then reopens the file by its name. */
void access_log_reopen(struct access_log *log);

/* Returns true if the next line of loop LOOP_INDEX is to be written. Must be called once for
 * each line, on the thread of the loop. */
bool access_log_wants(struct access_log *log, unsigned loop_index, bool error);
/*
 * Returns the text to which data loop LOOP_INDEX, on its thread, appends the record of its next
 * line until access_log_end(). Returns NULL if the line is dropped because the writer is too slow;
 * access_log_end() must not be called then.
 */
struct text *access_log_begin(struct access_log *log, unsigned loop_index);
void access_log_end(struct access_log *log, unsigned loop_index);
/* Adds a line from an entry. */
void access_log_add(struct access_log *log, unsigned loop_index, const struct access_entry *e);

struct access_counts {
    uint64_t written;  /* lines written to the file */
    uint64_t dropped;  /* lines lost because the writer was too slow, or failed to write */
    uint64_t left_out; /* lines omitted by `sample` */
};
/* Any thread. */
void access_log_count(const struct access_log *log, struct access_counts *out);
/* Writes the remaining lines, unless the file does not accept them. LOG may be NULL. */
void access_log_destroy(struct access_log *log);
