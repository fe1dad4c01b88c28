/* SPDX-License-Identifier: Apache-2.0 */
#include "common/limiter/counter_breaker.h"

enum counter_breaker_leave counter_breaker_ask(struct counter_breaker *b, uint64_t now_ms)
{
    switch (b->state) {
    case COUNTER_BREAKER_CLOSED:
        return COUNTER_BREAKER_GO;
    case COUNTER_BREAKER_PROBED:
        return COUNTER_BREAKER_REST;
    case COUNTER_BREAKER_RESTING:
        break;
    }
    if (now_ms < b->until_ms)
        return COUNTER_BREAKER_REST;
    b->state = COUNTER_BREAKER_PROBED;
    return COUNTER_BREAKER_PROBE;
}

void counter_breaker_succeeded(struct counter_breaker *b)
{
    *b = (struct counter_breaker){.state = COUNTER_BREAKER_CLOSED};
}

static void rest(struct counter_breaker *b, uint64_t rest_ms, uint64_t now_ms)
{
    b->state = COUNTER_BREAKER_RESTING;
    b->rest_ms = rest_ms < COUNTER_BREAKER_REST_MAX_MS ? rest_ms : COUNTER_BREAKER_REST_MAX_MS;
    b->until_ms = now_ms + b->rest_ms;
}

bool counter_breaker_failed(struct counter_breaker *b, bool probe, uint64_t now_ms)
{
    if (b->state == COUNTER_BREAKER_CLOSED) {
        if (++b->failures < COUNTER_BREAKER_FAILURES_MAX)
            return false;
        rest(b, COUNTER_BREAKER_REST_FIRST_MS, now_ms);
        return true;
    }
    if (b->state != COUNTER_BREAKER_PROBED || !probe)
        return false;
    rest(b, b->rest_ms * 2, now_ms);
    return true;
}

void counter_breaker_no_verdict(struct counter_breaker *b, uint64_t now_ms)
{
    if (b->state != COUNTER_BREAKER_PROBED)
        return;
    b->state = COUNTER_BREAKER_RESTING;
    b->until_ms = now_ms;
}
