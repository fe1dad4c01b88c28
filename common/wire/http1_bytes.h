/* SPDX-License-Identifier: Apache-2.0
 *
 * Which bytes HTTP/1.x allows where: shared by the parsers of this folder. Pure functions over
 * borrowed bytes; any thread.
 */
#ifndef RLB_WIRE_HTTP1_BYTES_H
#define RLB_WIRE_HTTP1_BYTES_H

#include "common/base/text.h"

/* Whether every byte may stand in a field value or a reason: no control characters but HTAB. */
bool http1_is_text(struct slice s);
/* Whether S is a token (RFC 9110 section 5.6.2): a method, a field name. Never empty. */
bool http1_is_token(struct slice s);
/* How many bytes of it are text as above, from its start on. */
size_t http1_text_length(struct slice s);
/* How many bytes at the start of S are of a token. */
size_t http1_token_length(struct slice s);
/*
 * A byte of a field's name as CGI-like interfaces see it: to them "Accept-Language" and
 * "accept_language" are one variable.
 */
static inline char http1_variable_byte(char c)
{
    if (c == '_')
        return '-';
    return ascii_lower(c);
}
/*
 * Split a header line (without CRLF) into NAME and VALUE, the latter without blanks around it.
 * False for anything but "token:text": a folded line, a blank before the colon, an empty name.
 */
bool http1_split_header(struct slice line, struct slice *name, struct slice *value);
/* The same of a line that http1_is_text has been asked about. */
bool http1_split_text(struct slice line, struct slice *name, struct slice *value);

#endif
