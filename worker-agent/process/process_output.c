/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/process/process_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "worker-agent/config/settings.h"

/* ---- the last lines ---- */

static struct last_line *line_at(struct last_lines *l, size_t i)
{
    return &l->ring[(l->first + i) % LAST_LINES_MAX];
}

void last_lines_add(struct last_lines *l, struct slice line)
{
    struct last_line *to;

    if (l->n == LAST_LINES_MAX) {
        free(l->ring[l->first].bytes);
        l->first = (l->first + 1) % LAST_LINES_MAX;
        --l->n;
    }
    to = line_at(l, l->n++);
    to->cut = line.len > LAST_LINE_BYTES_MAX;
    to->len = to->cut ? LAST_LINE_BYTES_MAX : line.len;
    to->bytes = xmalloc(to->len + 1);
    memcpy(to->bytes, line.len != 0 ? line.p : "", to->len);
}

void last_lines_cut(struct last_lines *l)
{
    if (l->n > 0)
        line_at(l, l->n - 1)->cut = true;
}

const struct last_line *last_lines_at(const struct last_lines *l, size_t i)
{
    ASSERT(i < l->n);
    return &l->ring[(l->first + i) % LAST_LINES_MAX];
}

void last_lines_show(const struct last_lines *l, size_t i, struct text *out)
{
    const struct last_line *line = last_lines_at(l, i);

    text_add_visible(out, (struct slice){line->bytes, line->len});
    if (line->cut)
        text_add(out, SLICE_LIT(" ..."));
}

void last_lines_copy(struct last_lines *to, const struct last_lines *from)
{
    ASSERT(to->n == 0);
    for (size_t i = 0; i < from->n; ++i) {
        const struct last_line *line = last_lines_at(from, i);

        last_lines_add(to, (struct slice){line->bytes, line->len});
        if (line->cut)
            last_lines_cut(to);
    }
}

void last_lines_fini(struct last_lines *l)
{
    for (size_t i = 0; i < l->n; ++i)
        free(line_at(l, i)->bytes);
    *l = (struct last_lines){0};
}

/* ---- the output ---- */

/* What one turn takes at most, so that a chatty process does not keep the loop. */
enum { READ_MAX = 64 * 1024 };

static void count(struct process_output *o, size_t row, int64_t n)
{
    if (o->stats != NULL)
        stat_add(o->stats, row, n);
}

static void tell_dropped(struct process_output *o)
{
    if (o->dropped == 0)
        return;
    log_warn(o->subject, "process-output-dropped", "lines=%u", o->dropped);
    count(o, AGENT_STAT_output_dropped, o->dropped);
    o->dropped = 0;
}

static void pass_line(struct process_output *o)
{
    uint64_t second = loop_now_ms(o->loop) / 1000;

    if (second != o->second) {
        tell_dropped(o);
        o->second = second;
        o->lines = 0;
    }
    if (++o->lines > OUTPUT_LINES_PER_S) {
        ++o->dropped;
        return;
    }
    log_info(o->subject, "process-output", "line=\"%.*s\"", (int)o->len, o->line);
    count(o, AGENT_STAT_output_lines, 1);
}

/* A long line comes in pieces; its beginning is kept. */
static void keep(struct process_output *o)
{
    if (o->within)
        last_lines_cut(&o->last);
    else
        last_lines_add(&o->last, (struct slice){o->line, o->len});
}

/* WHOLE: the line ends here, not only the room for it. */
static void end_line(struct process_output *o, bool whole)
{
    if (whole && o->len > 0 && o->line[o->len - 1] == '\r')
        --o->len;
    if (o->len > 0) {
        keep(o);
        pass_line(o);
    }
    o->len = 0;
    o->within = !whole;
}

static void take(struct process_output *o, const char *p, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        if (p[i] == '\n') {
            end_line(o, true);
            continue;
        }
        o->line[o->len++] = p[i];
        if (o->len == OUTPUT_LINE_MAX)
            end_line(o, false);
    }
}

/* False: nothing more will come. */
static bool read_some(struct process_output *o)
{
    char bytes[4096];

    for (size_t total = 0; total < READ_MAX;) {
        ssize_t n = read(o->fd, bytes, sizeof(bytes));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        if (n == 0)
            return false;
        take(o, bytes, (size_t)n);
        total += (size_t)n;
    }
    return true;
}

static void close_it(struct process_output *o)
{
    watch_stop(o->watch);
    o->watch = NULL;
    if (o->fd >= 0)
        close(o->fd);
    o->fd = -1;
}

static void on_readable(void *context)
{
    struct process_output *o = context;

    if (!read_some(o))
        close_it(o);
}

void process_output_start(struct process_output *o, struct loop *l, int fd, const void *subject,
                          struct stats_cell *stats)
{
    *o = (struct process_output){.loop = l, .fd = fd, .subject = subject, .stats = stats};
    if (fd < 0)
        return;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    o->watch = watch_start(l, fd, on_readable, o);
}

void process_output_mute(struct process_output *o, bool muted)
{
    if (o->loop == NULL || o->fd < 0 || o->muted == muted)
        return;
    o->muted = muted;
    watch_stop(o->watch);
    o->watch = muted ? NULL : watch_start(o->loop, o->fd, on_readable, o);
}

void process_output_stop(struct process_output *o)
{
    if (o->loop == NULL)
        return;
    if (o->fd >= 0 && !o->muted)
        (void)read_some(o);
    end_line(o, true);
    tell_dropped(o);
    close_it(o);
    o->loop = NULL;
}

const struct last_lines *process_output_last(struct process_output *o)
{
    if (o->loop != NULL && o->fd >= 0)
        (void)read_some(o);
    return &o->last;
}

void process_output_forget(struct process_output *o)
{
    ASSERT(o->loop == NULL);
    last_lines_fini(&o->last);
}
