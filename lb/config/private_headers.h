/* SPDX-License-Identifier: Apache-2.0
 *
 * The setting private_headers: names of request fields that identify a user, so that a request with
 * one of them takes no part in coalescing and stale copies. Pure functions; any thread.
 */
#ifndef RLB_LB_CONFIG_PRIVATE_HEADERS_H
#define RLB_LB_CONFIG_PRIVATE_HEADERS_H

#include "common/wire/cache_rules.h"
#include "lb/settings/settings.h"

enum {
    /* Of one name. */
    PRIVATE_HEADER_MAX = 128,
};

/*
 * Whether LIST is valid: at most CACHE_NAMES_MAX field names, each once, and none for which there
 * is another setting or that never comes from a client. False: *AT is the item, and WHY the reason.
 */
bool private_headers_check(const struct text_list *list, size_t *at,
                           char why[SETTINGS_WHY_ROOM]) must_check;
/* LIST, which has passed that check, as names; borrowed. */
void private_headers_take(const struct text_list *list, struct cache_names *out);
/* Whether A and B have the same names in the same order. */
bool private_headers_same(const struct text_list *a, const struct text_list *b);

#endif
