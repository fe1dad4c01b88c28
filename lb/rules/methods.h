/* SPDX-License-Identifier: Apache-2.0
 *
 * Which methods pass: the setting methods; and what of a method is answered by us: RFC 9110 15.5.6
 * (405 and Allow), 15.6.2 (501), 7.6.2 (Max-Forwards). On the exchange's loop, but for
 * methods_check.
 */
#ifndef RLB_LB_RULES_METHODS_H
#define RLB_LB_RULES_METHODS_H

#include "lb/request/exchange.h"

enum {
    /* Of one application: each request is compared with them, and Allow lists them. */
    METHODS_MAX = 64,
};

/* Whether LIST can be the setting: tokens, each once, without CONNECT. False: *AT and WHY say. */
bool methods_check(const struct text_list *list, size_t *at,
                   char why[SETTINGS_WHY_ROOM]) must_check;
/* Whether METHOD is registered (RFC 9110 16.1.1): known, though perhaps not allowed. */
bool method_is_registered(struct slice method);
/* LIST as the value of Allow, appended to OUT. */
void methods_put(const struct text_list *list, struct text *out);
/* Returns true if X's method is allowed, and X continues. Returns false if X was answered. */
bool exchange_method(struct exchange *x);
/* Adds Allow to X's answer. */
void exchange_add_allow(struct exchange *x);

#endif
