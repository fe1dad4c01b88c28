/* SPDX-License-Identifier: Apache-2.0
 *
 * RLB_CHECKED is defined in builds with the address sanitizer. Memory that would be retained for
 * reuse is freed instead in these builds, so that the sanitizer detects uses after free.
 */
#ifndef RLB_BASE_CHECKED_H
#define RLB_BASE_CHECKED_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RLB_CHECKED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define RLB_CHECKED
#endif

#endif
