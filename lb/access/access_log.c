/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries become records on the loops, records become lines on the writer's thread. Bytes from
 * clients are escaped there.
 */
#include "lb/access/access_log.h"

#include "common/base/json.h"
#include "common/base/map.h"
#include "common/event/line_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

_Static_assert(sizeof(struct access_entry) ==
                   offsetof(struct access_entry, client) + sizeof(struct slice) * ACCESS_TEXTS,
               "an entry ends in its texts, of which the client is the first");
_Static_assert(ACCESS_TEXT_MAX <= UINT16_MAX, "a length is 16 bits");
_Static_assert(ACCESS_FIELDS < 64, "a set of fields is 64 bits");

static const struct {
    struct slice name;
    struct slice lead; /* ' NAME="' of a text, ' NAME=' of a number */
    size_t offset;     /* in struct access_entry */
    enum { IS_TEXT, IS_WORD, IS_NUMBER } kind;
} fields_of_lines[] = {
#define ROW(member, key, quote, kind)                                                              \
    {{key, sizeof(key) - 1},                                                                       \
     {" " key "=" quote, sizeof(" " key "=" quote) - 1},                                           \
     offsetof(struct access_entry, member),                                                        \
     kind},
#define TEXT(name, key, doc) ROW(name, key, "\"", IS_TEXT)
#define WORD(name, key, doc) ROW(fixed.name, key, "\"", IS_WORD)
#define NUMBER(name, key, doc) ROW(fixed.name, key, "", IS_NUMBER)
#include "lb/access/access_field.def"
};

enum access_field access_field_find(struct slice name)
{
    for (size_t i = 0; i < ACCESS_FIELDS; ++i) {
        if (slice_eq(fields_of_lines[i].name, name))
            return (enum access_field)i;
    }
    return ACCESS_FIELDS;
}

/* ---- lines ---- */

/* The last printed second, as text. */
struct clock {
    uint64_t second;
    char text[32];
};

/* Room of a line, reserved once: each byte of a text may be an escape of four bytes. */
enum {
#define TEXT(name, key, doc) +(sizeof(key) + 4)
#define WORD(name, key, doc) +(sizeof(key) + 4)
#define NUMBER(name, key, doc) +(sizeof(key) + 2 + PUT_U64_MAX)
    LINE_FRAME_MAX = sizeof(struct clock) + sizeof(" - - [] \"  \"   \"-\" \"-\"\n")
#include "lb/access/access_field.def"
};

/* Writes S, with escapes for what is not plain. */
static noinline_ char *put_escaped(char *at, struct slice s)
{
    while (s.len != 0) {
        size_t plain = text_plain_length(s);

        at = put_slice(at, (struct slice){s.p, plain});
        if (plain == s.len)
            break;
        unsigned char c = (unsigned char)s.p[plain];
        at = PUT(at, "\\x");
        *at++ = "0123456789abcdef"[c >> 4];
        *at++ = "0123456789abcdef"[c & 15];
        s = (struct slice){s.p + plain + 1, s.len - plain - 1};
    }
    return at;
}

/* Writes S, or "-" if it is empty, as the combined format requires. */
static char *put_or_dash(char *at, struct slice s)
{
    return s.len == 0 ? PUT(at, "-") : put_escaped(at, s);
}

/* Returns "21/Nov/2026:01:33:26 +0000", which is formatted once a second. */
static struct slice format_time(struct clock *c, uint64_t wall_ms)
{
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    uint64_t s = wall_ms / 1000;

    if (s != c->second || c->text[0] == '\0') {
        time_t t = (time_t)s;
        struct tm tm;

        gmtime_r(&t, &tm);
        /* strftime() is not used, as month names must not depend on the locale. */
        snprintf(c->text, sizeof(c->text), "%02u/%s/%04u:%02u:%02u:%02u +0000",
                 (unsigned)tm.tm_mday % 100u, months[tm.tm_mon],
                 (unsigned)(tm.tm_year + 1900) % 10000u, (unsigned)tm.tm_hour % 100u,
                 (unsigned)tm.tm_min % 100u, (unsigned)tm.tm_sec % 100u);
        c->second = s;
    }
    return slice_of(c->text);
}

static uint64_t access_log_number_of(const struct access_entry *e, size_t field)
{
    const void *at = (const char *)e + fields_of_lines[field].offset;

    return *(const uint64_t *)at;
}

static struct slice text_of(const struct access_entry *e, size_t field)
{
    const void *at = (const char *)e + fields_of_lines[field].offset;

    return fields_of_lines[field].kind == IS_WORD ? slice_of(*(const char *const *)at)
                                                  : *(const struct slice *)at;
}

/* CLIENT - - [DAY/MON/YEAR:TIME +0000] "METHOD TARGET PROTOCOL" STATUS BYTES "REFERER" "AGENT" */
static void put_combined(const struct access_entry *e, uint64_t fields, struct clock *clock,
                         struct text *t)
{
    const struct slice *texts = &e->client;
    size_t bytes = 0;

    for (size_t i = 0; i < ACCESS_TEXTS; ++i)
        bytes += texts[i].len;
#define WORD(name, key, doc) bytes += slice_of(e->fixed.name).len;
#include "lb/access/access_field.def"
    size_t room = bytes * 4 + LINE_FRAME_MAX;
    char *begin = text_reserve(t, room);
    char *at = put_escaped(begin, e->client);

    at = PUT(put_slice(PUT(at, " - - ["), format_time(clock, e->fixed.wall_ms)), "] \"");
    /* A connection that was rejected before a request line was read has none. */
    if (e->method.len == 0 && e->target.len == 0) {
        at = PUT(at, "-");
    } else {
        at = PUT(put_escaped(at, e->method), " ");
        at = PUT(put_escaped(at, e->target), " ");
        at = put_escaped(at, slice_of(e->fixed.protocol));
    }
    at = PUT(at, "\" ");
    at = PUT(put_u64(at, e->fixed.status), " ");
    at = PUT(put_u64(at, e->fixed.sent_bytes), " \"");
    at = PUT(put_or_dash(at, e->referer), "\" \"");
    at = PUT(put_or_dash(at, e->agent), "\"");
    /* Fields up to the agent are in the standard part. */
    for (size_t i = ACCESS_FIELD_agent + 1; i < ACCESS_FIELDS; ++i) {
        if ((fields >> i & 1) == 0)
            continue;
        at = put_slice(at, fields_of_lines[i].lead);
        at = fields_of_lines[i].kind == IS_NUMBER ? put_u64(at, access_log_number_of(e, i))
                                                  : PUT(put_escaped(at, text_of(e, i)), "\"");
    }
    at = PUT(at, "\n");
    ASSERT((size_t)(at - begin) <= room);
    t->len += (size_t)(at - begin);
}

static void put_json(const struct access_entry *e, uint64_t fields, struct text *t)
{
    struct json_writer w = {.out = t};
    char time_text[40];
    time_t seconds = (time_t)(e->fixed.wall_ms / 1000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    size_t n = strftime(time_text, sizeof(time_text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(time_text + n, sizeof(time_text) - n, ".%03uZ", (unsigned)(e->fixed.wall_ms % 1000));
    json_open_object(&w, NULL);
    json_put_text(&w, "time", slice_of(time_text));
    for (size_t i = 0; i < ACCESS_FIELDS; ++i) {
        const char *name = fields_of_lines[i].name.p;

        if ((fields >> i & 1) == 0)
            continue;
        if (fields_of_lines[i].kind == IS_NUMBER)
            json_put_int(&w, name, (int64_t)access_log_number_of(e, i));
        else
            json_put_text(&w, name, text_of(e, i));
    }
    json_close_object(&w);
    text_add_char(t, '\n');
}

/* ---- the log ---- */

enum {
    /* The value 1 of `sample` on the scale of the random numbers. */
    SAMPLE_BITS = 32,
};

/* Data of one loop. */
struct access_sample {
    _Alignas(CACHE_LINE_BYTES) uint64_t seed; /* state of the random numbers */
    _Atomic uint64_t left_out;                /* written by the loop */
};

struct access_log {
    struct line_writer *writer;
    unsigned nloops;
    struct access_sample *samples;
    _Atomic int format;
    _Atomic uint64_t fields;
    _Atomic uint64_t sample; /* number of lines written of 1 << SAMPLE_BITS */
    _Atomic bool keep_errors;
    struct clock clock; /* used by the writer's thread */
};

/* ---- the loops ---- */

bool access_log_wants(struct access_log *log, unsigned loop_index, bool error)
{
    uint64_t sample = atomic_load_explicit(&log->sample, memory_order_relaxed);
    struct access_sample *b = &log->samples[loop_index];

    ASSERT(loop_index < log->nloops);
    /* Random numbers by splitmix64 (Steele, Lea, Flood 2014), so that the sample does not correlate
     * with patterns of requests. */
    if (sample == (uint64_t)1 << SAMPLE_BITS ||
        (error && atomic_load_explicit(&log->keep_errors, memory_order_relaxed)) ||
        hash_mixed(b->seed += 0x9e3779b97f4a7c15) >> (64 - SAMPLE_BITS) < sample)
        return true;
    atomic_store_explicit(&b->left_out,
                          atomic_load_explicit(&b->left_out, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return false;
}

struct text *access_log_begin(struct access_log *log, unsigned loop_index)
{
    return line_writer_begin(log->writer, loop_index);
}

void access_log_end(struct access_log *log, unsigned loop_index)
{
    line_writer_end(log->writer, loop_index);
}

void access_log_add(struct access_log *log, unsigned loop_index, const struct access_entry *e)
{
    struct text *records = access_log_begin(log, loop_index);

    if (records == NULL)
        return;
    const struct slice *texts = &e->client;
    struct access_pen p = access_record_begin(records);
    p.record->fixed = e->fixed;
    for (size_t i = 0; i < ACCESS_TEXTS; ++i)
        access_record_put(&p, (enum access_text)i, texts[i]);
    access_record_end(&p, records);
    access_log_end(log, loop_index);
}

/* Removes the first record of *RECORDS, which starts at a record boundary, and writes its line. */
static void print_record(void *context, struct slice *records, struct text *lines)
{
    struct access_log *log = context;
    uint64_t fields = atomic_load_explicit(&log->fields, memory_order_relaxed);
    struct access_record head;
    struct access_entry e;
    struct slice *texts = &e.client;

    ASSERT(records->len >= sizeof(head));
    memcpy(&head, records->p, sizeof(head));
    ASSERT(head.bytes <= records->len);
    e.fixed = head.fixed;
    const char *at = records->p + sizeof(head);
    for (size_t i = 0; i < ACCESS_TEXTS; ++i) {
        texts[i] = (struct slice){at, head.lengths[i]};
        at += head.lengths[i];
    }
    records->p += head.bytes;
    records->len -= head.bytes;
    if (atomic_load_explicit(&log->format, memory_order_relaxed) == ACCESS_JSON)
        put_json(&e, fields, lines);
    else
        put_combined(&e, fields, &log->clock, lines);
}

/* ---- life ---- */

enum err access_log_create(const char *file, const struct access_options *o, unsigned nloops,
                           struct access_log **out)
{
    struct access_log *log = xcalloc(1, sizeof(*log));
    const struct line_writer_options wo = {.file = file,
                                           .nbuffers = nloops,
                                           .print = print_record,
                                           .context = log,
                                           .open_event = "access-log-reopen-failed",
                                           .write_event = "access-log-write-failed",
                                           .batch_ms = LINE_WRITER_BATCH_MS};

    access_log_set(log, o);
    enum err e = line_writer_create(&wo, &log->writer);
    if (e != ERR_OK) {
        free(log);
        return e;
    }
    log->nloops = nloops;
    log->samples = xcalloc_lines(nloops, sizeof(*log->samples));
    for (unsigned i = 0; i < nloops; ++i)
        log->samples[i].seed = i;
    *out = log;
    return ERR_OK;
}

void access_log_set(struct access_log *log, const struct access_options *o)
{
    ASSERT(o->sample >= 0);
    ASSERT(o->sample <= 1);
    atomic_store_explicit(&log->format, (int)o->format, memory_order_relaxed);
    atomic_store_explicit(&log->fields, o->fields, memory_order_relaxed);
    atomic_store_explicit(&log->sample,
                          (uint64_t)(o->sample * (double)((uint64_t)1 << SAMPLE_BITS)),
                          memory_order_relaxed);
    atomic_store_explicit(&log->keep_errors, o->keep_errors, memory_order_relaxed);
}

void access_log_reopen(struct access_log *log)
{
    line_writer_reopen(log->writer);
}

void access_log_count(const struct access_log *log, struct access_counts *out)
{
    line_writer_count(log->writer, &out->written, &out->dropped);
    out->left_out = 0;
    for (unsigned i = 0; i < log->nloops; ++i)
        out->left_out += atomic_load_explicit(&log->samples[i].left_out, memory_order_relaxed);
}

void access_log_destroy(struct access_log *log)
{
    if (log == NULL || !line_writer_destroy(log->writer))
        return;
    free(log->samples);
    free(log);
}
