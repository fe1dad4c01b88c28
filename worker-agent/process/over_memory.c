/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/process/over_memory.h"

bool over_memory_may_replace(struct over_memory *o, uint64_t ready_ms, uint64_t now_ms)
{
    if (now_ms < o->not_before_ms)
        return false;
    if (ready_ms >= OVER_MEMORY_SOON_MS)
        *o = (struct over_memory){.delay_ms = 0};
    else if (o->delay_ms == 0)
        o->delay_ms = OVER_MEMORY_DELAY_MS;
    else
        o->delay_ms *= 2;
    if (o->delay_ms > OVER_MEMORY_DELAY_MAX_MS)
        o->delay_ms = OVER_MEMORY_DELAY_MAX_MS;
    o->not_before_ms = now_ms + o->delay_ms;
    return true;
}

bool over_memory_tell(struct over_memory *o)
{
    /* The first may have been an unlucky one. */
    if (o->told || o->delay_ms <= OVER_MEMORY_DELAY_MS)
        return false;
    o->told = true;
    return true;
}

uint64_t over_memory_wait_ms(const struct over_memory *o, uint64_t now_ms)
{
    return o->not_before_ms > now_ms ? o->not_before_ms - now_ms : 0;
}
