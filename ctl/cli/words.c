/* SPDX-License-Identifier: Apache-2.0
 *
 * The words that show a page of an admin address once, or again and again, and the one that sends
 * an agent's process away.
 */
#include "ctl/cli/command.h"
#include "ctl/cli/fetch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { TOP_DEFAULT = 10, TOP_MAX = 1000000, WATCH_MAX_S = 3600, COUNT = 256 };

struct page_word {
    const struct ctl_command *command;
    const char *path; /* of the admin address */
    enum err (*print)(const json_t *page, const struct ctl_options *o, struct text *out);
};

static const struct page_word pages[] = {
    {&ctl_word_status, "/status.json", ctl_status_text},
    {&ctl_word_resumes, "/resumes.json", ctl_resumes_text},
    {&ctl_word_limits, "/status.json", ctl_limits_text},
};

/* A command line under way. */
struct asking {
    const struct ctl_command *command;
    struct ctl_options o;
    uint64_t watch_s; /* 0: once */
    uint64_t count;   /* of --watch; 0: until interrupted */
};

static int take(void *context, int letter, const char *value)
{
    struct asking *a = context;
    uint64_t n = 0;
    int code = ctl_take_asking(a->command, &a->o, letter, value);

    if (code >= 0)
        return code;
    code = CTL_OK;
    switch (letter) {
    case 'c':
        a->o.cls = value;
        break;
    case 'n':
        code = ctl_take_number(a->command, "top", value, 0, TOP_MAX, &n);
        a->o.top = (size_t)n;
        break;
    case 'w':
        code = ctl_take_number(a->command, "watch", value, 1, WATCH_MAX_S, &a->watch_s);
        break;
    case COUNT:
        code = ctl_take_number(a->command, "count", value, 1, UINT32_MAX, &a->count);
        break;
    default:
        ASSERT(false);
    }
    return code;
}

static enum err show_page(const struct page_word *w, const struct ctl_options *o, struct text *out,
                          struct diag *d)
{
    json_t *page = NULL;

    if (o->json)
        return ctl_get(o, w->path, out, d);
    enum err e = ctl_get_json(o, w->path, &page, d);
    if (e == ERR_OK)
        e = ctl_page_problem(o, w->path, w->print(page, o, out), d);
    json_decref(page);
    return e;
}

/* Wait; false: a signal says that it is enough. */
static bool wait_for(uint64_t seconds, const sigset_t *ending)
{
    struct timespec span = {.tv_sec = (time_t)seconds};
    int signal;

    do
        signal = sigtimedwait(ending, NULL, &span);
    while (signal < 0 && errno == EINTR);
    return signal < 0;
}

/* Repeats the query until the count is reached or a signal arrives. Failures are reported and do
 * not end the loop, so that the end of a restart can be observed. */
static int watch(const struct page_word *w, const struct asking *a)
{
    static const char home_and_clear[] = "\033[H\033[2J";
    sigset_t ending;
    enum err e = ERR_OK;

    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    sigprocmask(SIG_BLOCK, &ending, NULL);
    for (uint64_t i = 0; a->count == 0 || i < a->count; ++i) {
        struct text out = {0};
        struct diag d = {0};

        if (i != 0 && !wait_for(a->watch_s, &ending))
            break;
        if (isatty(STDOUT_FILENO) && !a->o.json)
            text_add(&out, slice_of(home_and_clear));
        else if (i != 0 && !a->o.json)
            text_add_char(&out, '\n');
        e = show_page(w, &a->o, &out, &d);
        if (ctl_finish(ERR_OK, &out, &d) != CTL_OK)
            return CTL_FAILED;
    }
    return e == ERR_OK ? CTL_OK : CTL_FAILED;
}

static int run_page(const struct ctl_command *c, int argc, char **argv)
{
    struct asking a = {.command = c,
                       .o = {.address = "127.0.0.1:8081",
                             .timeout_ms = FETCH_TIMEOUT_MS,
                             .top = TOP_DEFAULT,
                             .colours = ctl_colours()}};
    const struct page_word *w = NULL;
    struct text out = {0};
    struct diag d = {0};
    int first = 0;
    int code = ctl_command_parse(c, argc, argv, &first, take, &a);

    if (code >= 0)
        return code;
    a.o.application = argv[first]; /* NULL at the end */
    for (size_t i = 0; i < ARRAY_LEN(pages); ++i)
        w = pages[i].command == c ? &pages[i] : w;
    ASSERT(w != NULL);
    if (a.watch_s == 0 && a.count != 0)
        return ctl_usage_error(c, "--count is for --watch", NULL);
    if (a.watch_s != 0)
        return watch(w, &a);
    return ctl_finish(show_page(w, &a.o, &out, &d), &out, &d);
}

static int run_detach(const struct ctl_command *c, int argc, char **argv)
{
    struct asking a = {.command = c,
                       .o = {.address = "127.0.0.1:8081", .timeout_ms = FETCH_TIMEOUT_MS}};
    struct text out = {0};
    struct diag d = {0};
    int first = 0;
    int code = ctl_command_parse(c, argc, argv, &first, take, &a);

    if (code >= 0)
        return code;
    a.o.process = argv[first];
    if (a.o.process == NULL)
        return ctl_usage_error(c, "want the id of a process, which status shows", NULL);
    return ctl_finish(ctl_detach(&a.o, &out, &d), &out, &d);
}

static const struct ctl_flag status_flags[] = {
    CTL_FLAGS_ASKING,
    {'w', "watch", "SECONDS", NULL, "again every so many seconds, until interrupted"},
    {COUNT, "count", "N", NULL, "with --watch: so many times"},
};
const struct ctl_command ctl_word_status = {
    .name = "status",
    .arguments = "[APPLICATION]",
    .summary = "applications, their workers or processes, how requests were routed",
    .flags = status_flags,
    .nflags = ARRAY_LEN(status_flags),
    .run = run_page,
};

static const struct ctl_flag resumes_flags[] = {
    CTL_FLAGS_ASKING,
    {'c', "class", "CLASS", NULL, "only this request class, best worker first"},
    {'n', "top", "N", NULL, "so many classes of each worker (10); 0: all"},
};
const struct ctl_command ctl_word_resumes = {
    .name = "resumes",
    .arguments = "[APPLICATION]",
    .summary = "what each worker is good at: its best classes, with scores",
    .flags = resumes_flags,
    .nflags = ARRAY_LEN(resumes_flags),
    .run = run_page,
};

static const struct ctl_flag limits_flags[] = {
    CTL_FLAGS_ASKING,
    {'n', "top", "N", NULL, "so many keys (10); 0: all"},
    {'w', "watch", "SECONDS", NULL, "again every so many seconds, until interrupted"},
    {COUNT, "count", "N", NULL, "with --watch: so many times"},
};
const struct ctl_command ctl_word_limits = {
    .name = "limits",
    .arguments = "[APPLICATION]",
    .summary = "pool counters: requests that hold, wait, were rejected; the keys most waited for",
    .flags = limits_flags,
    .nflags = ARRAY_LEN(limits_flags),
    .run = run_page,
};

static const struct ctl_flag detach_flags[] = {CTL_FLAGS_ASKING};
const struct ctl_command ctl_word_detach = {
    .name = "detach",
    .arguments = "ID",
    .summary = "an agent takes this process out and ends it when its requests are done",
    .flags = detach_flags,
    .nflags = ARRAY_LEN(detach_flags),
    .run = run_detach,
};
