/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory is counted before it is used, and a file when it is opened. If the totals allow no more
 * memory, the body goes to a file; if they allow no more files either, the body is rejected.
 */
#include "common/http/body_sink.h"

#include "common/base/log.h"

#include <errno.h>
#include <stdlib.h>

enum {
    /* Memory for an announced body is taken before it is received, up to so much of it. */
    ROOM_AHEAD_MAX = 512 * 1024,
    /* Descriptors for files: a part of those that there are, and no more than this. */
    FILES_MAX = 1024,
    FILES_PART = 8,
};

/* ---- totals ---- */

size_t body_files_max(size_t descriptors)
{
    return descriptors / FILES_PART < FILES_MAX ? descriptors / FILES_PART : FILES_MAX;
}

void body_totals_set(struct body_totals *t, uint64_t memory_max, uint64_t file_bytes_max,
                     size_t files_max)
{
    atomic_store_explicit(&t->memory_max, memory_max, memory_order_relaxed);
    atomic_store_explicit(&t->file_bytes.max, file_bytes_max, memory_order_relaxed);
    atomic_store_explicit(&t->files.max, files_max, memory_order_relaxed);
}

void body_totals_fini(struct body_totals *t)
{
    fair_shares_fini(&t->files);
    fair_shares_fini(&t->file_bytes);
}

/* Of one file. */
struct body_claims {
    struct body_sink *sink;
    struct fair_owner owner;
    struct fair_claim file, bytes;
};

static void on_file_lost(struct fair_claim *c)
{
    struct body_sink *b = container_of(c, struct body_claims, file)->sink;

    b->user->lost(b);
}

static void on_bytes_lost(struct fair_claim *c)
{
    struct body_sink *b = container_of(c, struct body_claims, bytes)->sink;

    b->user->lost(b);
}

void body_shares_init(struct body_shares *s, struct body_totals *t, struct loop *l)
{
    s->files = fair_loop_create(&t->files, l, on_file_lost);
    s->bytes = fair_loop_create(&t->file_bytes, l, on_bytes_lost);
}

void body_shares_fini(struct body_shares *s)
{
    fair_loop_destroy(s->files);
    fair_loop_destroy(s->bytes);
}

static void give_back(_Atomic uint64_t *total, uint64_t n)
{
    atomic_fetch_sub_explicit(total, n, memory_order_relaxed);
}

/* False: it would exceed MAX. */
static bool sink_take(_Atomic uint64_t *total, _Atomic uint64_t *max, uint64_t n)
{
    uint64_t limit = atomic_load_explicit(max, memory_order_relaxed);
    uint64_t before = atomic_fetch_add_explicit(total, n, memory_order_relaxed);

    if (limit == 0 || (before <= limit && n <= limit - before))
        return true;
    give_back(total, n);
    return false;
}

bool body_sink_count(struct body_sink *b, const struct body_sink_limits *l, uint64_t bytes)
{
    struct body_totals *t = l->totals;

    if (t == NULL || bytes == 0)
        return true;
    if (!sink_take(&t->memory_bytes, &t->memory_max, bytes)) {
        errno = ENOBUFS;
        return false;
    }
    b->totals = t;
    b->counted_memory += bytes;
    return true;
}

/* The same for bytes in its file, if B has claims. */
static bool count_in_file(struct body_sink *b, const struct body_sink_limits *l, uint64_t bytes)
{
    struct body_claims *c = b->claims;

    if (c == NULL || bytes == 0 ||
        fair_take(l->shares->bytes, &c->bytes, &c->owner, bytes, true) == bytes)
        return true;
    errno = EDQUOT;
    return false;
}

/* The same for the file. */
static bool count_file(struct body_sink *b, const struct body_sink_limits *l)
{
    if (l->totals == NULL)
        return true;
    struct body_claims *c = b->claims = xcalloc(1, sizeof(*c));
    c->sink = b;
    if (b->user != NULL)
        c->owner = b->user->owner(b);
    if (fair_take(l->shares->files, &c->file, &c->owner, 1, true) != 0)
        return true;
    errno = EMFILE;
    return false;
}

static void drop_claims(struct body_sink *b)
{
    if (b->claims == NULL)
        return;
    fair_end(&b->claims->file);
    fair_end(&b->claims->bytes);
    free(b->claims);
    b->claims = NULL;
}

static void uncount_memory(struct body_sink *b)
{
    if (b->totals != NULL)
        give_back(&b->totals->memory_bytes, b->counted_memory);
    b->counted_memory = 0;
}

/* ---- files ---- */

static bool no_room(const struct body_sink_limits *l)
{
    int error = errno;

    log_warn(NULL, "body-not-stored", "directory=%s reason=\"%s\"",
             l->directory != NULL ? l->directory : "none", strerror(error));
    errno = error;
    return false;
}

/* The part in memory is written first. */
static bool sink_open_file(struct body_sink *b, const struct body_sink_limits *l)
{
    if (l->directory == NULL) {
        errno = ENOBUFS;
        return false;
    }
    if (!count_file(b, l))
        return false;
    b->file = body_file_create(l->directory);
    if (b->file == NULL || !count_in_file(b, l, b->memory.len) ||
        !body_file_add(b->file, text_slice(&b->memory)))
        return false;
    uncount_memory(b);
    text_fini(&b->memory);
    b->memory = (struct text){0};
    return true;
}

/* ---- the body ---- */

static bool is_for_file(const struct body_sink_limits *l, uint64_t bytes)
{
    return l->directory != NULL && bytes > l->memory_bytes;
}

void body_sink_fini(struct body_sink *b, struct body_file_bin *bin)
{
    drop_claims(b);
    if (b->file != NULL)
        body_file_throw(bin, b->file);
    uncount_memory(b);
    text_fini(&b->memory);
    *b = (struct body_sink){0};
}

bool body_sink_expect(struct body_sink *b, const struct body_sink_limits *l, uint64_t expected)
{
    size_t ahead = expected < ROOM_AHEAD_MAX ? (size_t)expected : ROOM_AHEAD_MAX;

    if (is_for_file(l, expected) || !body_sink_count(b, l, ahead))
        return sink_open_file(b, l) || no_room(l);
    if (ahead != 0)
        (void)text_reserve(&b->memory, ahead);
    return true;
}

bool body_sink_add(struct body_sink *b, const struct body_sink_limits *l, struct slice bytes)
{
    uint64_t all = b->memory.len + bytes.len;

    if (b->file == NULL) {
        uint64_t more = all > b->counted_memory ? all - b->counted_memory : 0;
        if (is_for_file(l, all) || !body_sink_count(b, l, more)) {
            if (!sink_open_file(b, l))
                return no_room(l);
        }
    }
    b->bytes += bytes.len;
    if (b->file == NULL)
        text_add(&b->memory, bytes);
    else if (!count_in_file(b, l, bytes.len) || !body_file_add(b->file, bytes))
        return no_room(l);
    return true;
}

size_t body_sink_room(const struct body_sink *b)
{
    size_t room = b->memory.room;

    if (b->file != NULL)
        return 0;
    /* Text takes more room than it needs, which is not counted. */
    if (b->totals != NULL && b->counted_memory < room)
        room = (size_t)b->counted_memory;
    return room > b->memory.len ? room - b->memory.len : 0;
}

struct slice body_sink_bytes(struct body_sink *b)
{
    if (b->claims != NULL) {
        bool file = fair_settle(&b->claims->file);
        bool bytes = fair_settle(&b->claims->bytes);

        if (!file || !bytes) {
            errno = EDQUOT;
            return SLICE_NULL;
        }
    }
    if (b->file != NULL)
        return body_file_map(b->file);
    return b->memory.len != 0 ? text_slice(&b->memory) : SLICE_LIT("");
}
