/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/process/process_output.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/base/log.h"
#include "worker-agent/config/settings.h"

/* ---- the last lines ---- */

void last_lines_add(struct last_lines *l, struct slice line)
{
    bool cut = line.len > LAST_LINE_BYTES_MAX;

    if (l->n == LAST_LINES_MAX) {
        free(l->at[0].bytes);
        memmove(l->at, l->at + 1, --l->n * sizeof(l->at[0]));
    }
    if (cut)
        line.len = LAST_LINE_BYTES_MAX;
    l->at[l->n++] = (struct last_line){.bytes = xslicedup(line), .len = line.len, .cut = cut};
}

void last_lines_show(const struct last_lines *l, size_t i, struct text *out)
{
    const struct last_line *line = &l->at[i];

    text_add_visible(out, (struct slice){line->bytes, line->len});
    if (line->cut)
        text_add(out, SLICE_LIT(" ..."));
}

void last_lines_fini(struct last_lines *l)
{
    for (size_t i = 0; i < l->n; ++i)
        free(l->at[i].bytes);
    *l = (struct last_lines){0};
}

/* ---- the output ---- */

/* Maximum bytes per turn, so that a process with much output does not occupy the loop. */
enum { READ_MAX = 64 * 1024 };

static void report_dropped(struct process_output *o)
{
    if (o->dropped == 0)
        return;
    log_warn(o->subject, "process-output-dropped", "lines=%u", o->dropped);
    if (o->stats != NULL)
        stat_add(o->stats, AGENT_STAT_output_dropped, o->dropped);
    o->dropped = 0;
}

/* WHOLE: the line ends here, not only the room for it. */
static void end_line(struct process_output *o, bool whole)
{
    uint64_t second = loop_now_ms(o->loop) / 1000;

    if (whole && o->len > 0 && o->line[o->len - 1] == '\r')
        --o->len;
    if (o->len > 0) {
        /* A long line comes in pieces; its beginning is stored. */
        if (o->within)
            o->last.at[o->last.n - 1].cut = true;
        else
            last_lines_add(&o->last, (struct slice){o->line, o->len});
        if (second != o->second) {
            report_dropped(o);
            o->second = second;
            o->lines = 0;
        }
        if (++o->lines > OUTPUT_LINES_PER_S) {
            ++o->dropped;
        } else {
            log_info(o->subject, "process-output", "line=\"%.*s\"", (int)o->len, o->line);
            if (o->stats != NULL)
                stat_add(o->stats, AGENT_STAT_output_lines, 1);
        }
    }
    o->len = 0;
    o->within = !whole;
}

/* False: nothing more will come. */
static bool output_read_some(struct process_output *o)
{
    char bytes[4096];

    for (size_t total = 0; total < READ_MAX;) {
        ssize_t n = TEMP_FAILURE_RETRY(read(o->fd, bytes, sizeof(bytes)));

        if (n < 0)
            return errno == EAGAIN;
        if (n == 0)
            return false;
        for (ssize_t i = 0; i < n; ++i) {
            if (bytes[i] == '\n') {
                end_line(o, true);
                continue;
            }
            o->line[o->len++] = bytes[i];
            if (o->len == OUTPUT_LINE_MAX)
                end_line(o, false);
        }
        total += (size_t)n;
    }
    return true;
}

static void close_output(struct process_output *o)
{
    watch_stop(o->watch);
    o->watch = NULL;
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
}

static void on_output_readable(void *context)
{
    struct process_output *o = context;

    if (!output_read_some(o))
        close_output(o);
}

void process_output_start(struct process_output *o, struct loop *l, int fd, const void *subject,
                          struct stats_cell *stats)
{
    *o = (struct process_output){.loop = l, .fd = fd, .subject = subject, .stats = stats};
    if (fd >= 0)
        o->watch = watch_start(l, fd, on_output_readable, o);
}

void process_output_mute(struct process_output *o, bool muted)
{
    if (o->loop == NULL || o->fd < 0 || (o->watch == NULL) == muted)
        return;
    watch_stop(o->watch);
    o->watch = muted ? NULL : watch_start(o->loop, o->fd, on_output_readable, o);
}

void process_output_stop(struct process_output *o)
{
    if (o->loop == NULL)
        return;
    if (o->watch != NULL)
        (void)output_read_some(o);
    end_line(o, true);
    report_dropped(o);
    close_output(o);
    o->loop = NULL;
}

const struct last_lines *process_output_last(struct process_output *o)
{
    if (o->watch != NULL)
        (void)output_read_some(o);
    return &o->last;
}

/* ---- failures ---- */

void failure_record(struct failure **to, const struct failure *what, const struct last_lines *lines)
{
    failure_destroy(*to);
    *to = xcalloc(1, sizeof(**to));
    **to = *what;
    (*to)->lines = (struct last_lines){0};
    for (size_t i = 0; lines != NULL && i < lines->n; ++i) {
        const struct last_line *line = &lines->at[i];

        last_lines_add(&(*to)->lines, (struct slice){line->bytes, line->len});
        (*to)->lines.at[i].cut = line->cut;
    }
}

void failure_destroy(struct failure *f)
{
    if (f == NULL)
        return;
    last_lines_fini(&f->lines);
    free(f);
}

static const char *const failure_texts[] = {
    [FAILURE_NOT_SPAWNED] = "could not be started",
    [FAILURE_START_TIMEOUT] = "was not ready in start_timeout",
    [FAILURE_DIED_STARTING] = "died before it was ready",
    [FAILURE_PORT_TAKEN] = "does not own the listener on its port",
    [FAILURE_DIED] = "died",
    [FAILURE_STUCK] = "did not respond in first_byte_timeout",
};

void failure_add_summary(const struct failure *f, struct text *out)
{
    text_addf(out, "slot %u: process ", f->slot);
    if (f->pid != 0)
        text_addf(out, "%ld ", f->pid);
    text_addf(out, "(%s) %s", f->id, failure_texts[f->kind]);
    if (f->how[0] == '\0')
        return;
    text_add(out, SLICE_LIT(": "));
    text_add_visible(out, slice_of(f->how));
}

void failure_describe(const struct failure *f, const char *name, uint64_t now_ms,
                      struct json_writer *w)
{
    struct text shown = {0};
    char at[32] = "";
    struct tm utc;

    if (f == NULL) {
        json_put_null(w, name);
        return;
    }
    json_open_object(w, name);
    time_t failed_at = time(NULL) - (time_t)((now_ms - f->at_ms) / 1000);
    (void)strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&failed_at, &utc));
    json_put_text(w, "at", slice_of(at));
    json_put_real(w, "ago_s", (double)(now_ms - f->at_ms) / 1000);
    json_put_text(w, "what", slice_of(failure_texts[f->kind]));
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
        bytes += f->lines.at[--first].len + 3;
    while (first > 0 && bytes + f->lines.at[first - 1].len + 3 <= FAILURE_LOG_BYTES_MAX);
    for (size_t i = first; i < f->lines.n; ++i) {
        const struct last_line *line = &f->lines.at[i];

        if (i > first)
            text_add(&joined, SLICE_LIT(" | "));
        text_add(&joined, (struct slice){line->bytes, line->len});
    }
    log_warn(subject, "process-last-output", "lines=\"%s\"", text_cstr(&joined));
    text_fini(&joined);
}
