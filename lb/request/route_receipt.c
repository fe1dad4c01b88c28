/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/request/route_receipt.h"

#include <inttypes.h>

#include "lb/request/headers.h"

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

bool exchange_wants_receipt(const struct exchange *x)
{
    return x->al != NULL && networks_have(application_receipts(x->al), &x->client_addr);
}

void exchange_add_receipt(struct exchange *x)
{
    struct text t = {0};

    if (!exchange_wants_receipt(x))
        return;
    /* A class is visible ASCII (classify.h), and a worker's name no header would refuse. */
    text_add(&t, SLICE_LIT("class="));
    put_quoted(&t, x->cls);
    if (x->last != NULL) {
        text_add(&t, SLICE_LIT("; worker="));
        put_quoted(&t, slice_of(worker_name(x->last)));
        text_addf(&t, "; why=%s; backlog=%" PRIu64 "; tries=%u", pick_reason_text(x->reason),
                  x->pick.backlog, x->picks);
    }
    text_addf(&t, "; limit_us=%" PRIu64 "; worker_us=%" PRIu64 "; connection_us=%" PRIu64,
              x->step_us[STEP_LIMIT], x->step_us[STEP_ROUTE], x->step_us[STEP_CONNECT]);
    headers_add(x->req, SLICE_LIT("Resumelb-Route"), text_slice(&t));
    text_fini(&t);
}
