/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node of a tree has: properties, providers, and nodes below it. Plain values; any thread,
 * one at a time.
 */
#pragma once

#include "common/base/json.h"

#define NODE_STRING_VALUE "string_value"

/* ---- bytes, in the format of zc.zk ---- */

/*
 * The bytes are a JSON object; empty data means no properties; anything else is a single property,
 * `string_value`, which contains the bytes unchanged.
 */

/*
 * Returns the properties in BYTES, an object with a new reference. `string_value` may be invalid
 * text. WHY is empty, or the reason for which text that looks like JSON was not accepted as such.
 */
json_t *node_data_decode(struct slice bytes, char why[JSON_WHY_ROOM]);
/* Parses BYTES, at most MAX_BYTES, as a JSON object. Returns a new reference, or NULL with the
 * reason in WHY. */
json_t *node_object_parse(struct slice bytes, size_t max_bytes, char why[JSON_WHY_ROOM]);
/*
 * Appends the bytes of PROPERTIES, which decode to the same properties. TEXT_AS_JSON: a lone text
 * is written as a JSON object too, for readers that accept only JSON. Errors: ERR_TOO_LARGE (over
 * MAX_BYTES or the limits of json_parse), ERR_UNSUPPORTED (a string that is not valid text, unless
 * it is the only property).
 */
enum err node_data_encode(const json_t *properties, bool text_as_json, size_t max_bytes,
                          struct text *out) must_check;

/* ---- sets ---- */

/*
 * The providers of a node, or its child nodes: a JSON object with the properties of each provider
 * by its name (its address), or null by the name of each child node; in the order of the names.
 * Constant while shared.
 */

/* Returns the members of SET in order, with a new reference. That of SET is released. */
json_t *tree_set_sorted(json_t *set);
/* Releases the reference of *AT (may be NULL), and stores SET there with the caller's reference. */
static inline void tree_set_replace(json_t **at, json_t *set)
{
    json_decref(*at);
    *at = set;
}
