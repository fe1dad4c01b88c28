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
    /* Those that the server counts. */
    uint64_t connect_errors, failed_sends;
    uint64_t lock_mismatch, lock_while_waiting, release_mismatch;
    /* Beyond the original's. */
    uint64_t connections, bad_commands;
};

/*
 * The answer to "STATS WHAT" (SLOTS: that an acquire may have a fifth word), its last newline too,
 * appended to OUT. extra  whether FULL has our own counters behind the original's, and their names
 * are known False: there is nothing of that name (ERROR WRONG_STAT); OUT is as it was.
 */
bool stats_text(const struct stats_figures *f, struct slice what, bool extra, struct text *out);

#endif
