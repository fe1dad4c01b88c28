/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages are small and errors rare: each page is built for its response, so that a configured page
 * may have any form.
 */
#include "lb/request/answer.h"

#include "common/wire/http1_bytes.h"

static const char built_in[] = "<!DOCTYPE html>\n"
                               "<html><head><title>${status} ${reason}</title></head>\n"
                               "<body><h1>${status} ${reason}</h1>\n"
                               "<p>Request ${request_id}</p></body></html>\n";

void answer_page(const struct answer *a, struct text *out)
{
    struct slice rest = a->page.len != 0 ? a->page : slice_of(built_in);
    char status[12];
    int digits = snprintf(status, sizeof(status), "%d", a->status);
    const struct {
        struct slice name, value;
    } variables[] = {{SLICE_LIT("${status}"), {status, (size_t)digits}},
                     {SLICE_LIT("${reason}"), slice_of(http_status_reason(a->status))},
                     {SLICE_LIT("${request_id}"), a->request_id}};

    while (rest.len != 0) {
        size_t i = 0;

        text_add(out, slice_take(&rest, slice_find(rest, '$')));
        while (i < ARRAY_LEN(variables) && !slice_starts(rest, variables[i].name))
            ++i;
        if (i < ARRAY_LEN(variables)) {
            text_add_html(out, variables[i].value);
            (void)slice_take(&rest, variables[i].name.len);
        } else {
            text_add(out, slice_take(&rest, 1)); /* the '$' of an unknown variable */
        }
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
