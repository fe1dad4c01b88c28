/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy is two pieces of memory: the head, all in one, and the body.
 *
 *     struct copy | fields[n] | their names and values, reason, variant        body
 *
 * The body's buffer is as large as the response announces, or grows twofold, and is cut to its size
 * at the end. What is charged is what is allocated; that realloc may hold both for a moment is not.
 */
#include "lb/limits/copy.h"

#include "common/http/http_request.h"
#include "common/wire/http1_bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    /* The first buffer of a body of unknown length: most pages fit. */
    BODY_ROOM_FIRST = 16 * 1024,
};

struct copy_maker {
    struct copy_memory *memory;
    size_t max_bytes;
    struct copy *copy;  /* NULL before its head, and once given up */
    uint64_t announced; /* bytes of body; UINT64_MAX: unknown */
};

/* ---- memory ---- */

void copy_memory_init(struct copy_memory *m, size_t max_bytes)
{
    atomic_init(&m->used_bytes, 0);
    atomic_init(&m->max_bytes, max_bytes);
    m->make_room = NULL;
}

void copy_memory_set_max(struct copy_memory *m, size_t max_bytes)
{
    atomic_store_explicit(&m->max_bytes, max_bytes, memory_order_relaxed);
}

/* Never beyond the limit, not even for a moment. */
static bool try_charge(struct copy_memory *m, size_t bytes)
{
    size_t max = atomic_load_explicit(&m->max_bytes, memory_order_relaxed);
    size_t used = atomic_load_explicit(&m->used_bytes, memory_order_relaxed);

    do {
        if (used > max || bytes > max - used)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&m->used_bytes, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void uncharge(struct copy_memory *m, size_t bytes)
{
    size_t before = atomic_fetch_sub_explicit(&m->used_bytes, bytes, memory_order_relaxed);

    ASSERT(before >= bytes);
}

static bool charge(struct copy_memory *m, size_t bytes)
{
    return try_charge(m, bytes) ||
           (m->make_room != NULL && m->make_room(m->context, bytes) && try_charge(m, bytes));
}

/* ---- reading ---- */

struct copy *copy_get(struct copy *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void copy_put(struct copy *c)
{
    /* The thread that frees it must see all earlier accesses by other threads. */
    if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    uncharge(c->memory, copy_bytes(c));
    free(c->body);
    free(c);
}

struct slice copy_body(const struct copy *c)
{
    return (struct slice){c->body, c->body_bytes};
}

uint64_t copy_age_s(const struct copy *c, uint64_t now_us)
{
    /* Another loop's clock reading may be a little behind. */
    uint64_t resident_us = now_us > c->made_us ? now_us - c->made_us : 0;

    return c->facts.age_s + resident_us / 1000000;
}

size_t copy_bytes(const struct copy *c)
{
    return c->head_bytes + c->body_room;
}

static void release_hold(void *copy)
{
    copy_put(copy);
}

struct http1_body *copy_take_body(struct copy *c)
{
    return http1_body_borrow(copy_body(c), release_hold, copy_get(c));
}

/* ---- answering ---- */

/*
 * Cache-Status is a list to which each cache on the way adds itself at the end (RFC 9211 2), so
 * ours is a line of its own behind those of others.
 */
static void add_field(struct http1_head *head, struct slice name, struct slice value)
{
    ASSERT(head->nheaders < RESPONSE_HEADERS_MAX);
    head->headers[head->nheaders++] = (struct message_field){.name = name, .value = value};
}

void copy_answer_make(const struct copy *c, enum copy_use use, struct slice detail, uint64_t now_us,
                      struct copy_answer *out)
{
    uint64_t age_s = copy_age_s(c, now_us);
    struct http1_head *head = &out->head;

    ASSERT(use == COPY_COALESCED || detail.len <= COPY_DETAIL_MAX);
    ASSERT(use == COPY_COALESCED || http1_is_token(detail));
    ASSERT(use == COPY_COALESCED || ascii_lower(detail.p[0]) >= 'a');
    out->body = copy_body(c);
    head->status = c->status;
    head->minor_version = c->minor_version;
    head->reason = c->reason;
    head->nheaders = c->nfields;
    memcpy(head->headers, c->fields, c->nfields * sizeof(c->fields[0]));
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
    /* RFC 9211 2.2, 2.7: not from a cache, but from a request that went forward for both. */
    struct slice status = SLICE_LIT("resumelb; fwd=miss; collapsed");
    if (use != COPY_COALESCED) {
        /* The remaining lifetime (RFC 9211 2.5); negative once it is stale. */
        int64_t ttl = (int64_t)c->facts.lifetime_s - (int64_t)age_s;

        n = snprintf(out->cache_status, sizeof(out->cache_status),
                     "resumelb; hit; ttl=%" PRId64 "; detail=%.*s", ttl, SLICE_FMT(detail));
        ASSERT(n > 0);
        ASSERT((size_t)n < sizeof(out->cache_status));
        status = (struct slice){out->cache_status, (size_t)n};
    }
    add_field(head, SLICE_LIT("Cache-Status"), status);
}

/* ---- making ---- */

struct copy_maker *copy_maker_create(struct copy_memory *memory, size_t max_bytes)
{
    struct copy_maker *m = xcalloc(1, sizeof(*m));

    m->memory = memory;
    m->max_bytes = max_bytes;
    return m;
}

/* Releases everything. */
static noinline_ void give_up(struct copy_maker *m)
{
    copy_put(m->copy);
    m->copy = NULL;
}

void copy_maker_destroy(struct copy_maker *m)
{
    if (m == NULL)
        return;
    give_up(m);
    free(m);
}

/*
 * Fields that are end-to-end and valid for other requests as well. Age is computed for each answer,
 * and those of proxy authentication are for the original requester only (RFC 9111 section 3.1).
 */
static bool is_stored(const struct http1_head *head, const struct message_field *h)
{
    return !http_field_is_hop(h->kind) && h->kind != FIELD_OURS && h->kind != FIELD_REQUEST_ID &&
           !slice_eq_nocase(h->name, SLICE_LIT("age")) &&
           !slice_eq_nocase(h->name, SLICE_LIT("proxy-authenticate")) &&
           !slice_eq_nocase(h->name, SLICE_LIT("proxy-authentication-info")) &&
           !http_response_lists(head, h->name);
}

static struct slice write_bytes(char **at, struct slice s)
{
    char *start = *at;

    if (s.len != 0)
        memcpy(start, s.p, s.len);
    *at += s.len;
    return (struct slice){start, s.len};
}

/* Room for BYTES of body in all. */
static bool set_room(struct copy_maker *m, size_t bytes)
{
    struct copy *c = m->copy;

    ASSERT(bytes >= c->body_bytes);
    if (bytes > c->body_room) {
        if (bytes > m->max_bytes - c->head_bytes || !charge(m->memory, bytes - c->body_room))
            return false;
    } else {
        uncharge(c->memory, c->body_room - bytes);
    }
    c->body_room = bytes;
    if (bytes == 0) {
        free(c->body);
        c->body = NULL;
    } else {
        c->body = xrealloc(c->body, bytes);
    }
    return true;
}

static bool take_head(struct copy_maker *m, const struct copy_maker_head *h,
                      const struct cache_facts *facts, struct slice variant)
{
    const struct http1_head *head = h->head;
    const struct message_field *stored[RESPONSE_HEADERS_MAX];
    size_t head_bytes = sizeof(struct copy) + head->reason.len + variant.len;
    size_t n = 0;

    for (size_t i = 0; i < head->nheaders; ++i) {
        const struct message_field *field = &head->headers[i];

        if (!is_stored(head, field))
            continue;
        stored[n++] = field;
        head_bytes += sizeof(*field) + field->name.len + field->value.len;
    }
    if (n > COPY_FIELDS_MAX || head_bytes > m->max_bytes || !charge(m->memory, head_bytes))
        return false;
    struct copy *c = xmalloc(head_bytes);
    char *at = (char *)(c->fields + n);
    *c = (struct copy){.memory = m->memory,
                       .head_bytes = head_bytes,
                       .status = head->status,
                       .minor_version = head->minor_version,
                       .facts = *facts,
                       .asked_us = h->asked_us,
                       .made_us = h->received_us,
                       .nfields = n};
    atomic_init(&c->refs, 1);
    for (size_t i = 0; i < n; ++i) {
        c->fields[i].name = write_bytes(&at, stored[i]->name);
        c->fields[i].value = write_bytes(&at, stored[i]->value);
        c->fields[i].kind = stored[i]->kind;
    }
    c->reason = write_bytes(&at, head->reason);
    c->variant = write_bytes(&at, variant);
    m->copy = c;
    m->announced = head->framing == HTTP1_BODY_CHUNKED ? UINT64_MAX : 0;
    if (head->framing == HTTP1_BODY_LENGTH)
        m->announced = head->content_length;
    return m->announced == UINT64_MAX || (m->announced <= SIZE_MAX && set_room(m, m->announced));
}

bool copy_maker_head(struct copy_maker *m, const struct copy_maker_head *h)
{
    const struct http1_head *head = h->head;
    uint64_t delay_s = (h->received_us - h->asked_us) / 1000000;
    struct cache_response response = {
        .status = head->status,
        .fields = {head->headers, head->nheaders},
        .received_s = h->received_s,
        .delay_s = delay_s < CACHE_SECONDS_MAX ? (uint32_t)delay_s : CACHE_SECONDS_MAX,
    };
    struct cache_facts facts;
    struct text variant = {0};

    ASSERT(m->copy == NULL);
    ASSERT(h->received_us >= h->asked_us);
    /* Whether the response may be shared, and what it was chosen by. */
    bool good = cache_check_response(&response, &facts) &&
                cache_variant_key(response.fields, h->request->fields, &variant);
    /* A response that ends with its connection may be truncated. */
    good =
        good && head->framing != HTTP1_BODY_CLOSE && take_head(m, h, &facts, text_slice(&variant));
    if (!good)
        give_up(m);
    text_fini(&variant);
    return good;
}

static void add_piece(struct copy_maker *m, struct slice piece)
{
    struct copy *c = m->copy;

    if (c == NULL || piece.len == 0)
        return;
    if (piece.len > c->body_room - c->body_bytes) {
        size_t max = m->max_bytes - c->head_bytes;
        size_t needed = c->body_bytes + piece.len;
        size_t room = c->body_room != 0 ? c->body_room : BODY_ROOM_FIRST;

        while (room < needed)
            room *= 2;
        /* Give up the copy if the body is longer than announced or too large. */
        if (m->announced != UINT64_MAX || needed > max || !set_room(m, room < max ? room : max)) {
            give_up(m);
            return;
        }
    }
    ASSERT(c->body != NULL);
    memcpy(c->body + c->body_bytes, piece.p, piece.len);
    c->body_bytes += piece.len;
}

void copy_maker_body(struct copy_maker *m, const struct http1_body *body)
{
    for (size_t i = 0; i < body->nparts; ++i)
        add_piece(m, body->parts[i]);
}

struct copy *copy_maker_end(struct copy_maker **m)
{
    struct copy_maker *maker = *m;
    struct copy *c = maker->copy;

    *m = NULL;
    if (c != NULL && maker->announced != UINT64_MAX && c->body_bytes != maker->announced)
        c = NULL;
    if (c != NULL) {
        bool shrunk = set_room(maker, c->body_bytes);

        ASSERT(shrunk);
        maker->copy = NULL;
    }
    copy_maker_destroy(maker);
    return c;
}
