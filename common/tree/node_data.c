/* SPDX-License-Identifier: Apache-2.0
 *
 * A lone text that would be decoded differently (as JSON, or as no properties) is written as a JSON
 * object, which zc.zk decodes to the same text.
 */
#include "common/tree/node_data.h"

#include "common/base/limits.h"
#include "common/base/literal.h"
#include "common/base/text.h"

#include <stdio.h>
#include <stdlib.h>

/* Strips the same bytes as Python. */
static struct slice strip_blanks(struct slice s)
{
    static const char blanks[] = " \t\n\r\v\f";

    while (s.len != 0 && s.p[0] != '\0' && strchr(blanks, s.p[0]) != NULL)
        s = (struct slice){s.p + 1, s.len - 1};
    while (s.len != 0 && s.p[s.len - 1] != '\0' && strchr(blanks, s.p[s.len - 1]) != NULL)
        --s.len;
    return s;
}

static bool looks_like_json(struct slice stripped)
{
    return slice_starts(stripped, SLICE_LIT("{")) && slice_ends(stripped, SLICE_LIT("}"));
}

json_t *node_data_decode(struct slice bytes, char why[JSON_WHY_ROOM])
{
    struct slice s = strip_blanks(utf8_skip_mark(bytes));
    json_t *v = NULL;

    why[0] = '\0';
    if (s.len == 0)
        return json_object();
    if (looks_like_json(s) && json_parse(s, NODE_BYTES_MAX, &v, why) == ERR_OK)
        return v;
    v = json_object();
    json_object_set_new(v, NODE_STRING_VALUE, json_stringn_nocheck(bytes.p, bytes.len));
    return v;
}

json_t *node_object_parse(struct slice bytes, size_t max_bytes, char why[JSON_WHY_ROOM])
{
    json_t *v = NULL;

    if (json_parse(utf8_skip_mark(bytes), max_bytes, &v, why) != ERR_OK)
        return NULL;
    if (json_is_object(v))
        return v;
    json_decref(v);
    snprintf(why, JSON_WHY_ROOM, "not a JSON object");
    return NULL;
}

/* Returns true if JSON can contain every string of V. The depth of V was limited by its parser. */
static bool all_text(const json_t *v)
{
    json_t *object = (json_t *)(uintptr_t)v; /* which is not changed */
    const char *name;
    json_t *member;

    if (json_is_string(v))
        return literal_is_text(json_slice(v));
    for (size_t i = 0; i < json_array_size(v); ++i) {
        if (!all_text(json_array_get(v, i)))
            return false;
    }
    json_object_foreach (object, name, member) {
        if (!all_text(member))
            return false;
    }
    return true;
}

enum err node_data_encode(const json_t *properties, bool text_as_json, size_t max_bytes,
                          struct text *out)
{
    struct slice alone = json_text(properties, NODE_STRING_VALUE);
    struct slice stripped = strip_blanks(alone);
    bool as_json = (text_as_json || looks_like_json(stripped)) && literal_is_text(alone);
    size_t start = out->len;
    json_t *again = NULL;

    if (json_object_size(properties) == 0)
        return ERR_OK;
    if (json_object_size(properties) == 1 && stripped.len != 0 && !as_json) {
        if (alone.len > max_bytes)
            return ERR_TOO_LARGE;
        text_add(out, alone);
        return ERR_OK;
    }
    if (!all_text(properties))
        return ERR_UNSUPPORTED;
    json_print(properties, out);
    /* Data that could not be read back must not be written. */
    if (json_parse((struct slice){out->p + start, out->len - start}, max_bytes, &again, NULL) !=
        ERR_OK) {
        out->len = start;
        return ERR_TOO_LARGE;
    }
    json_decref(again);
    return ERR_OK;
}

/* ---- sets ---- */

json_t *tree_set_sorted(json_t *set)
{
    const char **names = json_sorted_names(set);
    json_t *sorted = json_object();

    for (size_t i = 0; i < json_object_size(set); ++i)
        json_object_set_nocheck(sorted, names[i], json_object_get(set, names[i]));
    free(names);
    json_decref(set);
    return sorted;
}
