/* SPDX-License-Identifier: Apache-2.0
 *
 * Which methods pass: the setting methods. Pure functions; any thread.
 */
#pragma once

#include "common/base/text.h"
#include "lb/settings/settings.h"

enum {
    /* Of one application: each request is compared with them, and Allow lists them. */
    METHODS_MAX = 64,
    /* A forwarded method: the longest registered one has 17 characters. */
    METHOD_MAX = 32,
};

/* For settings_list_check: why item I is invalid, or NULL: a token, once, and not CONNECT. */
const char *method_problem(const struct text_list *list, size_t i);
/* Whether METHOD is registered (RFC 9110 16.1.1): known, though perhaps not allowed. */
bool method_is_registered(struct slice method);
/* Whether METHOD, as it was sent, is in LIST. */
bool methods_have(const struct text_list *list, struct slice method);
/* LIST as the value of Allow, appended to OUT. */
void methods_put(const struct text_list *list, struct text *out);
