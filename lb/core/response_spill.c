/* SPDX-License-Identifier: Apache-2.0
 *
 * Offsets in the file:
 *
 *     0 ... released ... taken ... end ... reserved
 *            |<----- counted in the space ---->|
 *
 * Shared space is reserved in steps before bytes are read from a worker, because bytes that
 * have been read must be stored. When all bytes have been taken the file is dropped, and offsets
 * begin at 0.
 */
#include "lb/core/response_spill.h"

#include <errno.h>
#include <stdlib.h>

enum {
    /* Asked of the space of all at once. */
    STEP_BYTES = 256 * 1024,
    /* Data that was sent is released in pieces of this size: multiples of a block. */
    RELEASE_BYTES = 1024 * 1024,
};

struct response_spill {
    struct spill_loop *loop;
    struct body_file *file; /* NULL: none is needed */
    uint64_t released, taken, end, reserved;
    struct body_piece *unwritten; /* behind the file's bytes; NULL: none */
    int error;
    bool crowded; /* the last reservation was limited by what all share */
    struct fair_owner owner;
    struct fair_claim file_claim, byte_claim;
    void (*lost)(void *context);
    void *context;
};

static void on_file_lost(struct fair_claim *c)
{
    struct response_spill *s = container_of(c, struct response_spill, file_claim);

    s->lost(s->context);
}

static void on_bytes_lost(struct fair_claim *c)
{
    struct response_spill *s = container_of(c, struct response_spill, byte_claim);

    s->lost(s->context);
}

void spill_loop_init(struct spill_loop *s, struct spill_space *space, struct loop *l)
{
    s->space = space;
    s->files = fair_loop_create(space->files, l, on_file_lost);
    s->bytes = fair_loop_create(&space->bytes, l, on_bytes_lost);
    body_file_bin_init(&s->bin, l);
}

void spill_loop_fini(struct spill_loop *s)
{
    fair_loop_destroy(s->files);
    fair_loop_destroy(s->bytes);
    body_file_bin_fini(&s->bin);
}

struct response_spill *response_spill_create(struct spill_loop *l, const struct fair_owner *owner,
                                             void (*lost)(void *context), void *context)
{
    struct response_spill *s = xcalloc(1, sizeof(*s));

    s->loop = l;
    s->owner = *owner;
    s->lost = lost;
    s->context = context;
    return s;
}

static void drop_file(struct response_spill *s)
{
    fair_end(&s->byte_claim);
    fair_end(&s->file_claim);
    body_file_throw(&s->loop->bin, s->file);
    s->file = NULL;
    s->released = s->taken = s->end = s->reserved = 0;
}

void response_spill_destroy(struct response_spill *s)
{
    if (s == NULL)
        return;
    drop_file(s);
    body_piece_release(s->unwritten);
    free(s);
}

static bool spill_open_file(struct response_spill *s, bool revokes)
{
    if (s->file != NULL)
        return true;
    if (fair_take(s->loop->files, &s->file_claim, &s->owner, 1, revokes) == 0) {
        s->crowded = true;
        s->error = EMFILE;
        return false;
    }
    s->file = body_file_create(s->loop->space->directory);
    if (s->file == NULL) {
        s->error = errno;
        fair_end(&s->file_claim);
    }
    return s->file != NULL;
}

/* Reserves shared space, so that REQUIRED bytes may be added; fewer if it is exhausted. */
static void reserve_space(struct response_spill *s, uint64_t required, bool revokes)
{
    const struct fair_shares *bytes = &s->loop->space->bytes;
    uint64_t wanted = required - (s->reserved - s->end);
    uint64_t more = 0;

    if (atomic_load_explicit(&bytes->max, memory_order_relaxed) != 0)
        more = fair_take(s->loop->bytes, &s->byte_claim, &s->owner, wanted, revokes);
    s->crowded = more != wanted;
    s->reserved += more;
    if (more == 0 || !spill_open_file(s, revokes) || !body_file_space_is_low(s->file))
        return;
    /* Request bodies, and other programs, may need what is left there. */
    s->error = ENOSPC;
    s->reserved -= more;
    fair_give_back(&s->byte_claim, more);
}

size_t response_spill_room(struct response_spill *s, uint64_t max_bytes, bool revokes)
{
    uint64_t used = s->end - s->released;
    uint64_t left = used < max_bytes ? max_bytes - used : 0;
    uint64_t required = left < STEP_BYTES ? left : STEP_BYTES;

    ASSERT(s->unwritten == NULL);
    s->error = 0;
    s->crowded = false;
    if (s->reserved - s->end < required)
        reserve_space(s, required, revokes);
    uint64_t reserved = s->reserved - s->end;
    if (s->taken == s->end && (reserved == 0 || s->file == NULL)) {
        drop_file(s);
        return 0;
    }
    return (size_t)(reserved < required ? reserved : required);
}

bool response_spill_add(struct response_spill *s, struct body_piece *body)
{
    size_t written = 0;

    ASSERT(s->unwritten == NULL);
    if (spill_open_file(s, false)) {
        while (written < body->nparts && body_file_add(s->file, body->parts[written]))
            ++written;
        if (written != body->nparts)
            s->error = errno;
    }
    /* The part that was written is beyond the end, and is not read. */
    if (s->file == NULL || written != body->nparts) {
        s->unwritten = body_piece_compact(body);
        if (s->taken == s->end)
            drop_file(s);
        return false;
    }
    s->end += body->bytes;
    if (s->end > s->reserved) {
        /* A read may take a little more than it has room for; this is stored in any case. */
        uint64_t counted =
            fair_take(s->loop->bytes, &s->byte_claim, &s->owner, s->end - s->reserved, false);
        (void)counted;
        s->reserved = s->end;
    }
    body_piece_release(body);
    return true;
}

struct body_piece *response_spill_take(struct response_spill *s, size_t max)
{
    uint64_t left = s->end - s->taken;

    if (left == 0) {
        struct body_piece *body = s->unwritten;

        s->unwritten = NULL;
        return body;
    }
    size_t room = left < max ? (size_t)left : max;
    char *p = xmalloc(room);
    ssize_t n = body_file_read(s->file, (size_t)s->taken, p, room);
    if (n == -1) {
        s->error = errno;
        free(p);
        return NULL;
    }
    s->taken += (uint64_t)n;
    uint64_t whole = s->taken / RELEASE_BYTES * RELEASE_BYTES;
    if (s->taken == s->end) {
        drop_file(s);
    } else if (whole >= s->released + RELEASE_BYTES) {
        uint64_t released = body_file_release(s->file, (size_t)whole);

        fair_give_back(&s->byte_claim, released - s->released);
        s->released = released;
    }
    return body_piece_borrow((struct slice){p, (size_t)n}, free, p);
}

bool response_spill_is_empty(const struct response_spill *s)
{
    return s->taken == s->end && s->unwritten == NULL;
}

bool response_spill_is_crowded(const struct response_spill *s)
{
    return s->crowded && s->unwritten == NULL;
}

bool response_spill_is_over_share(const struct response_spill *s)
{
    return s->crowded && (fair_others(s->loop->files, &s->file_claim, &s->owner) != 0 ||
                          fair_others(s->loop->bytes, &s->byte_claim, &s->owner) != 0);
}

uint64_t response_spill_in_file(const struct response_spill *s)
{
    return s->end - s->taken;
}

size_t response_spill_in_memory(const struct response_spill *s)
{
    return s->unwritten != NULL ? s->unwritten->bytes : 0;
}

int response_spill_error(const struct response_spill *s)
{
    return s->error;
}
