/* SPDX-License-Identifier: Apache-2.0
 *
 * Error pages of an application, as read from its files: which one a client gets, and its type.
 * Constant after they are read; any thread.
 */
#pragma once

#include "common/base/text.h"
#include "common/http/http_request.h"

enum { ERROR_PAGES_MAX = 8 };

struct error_pages {
    size_t n;
    struct {
        struct text text;
        const char *type; /* Content-Type; a literal */
    } items[ERROR_PAGES_MAX];
};

void error_pages_fini(struct error_pages *p);
/* Returns the Content-Type for the suffix of PATH (NULL is allowed); that of HTML if unknown. */
const char *error_page_type(const char *path);
/* Returns the index of the page of the type that the Accept fields of a request prefer; of the
 * first page if they prefer none. */
size_t error_pages_choose(const struct error_pages *p, const struct message_fields *fields);
