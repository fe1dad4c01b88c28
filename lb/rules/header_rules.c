/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules must not change what other parts rely on: framing, hop-by-hop fields and the Host, fields
 * that other settings control, and those between load balancer and agent.
 */
#include "lb/rules/header_rules.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/wire/http1_bytes.h"
#include "common/wire/http_field.h"

struct header_rules *header_rules_create(void)
{
    struct header_rules *r = xcalloc(1, sizeof(*r));

    atomic_init(&r->refs, 1);
    return r;
}

DEFINE_REF(header_rules)

static void rule_fini(struct header_rule *rule)
{
    template_fini(&rule->value);
    free(rule->name);
}

void header_rules_unref(struct header_rules *r)
{
    if (r == NULL || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int side = 0; side < HEADER_SIDES; ++side) {
        for (size_t i = 0; i < r->n[side]; ++i)
            rule_fini(&r->rules[side][i]);
    }
    free(r);
}

/* ---- names ---- */

/* Why a rule must not touch NAME; NULL: it may. */
static const char *forbidden_reason(enum header_side side, enum header_op op, struct slice name)
{
    switch (http_field_of(name)) {
    case FIELD_HOP:
    case FIELD_CONNECTION:
    case FIELD_FRAMING:
        return "belongs to framing, Host, or a single connection";
    case FIELD_OURS:
        return "is reserved for load balancer and agent";
    case FIELD_FOR:
    case FIELD_PROTO:
    case FIELD_FORWARDED_HOST:
        return "is set by forwarded_for";
    case FIELD_REQUEST_ID:
        return "is set by request_id";
    case FIELD_DATE:
        return side == HEADER_RESPONSE ? "is written by the load balancer" : NULL;
    case FIELD_SERVER:
        return side == HEADER_RESPONSE && op != HEADER_REMOVE ? "is set by server_name" : NULL;
    case FIELD_FORWARDED:
    case FIELD_CLAIM:
    case FIELD_COOKIE:
    case FIELD_REFERER:
    case FIELD_USER_AGENT:
    case FIELD_PRIORITY:
    case FIELD_CLIENT_CERTIFICATE:
    case FIELD_OTHER:
        break;
    }
    if (header_names_same(name, SLICE_LIT("via")))
        return "is set by via";
    if (header_names_same(name, SLICE_LIT("max-forwards")))
        return "is decremented by the load balancer";
    return NULL;
}

/* Why R cannot have another rule for NAME; NULL: it can. */
static const char *check_name(const struct header_rules *r, enum header_side side,
                              enum header_op op, struct slice name)
{
    if (r->n[side] == HEADER_RULES_MAX)
        return "is more than 64 of one direction";
    if (!http1_is_token(name) || name.len > HEADER_NAME_MAX)
        return "is not a valid header field name (at most 128 characters)";
    const char *why = forbidden_reason(side, op, name);
    if (why != NULL)
        return why;
    for (size_t i = 0; i < r->n[side]; ++i) {
        const struct header_rule *old = &r->rules[side][i];

        if (!header_names_same(slice_of(old->name), name))
            continue;
        if (old->op == HEADER_REMOVE && op == HEADER_SET)
            return "is also removed; set alone replaces it";
        if (old->op == op && op != HEADER_ADD)
            return "is a duplicate";
    }
    return NULL;
}

bool header_rules_add(struct header_rules *r, enum header_side side, enum header_op op,
                      struct slice name, struct slice value, char why[SETTINGS_WHY_ROOM])
{
    static const struct template_kind values = {
        .bytes_max = HEADER_TEMPLATE_MAX,
        .first = ' ',
        .too_long = "longer than 1024 bytes",
        .bad_byte = "only blanks and visible ASCII are permitted here",
        .bad_name = "expected {class} or {VARIABLE}, such as {REMOTE_ADDR}"};
    struct header_rule rule = {.op = op};
    const char *problem = check_name(r, side, op, name);
    size_t at;

    ASSERT(r->n[side] == 0 || r->rules[side][r->n[side] - 1].op <= op);
    if (problem == NULL && op != HEADER_REMOVE)
        problem = value.len == 0 ? "has no value; use remove to remove a field"
                                 : template_parse(&values, value, &rule.value, &at);
    if (problem != NULL) {
        rule_fini(&rule);
        snprintf(why, SETTINGS_WHY_ROOM, "%.*s: %s", name.len < 40 ? (int)name.len : 40, name.p,
                 problem);
        return false;
    }
    rule.name = xslicedup(name);
    r->rules[side][r->n[side]++] = rule;
    return true;
}

/* ---- values ---- */

size_t header_rule_value(const struct header_rule *rule, struct slice cls,
                         struct classify_environment *e, char out[HEADER_VALUE_MAX])
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;

    for (size_t i = 0; i < rule->value.n; ++i) {
        const struct template_part *part = &rule->value.parts[i];
        struct slice v = {part->text, part->len};

        if (part->kind == TEMPLATE_CLASS)
            v = cls;
        else if (part->kind == TEMPLATE_VARIABLE)
            v.p = e->super.get(&e->super, part->text, &v.len);
        /* No byte of a request may end a line, or be taken for another field. */
        for (size_t k = 0; k < v.len && n < HEADER_VALUE_MAX; ++k) {
            unsigned char c = (unsigned char)v.p[k];
            const char escaped[] = {'%', digits[c >> 4], digits[c & 15]};

            if (c >= 0x20 && c <= 0x7e) {
                out[n++] = (char)c;
                continue;
            }
            for (size_t b = 0; b < sizeof(escaped) && n < HEADER_VALUE_MAX; ++b)
                out[n++] = escaped[b];
        }
    }
    struct slice trimmed = slice_trim((struct slice){out, n});

    if (trimmed.len != 0)
        memmove(out, trimmed.p, trimmed.len);
    return trimmed.len;
}

/* ---- reading ---- */

struct header_reading {
    const struct config *c;
    struct header_rules *rules;
    enum header_side side;
    struct diag *d;
};

static void read_values(const struct header_reading *r, enum header_op op,
                        const struct config_node *map)
{
    const char *what = op == HEADER_SET ? "set" : "add";
    char why[SETTINGS_WHY_ROOM];

    if (map == NULL)
        return;
    if (map->kind != CONFIG_MAP) {
        config_complain(r->c, map, r->d, "headers: %s: expected NAME: VALUE lines here", what);
        return;
    }
    for (size_t i = 0; i < map->n; ++i) {
        const struct config_node *value = map->items[i];

        struct slice text = config_is_null(value) ? SLICE_NULL : value->text;

        if (value->kind != CONFIG_SCALAR)
            config_complain(r->c, value, r->d, "headers: %s: expected one value here", what);
        else if (!header_rules_add(r->rules, r->side, op, map->keys[i]->text, text, why))
            config_complain(r->c, map->keys[i], r->d, "headers: %s: %s", what, why);
    }
}

static void read_side(struct header_reading *r, enum header_side side,
                      const struct config_node *map)
{
    struct header_settings s;
    char why[SETTINGS_WHY_ROOM];

    if (map == NULL)
        return;
    if (map->kind != CONFIG_MAP) {
        config_complain(r->c, map, r->d, "headers: expected {set, add, remove} here");
        return;
    }
    r->side = side;
    settings_read(&header_table, r->c, map, &s, NULL, r->d);
    for (size_t i = 0; i < s.remove.n; ++i) {
        if (!header_rules_add(r->rules, side, HEADER_REMOVE, slice_of(s.remove.items[i]),
                              SLICE_NULL, why))
            config_complain(r->c, map, r->d, "headers: remove: %s", why);
    }
    read_values(r, HEADER_SET, s.set);
    read_values(r, HEADER_ADD, s.add);
    settings_fini(&header_table, &s);
}

struct header_rules *header_rules_read(const struct config *c, const struct config_node *node,
                                       struct diag *d)
{
    struct header_reading r = {.c = c, .d = d};
    struct headers_settings s;

    if (node == NULL)
        return NULL;
    if (node->kind != CONFIG_MAP) {
        config_complain(c, node, d, "headers: expected request: {...} and response: {...}");
        return NULL;
    }
    r.rules = header_rules_create();
    settings_read(&headers_table, c, node, &s, NULL, d);
    read_side(&r, HEADER_REQUEST, s.request);
    read_side(&r, HEADER_RESPONSE, s.response);
    settings_fini(&headers_table, &s);
    return r.rules;
}
