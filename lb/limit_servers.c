/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/limit_servers.h"

size_t limit_servers(const struct text_list *l,
                     struct counter_server_address out[COUNTER_SERVERS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < l->n && n < COUNTER_SERVERS_MAX; ++i) {
        out[n].name = slice_of(l->items[i]);
        if (addr_parse(out[n].name, &out[n].addr) == ERR_OK)
            ++n;
    }
    return n;
}
