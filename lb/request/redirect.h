/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain listener that sends every client to https (redirect_https).
 */
#ifndef RLB_LB_REQUEST_REDIRECT_H
#define RLB_LB_REQUEST_REDIRECT_H

#include "common/base/text.h"

/* What such a listener's connections have for a tag; others have NULL. */
struct redirect {
    unsigned port; /* where https is served */
};

/*
 * Where a request for TARGET ("/...", or "*") of AUTHORITY goes: "https://host[:port]/...",
 * appended to OUT. False: AUTHORITY, host[:port] or empty, names no host.
 */
bool redirect_location(const struct redirect *to, struct slice authority, struct slice target,
                       struct text *out) must_check;

#endif
