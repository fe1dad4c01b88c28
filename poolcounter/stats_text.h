/* SPDX-License-Identifier: Apache-2.0
 *
 * What STATS answers: the original's names, order and way of writing times. Plain computation over
 * figures that are given; any thread.
 */
#ifndef RLB_POOLCOUNTER_STATS_TEXT_H
#define RLB_POOLCOUNTER_STATS_TEXT_H

#include "common/base/text.h"
#include "common/limiter/counter.h"

struct stats_figures {
    struct counter_stats counters;
    uint64_t uptime_us;
    /* Counters of the server. */
    uint64_t connect_errors, failed_sends;
    uint64_t lock_mismatch, lock_while_waiting, release_mismatch;
    /* Beyond the original's. */
    uint64_t connections, bad_commands;
};

/*
 * Appends the reply to "STATS WHAT" (SLOTS: an acquire may have a fifth word) to OUT, including the
 * last newline.
 *
 *   extra  whether FULL has further counters after the original's, and their names are known
 *
 * Returns false if the name is unknown (ERROR WRONG_STAT); then OUT is unchanged.
 */
bool stats_text(const struct stats_figures *f, struct slice what, bool extra, struct text *out);

#endif
