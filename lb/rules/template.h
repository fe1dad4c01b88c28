/* SPDX-License-Identifier: Apache-2.0
 *
 * A template: text with {class} and {VARIABLE}s of the environment that classifiers see
 * (classify.h). Immutable once parsed; owned by its rule. Any thread, several at once.
 */
#pragma once

#include "lb/rules/classify.h"

enum {
    /* Texts and values; each HTTP_* searches the request's fields. */
    TEMPLATE_PARTS_MAX = 16,
};

enum template_part_kind { TEMPLATE_TEXT, TEMPLATE_CLASS, TEMPLATE_VARIABLE };

struct template_part {
    enum template_part_kind kind;
    char *text; /* the text, or the name of the variable */
    size_t len;
};

struct template
{
    size_t n;
    struct template_part *parts;
};

/* What a kind of template permits, and the error of one that exceeds it. */
struct template_kind {
    size_t bytes_max;
    char first; /* the least permitted byte; the greatest is '~' */
    const char *too_long, *bad_byte, *bad_name;
};

/*
 * Parses TEXT into *OUT. Returns NULL, or the reason for which it is not a template of kind K
 * (constant), with the offset of the error in *AT. template_fini() must be called in either case.
 */
const char *template_parse(const struct template_kind *k, struct slice text, struct template *out,
                           size_t *at);
void template_fini(struct template *t);
