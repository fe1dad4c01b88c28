/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/pool/slot_homes.h"

#include "common/base/text.h"
#include "worker-agent/pool/app_group.h"
#include "worker-agent/pool/app_pool.h"
#include "worker-agent/pool/resume_stream.h"
#include "worker-agent/pool/slot.h"

static uint64_t now_us(const struct slot *s)
{
    return loop_now_us(s->group->pool->loop);
}

static void drop(struct slot_homes_of *one)
{
    home_records_destroy(one->records);
    *one = (struct slot_homes_of){0};
}

void slot_homes_fini(struct slot_homes *h)
{
    for (size_t i = 0; i < SLOT_METERS; ++i)
        drop(&h->items[i]);
}

const struct slot_homes_of *slot_homes_find(const struct slot_homes *h, struct slice fingerprint)
{
    const struct slot_homes_of *found = NULL;

    for (size_t i = 0; i < SLOT_METERS; ++i) {
        const struct slot_homes_of *one = &h->items[i];

        if (one->records == NULL ||
            (fingerprint.p != NULL && !slice_is(fingerprint, one->fingerprint)))
            continue;
        if (found == NULL || one->used > found->used)
            found = one;
    }
    return found;
}

/* Those of FINGERPRINT, which begin in the place of the ones that were used longest ago. */
static struct slot_homes_of *find_or_begin(struct slot_homes *h, struct slice fingerprint,
                                           size_t max_classes)
{
    struct slot_homes_of *one = &h->items[0];

    for (size_t i = 0; i < SLOT_METERS; ++i) {
        if (h->items[i].records != NULL && slice_is(fingerprint, h->items[i].fingerprint))
            return &h->items[i];
        if (h->items[i].used < one->used)
            one = &h->items[i];
    }
    drop(one);
    one->records = home_records_create(max_classes);
    one->number = ++h->clock;
    ASSERT(fingerprint.len <= FINGERPRINT_LEN);
    if (fingerprint.len > 0)
        memcpy(one->fingerprint, fingerprint.p, fingerprint.len);
    return one;
}

/* Whether R is served by the process there is now, or waits for that. */
static bool is_at_process(const struct slot_request *r)
{
    const struct core_process *p = r->slot->core.process;

    if (r->state == SLOT_REQUEST_RUNNING)
        return r->life == r->slot->life;
    return r->state == SLOT_REQUEST_WAITING && p != NULL && p->state == CORE_READY;
}

void slot_homes_use(struct slot_request *r, struct slice fingerprint, struct slice cls,
                    const struct home_told *told)
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
    struct slot_homes_of *one =
        find_or_begin(&s->homes, fingerprint, (size_t)s->group->s->max_skills);
    one->used = ++s->homes.clock;
    home_records_use(one->records, cls, told->kind, told->from, now_us(s));
    resume_streams_homes_changed(s);
}

void slot_homes_served(const struct slot_request *r, struct slice fingerprint, struct slice cls,
                       uint64_t service_us)
{
    struct slot *s = r->slot;

    if (s == NULL || r->life != s->homes.life)
        return;
    const struct slot_homes_of *one = slot_homes_find(&s->homes, fingerprint);
    if (one == NULL)
        return;
    home_records_served(one->records, cls, service_us, now_us(s));
    resume_streams_homes_changed(s);
}
