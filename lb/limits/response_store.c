/* SPDX-License-Identifier: Apache-2.0
 *
 * A stored response is two pieces of memory: the head, all in one, and the body.
 *
 *     struct stored_response | fields[n] | their names and values, reason, variant        body
 *
 * The body's buffer is as large as the response announces, or grows twofold, and is cut to its size
 * at the end. What is charged is what is allocated; that realloc may hold both for a moment is not.
 *
 * A variant is in three lists: that of its URL and that of all variants, both least recently used
 * first, and that of all variants by the time of storing.
 *
 *     urls (map) -> url -> variants --+
 *     by_use  --------------------------> variant -> stored response (one reference)
 *     by_time ------------------------+
 *
 * Removed variants are unlinked under the lock and released after it.
 */
#include "lb/limits/response_store.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/list.h"
#include "common/base/map.h"
#include "common/wire/http1_bytes.h"

enum {
    /* The first buffer of a body of unknown length: most pages fit. */
    BODY_ROOM_FIRST = 16 * 1024,
};

struct stored_maker {
    struct stored_memory *memory;
    size_t max_bytes;
    struct stored_response *stored; /* NULL before its head, and once given up */
    uint64_t announced;             /* bytes of body; UINT64_MAX: unknown */
};

/* ---- memory ---- */

void stored_memory_init(struct stored_memory *m, size_t max_bytes)
{
    atomic_init(&m->used_bytes, 0);
    atomic_init(&m->max_bytes, max_bytes);
    m->store = NULL;
}

void stored_memory_set_max(struct stored_memory *m, size_t max_bytes)
{
    atomic_store_explicit(&m->max_bytes, max_bytes, memory_order_relaxed);
}

/* Never beyond the limit, not even for a moment. */
static bool try_charge(struct stored_memory *m, size_t bytes)
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

static void uncharge_bytes(struct stored_memory *m, size_t bytes)
{
    size_t before = atomic_fetch_sub_explicit(&m->used_bytes, bytes, memory_order_relaxed);

    ASSERT(before >= bytes);
}

static bool evict_bytes(struct response_store *s, size_t bytes);

static bool charge_bytes(struct stored_memory *m, size_t bytes)
{
    return try_charge(m, bytes) ||
           (m->store != NULL && evict_bytes(m->store, bytes) && try_charge(m, bytes));
}

/* ---- reading ---- */

struct stored_response *stored_get(struct stored_response *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void stored_put(struct stored_response *c)
{
    /* The thread that frees it must see all earlier accesses by other threads. */
    if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    uncharge_bytes(c->memory, stored_bytes(c));
    free(c->body);
    free(c);
}

struct slice stored_body(const struct stored_response *c)
{
    return (struct slice){c->body, c->body_bytes};
}

uint64_t stored_age_s(const struct stored_response *c, uint64_t now_us)
{
    /* Another loop's clock reading may be a little behind. */
    uint64_t resident_us = now_us > c->made_us ? now_us - c->made_us : 0;

    return c->facts.age_s + resident_us / 1000000;
}

size_t stored_bytes(const struct stored_response *c)
{
    return c->head_bytes + c->body_room;
}

static void release_hold(void *stored)
{
    stored_put(stored);
}

struct body_piece *stored_take_body(struct stored_response *c)
{
    return body_piece_borrow(stored_body(c), release_hold, stored_get(c));
}

/* ---- responding ---- */

/*
 * Cache-Status is a list to which each cache on the way adds itself at the end (RFC 9211 2), so
 * ours is a line of its own behind those of others.
 */
static void add_field(struct http1_head *head, struct slice name, struct slice value)
{
    ASSERT(head->nheaders < RESPONSE_HEADERS_MAX);
    head->headers[head->nheaders++] = (struct message_field){.name = name, .value = value};
}

void stored_render(const struct stored_response *c, enum stored_use use, struct slice detail,
                   uint64_t now_us, struct stored_rendering *out)
{
    uint64_t age_s = stored_age_s(c, now_us);
    struct http1_head *head = &out->head;

    ASSERT(use == STORED_COALESCED || detail.len <= STORED_DETAIL_MAX);
    ASSERT(use == STORED_COALESCED || http1_is_token(detail));
    ASSERT(use == STORED_COALESCED || ascii_lower(detail.p[0]) >= 'a');
    out->body = stored_body(c);
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
    if (age_s > CACHE_SECONDS_MAX)
        age_s = CACHE_SECONDS_MAX;
    int n = snprintf(out->age, sizeof(out->age), "%" PRIu64, age_s);
    add_field(head, SLICE_LIT("Age"), (struct slice){out->age, (size_t)n});
    /* RFC 9211 2.2, 2.7: not from a cache, but from a request that went forward for both. */
    struct slice status = SLICE_LIT("resumelb; fwd=miss; collapsed");
    if (use != STORED_COALESCED) {
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

struct stored_maker *stored_maker_create(struct stored_memory *memory, size_t max_bytes)
{
    struct stored_maker *m = xcalloc(1, sizeof(*m));

    m->memory = memory;
    m->max_bytes = max_bytes;
    return m;
}

/* Releases everything. */
static noinline_ void maker_give_up(struct stored_maker *m)
{
    stored_put(m->stored);
    m->stored = NULL;
}

void stored_maker_destroy(struct stored_maker *m)
{
    if (m == NULL)
        return;
    maker_give_up(m);
    free(m);
}

/*
 * Fields that are end-to-end and valid for other requests as well. Age is computed for each
 * response, and those of proxy authentication are for the original requester only (RFC 9111
 * section 3.1).
 */
static bool is_stored(const struct message_field *h)
{
    uint32_t others = FIELDS_HOP | FIELD_BIT(FIELD_OURS) | FIELD_BIT(FIELD_REQUEST_ID);

    return (FIELD_BIT(h->kind) & others) == 0 && !slice_eq_nocase(h->name, SLICE_LIT("age")) &&
           !slice_eq_nocase(h->name, SLICE_LIT("proxy-authenticate")) &&
           !slice_eq_nocase(h->name, SLICE_LIT("proxy-authentication-info"));
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
static bool set_room(struct stored_maker *m, size_t bytes)
{
    struct stored_response *c = m->stored;

    ASSERT(bytes >= c->body_bytes);
    if (bytes > c->body_room) {
        if (bytes > m->max_bytes - c->head_bytes || !charge_bytes(m->memory, bytes - c->body_room))
            return false;
    } else {
        uncharge_bytes(c->memory, c->body_room - bytes);
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

static bool store_head(struct stored_maker *m, const struct stored_maker_head *h,
                       const struct cache_facts *facts, struct slice variant)
{
    const struct http1_head *head = h->head;
    const struct message_field *stored[RESPONSE_HEADERS_MAX];
    size_t head_bytes = sizeof(struct stored_response) + head->reason.len + variant.len;
    size_t n = 0;

    for (size_t i = 0; i < head->nheaders; ++i) {
        const struct message_field *field = &head->headers[i];

        if (!is_stored(field))
            continue;
        stored[n++] = field;
        head_bytes += sizeof(*field) + field->name.len + field->value.len;
    }
    if (n > STORED_FIELDS_MAX || head_bytes > m->max_bytes || !charge_bytes(m->memory, head_bytes))
        return false;
    struct stored_response *c = xmalloc(head_bytes);
    char *at = (char *)(c->fields + n);
    *c = (struct stored_response){.memory = m->memory,
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
    m->stored = c;
    m->announced = head->framing == HTTP1_BODY_CHUNKED ? UINT64_MAX : 0;
    if (head->framing == HTTP1_BODY_LENGTH)
        m->announced = head->content_length;
    return m->announced == UINT64_MAX || (m->announced <= SIZE_MAX && set_room(m, m->announced));
}

bool stored_maker_head(struct stored_maker *m, const struct stored_maker_head *h)
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

    ASSERT(m->stored == NULL);
    ASSERT(h->received_us >= h->asked_us);
    /* Whether the response may be shared, and what it was chosen by. */
    bool good = cache_check_response(&response, &facts) &&
                cache_variant_key(response.fields, h->request->fields, &variant);
    /* A response that ends with its connection may be truncated. */
    good =
        good && head->framing != HTTP1_BODY_CLOSE && store_head(m, h, &facts, text_slice(&variant));
    if (!good)
        maker_give_up(m);
    text_fini(&variant);
    return good;
}

static void add_piece(struct stored_maker *m, struct slice piece)
{
    struct stored_response *c = m->stored;

    if (c == NULL || piece.len == 0)
        return;
    if (piece.len > c->body_room - c->body_bytes) {
        size_t max = m->max_bytes - c->head_bytes;
        size_t needed = c->body_bytes + piece.len;
        size_t room = c->body_room != 0 ? c->body_room : BODY_ROOM_FIRST;

        while (room < needed)
            room *= 2;
        /* Give up the stored response if the body is longer than announced or too large. */
        if (m->announced != UINT64_MAX || needed > max || !set_room(m, room < max ? room : max)) {
            maker_give_up(m);
            return;
        }
    }
    ASSERT(c->body != NULL);
    memcpy(c->body + c->body_bytes, piece.p, piece.len);
    c->body_bytes += piece.len;
}

void stored_maker_body(struct stored_maker *m, const struct body_piece *body)
{
    for (size_t i = 0; i < body->nparts; ++i)
        add_piece(m, body->parts[i]);
}

struct stored_response *stored_maker_end(struct stored_maker **m)
{
    struct stored_maker *maker = *m;
    struct stored_response *c = maker->stored;

    *m = NULL;
    if (c != NULL && maker->announced != UINT64_MAX && c->body_bytes != maker->announced)
        c = NULL;
    if (c != NULL) {
        bool shrunk = set_room(maker, c->body_bytes);

        ASSERT(shrunk);
        maker->stored = NULL;
    }
    stored_maker_destroy(maker);
    return c;
}

/* ---- the stored responses of an application ---- */

enum {
    /*
     * When URLs were invalidated, by their hash: two with the same hash share the entry, which may
     * prevent that a response in progress at that time is stored.
     */
    INVALIDATED_SLOTS = 1024,
};

struct url {
    struct map_node node;
    struct list variants; /* at least one; least recently used first */
    size_t key_len;
    char key[];
};

struct variant {
    struct list in_url, by_use, by_time;
    struct url *url;
    struct stored_response *stored;
    size_t cost;
    uint64_t put_us;
};

_Static_assert(sizeof(struct url) + sizeof(struct variant) <= RESPONSE_STORE_ENTRY_BYTES,
               "what is charged for an entry covers it");

struct response_store {
    pthread_mutex_t lock;
    struct stored_memory *memory;
    /* The rest under the lock. */
    struct response_store_limits limits;
    struct map urls;
    struct list by_use, by_time;
    struct list removed; /* variants, by by_use: unlock_and_free() releases them */
    uint64_t clock_us;   /* the latest time received; loops differ a little */
    struct response_store_stats stats;
    uint64_t invalidated_us[INVALIDATED_SLOTS];
};

/* A URL as one string. */
struct url_key {
    size_t len;
    char bytes[RESPONSE_STORE_KEY_MAX];
};

/* ---- keys ---- */

static bool put_part(struct url_key *k, struct slice part)
{
    if (part.len > sizeof(k->bytes) - k->len)
        return false;
    if (part.len != 0)
        memcpy(k->bytes + k->len, part.p, part.len);
    k->len += part.len;
    return true;
}

/* RFC 9110 4.2.3: scheme and host without case, the rest as it is. False: over its limit. */
static bool response_store_make_key(const struct response_store_url *url, struct url_key *k)
{
    k->len = 0;
    if (!put_part(k, url->scheme) || !put_part(k, SLICE_LIT("://")) || !put_part(k, url->authority))
        return false;
    for (size_t i = 0; i < k->len; ++i)
        k->bytes[i] = ascii_lower(k->bytes[i]);
    return put_part(k, url->target);
}

static struct url *find_url(const struct response_store *s, const struct url_key *k)
{
    return map_entry(map_find(&s->urls, k->bytes, k->len), struct url, node);
}

static uint64_t *invalidated_slot(struct response_store *s, const struct url_key *k)
{
    return &s->invalidated_us[map_hash(k->bytes, k->len) % INVALIDATED_SLOTS];
}

/* ---- removal ---- */

/* Removes V, and its URL with its last variant. */
static void remove_variant(struct response_store *s, struct variant *v)
{
    struct url *u = v->url;

    ASSERT(u != NULL);
    list_remove(&v->in_url);
    list_remove(&v->by_time);
    list_move_back(&s->removed, &v->by_use);
    s->stats.bytes -= v->cost;
    --s->stats.responses;
    v->url = NULL;
    if (list_empty(&u->variants)) {
        map_remove(&s->urls, &u->node);
        free(u);
    }
}

/* Unlocks, then releases what was removed: freeing large memory is a system call. */
static void unlock_and_free(struct response_store *s)
{
    struct list removed;
    struct variant *v;

    list_take(&removed, &s->removed);
    pthread_mutex_unlock(&s->lock);
    while ((v = list_pop_entry(&removed, struct variant, by_use)) != NULL) {
        stored_put(v->stored);
        free(v);
    }
}

static void evict_variant(struct response_store *s, struct variant *v)
{
    ++s->stats.evictions;
    remove_variant(s, v);
}

/* Evicts until ADDED more responses, of COST bytes in all, fit. */
static void make_fit(struct response_store *s, size_t cost, size_t added)
{
    while (s->stats.responses != 0 && (s->stats.responses + added > s->limits.max_responses ||
                                       s->stats.bytes + cost > s->limits.max_bytes))
        evict_variant(s, list_first(&s->by_use, struct variant, by_use));
}

static void set_clock(struct response_store *s, uint64_t now_us)
{
    if (now_us > s->clock_us)
        s->clock_us = now_us;
    while (list_linked(&s->by_time)) {
        struct variant *v = list_first(&s->by_time, struct variant, by_time);

        if ((s->clock_us - v->put_us) / 1000000 <= s->limits.max_age_s)
            return;
        ++s->stats.expired;
        remove_variant(s, v);
    }
}

/* ---- life ---- */

/* A maker has found the memory used up. Returns false if there is nothing to free. */
static bool evict_bytes(struct response_store *s, size_t bytes)
{
    size_t freed = 0;

    pthread_mutex_lock(&s->lock);
    while (freed < bytes && list_linked(&s->by_use)) {
        struct variant *v = list_first(&s->by_use, struct variant, by_use);

        freed += stored_bytes(v->stored);
        evict_variant(s, v);
    }
    unlock_and_free(s);
    return freed != 0;
}

struct response_store *response_store_create(const struct response_store_limits *l,
                                             struct stored_memory *memory)
{
    struct response_store *s = xcalloc(1, sizeof(*s));

    pthread_mutex_init(&s->lock, NULL);
    s->memory = memory;
    memory->store = s;
    s->limits = *l;
    list_init(&s->by_use);
    list_init(&s->by_time);
    list_init(&s->removed);
    return s;
}

void response_store_destroy(struct response_store *s)
{
    if (s == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    while (list_linked(&s->by_use))
        remove_variant(s, list_first(&s->by_use, struct variant, by_use));
    unlock_and_free(s);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void response_store_set_limits(struct response_store *s, const struct response_store_limits *l,
                               uint64_t now_us)
{
    pthread_mutex_lock(&s->lock);
    s->limits = *l;
    set_clock(s, now_us);
    make_fit(s, 0, 0);
    unlock_and_free(s);
}

/* ---- making stored responses ---- */

struct stored_maker *response_store_begin(struct response_store *s)
{
    pthread_mutex_lock(&s->lock);
    size_t max_bytes = s->limits.max_response_bytes;
    pthread_mutex_unlock(&s->lock);
    return stored_maker_create(s->memory, max_bytes);
}

/* Stores *RESPONSE, which is NULL then, unless it is not to be stored. */
static void response_store_store(struct response_store *s, const struct url_key *k,
                                 struct stored_response **stored)
{
    size_t cost = stored_bytes(*stored) + k->len + RESPONSE_STORE_ENTRY_BYTES;
    struct url *u = find_url(s, k);
    struct variant *same = NULL; /* that *RESPONSE takes the place of */
    struct variant *v;

    if (u != NULL) {
        list_for_each_entry (v, &u->variants, in_url) {
            if (slice_eq(v->stored->variant, (*stored)->variant))
                same = v;
        }
    }
    if (s->limits.max_responses == 0 || cost > s->limits.max_bytes ||
        stored_bytes(*stored) > s->limits.max_response_bytes ||
        (*stored)->asked_us <= *invalidated_slot(s, k) ||
        (same != NULL && same->stored->made_us > (*stored)->made_us))
        return;
    if (same != NULL)
        remove_variant(s, same);
    else if (u != NULL && list_length(&u->variants) == RESPONSE_STORE_VARIANTS_MAX)
        evict_variant(s, list_first(&u->variants, struct variant, in_url));
    make_fit(s, cost, 1);
    u = find_url(s, k); /* again, as removing a variant may have freed U */
    if (u == NULL) {
        u = xmalloc(sizeof(*u) + k->len);
        *u = (struct url){.key_len = k->len};
        list_init(&u->variants);
        memcpy(u->key, k->bytes, k->len);
        map_add(&s->urls, &u->node, u->key, u->key_len);
    }
    v = xcalloc(1, sizeof(*v));
    *v = (struct variant){.url = u, .stored = *stored, .cost = cost, .put_us = s->clock_us};
    list_push_back(&u->variants, &v->in_url);
    list_push_back(&s->by_use, &v->by_use);
    list_push_back(&s->by_time, &v->by_time);
    ++s->stats.responses;
    s->stats.bytes += cost;
    *stored = NULL;
}

void response_store_put(struct response_store *s, const struct response_store_url *url,
                        struct stored_response **stored, uint64_t now_us)
{
    struct url_key k;
    bool fits = response_store_make_key(url, &k);

    pthread_mutex_lock(&s->lock);
    set_clock(s, now_us);
    if (fits)
        response_store_store(s, &k, stored);
    if (*stored == NULL)
        ++s->stats.stored;
    else
        ++s->stats.rejected;
    unlock_and_free(s);
    stored_put(*stored);
    *stored = NULL;
}

void response_store_invalidate(struct response_store *s, const struct response_store_url *url,
                               uint64_t now_us)
{
    struct url_key k;

    if (!response_store_make_key(url, &k))
        return;
    pthread_mutex_lock(&s->lock);
    set_clock(s, now_us);
    /* Loops' clocks differ a little: the latest time applies to all requests sent so far. */
    *invalidated_slot(s, &k) = s->clock_us;
    struct url *u = find_url(s, &k);
    for (size_t left = u != NULL ? list_length(&u->variants) : 0; left != 0; --left) {
        ++s->stats.invalidated;
        remove_variant(s, list_first(&u->variants, struct variant, in_url));
    }
    unlock_and_free(s);
}

void response_store_clear(struct response_store *s, uint64_t now_us)
{
    pthread_mutex_lock(&s->lock);
    set_clock(s, now_us);
    for (size_t i = 0; i < ARRAY_LEN(s->invalidated_us); ++i)
        s->invalidated_us[i] = s->clock_us;
    while (list_linked(&s->by_use)) {
        ++s->stats.invalidated;
        remove_variant(s, list_first(&s->by_use, struct variant, by_use));
    }
    unlock_and_free(s);
}

/* ---- finding ---- */

struct stored_response *response_store_find(struct response_store *s,
                                            const struct response_store_url *url,
                                            const struct cache_request *request,
                                            const struct response_store_need *need, uint64_t now_us)
{
    struct stored_response *found = NULL;
    struct variant *newest = NULL;
    struct variant *v;
    struct url_key k;

    if (!response_store_make_key(url, &k))
        return NULL;
    pthread_mutex_lock(&s->lock);
    set_clock(s, now_us);
    struct url *u = find_url(s, &k);
    if (u == NULL)
        goto out;
    /* RFC 9111 4.1: the most recent of those that the request chooses. */
    list_for_each_entry (v, &u->variants, in_url) {
        if (newest != NULL && newest->stored->made_us >= v->stored->made_us)
            continue;
        if (cache_variant_matches(v->stored->variant, request->fields))
            newest = v;
    }
    if (newest == NULL)
        goto out;
    const struct cache_facts *facts = &newest->stored->facts;
    uint64_t age_s = stored_age_s(newest->stored, now_us);
    bool good = need->stale == NULL
                    ? newest->put_us >= need->not_before_us && cache_may_share(facts, age_s)
                    : age_s <= need->max_age_s && cache_may_serve_stale(facts, need->stale, age_s);
    if (good) {
        ++*(need->stale != NULL ? &s->stats.hits_stale : &s->stats.hits_coalesced);
        list_move_back(&u->variants, &newest->in_url);
        list_move_back(&s->by_use, &newest->by_use);
        found = stored_get(newest->stored);
    }
out:
    unlock_and_free(s);
    return found;
}

bool response_store_were_put(struct response_store *s, const struct response_store_url *url,
                             uint64_t since_us)
{
    const struct variant *v;
    struct url_key k;
    bool found = false;

    if (!response_store_make_key(url, &k))
        return false;
    pthread_mutex_lock(&s->lock);
    const struct url *u = find_url(s, &k);
    if (u != NULL) {
        list_for_each_entry (v, &u->variants, in_url)
            found = found || v->put_us >= since_us;
    }
    unlock_and_free(s);
    return found;
}

/* ---- status and checks ---- */

void response_store_read_stats(struct response_store *s, struct response_store_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->stats;
    pthread_mutex_unlock(&s->lock);
}
