/* SPDX-License-Identifier: Apache-2.0
 *
 * RFC 9110 7.6.1 (Connection), 8.6 (Content-Length).
 */
#include "common/http/http_fields.h"

#include "common/base/put.h"
#include "common/http/http_request.h"
#include "common/wire/http1_bytes.h"

bool http_request_lists(const struct message_fields *fields, struct slice name)
{
    if (!message_fields_may_have(fields, FIELD_BIT(FIELD_CONNECTION)))
        return false;
    for (size_t i = 0; i < fields->n; ++i) {
        const struct message_field *f = &fields->at[i];

        if (f->kind == FIELD_CONNECTION && http1_list_has(f->value, name))
            return true;
    }
    return false;
}

bool http_response_lists(const struct http1_head *head, struct slice name)
{
    for (size_t i = 0; i < head->nheaders; ++i) {
        if (head->headers[i].kind == FIELD_CONNECTION &&
            http1_list_has(head->headers[i].value, name))
            return true;
    }
    return false;
}

void http_put_field(struct text *out, struct slice name, struct slice value)
{
    /* Room for all at once; the rest is then mere copying. */
    char *at = text_reserve(out, name.len + value.len + PUT_LINE_EXTRA);

    out->len = (size_t)(put_line(at, name, value) - out->p);
}

/* RFC 9110 8.6 */
static bool announces_body(struct slice method)
{
    return slice_is(method, "POST") || slice_is(method, "PUT") || slice_is(method, "PATCH");
}

void http_put_length(struct slice method, struct slice body, struct text *out)
{
    if (body.p == NULL && !announces_body(method))
        return;
    text_add(out, SLICE_LIT("Content-Length: "));
    text_add_u64(out, body.p != NULL ? body.len : 0);
    text_add(out, SLICE_LIT("\r\n"));
}
