/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/config/cpu_affinity.h"

#include <errno.h>
#include <pthread.h>

#include "common/base/text.h"

static bool has(const struct cpu_affinity *a, unsigned cpu)
{
    for (unsigned i = 0; i < a->n; ++i) {
        if (a->cpus[i] == cpu)
            return true;
    }
    return false;
}

static enum err add(struct cpu_affinity *a, unsigned cpu, const cpu_set_t *allowed)
{
    if (!CPU_ISSET(cpu, allowed))
        return ERR_NOT_FOUND;
    if (has(a, cpu))
        return ERR_BUSY;
    a->cpus[a->n++] = (unsigned short)cpu;
    return ERR_OK;
}

static enum err add_range(struct cpu_affinity *a, struct slice text, const cpu_set_t *allowed)
{
    struct slice last = text;
    struct slice first = slice_cut(&last, '-');
    bool single = first.len == text.len;
    enum err e = ERR_OK;
    uint64_t from;
    uint64_t to;

    if (!parse_u64(first, CPU_SETSIZE - 1, &from))
        return ERR_SYNTAX;
    if (single)
        to = from;
    else if (!parse_u64(last, CPU_SETSIZE - 1, &to) || to <= from)
        return ERR_SYNTAX;
    for (uint64_t cpu = from; cpu <= to && e == ERR_OK; ++cpu)
        e = add(a, (unsigned)cpu, allowed);
    return e;
}

static enum err add_list(struct cpu_affinity *a, struct slice text, const cpu_set_t *allowed)
{
    bool more = true;
    enum err e = ERR_OK;

    while (more && e == ERR_OK) {
        size_t before = text.len;
        struct slice one = slice_cut(&text, ',');

        more = one.len != before; /* or a comma at the end would go unnoticed */
        e = add_range(a, one, allowed);
    }
    return e;
}

static const char *why_not(enum err e)
{
    if (e == ERR_NOT_FOUND)
        return "names a CPU that this process may not use";
    if (e == ERR_BUSY)
        return "duplicate CPU";
    return "expected off, auto, or CPUs as in 0,2-5";
}

enum err cpu_affinity_parse(struct slice text, const cpu_set_t *allowed, struct cpu_affinity *out,
                            const char **why)
{
    struct cpu_affinity a = {0};
    enum err e = ERR_OK;

    if (slice_is(text, "auto")) {
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (CPU_ISSET(cpu, allowed))
                a.cpus[a.n++] = (unsigned short)cpu;
        }
    } else if (!slice_is(text, "off")) {
        e = add_list(&a, text, allowed);
    }
    if (e == ERR_OK)
        *out = a;
    else if (why != NULL)
        *why = why_not(e);
    return e;
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
