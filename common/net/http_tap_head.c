/* SPDX-License-Identifier: Apache-2.0
 *
 * The heads of HTTP/1 requests, as they come in: where each ends, what it says, and what is kept
 * of that while its body is on the way. The whole head is at the start of the socket's input.
 */
#include "common/net/http_conn.h"

static struct slice input_span(const struct http_conn *c, struct tap_span s)
{
    return (struct slice){c->sock->input->bytes + s.at, s.len};
}

/*
 * Look for the end of the head among the bytes not yet scanned: true when it is there. A head that
 * is too large, or has a line end of its own kind, need not be whole to be refused.
 */
static bool find_head_end(struct http_conn *c, enum request_fault *f)
{
    struct http_tap *t = &c->tap;
    const char *p = c->sock->input->bytes;
    size_t size = c->sock->input->size;

    while (t->scanned < size) {
        const char *lf = memchr(p + t->scanned, '\n', size - t->scanned);
        if (lf == NULL)
            break;
        size_t at = (size_t)(lf - p);
        t->scanned = (uint32_t)at + 1;
        /* One empty line may stand before the request. */
        if (at == 1 && p[0] == '\r')
            continue;
        if (at < 2 || p[at - 1] != '\r')
            *f = at == 0 || (p[0] == '\r' && p[1] != '\n') ? FAULT_BLANK_LINE : FAULT_BARE_LINE_END;
        else if (p[at - 2] == '\n')
            return true;
        else
            *f = http_check_sizes(c, at, t->lines++);
        if (*f != FAULT_NONE)
            return false;
    }
    t->scanned = (uint32_t)size;
    *f = http_check_sizes(c, size, 0);
    return false;
}

static bool head_fills_input(const struct http_conn *c)
{
    const h2o_buffer_t *in = c->sock->input;

    return in->size >= 4 && memcmp(in->bytes + in->size - 4, "\r\n\r\n", 4) == 0;
}

static struct tap_span span_of(const struct http_conn *c, struct slice s)
{
    return s.p != NULL ? (struct tap_span){(uint32_t)(s.p - c->sock->input->bytes), (uint32_t)s.len}
                       : (struct tap_span){0, 0};
}

static void keep_head(struct http_conn *c, const struct http1_request_facts *facts)
{
    struct http_tap *t = &c->tap;

    t->head_known = true;
    t->head_bytes = (uint32_t)facts->bytes;
    t->nheaders = (uint32_t)facts->nheaders;
    t->keep_alive = facts->keep_alive;
    t->method = span_of(c, facts->method);
    t->target = span_of(c, facts->target);
    t->host = span_of(c, facts->host);
    t->left = facts->content_length;
    if (facts->chunked) {
        t->chunks = (struct request_chunks){0};
        t->state = TAP_CHUNKED;
    } else if (t->left != 0) {
        t->state = TAP_LENGTH;
    }
}

static struct http1_request_facts kept_head(const struct http_conn *c)
{
    const struct http_tap *t = &c->tap;

    return (struct http1_request_facts){
        .bytes = t->head_bytes,
        .nheaders = t->nheaders,
        .keep_alive = t->keep_alive,
        .method = input_span(c, t->method),
        .target = input_span(c, t->target),
        .host = t->host.at != 0 ? input_span(c, t->host) : SLICE_NULL,
    };
}

bool http_tap_head(const struct http_conn *c, struct http1_request_facts *out)
{
    if (!c->tap.head_known || c->tap.state != TAP_HEAD)
        return false;
    *out = kept_head(c);
    return true;
}

/* Refuse a head that is not whole yet, or not fit to be read on. */
static rare bool refuse_head(struct http_conn *c, enum request_fault f)
{
    struct http1_request_facts facts;
    /* For what it says of the request line. */
    enum request_fault unused =
        http1_request_check((struct slice){c->sock->input->bytes, c->sock->input->size}, &facts);

    (void)unused;
    http_tap_refuse_for(c, f, &facts);
    return false;
}

void http_tap_refuse(struct http_conn *c, enum request_fault f)
{
    if (c->tap.state == TAP_HEAD) {
        (void)refuse_head(c, f);
        return;
    }
    ASSERT(c->tap.state == TAP_LENGTH || c->tap.state == TAP_CHUNKED);
    struct http1_request_facts facts = kept_head(c);
    http_tap_refuse_for(c, f, &facts);
}

/* What libh2o would read otherwise than we. */
static apart void dress_for_library(struct http_conn *c, const struct http1_request_facts *facts)
{
    if (facts->padded)
        http1_request_straighten(c->sock->input->bytes, facts->bytes);
    if (facts->minor_version == 0)
        http1_request_forget_expect(c->sock->input->bytes, facts->bytes);
}

bool http_tap_take_head(struct http_conn *c, size_t fresh, size_t *rest)
{
    struct http_head_read *h = &c->server->head;
    struct http1_request_facts *facts = &h->facts;
    enum request_fault f = FAULT_NONE;
    struct http_tap *t = &c->tap;

    if (t->scanned == 0) {
        t->head_known = false;
        t->brief = false;
        t->lines = 0;
        /* libh2o still waits for the rest of a request that was whole to us. */
        if (c->sock->input->size != fresh)
            return refuse_head(c, FAULT_REQUEST_LINE);
    }
    *rest = 0;
    if (!head_fills_input(c) && !find_head_end(c, &f))
        return f == FAULT_NONE || refuse_head(c, f);
    h->conn = c;
    f = http1_request_read((struct slice){c->sock->input->bytes, c->sock->input->size}, facts,
                           h->fields, ARRAY_LEN(h->fields));
    if (f == FAULT_NONE)
        f = http_check_sizes(c, facts->bytes, facts->nheaders);
    if (f == FAULT_NONE)
        f = http_check_body(c, facts->content_length);
    if (f != FAULT_NONE) {
        http_tap_refuse_for(c, f, facts);
        return false;
    }
    keep_head(c, facts);
    t->scanned = 0;
    *rest = c->sock->input->size - facts->bytes;
    t->brief = http_short_fits(c, facts);
    if (!t->brief)
        dress_for_library(c, facts);
    return true;
}
