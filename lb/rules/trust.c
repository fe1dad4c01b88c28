/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/trust.h"

#include <stdio.h>

bool trust_compile_named(const char *name, const struct text_list *list, struct networks *out,
                         size_t *at, char why[SETTINGS_WHY_ROOM])
{
    for (size_t i = 0; i < list->n; ++i) {
        enum err e = networks_add(out, slice_of(list->items[i]));

        if (e == ERR_OK)
            continue;
        *at = i;
        if (e == ERR_TOO_LARGE)
            snprintf(why, SETTINGS_WHY_ROOM, "%s: more than %d networks", name, NETWORKS_MAX);
        else
            snprintf(why, SETTINGS_WHY_ROOM, "%s: %.60s: %s", name, list->items[i],
                     e == ERR_RANGE ? "has address bits beyond its prefix"
                                    : "expected a network, an address, \"loopback\" or \"unix\"");
        return false;
    }
    return true;
}

bool trust_compile(const struct text_list *list, struct networks *out, size_t *at,
                   char why[SETTINGS_WHY_ROOM])
{
    return trust_compile_named("trusted_proxies", list, out, at, why);
}
