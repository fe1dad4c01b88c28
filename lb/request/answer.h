/* SPDX-License-Identifier: Apache-2.0
 *
 * Responses of the load balancer itself: an error page, and Retry-After where a retry may succeed.
 * Stateless; on the exchange's loop.
 */
#ifndef RLB_LB_REQUEST_ANSWER_H
#define RLB_LB_REQUEST_ANSWER_H

#include "common/base/text.h"
#include "common/http/http_server.h"

struct answer {
    int status;
    struct slice page; /* template: ${status}, ${reason}, ${request_id}; empty: the built-in one */
    struct slice request_id;
    bool pass_request_id;    /* the request id is also sent as a header field */
    uint64_t retry_after_ms; /* for 503 and 429; 0: no such field */
};

/* Appends the page of A to OUT. Inserted values are escaped for HTML. */
void answer_page(const struct answer *a, struct text *out);
/* Responds to the request of R and ends it, as http_reply_simple() does. */
void answer_send(const struct answer *a, struct http_reply *r);

#endif
