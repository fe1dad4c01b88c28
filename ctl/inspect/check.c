/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl check: a plugin of Nagios, Icinga and their kin. One line, exit codes 0 to 3; what
 * cannot be reached is CRITICAL, what cannot be understood UNKNOWN.
 */
#include "ctl/inspect/check.h"

#include <stdio.h>

#include "common/base/json.h"
#include "ctl/cli/command.h"
#include "ctl/cli/fetch.h"

enum { ADDRESS = 256 };

struct check_run {
    const struct ctl_command *command;
    struct ctl_options o;
    struct check_thresholds t;
};

static int take_range(const struct check_run *r, const char *name, enum check_metric m,
                      const char *value, struct check_range *out)
{
    char what[120];

    if (check_range_parse(value, m == CHECK_WORKERS ? CHECK_BARE_LOW : CHECK_BARE_HIGH, out))
        return CTL_OK;
    snprintf(what, sizeof(what), "--%s wants a number or a range, not", name);
    (void)ctl_usage_error(r->command, what, value);
    return CHECK_UNKNOWN;
}

static int take(void *context, int letter, const char *value)
{
    struct check_run *r = context;
    static const struct {
        int letter;
        const char *name;
        enum check_metric metric;
        bool error;
    } thresholds[] = {
        {'b', "worker-mean-backlog-warn", CHECK_MEAN_BACKLOG, false},
        {'B', "worker-mean-backlog-error", CHECK_MEAN_BACKLOG, true},
        {'x', "worker-max-backlog-warn", CHECK_MAX_BACKLOG, false},
        {'X', "worker-max-backlog-error", CHECK_MAX_BACKLOG, true},
        {'a', "worker-request-age-warn", CHECK_MAX_AGE, false},
        {'A', "worker-request-age-error", CHECK_MAX_AGE, true},
        {'w', "minimum-worker-warn", CHECK_WORKERS, false},
        {'W', "minimum-worker-error", CHECK_WORKERS, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(thresholds); ++i) {
        enum check_metric m = thresholds[i].metric;

        if (thresholds[i].letter == letter)
            return take_range(r, thresholds[i].name, m, value,
                              thresholds[i].error ? &r->t.error[m] : &r->t.warn[m]);
    }
    if (letter == 'm')
        r->t.metrics = true;
    else if (letter == 'p')
        r->o.application = value;
    else if (letter == ADDRESS)
        r->o.address = value;
    else
        return ctl_take_asking(r->command, &r->o, letter, value) == CTL_OK ? CTL_OK : CHECK_UNKNOWN;
    return CTL_OK;
}

/* The line that says what came of it, to OUT. */
static enum check_state look(const struct check_run *r, struct text *out)
{
    struct diag d = {0};
    json_t *page = NULL;
    enum err e = ctl_get_json(&r->o, "/status.json", &page, &d);
    enum check_state state;

    if (e == ERR_OK) {
        state = check_page(page, &r->o, &r->t, out);
    } else {
        struct slice why = slice_of(d.text != NULL ? d.text : err_text(e));

        /* The server is reachable but its response is not the expected one, for instance because a
         * token is missing. */
        state = e == ERR_BAD_RESPONSE || e == ERR_SYNTAX || e == ERR_TOO_LARGE ? CHECK_UNKNOWN
                                                                               : CHECK_CRITICAL;
        text_addf(out, "%s: ", check_state_name(state));
        text_add_escaped(out, slice_cut(&why, '\n'));
    }
    json_decref(page);
    diag_fini(&d);
    return state;
}

static void add_json(enum check_state state, struct slice line, struct text *out)
{
    struct json_writer w = {.out = out};
    struct slice perf = line;
    struct slice text = slice_cut(&perf, '|');

    json_open_object(&w, NULL);
    json_put_text(&w, "state", slice_of(check_state_name(state)));
    json_put_int(&w, "code", state);
    json_put_text(&w, "text", text);
    json_put_text(&w, "performance_data", perf);
    json_close_object(&w);
}

static int run(const struct ctl_command *c, int argc, char **argv)
{
    struct check_run r = {.command = c,
                          .o = {.address = "127.0.0.1:8081", .timeout_ms = FETCH_TIMEOUT_MS}};
    struct text line = {0};
    struct text out = {0};
    int first = 0;
    int code = ctl_command_parse(c, argc, argv, &first, take, &r);

    if (code == CTL_OK)
        return CHECK_OK; /* --help */
    if (code > 0)
        return CHECK_UNKNOWN;
    if (argv[first] != NULL)
        r.o.address = argv[first];
    if (!r.t.metrics && !check_has_thresholds(&r.t)) {
        fputs("You need to request metrics and/or alert settings\n", stdout);
        return CHECK_UNKNOWN;
    }
    enum check_state state = look(&r, &line);
    if (r.o.json)
        add_json(state, text_slice(&line), &out);
    else
        text_add(&out, text_slice(&line));
    text_add_char(&out, '\n');
    if (!ctl_print(text_slice(&out)))
        state = CHECK_UNKNOWN;
    text_fini(&line);
    text_fini(&out);
    return (int)state;
}

static const struct ctl_flag flags[] = {
    {'b', "worker-mean-backlog-warn", "RANGE", NULL, "mean backlog at which to warn"},
    {'B', "worker-mean-backlog-error", "RANGE", NULL, "... and at which it is critical"},
    {'x', "worker-max-backlog-warn", "RANGE", NULL, "highest backlog of a worker"},
    {'X', "worker-max-backlog-error", "RANGE", NULL, "... and at which it is critical"},
    {'a', "worker-request-age-warn", "RANGE", NULL, "seconds, of the oldest request"},
    {'A', "worker-request-age-error", "RANGE", NULL, "... and at which it is critical"},
    {'w', "minimum-worker-warn", "RANGE", NULL, "workers: so many or fewer"},
    {'W', "minimum-worker-error", "RANGE", NULL, "... and at which it is critical"},
    {'m', "metrics", NULL, NULL, "print performance data"},
    {'p', "application", "NAME", NULL, "only this one; else each, and the worst counts"},
    {ADDRESS, "address", "ADDRESS", NULL, "the same as the argument"},
    CTL_FLAG_JSON,
    CTL_FLAG_TOKEN,
    CTL_FLAG_TIMEOUT,
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_check = {
    .name = "check",
    .arguments = "[ADDRESS]",
    .summary = "a plugin of Nagios and Icinga: thresholds in, one line and an exit code out",
    .text = "Options and texts are those of rlb-nagios. A bare number N alerts at N and above (of "
            "workers: at N\nand below); a range (10:, ~:10, 10:20, @10:20) alerts as the "
            "monitoring plugins' guidelines say.\nAll is well: OK WORKERS MEAN-BACKLOG MAX-BACKLOG "
            "MAX-AGE. Exit codes: 0 OK, 1 WARNING,\n2 CRITICAL (also: unreachable), 3 UNKNOWN.\n",
    .flags = flags,
    .nflags = ARRAY_LEN(flags),
    .run = run,
};
