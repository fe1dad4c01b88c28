/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries become records (access_line.h), records become lines.
 */
#include "lb/access/access_line.h"

#include <stdio.h>
#include <time.h>

#include "common/base/json.h"
#include "common/base/put.h"

_Static_assert(
    offsetof(struct access_entry, client) == sizeof(struct access_fixed),
    "an entry is what a record has as it is, then texts, of which the client is the first");
_Static_assert(sizeof(struct access_entry) ==
                   sizeof(struct access_fixed) + sizeof(struct slice) * ACCESS_TEXTS,
               "and no hole between them");
_Static_assert(ACCESS_TEXT_MAX <= UINT16_MAX, "a length is 16 bits");
_Static_assert(ACCESS_FIELDS < 64, "a set of fields is 64 bits");

static const struct {
    struct slice name;
    struct slice text_key;   /* ' NAME="' */
    struct slice number_key; /* ' NAME=' */
    size_t offset;           /* in struct access_entry */
    enum { IS_TEXT, IS_WORD, IS_NUMBER } kind;
} fields_of_lines[] = {
#define IN_QUOTES(name, key, kind)                                                                 \
    {{key, sizeof(key) - 1},                                                                       \
     {" " key "=\"", sizeof(key) + 2},                                                             \
     {NULL, 0},                                                                                    \
     offsetof(struct access_entry, name),                                                          \
     kind},
#define TEXT(name, key, doc) IN_QUOTES(name, key, IS_TEXT)
#define WORD(name, key, doc) IN_QUOTES(name, key, IS_WORD)
#define NUMBER(name, key, doc)                                                                     \
    {{key, sizeof(key) - 1},                                                                       \
     {NULL, 0},                                                                                    \
     {" " key "=", sizeof(key) + 1},                                                               \
     offsetof(struct access_entry, name),                                                          \
     IS_NUMBER},
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

const char *access_field_name(enum access_field f)
{
    return fields_of_lines[f].name.p;
}

/* ---- records ---- */

void access_record_add(struct text *out, const struct access_entry *e)
{
    const struct slice *texts = &e->client;
    struct access_pen p = access_record_begin(out);

    memcpy(&p.record->fixed, e, sizeof(p.record->fixed));
    for (size_t i = 0; i < ACCESS_TEXTS; ++i)
        access_record_put(&p, (enum access_text)i, texts[i]);
    access_record_end(&p, out);
}

void access_record_take(struct slice *records, struct access_entry *out)
{
    struct slice *texts = &out->client;
    struct access_record head;

    ASSERT(records->len >= sizeof(head));
    memcpy(&head, records->p, sizeof(head));
    ASSERT(head.bytes <= records->len);
    memcpy(out, &head.fixed, sizeof(head.fixed));
    const char *at = records->p + sizeof(head);

    for (size_t i = 0; i < ACCESS_TEXTS; ++i) {
        texts[i] = (struct slice){at, head.lengths[i]};
        at += head.lengths[i];
    }
    records->p += head.bytes;
    records->len -= head.bytes;
}

/* ---- lines ---- */

/*
 * Lines of the combined format are written into room that is made once for each: four bytes for one
 * of a text or a word, as that is what an escape takes, and for all else what it takes at most.
 */
enum {
#define TEXT(name, key, doc) +(sizeof(key) + 4)
#define WORD(name, key, doc) +(sizeof(key) + 4)
#define NUMBER(name, key, doc) +(sizeof(key) + 2 + PUT_U64_MAX)
    LINE_FRAME_MAX = sizeof(struct access_clock) + sizeof(" - - [] \"  \"   \"-\" \"-\"\n")
#include "lb/access/access_field.def"
};

static size_t room_for(const struct access_entry *e)
{
    const struct slice *texts = &e->client;
    size_t bytes = 0;

    for (size_t i = 0; i < ACCESS_TEXTS; ++i)
        bytes += texts[i].len;
#define WORD(name, key, doc) bytes += slice_of(e->name).len;
#include "lb/access/access_field.def"
    return bytes * 4 + LINE_FRAME_MAX;
}

static noinline_ char *put_escapes(char *at, struct slice s)
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

static char *put_escaped(char *at, struct slice s)
{
    return text_plain_length(s) == s.len ? put_slice(at, s) : put_escapes(at, s);
}

/* "-" for nothing, as the combined format has it. */
static char *put_or_dash(char *at, struct slice s)
{
    return s.len == 0 ? PUT(at, "-") : put_escaped(at, s);
}

/* "21/Nov/2026:01:33:26 +0000", made once a second. */
static struct slice stamp(struct access_clock *c, uint64_t wall_ms)
{
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    uint64_t s = wall_ms / 1000;

    if (s != c->second || c->text[0] == '\0') {
        time_t t = (time_t)s;
        struct tm tm;

        gmtime_r(&t, &tm);
        /* Not strftime: month names must not follow the locale. */
        snprintf(c->text, sizeof(c->text), "%02u/%s/%04u:%02u:%02u:%02u +0000",
                 (unsigned)tm.tm_mday % 100u, months[tm.tm_mon],
                 (unsigned)(tm.tm_year + 1900) % 10000u, (unsigned)tm.tm_hour % 100u,
                 (unsigned)tm.tm_min % 100u, (unsigned)tm.tm_sec % 100u);
        c->second = s;
    }
    return slice_of(c->text);
}

/* The common part of the combined format. */
static bool in_combined_part(size_t field)
{
    return field <= ACCESS_FIELD_agent;
}

static uint64_t number_of(const struct access_entry *e, size_t field)
{
    uint64_t n;

    memcpy(&n, (const char *)e + fields_of_lines[field].offset, sizeof(n));
    return n;
}

static struct slice text_of(const struct access_entry *e, size_t field)
{
    const char *at = (const char *)e + fields_of_lines[field].offset;
    const char *word;
    struct slice s;

    if (fields_of_lines[field].kind == IS_WORD) {
        memcpy(&word, at, sizeof(word));
        return slice_of(word);
    }
    memcpy(&s, at, sizeof(s));
    return s;
}

static char *put_fields(char *at, const struct access_entry *e, uint64_t fields)
{
    for (size_t i = 0; i < ACCESS_FIELDS; ++i) {
        if (in_combined_part(i) || (fields >> i & 1) == 0)
            continue;
        if (fields_of_lines[i].kind == IS_NUMBER) {
            at = put_u64(put_slice(at, fields_of_lines[i].number_key), number_of(e, i));
        } else {
            at = put_escaped(put_slice(at, fields_of_lines[i].text_key), text_of(e, i));
            at = PUT(at, "\"");
        }
    }
    return at;
}

/* A connection that was rejected before a request line was read has none. */
static char *put_request(char *at, const struct access_entry *e)
{
    if (e->method.len == 0 && e->target.len == 0)
        return PUT(at, "-");
    at = PUT(put_escaped(at, e->method), " ");
    at = PUT(put_escaped(at, e->target), " ");
    return put_escaped(at, slice_of(e->protocol));
}

static void put_combined(const struct access_entry *e, uint64_t fields, struct access_clock *clock,
                         struct text *t)
{
    size_t room = room_for(e);
    char *begin = text_reserve(t, room);
    char *at = put_escaped(begin, e->client);

    at = PUT(put_slice(PUT(at, " - - ["), stamp(clock, e->wall_ms)), "] \"");
    at = PUT(put_request(at, e), "\" ");
    at = PUT(put_u64(at, e->status), " ");
    at = PUT(put_u64(at, e->sent_bytes), " \"");
    at = PUT(put_or_dash(at, e->referer), "\" \"");
    at = PUT(put_or_dash(at, e->agent), "\"");
    at = PUT(put_fields(at, e, fields), "\n");
    ASSERT((size_t)(at - begin) <= room);
    t->len += (size_t)(at - begin);
}

static void put_json(const struct access_entry *e, uint64_t fields, struct text *t)
{
    struct json_writer w = {.out = t};
    char time_text[40];
    time_t seconds = (time_t)(e->wall_ms / 1000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    size_t n = strftime(time_text, sizeof(time_text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(time_text + n, sizeof(time_text) - n, ".%03uZ", (unsigned)(e->wall_ms % 1000));
    json_open_object(&w, NULL);
    json_put_text(&w, "time", slice_of(time_text));
    for (size_t i = 0; i < ACCESS_FIELDS; ++i) {
        const char *name = fields_of_lines[i].name.p;

        if ((fields >> i & 1) == 0)
            continue;
        if (fields_of_lines[i].kind == IS_NUMBER)
            json_put_int(&w, name, (int64_t)number_of(e, i));
        else
            json_put_text(&w, name, text_of(e, i));
    }
    json_close_object(&w);
    text_add_char(t, '\n');
}

void access_line_add(const struct access_entry *e, enum access_format format, uint64_t fields,
                     struct access_clock *clock, struct text *out)
{
    if (format == ACCESS_JSON)
        put_json(e, fields, out);
    else
        put_combined(e, fields, clock, out);
}
