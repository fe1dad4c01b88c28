/* SPDX-License-Identifier: Apache-2.0
 *
 * The value of a `priority` field or of a PRIORITY_UPDATE frame (RFC 9218 section 4): how soon a
 * client needs a response, and whether it can use parts of it. Pure function; any thread.
 */
#pragma once

#include "common/base/base.h"

enum {
    URGENCY_DEFAULT = 3,
    URGENCY_LEVELS = 8, /* 0 is the most urgent */
};

struct urgency {
    uint8_t level;    /* 0..URGENCY_LEVELS - 1 */
    bool incremental; /* parts are useful: it is served in rotation with others of its level */
};
#define URGENCY_UNSTATED ((struct urgency){.level = URGENCY_DEFAULT})

/*
 * The urgency that VALUE states, a dictionary of structured fields (RFC 9651 section 3.2). What it
 * does not state, states out of range, or states as another type is that of BASE: URGENCY_UNSTATED
 * for a client's, the request's for a response's field (section 8). If VALUE is malformed, it
 * states nothing. Unknown members and all parameters are ignored; of a repeated member the last one
 * counts. Cost: O(value.len).
 */
struct urgency priority_field_parse(struct slice value, struct urgency base);
