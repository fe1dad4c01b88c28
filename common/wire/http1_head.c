/* SPDX-License-Identifier: Apache-2.0
 *
 * A response head is read once, from front to back, one line at a time:
 *
 *     status line -> header line ... header line -> blank line -> framing
 *
 * Many bytes are examined at once (http1_bytes.h), because this code runs for every response. Where
 * RFC 9112 allows a recipient to be lenient (bare LF, folded lines, blanks before a colon), this
 * parser is strict: another recipient on the path that interprets the bytes differently would see
 * another message.
 */
#include "common/wire/http1_head.h"
#include "common/base/nocase.h"
#include "common/base/text.h"
#include "common/wire/http1_bytes.h"

enum {
    STATUS_LINE_MIN = 12, /* "HTTP/1.1 200" */
};

/* The input of the framing rules, collected while the header fields are read. */
struct framing_facts {
    bool has_length;
    bool has_coding;
    bool close;
    bool keep_alive;
    bool lists; /* Connection has other options than these */
    uint64_t length;
};

const char *response_fault_text(enum response_fault f)
{
    static const char *const texts[] = {
#define FAULT(name, text) text,
#include "common/wire/response_fault.def"
#undef FAULT
    };

    ASSERT((size_t)f < ARRAY_LEN(texts));
    return texts[f];
}

static enum err refuse(struct http1_head *out, enum response_fault f)
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

        return refuse(out, c == '\r' || c == '\n' ? RESPONSE_FAULT_BARE_LINE_END
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
        return refuse(out, RESPONSE_FAULT_STATUS_LINE);
    if (!is_digit(p[7]) || p[8] != ' ')
        return refuse(out, RESPONSE_FAULT_STATUS_LINE);
    if (p[9] < '1' || p[9] > '9' || !is_digit(p[10]) || !is_digit(p[11]))
        return refuse(out, RESPONSE_FAULT_STATUS_LINE);
    /* RFC 9110 section 2.5: a higher minor version is read as the highest that is known. */
    out->minor_version = p[7] == '0' ? 0 : 1;
    out->status = (p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0');
    out->reason = (struct slice){p + STATUS_LINE_MIN, 0};
    /* Some servers omit the blank after the code without a reason phrase. */
    if (line.len == STATUS_LINE_MIN)
        return ERR_OK;
    if (p[STATUS_LINE_MIN] != ' ')
        return refuse(out, RESPONSE_FAULT_STATUS_LINE);
    out->reason = (struct slice){p + STATUS_LINE_MIN + 1, line.len - STATUS_LINE_MIN - 1};
    return ERR_OK;
}

static enum err note_length(struct slice value, struct framing_facts *f, struct http1_head *out)
{
    uint64_t length;

    if (!http1_parse_length(value, &length))
        return refuse(out, RESPONSE_FAULT_LENGTH);
    if (f->has_length && length != f->length)
        return refuse(out, RESPONSE_FAULT_LENGTHS_DIFFER);
    f->has_length = true;
    f->length = length;
    return ERR_OK;
}

static enum err note_coding(struct slice value, struct framing_facts *f, struct http1_head *out)
{
    /* More than one line, or any coding but this one, and the end of the body is a matter of taste.
     */
    if (f->has_coding)
        return refuse(out, RESPONSE_FAULT_CODING_REPEATED);
    if (!SLICE_IS_WORD(value, "chunked"))
        return refuse(out, RESPONSE_FAULT_CODING);
    f->has_coding = true;
    return ERR_OK;
}

http1_inline_ enum err note_header(struct http1_header *h, struct framing_facts *f,
                                   struct http1_head *out)
{
    /* The three names differ in length. */
    switch (h->name.len) {
    case 10:
        if (!SLICE_IS_WORD(h->name, "connection"))
            break;
        h->kind = FIELD_CONNECTION;
        f->lists |= !http1_note_connection(h->value, &f->close, &f->keep_alive);
        return ERR_OK;
    case 14:
        if (!SLICE_IS_WORD(h->name, "content-length"))
            break;
        h->kind = FIELD_FRAMING;
        return note_length(h->value, f, out);
    case 17:
        if (!SLICE_IS_WORD(h->name, "transfer-encoding"))
            break;
        h->kind = FIELD_HOP;
        return note_coding(h->value, f, out);
    default:
        break;
    }
    h->kind = http_field_kind(h->name);
    return ERR_OK;
}

http1_inline_ enum err parse_headers(struct http1_lines *lines, struct http1_head *out,
                                     struct framing_facts *f)
{
    struct http1_header *h = out->headers;

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
        if (!http1_lines_field(lines, line, &h->name, &h->value))
            return refuse(out, RESPONSE_FAULT_HEADER);
        e = note_header(h, f, out);
        if (e != ERR_OK)
            return e;
    }
    out->nheaders = (size_t)(h - out->headers);
    return ERR_OK;
}

/*
 * RFC 9112 section 6.3. A transfer coding overrides a length; but a sender of both may mean another
 * framing, so the connection is not reused. A transfer coding in HTTP/1.0 is rejected (section
 * 6.1), because a sender of that version may have forwarded it without understanding it.
 */
static enum err decide_framing(const struct framing_facts *f, bool is_head, struct http1_head *out)
{
    if (f->has_coding && out->minor_version == 0)
        return refuse(out, RESPONSE_FAULT_CODING_TOO_OLD);
    out->connection_lists = f->lists;
    out->content_length = f->has_length && !f->has_coding ? f->length : UINT64_MAX;
    out->keep_alive = out->minor_version == 1 ? !f->close : f->keep_alive && !f->close;
    if (f->has_coding && f->has_length)
        out->keep_alive = false;
    if (is_head || out->status < 200 || out->status == 204 || out->status == 304) {
        out->framing = HTTP1_BODY_NONE;
        /* A 204 or 1xx that announces a body may be followed by one: do not reuse
         * the connection. */
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
    struct slice line;
    enum err e = take_line(&lines, &line, out);

    if (e == ERR_OK)
        e = parse_status_line(line, out);
    if (e == ERR_OK)
        e = parse_headers(&lines, out, &facts);
    if (e == ERR_BUSY && bytes.len >= RESPONSE_HEAD_MAX) {
        out->fault = RESPONSE_FAULT_HEADERS_TOO_LARGE;
        return ERR_TOO_LARGE;
    }
    if (e != ERR_OK)
        return e;
    out->bytes = (size_t)(lines.at - bytes.p);
    return decide_framing(&facts, is_head, out);
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
