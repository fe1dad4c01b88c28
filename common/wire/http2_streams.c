/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/http2_streams.h"

#include <stdlib.h>

enum { FIRST_ROOM = 4, KEPT_ROOM = 16 /* when none is open any more */ };

struct http2_stream *http2_streams_find(struct http2_streams *s, uint32_t id)
{
    for (size_t i = 0; i < s->nopen; ++i) {
        if (s->open[i].id == id)
            return &s->open[i];
    }
    return NULL;
}

bool http2_streams_waited_for(const struct http2_streams *s, const struct http2_stream *stream)
{
    return !stream->dead && s->is_known(s->context, stream->id);
}

/* Those that the reader has ended by itself, and whose client has not said a word since. */
static void forget_unknown(struct http2_streams *s)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->nopen; ++i) {
        if (http2_streams_waited_for(s, &s->open[i]))
            s->open[kept++] = s->open[i];
    }
    s->nopen = kept;
}

static void make_room(struct http2_streams *s)
{
    if (s->nopen < s->room)
        return;
    s->room = s->room == 0 ? FIRST_ROOM : 2 * s->room;
    s->open = xrealloc(s->open, s->room * sizeof(*s->open));
}

void http2_streams_fini(struct http2_streams *s)
{
    free(s->open);
    s->open = NULL;
    s->room = s->nopen = 0;
}

struct http2_stream *http2_streams_add(struct http2_streams *s, uint32_t id, uint64_t now_ms)
{
    if (s->nopen == HTTP2_OPEN_MAX)
        forget_unknown(s);
    if (s->nopen == HTTP2_OPEN_MAX)
        return NULL;
    make_room(s);
    struct http2_stream *new = &s->open[s->nopen++];
    *new = (struct http2_stream){.id = id, .begun_ms = now_ms};
    return new;
}

void http2_streams_remove(struct http2_streams *s, struct http2_stream *stream)
{
    size_t i = (size_t)(stream - s->open);

    ASSERT(i < s->nopen);
    --s->nopen;
    memmove(stream, stream + 1, (s->nopen - i) * sizeof(*stream));
    if (s->nopen == 0 && s->room > KEPT_ROOM)
        http2_streams_fini(s);
}

bool http2_streams_idle(const struct http2_streams *s, uint32_t id)
{
    return id > s->max_id || (id & 1) == 0;
}

bool http2_streams_busy(const struct http2_streams *s)
{
    for (size_t i = 0; i < s->nopen; ++i) {
        if (http2_streams_waited_for(s, &s->open[i]))
            return true;
    }
    return false;
}
