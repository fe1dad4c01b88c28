/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/process/failures.h"

#include <stdlib.h>
#include <time.h>

#include "common/base/log.h"

void failures_init(struct failures *f, unsigned nslots)
{
    *f = (struct failures){.of_slot = xcalloc((size_t)nslots + 1, sizeof(struct failure *)),
                           .nslots = nslots};
}

void failures_fini(struct failures *f)
{
    for (unsigned i = 0; i < f->nslots; ++i) {
        if (f->of_slot[i] != NULL)
            last_lines_fini(&f->of_slot[i]->lines);
        free(f->of_slot[i]);
    }
    free(f->of_slot);
    *f = (struct failures){0};
}

/* Applications get more slots as they are wanted. */
static void make_room(struct failures *f, unsigned slot)
{
    if (slot < f->nslots)
        return;
    f->of_slot = xrealloc(f->of_slot, ((size_t)slot + 1) * sizeof(struct failure *));
    while (f->nslots <= slot)
        f->of_slot[f->nslots++] = NULL;
}

const struct failure *failures_record(struct failures *f, const struct failure *what,
                                      const struct last_lines *lines)
{
    struct failure *to;

    make_room(f, what->slot);
    to = f->of_slot[what->slot];
    if (to == NULL)
        to = f->of_slot[what->slot] = xcalloc(1, sizeof(*to));
    last_lines_fini(&to->lines);
    *to = *what;
    to->lines = (struct last_lines){0};
    if (lines != NULL)
        last_lines_copy(&to->lines, lines);
    f->newest = to;
    return to;
}

const struct failure *failures_of(const struct failures *f, unsigned slot)
{
    return slot < f->nslots ? f->of_slot[slot] : NULL;
}

const char *failure_text(enum failure_kind k)
{
    switch (k) {
    case FAILURE_NOT_SPAWNED:
        return "could not be started";
    case FAILURE_START_TIMEOUT:
        return "was not ready in start_timeout";
    case FAILURE_DIED_STARTING:
        return "died before it was ready";
    case FAILURE_PORT_TAKEN:
        return "does not own the listener on its port";
    case FAILURE_DIED:
        return "died";
    case FAILURE_STUCK:
        return "did not answer in first_byte_timeout";
    }
    UNREACHABLE();
}

void failure_add_summary(const struct failure *f, struct text *out)
{
    text_addf(out, "slot %u: process ", f->slot);
    if (f->pid != 0)
        text_addf(out, "%ld ", f->pid);
    text_addf(out, "(%s) %s", f->id, failure_text(f->kind));
    if (f->how[0] == '\0')
        return;
    text_add(out, SLICE_LIT(": "));
    text_add_visible(out, slice_of(f->how));
}

/* An RFC 3339 time in UTC, to the second. */
static void put_time(struct json_writer *w, const char *name, time_t at)
{
    char text[32] = "";
    struct tm utc;

    gmtime_r(&at, &utc);
    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_put_text(w, name, slice_of(text));
}

void failure_describe(const struct failure *f, const char *name, uint64_t now_ms,
                      struct json_writer *w)
{
    struct text shown = {0};

    if (f == NULL) {
        json_put_null(w, name);
        return;
    }
    json_open_object(w, name);
    put_time(w, "at", time(NULL) - (time_t)((now_ms - f->at_ms) / 1000));
    json_put_real(w, "ago_s", (double)(now_ms - f->at_ms) / 1000);
    json_put_text(w, "what", slice_of(failure_text(f->kind)));
    text_add_visible(&shown, slice_of(f->how));
    json_put_text(w, "how", text_slice(&shown));
    json_put_int(w, "slot", f->slot);
    json_put_int(w, "pid", f->pid);
    json_put_text(w, "id", slice_of(f->id));
    json_open_array(w, "lines");
    for (size_t i = 0; i < f->lines.n; ++i) {
        text_clear(&shown);
        last_lines_show(&f->lines, i, &shown);
        json_put_text(w, NULL, text_slice(&shown));
    }
    json_close_array(w);
    json_close_object(w);
    text_fini(&shown);
}

void failure_log(const struct failure *f, const void *subject)
{
    struct text joined = {0};
    size_t first = f->lines.n;
    size_t bytes = 0;

    if (f->lines.n == 0)
        return;
    /* At least the last one, and before it as many as there is room for. */
    do
        bytes += last_lines_at(&f->lines, --first)->len + 3;
    while (first > 0 &&
           bytes + last_lines_at(&f->lines, first - 1)->len + 3 <= FAILURE_LOG_BYTES_MAX);
    for (size_t i = first; i < f->lines.n; ++i) {
        const struct last_line *line = last_lines_at(&f->lines, i);

        if (i > first)
            text_add(&joined, SLICE_LIT(" | "));
        text_add(&joined, (struct slice){line->bytes, line->len});
    }
    log_warn(subject, "process-last-output", "lines=\"%s\"", text_cstr(&joined));
    text_fini(&joined);
}
