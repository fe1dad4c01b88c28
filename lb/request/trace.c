/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids are hashes of the exchange's id, which is unique, under a key that the kernel gave this
 * process: as good as random ones for sampling, and cheaper.
 */
#include "lb/request/trace.h"

#include "common/base/map.h"
#include "common/wire/trace_context.h"
#include "lb/request/headers.h"

static const struct slice parent_name = {"traceparent", 11};
static const struct slice state_name = {"tracestate", 10};

/* 16 hex digits, not all zeros; the low bits of which come back. */
static uint64_t make_digits(const struct exchange *x, char purpose, char out[SPAN_ID_LEN])
{
    char key[33];

    memcpy(key, x->id, 32);
    key[32] = purpose;
    uint64_t v = map_hash(key, sizeof(key));
    uint64_t left = v |= v == 0;

    for (size_t i = SPAN_ID_LEN; i-- != 0; left >>= 4)
        out[i] = "0123456789abcdef"[left & 15];
    return v;
}

static apart void begin_trace(const struct exchange *x, struct trace_parent *p)
{
    make_digits(x, 't', p->trace_id);
    uint64_t low = make_digits(x, 'u', p->trace_id + SPAN_ID_LEN) & UINT32_MAX;
    double share = exchange_settings(x)->trace_sample;

    p->flags = (double)low < share * ((double)UINT32_MAX + 1) ? TRACE_SAMPLED : 0;
}

/* What the request says, if it says one thing and may. */
static apart bool find_parent(const struct exchange *x, struct trace_parent *out)
{
    const struct message_fields *fields = &x->req->fields;

    if (exchange_settings(x)->trace_context == TRACE_CONTEXT_TRUSTED &&
        !networks_have(application_trusted(x->al), http_conn_peer(x->conn)))
        return false;
    const struct message_field *found = message_fields_find(fields, parent_name, NULL);

    return found != NULL && message_fields_find(fields, parent_name, found) == NULL &&
           trace_parent_parse(found->value, out);
}

/* All tracestate fields are one list, which passes whole or not at all. */
static bool state_passes(const struct message_fields *fields)
{
    const struct message_field *f = NULL;
    size_t bytes = 0;
    size_t members = 0;

    while ((f = message_fields_find(fields, state_name, f)) != NULL) {
        bytes += f->value.len;
        if (bytes > TRACE_STATE_BYTES_MAX || !trace_state_valid(f->value, &members))
            return false;
    }
    return true;
}

static void take_off(struct message_fields *fields, bool with_state)
{
    size_t kept = 0;

    for (size_t i = 0; i < fields->n; ++i) {
        struct slice name = fields->at[i].name;

        if (slice_eq_nocase(name, parent_name) || (with_state && slice_eq_nocase(name, state_name)))
            continue;
        fields->at[kept++] = fields->at[i];
    }
    fields->n = kept;
}

void exchange_trace(struct exchange *x)
{
    struct message_fields *fields = &x->req->fields;
    struct trace_parent p;

    if (exchange_settings(x)->trace_context == TRACE_CONTEXT_OFF)
        return;
    bool joined = find_parent(x, &p);

    if (!joined)
        begin_trace(x, &p);
    make_digits(x, 's', p.span_id);
    /* Of a trace that is not this one a state says nothing. */
    take_off(fields, !joined || !state_passes(fields));
    trace_parent_print(&p, x->trace_room);
    headers_add_to(x->req, fields, parent_name, (struct slice){x->trace_room, TRACE_PARENT_LEN});
    x->trace_id = (struct slice){x->trace_room + 3, TRACE_ID_LEN};
    x->span_id = (struct slice){x->trace_room + 4 + TRACE_ID_LEN, SPAN_ID_LEN};
}
