/* SPDX-License-Identifier: Apache-2.0
 *
 * Read line by line. Each line must end in CRLF with no other control character but HTAB in it,
 * so no reader after us can see a line end where we see none.
 */
#include "common/wire/http1_request.h"
#include "common/base/text.h"
#include "common/wire/http1_bytes.h"

#include <ctype.h>

static const struct {
    int status;
    const char *text;
} faults[FAULT_COUNT] = {
#define FAULT(name, status, text) {status, text},
#include "common/wire/request_fault.def"
#undef FAULT
};

/* How often the fields were met that decide where the request ends and whom it is for. */
struct head_counts {
    unsigned lengths;
    unsigned codings;
    unsigned hosts;
};

const char *request_fault_text(enum request_fault f)
{
    ASSERT((size_t)f < FAULT_COUNT);
    return faults[f].text;
}

int request_fault_status(enum request_fault f)
{
    ASSERT((size_t)f < FAULT_COUNT);
    return faults[f].status;
}

/* One line without its CRLF. OTHERWISE: what a line that is not whole counts as. */
static enum request_fault take_line(struct slice *rest, enum request_fault otherwise,
                                    struct slice *line)
{
    const char *lf = rest->len != 0 ? memchr(rest->p, '\n', rest->len) : NULL;

    if (lf == NULL)
        return otherwise;
    size_t len = (size_t)(lf - rest->p);
    if (len == 0 || lf[-1] != '\r')
        return FAULT_BARE_LINE_END;
    *line = (struct slice){rest->p, len - 1};
    rest->p += len + 1;
    rest->len -= len + 1;
    return http1_is_text(*line) ? FAULT_NONE : otherwise;
}

static bool has_blank_or_control(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        unsigned char c = (unsigned char)s.p[i];
        if (c <= 0x20 || c == 0x7f)
            return true;
    }
    return false;
}

/* method SP target SP "HTTP/1." DIGIT */
static enum request_fault check_request_line(struct slice line, struct http1_request_facts *out)
{
    struct slice rest = line;

    out->method = slice_cut(&rest, ' ');
    out->target = slice_cut(&rest, ' ');
    if (!http1_is_token(out->method))
        return FAULT_METHOD;
    if (out->target.len == 0 || has_blank_or_control(out->target))
        return FAULT_TARGET;
    if (rest.len != 8 || memcmp(rest.p, "HTTP/1.", 7) != 0)
        return FAULT_REQUEST_LINE;
    if (rest.p[7] < '0' || rest.p[7] > '9')
        return FAULT_REQUEST_LINE;
    out->minor_version = rest.p[7] - '0';
    return FAULT_NONE;
}

static enum request_fault note_length(struct slice value, struct head_counts *n,
                                      struct http1_request_facts *out)
{
    if (n->lengths++ != 0)
        return FAULT_LENGTH_REPEATED;
    return parse_u64(value, INT64_MAX, &out->content_length) ? FAULT_NONE : FAULT_LENGTH;
}

static enum request_fault note_coding(struct slice value, struct head_counts *n,
                                      struct http1_request_facts *out)
{
    out->chunked = true;
    if (n->codings++ != 0)
        return FAULT_CODING_REPEATED;
    return slice_eq_nocase(value, SLICE_LIT("chunked")) ? FAULT_NONE : FAULT_CODING;
}

static enum request_fault note_host(struct slice value, struct head_counts *n,
                                    struct http1_request_facts *out)
{
    if (n->hosts++ != 0)
        return FAULT_HOST_REPEATED;
    out->host = value;
    return http_authority_valid(value) ? FAULT_NONE : FAULT_AUTHORITY;
}

/* RFC 9110 section 10.1.1: the only expectation there is, and no list of others has come up. */
static enum request_fault check_expectation(struct slice value)
{
    return slice_eq_nocase(value, SLICE_LIT("100-continue")) ? FAULT_NONE : FAULT_EXPECTATION;
}

static enum request_fault check_header(struct slice line, struct head_counts *n,
                                       struct http1_request_facts *out)
{
    struct slice name;
    struct slice value;

    ++out->nheaders;
    if (!http1_split_header(line, &name, &value))
        return FAULT_HEADER;
    if (name.len == 4 && slice_eq_nocase(name, SLICE_LIT("host")))
        return note_host(value, n, out);
    if (name.len == 6 && slice_eq_nocase(name, SLICE_LIT("expect")))
        return check_expectation(value);
    if (name.len == 14 && slice_eq_nocase(name, SLICE_LIT("content-length")))
        return note_length(value, n, out);
    if (name.len == 17 && slice_eq_nocase(name, SLICE_LIT("transfer-encoding")))
        return note_coding(value, n, out);
    return FAULT_NONE;
}

static enum request_fault check_whole(const struct head_counts *n,
                                      const struct http1_request_facts *facts)
{
    if (n->lengths != 0 && n->codings != 0)
        return FAULT_LENGTH_AND_CODING;
    if (n->codings != 0 && facts->minor_version == 0)
        return FAULT_CODING_TOO_OLD;
    if (n->hosts == 0 && facts->minor_version != 0)
        return FAULT_HOST_MISSING;
    return FAULT_NONE;
}

enum request_fault http1_request_check(struct slice bytes, struct http1_request_facts *out)
{
    struct slice rest = bytes;
    struct head_counts n = {0};
    struct slice line;

    *out = (struct http1_request_facts){0};
    if (bytes.len != 0 && (bytes.p[0] == '\r' || bytes.p[0] == '\n'))
        return FAULT_BLANK_LINE;
    enum request_fault f = take_line(&rest, FAULT_REQUEST_LINE, &line);
    if (f == FAULT_NONE)
        f = check_request_line(line, out);
    while (f == FAULT_NONE) {
        f = take_line(&rest, FAULT_HEADER, &line);
        out->bytes = (size_t)(rest.p - bytes.p);
        if (f != FAULT_NONE || line.len == 0)
            break;
        f = check_header(line, &n, out);
    }
    return f != FAULT_NONE ? f : check_whole(&n, out);
}

bool http_target_is_path(struct slice target)
{
    return target.len != 0 && target.p[0] == '/' && !has_blank_or_control(target);
}

/* RFC 3986: what reg-name, IPv4 and IPv6 literals and a port are made of. '@' would begin a user.
 */
static bool is_host_byte(unsigned char c)
{
    return (c < 0x80 && isalnum(c)) || (c != 0 && strchr("-._~%!$&'()*+,;=:", c) != NULL);
}

static bool port_valid(struct slice port)
{
    uint64_t number;

    return port.len == 0 ||
           (port.p[0] == ':' &&
            (port.len == 1 || parse_u64((struct slice){port.p + 1, port.len - 1}, 65535, &number)));
}

static bool host_bytes_valid(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (!is_host_byte((unsigned char)s.p[i]))
            return false;
    }
    return true;
}

bool http_authority_valid(struct slice authority)
{
    if (authority.len != 0 && authority.p[0] == '[') {
        size_t end = slice_find(authority, ']');
        if (end == SIZE_MAX || end == 1)
            return false;
        struct slice port = {authority.p + end + 1, authority.len - end - 1};
        return host_bytes_valid((struct slice){authority.p + 1, end - 1}) && port_valid(port);
    }
    size_t colon = slice_find(authority, ':');
    size_t host_len = colon == SIZE_MAX ? authority.len : colon;
    struct slice port = {authority.p + host_len, authority.len - host_len};
    if (host_len == 0 && port.len != 0)
        return false;
    return host_bytes_valid((struct slice){authority.p, host_len}) && port_valid(port);
}

bool http_target_split(struct slice target, struct slice *authority, struct slice *path)
{
    static const struct slice schemes[] = {{"http://", 7}, {"https://", 8}};

    for (size_t i = 0; i < ARRAY_LEN(schemes); ++i) {
        struct slice head = {target.p, schemes[i].len};
        if (target.len < schemes[i].len || !slice_eq_nocase(head, schemes[i]))
            continue;
        struct slice rest = {target.p + head.len, target.len - head.len};
        size_t end = 0;
        while (end < rest.len && rest.p[end] != '/' && rest.p[end] != '?')
            ++end;
        *authority = (struct slice){rest.p, end};
        *path = (struct slice){rest.p + end, rest.len - end};
        return end != 0 && http_authority_valid(*authority);
    }
    return false;
}
