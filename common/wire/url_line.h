/* SPDX-License-Identifier: Apache-2.0
 *
 * A URL as people write it down: http://host/path?query, https the same, or only /path?query. For
 * lists of URLs, and for "what would become of this one". Strict: what no request could ask for is
 * refused. Pure functions; slices point into the line.
 */
#ifndef RLB_WIRE_URL_LINE_H
#define RLB_WIRE_URL_LINE_H

#include "common/base/base.h"

enum { URL_LINE_MAX = 8192, URL_HOST_MAX = 255 };

struct url_line {
    bool tls;           /* https */
    struct slice host;  /* with its port, as it stands there; empty: only a path */
    struct slice path;  /* begins with '/'; "/" when there is none */
    struct slice query; /* behind the '?'; a fragment is left away */
};

/* NULL, and OUT is filled; else what is wrong with it, for humans. */
const char *url_line_parse(struct slice line, struct url_line *out);

#endif
