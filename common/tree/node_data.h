/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts between the bytes of a tree's node and its properties, with the rules of zc.zk: the
 * bytes are a JSON object; empty data means no properties; anything else is a single property,
 * `string_value`, which contains the bytes unchanged. Pure functions; any thread.
 */
#ifndef RLB_TREE_NODE_DATA_H
#define RLB_TREE_NODE_DATA_H

#include "common/base/json.h"

#define NODE_STRING_VALUE "string_value"

/*
 * The properties in BYTES: an object, a new reference. `string_value` may be bytes that are no
 * text.
 *   why  empty, or why what looks like JSON was not taken as such
 */
json_t *node_data_decode(struct slice bytes, char why[JSON_WHY_ROOM]);
/*
 * Append the bytes of PROPERTIES; they decode to the same.
 * Errors: ERR_TOO_LARGE (over MAX_BYTES, or over what json_parse takes), ERR_UNSUPPORTED (bytes
 * that are no text, and not alone).
 */
enum err node_data_encode(const json_t *properties, size_t max_bytes, struct text *out) must_check;

#endif
