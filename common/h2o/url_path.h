/* SPDX-License-Identifier: Apache-2.0
 *
 * The path of a request target in its normal form, by libh2o. Pure function; any thread.
 */
#ifndef RLB_H2O_URL_PATH_H
#define RLB_H2O_URL_PATH_H

#include "common/base/base.h"

/* Room for the path of a target of so many bytes: a "/" may be prepended. */
#define URL_PATH_ROOM(target_bytes) ((target_bytes) + 1)

/*
 * The path of TARGET, in origin form: without the query, percent-decoded once, "." and ".."
 * segments resolved. It begins with "/"; ".." does not leave the root. Empty segments and
 * incomplete escapes are preserved; decoded bytes may be any, including NUL and "/". An empty
 * target has the path "/".
 *
 * OUT has URL_PATH_ROOM(target.len) bytes of the caller's, none of which are TARGET's.
 * Returns bytes of OUT, or of TARGET if there is nothing to change, which is the usual case.
 * Cost: O(target.len); memory of 9 bytes per byte of TARGET during the call, unless it is returned.
 */
struct slice url_path_normalize(struct slice target, char *out);

#endif
