/* SPDX-License-Identifier: Apache-2.0
 *
 * What a slot records per classifier fingerprint, for the latest two fingerprints, because both are
 * in use while load balancers change from one classifier to another: a meter with the resume last
 * made, which outlives the agent in a file, and the homes that load balancers have reported.
 * Embedded in the slot. Control loop only.
 */
#pragma once

#include "common/base/text.h"
#include "common/skills/home_records.h"
#include "common/skills/meter.h"
#include "common/skills/resume.h"

enum { SLOT_METERS = 2 };

struct slot_meter {
    char fingerprint[FINGERPRINT_LEN + 1];
    uint64_t used;        /* larger: later; 0: the entry is unused */
    struct meter *meter;  /* NULL: nothing was served */
    struct resume resume; /* as published last, or renewed since */
    uint64_t generation;  /* resumes made */
    /*
     * The home classes of the slot's process, as reported by load balancers with their requests.
     * They are published to all load balancers, also after their restart. Valid for one life of the
     * process, as its caches are. NULL: none were reported.
     */
    struct home_records *homes;
    uint64_t homes_number; /* identifies these records; unique in the slot */
};

struct slot_meters {
    struct slot_meter items[SLOT_METERS];
    uint64_t clock;
    struct meter_settings settings; /* of all meters */
    size_t max_skills;              /* of a resume; and classes of homes */
};

void slot_meters_fini(struct slot_meters *m);
/* Count one served request under FINGERPRINT. True: a new resume was made. */
bool slot_meters_add(struct slot_meters *m, struct slice fingerprint, struct slice cls,
                     double service_s, bool failed);
/* New settings for all. */
void slot_meters_set(struct slot_meters *m, const struct meter_settings *s, size_t max_skills);
/* The entry with the meter, or the homes, of FINGERPRINT (NULL: the latest used). NULL: none. */
const struct slot_meter *slot_meters_find(const struct slot_meters *m, struct slice fingerprint);
const struct slot_meter *slot_meters_find_homes(const struct slot_meters *m,
                                                struct slice fingerprint);
/* The homes of FINGERPRINT, created if there are none. */
struct home_records *slot_meters_homes(struct slot_meters *m, struct slice fingerprint);
/* Drops the homes of all fingerprints. */
void slot_meters_drop_homes(struct slot_meters *m);

/* Deletes CLS, or everything (NULL), in each meter and resume. Returns the number of scores. */
size_t slot_meters_forget(struct slot_meters *m, const struct slice *cls);
/* Updates the resumes from the meters, which are only read; the next ones are due as before. */
void slot_meters_renew(struct slot_meters *m);
/* Appends the text of a resume file: one line per meter, the most recently used last. The
 * resume_line passed in provides the fields that do not come from a meter. */
void slot_meters_print(const struct slot_meters *m, const struct resume_line *sender,
                       struct text *out);
/* Loads the meters from such a text. False: it is invalid; WHY has the reason, nothing changes. */
bool slot_meters_load(struct slot_meters *m, struct slice text, char why[160]);
