/* SPDX-License-Identifier: Apache-2.0
 *
 * Where slots listen: rejected with a reason, or room for as many as were asked for, each at an
 * address of its own.
 */
#include "worker-agent/config/settings.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slot_address a = {.numbered = false};
    char why[160] = "";
    unsigned nslots = size != 0 ? data[0] % 8U + 1 : 1;
    struct slice text = {(const char *)data + (size != 0), size - (size != 0)};
    struct addr one;
    struct addr other;

    if (slot_address_parse(text, nslots, &a, why) != ERR_OK) {
        ASSERT(why[0] != '\0');
        return 0;
    }
    unsigned room = slot_address_room(&a);

    ASSERT(room >= nslots && room <= APP_SLOTS_MAX);
    for (unsigned i = 1; i < nslots; ++i) {
        slot_address_of(&a, i - 1, &one);
        slot_address_of(&a, i, &other);
        /* Slots at free ports have the same address before they are bound. */
        ASSERT(!addr_equal(&one, &other) || (a.unix_pattern == NULL && addr_port(&a.base) == 0));
    }
    slot_address_of(&a, room - 1, &one);
    ASSERT(one.len != 0);
    slot_address_fini(&a);
    return 0;
}
