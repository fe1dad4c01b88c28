/* SPDX-License-Identifier: Apache-2.0
 *
 * Cache-Status is a list to which each cache on the way adds itself at the end (RFC 9211 2), so
 * ours is a line of its own behind those of others.
 */
#include "lb/limits/copy_answer.h"

#include "common/wire/http1_bytes.h"

#include <inttypes.h>
#include <stdio.h>

static void add_field(struct http1_head *head, struct slice name, struct slice value)
{
    ASSERT(head->nheaders < RESPONSE_HEADERS_MAX);
    head->headers[head->nheaders++] = (struct http1_header){.name = name, .value = value};
}

/* The remaining lifetime (RFC 9211 2.5); negative once it is stale. */
static int64_t ttl_of(const struct copy *c, uint64_t age_s)
{
    return (int64_t)copy_facts(c)->lifetime_s - (int64_t)age_s;
}

static struct slice write_cache_status(const struct copy *c, enum copy_use use, struct slice detail,
                                       uint64_t age_s, struct copy_answer *out)
{
    int n = 0;

    switch (use) {
    case COPY_COALESCED:
        /* RFC 9211 2.2, 2.7: not from a cache, but from a request that went forward for both. */
        n = snprintf(out->cache_status, sizeof(out->cache_status), "resumelb; fwd=miss; collapsed");
        break;
    case COPY_STALE:
        n = snprintf(out->cache_status, sizeof(out->cache_status),
                     "resumelb; hit; ttl=%" PRId64 "; detail=%.*s", ttl_of(c, age_s),
                     SLICE_FMT(detail));
        break;
    }
    ASSERT(n > 0);
    ASSERT((size_t)n < sizeof(out->cache_status));
    return (struct slice){out->cache_status, (size_t)n};
}

void copy_answer_make(const struct copy *c, enum copy_use use, struct slice detail, uint64_t now_us,
                      struct copy_answer *out)
{
    struct cache_fields fields = copy_fields(c);
    uint64_t age_s = copy_age_s(c, now_us);
    struct http1_head *head = &out->head;

    ASSERT(use == COPY_COALESCED || detail.len <= COPY_DETAIL_MAX);
    ASSERT(use == COPY_COALESCED || http1_is_token(detail));
    ASSERT(use == COPY_COALESCED || ascii_lower(detail.p[0]) >= 'a');
    out->body = copy_body(c);
    head->status = copy_status(c);
    head->minor_version = copy_minor_version(c);
    head->reason = copy_reason(c);
    head->nheaders = fields.n;
    if (fields.n != 0)
        memcpy(head->headers, fields.fields, fields.n * sizeof(fields.fields[0]));
    head->bytes = 0;
    head->framing = out->body.len != 0 ? HTTP1_BODY_LENGTH : HTTP1_BODY_NONE;
    /* RFC 9110 8.6: a 204 has none. */
    head->content_length = head->status == 204 ? UINT64_MAX : out->body.len;
    head->keep_alive = true;
    head->connection_lists = false; /* a copy has no such field */
    if (age_s > CACHE_SECONDS_MAX)
        age_s = CACHE_SECONDS_MAX;
    int n = snprintf(out->age, sizeof(out->age), "%" PRIu64, age_s);
    add_field(head, SLICE_LIT("Age"), (struct slice){out->age, (size_t)n});
    add_field(head, SLICE_LIT("Cache-Status"), write_cache_status(c, use, detail, age_s, out));
}
