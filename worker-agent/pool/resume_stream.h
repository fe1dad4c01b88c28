/* SPDX-License-Identifier: Apache-2.0
 *
 * Resume streams: GET /.well-known/resumelb/resume at a slot stays open. It sends the slot's
 * current resume immediately, and the newest one whenever a resume is published or the slot's state
 * changes (docs/reference/protocols.md). Each stream belongs to its HTTP request and is in its
 * slot's list. A slow reader receives only the newest resume. Control loop only.
 */
#ifndef RLB_AGENT_POOL_RESUME_STREAM_H
#define RLB_AGENT_POOL_RESUME_STREAM_H

#include "common/http/http_server.h"
#include "worker-agent/pool/slot.h"

#define RESUME_STREAM_PATH "/.well-known/resumelb/resume"

/* Starts a stream. HOMES: also send the slot's home classes, in separate lines.
 * FINGERPRINT: the classifier of the requested scores; if it is malformed, the most recently used
 * classifier. */
void resume_stream_start(struct slot *s, struct http_request *req, struct http_conn *conn,
                         struct slice fingerprint, bool homes);
/* Must be called when the slot's resume or state has changed. */
void resume_streams_changed(struct slot *s);
/* Must be called when the slot's homes have changed; they are sent after a short delay. */
void resume_streams_homes_changed(struct slot *s);
/* Sends the last line and ends all streams of S. */
void resume_streams_end(struct slot *s, enum resume_end why);

#endif
