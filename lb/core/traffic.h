/* SPDX-License-Identifier: Apache-2.0
 *
 * The notes on requests that one data loop sends to the control loop for the status page. The data
 * loop writes them (account.c); the control loop drains them at least once a second (observer.c).
 * Neither waits for the other: notes that do not fit are dropped and counted, and the stored ones
 * are scaled up to represent them. Created before the data loop's thread, destroyed after it.
 */
#pragma once

#include "common/base/text.h"

struct traffic;

enum traffic_flag {
    TRAFFIC_SKILLED = 1,  /* went to a worker that is known to be good at the class */
    TRAFFIC_OVERFLOW = 2, /* went to another worker, although there are such */
    TRAFFIC_FAILED = 4,   /* 5xx, or no whole response */
    TRAFFIC_LIMITED = 8,  /* ended at, or waited for, a limit or a rate */
    TRAFFIC_WAITED = 16,  /* for a worker */
};

struct traffic_note {
    unsigned application; /* index */
    unsigned flags;       /* enum traffic_flag */
    struct slice cls;
    struct slice worker; /* its name; empty: none */
    uint64_t total_us;
    uint64_t wait_us; /* for a worker and a connection to it */
};

struct traffic *traffic_create(void);
/* NULL is fine. */
void traffic_destroy(struct traffic *t);
/* The data loop: copies N, or counts it if it does not fit. No lock, no system call. */
void traffic_add(struct traffic *t, const struct traffic_note *n);
/*
 * The control loop: calls EACH for every note so far, borrowed for the call. Returns their number.
 *   weight  number of requests that each of these notes represents, >= 1
 */
size_t traffic_drain(struct traffic *t,
                     void (*each)(void *context, const struct traffic_note *n, double weight),
                     void *context);
