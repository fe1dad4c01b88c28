/* SPDX-License-Identifier: Apache-2.0
 *
 * Header fields of proxied messages: which fields are specific to one connection, and how a field
 * is written. common/wire/http_field.h classifies the fields. Pure functions of their arguments;
 * any thread.
 */
#ifndef RLB_HTTP_HTTP_FIELDS_H
#define RLB_HTTP_HTTP_FIELDS_H

#include "common/base/text.h"
#include "common/wire/http1_head.h"

struct message_fields; /* http_request.h */

/* Whether a Connection field of the request, or of the response, lists NAME. */
bool http_request_lists(const struct message_fields *fields, struct slice name);
bool http_response_lists(const struct http1_head *head, struct slice name);

/* One line of a head. */
void http_put_field(struct text *out, struct slice name, struct slice value);
/* Appends Content-Length if the request has a BODY (NULL: none) or if METHOD requires the field
 * even for an empty body. */
void http_put_length(struct slice method, struct slice body, struct text *out);

#endif
