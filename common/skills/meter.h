/* SPDX-License-Identifier: Apache-2.0
 *
 * The meter: turns served requests into a resume. One per worker (or slot) and classifier
 * fingerprint. Pure computation; owned by its creator; one thread at a time.
 *
 * For each class it maintains a decayed count and a decayed service time; the score is their
 * quotient, requests per second of service. Source: zc.resumelb worker.py (formulas:
 * tests/oracle/README.md, section 3).
 */
#pragma once

#include "common/skills/resume.h"

struct meter;

#define METER_SKILL_AGE_DEFAULT UINT64_MAX

struct meter_settings {
    uint64_t history; /* requests between two resumes; the decay is 1 - 1/history; >= 1 */
    /* In requests: a class with an older last request is dropped when a resume is due. Any number
     * is valid, also below HISTORY: with 0 only the class of the latest request stays.
     * METER_SKILL_AGE_DEFAULT: 10 * history. */
    uint64_t max_skill_age;
    size_t max_classes; /* classes stored; a tenth of the room is for those on probation */
    /*
     * The recorded original enters a loaded score as if it had been measured `history` times too
     * fast. True only in the replay tool; false enters the time that gives back the loaded score.
     */
    bool inflate_loaded;
};

struct meter *meter_create(const struct meter_settings *s);
void meter_destroy(struct meter *m);
/* Changes the settings. Totals are retained, and decay with the new history from now on. */
void meter_set(struct meter *m, const struct meter_settings *s);
/* Loads a stored resume: generation 0, and every class with a score > 0 as if it had just been
 * requested. */
void meter_load(struct meter *m, const struct resume *r);

/*
 * Count one served request.
 *   cls        encoded class, borrowed
 *   service_s  finite: seconds from the process getting it to the last byte taken from it
 *   failed     an error response (5xx, reset): counted as at least as slow as the class's mean, so
 *              that fast errors never raise a score; a class not seen yet stays unknown
 * Returns true when a resume is due: the history is full, old classes have been dropped.
 */
bool meter_add(struct meter *m, struct slice cls, double service_s, bool failed);
/* The same with HASH, the class_hash() of CLS. */
bool meter_add_hashed(struct meter *m, struct slice cls, uint64_t hash, double service_s,
                      bool failed);
/*
 * Forgets CLS, or all classes (NULL). Counts as one request, so that a holder of the resume detects
 * the change. Returns the number of classes dropped.
 */
size_t meter_forget(struct meter *m, const struct slice *cls);
/*
 * Adds the current resume to OUT, which must be empty. At most MAX_ROWS rows: first the classes
 * that were requested repeatedly, then those on probation, each with the most recently used first.
 */
void meter_resume(const struct meter *m, size_t max_rows, struct resume *out) cold_;
/* Returns the number of requests since the meter was created or loaded. */
uint64_t meter_generation(const struct meter *m);
size_t meter_class_count(const struct meter *m);
