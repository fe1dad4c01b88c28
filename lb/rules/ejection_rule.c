/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/ejection_rule.h"

#include <limits.h>

enum {
    DOUBLINGS_MAX = 32,
    /* Each probe that fails delays a client's request by first_byte_timeout, so these are rarer:
     * with the defaults 1.5 s apart. */
    REQUEST_PROBE_TIMES = 6,
};

const char *worker_fault_text(enum worker_fault f)
{
    static const char *const texts[WORKER_FAULTS] = {"refused", "connect-timeout", "tls", "reset",
                                                     "first-byte-timeout"};

    return texts[f];
}

bool worker_fault_connects(enum worker_fault f)
{
    return f == FAULT_REFUSED || f == FAULT_CONNECT_TIMEOUT || f == FAULT_TLS;
}

static uint64_t doubled_ms(const struct failure_record *s, uint64_t ms, uint64_t most_ms)
{
    return ms > most_ms >> s->doublings ? most_ms : ms << s->doublings;
}

static uint64_t time_of(const struct failure_record *s, const struct ejection_rule *r)
{
    return doubled_ms(s, r->time_ms, r->time_max_ms > r->time_ms ? r->time_max_ms : r->time_ms);
}

enum worker_probe worker_probe_for(const struct ejection_rule *r, enum worker_fault f,
                                   bool may_check)
{
    if (worker_fault_connects(f))
        return PROBE_CONNECT;
    return may_check && r->checks ? PROBE_CHECK : PROBE_REQUEST;
}

void failure_record_probe_ms(const struct failure_record *s, const struct ejection_rule *r,
                             enum worker_probe how, uint64_t *first_ms, uint64_t *then_ms)
{
    uint64_t most_ms = time_of(s, r);

    if (how == PROBE_REQUEST) {
        *first_ms = *then_ms = r->probe_ms < most_ms / REQUEST_PROBE_TIMES
                                   ? REQUEST_PROBE_TIMES * r->probe_ms
                                   : most_ms;
        if (r->probe_ms == 0)
            *first_ms = *then_ms = 0;
        return;
    }
    *first_ms = doubled_ms(s, r->probe_ms, most_ms);
    *then_ms = 2 * *first_ms < most_ms ? 2 * *first_ms : most_ms;
}

uint64_t failure_record_add(struct failure_record *s, const struct ejection_rule *r,
                            enum worker_fault f)
{
    /* A failed connection is unambiguous: no request in flight can have caused it. */
    unsigned after = worker_fault_connects(f) ? r->after_refused : r->after;

    if (s->failures < UINT_MAX)
        ++s->failures;
    if (after == 0 || s->failures < after)
        return 0;
    return time_of(s, r);
}

void failure_record_served(struct failure_record *s)
{
    if (s->doublings < DOUBLINGS_MAX)
        ++s->doublings;
}

bool ejection_fits(const struct ejection_rule *r, enum worker_fault f, size_t out, size_t workers)
{
    return f == FAULT_REFUSED || f == FAULT_TLS ||
           (double)(out + 1) <= r->max_share * (double)workers;
}
