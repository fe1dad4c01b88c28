/* SPDX-License-Identifier: Apache-2.0
 *
 * The totals of a class are updated only at its own requests: the decay by the requests for other
 * classes in between is then applied as a power. So its score does not change until its next
 * request.
 *
 * The table's lists are in the order of the last request, so expired entries are at their fronts,
 * next to loaded classes without totals, which have no age.
 */
#include "common/skills/meter_internal.h"

#include <math.h>
#include <stdlib.h>

/* Shorter than any clock can measure; keeps scores finite. */
static const double SERVICE_MIN_S = 1e-9;

struct meter *meter_create(const struct meter_settings *s)
{
    struct meter *m = xcalloc(1, sizeof(*m));

    classes_init(&m->classes, sizeof(struct metered), s->max_classes, NULL, NULL);
    meter_set(m, s);
    return m;
}

void meter_destroy(struct meter *m)
{
    if (m == NULL)
        return;
    classes_fini(&m->classes);
    free(m);
}

void meter_set(struct meter *m, const struct meter_settings *s)
{
    ASSERT(s->history >= 1);
    m->settings = *s;
    m->decay = decay_over((double)s->history);
    for (size_t i = 0; i < METER_POWERS_CACHED; ++i)
        m->decay_after[i] = pow(m->decay, (double)i); /* pow(0, 0) is 1 */
    classes_set_max(&m->classes, s->max_classes);
}

void meter_load(struct meter *m, const struct resume *r)
{
    double history = (double)m->settings.history;

    classes_fini(&m->classes);
    classes_init(&m->classes, sizeof(struct metered), m->settings.max_classes, NULL, NULL);
    m->generation = 0;
    /* The first rows matter most: they come last, so that they are the last to be dropped. */
    for (size_t i = r->n; i-- != 0;) {
        double score = r->rows[i].score;
        double time_s = (m->settings.inflate_loaded ? 1 : history) / score;
        struct class_entry *e = classes_find(&m->classes, r->rows[i].cls);

        if (e == NULL)
            e = classes_add(&m->classes, r->rows[i].cls);
        /* It was known before the restart; a flood directly after the restart must not displace it.
         */
        classes_trust(&m->classes, e);
        struct metered *c = metered_of(e);
        c->score = score;
        if (score > 0 && isfinite(time_s))
            c->service =
                (struct decayed){.sum = time_s, .weight = history, .mean = time_s / history};
    }
}

static uint64_t max_age(const struct meter *m)
{
    uint64_t age;

    if (m->settings.max_skill_age != METER_SKILL_AGE_DEFAULT)
        return m->settings.max_skill_age;
    return __builtin_mul_overflow(m->settings.history, (uint64_t)10, &age) ? UINT64_MAX : age;
}

static cold_ void drop_old(struct meter *m, struct list *least_recent_first)
{
    struct class_entry *entry;

    if (m->generation <= max_age(m))
        return;
    uint64_t oldest = m->generation - max_age(m);
    list_for_each_entry_safe (entry, least_recent_first, node) {
        struct metered *c = metered_of(entry);

        if (c->service.weight == 0)
            continue;
        if (c->generation >= oldest)
            break;
        classes_remove(&m->classes, &c->base);
    }
}

bool meter_add(struct meter *m, struct slice cls, double service_s, bool failed)
{
    return meter_add_hashed(m, cls, class_hash(cls), service_s, failed);
}

bool meter_add_hashed(struct meter *m, struct slice cls, uint64_t hash, double service_s,
                      bool failed)
{
    struct class_entry *e = classes_find_hashed(&m->classes, cls, hash);

    ASSERT(isfinite(service_s));
    if (service_s < SERVICE_MIN_S)
        service_s = SERVICE_MIN_S;
    ++m->generation;
    /* An error has no information on a class that has not been served yet. */
    if (failed && (e == NULL || metered_of(e)->service.weight == 0)) {
        classes_request(&m->classes, NULL);
    } else {
        classes_request(&m->classes, e);
        if (e == NULL)
            e = classes_add(&m->classes, cls);
        struct metered *c = metered_of(e);
        uint64_t requests = m->generation - c->generation;
        double decay = requests < METER_POWERS_CACHED ? m->decay_after[requests]
                                                      : pow(m->decay, (double)requests);
        if (failed && service_s < c->service.mean)
            service_s = c->service.mean;
        decayed_add(&c->service, decay, service_s);
        c->generation = m->generation;
        c->score = c->service.weight / c->service.sum;
    }
    if (m->generation % m->settings.history != 0)
        return false;
    drop_old(m, &m->classes.known);
    drop_old(m, &m->classes.probation);
    return true;
}

size_t meter_forget(struct meter *m, const struct slice *cls)
{
    struct class_entry *e = cls != NULL ? classes_find(&m->classes, *cls) : NULL;
    size_t before = m->classes.n;

    ++m->generation;
    if (cls == NULL)
        classes_fini(&m->classes);
    else if (e != NULL)
        classes_remove(&m->classes, e);
    return before - m->classes.n;
}

void meter_resume(const struct meter *m, size_t max_rows, struct resume *out)
{
    struct class_entry *e = NULL;

    while (out->n < max_rows && (e = classes_next(&m->classes, e)) != NULL)
        resume_push(out, class_name(e), metered_of(e)->score);
}

uint64_t meter_generation(const struct meter *m)
{
    return m->generation;
}

size_t meter_class_count(const struct meter *m)
{
    return m->classes.n;
}
