/* SPDX-License-Identifier: Apache-2.0
 *
 * Header fields of messages that a proxy passes on: which are listed as of one connection, and how
 * a field is written. What each is, is told in common/wire/http_field.h. Pure functions over what
 * they are given; any thread.
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
/* Content-Length, for a request with a body (NULL: none) or whose method announces one even when
 * empty. */
void http_put_length(struct slice method, struct slice body, struct text *out);

#endif
