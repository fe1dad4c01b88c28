/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose word is believed about where a request comes from: the setting trusted_proxies, and what
 * becomes of a request's X-Forwarded-*, Forwarded and X-Request-ID by it. On the exchange's loop.
 */
#ifndef RLB_LB_RULES_TRUST_H
#define RLB_LB_RULES_TRUST_H

#include "common/net/networks.h"
#include "lb/request/exchange.h"

/*
 * The networks of LIST, to OUT (zero; networks_fini in any case). False: item *AT is none, and WHY
 * says so.
 */
bool trust_compile(const struct text_list *list, struct networks *out, size_t *at,
                   char why[SETTINGS_WHY_ROOM]) must_check;
/* The same of the setting NAME. */
bool trust_compile_named(const char *name, const struct text_list *list, struct networks *out,
                         size_t *at, char why[SETTINGS_WHY_ROOM]) must_check;
/* X has its application: find out who its client is, and drop what nobody trusted has said. */
void exchange_trust(struct exchange *x);

#endif
