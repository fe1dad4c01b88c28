/* SPDX-License-Identifier: Apache-2.0
 *
 * Ask, draw, wait for a key; again. While the server is asked no key is read: a try lasts at most
 * TRY_MS.
 */
#include "ctl/inspect/top.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "ctl/cli/command.h"
#include "ctl/cli/page.h"

enum { TRY_MS = 2000, INTERVAL_S = 2, INTERVAL_MAX_S = 60 };

struct top {
    const struct ctl_command *command;
    struct ctl_options o;
    struct top_view view;
    json_t *before, *now; /* pages */
    uint64_t before_us, now_us;
    struct diag problem; /* of the last try */
};

static int take(void *context, int letter, const char *value)
{
    struct top *t = context;
    uint64_t n = 0;
    int code;

    if (letter == 'i') {
        code = ctl_take_number(t->command, "interval", value, 1, INTERVAL_MAX_S, &n);
        t->view.interval_s = (unsigned)n;
        return code;
    }
    if (letter == 's') {
        if (value[0] == '\0' || value[1] != '\0' || strchr("nbmorfsk", value[0]) == NULL)
            return ctl_usage_error(t->command, "--sort wants one of n b m o r f s k, not", value);
        (void)top_press(&t->view, value[0]);
        return CTL_OK;
    }
    return ctl_take_asking(t->command, &t->o, letter, value);
}

/* A new page, if there is one; the last two are kept. */
static enum err look(struct top *t)
{
    json_t *page = NULL;

    diag_fini(&t->problem);
    t->problem = (struct diag){0};
    enum err e = ctl_get_json(&t->o, "/status.json", &page, &t->problem);
    if (e == ERR_OK) {
        struct ctl_options all = {0};

        e = ctl_page_problem(&t->o, "/status.json", page_check(page, &all), &t->problem);
    }
    if (e != ERR_OK) {
        json_decref(page);
        return e;
    }
    json_decref(t->before);
    t->before = t->now;
    t->before_us = t->now_us;
    t->now = page;
    t->now_us = clock_mono_us();
    return ERR_OK;
}

static void draw(struct top *t)
{
    struct text screen = {0};
    struct slice why = slice_of(t->problem.text != NULL ? t->problem.text : "");
    struct slice line = slice_cut(&why, '\n');
    char *problem = line.len != 0 ? xslicedup(line) : NULL;

    top_terminal_size(&t->view.rows, &t->view.columns);
    top_draw(&t->view, t->before, t->now, (double)(t->now_us - t->before_us) / 1e6, problem,
             &screen);
    top_terminal_show(text_slice(&screen));
    free(problem);
    text_fini(&screen);
}

/* Until it is time to look again, or the end. */
static void wait_and_listen(struct top *t)
{
    uint64_t until_us = clock_mono_us() + (uint64_t)t->view.interval_s * 1000000;

    for (;;) {
        uint64_t now_us = clock_mono_us();

        if (now_us >= until_us && !t->view.paused)
            return;
        enum { PAUSED_MS = 1000 };
        int key = top_terminal_key(t->view.paused ? PAUSED_MS
                                                  : (unsigned)((until_us - now_us) / 1000 + 1));
        if (key < 0)
            t->view.quit = true;
        else if (key > 0)
            (void)top_press(&t->view, key);
        if (t->view.quit)
            return;
        draw(t);
    }
}

static int show(struct top *t)
{
    /* An unreachable server is an error at the start; later it is displayed. */
    enum err e = look(t);

    if (e == ERR_OK) {
        e = top_terminal_open();
        if (e != ERR_OK)
            diag_add(&t->problem, NULL, 0, 0, "top is for a terminal; try status --watch");
    }
    if (e != ERR_OK) {
        fprintf(stderr, "resumelbctl: %s", t->problem.text != NULL ? t->problem.text : "");
        return CTL_FAILED;
    }
    while (!t->view.quit) {
        draw(t);
        wait_and_listen(t);
        if (!t->view.quit)
            (void)look(t);
    }
    top_terminal_close();
    return CTL_OK;
}

static int run(const struct ctl_command *c, int argc, char **argv)
{
    struct top t = {.command = c,
                    .o = {.address = "127.0.0.1:8081", .timeout_ms = TRY_MS},
                    .view = {.key = TOP_BACKLOG,
                             .interval_s = INTERVAL_S,
                             .rows = 24,
                             .columns = 80,
                             .colours = ctl_colours()}};
    int first = 0;
    int code = ctl_command_parse(c, argc, argv, &first, take, &t);

    if (code < 0)
        code = show(&t);
    json_decref(t.before);
    json_decref(t.now);
    diag_fini(&t.problem);
    return code;
}

static const struct ctl_flag flags[] = {
    {'i', "interval", "SECONDS", NULL, "between two looks (2)"},
    {'s', "sort", "KEY", "n b m o r f s k",
     "name, backlog, mean, oldest, requests/s, failures/s, service time, or skills (b)"},
    CTL_FLAG_ADDRESS,
    CTL_FLAG_TOKEN,
    CTL_FLAG_TIMEOUT,
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_top = {
    .name = "top",
    .summary = "workers, live, in a terminal; h tells the keys, q ends it",
    .flags = flags,
    .nflags = ARRAY_LEN(flags),
    .run = run,
};
