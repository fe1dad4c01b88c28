/* SPDX-License-Identifier: Apache-2.0
 *
 * All values are computed before any field is changed, so that no rule sees the result of another.
 * Those of responses are computed from the request as the worker received it.
 */
#include "lb/request/exchange.h"

#include <inttypes.h>

#include "lb/rules/header_rules.h"

/* Fields that the load balancer's responses set themselves, or that describe another body. */
static bool describes_a_body(struct slice name)
{
    struct slice names =
        SLICE_LIT("cache-control expires etag last-modified age vary accept-ranges "
                  "location retry-after allow set-cookie content-type "
                  "content-encoding content-language content-location "
                  "content-range content-disposition cache-status");

    while (names.len != 0) {
        if (header_names_same(name, slice_cut(&names, ' ')))
            return true;
    }
    return false;
}

static void put_quoted(struct text *t, struct slice s)
{
    text_add_char(t, '"');
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] == '"' || s.p[i] == '\\')
            text_add_char(t, '\\');
        text_add_char(t, s.p[i]);
    }
    text_add_char(t, '"');
}

static bool wants_route_trace(const struct exchange *x)
{
    return x->al != NULL && networks_have(&x->al->settings->route_trace, &x->client_addr);
}

/* ---- both ---- */

/* Returns the rules for that side of X, or NULL. */
static inline const struct header_rules *rules_of(const struct exchange *x, enum header_side side)
{
    const struct header_rules *rules = x->al != NULL ? x->al->settings->headers : NULL;

    return rules != NULL && rules->n[side] != 0 ? rules : NULL;
}

static noinline_ void apply_rules(struct exchange *x, const struct header_rules *rules,
                                  enum header_side side, bool ours)
{
    struct message_fields *to = side == HEADER_REQUEST ? &x->req->fields : &x->req->res.fields;
    struct classify_request r;
    struct classify_environment e;
    struct slice values[HEADER_RULES_MAX];
    char room[HEADER_VALUE_MAX];

    exchange_describe(x, &r);
    classify_environment_init(&e, &r);
    for (size_t i = 0; i < rules->n[side]; ++i) {
        size_t len = header_rule_value(&rules->rules[side][i], x->cls, &e, room);

        values[i] = http_request_retain(x->req, (struct slice){room, len});
    }
    classify_environment_fini(&e);
    for (size_t i = 0; i < rules->n[side]; ++i) {
        const struct header_rule *rule = &rules->rules[side][i];
        struct slice name = slice_of(rule->name);

        if (ours && describes_a_body(name))
            continue;
        if (rule->op != HEADER_ADD)
            headers_remove(to, name);
        /* If all variables are empty, no field is added instead of an empty one. */
        if (rule->op != HEADER_REMOVE && values[i].len != 0)
            headers_add_to(x->req, to, name, values[i]);
    }
}

void exchange_change_request(struct exchange *x)
{
    const struct header_rules *rules = rules_of(x, HEADER_REQUEST);

    if (rules != NULL)
        apply_rules(x, rules, HEADER_REQUEST, false);
}

bool exchange_changes_response(const struct exchange *x)
{
    return rules_of(x, HEADER_RESPONSE) != NULL || wants_route_trace(x);
}

/*
 * Adds also the route trace for clients in the setting route_trace: class="a.example";
 * worker="10.0.0.1:9000"; reason=skilled; backlog=0; tries=1; limit_us=0; worker_us=12;
 * connection_us=3. Without a pick, only the class and the waiting times are included.
 */
void exchange_change_response(struct exchange *x, bool ours)
{
    const struct header_rules *rules = rules_of(x, HEADER_RESPONSE);
    struct text t = {0};

    if (rules != NULL)
        apply_rules(x, rules, HEADER_RESPONSE, ours);
    if (!wants_route_trace(x))
        return;
    /* A class is visible ASCII (classify.h), and a worker's name is valid in a header. */
    text_add(&t, SLICE_LIT("class="));
    put_quoted(&t, x->cls);
    if (x->last != NULL) {
        text_add(&t, SLICE_LIT("; worker="));
        put_quoted(&t, slice_of(worker_name(x->last)));
        text_addf(&t, "; reason=%s; backlog=%" PRIu64 "; tries=%u",
                  pick_reason_text(x->pick.reason), x->pick.backlog, x->picks);
    }
    text_addf(&t, "; limit_us=%" PRIu64 "; worker_us=%" PRIu64 "; connection_us=%" PRIu64,
              x->step_us[STEP_LIMIT], x->step_us[STEP_ROUTE], x->step_us[STEP_CONNECT]);
    http_request_add_response(x->req, "Resumelb-Route", text_slice(&t));
    text_fini(&t);
}
