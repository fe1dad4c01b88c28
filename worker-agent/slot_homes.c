/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/slot_homes.h"

#include "worker-agent/app_group.h"
#include "worker-agent/app_pool.h"
#include "worker-agent/resume_stream.h"
#include "worker-agent/slot.h"

static uint64_t now_us(const struct slot *s)
{
    return loop_now_us(s->group->pool->loop);
}

void slot_homes_fini(struct slot_homes *h)
{
    home_records_destroy(h->records);
    h->records = NULL;
}

/* Whether R is served by the process there is now, or waits for that. */
static bool is_at_process(const struct slot_request *r)
{
    const struct core_process *p = r->slot->core.process;

    if (r->state == SLOT_REQUEST_RUNNING)
        return r->life == r->slot->life;
    return r->state == SLOT_REQUEST_WAITING && p != NULL && p->state == CORE_READY;
}

void slot_homes_use(struct slot_request *r, struct slice cls, const struct home_told *told)
{
    static const struct home_told nothing = {0};
    struct slot *s = r->slot;

    if (s == NULL || !is_at_process(r) || (r->housed && r->housed_life == s->life))
        return;
    if (told == NULL)
        told = &nothing;
    if (told->passing)
        return;
    r->housed = true;
    r->housed_life = s->life;
    if (s->homes.life != s->life)
        slot_homes_fini(&s->homes);
    s->homes.life = s->life;
    if (s->homes.records == NULL)
        s->homes.records = home_records_create((size_t)s->group->s->max_skills);
    home_records_use(s->homes.records, cls, told->kind, told->from, now_us(s));
    resume_streams_homes_changed(s);
}

void slot_homes_served(const struct slot_request *r, struct slice cls, uint64_t service_us)
{
    struct slot *s = r->slot;

    if (s == NULL || s->homes.records == NULL || r->life != s->homes.life)
        return;
    home_records_served(s->homes.records, cls, service_us, now_us(s));
    resume_streams_homes_changed(s);
}
