/* SPDX-License-Identifier: Apache-2.0
 *
 * `headers` of an application: fields that are set, added and removed in transit, with templates
 * as values. Immutable once it is read; reference counted, as it is part of an application's
 * snapshot. Any thread. What an exchange does by it is in header_apply.c, on its loop.
 */
#pragma once

#include "common/config/config.h"
#include "lb/rules/template.h"
#include "lb/settings/settings.h"

enum {
    /* Maximum number of one direction: all are applied to each message. */
    HEADER_RULES_MAX = 64,
    HEADER_NAME_MAX = 128,
    /* Maximum length of a template. */
    HEADER_TEMPLATE_MAX = 1024,
    /* Maximum length of a value; longer ones are truncated. */
    HEADER_VALUE_MAX = 4096,
};

enum header_side { HEADER_REQUEST, HEADER_RESPONSE, HEADER_SIDES };
enum header_op { HEADER_REMOVE, HEADER_SET, HEADER_ADD };

struct header_rule {
    enum header_op op;
    char *name;
    struct template value; /* not of HEADER_REMOVE */
};

struct header_rules {
    _Atomic unsigned refs;
    size_t n[HEADER_SIDES];
    struct header_rule rules[HEADER_SIDES][HEADER_RULES_MAX]; /* in the order they are done */
};

/* Empty, with one reference. */
struct header_rules *header_rules_create(void);
/* Returns NULL for NULL. */
struct header_rules *header_rules_ref(struct header_rules *r);
/* NULL is fine. */
void header_rules_unref(struct header_rules *r);
/*
 * Adds a rule; VALUE is ignored for HEADER_REMOVE. The caller must add removals before settings,
 * and those before additions. Returns false with the reason in WHY if the rule is invalid.
 */
bool header_rules_add(struct header_rules *r, enum header_side side, enum header_op op,
                      struct slice name, struct slice value,
                      char why[SETTINGS_WHY_ROOM]) must_check;
/*
 * The value that RULE's template gives, to OUT; returns its length, at most HEADER_VALUE_MAX.
 * Bytes other than blanks and visible ASCII become %XX, and blanks at both ends are removed.
 */
size_t header_rule_value(const struct header_rule *rule, struct slice cls,
                         struct classify_environment *e, char out[HEADER_VALUE_MAX]);

/* `headers` at NODE (NULL: none); problems to D. One reference, or NULL when there are no rules. */
struct header_rules *header_rules_read(const struct config *c, const struct config_node *node,
                                       struct diag *d);
