/* SPDX-License-Identifier: Apache-2.0
 *
 * All values are made before anything is changed, so that a rule sees none of another. Those of
 * responses are made of the request as its worker got it.
 */
#include "lb/request/header_apply.h"

#include "lb/request/headers.h"
#include "lb/request/route_receipt.h"
#include "lb/rules/header_rules.h"

struct change {
    const struct header_rule *rules;
    size_t n;
    struct slice values[HEADER_RULES_MAX]; /* taken from the request */
};

static apart void make_values(struct exchange *x, struct change *c)
{
    struct classify_request r;
    struct classify_environment e;
    char room[HEADER_VALUE_MAX];

    exchange_describe(x, &r);
    classify_environment_init(&e, &r);
    for (size_t i = 0; i < c->n; ++i) {
        size_t len = header_rule_value(&c->rules[i], x->cls, &e, room);

        c->values[i] = http_request_keep(x->req, (struct slice){room, len});
    }
    classify_environment_fini(&e);
}

static void take_off(struct message_fields *fields, struct slice name)
{
    size_t kept = 0;

    for (size_t i = 0; i < fields->n; ++i) {
        if (header_names_same(fields->at[i].name, name))
            continue;
        if (kept != i)
            fields->at[kept] = fields->at[i];
        ++kept;
    }
    fields->n = kept;
}

/* What an answer of ours says itself, or has no body for. */
static bool describes_a_body(struct slice name)
{
    static const char *const names[] = {"cache-control",
                                        "expires",
                                        "etag",
                                        "last-modified",
                                        "age",
                                        "vary",
                                        "accept-ranges",
                                        "location",
                                        "retry-after",
                                        "allow",
                                        "set-cookie",
                                        "content-type",
                                        "content-encoding",
                                        "content-language",
                                        "content-location",
                                        "content-range",
                                        "content-disposition",
                                        "cache-status"};

    for (size_t i = 0; i < ARRAY_LEN(names); ++i) {
        if (header_names_same(name, slice_of(names[i])))
            return true;
    }
    return false;
}

static apart void apply(struct exchange *x, const struct change *c, struct message_fields *to,
                        bool ours)
{
    for (size_t i = 0; i < c->n; ++i) {
        const struct header_rule *rule = &c->rules[i];
        struct slice name = slice_of(rule->name);

        if (ours && describes_a_body(name))
            continue;
        if (rule->op != HEADER_ADD)
            take_off(to, name);
        /* Nothing came out of its variables: no field rather than an empty one. */
        if (rule->op != HEADER_REMOVE && c->values[i].len != 0)
            headers_add_to(x->req, to, name, c->values[i]);
    }
}

/* The rules of that side of X; NULL: there is none. */
static inline const struct header_rules *rules_of(const struct exchange *x, enum header_side side)
{
    const struct header_rules *rules = x->al != NULL ? application_headers(x->al) : NULL;

    return rules != NULL && rules->n[side] != 0 ? rules : NULL;
}

static void change(struct exchange *x, const struct header_rules *rules, enum header_side side,
                   bool ours)
{
    struct change c;

    c.rules = rules->rules[side];
    c.n = rules->n[side];
    make_values(x, &c);
    apply(x, &c, side == HEADER_REQUEST ? &x->req->fields : &x->req->res.fields, ours);
}

void exchange_change_request(struct exchange *x)
{
    const struct header_rules *rules = rules_of(x, HEADER_REQUEST);

    if (rules != NULL)
        change(x, rules, HEADER_REQUEST, false);
}

bool exchange_changes_response(const struct exchange *x)
{
    return rules_of(x, HEADER_RESPONSE) != NULL || exchange_wants_receipt(x);
}

void exchange_change_response(struct exchange *x, bool ours)
{
    const struct header_rules *rules = rules_of(x, HEADER_RESPONSE);

    if (rules != NULL)
        change(x, rules, HEADER_RESPONSE, ours);
    exchange_add_receipt(x);
}
