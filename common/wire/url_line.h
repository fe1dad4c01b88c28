/* SPDX-License-Identifier: Apache-2.0
 *
 * A URL as users write it: http://host/path?query, https the same, or only /path?query. For lists
 * of URLs, and to explain how one would be routed. Strict: a URL that no request can contain is
 * rejected. Pure functions; slices point into the line.
 */
#pragma once

#include "common/base/base.h"

enum { URL_LINE_MAX = 8192, URL_HOST_MAX = 255 };

struct url_line {
    bool tls;           /* https */
    struct slice host;  /* with its port, as in the line; empty: only a path */
    struct slice path;  /* begins with '/'; "/" when there is none */
    struct slice query; /* after the '?'; without a fragment */
};

/* Returns NULL if LINE is valid; else a static error text, and OUT is untouched. */
const char *url_line_parse(struct slice line, struct url_line *out);
