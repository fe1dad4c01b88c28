/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/pool/slot_meter.h"

#include <stdio.h>

static void meter_drop(struct slot_meter *one)
{
    meter_destroy(one->meter);
    resume_fini(&one->resume);
    home_records_destroy(one->homes);
    *one = (struct slot_meter){0};
}

void slot_meters_fini(struct slot_meters *m)
{
    for (size_t i = 0; i < SLOT_METERS; ++i)
        meter_drop(&m->items[i]);
}

static const struct slot_meter *meter_find(const struct slot_meters *m, struct slice fingerprint,
                                           bool homes)
{
    const struct slot_meter *found = NULL;

    for (size_t i = 0; i < SLOT_METERS; ++i) {
        const struct slot_meter *one = &m->items[i];

        if ((homes ? one->homes == NULL : one->meter == NULL) ||
            (fingerprint.p != NULL && !slice_is(fingerprint, one->fingerprint)))
            continue;
        if (found == NULL || one->used > found->used)
            found = one;
    }
    return found;
}

const struct slot_meter *slot_meters_find(const struct slot_meters *m, struct slice fingerprint)
{
    return meter_find(m, fingerprint, false);
}

const struct slot_meter *slot_meters_find_homes(const struct slot_meters *m,
                                                struct slice fingerprint)
{
    return meter_find(m, fingerprint, true);
}

/* The entry of FINGERPRINT; a new one replaces the one that was used longest ago. */
static struct slot_meter *meter_entry(struct slot_meters *m, struct slice fingerprint)
{
    struct slot_meter *one = &m->items[0];

    for (size_t i = 0; i < SLOT_METERS; ++i) {
        struct slot_meter *other = &m->items[i];

        if (other->used != 0 && slice_is(fingerprint, other->fingerprint)) {
            other->used = ++m->clock;
            return other;
        }
        if (other->used < one->used)
            one = other;
    }
    meter_drop(one);
    ASSERT(fingerprint.len <= FINGERPRINT_LEN);
    if (fingerprint.len > 0)
        memcpy(one->fingerprint, fingerprint.p, fingerprint.len);
    one->used = ++m->clock;
    return one;
}

struct home_records *slot_meters_homes(struct slot_meters *m, struct slice fingerprint)
{
    struct slot_meter *one = meter_entry(m, fingerprint);

    if (one->homes == NULL) {
        one->homes = home_records_create(m->max_skills);
        one->homes_number = m->clock;
    }
    return one->homes;
}

void slot_meters_drop_homes(struct slot_meters *m)
{
    for (size_t i = 0; i < SLOT_METERS; ++i) {
        home_records_destroy(m->items[i].homes);
        m->items[i].homes = NULL;
    }
}

static struct slot_meter *use_meter(struct slot_meters *m, struct slice fingerprint)
{
    struct slot_meter *one = meter_entry(m, fingerprint);

    if (one->meter == NULL)
        one->meter = meter_create(&m->settings);
    return one;
}

static void renew_resume(const struct slot_meters *m, struct slot_meter *one)
{
    resume_fini(&one->resume);
    meter_resume(one->meter, m->max_skills, &one->resume);
}

bool slot_meters_add(struct slot_meters *m, struct slice fingerprint, struct slice cls,
                     double service_s, bool failed)
{
    struct slot_meter *one = use_meter(m, fingerprint);

    if (!meter_add(one->meter, cls, service_s, failed))
        return false;
    renew_resume(m, one);
    ++one->generation;
    return true;
}

void slot_meters_set(struct slot_meters *m, const struct meter_settings *s, size_t max_skills)
{
    m->settings = *s;
    m->max_skills = max_skills;
    for (size_t i = 0; i < SLOT_METERS; ++i) {
        if (m->items[i].meter != NULL)
            meter_set(m->items[i].meter, s);
    }
}

size_t slot_meters_forget(struct slot_meters *m, const struct slice *cls)
{
    size_t scores = 0;

    for (size_t i = 0; i < SLOT_METERS; ++i) {
        struct slot_meter *one = &m->items[i];

        if (one->meter == NULL)
            continue;
        scores += meter_forget(one->meter, cls);
        ++one->generation;
        renew_resume(m, one);
    }
    return scores;
}

void slot_meters_renew(struct slot_meters *m)
{
    for (size_t i = 0; i < SLOT_METERS; ++i) {
        if (m->items[i].meter != NULL)
            renew_resume(m, &m->items[i]);
    }
}

/* ---- the file ---- */

static void print_one(const struct slot_meter *one, const struct resume_line *sender,
                      struct text *out)
{
    struct resume_line line = *sender;

    memcpy(line.fingerprint, one->fingerprint, sizeof(line.fingerprint));
    line.generation = one->generation;
    line.skills = one->resume;
    (void)resume_line_print(&line, out);
}

void slot_meters_print(const struct slot_meters *m, const struct resume_line *sender,
                       struct text *out)
{
    const struct slot_meter *latest = slot_meters_find(m, SLICE_NULL);

    for (size_t i = 0; i < SLOT_METERS; ++i) {
        if (m->items[i].meter != NULL && &m->items[i] != latest)
            print_one(&m->items[i], sender, out);
    }
    if (latest != NULL)
        print_one(latest, sender, out);
}

static bool load_line(struct slot_meters *m, struct slice bytes, char why[160])
{
    struct resume_line line = {0};

    /* A file written with larger settings is valid: the meter loads as much as it has room for. */
    enum err e = resume_line_parse(bytes, RESUME_LINE_MAX, &line, why);
    if (e != ERR_OK)
        return false;
    if (line.end != RESUME_END_NONE) {
        snprintf(why, 160, "has the line of a stream's end");
        resume_line_fini(&line);
        return false;
    }
    struct slot_meter *one = use_meter(m, slice_of(line.fingerprint));
    meter_load(one->meter, &line.skills);
    one->generation = line.generation;
    renew_resume(m, one);
    resume_line_fini(&line);
    return true;
}

bool slot_meters_load(struct slot_meters *m, struct slice text, char why[160])
{
    struct slot_meters loaded = {.settings = m->settings, .max_skills = m->max_skills};
    size_t lines = 0;

    if (!slice_ends(text, SLICE_LIT("\n"))) {
        snprintf(why, 160, "%s", text.len == 0 ? "is empty" : "ends within a line");
        return false;
    }
    while (text.len > 0) {
        struct slice line = slice_cut(&text, '\n');
        bool good = ++lines <= SLOT_METERS && load_line(&loaded, line, why);

        if (lines > SLOT_METERS)
            snprintf(why, 160, "has more than %d lines", SLOT_METERS);
        if (!good) {
            slot_meters_fini(&loaded);
            return false;
        }
    }
    slot_meters_fini(m);
    *m = loaded;
    return true;
}
