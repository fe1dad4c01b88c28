/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() of the unit tests of one directory. Each source's own main() is renamed to
 * NOUN_test_part() (rlb_test_programs); the argument is the noun of the one to run. Exit status:
 * that part's; 2 without a known noun.
 */
#include "tests/support/test_parts.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *noun;
    int (*run)(void);
} parts[] = {
#define TEST_PART(noun) {#noun, noun##_test_part},
#include "test_parts.def"
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof parts / sizeof parts[0]; ++i) {
        if (strcmp(argv[1], parts[i].noun) == 0)
            return parts[i].run();
    }
    fprintf(stderr, "usage: %s NOUN, one of:", argv[0]);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; ++i)
        fprintf(stderr, " %s", parts[i].noun);
    fputc('\n', stderr);
    return 2;
}
