/* SPDX-License-Identifier: Apache-2.0
 *
 * A head is read once, from front to back, one line at a time:
 *
 *     status or request line -> header line ... header line -> blank line -> framing
 *
 * Many bytes are examined at once (http1_bytes.h), because this code runs for every message. Where
 * RFC 9112 allows a recipient to be lenient (bare LF, folded lines), these parsers are strict:
 * another recipient on the path that interprets the bytes differently would see another message.
 * Each line must end in CRLF with no other control character but HTAB in it.
 */
#include "common/wire/http1_head.h"
#include "common/base/bytes.h"
#include "common/wire/http1_bytes.h"

#include <ctype.h>
#include <netinet/in.h>

/* ---- responses ---- */

enum {
    STATUS_LINE_MIN = 12, /* "HTTP/1.1 200" */
};

/* The input of the framing rules, collected while the header fields are read. */
struct framing_facts {
    bool has_length;
    bool has_coding;
    uint64_t length;
};

/*
 * RFC 9110 section 7.6.1: of the N FIELDS, those that Connection lists belong to the connection,
 * except for the kinds in KEPT. One pass; http1_note_options() has bounded the list.
 */
static noinline_ void mark_listed(const struct http1_options *o, struct message_field *fields,
                                  size_t n, uint32_t kept)
{
    for (size_t i = 0; i < n; ++i) {
        if ((FIELD_BIT(fields[i].kind) & kept) == 0 && http1_options_have(o, fields[i].name))
            fields[i].kind = FIELD_HOP;
    }
}

const char *response_fault_text(enum response_fault f)
{
    static const char *const texts[] = {
#define FAULT(name, text) text,
#include "common/wire/response_fault.def"
    };

    ASSERT((size_t)f < ARRAY_LEN(texts));
    return texts[f];
}

static enum err head_reject(struct http1_head *out, enum response_fault f)
{
    out->fault = f;
    return ERR_SYNTAX;
}

/* ERR_BUSY: the line is not whole yet. */
http1_inline_ enum err take_line(struct http1_lines *lines, struct slice *line,
                                 struct http1_head *out)
{
    switch (http1_lines_take(lines, line)) {
    case HTTP1_LINE:
        return ERR_OK;
    case HTTP1_LINE_CUT:
        return ERR_BUSY;
    case HTTP1_LINE_BAD: {
        char c = lines->block[(unsigned)__builtin_ctzll(lines->marks)];

        return head_reject(out, c == '\r' || c == '\n' ? RESPONSE_FAULT_BARE_LINE_END
                                                       : RESPONSE_FAULT_CONTROL);
    }
    }
    UNREACHABLE();
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

http1_inline_ enum err parse_status_line(struct slice line, struct http1_head *out)
{
    const char *p = line.p;

    if (line.len < STATUS_LINE_MIN || memcmp(p, "HTTP/1.", 7) != 0)
        return head_reject(out, RESPONSE_FAULT_STATUS_LINE);
    if (!is_digit(p[7]) || p[8] != ' ')
        return head_reject(out, RESPONSE_FAULT_STATUS_LINE);
    if (p[9] < '1' || p[9] > '9' || !is_digit(p[10]) || !is_digit(p[11]))
        return head_reject(out, RESPONSE_FAULT_STATUS_LINE);
    /* RFC 9110 section 2.5: a higher minor version is read as the highest that is known. */
    out->minor_version = p[7] == '0' ? 0 : 1;
    out->status = (p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0');
    out->reason = (struct slice){p + STATUS_LINE_MIN, 0};
    /* Some servers omit the blank after the code without a reason phrase. */
    if (line.len == STATUS_LINE_MIN)
        return ERR_OK;
    if (p[STATUS_LINE_MIN] != ' ')
        return head_reject(out, RESPONSE_FAULT_STATUS_LINE);
    out->reason = (struct slice){p + STATUS_LINE_MIN + 1, line.len - STATUS_LINE_MIN - 1};
    return ERR_OK;
}

http1_inline_ enum err note_header(struct message_field *h, struct framing_facts *f,
                                   struct http1_options *o, struct http1_head *out)
{
    uint64_t length;

    /* The three names differ in length. */
    switch (h->name.len) {
    case 10:
        if (!SLICE_IS_WORD(h->name, "connection"))
            break;
        h->kind = FIELD_CONNECTION;
        if (!http1_note_connection(h->value, o))
            return head_reject(out, RESPONSE_FAULT_CONNECTION);
        return ERR_OK;
    case 14:
        if (!SLICE_IS_WORD(h->name, "content-length"))
            break;
        h->kind = FIELD_FRAMING;
        if (!parse_u64(h->value, INT64_MAX, &length))
            return head_reject(out, RESPONSE_FAULT_LENGTH);
        if (f->has_length && length != f->length)
            return head_reject(out, RESPONSE_FAULT_LENGTHS_DIFFER);
        f->has_length = true;
        f->length = length;
        return ERR_OK;
    case 17:
        if (!SLICE_IS_WORD(h->name, "transfer-encoding"))
            break;
        h->kind = FIELD_HOP;
        /* With several lines or another coding, recipients disagree on where the body ends. */
        if (f->has_coding)
            return head_reject(out, RESPONSE_FAULT_CODING_REPEATED);
        if (!SLICE_IS_WORD(h->value, "chunked"))
            return head_reject(out, RESPONSE_FAULT_CODING);
        f->has_coding = true;
        return ERR_OK;
    default:
        break;
    }
    h->kind = http_field_kind(h->name);
    return ERR_OK;
}

/* Splits LINE, which http1_lines_field() rejects. RFC 9112 section 5.1: blanks before the colon are
 * removed from a response, while a request that has them is rejected. */
static cold_ bool split_padded(struct slice line, struct slice *name, struct slice *value)
{
    struct slice rest = line;

    *name = slice_cut(&rest, ':');
    while (name->len != 0 && http1_is_blank(name->p[name->len - 1]))
        --name->len;
    *value = slice_trim(rest);
    return rest.p != NULL && http1_is_token(*name);
}

http1_inline_ enum err parse_headers(struct http1_lines *lines, struct http1_head *out,
                                     struct framing_facts *f, struct http1_options *o)
{
    struct message_field *h = out->headers;

    for (;; ++h) {
        struct slice line;
        enum err e = take_line(lines, &line, out);
        if (e != ERR_OK)
            return e;
        if (line.len == 0)
            break;
        if (h == out->headers + RESPONSE_HEADERS_MAX) {
            out->fault = RESPONSE_FAULT_HEADERS_TOO_MANY;
            return ERR_TOO_LARGE;
        }
        if (!http1_lines_field(lines, line, &h->name, &h->value) &&
            !split_padded(line, &h->name, &h->value))
            return head_reject(out, RESPONSE_FAULT_HEADER);
        e = note_header(h, f, o, out);
        if (e != ERR_OK)
            return e;
    }
    out->nheaders = (size_t)(h - out->headers);
    if (o->n != 0)
        mark_listed(o, out->headers, out->nheaders,
                    FIELD_BIT(FIELD_FRAMING) | FIELD_BIT(FIELD_CONNECTION));
    return ERR_OK;
}

/*
 * RFC 9112 section 6.3. A transfer coding overrides a length; but a sender of both may mean another
 * framing, so the connection is not reused. A transfer coding in HTTP/1.0 is rejected (section
 * 6.1), because a sender of that version may have forwarded it without understanding it.
 */
static enum err decide_framing(const struct framing_facts *f, const struct http1_options *o,
                               bool is_head, struct http1_head *out)
{
    if (f->has_coding && out->minor_version == 0)
        return head_reject(out, RESPONSE_FAULT_CODING_TOO_OLD);
    out->content_length = f->has_length && !f->has_coding ? f->length : UINT64_MAX;
    out->keep_alive = !o->close && (out->minor_version == 1 || o->keep_alive);
    if (f->has_coding && f->has_length)
        out->keep_alive = false;
    if (is_head || out->status < 200 || out->status == 204 || out->status == 304) {
        out->framing = HTTP1_BODY_NONE;
        /* A 204 or 1xx that announces a body may be followed by one. */
        bool announces = f->has_coding || (f->has_length && f->length != 0);
        if (announces && !is_head && out->status != 304)
            out->keep_alive = false;
    } else if (f->has_coding) {
        out->framing = HTTP1_BODY_CHUNKED;
    } else if (f->has_length) {
        out->framing = f->length != 0 ? HTTP1_BODY_LENGTH : HTTP1_BODY_NONE;
    } else {
        out->framing = HTTP1_BODY_CLOSE;
        out->keep_alive = false;
    }
    return ERR_OK;
}

enum err http1_head_parse(struct slice bytes, bool is_head, struct http1_head *out)
{
    bool cut = bytes.len > RESPONSE_HEAD_MAX;
    struct http1_lines lines =
        http1_lines_of((struct slice){bytes.p, cut ? RESPONSE_HEAD_MAX : bytes.len});
    struct framing_facts facts = {0};
    struct http1_options options;
    struct slice line;

    out->status = 0;
    enum err e = take_line(&lines, &line, out);
    if (e == ERR_OK)
        e = parse_status_line(line, out);
    options.close = options.keep_alive = false;
    options.n = 0;
    if (e == ERR_OK)
        e = parse_headers(&lines, out, &facts, &options);
    if (e == ERR_BUSY && bytes.len >= RESPONSE_HEAD_MAX) {
        out->fault = RESPONSE_FAULT_HEADERS_TOO_LARGE;
        return ERR_TOO_LARGE;
    }
    if (e != ERR_OK)
        return e;
    out->bytes = (size_t)(lines.at - bytes.p);
    return decide_framing(&facts, &options, is_head, out);
}

bool http1_head_switches_to(const struct http1_head *head, struct slice protocol)
{
    bool found = false;

    for (size_t i = 0; i < head->nheaders; ++i) {
        if (!slice_eq_nocase(head->headers[i].name, SLICE_LIT("upgrade")))
            continue;
        if (!slice_eq_nocase(head->headers[i].value, protocol))
            return false;
        found = true;
    }
    return found;
}

/* ---- requests ---- */

static const struct {
    int status;
    const char *text;
} request_faults[FAULT_COUNT] = {
#define FAULT(name, status, text) {status, text},
#include "common/wire/request_fault.def"
};

/* Fields that stay although Connection lists them: a client must not be able to remove what a proxy
 * before it has stated, and the framing is known without them. */
enum {
    KEPT_IN_REQUESTS = FIELD_BIT(FIELD_FRAMING) | FIELD_BIT(FIELD_CONNECTION) |
                       FIELD_BIT(FIELD_OURS) |
                       (FIELD_CLAIMS & ~FIELD_BIT(FIELD_CLIENT_CERTIFICATE)),
};

/* What is needed while the fields are read. */
struct head_reading {
    struct message_field *fields, *until; /* space for further fields */
    struct http1_options options;
};

const char *request_fault_text(enum request_fault f)
{
    ASSERT((size_t)f < FAULT_COUNT);
    return request_faults[f].text;
}

int request_fault_status(enum request_fault f)
{
    ASSERT((size_t)f < FAULT_COUNT);
    return request_faults[f].status;
}

/* Takes a line without its CRLF. OTHERWISE: the fault if it is cut or has a control character. */
http1_inline_ enum request_fault take_request_line(struct http1_lines *lines,
                                                   enum request_fault otherwise, struct slice *line)
{
    if (http1_lines_take(lines, line) == HTTP1_LINE)
        return FAULT_NONE;
    const char *lf = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
    return lf != NULL && (lf == lines->at || lf[-1] != '\r') ? FAULT_BARE_LINE_END : otherwise;
}

static bool is_target(struct slice s)
{
    return s.len != 0 && http1_scan_target(s) == s.len;
}

/* The part after the first N bytes. */
static struct slice slice_after(struct slice s, size_t n)
{
    return (struct slice){s.p + n, s.len - n};
}

/* The fault of a line in which check_request_line() finds no method and target. */
static cold_ enum request_fault bad_request_line(struct slice line, struct http1_request_facts *out)
{
    struct slice rest = line;

    out->method = slice_cut(&rest, ' ');
    out->target = slice_cut(&rest, ' ');
    if (!http1_is_token(out->method))
        return FAULT_METHOD;
    return is_target(out->target) ? FAULT_REQUEST_LINE : FAULT_TARGET;
}

/* The method and as much of the target as there is of a request line that is incomplete, or that a
 * control byte ends. */
static cold_ void note_cut_line(struct slice rest, struct http1_request_facts *out)
{
    size_t method = http1_token_length(rest);

    if (method == 0 || method == rest.len || rest.p[method] != ' ')
        return;
    out->method = (struct slice){rest.p, method};
    out->target = slice_after(rest, method + 1);
    out->target.len = http1_scan_target(out->target);
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
    /* "HTTP/" DIGIT "." DIGIT */
    struct slice s = slice_after(line, method + length + 2);
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

/* Sets the kind of H, and checks the fields that matter here. */
http1_inline_ enum request_fault check_field(const struct http1_lines *lines,
                                             struct message_field *h, struct head_reading *n,
                                             struct http1_request_facts *out)
{
    struct slice value = h->value;

    h->kind = http_field_kind(h->name);
    switch (h->name.len) {
    case 4:
        if (h->kind != FIELD_FRAMING)
            return FAULT_NONE;
        if (out->host.p != NULL)
            return FAULT_HOST_REPEATED;
        out->host = value;
        if (value.len == 0 || http1_lines_plain_host(lines, value) || http_authority_valid(value))
            return FAULT_NONE;
        return FAULT_AUTHORITY;
    case 6:
        if (!SLICE_IS_WORD(h->name, "expect"))
            return FAULT_NONE;
        out->expects = true;
        /* RFC 9110 section 10.1.1: the only defined expectation; lists of others are not in use. */
        return slice_eq_nocase(value, SLICE_LIT("100-continue")) ? FAULT_NONE : FAULT_EXPECTATION;
    case 7:
        out->upgrades |= SLICE_IS_WORD(h->name, "upgrade");
        return FAULT_NONE;
    case 10:
        if (h->kind == FIELD_CONNECTION && !http1_note_connection(value, &n->options))
            return FAULT_CONNECTION;
        return FAULT_NONE;
    case 14:
        if (h->kind != FIELD_FRAMING)
            return FAULT_NONE;
        if (out->has_length)
            return FAULT_LENGTH_REPEATED;
        out->has_length = true;
        return parse_u64(value, INT64_MAX, &out->content_length) ? FAULT_NONE : FAULT_LENGTH;
    case 17:
        if (!SLICE_IS_WORD(h->name, "transfer-encoding"))
            return FAULT_NONE;
        if (out->chunked)
            return FAULT_CODING_REPEATED;
        out->chunked = true;
        return slice_eq_nocase(value, SLICE_LIT("chunked")) ? FAULT_NONE : FAULT_CODING;
    default:
        return FAULT_NONE;
    }
}

http1_inline_ enum request_fault check_headers(struct http1_lines *lines, struct head_reading *n,
                                               struct http1_request_facts *out)
{
    for (;;) {
        struct message_field beyond;
        struct slice line;
        enum request_fault f = take_request_line(lines, FAULT_HEADER, &line);

        if (f != FAULT_NONE || line.len == 0)
            return f;
        struct message_field *h = n->fields < n->until ? n->fields++ : &beyond;

        ++out->nheaders;
        if (!http1_lines_field(lines, line, &h->name, &h->value))
            return FAULT_HEADER;
        f = check_field(lines, h, n, out);
        if (f != FAULT_NONE)
            return f;
    }
}

enum request_fault http1_request_read(struct slice bytes, struct http1_request_facts *out,
                                      struct message_field *fields, size_t max)
{
    /* RFC 9112 section 2.2: some clients end a body with one line end too many. */
    bool blank = bytes.len >= 2 && memcmp(bytes.p, "\r\n", 2) == 0;
    struct slice rest = blank ? slice_after(bytes, 2) : bytes;
    struct head_reading n;
    const struct http1_options *o = &n.options;
    struct slice line;

    n.fields = fields;
    n.until = fields != NULL ? fields + max : NULL;
    n.options.close = n.options.keep_alive = false;
    n.options.n = 0;
    *out = (struct http1_request_facts){0};
    if (rest.len != 0 && (rest.p[0] == '\r' || rest.p[0] == '\n'))
        return FAULT_BLANK_LINE;
    struct http1_lines lines = http1_lines_of(rest);
    enum request_fault f = take_request_line(&lines, FAULT_REQUEST_LINE, &line);
    if (f == FAULT_NONE)
        f = check_request_line(&lines, line, out);
    else
        note_cut_line(rest, out);
    if (f == FAULT_NONE) {
        f = check_headers(&lines, &n, out);
        out->bytes = (size_t)(lines.at - bytes.p);
    }
    out->keep_alive = !o->close && (o->keep_alive || out->minor_version != 0);
    if (f != FAULT_NONE)
        return f;
    /* Section 7.8 of RFC 9110: Upgrade counts if Connection lists it. */
    out->upgrades = out->upgrades && http1_options_have(o, SLICE_LIT("upgrade"));
    if (o->n != 0)
        mark_listed(o, fields, (size_t)(n.fields - fields), KEPT_IN_REQUESTS);
    if (out->has_length && out->chunked)
        return FAULT_LENGTH_AND_CODING;
    if (out->chunked && out->minor_version == 0)
        return FAULT_CODING_TOO_OLD;
    if (out->host.p == NULL && out->minor_version != 0)
        return FAULT_HOST_MISSING;
    /* RFC 9110 4.2.1. An absolute target has a host of its own; "*" is for this server. */
    if (out->host.p != NULL && out->host.len == 0 && out->target.p[0] == '/')
        return FAULT_AUTHORITY;
    return FAULT_NONE;
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

static bool port_valid(struct slice port)
{
    uint64_t number;

    return port.len == 0 ||
           (port.p[0] == ':' &&
            (port.len == 1 || parse_u64((struct slice){port.p + 1, port.len - 1}, 65535, &number)));
}

bool http_authority_valid(struct slice authority)
{
    const unsigned char *p = (const unsigned char *)authority.p;
    size_t end = 0;

    if (authority.len != 0 && authority.p[0] == '[') {
        struct in6_addr unused;

        end = slice_find(authority, ']');
        /* No zone: it means something on one machine only. */
        return end != SIZE_MAX && port_valid(slice_after(authority, end + 1)) &&
               parse_ip((struct slice){authority.p + 1, end - 1}, AF_INET6, &unused);
    }
    while (authority.len - end >= 4 && host_bytes[p[end]] & host_bytes[p[end + 1]] &
                                           host_bytes[p[end + 2]] & host_bytes[p[end + 3]])
        end += 4;
    while (end < authority.len &&
           (host_bytes[p[end]] || (p[end] == '%' && is_encoded_byte(authority, end))))
        ++end;
    return end != 0 && port_valid(slice_after(authority, end));
}

bool http_target_split(struct slice target, struct slice *authority, struct slice *path)
{
    static const struct slice schemes[] = {{"http://", 7}, {"https://", 8}};

    for (size_t i = 0; i < ARRAY_LEN(schemes); ++i) {
        size_t end = schemes[i].len;

        if (target.len < end || !slice_eq_nocase((struct slice){target.p, end}, schemes[i]))
            continue;
        while (end < target.len && target.p[end] != '/' && target.p[end] != '?')
            ++end;
        *authority = (struct slice){target.p + schemes[i].len, end - schemes[i].len};
        *path = slice_after(target, end);
        return http_authority_valid(*authority);
    }
    return false;
}
