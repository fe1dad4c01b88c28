/* SPDX-License-Identifier: Apache-2.0
 *
 * What a node of a tree has: properties, providers, and nodes below it. Plain values; any thread,
 * one at a time.
 */
#ifndef RLB_TREE_NODE_DATA_H
#define RLB_TREE_NODE_DATA_H

#include "common/base/json.h"

#define NODE_STRING_VALUE "string_value"

/* ---- bytes, in the format of zc.zk ---- */

/*
 * The bytes are a JSON object; empty data means no properties; anything else is a single property,
 * `string_value`, which contains the bytes unchanged.
 */

/*
 * Returns the properties in BYTES, an object with a new reference. `string_value` may be invalid
 * text. why empty, or the reason for which text that begins like JSON was not accepted as such
 */
json_t *node_data_decode(struct slice bytes, char why[JSON_WHY_ROOM]);
/* Parses BYTES, at most MAX_BYTES, as a JSON object. Returns a new reference, or NULL with the
 * reason in WHY. */
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
    char *name;         /* of a provider, its address */
    json_t *properties; /* of a provider, an object; of a child node, NULL */
};

/* The providers of a node, or its child nodes. Reference counted; constant while shared. */
struct tree_set {
    unsigned refs;
    size_t n;
    struct tree_provider *items;
};

/* Creates an empty set with one reference. */
struct tree_set *tree_set_create(void);
/* Adds an item. Ownership of NAME and a reference to PROPERTIES pass to the set. */
void tree_set_add(struct tree_set *set, char *name, json_t *properties);
/* Sorts by name. Must be called once, after all items were added. */
void tree_set_sort(struct tree_set *set);
/* Adds a reference to SET, which may be NULL. Returns SET. */
struct tree_set *tree_set_ref(struct tree_set *set);
/* Releases the reference of *AT (may be NULL), and stores SET there with the caller's reference. */
void tree_set_replace(struct tree_set **at, struct tree_set *set);
bool tree_set_equal(const struct tree_set *a, const struct tree_set *b);
/* Returns the number of items. SET may be NULL. */
static inline size_t tree_set_count(const struct tree_set *set)
{
    return set != NULL ? set->n : 0;
}

#endif
