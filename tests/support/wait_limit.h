/* SPDX-License-Identifier: Apache-2.0
 *
 * The one limit of any wait for a condition in the tests of units. CTest's own limits lie above it.
 */
#ifndef RLB_TESTS_SUPPORT_WAIT_LIMIT_H
#define RLB_TESTS_SUPPORT_WAIT_LIMIT_H

enum { WAIT_LIMIT_MS = 60000 };

#endif
