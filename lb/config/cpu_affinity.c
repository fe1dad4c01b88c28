/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/config/cpu_affinity.h"

#include <errno.h>
#include <pthread.h>

#include "common/base/text.h"

static const char *const syntax = "expected off, auto, or CPUs as in 0,2-5";

static const char *add(struct cpu_affinity *a, unsigned cpu, const cpu_set_t *allowed)
{
    if (!CPU_ISSET(cpu, allowed))
        return "names a CPU that this process may not use";
    for (unsigned i = 0; i < a->n; ++i) {
        if (a->cpus[i] == cpu)
            return "duplicate CPU";
    }
    a->cpus[a->n++] = (unsigned short)cpu;
    return NULL;
}

static const char *add_range(struct cpu_affinity *a, struct slice text, const cpu_set_t *allowed)
{
    struct slice last = text;
    struct slice first = slice_cut(&last, '-');
    const char *why = NULL;
    uint64_t from;
    uint64_t to;

    if (!parse_u64(first, CPU_SETSIZE - 1, &from))
        return syntax;
    to = from;
    if (first.len != text.len && (!parse_u64(last, CPU_SETSIZE - 1, &to) || to <= from))
        return syntax;
    for (uint64_t cpu = from; cpu <= to && why == NULL; ++cpu)
        why = add(a, (unsigned)cpu, allowed);
    return why;
}

static const char *add_list(struct cpu_affinity *a, struct slice text, const cpu_set_t *allowed)
{
    const char *why = NULL;
    bool more = true;

    while (more && why == NULL) {
        size_t before = text.len;
        struct slice one = slice_cut(&text, ',');

        more = one.len != before; /* or a comma at the end would go unnoticed */
        why = add_range(a, one, allowed);
    }
    return why;
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
