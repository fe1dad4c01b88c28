/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/trace_line.h"
#include "common/wire/http1_bytes.h"
#include "common/wire/http_date.h"

enum { YEAR_FIRST = 1970, YEAR_LAST = 9998, TIME_BYTES = 19, SECOND_US = 1000000 };

/* ---- reading ---- */

static bool take_time(struct slice *s, uint64_t *out)
{
    struct slice whole = slice_take(s, TIME_BYTES);
    struct slice fraction = slice_cut(s, ' ');
    uint64_t us = 0;
    struct tm t;

    if (!http_date_match(whole, "9999-99-99 99:99:99", "%Y-%m-%d %H:%M:%S", &t) &&
        !http_date_match(whole, "9999-99-99T99:99:99", "%Y-%m-%dT%H:%M:%S", &t))
        return false;
    if (t.tm_year < YEAR_FIRST - 1900 || t.tm_year > YEAR_LAST - 1900 || t.tm_sec > 60)
        return false;
    /* Up to six digits behind a point, if there is one. */
    if (fraction.len != 0) {
        struct slice digits = {fraction.p + 1, fraction.len - 1};

        if (fraction.p[0] != '.' || digits.len > 6 || !parse_u64(digits, SECOND_US - 1, &us))
            return false;
        for (size_t i = digits.len; i < 6; ++i)
            us *= 10;
    }
    int day = t.tm_mday;
    unsigned second = (unsigned)t.tm_sec;
    t.tm_sec = 0; /* a leap second does not change the day */
    *out = ((uint64_t)timegm(&t) + second) * SECOND_US + us;
    /* timegm() converts a 31 February to a day in March. */
    return t.tm_mday == day;
}

static bool is_bytes(struct slice s, uint64_t *out)
{
    if (!slice_is(s, "-"))
        return parse_u64(s, INT64_MAX, out);
    *out = TRACE_LINE_UNKNOWN;
    return true;
}

static const char *take_rest(struct slice rest, struct trace_line *out)
{
    uint64_t status;

    switch (out->stage) {
    case 'B':
        out->method = slice_cut(&rest, ' ');
        out->path = rest;
        return out->method.len != 0 && rest.len != 0 ? NULL : "no method and path";
    case 'I':
        return is_bytes(rest, &out->bytes) ? NULL : "no number of bytes";
    case 'A':
        if (!parse_u64(slice_cut(&rest, ' '), 999, &status) || status < 100)
            return "no status";
        out->status = (unsigned)status;
        return is_bytes(rest, &out->bytes) ? NULL : "no number of bytes";
    case '-':
        out->name = slice_cut(&rest, ' ');
        out->text = rest;
        return out->name.len != 0 ? NULL : "no name";
    case 'X':
    case 'D':
        out->text = rest;
        return NULL;
    default: /* S C E */
        return rest.len == 0 ? NULL : "unexpected text after the time";
    }
}

const char *trace_line_parse(struct slice line, struct trace_line *out)
{
    struct slice rest = line;

    *out = (struct trace_line){.bytes = TRACE_LINE_UNKNOWN};
    if (line.len > TRACE_LINE_MAX)
        return "too long";
    for (size_t i = 0; i < line.len; ++i) {
        if ((unsigned char)line.p[i] < ' ' || line.p[i] == 0x7f)
            return "a control character";
    }
    struct slice stage = slice_cut(&rest, ' ');

    if (stage.len != 1 || memchr("SBICAEXD-", stage.p[0], 9) == NULL)
        return "not a record of a trace log";
    out->stage = stage.p[0];
    out->id = slice_cut(&rest, ' ');
    if (out->id.len == 0 || out->id.len > TRACE_LINE_ID_MAX)
        return "name of the request is missing";
    if (!take_time(&rest, &out->time_us))
        return "no time";
    return take_rest(rest, out);
}

/* ---- writing ---- */

static struct slice cut_to(struct slice s, size_t max)
{
    return (struct slice){s.p, s.len < max ? s.len : max};
}

static void add_bytes(struct text *out, uint64_t bytes)
{
    text_add_char(out, ' ');
    if (bytes == TRACE_LINE_UNKNOWN)
        text_add_char(out, '-');
    else
        text_add_u64(out, bytes);
}

/* A blank would be taken for its end. */
static void add_word(struct text *out, struct slice s)
{
    size_t from;

    text_add_char(out, ' ');
    from = out->len;
    text_add_escaped(out, s);
    for (size_t i = from; i < out->len; ++i) {
        if (out->p[i] == ' ')
            out->p[i] = '_';
    }
    if (out->len == from)
        text_add_char(out, '-');
}

static void add_text(struct text *out, struct slice s, size_t max)
{
    if (s.len == 0)
        return;
    text_add_char(out, ' ');
    text_add_escaped(out, cut_to(s, max));
}

void trace_line_print(const struct trace_line *l, struct text *out)
{
    time_t second = (time_t)(l->time_us / SECOND_US);
    struct tm tm;

    gmtime_r(&second, &tm);
    text_add_char(out, l->stage);
    text_add_char(out, ' ');
    text_add(out, l->id);
    text_addf(out, " %04d-%02d-%02d %02d:%02d:%02d.%06u", tm.tm_year + 1900, tm.tm_mon + 1,
              tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (unsigned)(l->time_us % SECOND_US));
    if (l->stage == 'B') {
        add_word(out, cut_to(l->method, TRACE_LINE_METHOD_MAX));
        add_text(out, l->path.len != 0 ? l->path : SLICE_LIT("-"), TRACE_LINE_PATH_MAX);
    } else if (l->stage == 'I') {
        add_bytes(out, l->bytes);
    } else if (l->stage == 'A') {
        text_addf(out, " %u", l->status);
        add_bytes(out, l->bytes);
    } else if (l->stage == '-') {
        text_add_char(out, ' ');
        text_add(out, l->name);
    }
    if (l->stage == '-' || l->stage == 'X' || l->stage == 'D')
        add_text(out, l->text, TRACE_LINE_TEXT_MAX);
    text_add_char(out, '\n');
}
