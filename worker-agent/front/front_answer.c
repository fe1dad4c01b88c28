/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent answers by itself: outcome.def, and what a load balancer is told beside.
 */
#include "worker-agent/front/error_body.h"
#include "worker-agent/front/front_internal.h"

enum note {
    NOTE_NONE,
    NOTE_UNPROCESSED, /* no byte reached a process: anybody else may have any request */
    NOTE_FAILED,      /* a process had it and failed it: another may have what is safe to repeat */
};

static const struct {
    int status;
    enum note note;
    int figure; /* enum agent_stat, or FIGURE_NONE */
    struct slice text;
} outcomes[OUTCOMES] = {
#define AGENT_STAT_NONE FIGURE_NONE
#define OUTCOME(name, status, note, figure, text, doc)                                             \
    [OUTCOME_##name] = {status, NOTE_##note, AGENT_STAT_##figure, {text "\n", sizeof(text)}},
#include "worker-agent/config/outcome.def"
#undef OUTCOME
#undef AGENT_STAT_NONE
};

void outcome_print(enum outcome o, struct text *out)
{
    text_addf(out, "%d ", outcomes[o].status);
    /* Without its line end. */
    text_add(out, (struct slice){outcomes[o].text.p, outcomes[o].text.len - 1});
}

int outcome_figure(enum outcome o)
{
    return outcomes[o].figure;
}

int front_status_figure(int status)
{
    static const enum agent_stat rows[] = {AGENT_STAT_responses_2xx, AGENT_STAT_responses_3xx,
                                           AGENT_STAT_responses_4xx, AGENT_STAT_responses_5xx};

    return status >= 200 && status < 600 ? (int)rows[status / 100 - 2] : FIGURE_NONE;
}

enum outcome front_refusal(enum slot_refusal why)
{
    static const enum outcome of[] = {
        [SLOT_QUEUE_FULL] = OUTCOME_QUEUE_FULL,   [SLOT_QUEUE_TIMEOUT] = OUTCOME_QUEUE_WAIT,
        [SLOT_NOT_STARTED] = OUTCOME_NOT_STARTED, [SLOT_NO_ROOM] = OUTCOME_NO_ROOM,
        [SLOT_STOPPED] = OUTCOME_STOPPING,
    };

    return of[why];
}

void front_answer(struct http_reply *reply, enum outcome o, const size_t *backlog,
                  const struct front_whose *whose)
{
    struct http_request *req = reply->req;
    struct text shown = {0};
    const char *type = front_explain(req, o, outcomes[o].text, whose, &shown);

    if (backlog != NULL) {
        front_put_backlog(req, *backlog);
        if (outcomes[o].note == NOTE_UNPROCESSED)
            http_request_answer(req, "Resumelb-Unprocessed", SLICE_LIT("1"));
        if (outcomes[o].note == NOTE_FAILED)
            http_request_answer(req, "Resumelb-Failed", SLICE_LIT("1"));
    } else if (outcomes[o].status == 503) {
        /* Seconds: a place may be free any moment. */
        http_request_answer(req, "Retry-After", SLICE_LIT("1"));
    }
    if (type != NULL) {
        http_request_answer(req, "Content-Security-Policy", SLICE_LIT(ERROR_BODY_POLICY));
        http_request_answer(req, "X-Content-Type-Options", SLICE_LIT("nosniff"));
    }
    http_reply_simple(reply, outcomes[o].status, type != NULL ? type : "text/plain; charset=utf-8",
                      type != NULL ? text_slice(&shown) : outcomes[o].text);
    text_fini(&shown);
}
