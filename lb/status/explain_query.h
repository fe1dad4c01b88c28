/* SPDX-License-Identifier: Apache-2.0
 *
 * The query of /explain: class=CLASS or url=URL, and application=NAME. The class is written as in
 * the access log and on the status page; all are percent-encoded as in any query ('+' is itself).
 * Bounded and strict: unknown or duplicate parameters are rejected. Plain computation.
 */
#ifndef RLB_LB_STATUS_EXPLAIN_QUERY_H
#define RLB_LB_STATUS_EXPLAIN_QUERY_H

#include "common/base/base.h"
#include "common/base/limits.h"

enum {
    EXPLAIN_QUERY_MAX = 2048,
    EXPLAIN_APPLICATION_MAX = 255,
    EXPLAIN_URL_MAX = EXPLAIN_QUERY_MAX,
};

struct explain_query {
    char application[EXPLAIN_APPLICATION_MAX];
    char cls[CLASS_BYTES_MAX];
    char url[EXPLAIN_URL_MAX]; /* as common/wire/url_line.h takes it */
    size_t application_len, cls_len, url_len;
    bool has_application, has_class, has_url;
};

/* NULL, and OUT is filled: it has a class or a URL, not both.
 * Else what is wrong with it, for humans. */
const char *explain_query_parse(struct slice query, struct explain_query *out);

#endif
