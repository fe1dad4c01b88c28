/* SPDX-License-Identifier: Apache-2.0
 *
 * show_errors: why a request was not served, in the body of its answer.
 */
#include "worker-agent/front/front_internal.h"

#include "common/http/http_request.h"
#include "worker-agent/front/error_body.h"
#include "worker-agent/pool/app_group.h"
#include "worker-agent/pool/app_pool.h"

/* Whether a process may have said why; a full queue explains itself. */
static bool is_explained(enum outcome o)
{
    return o == OUTCOME_NOT_STARTED || o == OUTCOME_NOT_REACHED || o == OUTCOME_FAILED ||
           o == OUTCOME_LATE;
}

/* Whether the client says that it reads HTML. */
static bool wants_html(const struct http_request *req)
{
    const struct message_field *accept =
        message_fields_find(&req->fields, SLICE_LIT("accept"), NULL);
    struct slice html = SLICE_LIT("text/html");

    if (accept == NULL)
        return false;
    for (struct slice rest = accept->value; rest.len != 0;) {
        struct slice item = slice_cut(&rest, ',');

        if (slice_eq_nocase(slice_trim(slice_cut(&item, ';')), html))
            return true;
    }
    return false;
}

const char *front_explain(const struct http_request *req, enum outcome o, struct slice reason,
                          const struct front_whose *whose, struct text *out)
{
    const struct app_group *g = whose->group;
    struct app_process *p = NULL;
    bool html;

    if (!g->s->show_errors || !is_explained(o))
        return NULL;
    struct error_facts e = {.reason = slice_trim(reason), .now_ms = loop_now_ms(g->pool->loop)};
    e.failure =
        whose->slot != NULL ? failures_of(&g->failures, whose->slot->n) : g->failures.newest;
    /* A process that has just died of the request may not have been reported yet. */
    if (whose->slot != NULL && (o == OUTCOME_FAILED || o == OUTCOME_LATE))
        p = slot_process(whose->slot);
    if (p != NULL) {
        e.lines = process_output_last(&p->output);
        e.pid = p->pid;
    }
    html = wants_html(req);
    error_body(&e, html, out);
    return html ? "text/html; charset=utf-8" : "text/plain; charset=utf-8";
}
