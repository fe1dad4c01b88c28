/* SPDX-License-Identifier: Apache-2.0
 *
 * The contents of /proc/PID/stat, with a name that the process chooses itself: the parsed values
 * are within the kernel's ranges, and do not depend on the name.
 */
#include "worker-agent/process/proc_table.h"

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

static void check(const struct proc_entry *e)
{
    ASSERT(e->ppid >= 0 && e->pgrp >= 0 && e->session >= 0);
    ASSERT(e->start_ticks <= INT64_MAX);
    ASSERT(e->root == PROC_NO_ROOT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice line = {(const char *)data, size};
    struct text other = {0};
    struct proc_entry e;
    struct proc_entry again;
    uint64_t bytes = 7;

    if (proc_stat_parse(line, &e)) {
        const char *end = memrchr(line.p, ')', line.len);

        check(&e);
        text_add(&other, SLICE_LIT("1 (a) S 0 0 (\n "));
        text_add(&other, (struct slice){end, line.len - (size_t)(end - line.p)});
        ASSERT(proc_stat_parse(text_slice(&other), &again));
        ASSERT(again.ppid == e.ppid && again.pgrp == e.pgrp && again.session == e.session);
        ASSERT(again.start_ticks == e.start_ticks && again.cpu_ticks == e.cpu_ticks);
        ASSERT(again.rss_bytes == e.rss_bytes && again.zombie == e.zombie);
        text_fini(&other);
    }
    if (proc_rollup_parse(line, &bytes))
        ASSERT(bytes % 1024 == 0);
    else
        ASSERT(bytes == 7);
    return 0;
}
