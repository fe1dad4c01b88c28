/* SPDX-License-Identifier: Apache-2.0
 *
 * A request of libh2o's as handlers see it, and what they have answered as libh2o has it. All of it
 * is in the pool of libh2o's request, whose strings it borrows.
 */
#include "common/base/nocase.h"
#include "common/net/http_conn.h"

/* Fields that handlers add to a request's. */
enum { FIELDS_MORE = 4 };

void *http_request_take_library(struct http_request *req, size_t n)
{
    return h2o_mem_alloc_pool(&req->library->pool, n);
}

/* ---- there ---- */

static struct slice text_of(h2o_iovec_t v)
{
    return (struct slice){v.base != NULL ? v.base : "", v.len};
}

static void take_fields(struct http_request *req, const h2o_headers_t *from)
{
    struct message_fields *to = &req->fields;

    to->room = from->size + FIELDS_MORE;
    to->at = http_request_take(req, to->room * sizeof(*to->at));
    for (size_t i = 0; i < from->size; ++i) {
        const h2o_header_t *h = &from->entries[i];
        const char *name = h->orig_name != NULL ? h->orig_name : h->name->base;

        http_request_add(req, to, (struct slice){name, h->name->len}, text_of(h->value));
    }
}

struct http_request *http_library_request(h2o_req_t *from)
{
    struct http_request *req = h2o_mem_alloc_pool(&from->pool, sizeof(*req));
    const struct timeval *at = &from->processed_at.at;

    *req = (struct http_request){
        .method = slice_of_iovec(from->method),
        .target = slice_of_iovec(from->path),
        .authority = text_of(from->authority),
        .body = slice_of_iovec(from->entity),
        .upgrade = slice_of_iovec(from->upgrade),
        .version = from->version,
        .keep_alive = from->http1_is_persistent,
        .received_ms = (uint64_t)at->tv_sec * 1000 + (uint64_t)at->tv_usec / 1000,
        .res.content_length = UINT64_MAX,
        .library = from,
    };
    take_fields(req, &from->headers);
    return req;
}

/* ---- and back ---- */

static void put_field(h2o_req_t *to, const struct message_field *f)
{
    char *lower = h2o_mem_alloc_pool(&to->pool, f->name.len + 1);

    ascii_lower_copy(lower, f->name);
    /* HTTP/2 has lower-case names only; HTTP/1 clients get them as they were written. */
    h2o_add_header_by_str(&to->pool, &to->res.headers, lower, f->name.len, 1,
                          to->version < 0x200 ? f->name.p : NULL, f->value.p, f->value.len);
}

void http_library_answer(struct http_request *req)
{
    h2o_req_t *to = req->library;

    to->http1_is_persistent = req->keep_alive;
    to->res.status = req->res.status;
    to->res.reason = req->res.reason;
    to->res.content_length =
        req->res.content_length != UINT64_MAX ? (size_t)req->res.content_length : SIZE_MAX;
    /* Other heads of HTTP/1 are written by us. */
    if (to->version < 0x200 && req->res.status != 101)
        return;
    for (size_t i = 0; i < req->res.fields.n; ++i)
        put_field(to, &req->res.fields.at[i]);
}
