/* SPDX-License-Identifier: Apache-2.0
 *
 * RLB_CHECKED is defined where the address sanitizer looks at the heap. Memory that is kept for
 * later use is given back there instead, so that it is seen who uses it after that.
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
