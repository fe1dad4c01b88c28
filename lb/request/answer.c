/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages are small and errors rare: each page is built for its response, so that a configured page
 * may have any form.
 */
#include "lb/request/answer.h"

#include "lb/request/headers.h"

static const char built_in[] = "<!DOCTYPE html>\n"
                               "<html><head><title>${status} ${reason}</title></head>\n"
                               "<body><h1>${status} ${reason}</h1>\n"
                               "<p>Request ${request_id}</p></body></html>\n";

/* Returns the value of variable NAME; p is NULL if it is unknown, and is then not replaced. */
static struct slice value_of(const struct answer *a, struct slice name, char status[12])
{
    if (slice_is(name, "status")) {
        snprintf(status, 12, "%d", a->status);
        return slice_of(status);
    }
    if (slice_is(name, "reason"))
        return slice_of(http_status_reason(a->status));
    if (slice_is(name, "request_id"))
        return a->request_id.p != NULL ? a->request_id : SLICE_LIT("");
    return SLICE_NULL;
}

void answer_page(const struct answer *a, struct text *out)
{
    struct slice rest = a->page.len != 0 ? a->page : slice_of(built_in);
    char status[12];

    while (rest.len != 0) {
        size_t at = slice_find(rest, '$');

        if (at == SIZE_MAX)
            at = rest.len;
        text_add(out, (struct slice){rest.p, at});
        rest.p += at;
        rest.len -= at;
        if (rest.len == 0)
            break;
        size_t end = rest.len > 1 && rest.p[1] == '{' ? slice_find(rest, '}') : SIZE_MAX;
        struct slice value = SLICE_NULL;

        if (end != SIZE_MAX)
            value = value_of(a, (struct slice){rest.p + 2, end - 2}, status);
        size_t used = value.p != NULL ? end + 1 : 1;

        if (value.p != NULL)
            text_add_html(out, value);
        else
            text_add_char(out, '$');
        rest.p += used;
        rest.len -= used;
    }
}

void answer_send(const struct answer *a, struct http_reply *r)
{
    struct text page = {0};

    /* Intermediate caches must not store error pages. */
    http_request_answer(r->req, "Cache-Control", SLICE_LIT("no-store"));
    if ((a->status == 503 || a->status == 429) && a->retry_after_ms != 0) {
        char seconds[24];
        int n = snprintf(seconds, sizeof(seconds), "%llu",
                         (unsigned long long)(a->retry_after_ms + 999) / 1000);

        http_request_answer(r->req, "Retry-After", (struct slice){seconds, (size_t)n});
    }
    if (a->pass_request_id)
        http_request_answer(r->req, "X-Request-ID", a->request_id);
    answer_page(a, &page);
    http_reply_simple(r, a->status, "text/html; charset=utf-8", text_slice(&page));
    text_fini(&page);
}
