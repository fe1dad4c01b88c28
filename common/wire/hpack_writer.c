/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader evicts its oldest entries as soon as all are more than its table may have. So one is
 * still there as long as itself and what was inserted after it fit; whatever is older, and whatever
 * was forgotten, is evicted before it and changes nothing of that. Indices count from the newest.
 */
#include "common/wire/hpack_writer.h"

#include "common/wire/hpack_tables.h"

static char *put_string(char *to, struct slice s)
{
    to = hpack_put_integer(to, 0, 7, s.len);
    if (s.len != 0)
        memcpy(to, s.p, s.len);
    return to + s.len;
}

/* A name by its index in the static table, or, if that is 0, as it is. */
static void put_field(struct text *block, unsigned kind, unsigned bits, size_t name_index,
                      const struct hpack_field *f)
{
    /* Room for all at once; the rest is then mere copying. */
    char *to = text_reserve(block, (size_t)3 * HPACK_INTEGER_MAX + f->name.len + f->value.len);

    to = hpack_put_integer(to, kind, bits, name_index);
    if (name_index == 0)
        to = put_string(to, f->name);
    to = put_string(to, f->value);
    block->len = (size_t)(to - block->p);
}

void hpack_put_literal(struct text *block, const struct hpack_field *f)
{
    put_field(block, 0, 4, 0, f);
}

static void put_index(struct text *block, size_t index)
{
    char *to = text_reserve(block, HPACK_INTEGER_MAX);

    block->len = (size_t)(hpack_put_integer(to, 0x80, 7, index) - block->p);
}

static bool stands(const struct hpack_writer *w, const struct hpack_mark *m)
{
    return m->number > w->forgotten && w->bytes - m->before <= HPACK_TABLE_BYTES;
}

static void note_insertion(struct hpack_writer *w, struct hpack_mark *m, size_t bytes)
{
    m->number = ++w->inserted;
    m->before = w->bytes;
    w->bytes += bytes;
}

void hpack_write(struct hpack_writer *w, struct text *block, const struct hpack_field *f,
                 const struct hpack_origin *o)
{
    size_t bytes = f->name.len + f->value.len + HPACK_FIELD_OVERHEAD;

    if (o->whole) {
        put_index(block, o->name_index);
    } else if (o->mark == NULL || bytes > HPACK_TABLE_BYTES) {
        put_field(block, 0, 4, o->name_index, f);
    } else if (stands(w, o->mark)) {
        put_index(block, HPACK_STATIC_FIELDS + 1 + (size_t)(w->inserted - o->mark->number));
    } else {
        put_field(block, 0x40, 6, o->name_index, f);
        note_insertion(w, o->mark, bytes);
    }
}

void hpack_writer_forget(struct hpack_writer *w)
{
    w->forgotten = w->inserted;
}
