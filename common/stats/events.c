/* SPDX-License-Identifier: Apache-2.0 */
#include "common/stats/events.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/json.h"

void events_fini(struct events *e)
{
    free(e->ring);
    *e = (struct events){0};
}

void events_add(struct events *e, const char *kind, bool bad, const char *application,
                const char *subject, const char *text)
{
    if (e->ring == NULL)
        e->ring = xcalloc(EVENTS_MAX, sizeof(*e->ring));
    struct event *at = &e->ring[e->serial % EVENTS_MAX];
    *at = (struct event){.serial = ++e->serial,
                         .wall_ms = clock_wall_us() / 1000,
                         .mono_ms = clock_mono_us() / 1000,
                         .kind = kind,
                         .bad = bad};
    snprintf(at->application, sizeof(at->application), "%s", application);
    snprintf(at->subject, sizeof(at->subject), "%s", subject);
    snprintf(at->text, sizeof(at->text), "%s", text);
}

void events_json(const struct events *e, uint64_t after, uint64_t now_ms, struct text *out)
{
    struct json_writer w = {.out = out};
    size_t n = 0;

    /* Counts the newest events: those of the last hour with a serial above AFTER. */
    for (; n < EVENTS_MAX && n < e->serial; ++n) {
        const struct event *x = &e->ring[(e->serial - 1 - n) % EVENTS_MAX];

        if (x->mono_ms + EVENTS_AGE_MS < now_ms || x->serial <= after)
            break;
    }
    json_open_object(&w, NULL);
    json_open_array(&w, "events");
    while (n-- != 0) {
        const struct event *x = &e->ring[(e->serial - 1 - n) % EVENTS_MAX];

        json_open_object(&w, NULL);
        json_put_int(&w, "id", (int64_t)x->serial);
        json_put_real(&w, "time", (double)x->wall_ms / 1000);
        json_put_text(&w, "kind", slice_of(x->kind));
        json_put_bool(&w, "bad", x->bad);
        json_put_text(&w, "application", slice_of(x->application));
        json_put_text(&w, "subject", slice_of(x->subject));
        json_put_text(&w, "text", slice_of(x->text));
        json_close_object(&w);
    }
    json_close_array(&w);
    json_close_object(&w);
    text_add_char(out, '\n');
}
