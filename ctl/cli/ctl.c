/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and runs the command; what commands share. Exit status: 0 success;
 * 1 server unreachable or invalid response; 2 usage error; `check` and `tree diff` have others.
 */
#include "ctl/cli/ctl.h"
#include "common/base/file.h"
#include "common/base/output.h"
#include "common/upstream/http_fetch.h"
#include "version.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- commands: getopt_long over their rows ---- */

/* clang-format off */
const struct ctl_command *const ctl_commands[] = {
    /* see */
    &ctl_word_status,
    &ctl_word_top,
    &ctl_word_resumes,
    &ctl_word_limits,
    &ctl_word_explain,
    &ctl_word_check,
    &ctl_word_trace,
    &ctl_word_report,
    /* try */
    &ctl_word_classify,
    &ctl_word_simulate,
    &ctl_word_playback,
    /* act */
    &ctl_word_drain,
    &ctl_word_undrain,
    &ctl_word_confirm_removal,
    &ctl_word_worker,
    &ctl_word_forget,
    &ctl_word_reload,
    &ctl_word_detach,
    &ctl_word_tree,
    &ctl_word_completion,
};
/* clang-format on */
const size_t ctl_ncommands = ARRAY_LEN(ctl_commands);

int ctl_usage_error(const struct ctl_command *c, const char *what, const char *which)
{
    fprintf(stderr, "resumelbctl: %s%s%s\nTry resumelbctl %s%s--help.\n", what,
            which != NULL ? ": " : "", which != NULL ? which : "", c != NULL ? c->name : "",
            c != NULL ? " " : "");
    return CTL_USAGE;
}

int ctl_usage_problems(const struct ctl_command *c, struct diag *d)
{
    fprintf(stderr, "resumelbctl: %sTry resumelbctl %s --help.\n", d->text != NULL ? d->text : "",
            c->name);
    diag_fini(d);
    return CTL_USAGE;
}

int ctl_finish(struct ctl_options *o, enum err e)
{
    const struct text *out = &o->out;
    bool printed =
        (out->len == 0 || fwrite(out->p, 1, out->len, stdout) == out->len) && fflush(stdout) == 0;

    if (!printed)
        perror("resumelbctl: stdout");
    if (o->diag.text != NULL)
        fprintf(stderr, "resumelbctl: %s", o->diag.text);
    diag_fini(&o->diag);
    text_fini(&o->out);
    return e == ERR_OK && printed ? CTL_OK : CTL_FAILED;
}

/* ---- help ---- */

static int print_command_help(struct ctl_options *o)
{
    const struct ctl_command *c = o->command;
    struct text *out = &o->out;
    size_t width = 0;

    text_addf(out, "usage: resumelbctl %s [OPTIONS]%s%s\n\n%s\n", c->name,
              c->arguments != NULL ? " " : "", c->arguments != NULL ? c->arguments : "",
              c->summary);
    if (c->text != NULL)
        text_addf(out, "\n%s", c->text);
    text_add(out, SLICE_LIT("\noptions:\n"));
    for (size_t i = 0; i < c->nflags; ++i) {
        const char *value = c->flags[i].value;
        size_t n = strlen(c->flags[i].name) + (value != NULL ? strlen(value) + 1 : 0);

        width = n > width ? n : width;
    }
    for (size_t i = 0; i < c->nflags; ++i) {
        const struct ctl_flag *f = &c->flags[i];
        /* "  -a, --address ADDRESS   ", as wide as the widest. */
        size_t end = out->len + strlen("  -x, --") + width;

        if (f->letter != 0)
            text_addf(out, "  -%c, --%s", f->letter, f->name);
        else
            text_addf(out, "      --%s", f->name);
        if (f->value != NULL)
            text_addf(out, " %s", f->value);
        text_addf(out, "%*s  %s\n", (int)(end - out->len), "", f->help);
    }
    if (c->describe != NULL)
        c->describe(out);
    return ctl_finish(o, ERR_OK);
}

/* ---- options ---- */

enum {
    TIMEOUT_MS = 10000,
    /* What getopt returns for an option that has no letter: this, and its row. */
    NO_LETTER = 256,
};

/* The rows as getopt wants them; LETTERS has room for two bytes a row, and one. */
static void make_options(const struct ctl_command *c, char *letters, struct option *longs)
{
    for (size_t i = 0; i < c->nflags; ++i) {
        const struct ctl_flag *f = &c->flags[i];

        longs[i] = (struct option){f->name, f->value != NULL ? required_argument : no_argument,
                                   NULL, NO_LETTER + (int)i};
        if (f->letter == 0)
            continue;
        *letters++ = (char)f->letter;
        if (f->value != NULL)
            *letters++ = ':';
    }
    *letters = '\0';
    longs[c->nflags] = (struct option){NULL, 0, NULL, 0};
}

static const struct ctl_flag *find_flag(const struct ctl_command *c, int letter)
{
    const struct ctl_flag *f = c->flags;

    if (letter >= NO_LETTER)
        return &c->flags[letter - NO_LETTER];
    while (f->letter != letter)
        ++f;
    return f;
}

int ctl_parse(const struct ctl_command *c, int argc, char **argv, struct ctl_options *o)
{
    size_t max = 0; /* arguments that the help line of C names */
    struct slice arguments = slice_of(c->arguments);
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    char letters[2 * CTL_FLAGS_MAX + 1];
    struct option longs[CTL_FLAGS_MAX + 1];
    int letter;

    ASSERT(c->nflags <= CTL_FLAGS_MAX);
    make_options(c, letters, longs);
    o->command = c;
    optind = 0; /* reset: a test parses more than once */
    while ((letter = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        if (letter == '?') {
            /* getopt has printed the error. */
            fprintf(stderr, "Try resumelbctl %s --help.\n", c->name);
            return CTL_USAGE;
        }
        const struct ctl_flag *f = find_flag(c, letter);
        if (f->take == NULL)
            return print_command_help(o);
        int code = f->take(o, f, optarg);
        if (code != CTL_OK)
            return code;
    }
    while (arguments.len != 0 && max != SIZE_MAX / 2)
        max = slice_is(slice_cut(&arguments, ' '), "...") ? SIZE_MAX / 2 : max + 1;
    if (max < (size_t)(argc - optind))
        return ctl_usage_error(c, "unexpected argument", argv[(size_t)optind + max]);
    o->words = argv + optind;
    if (o->address == NULL)
        o->address = "127.0.0.1:8081";
    if (o->timeout_ms == 0)
        o->timeout_ms = TIMEOUT_MS;
    o->colours = isatty(STDOUT_FILENO) && (no_color == NULL || no_color[0] == '\0') &&
                 term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
    return -1;
}

/* Where F's value goes. */
static void *ctl_value_of(struct ctl_options *o, const struct ctl_flag *f)
{
    return (char *)o + f->at;
}

int ctl_take_true(struct ctl_options *o, const struct ctl_flag *f, unused_ const char *value)
{
    *(bool *)ctl_value_of(o, f) = true;
    return CTL_OK;
}

int ctl_take_text(struct ctl_options *o, const struct ctl_flag *f, const char *value)
{
    *(const char **)ctl_value_of(o, f) = value;
    return CTL_OK;
}

int ctl_take_number(struct ctl_options *o, const struct ctl_flag *f, const char *value)
{
    uint64_t n = 0;
    char what[160];

    if (parse_u64(slice_of(value), f->max, &n) && n >= f->min) {
        *(uint64_t *)ctl_value_of(o, f) = n;
        return CTL_OK;
    }
    snprintf(what, sizeof(what),
             "--%s: expected a whole number from %" PRIu64 " to %" PRIu64 ", not", f->name, f->min,
             f->max);
    return ctl_usage_error(o->command, what, value);
}

int ctl_take_seconds(struct ctl_options *o, const struct ctl_flag *f, const char *value)
{
    int code = ctl_take_number(o, f, value);

    if (code == CTL_OK)
        *(uint64_t *)ctl_value_of(o, f) *= 1000;
    return code;
}

/* ---- files of lines ---- */

FILE *ctl_open(const char *file, struct diag *d)
{
    FILE *in = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");

    if (in == NULL)
        diag_add(d, file, 0, 0, "%s", strerror(errno));
    return in;
}

bool ctl_read_line(FILE *in, char *line, size_t max, struct slice *out)
{
    size_t n = 0;
    int c;

    while ((c = getc(in)) != EOF && c != '\n') {
        if (n <= max)
            line[n++] = (char)c;
    }
    bool any = c != EOF || n != 0;
    if (n != 0 && line[n - 1] == '\r')
        --n;
    *out = (struct slice){line, n};
    return any;
}

enum err ctl_close(FILE *in, const char *file, struct diag *d)
{
    enum err e = ferror(in) ? ERR_SYSTEM : ERR_OK;

    if (e != ERR_OK)
        diag_add(d, file, 0, 0, "%s", strerror(errno));
    if (in != stdin)
        fclose(in);
    return e;
}

/* ---- one HTTP request ---- */

enum {
    /* A hundred workers with ten thousand skills of a hundred bytes each come near it. */
    BODY_MAX = 128 * 1024 * 1024,
    ADDRESSES_MAX = 8,
    TOKEN_MAX = 1024,
};

struct ctl_request {
    struct http_fetch fetch;
    struct text *out;
    enum err e;
};

static void on_ctl_head(struct http_fetch *f, const struct http1_head *head)
{
    if (head->framing != HTTP1_BODY_LENGTH || head->content_length <= BODY_MAX)
        return;
    http_fetch_stop(f);
    container_of(f, struct ctl_request, fetch)->e = ERR_TOO_LARGE;
}

static void on_ctl_body(struct http_fetch *f, struct slice bytes)
{
    text_add(container_of(f, struct ctl_request, fetch)->out, bytes);
}

static void on_ctl_done(struct http_fetch *f, enum err e)
{
    container_of(f, struct ctl_request, fetch)->e = e;
}

static const struct http_fetch_events events = {
    .on_head = on_ctl_head, .on_body = on_ctl_body, .done = on_ctl_done};

static enum err make_request(struct ctl_options *o, const char *method, const char *path,
                             struct slice content, struct text *out)
{
    /* A unix socket has no host; "localhost" is one that every admin address responds to. */
    const char *host = strncmp(o->address, "unix:", 5) == 0 ? "localhost" : o->address;
    enum err e = ERR_OK;

    text_addf(out, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAccept: */*\r\n", method,
              path, host);
    if (strcmp(method, "GET") != 0)
        text_addf(out, "Content-Length: %zu\r\n", content.len);
    if (content.len != 0)
        text_add(out, SLICE_LIT("Content-Type: application/json\r\n"));
    if (o->token_file != NULL) {
        struct text token = {0};

        e = file_read(o->token_file, TOKEN_MAX, &token);
        if (e != ERR_OK)
            diag_add(&o->diag, o->token_file, 0, 0, "%s",
                     e == ERR_SYSTEM ? strerror(errno) : err_text(e));
        while (token.len != 0 && (token.p[token.len - 1] == '\n' || token.p[token.len - 1] == '\r'))
            --token.len;
        for (size_t i = 0; e == ERR_OK && i < token.len; ++i) {
            /* It becomes part of a header line. */
            if (token.p[i] <= ' ' || token.p[i] >= 0x7f) {
                diag_add(&o->diag, o->token_file, 0, 0,
                         "not a token: it contains blanks or other bytes that are not permitted");
                e = ERR_SYNTAX;
            }
        }
        text_add(out, SLICE_LIT("Authorization: Bearer "));
        text_add(out, text_slice(&token));
        text_fini(&token);
        text_add(out, SLICE_LIT("\r\n"));
    }
    text_add(out, SLICE_LIT("\r\n"));
    text_add(out, content);
    return e;
}

enum err ctl_request(struct ctl_options *o, const char *method, const char *path,
                     struct slice content, int *status, struct text *body)
{
    struct ctl_request a = {.out = body, .e = ERR_NOT_FOUND};
    struct text request = {0};
    struct addr all[ADDRESSES_MAX];
    size_t n = 1;
    enum err e = make_request(o, method, path, content, &request);

    if (e != ERR_OK) {
        text_fini(&request);
        return e;
    }
    e = addr_parse(slice_of(o->address), &all[0]);
    if (e == ERR_UNSUPPORTED) {
        n = ADDRESSES_MAX;
        e = addr_resolve(slice_of(o->address), all, &n);
    }
    const char *why =
        e == ERR_SYNTAX ? "no address: expected HOST:PORT or unix:/PATH" : err_text(e);
    if (e == ERR_OK) {
        struct loop *l = loop_create(0);
        uint64_t due_ms = loop_due_ms(l, o->timeout_ms);

        /* The addresses of a host name are tried one after the other. */
        for (size_t i = 0; i < n && (i == 0 || a.fetch.connect_errno != 0); ++i) {
            uint64_t now_ms = loop_active_ms(l);
            struct http_fetch_request r = {.addr = &all[i],
                                           .timeout_ms = now_ms < due_ms ? due_ms - now_ms : 1,
                                           .body_max = BODY_MAX,
                                           .events = &events};

            text_add(&r.bytes, text_slice(&request));
            http_fetch_start(&a.fetch, l, &r);
            while (a.fetch.loop != NULL)
                loop_turn(l, TIMEOUT_MS);
        }
        loop_destroy(l);
        e = a.e;
        /* Of a unix socket: it does not exist, or its backlog stays full. */
        if (a.fetch.connect_errno == ENOENT || a.fetch.connect_errno == EAGAIN)
            e = ERR_CONNECT_FAILED;
        why = err_text(e);
    }
    text_fini(&request);
    int error = a.fetch.connect_errno;

    if (e == ERR_OK)
        *status = a.fetch.status;
    else if (e == ERR_CONNECT_FAILED || e == ERR_SYSTEM)
        diag_add(&o->diag, NULL, 0, 0, "%s: %s: %s", o->address, why,
                 error == EAGAIN ? "too busy" : strerror(error));
    else
        diag_add(&o->diag, NULL, 0, 0, "%s: %s", o->address, why);
    return e;
}

enum err ctl_get(struct ctl_options *o, const char *path, struct text *body)
{
    int status = 0;
    enum err e = ctl_request(o, "GET", path, SLICE_NULL, &status, body);

    if (e == ERR_OK && status != 200) {
        diag_add(&o->diag, NULL, 0, 0, "%s: responded %s with status %d%s", o->address, path,
                 status, status == 401 ? " (--token-file?)" : "");
        e = ERR_BAD_RESPONSE;
    }
    return e;
}

enum err ctl_get_json(struct ctl_options *o, const char *path, json_t **out)
{
    struct text body = {0};
    json_error_t why;
    enum err e = ctl_get(o, path, &body);

    if (e == ERR_OK) {
        /* Not json_parse: this page is as large as the pool, and bounded in bytes. */
        *out = json_loadb(body.p != NULL ? body.p : "", body.len, JSON_REJECT_DUPLICATES, &why);
        if (*out == NULL) {
            diag_add(&o->diag, NULL, 0, 0, "%s: %s is not JSON: %s", o->address, path, why.text);
            e = ERR_SYNTAX;
        }
    }
    text_fini(&body);
    return e;
}

enum err ctl_page_problem(struct ctl_options *o, const char *path, enum err e)
{
    if (e == ERR_NOT_FOUND)
        diag_add(&o->diag, NULL, 0, 0, "%s: has no application '%s'", o->address, o->application);
    else if (e != ERR_OK)
        diag_add(&o->diag, NULL, 0, 0,
                 "%s: %s has no applications; is this the admin address of a resumelb program?",
                 o->address, path);
    return e;
}

/* ---- the command line ---- */

/* Options permitted before the command: those that most commands have. */
static const struct ctl_flag leading_flags[] = {
    CTL_FLAGS_ASKING,
    {.letter = 'c', .name = "class", .value = "CLASS"},
    {.letter = 'n', .name = "top", .value = "N"},
    {.letter = 'v', .name = "version"},
};
static const struct ctl_command leading = {CTL_FLAGS(leading_flags)};

static int print_help(void)
{
    struct ctl_options o = {0};

    text_add(&o.out,
             SLICE_LIT("usage: resumelbctl [OPTIONS] COMMAND ...\n"
                       "\n"
                       "See, understand and tune resumelb, its agents and its pool counters.\n"
                       "\ncommands:\n"));
    for (size_t i = 0; i < ctl_ncommands; ++i)
        text_addf(&o.out, "  %-15s %s\n", ctl_commands[i]->name, ctl_commands[i]->summary);
    text_add(
        &o.out,
        SLICE_LIT("\n"
                  "resumelbctl COMMAND --help lists the options of a command; --version, the "
                  "version.\n"
                  "Exit status: 0 success; 1 server unreachable or error response; 2 usage error\n"
                  "            (check: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN)\n"));
    return ctl_finish(&o, ERR_OK);
}

int ctl_main(int argc, char **argv)
{
    char letters[2 * ARRAY_LEN(leading_flags) + 3] = "+:"; /* nothing is reordered nor printed */
    struct option longs[ARRAY_LEN(leading_flags) + 1];
    int letter;

    output_fill_standard();
    make_options(&leading, letters + 2, longs);
    optind = 0; /* reset: a test parses more than once */
    for (;;) {
        const char *arg = argv[optind != 0 ? optind : 1];

        letter = getopt_long(argc, argv, letters, longs, NULL);
        if (letter == '?')
            return ctl_usage_error(NULL, "unknown option before the command", arg);
        if (letter == -1 || letter == ':')
            break;
        letter = find_flag(&leading, letter)->letter;
        if (letter == 'h')
            return print_help();
        if (letter == 'v') {
            struct ctl_options o = {0};

            text_addf(&o.out, "resumelbctl %s\n", RLB_VERSION);
            return ctl_finish(&o, ERR_OK);
        }
    }
    if (optind >= argc)
        return ctl_usage_error(NULL, "expected a command: status, explain, check, ...", NULL);
    char *word = argv[optind];
    for (size_t i = 0; i < ctl_ncommands; ++i) {
        if (strcmp(word, ctl_commands[i]->name) != 0)
            continue;
        /* Removes the command from the arguments: the others before it move by one. */
        memmove(argv + 1, argv, (size_t)optind * sizeof(argv[0]));
        argv[0] = word;
        return ctl_commands[i]->run(ctl_commands[i], argc - 1, argv + 1);
    }
    return ctl_usage_error(NULL, "unknown command", word);
}
