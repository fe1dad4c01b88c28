/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl trace: what a trace log says.
 */
#include "ctl/inspect/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/cli/command.h"

enum { TOP_DEFAULT = 20, TOP_MAX = TRACE_URLS_MAX };

struct trace_run {
    const struct ctl_command *command;
    const char *file;
    struct trace_print print;
    bool json;
};

static int take(void *context, int letter, const char *value)
{
    struct trace_run *run = context;

    switch (letter) {
    case 'n':
        return ctl_take_number(run->command, "top", value, 0, TOP_MAX, &run->print.top);
    case 'm':
        run->print.minutes = true;
        break;
    case 'j':
        run->json = true;
        break;
    default:
        ASSERT(false);
    }
    return CTL_OK;
}

/* A line without its end; of one that is too long, a byte more than it may have. */
static bool read_line(FILE *in, char *line, struct slice *out)
{
    size_t n = 0;
    int c;

    while ((c = getc(in)) != EOF && c != '\n') {
        if (n <= TRACE_LINE_MAX)
            line[n++] = (char)c;
    }
    if (n != 0 && n <= TRACE_LINE_MAX && line[n - 1] == '\r')
        --n;
    *out = (struct slice){line, n};
    return c != EOF || n != 0;
}

static void read_all(struct trace_run *run, FILE *in, struct trace_report *r)
{
    char *line = xmalloc(TRACE_LINE_MAX + 1);
    struct trace_print *p = &run->print;
    struct trace_line l;
    struct slice s;

    for (uint64_t number = 1; read_line(in, line, &s); ++number) {
        const char *why = s.len != 0 ? trace_line_parse(s, &l) : NULL;

        if (s.len != 0 && why == NULL)
            trace_report_add(r, &l);
        if (why == NULL || p->bad_lines++ != 0)
            continue;
        p->first_bad = number;
        p->bad_why = why;
    }
    free(line);
}

static bool say(const struct trace_run *run, const char *why)
{
    fprintf(stderr, "resumelbctl: %s: %s\n", run->file, why);
    return false;
}

static bool read_file(struct trace_run *run, struct trace_report *r)
{
    FILE *in = strcmp(run->file, "-") == 0 ? stdin : fopen(run->file, "re");

    if (in == NULL)
        return say(run, strerror(errno));
    errno = 0;
    read_all(run, in, r);
    int broken = ferror(in) ? errno : 0;

    if (in != stdin)
        fclose(in);
    if (broken != 0)
        return say(run, strerror(broken));
    if (r->records == 0)
        return say(run, run->print.bad_why != NULL ? run->print.bad_why : "no records in it");
    trace_report_end(r);
    return true;
}

static int run_trace(const struct ctl_command *c, int argc, char **argv)
{
    struct trace_run run = {.command = c, .print = {.top = TOP_DEFAULT}};
    struct trace_report r = {0};
    struct text out = {0};
    int first = 0;
    int code = ctl_command_parse(c, argc, argv, &first, take, &run);

    if (code >= 0)
        return code;
    run.file = argv[first];
    if (run.file == NULL)
        return ctl_usage_error(c, "want a file: a trace log, or -", NULL);
    code = CTL_FAILED;
    if (read_file(&run, &r)) {
        if (run.json)
            trace_report_json(&r, &run.print, &out);
        else
            trace_report_print(&r, &run.print, &out);
        code = ctl_print(text_slice(&out)) ? CTL_OK : CTL_FAILED;
    }
    text_fini(&out);
    trace_report_fini(&r);
    return code;
}

static const struct ctl_flag flags[] = {
    {'n', "top", "N", NULL, "so many URLs and unfinished requests (20); 0: all"},
    {'m', "minutes", NULL, NULL, "requests under way, minute by minute"},
    CTL_FLAG_JSON,
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_trace = {
    .name = "trace",
    .arguments = "FILE",
    .summary = "where time went and what never ended, of an agent's trace log",
    .text = "FILE is a trace log of an agent (setting trace_log), of zc.resumelb or of\n"
            "zc.zservertracelog; - is standard input. Prints what is unfinished, and URLs by "
            "impact: mean\ntime in the application, times how many there were.\n",
    .completes = CTL_FILES,
    .flags = flags,
    .nflags = ARRAY_LEN(flags),
    .run = run_trace,
};
