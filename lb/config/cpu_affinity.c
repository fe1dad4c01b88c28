/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/config/cpu_affinity.h"

#include <errno.h>
#include <pthread.h>

#include "common/base/text.h"

static const char *add_list(struct cpu_affinity *a, struct slice text, const cpu_set_t *allowed)
{
    static const char syntax[] = "expected off, auto, or CPUs as in 0,2-5";
    bool more = true;
    cpu_set_t added;

    CPU_ZERO(&added);
    while (more) {
        size_t before = text.len;
        struct slice last = slice_cut(&text, ',');
        size_t len = last.len;
        struct slice first = slice_cut(&last, '-');
        uint64_t from;
        uint64_t to;

        more = len != before; /* or a comma at the end would go unnoticed */
        if (!parse_u64(first, CPU_SETSIZE - 1, &from))
            return syntax;
        to = from;
        if (first.len != len && (!parse_u64(last, CPU_SETSIZE - 1, &to) || to <= from))
            return syntax;
        for (uint64_t cpu = from; cpu <= to; ++cpu) {
            if (!CPU_ISSET(cpu, allowed))
                return "names a CPU that this process may not use";
            if (CPU_ISSET(cpu, &added))
                return "duplicate CPU";
            CPU_SET(cpu, &added);
            a->cpus[a->n++] = (unsigned short)cpu;
        }
    }
    return NULL;
}

const char *cpu_affinity_parse(struct slice text, const cpu_set_t *allowed,
                               struct cpu_affinity *out)
{
    struct cpu_affinity a = {0};
    const char *why = NULL;

    if (slice_is(text, "auto")) {
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (CPU_ISSET(cpu, allowed))
                a.cpus[a.n++] = (unsigned short)cpu;
        }
    } else if (!slice_is(text, "off")) {
        why = add_list(&a, text, allowed);
    }
    if (why == NULL)
        *out = a;
    return why;
}

int cpu_affinity_of(const struct cpu_affinity *a, unsigned i)
{
    return a->n != 0 ? a->cpus[i % a->n] : -1;
}

bool cpu_affinity_enter(int cpu)
{
    cpu_set_t set;

    if (cpu < 0)
        return true;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    int failed = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    if (failed != 0)
        errno = failed;
    return failed == 0;
}
