/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken names allowed CPUs, each once, and is the same when written out one by one.
 */
#include "lb/config/cpu_affinity.h"

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cpu_affinity a = {0};
    struct cpu_affinity again = {0};
    struct text text = {0};
    cpu_set_t allowed;

    CPU_ZERO(&allowed);
    for (unsigned cpu = 0; cpu < 48; ++cpu)
        CPU_SET(cpu % 3 == 2 ? 64 + cpu : cpu, &allowed);
    if (cpu_affinity_parse((struct slice){(const char *)data, size}, &allowed, &a) != NULL) {
        ASSERT(a.n == 0);
        return 0;
    }
    for (unsigned i = 0; i < a.n; ++i) {
        ASSERT(CPU_ISSET(a.cpus[i], &allowed));
        CPU_CLR(a.cpus[i], &allowed);
        text_addf(&text, "%s%u", i != 0 ? "," : "", (unsigned)a.cpus[i]);
    }
    for (unsigned i = 0; i < a.n; ++i)
        CPU_SET(a.cpus[i], &allowed);
    if (a.n == 0)
        return 0;
    const char *why = cpu_affinity_parse((struct slice){text.p, text.len}, &allowed, &again);
    ASSERT(why == NULL);
    ASSERT(again.n == a.n);
    ASSERT(memcmp(again.cpus, a.cpus, a.n * sizeof(a.cpus[0])) == 0);
    text_fini(&text);
    return 0;
}
