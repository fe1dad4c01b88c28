/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node of a tree has: properties, providers, and nodes below it. Plain values; any thread,
 * one at a time.
 */
#ifndef RLB_TREE_NODE_DATA_H
#define RLB_TREE_NODE_DATA_H

#include "common/base/json.h"

#define NODE_STRING_VALUE "string_value"

/* ---- bytes: as zc.zk has it ---- */

/*
 * The bytes are a JSON object; empty data means no properties; anything else is a single property,
 * `string_value`, which contains the bytes unchanged.
 */

/*
 * The properties in BYTES: an object, a new reference. `string_value` may be bytes that are no
 * text.
 *   why  empty, or why what looks like JSON was not taken as such
 */
json_t *node_data_decode(struct slice bytes, char why[JSON_WHY_ROOM]);
/* BYTES, at most MAX_BYTES, as a JSON object: a new reference. NULL: WHY not. */
json_t *node_object_parse(struct slice bytes, size_t max_bytes, char why[JSON_WHY_ROOM]);
/*
 * Append the bytes of PROPERTIES; they decode to the same. TEXT_AS_JSON: a lone text is not written
 * as it is, for readers that accept JSON alone.
 * Errors: ERR_TOO_LARGE (over MAX_BYTES, or over what json_parse takes), ERR_UNSUPPORTED (bytes
 * that are no text, and not alone).
 */
enum err node_data_encode(const json_t *properties, bool text_as_json, size_t max_bytes,
                          struct text *out) must_check;

/* ---- sets ---- */

struct tree_provider {
    char *name;         /* of a provider: the address */
    json_t *properties; /* of a provider: an object; of a node below: NULL */
};

/* The providers of a node, or the nodes below it. Reference counted; constant while shared. */
struct tree_set {
    unsigned refs;
    size_t n;
    struct tree_provider *items;
};

/* Empty; one reference. */
struct tree_set *tree_set_create(void);
/* Takes ownership of NAME and a reference of PROPERTIES. */
void tree_set_add(struct tree_set *set, char *name, json_t *properties);
/* By name; call once, after adding the items. */
void tree_set_sort(struct tree_set *set);
/* SET, which may be NULL, with one more reference. */
struct tree_set *tree_set_ref(struct tree_set *set);
/* *AT, which loses its reference (NULL: has none), becomes SET, of which the reference is taken. */
void tree_set_replace(struct tree_set **at, struct tree_set *set);
bool tree_set_equal(const struct tree_set *a, const struct tree_set *b);
/* SET may be NULL. */
static inline size_t tree_set_count(const struct tree_set *set)
{
    return set != NULL ? set->n : 0;
}

#endif
