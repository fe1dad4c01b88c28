/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts as numbers: the first is 0, the next new one 1. Bounded. Embedded; names_init, names_fini.
 * One thread changes it; any may read while none does.
 */
#ifndef RLB_SIM_NAMES_H
#define RLB_SIM_NAMES_H

#include "common/base/text.h"

struct names {
    struct text bytes;
    size_t *begins; /* of each in BYTES; one more than there are */
    uint32_t n, room;
    uint32_t *slots; /* number + 1; 0: empty */
    uint32_t nslots; /* a power of two */
    uint32_t max;
};

/* MAX: how many there may be. */
void names_init(struct names *t, uint32_t max);
void names_fini(struct names *t);
/* The number of S, which is added when it is new. False: there are too many. */
bool names_intern(struct names *t, struct slice s, uint32_t *out) must_check;
/* Valid until the next one is added. */
struct slice names_get(const struct names *t, uint32_t i);

#endif
