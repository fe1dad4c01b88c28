/* SPDX-License-Identifier: Apache-2.0
 *
 * Server-sent events of the admin address (admin_add_status_page): each listener is sent the
 * state, a JSON document, every so often; those with the same query share one text. The first event
 * is the whole text, later ones, of type "delta", what has changed in it, in pieces between commas
 * (common/program/line_delta.h), where that is shorter and the listener has taken the text before.
 * Listeners and what waits for them are bounded; one that does not keep up is cut, and its browser
 * reconnects. Owned by the admin; its loop's thread.
 */
#ifndef RLB_PROGRAM_ADMIN_STREAM_H
#define RLB_PROGRAM_ADMIN_STREAM_H

#include "common/http/http_server.h"
#include "common/program/admin.h"

enum {
    ADMIN_LISTENERS_MAX = 16, /* of one stream: further ones get 503 */
    /* A listener that has not taken the previous event this many times in a row is disconnected. */
    ADMIN_LISTENER_LATE_MAX = 10,
};

struct admin_stream;

struct admin_stream *admin_stream_create(struct loop *l, uint64_t every_ms, admin_page_fn make,
                                         void *context);
/* No listener is left. */
void admin_stream_destroy(struct admin_stream *s);
/* Whether there is room for one more. */
bool admin_stream_has_room(const struct admin_stream *s);
/* R has its headers, and nothing was sent yet; the stream has it from now on. QUERY: of its
 * request, in its memory. */
void admin_stream_join(struct admin_stream *s, struct http_reply *r, struct slice query);
/* Disconnects all listeners; no listener can join from now on. */
void admin_stream_end(struct admin_stream *s);

#endif
