/* SPDX-License-Identifier: Apache-2.0
 *
 * Linked into coverage builds only. The counts are written when a process ends by exit(), but some
 * processes end by _exit(); the linker replaces that by __wrap__exit (--wrap).
 */
#include <gcov.h>
#include <stdlib.h>

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

void __wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}
