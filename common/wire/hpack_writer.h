/* SPDX-License-Identifier: Apache-2.0
 *
 * Header blocks for a reader of our own process, made of decoded ones. What the sender has in its
 * table the reader gets into its own, and from then on by its index: reading that costs next to
 * nothing. The writer knows the reader's table by its count alone; where a field stands there is
 * noted in the sender's table (struct hpack_mark). Plain computation; owned by the connection.
 */
#ifndef RLB_WIRE_HPACK_WRITER_H
#define RLB_WIRE_HPACK_WRITER_H

#include "common/wire/hpack.h"

/* All zero is that of a reader whose table is empty, and of HPACK_TABLE_BYTES. */
struct hpack_writer {
    uint64_t inserted;  /* into the reader's table */
    uint64_t bytes;     /* of these, as they are counted there */
    uint64_t forgotten; /* up to this one they are not referred to any more */
};

/* Append a decoded field to a block that the reader will get as the next. */
void hpack_write(struct hpack_writer *w, struct text *block, const struct hpack_field *f,
                 const struct hpack_origin *o);
/* The reader does not get the block after all. */
void hpack_writer_forget(struct hpack_writer *w);

/* Append a field to a block, as a literal that no table keeps and no code shortens. */
void hpack_put_literal(struct text *block, const struct hpack_field *f);

#endif
