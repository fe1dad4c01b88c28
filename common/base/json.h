/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson within bounds: bytes, depth (JSON_DEPTH_MAX), entries (JSON_ENTRIES_MAX), no duplicate
 * keys, no NUL in strings. Values are jansson's, reference counted. Any thread, one value one
 * thread.
 */
#ifndef RLB_BASE_JSON_H
#define RLB_BASE_JSON_H

#include "common/base/err.h"
#include "common/base/text.h"

#include <jansson.h>

/*
 * Parse exactly one JSON value of at most MAX_BYTES.  WHY: NULL, or room for a reason.
 * Errors: ERR_SYNTAX, ERR_TOO_LARGE.
 */
#define JSON_WHY_ROOM 160
enum err json_parse(struct slice bytes, size_t max_bytes, json_t **out,
                    char why[JSON_WHY_ROOM]) must_check;
/* The names in OBJ, sorted, json_object_size() of them. Free the array, not the names. */
const char **json_sorted_names(const json_t *obj);
/* Compact text of V (sorted keys; NULL: null), appended. */
void json_print(const json_t *v, struct text *out);
/* The same in another notation. */
struct json_style {
    const char *comma, *colon, *yes, *no, *none;
    void (*add_string)(struct slice s, struct text *out); /* in quotes */
};
void json_print_as(const json_t *v, const struct json_style *style, struct text *out);
/* Member NAME of OBJ as a slice when it is a string; SLICE_NULL otherwise. */
struct slice json_text(const json_t *obj, const char *name);
/* A scalar as the text settings_set takes (true, 12, 1.5, abc); false for NULL, null, arrays,
 * objects. */
bool json_scalar_text(const json_t *v, struct text *out);

/* ---- writing, for what is too large to build as a tree: a tiny streaming writer into a text ----
 */
struct json_writer {
    struct text *out;
    bool need_comma;
};
void json_open_object(struct json_writer *w,
                      const char *name); /* NAME NULL inside arrays and at the top */
void json_close_object(struct json_writer *w);
void json_open_array(struct json_writer *w, const char *name);
void json_close_array(struct json_writer *w);
void json_put_text(struct json_writer *w, const char *name,
                   struct slice v); /* invalid UTF-8 is replaced */
void json_put_int(struct json_writer *w, const char *name, int64_t v);
void json_put_real(struct json_writer *w, const char *name, double v); /* not finite: null */
void json_put_bool(struct json_writer *w, const char *name, bool v);
void json_put_null(struct json_writer *w, const char *name);
/* The same for a NAME from untrusted input, which may be empty. */
void json_put_real_named(struct json_writer *w, struct slice name, double v);

#endif
