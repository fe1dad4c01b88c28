/* SPDX-License-Identifier: Apache-2.0
 *
 * Which peers are trusted to say where a request comes from: the setting trusted_proxies, and
 * others that are lists of networks. Pure functions; any thread.
 */
#ifndef RLB_LB_RULES_TRUST_H
#define RLB_LB_RULES_TRUST_H

#include "common/net/networks.h"
#include "lb/settings/settings.h"

/*
 * The networks of LIST, to OUT (zero; networks_fini in any case). False: item *AT is none, and WHY
 * says so.
 */
bool trust_compile(const struct text_list *list, struct networks *out, size_t *at,
                   char why[SETTINGS_WHY_ROOM]) must_check;
/* The same of the setting NAME. */
bool trust_compile_named(const char *name, const struct text_list *list, struct networks *out,
                         size_t *at, char why[SETTINGS_WHY_ROOM]) must_check;

#endif
