/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/http2_uploads.h"

#include <stdlib.h>

enum {
    PREFACE_BYTES = 24, /* RFC 9113 section 3.4 */
    HEAD_BYTES = 9,
};

/* RFC 9113 section 6. */
enum { TYPE_DATA = 0, TYPE_HEADERS = 1, TYPE_RST_STREAM = 3, TYPE_CONTINUATION = 9 };
enum { FLAG_END_STREAM = 1, FLAG_END_HEADERS = 4 };

static uint32_t stream_of(const unsigned char *head)
{
    return ((uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8]) &
           0x7fffffff;
}

static struct http2_upload *find(const struct http2_uploads *u, uint32_t stream)
{
    for (size_t i = 0; i < u->n; ++i) {
        if (u->items[i].stream == stream)
            return &u->items[i];
    }
    return NULL;
}

void http2_uploads_drop(struct http2_uploads *u, size_t i)
{
    ASSERT(i < u->n);
    u->items[i] = u->items[--u->n];
}

static void end(struct http2_uploads *u, uint32_t stream)
{
    const struct http2_upload *up = find(u, stream);

    if (up != NULL)
        http2_uploads_drop(u, (size_t)(up - u->items));
}

static void begin(struct http2_uploads *u, uint32_t stream, uint64_t now_ms)
{
    if (u->n == HTTP2_UPLOADS_MAX)
        return;
    if (u->items == NULL)
        u->items = xcalloc(HTTP2_UPLOADS_MAX, sizeof(*u->items));
    u->items[u->n++] = (struct http2_upload){.stream = stream, .begun_ms = now_ms};
}

static void on_headers(struct http2_uploads *u, uint64_t now_ms)
{
    uint32_t stream = stream_of(u->head);
    bool ends = (u->head[4] & FLAG_END_STREAM) != 0;

    if (stream > u->last_stream) {
        u->last_stream = stream;
        if (!ends)
            begin(u, stream, now_ms);
    } else if (ends) {
        end(u, stream); /* trailers */
    }
}

/* The present frame is complete. */
static void on_frame(struct http2_uploads *u, uint64_t now_ms)
{
    unsigned type = u->head[3];
    unsigned flags = u->head[4];

    if (type == TYPE_HEADERS)
        on_headers(u, now_ms);
    else if (type == TYPE_RST_STREAM || (type == TYPE_DATA && (flags & FLAG_END_STREAM) != 0))
        end(u, stream_of(u->head));
    if (type == TYPE_HEADERS || type == TYPE_CONTINUATION)
        u->in_block = (flags & FLAG_END_HEADERS) == 0;
    u->head_bytes = 0;
}

static void on_payload(struct http2_uploads *u, size_t n)
{
    struct http2_upload *up = u->head[3] == TYPE_DATA ? find(u, stream_of(u->head)) : NULL;

    if (up != NULL)
        up->bytes += n;
    u->left -= n;
}

void http2_uploads_follow(struct http2_uploads *u, struct slice bytes, uint64_t now_ms)
{
    size_t i = PREFACE_BYTES - u->preface_bytes;

    i = i < bytes.len ? i : bytes.len;
    u->preface_bytes += (unsigned)i;
    while (i < bytes.len) {
        if (u->head_bytes < HEAD_BYTES) {
            u->head[u->head_bytes++] = (unsigned char)bytes.p[i++];
            if (u->head_bytes == HEAD_BYTES)
                u->left = (size_t)u->head[0] << 16 | (size_t)u->head[1] << 8 | u->head[2];
        } else {
            size_t n = bytes.len - i < u->left ? bytes.len - i : u->left;
            on_payload(u, n);
            i += n;
        }
        if (u->head_bytes == HEAD_BYTES && u->left == 0)
            on_frame(u, now_ms);
    }
}

bool http2_uploads_between_frames(const struct http2_uploads *u)
{
    return u->preface_bytes == PREFACE_BYTES && u->head_bytes == 0 && !u->in_block;
}

void http2_uploads_fini(struct http2_uploads *u)
{
    free(u->items);
    u->items = NULL;
    u->n = 0;
}
