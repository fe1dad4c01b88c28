/* SPDX-License-Identifier: Apache-2.0
 *
 * Read line by line. Each line must end in CRLF with no other control character but HTAB in it,
 * so no later reader can see a line end where this parser sees none.
 */
#include "common/wire/http1_request.h"
#include "common/base/nocase.h"
#include "common/base/text.h"
#include "common/wire/http1_bytes.h"
#include "common/wire/http1_head.h"
#include "common/wire/http1_lines.h"

#include <arpa/inet.h>
#include <ctype.h>

static const struct {
    int status;
    const char *text;
} faults[FAULT_COUNT] = {
#define FAULT(name, status, text) {status, text},
#include "common/wire/request_fault.def"
#undef FAULT
};

/* Counts of the fields that determine where the request ends and which host it is for. */
struct head_counts {
    unsigned lengths;
    unsigned codings;
    unsigned hosts;
    bool close, keep_alive;              /* from Connection */
    struct http1_header *fields, *until; /* space for further fields */
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

/* Returns the reason why BYTES do not begin with a valid line. */
static enum request_fault bad_line(struct slice bytes, enum request_fault otherwise)
{
    const char *lf = bytes.len != 0 ? memchr(bytes.p, '\n', bytes.len) : NULL;

    return lf != NULL && (lf == bytes.p || lf[-1] != '\r') ? FAULT_BARE_LINE_END : otherwise;
}

/* One line without its CRLF. OTHERWISE: what a line that is not whole counts as. */
http1_inline_ enum request_fault take_line(struct http1_lines *lines, enum request_fault otherwise,
                                           struct slice *line)
{
    if (http1_lines_take(lines, line) == HTTP1_LINE)
        return FAULT_NONE;
    return bad_line((struct slice){lines->at, (size_t)(lines->end - lines->at)}, otherwise);
}

static bool is_target(struct slice s)
{
    return s.len != 0 && http1_scan_target(s) == s.len;
}

/* "HTTP/" DIGIT "." DIGIT */
static enum request_fault check_version(struct slice s, struct http1_request_facts *out)
{
    if (s.len != 8)
        return FAULT_REQUEST_LINE;
    if (memcmp(s.p, "HTTP/1.1", 8) == 0) {
        out->minor_version = 1;
        return FAULT_NONE;
    }
    if (memcmp(s.p, "HTTP/", 5) != 0 || s.p[6] != '.')
        return FAULT_REQUEST_LINE;
    if (s.p[5] < '1' || s.p[5] > '9' || s.p[7] < '0' || s.p[7] > '9')
        return FAULT_REQUEST_LINE;
    if (s.p[5] != '1')
        return FAULT_VERSION;
    out->minor_version = s.p[7] - '0';
    return FAULT_NONE;
}

/* The part after the first N bytes. */
static struct slice behind(struct slice s, size_t n)
{
    return (struct slice){s.p + n, s.len - n};
}

/* Why a line is none that check_request_line takes at once. */
static cold_ enum request_fault bad_request_line(struct slice line, struct http1_request_facts *out)
{
    struct slice rest = line;

    out->method = slice_cut(&rest, ' ');
    out->target = slice_cut(&rest, ' ');
    if (!http1_is_token(out->method))
        return FAULT_METHOD;
    return is_target(out->target) ? FAULT_REQUEST_LINE : FAULT_TARGET;
}

/* method SP target SP version */
http1_inline_ enum request_fault check_request_line(const struct http1_lines *lines,
                                                    struct slice line,
                                                    struct http1_request_facts *out)
{
    size_t method = http1_lines_word(lines, line.p);

    if (line.p[method] != ' ')
        method = http1_token_length_bytes(line, method);
    if (method == 0 || line.p[method] != ' ')
        return bad_request_line(line, out);
    /* The valid bytes of a target end at the CR at the latest. */
    const char *target = line.p + method + 1;
    size_t length = http1_scan_target((struct slice){target, (size_t)(lines->end - target)});
    if (length == 0 || target[length] != ' ')
        return bad_request_line(line, out);
    out->method = (struct slice){line.p, method};
    out->target = (struct slice){target, length};
    return check_version(behind(line, method + length + 2), out);
}

static enum request_fault note_length(struct slice value, struct head_counts *n,
                                      struct http1_request_facts *out)
{
    out->has_length = true;
    if (n->lengths++ != 0)
        return FAULT_LENGTH_REPEATED;
    return http1_parse_length(value, &out->content_length) ? FAULT_NONE : FAULT_LENGTH;
}

static enum request_fault note_coding(struct slice value, struct head_counts *n,
                                      struct http1_request_facts *out)
{
    out->chunked = true;
    if (n->codings++ != 0)
        return FAULT_CODING_REPEATED;
    return slice_eq_nocase(value, SLICE_LIT("chunked")) ? FAULT_NONE : FAULT_CODING;
}

static enum request_fault note_host(const struct http1_lines *lines, struct slice value,
                                    struct head_counts *n, struct http1_request_facts *out)
{
    if (n->hosts++ != 0)
        return FAULT_HOST_REPEATED;
    out->host = value;
    if (value.len == 0 || http1_lines_plain_host(lines, value) || http_authority_valid(value))
        return FAULT_NONE;
    return FAULT_AUTHORITY;
}

/* RFC 9110 section 10.1.1: the only defined expectation; lists of others are not in use. */
static enum request_fault check_expectation(struct slice value, struct http1_request_facts *out)
{
    out->expects = true;
    return slice_eq_nocase(value, SLICE_LIT("100-continue")) ? FAULT_NONE : FAULT_EXPECTATION;
}

/* Sets the kind of H, and checks the fields that matter here. */
http1_inline_ enum request_fault check_field(const struct http1_lines *lines,
                                             struct http1_header *h, struct head_counts *n,
                                             struct http1_request_facts *out)
{
    h->kind = http_field_kind(h->name);
    switch (h->name.len) {
    case 4:
        return h->kind == FIELD_FRAMING ? note_host(lines, h->value, n, out) : FAULT_NONE;
    case 6:
        return SLICE_IS_WORD(h->name, "expect") ? check_expectation(h->value, out) : FAULT_NONE;
    case 7:
        out->upgrades |= SLICE_IS_WORD(h->name, "upgrade");
        return FAULT_NONE;
    case 10:
        if (h->kind == FIELD_CONNECTION)
            http1_note_connection(h->value, &n->close, &n->keep_alive);
        return FAULT_NONE;
    case 14:
        return h->kind == FIELD_FRAMING ? note_length(h->value, n, out) : FAULT_NONE;
    case 17:
        return SLICE_IS_WORD(h->name, "transfer-encoding") ? note_coding(h->value, n, out)
                                                           : FAULT_NONE;
    default:
        return FAULT_NONE;
    }
}

http1_inline_ enum request_fault check_header(const struct http1_lines *lines, struct slice line,
                                              struct head_counts *n,
                                              struct http1_request_facts *out)
{
    struct http1_header beyond;
    struct http1_header *h = n->fields < n->until ? n->fields++ : &beyond;

    ++out->nheaders;
    if (!http1_lines_field(lines, line, &h->name, &h->value))
        return FAULT_HEADER;
    return check_field(lines, h, n, out);
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
    /* An empty host is invalid (RFC 9110 4.2.1). An absolute target has a host of its own; "*" is
     * for this server. */
    if (n->hosts != 0 && facts->host.len == 0 && facts->target.p[0] == '/')
        return FAULT_AUTHORITY;
    return FAULT_NONE;
}

http1_inline_ enum request_fault check_headers(struct http1_lines *lines, struct head_counts *n,
                                               struct http1_request_facts *out)
{
    for (;;) {
        struct slice line;
        enum request_fault f = take_line(lines, FAULT_HEADER, &line);

        if (f != FAULT_NONE || line.len == 0)
            return f;
        f = check_header(lines, line, n, out);
        if (f != FAULT_NONE)
            return f;
    }
}

enum request_fault http1_request_check(struct slice bytes, struct http1_request_facts *out)
{
    return http1_request_read(bytes, out, NULL, 0);
}

enum request_fault http1_request_read(struct slice bytes, struct http1_request_facts *out,
                                      struct http1_header *fields, size_t max)
{
    struct slice rest = bytes;
    struct head_counts n = {.fields = fields, .until = fields != NULL ? fields + max : NULL};
    struct slice line;

    *out = (struct http1_request_facts){0};
    /* RFC 9112 section 2.2: some clients end a body with one line end too many. */
    if (bytes.len >= 2 && memcmp(bytes.p, "\r\n", 2) == 0)
        rest = (struct slice){bytes.p + 2, bytes.len - 2};
    if (rest.len != 0 && (rest.p[0] == '\r' || rest.p[0] == '\n'))
        return FAULT_BLANK_LINE;
    struct http1_lines lines = http1_lines_of(rest);
    enum request_fault f = take_line(&lines, FAULT_REQUEST_LINE, &line);
    if (f == FAULT_NONE)
        f = check_request_line(&lines, line, out);
    if (f == FAULT_NONE) {
        f = check_headers(&lines, &n, out);
        out->bytes = (size_t)(lines.at - bytes.p);
    }
    out->keep_alive = !n.close && (n.keep_alive || out->minor_version != 0);
    return f != FAULT_NONE ? f : check_whole(&n, out);
}

bool http_target_is_path(struct slice target)
{
    return is_target(target) && target.p[0] == '/';
}

/*
 * RFC 3986: the bytes of reg-name and IPv4 addresses. '@' is excluded because it would end user
 * information, ',' because two Host fields that were joined contain it.
 */
static const bool host_bytes[256] = {
    ['0' ... '9'] = true,  ['A' ... 'Z'] = true, ['a' ... 'z'] = true, ['-'] = true, ['.'] = true,
    ['_'] = true,          ['~'] = true,         ['!'] = true,         ['$'] = true, ['&'] = true,
    ['\'' ... '+'] = true, [';'] = true,         ['='] = true,
};

/* Rejects escapes of control characters and blanks, which a recipient that decodes them cannot
 * use or interprets differently. */
static bool is_encoded_byte(struct slice s, size_t at)
{
    if (s.len - at < 3 || !isxdigit((unsigned char)s.p[at + 1]) ||
        !isxdigit((unsigned char)s.p[at + 2]))
        return false;
    bool control = s.p[at + 1] < '2' || (s.p[at + 1] == '2' && s.p[at + 2] == '0');
    return !control && !(s.p[at + 1] == '7' && ascii_lower(s.p[at + 2]) == 'f');
}

/* Returns the number of bytes at the start of S that form a name. */
static size_t host_name_length(struct slice s)
{
    const unsigned char *p = (const unsigned char *)s.p;
    size_t i = 0;

    while (s.len - i >= 4 &&
           host_bytes[p[i]] & host_bytes[p[i + 1]] & host_bytes[p[i + 2]] & host_bytes[p[i + 3]])
        i += 4;
    while (i < s.len && (host_bytes[p[i]] || (p[i] == '%' && is_encoded_byte(s, i))))
        ++i;
    return i;
}

static bool port_valid(struct slice port)
{
    uint64_t number;

    return port.len == 0 ||
           (port.p[0] == ':' &&
            (port.len == 1 || parse_u64((struct slice){port.p + 1, port.len - 1}, 65535, &number)));
}

/* Between the brackets. No zone: it means something on one machine only. */
static bool ipv6_valid(struct slice s)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr addr;

    if (s.len >= sizeof(text) || memchr(s.p, '\0', s.len) != NULL)
        return false;
    memcpy(text, s.p, s.len);
    text[s.len] = '\0';
    return inet_pton(AF_INET6, text, &addr) == 1;
}

bool http_authority_valid(struct slice authority)
{
    if (authority.len != 0 && authority.p[0] == '[') {
        size_t end = slice_find(authority, ']');

        return end != SIZE_MAX && port_valid(behind(authority, end + 1)) &&
               ipv6_valid((struct slice){authority.p + 1, end - 1});
    }
    size_t end = host_name_length(authority);
    return end != 0 && port_valid(behind(authority, end));
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
        return http_authority_valid(*authority);
    }
    return false;
}
