/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats: Apache's mod_log_config "combined" and "common", and the same behind "%v" (with port or
 * without); nginx writes the same with other escapes. Ours is lb/access/access_log.h. Read from the
 * left, a field at a time; the position of the time's bracket shows whether a host comes first.
 */
#include "ctl/simulate/access_line.h"
#include "common/base/json.h"
#include "common/wire/http1_bytes.h"
#include "common/wire/http_date.h"
#include "common/wire/url_line.h"
#include "ctl/cli/ctl.h"

/* A line as it is read, and where unescaped bytes go. */
struct access_line_reading {
    struct slice rest;
    char *room;
    struct access_line *out;
};

const char *const access_fault_texts[ACCESS_FAULTS] = {
    [ACCESS_FAULT_NONE] = "nothing",
    [ACCESS_FAULT_TOO_LONG] = "longer than 64 KiB",
    [ACCESS_FAULT_FIELDS] =
        "not CLIENT - USER [TIME] \"REQUEST\" STATUS BYTES, with or without a host first",
    [ACCESS_FAULT_TIME] = "no valid time such as [22/Nov/2026:06:25:00 +0000]",
    [ACCESS_FAULT_REQUEST] = "no valid request such as \"GET /path HTTP/1.1\"",
    [ACCESS_FAULT_HOST] = "invalid host",
    [ACCESS_FAULT_STATUS] = "no status between 100 and 599, or no valid number of bytes",
    [ACCESS_FAULT_QUOTES] = "unterminated quoted field, or unknown escape",
    [ACCESS_FAULT_JSON] = "not a JSON object with time, method and target",
    [ACCESS_FAULT_URL] = "invalid URL",
};

static bool access_line_take(struct access_line_reading *r, char c)
{
    if (r->rest.len == 0 || r->rest.p[0] != c)
        return false;
    slice_take(&r->rest, 1);
    return true;
}

/* The byte behind a backslash, or -1. */
static int take_escaped(struct access_line_reading *r)
{
    static const char names[] = "\"\\/bnrtv";
    static const char bytes[] = "\"\\/\b\n\r\t\v";

    if (access_line_take(r, 'x')) {
        int high = r->rest.len >= 2 ? ascii_hex_digit(r->rest.p[0]) : -1;
        int low = r->rest.len >= 2 ? ascii_hex_digit(r->rest.p[1]) : -1;

        if (high < 0 || low < 0)
            return -1;
        slice_take(&r->rest, 2);
        return high << 4 | low;
    }
    const char *name = r->rest.len != 0 ? memchr(names, r->rest.p[0], strlen(names)) : NULL;
    if (name == NULL)
        return -1;
    slice_take(&r->rest, 1);
    return (unsigned char)bytes[name - names];
}

/* The text in quotes, unescaped. */
static bool take_quoted(struct access_line_reading *r, struct slice *out)
{
    char *begin = r->room;

    if (!access_line_take(r, '"'))
        return false;
    while (r->rest.len != 0) {
        char c = r->rest.p[0];

        slice_take(&r->rest, 1);
        if (c == '"') {
            *out = (struct slice){begin, (size_t)(r->room - begin)};
            return true;
        }
        int byte = c == '\\' ? take_escaped(r) : (unsigned char)c;
        if (byte < 0)
            return false;
        *r->room++ = (char)byte;
    }
    return false;
}

/* S, as http_date_match() reads it, in seconds since 1970. */
static bool read_time(struct slice s, const char *pattern, const char *format, uint64_t *out_s)
{
    struct tm t;

    if (!http_date_match(s, pattern, format, &t) || t.tm_year <= 70)
        return false;
    int64_t zone_s = t.tm_gmtoff; /* timegm resets it */
    *out_s = (uint64_t)(timegm(&t) - zone_s);
    return true;
}

/* Without port, in lower case, to the room. "-" is none. */
static bool set_host(struct access_line_reading *r, struct slice host)
{
    bool literal = slice_starts(host, SLICE_LIT("["));
    size_t end = slice_find(host, literal ? ']' : ':');
    uint64_t port;

    if (literal && end == SIZE_MAX)
        return false;
    if (end != SIZE_MAX) {
        end += literal;
        struct slice rest = {host.p + end, host.len - end};

        /* ":PORT", ":" or nothing. */
        if (rest.len != 0 && (slice_cut(&rest, ':').len != 0 ||
                              (rest.len != 0 && !parse_u64(rest, UINT16_MAX, &port))))
            return false;
        host.len = end;
    }
    if (slice_is(host, "-"))
        host.len = 0;
    if (host.len > ACCESS_HOST_MAX || !slice_is_word(host, "-._[]:"))
        return false;
    ascii_lower_copy(r->room, host);
    r->out->host = (struct slice){r->room, host.len};
    r->room += host.len;
    return true;
}

/* Bytes of "http://" or "https://" that S begins with; 0: none. */
static size_t scheme_length(struct slice s)
{
    if (slice_starts(s, SLICE_LIT("http://")))
        return strlen("http://");
    return slice_starts(s, SLICE_LIT("https://")) ? strlen("https://") : 0;
}

/* The target may be http://HOST/PATH; its host is used unless the line has its own. */
static enum access_fault set_target(struct access_line_reading *r, struct slice target)
{
    struct access_line *out = r->out;
    size_t scheme = scheme_length(target);

    if (scheme != 0) {
        struct slice host = {target.p + scheme, 0};

        while (scheme + host.len < target.len && host.p[host.len] != '/' && host.p[host.len] != '?')
            ++host.len;
        if (out->host.len == 0 && !set_host(r, host))
            return ACCESS_FAULT_HOST;
        target = (struct slice){host.p + host.len, target.len - scheme - host.len};
    } else if (!slice_starts(target, SLICE_LIT("/")) && !slice_is(target, "*")) {
        return ACCESS_FAULT_REQUEST;
    }
    out->path = slice_cut(&target, '?');
    out->query = target;
    if (scheme != 0 && out->path.len == 0)
        out->path = SLICE_LIT("/");
    return ACCESS_FAULT_NONE;
}

/* [HOST] CLIENT IDENTITY USER, up to the time's bracket. */
static enum access_fault read_client(struct access_line_reading *r)
{
    enum { WORDS_MAX = 4 };
    struct slice words[WORDS_MAX];
    size_t n = 0;

    while (r->rest.len != 0 && (n < 3 || r->rest.p[0] != '[')) {
        size_t word = slice_find(r->rest, ' ');

        if (n == WORDS_MAX || word == SIZE_MAX || word == 0)
            return ACCESS_FAULT_FIELDS;
        words[n] = (struct slice){r->rest.p, word};
        slice_take(&r->rest, word + 1);
        ++n;
    }
    if (n < 3)
        return ACCESS_FAULT_FIELDS;
    r->out->client = words[n - 3];
    return n == WORDS_MAX && !set_host(r, words[0]) ? ACCESS_FAULT_HOST : ACCESS_FAULT_NONE;
}

static struct slice unless_dash(struct slice s)
{
    return slice_is(s, "-") ? SLICE_NULL : s;
}

/* Referer and agent; then KEY="VALUE" or KEY=VALUE of resumelb's own lines. */
static enum access_fault read_rest(struct access_line_reading *r)
{
    struct access_line *out = r->out;

    if (!take_quoted(r, &out->referer) || !access_line_take(r, ' ') || !take_quoted(r, &out->agent))
        return ACCESS_FAULT_QUOTES;
    out->referer = unless_dash(out->referer);
    out->agent = unless_dash(out->agent);
    while (access_line_take(r, ' ')) {
        size_t end = slice_find(r->rest, '=');
        struct slice value;

        /* The format of other programs is not known. */
        if (end == SIZE_MAX)
            return ACCESS_FAULT_NONE;
        struct slice key = {r->rest.p, end};
        slice_take(&r->rest, end + 1);
        bool quoted = r->rest.len != 0 && r->rest.p[0] == '"';
        if (quoted && !take_quoted(r, &value))
            return ACCESS_FAULT_QUOTES;
        if (!quoted) {
            end = slice_find(r->rest, ' ');
            value = (struct slice){r->rest.p, end != SIZE_MAX ? end : r->rest.len};
            slice_take(&r->rest, value.len);
        }
        if (slice_is(key, "host") && out->host.len == 0 && !set_host(r, value))
            return ACCESS_FAULT_HOST;
        if (slice_is(key, "service_us") && !parse_u64(value, UINT32_MAX, &out->service_us))
            return ACCESS_FAULT_FIELDS;
    }
    return ACCESS_FAULT_NONE;
}

static enum access_fault read_combined(struct access_line_reading *r)
{
    enum access_fault f = read_client(r);
    struct slice request;
    uint64_t seconds, number;

    if (f != ACCESS_FAULT_NONE)
        return f;
    size_t end = slice_find(r->rest, ']');
    if (end == SIZE_MAX || !access_line_take(r, '[') ||
        !read_time((struct slice){r->rest.p, end - 1}, "99/@@@/9999:99:99:99 +9999",
                   "%d/%b/%Y:%H:%M:%S %z", &seconds))
        return ACCESS_FAULT_TIME;
    r->out->time_ms = seconds * 1000;
    slice_take(&r->rest, end);
    if (!access_line_take(r, ' ') || !take_quoted(r, &request))
        return ACCESS_FAULT_QUOTES;
    /* "GET /path HTTP/1.1" */
    r->out->method = slice_cut(&request, ' ');
    struct slice target = slice_cut(&request, ' ');
    if (!http1_is_token(r->out->method) || !slice_starts(request, SLICE_LIT("HTTP/")) ||
        slice_find(request, ' ') != SIZE_MAX)
        return ACCESS_FAULT_REQUEST;
    f = set_target(r, target);
    if (f != ACCESS_FAULT_NONE)
        return f;
    if (!access_line_take(r, ' '))
        return ACCESS_FAULT_STATUS;
    struct slice status = slice_cut(&r->rest, ' ');
    bool more = slice_find(r->rest, ' ') != SIZE_MAX;
    struct slice bytes = slice_cut(&r->rest, ' ');
    if (!parse_u64(status, 599, &number) || number < 100)
        return ACCESS_FAULT_STATUS;
    r->out->status = (unsigned)number;
    if (!slice_is(bytes, "-") && !parse_u64(bytes, UINT64_MAX, &number))
        return ACCESS_FAULT_STATUS;
    return more ? read_rest(r) : ACCESS_FAULT_NONE;
}

/* A member as text, in the room; it was read from at least as many bytes. */
static struct slice copy_member(struct access_line_reading *r, const json_t *object,
                                const char *name)
{
    struct slice s = json_text(object, name);
    char *begin = r->room;

    if (s.len != 0)
        memcpy(begin, s.p, s.len);
    r->room += s.len;
    return (struct slice){begin, s.len};
}

static enum access_fault read_members(struct access_line_reading *r, const json_t *o)
{
    const json_t *status = json_object_get(o, "status");
    const json_t *service = json_object_get(o, "service_us");
    struct access_line *out = r->out;
    struct slice time = json_text(o, "time");
    uint64_t seconds;
    uint64_t ms;

    if (!read_time(time, "9999-99-99T99:99:99.999Z", "%Y-%m-%dT%H:%M:%S", &seconds) ||
        !parse_u64((struct slice){time.p + 20, 3}, 999, &ms))
        return ACCESS_FAULT_TIME;
    out->time_ms = seconds * 1000 + ms;
    if (!set_host(r, json_text(o, "host")))
        return ACCESS_FAULT_HOST;
    out->method = copy_member(r, o, "method");
    out->client = copy_member(r, o, "client");
    out->referer = copy_member(r, o, "referer");
    out->agent = copy_member(r, o, "agent");
    if (!http1_is_token(out->method))
        return ACCESS_FAULT_REQUEST;
    if (!json_is_integer(status) || json_integer_value(status) < 100 ||
        json_integer_value(status) > 599)
        return ACCESS_FAULT_STATUS;
    out->status = (unsigned)json_integer_value(status);
    if (json_is_integer(service) && json_integer_value(service) > 0)
        out->service_us = (uint64_t)json_integer_value(service);
    return set_target(r, copy_member(r, o, "target"));
}

enum access_fault access_line_parse(struct slice line, char *room, struct access_line *out)
{
    struct access_line_reading r = {.rest = line, .room = room, .out = out};
    json_t *o = NULL;

    *out = (struct access_line){0};
    if (line.len > ACCESS_LINE_MAX)
        return ACCESS_FAULT_TOO_LONG;
    if (!slice_starts(line, SLICE_LIT("{")))
        return read_combined(&r);
    if (json_parse(line, ACCESS_LINE_MAX, &o, NULL) != ERR_OK)
        return ACCESS_FAULT_JSON;
    enum access_fault f = json_is_object(o) ? read_members(&r, o) : ACCESS_FAULT_JSON;
    json_decref(o);
    return f;
}

/* ---- files ---- */

enum err requests_open(const char *file, struct requests *out, struct diag *d)
{
    *out = (struct requests){.file = file, .in = ctl_open(file, d)};
    return out->in != NULL ? ERR_OK : ERR_SYSTEM;
}

bool requests_next(struct requests *r, struct access_line *out)
{
    struct slice line;

    while (ctl_read_line(r->in, r->line, ACCESS_LINE_MAX, &line)) {
        const char *why = NULL;
        enum access_fault f = ACCESS_FAULT_NONE;

        if (++r->lines == 1)
            line = utf8_skip_mark(line);
        if (!r->logs_only && (line.len == 0 || line.p[0] == '#'))
            continue;
        if (!r->logs_only && (line.p[0] == '/' || scheme_length(line) != 0)) {
            struct url_line u;

            why = url_line_parse(line, &u);
            f = why != NULL ? ACCESS_FAULT_URL : ACCESS_FAULT_NONE;
            if (why == NULL) {
                struct slice host = host_without_port(u.host);

                ascii_lower_copy(r->room, host);
                *out = (struct access_line){.method = SLICE_LIT("GET"),
                                            .path = u.path,
                                            .query = u.query,
                                            .host = {r->room, host.len}};
            }
        } else {
            f = access_line_parse(line, r->room, out);
            why = access_fault_texts[f];
        }
        if (f == ACCESS_FAULT_NONE) {
            r->is_fine = r->is_fine || out->time_ms % 1000 != 0;
            r->last_ms = out->time_ms > r->last_ms ? out->time_ms : r->last_ms;
            out->time_ms = r->last_ms;
            return true;
        }
        if (r->first_bad == 0) {
            r->first_bad = r->lines;
            r->bad_why = why;
        }
        ++r->faults[f];
    }
    return false;
}

static uint64_t *due_at(uint64_t *first_ns, size_t stride, size_t i)
{
    return (void *)((char *)first_ns + i * stride);
}

void requests_spread(const struct requests *r, uint64_t *first_ns, size_t stride, size_t n)
{
    uint64_t span_ns = r->is_fine ? 1000000 : 1000000000;

    for (size_t i = 0; i < n;) {
        uint64_t begin_ns = *due_at(first_ns, stride, i);
        size_t end = i;

        while (end < n && *due_at(first_ns, stride, end) == begin_ns)
            ++end;
        for (size_t k = i; k < end; ++k)
            *due_at(first_ns, stride, k) += span_ns * (k - i) / (end - i);
        i = end;
    }
}

size_t requests_bad(const struct requests *r)
{
    size_t n = 0;

    for (size_t i = 0; i < ACCESS_FAULTS; ++i)
        n += r->faults[i];
    return n;
}

void requests_print_bad(const struct requests *r, struct text *out)
{
    size_t n = requests_bad(r);

    if (n != 0)
        text_addf(out, "%zu of %zu lines skipped; the first, line %zu: %s\n", n, r->lines,
                  r->first_bad, r->bad_why);
}
