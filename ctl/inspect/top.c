/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests the page, draws it and waits for keys, in a loop. No key is read during a request, which
 * lasts at most TRY_MS by default.
 */
#include "common/base/clock.h"
#include "common/base/json.h"
#include "ctl/cli/page.h"
#include "ctl/inspect/inspect.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* ---- the view ---- */

/*
 * Lines of a screen. Rates are differences of counters of two pages. A worker that was not on the
 * first page has no rate yet; after a decrease of a counter (it has restarted) the rate is that of
 * the new instance.
 */

enum { HEAD_LINES = 4, INTERVAL_MAX_S = 60 };

/*
 * What workers are sorted by; but for the name, also the columns after it, from left to right. The
 * lower the rank, the longer a column stays where there is little room; that of the key sorted by
 * stays the longest.
 */
static const struct {
    char letter; /* '\0': no key */
    const char *what;
    const char *title;
    const char *member; /* of the worker; NULL: it is not a number, or computed */
    unsigned width;
    unsigned rank;
    int decimals;
    bool is_rate; /* needs two pages */
} columns[TOP_KEYS] = {
    [TOP_NAME] = {'n', "name", "worker", NULL, 0, 0, 0, false},
    [TOP_STATE] = {'\0', "state", "state", NULL, 9, 4, 0, false},
    [TOP_BACKLOG] = {'b', "backlog", "backlog", "backlog", 7, 1, 0, false},
    [TOP_MEAN] = {'m', "mean backlog", "mean", "mean_backlog", 7, 7, 2, false},
    [TOP_OLDEST] = {'o', "oldest request", "oldest s", "oldest_s", 8, 6, 1, false},
    [TOP_REQUESTS] = {'r', "requests/s", "req/s", "requests", 9, 2, 1, true},
    [TOP_FAILURES] = {'f', "failures/s", "fail/s", "failures", 8, 3, 1, true},
    [TOP_SERVICE] = {'s', "service time", "service ms", NULL, 10, 5, 2, false},
    [TOP_SKILLS] = {'k', "skills", "skills", "skills", 7, 8, 0, false},
};

/* ---- keys ---- */

bool top_press(struct top_view *v, int key)
{
    long page = v->rows > HEAD_LINES + 2 ? (long)v->rows - HEAD_LINES - 2 : 1;
    long first = (long)v->first;

    for (int i = 0; i < TOP_KEYS; ++i) {
        if (key != columns[i].letter || key == '\0')
            continue;
        v->key = (enum top_key)i;
        v->first = 0;
        return true;
    }
    switch (key) {
    case 'q':
        v->quit = true;
        break;
    case 'R':
        v->reverse = !v->reverse;
        break;
    case 'p':
    case ' ':
        v->paused = !v->paused;
        break;
    case 'h':
    case '?':
        v->help = !v->help;
        break;
    case 'a':
    case '\t':
        ++v->application;
        first = 0;
        break;
    case '+':
        v->interval_s += v->interval_s < INTERVAL_MAX_S;
        break;
    case '-':
        v->interval_s -= v->interval_s > 1;
        break;
    case TOP_UP:
        --first;
        break;
    case TOP_DOWN:
        ++first;
        break;
    case TOP_LEFT:
        v->shift -= v->shift != 0;
        break;
    case TOP_RIGHT:
        v->shift += TOP_STATE + v->shift + 1 < TOP_KEYS;
        break;
    case TOP_PAGE_UP:
        first -= page;
        break;
    case TOP_PAGE_DOWN:
        first += page;
        break;
    default:
        return false;
    }
    v->first = first > 0 ? (size_t)first : 0;
    return true;
}

/* ---- lines ---- */

/* A screen that is filled line by line. */
struct screen {
    const struct top_view *view;
    struct text *out;
    unsigned lines;
};

static const struct slice cut_sign = {"...", 3};

/* Cut to the columns; letters beyond ASCII are shown escaped, so that a byte is a column. */
static void top_add_line(struct screen *s, struct slice line, enum table_style style)
{
    struct slice begin = slice_of(s->view->colours ? table_styles[style] : "");
    struct slice sign = SLICE_NULL;

    if (s->lines == s->view->rows)
        return;
    if (s->lines++ != 0)
        text_add(s->out, SLICE_LIT("\r\n"));
    if (line.len > s->view->columns) {
        if (s->view->columns > cut_sign.len)
            sign = cut_sign;
        line.len = s->view->columns - sign.len;
    }
    /* Cleared before the text: after a full line, this would delete its last character. */
    text_add(s->out, SLICE_LIT("\033[K"));
    text_add(s->out, begin);
    text_add(s->out, line);
    text_add(s->out, sign);
    if (begin.len != 0)
        text_add(s->out, SLICE_LIT(TABLE_STYLE_END));
}

/* ---- workers ---- */

struct top_row {
    const json_t *worker;
    double values[TOP_KEYS];
    bool has_rates;
};

/* BEFORE: the application on the page before; NULL. */
static void fill_row(struct top_row *r, const json_t *w, const json_t *before, double span_s)
{
    const json_t *workers = json_object_get(before, "workers");
    const json_t *name = json_object_get(w, "name");
    const json_t *then = NULL;

    for (size_t i = 0; then == NULL && i < json_array_size(workers); ++i) {
        if (json_equal(json_object_get(json_array_get(workers, i), "name"), name))
            then = json_array_get(workers, i);
    }
    *r = (struct top_row){.worker = w, .has_rates = then != NULL && span_s > 0};
    for (size_t i = 0; i < TOP_KEYS; ++i) {
        double now = columns[i].member != NULL ? page_number(w, columns[i].member) : 0;

        if (!columns[i].is_rate) {
            r->values[i] = now;
        } else if (r->has_rates) {
            double was = page_number(then, columns[i].member);

            r->values[i] = (now >= was ? now - was : now) / span_s;
        }
    }
    /* Based on the requests served since then, if there are any: the present state. */
    double served = page_number(w, "requests") - page_number(then, "requests");
    if (!r->has_rates || served <= 0) {
        then = NULL;
        served = page_number(w, "requests");
    }
    if (served > 0)
        r->values[TOP_SERVICE] =
            (page_number(w, "service_s") - page_number(then, "service_s")) * 1000 / served;
}

static int compare_rows(const void *a, const void *b, void *context)
{
    const struct top_row *x = a;
    const struct top_row *y = b;
    const struct top_view *v = context;
    struct slice x_name = json_text(x->worker, "name");
    struct slice y_name = json_text(y->worker, "name");
    int order = strcmp(x_name.p != NULL ? x_name.p : "", y_name.p != NULL ? y_name.p : "");

    if (x->values[v->key] != y->values[v->key])
        order = x->values[v->key] > y->values[v->key] ? -1 : 1;
    return v->reverse ? -order : order;
}

static enum table_style row_style(const struct top_row *r)
{
    if (json_is_true(json_object_get(r->worker, "ejected")) || r->values[TOP_FAILURES] > 0)
        return TABLE_BAD;
    if (json_is_false(json_object_get(r->worker, "available")))
        return TABLE_WARNING;
    return json_is_false(json_object_get(r->worker, "active")) ? TABLE_FAINT : TABLE_PLAIN;
}

/* Columns of the table of workers. */
struct layout {
    unsigned name_width;
    bool shown[TOP_KEYS];
};

/* The columns after the first SHIFT that fit, by importance. Returns whether all do. */
static bool fit_columns(const struct top_view *v, size_t shift, struct layout *out)
{
    unsigned used = out->name_width;
    bool full = false;

    memset(out->shown, 0, sizeof(out->shown));
    for (unsigned rank = 0; rank < TOP_KEYS; ++rank) {
        for (size_t i = TOP_STATE + shift; i < TOP_KEYS; ++i) {
            if (rank != (i == v->key ? 0 : columns[i].rank))
                continue;
            full = full || used + 1 + columns[i].width > v->columns;
            out->shown[i] = !full;
            used += out->shown[i] ? 1 + columns[i].width : 0;
        }
    }
    return !full;
}

/* R NULL: the titles. */
static void draw_row(struct screen *s, const struct layout *l, const struct top_row *r)
{
    size_t room = l->name_width;
    struct text line = {0};
    struct text cell = {0};

    page_add(&cell, r != NULL ? r->worker : NULL, r != NULL ? "{name}" : "worker");
    /* If a name is too long, its end is more significant than its beginning. */
    if (cell.len > room && room > cut_sign.len)
        text_addf(&line, "...%s", text_cstr(&cell) + cell.len - (room - cut_sign.len));
    else
        text_addf(&line, "%-*.*s", (int)room, SLICE_FMT(text_slice(&cell)));
    for (size_t i = TOP_STATE; i < TOP_KEYS; ++i) {
        int width = (int)columns[i].width;

        if (!l->shown[i])
            continue;
        text_clear(&cell);
        if (r == NULL)
            text_add(&cell, slice_of(columns[i].title));
        else if (i == TOP_STATE)
            page_add(&cell, r->worker, page_is_true(r->worker, "ejected") ? "ejected" : "{state}");
        else if (columns[i].is_rate && !r->has_rates)
            text_add_char(&cell, '-');
        else
            text_addf(&cell, "%.*f", columns[i].decimals, r->values[i]);
        if (i == TOP_STATE)
            text_addf(&line, " %-*.*s", width, width, text_cstr(&cell));
        else
            text_addf(&line, " %*s", width, text_cstr(&cell));
    }
    top_add_line(s, text_slice(&line), r != NULL ? row_style(r) : TABLE_FAINT);
    text_fini(&line);
    text_fini(&cell);
}

/* Appends what is not on the screen; an empty line if nothing is hidden. */
static void draw_hidden(struct screen *s, const struct layout *l, size_t first, size_t n)
{
    /* After this line and that of the titles. */
    size_t room = s->view->rows > s->lines + 2 ? s->view->rows - s->lines - 2 : 0;
    size_t last = n - first < room ? n : first + room;
    const char *before = "hidden columns (left, right): ";
    struct text line = {0};

    if (first != 0 || last < n) {
        text_addf(&line, "workers %zu to %zu of %zu (up, down)", first + 1, last, n);
        before = "; hidden columns (left, right): ";
    }
    for (size_t i = TOP_STATE; i < TOP_KEYS; ++i) {
        if (l->shown[i])
            continue;
        text_addf(&line, "%s%s", before, columns[i].title);
        before = ", ";
    }
    top_add_line(s, text_slice(&line), TABLE_FAINT);
    text_fini(&line);
}

static void draw_workers(struct screen *s, const json_t *then, const json_t *now, double span_s)
{
    const struct top_view *v = s->view;
    const json_t *workers = json_object_get(now, "workers");
    size_t n = json_array_size(workers);
    struct top_row *rows = xcalloc(n, sizeof(rows[0]));
    size_t half = v->columns / 2;
    size_t width = strlen("worker");
    struct text name = {0};
    const json_t *w;
    size_t i;

    json_array_foreach (workers, i, w) {
        fill_row(&rows[i], w, then, span_s);
        text_clear(&name);
        page_add(&name, w, "{name}");
        width = name.len > width ? name.len : width;
    }
    text_fini(&name);
    /* Names are not cut but where they would take more than half of the line. */
    if (width > half && half > strlen("worker"))
        width = half;
    if (n != 0)
        qsort_r(rows, n, sizeof(rows[0]), compare_rows, (void *)(uintptr_t)v);
    size_t first = v->first >= n ? (n != 0 ? n - 1 : 0) : v->first;
    struct layout l = {.name_width = (unsigned)width};
    /* Scrolled no further than it takes to see the last column. */
    for (size_t shift = 0; !fit_columns(v, shift, &l) && shift < v->shift;)
        ++shift;
    draw_hidden(s, &l, first, n);
    draw_row(s, &l, NULL);
    for (i = first; i < n && s->lines < v->rows; ++i)
        draw_row(s, &l, &rows[i]);
    free(rows);
}

static double sum_workers(const json_t *application, const char *member)
{
    double sum = 0;
    const json_t *w;
    size_t i;

    json_array_foreach (json_object_get(application, "workers"), i, w)
        sum += page_number(w, member);
    return sum;
}

static void draw_application(struct screen *s, const char *name, const json_t *then,
                             const json_t *now, double span_s)
{
    /* The most important first. */
    const char *const parts[] = {", backlog {backlog:d}", ", waiting {waiting:d}",
                                 page_has_cutoff(now)
                                     ? ", mean {mean_backlog:%.4g}, cutoff {max_backlog:%.4g}"
                                     : ", mean {mean_backlog:%.4g}",
                                 ", classes {classes:d}"};
    const struct slice sign = SLICE_LIT(", ...");
    struct text line = {0};
    struct text part = {0};
    bool full = false;

    text_add_escaped(&line, slice_of(name));
    page_add(&line, now, ": policy {policy}");
    text_addf(&line, ", %zu workers", json_array_size(json_object_get(now, "workers")));
    if (then != NULL && span_s > 0) {
        double grown = sum_workers(now, "requests") - sum_workers(then, "requests");
        text_addf(&part, ", %.1f requests/s", grown > 0 ? grown / span_s : 0);
    }
    for (size_t i = 0; !full; ++i) {
        full = line.len + part.len + sign.len > s->view->columns;
        text_add(&line, full ? sign : text_slice(&part));
        if (i == ARRAY_LEN(parts))
            break;
        text_clear(&part);
        page_add(&part, now, parts[i]);
    }
    top_add_line(s, text_slice(&line), TABLE_PLAIN);
    text_fini(&line);
    text_fini(&part);
}

void top_draw(const struct top_view *v, const json_t *before, const json_t *now, double span_s,
              struct slice problem, struct text *out)
{
    struct screen s = {.view = v, .out = out};
    json_t *applications = json_object_get(now, "applications");
    size_t n = json_object_size(applications);
    size_t i = 0;
    struct text line = {0};
    const char *name;
    json_t *app;

    page_add(&line, now, "{program} {version}, {phase}, up {uptime_s:t}");
    text_addf(&line, "; every %" PRIu64 " s, by %s%s%s (h: help)", v->interval_s,
              columns[v->key].what, v->reverse ? ", reversed" : "", v->paused ? ", PAUSED" : "");
    top_add_line(&s, text_slice(&line), TABLE_PLAIN);
    if (problem.len != 0) {
        text_clear(&line);
        text_add_escaped(&line, problem);
        top_add_line(&s, text_slice(&line), TABLE_BAD);
    }
    if (v->help) {
        top_add_line(&s, SLICE_LIT(""), TABLE_PLAIN);
        for (size_t k = 0; k < TOP_KEYS; ++k) {
            if (columns[k].letter == '\0')
                continue;
            text_clear(&line);
            text_addf(&line, "  %c       sort by %s", columns[k].letter, columns[k].what);
            top_add_line(&s, text_slice(&line), TABLE_PLAIN);
        }
        top_add_line(&s, SLICE_LIT("  R       reverse order"), TABLE_PLAIN);
        top_add_line(&s, SLICE_LIT("  a, tab  the next application"), TABLE_PLAIN);
        top_add_line(&s, SLICE_LIT("  arrows  scroll workers and columns; page up, page down"),
                     TABLE_PLAIN);
        top_add_line(&s, SLICE_LIT("  p       pause; + and - change the interval"), TABLE_PLAIN);
        top_add_line(&s, SLICE_LIT("  h, q    this help; quit"), TABLE_PLAIN);
    } else if (n == 0) {
        top_add_line(&s, SLICE_LIT("no applications"), TABLE_PLAIN);
    }
    text_fini(&line);
    json_object_foreach (applications, name, app) {
        const json_t *then = json_object_get(json_object_get(before, "applications"), name);

        /* In a circle. */
        if (v->help || i++ != v->application % n)
            continue;
        draw_application(&s, name, then, app, span_s);
        draw_workers(&s, then, app, span_s);
    }
    /* Clears the screen below the last line. */
    if (s.lines < v->rows)
        text_add(out, SLICE_LIT("\r\n\033[J"));
}

/* ---- the terminal ---- */

/*
 * ANSI sequences that every terminal of today knows; no library. Signals are handled by what is
 * safe in a handler: tcsetattr, write, flags. The few variables here are theirs: a handler has
 * no other access to state.
 */

static struct termios before;
static volatile sig_atomic_t is_open, ending, resized;

static void top_put(struct slice text)
{
    while (text.len != 0) {
        ssize_t n = write(STDOUT_FILENO, text.p, text.len);

        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
            (void)poll(&p, 1, 1000);
        } else if (n < 0 && errno != EINTR) {
            return;
        }
        if (n > 0)
            text = (struct slice){text.p + n, text.len - (size_t)n};
    }
}

static void top_enter(void)
{
    struct termios raw = before;

    raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR | IGNCR);
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: ^C, ^Z, ^\ */
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    top_put(SLICE_LIT("\033[?1049h\033[?25l\033[2J")); /* alternate screen, no cursor */
}

static void top_leave(void)
{
    top_put(SLICE_LIT("\033[0m\033[?25h\033[?1049l"));
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
}

/* ---- signals ---- */

static void on_notice(int signal)
{
    if (signal == SIGWINCH)
        resized = 1;
    else
        ending = 1;
}

/* An error or a stop signal: restores the terminal, then runs the default action of the signal. */
static void on_leaving(int number)
{
    int saved = errno;
    sigset_t one;

    if (is_open)
        top_leave();
    (void)signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
    /* Reached only when the process continues after a stop. */
    struct sigaction again = {.sa_handler = on_leaving};
    (void)sigaction(number, &again, NULL);
    if (is_open)
        top_enter();
    resized = 1;
    errno = saved;
}

/* ---- keys ---- */

static int read_byte(int wait_ms)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char c;

    if (poll(&p, 1, wait_ms) <= 0)
        return 0;
    ssize_t n = read(STDIN_FILENO, &c, 1);
    if (n == 1)
        return c;
    /* A closed terminal always reads as its end. */
    return n == 0 || errno == EINTR || errno == EAGAIN ? ((p.revents & POLLHUP) ? -1 : 0) : -1;
}

/*
 * Waits for a key for at most MS. Returns a letter, TOP_UP ...; 0 if there was no key (the size may
 * have changed); -1 if the program is to exit.
 */
static int top_terminal_key(unsigned ms)
{
    enum { ESCAPE = 27, NEXT_MS = 50 };
    static const int arrows[] = {TOP_UP, TOP_DOWN, TOP_RIGHT, TOP_LEFT};

    if (ending)
        return -1;
    if (resized) {
        resized = 0;
        top_put(SLICE_LIT("\033[2J"));
        return 0;
    }
    int key = read_byte((int)ms);
    if (ending)
        return -1;
    if (key != ESCAPE)
        return key;
    /* The rest of an escape sequence: "[A", "[5~". */
    key = read_byte(NEXT_MS);
    key = key == '[' || key == 'O' ? read_byte(NEXT_MS) : 0;
    if (key == '5' || key == '6')
        return read_byte(NEXT_MS) == '~' ? (key == '5' ? TOP_PAGE_UP : TOP_PAGE_DOWN) : 0;
    return key >= 'A' && key <= 'D' ? arrows[key - 'A'] : 0;
}

/* ---- the command ---- */

enum { TRY_MS = 2000, INTERVAL_S = 2 };

struct top {
    struct ctl_options o;
    struct top_view view;
    json_t *before, *now; /* pages */
    uint64_t before_us, now_us;
};

static int take_sort(struct ctl_options *o, unused_ const struct ctl_flag *f, const char *value)
{
    if (value[0] == '\0' || value[1] != '\0' || strchr("nbmorfsk", value[0]) == NULL)
        return ctl_usage_error(o->command, "--sort: expected one of n b m o r f s k, not", value);
    (void)top_press(&container_of(o, struct top, o)->view, value[0]);
    return CTL_OK;
}

/* Fetches a new page; the last two are retained. The diag is that of the last try. */
static enum err refresh_page(struct top *t)
{
    json_t *page = NULL;

    diag_fini(&t->o.diag);
    enum err e = ctl_get_json(&t->o, "/status.json", &page);
    if (e == ERR_OK)
        e = ctl_page_problem(&t->o, "/status.json", page_check(page, &t->o));
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

static void draw_screen(struct top *t)
{
    enum { ROWS = 24, WIDTH = 80, SIZE_MAX_SANE = 1000 };
    struct text screen = {0};
    struct slice problem = slice_of(t->o.diag.text);
    struct winsize w;

    t->view.rows = ROWS;
    t->view.columns = WIDTH;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row != 0 && w.ws_col != 0) {
        t->view.rows = w.ws_row < SIZE_MAX_SANE ? w.ws_row : SIZE_MAX_SANE;
        t->view.columns = w.ws_col < SIZE_MAX_SANE ? w.ws_col : SIZE_MAX_SANE;
    }
    top_draw(&t->view, t->before, t->now, (double)(t->now_us - t->before_us) / 1e6,
             slice_cut(&problem, '\n'), &screen);
    top_put(SLICE_LIT("\033[H"));
    top_put(text_slice(&screen));
    text_fini(&screen);
}

/* Until the next refresh is due, or the end. */
static void wait_for_keys(struct top *t)
{
    uint64_t until_us = clock_mono_us() + t->view.interval_s * 1000000;

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
        draw_screen(t);
    }
}

static int top_main(const struct ctl_command *c, int argc, char **argv)
{
    static const struct {
        int number;
        void (*handler)(int signal);
    } signals[] = {
        {SIGINT, on_notice},   {SIGTERM, on_notice},  {SIGHUP, on_notice},   {SIGQUIT, on_notice},
        {SIGABRT, on_leaving}, {SIGSEGV, on_leaving}, {SIGBUS, on_leaving},  {SIGFPE, on_leaving},
        {SIGILL, on_leaving},  {SIGTSTP, on_leaving}, {SIGWINCH, on_notice}, {SIGPIPE, SIG_IGN},
    };
    struct top t = {.o = {.timeout_ms = TRY_MS},
                    .view = {.key = TOP_BACKLOG, .interval_s = INTERVAL_S}};
    int code = ctl_parse(c, argc, argv, &t.o);

    if (code >= 0)
        return code;
    t.view.colours = t.o.colours;
    /* An unreachable server is an error at the start; later it is displayed. */
    enum err e = refresh_page(&t);
    if (e == ERR_OK && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) ||
                        tcgetattr(STDIN_FILENO, &before) != 0)) {
        diag_add(&t.o.diag, NULL, 0, 0, "top is for a terminal; try status --watch");
        e = ERR_UNSUPPORTED;
    }
    if (e == ERR_OK) {
        /* The terminal is restored also when a signal ends or stops the program, even one of an
         * error. */
        for (size_t i = 0; i < ARRAY_LEN(signals); ++i) {
            const struct sigaction a = {.sa_handler = signals[i].handler};

            (void)sigaction(signals[i].number, &a, NULL);
        }
        is_open = 1;
        top_enter();
        draw_screen(&t);
        for (wait_for_keys(&t); !t.view.quit; wait_for_keys(&t)) {
            (void)refresh_page(&t);
            draw_screen(&t);
        }
        is_open = 0;
        top_leave();
        diag_fini(&t.o.diag);
    }
    json_decref(t.before);
    json_decref(t.now);
    return ctl_finish(&t.o, e);
}

static const struct ctl_flag flags[] = {
    {'i', "interval", "SECONDS", NULL, "between two updates (2)",
     CTL_NUMBER(struct top, view.interval_s, 1, INTERVAL_MAX_S)},
    {'s', "sort", "KEY", "n b m o r f s k",
     "name, backlog, mean, oldest, requests/s, failures/s, service time, or skills (b)",
     CTL_OWN(take_sort)},
    CTL_FLAG_ADDRESS,
    CTL_FLAG_TOKEN,
    CTL_FLAG_TIMEOUT,
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_top = {
    .name = "top",
    .summary = "workers, live, in a terminal; h lists the keys, q quits",
    CTL_FLAGS(flags),
    .run = top_main,
};
