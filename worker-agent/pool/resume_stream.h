/* SPDX-License-Identifier: Apache-2.0
 *
 * Resume streams: GET /.well-known/resumelb/resume at a slot stays open and sends the slot's
 * resume: that of the moment at once, and the newest whenever one is published or the slot's state
 * changes (docs/reference/protocols.md). Each belongs to its
 * HTTP request, and is in its slot's list. To a reader who is slow only the newest goes. Control
 * loop only.
 */
#ifndef RLB_AGENT_POOL_RESUME_STREAM_H
#define RLB_AGENT_POOL_RESUME_STREAM_H

#include "common/server/http_server.h"
#include "worker-agent/pool/slot.h"

#define RESUME_STREAM_PATH "/.well-known/resumelb/resume"

/* HOMES: which classes live there is wanted as well, in lines of their own. FINGERPRINT: of the
 * classifier whose scores are wanted; not well-formed: whatever was used last.
 */
void resume_stream_start(struct slot *s, struct http_request *req, struct http_conn *conn,
                         struct slice fingerprint, bool homes);
/* The slot has something new to tell. */
void resume_streams_changed(struct slot *s);
/* So have its homes: in a while. */
void resume_streams_homes_changed(struct slot *s);
/* The last line, and the end. */
void resume_streams_end(struct slot *s, enum resume_end why);

#endif
