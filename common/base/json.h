/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson within bounds: bytes, depth (JSON_DEPTH_MAX), entries (JSON_ENTRIES_MAX), no duplicate
 * keys, no NUL in strings. Values are jansson's, reference counted. Any thread; each value is used
 * by one thread at a time.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/text.h"

#include <jansson.h>

/*
 * Parses exactly one JSON value of at most MAX_BYTES. *OUT is a new reference. WHY is NULL, or
 * receives the reason of a failure. Errors: ERR_SYNTAX, ERR_TOO_LARGE.
 */
#define JSON_WHY_ROOM 160
enum err json_parse(struct slice bytes, size_t max_bytes, json_t **out,
                    char why[JSON_WHY_ROOM]) must_check;
/* Returns the sorted names of the members of OBJ, json_object_size() of them. The caller frees
 * the array; the names belong to OBJ. */
const char **json_sorted_names(const json_t *obj);
/* Appends V as compact JSON with sorted keys; NULL is printed as null. */
void json_print(const json_t *v, struct text *out);
/* The same in another notation, such as that of Python. */
struct json_style {
    const char *comma, *colon, *yes, *no, *none;
    void (*add_string)(struct slice s, struct text *out); /* appends S with its quotes */
};
void json_print_as(const json_t *v, const struct json_style *style, struct text *out);
/* Returns V if it is a string, else SLICE_NULL. V may be NULL. */
static inline struct slice json_slice(const json_t *v)
{
    return (struct slice){json_string_value(v), json_string_length(v)};
}
/* The same for member NAME of OBJ. */
static inline struct slice json_text(const json_t *obj, const char *name)
{
    return json_slice(json_object_get(obj, name));
}
/* Appends the scalar V in the form that settings_set accepts (true, 12, 1.5, abc). Returns false
 * if V is NULL, null, an array or an object. */
bool json_scalar_text(const json_t *v, struct text *out);

/* ---- streaming writer, for documents that are too large to be built as a tree ---- */
struct json_writer {
    struct text *out;
    bool need_comma;
};
void json_open_object(struct json_writer *w,
                      const char *name); /* NAME is NULL in arrays and at the top level */
void json_close_object(struct json_writer *w);
void json_open_array(struct json_writer *w, const char *name);
void json_close_array(struct json_writer *w);
void json_put_text(struct json_writer *w, const char *name,
                   struct slice v); /* invalid UTF-8 is replaced by U+FFFD */
void json_put_int(struct json_writer *w, const char *name, int64_t v);
void json_put_real(struct json_writer *w, const char *name,
                   double v); /* written as null if not finite */
void json_put_bool(struct json_writer *w, const char *name, bool v);
void json_put_null(struct json_writer *w, const char *name);
/* Like json_put_real(), for a NAME from untrusted input, which may be empty. */
void json_put_real_named(struct json_writer *w, struct slice name, double v);
