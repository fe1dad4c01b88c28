/* SPDX-License-Identifier: Apache-2.0
 *
 * Command line, fetching, exit codes. 0: done. 1: it could not be done (nobody there, a bad
 * answer). 2: the command line is wrong.
 */
#include "ctl/ctl.h"
#include "common/base/file.h"
#include "ctl/fetch.h"
#include "ctl/simulate.h"
#include "ctl/tree.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "version.h"

enum { TOP_DEFAULT = 10, TIMEOUT_MAX_S = 3600, TOP_MAX = 1000000 };

/* A word shows a page, or does something. */
struct word {
    const char *name;
    const char *path; /* of the admin address; NULL: it does something */
    enum err (*print)(const json_t *page, const struct ctl_options *o, struct text *out);
    enum err (*act)(const struct ctl_options *o, struct text *out, struct diag *d);
    const char *summary;
};

static const struct word words[] = {
    {"status", "/status.json", ctl_status_text, NULL,
     "applications, their workers or processes, how requests were routed"},
    {"resumes", "/resumes.json", ctl_resumes_text, NULL,
     "what each worker is good at: its best classes, with scores"},
    {"limits", "/status.json", ctl_limits_text, NULL,
     "pool counters: who holds, waits, was refused; the keys most waited for"},
    {"detach", NULL, NULL, ctl_detach,
     "ID: an agent takes this process out and ends it when its requests are done"},
};

static void print_help(FILE *out)
{
    fputs("usage: resumelbctl [OPTIONS] WORD [APPLICATION]\n"
          "       resumelbctl [OPTIONS] detach ID\n"
          "       resumelbctl tree [OPTIONS] VERB ...\n"
          "       resumelbctl simulate [OPTIONS] [ACCESS-LOG]\n"
          "\n"
          "Ask a running resumelb or resumelb-agent; for limits, a resumelb-poolcounter too.\n"
          "\n"
          "words:\n",
          out);
    for (size_t i = 0; i < ARRAY_LEN(words); ++i)
        fprintf(out, "  %-9s %s\n", words[i].name, words[i].summary);
    fputs("  tree      reads and edits the tree of settings and workers: resumelbctl tree --help\n"
          "  simulate  what resumelb would do for an access log: resumelbctl simulate --help\n"
          "\n"
          "options:\n"
          "  -a, --address ADDRESS  its admin address: HOST:PORT, [IPV6]:PORT or unix:/path "
          "(127.0.0.1:8081)\n"
          "  -j, --json             print the page as it came\n"
          "  -c, --class CLASS      resumes: only this request class, best worker first\n"
          "  -n, --top N            resumes: so many classes of each worker (10); limits: so many "
          "keys; 0: all\n"
          "  -T, --token-file FILE  file with the admin address's token\n"
          "  -t, --timeout SECONDS  how long to wait for the answer (10)\n"
          "  -v, --version          print the version\n"
          "  -h, --help             print this\n"
          "\n"
          "exit codes: 0 done; 1 nobody there, or no good answer; 2 bad usage\n",
          out);
}

/* A bad command line, said; the exit code. */
static int usage_error(const char *what, const char *which)
{
    fprintf(stderr, "resumelbctl: %s%s%s\nTry resumelbctl --help.\n", what,
            which != NULL ? ": " : "", which != NULL ? which : "");
    return CTL_USAGE;
}

static int number_option(const char *text, uint64_t max, uint64_t *out, const char *complaint)
{
    return parse_u64(slice_of(text), max, out) ? CTL_OK : usage_error(complaint, text);
}

/* One option with its argument. CTL_OK, or the exit code. */
static int take_option(int option, struct ctl_options *o)
{
    uint64_t n = 0;
    int code = CTL_OK;

    switch (option) {
    case 'a':
        o->address = optarg;
        break;
    case 'j':
        o->json = true;
        break;
    case 'c':
        o->cls = optarg;
        break;
    case 'n':
        code = number_option(optarg, TOP_MAX, &n, "want a number of classes or keys");
        o->top = (size_t)n;
        break;
    case 'T':
        o->token_file = optarg;
        break;
    case 't':
        code = number_option(optarg, TIMEOUT_MAX_S, &n, "want a number of seconds");
        if (code == CTL_OK && n == 0)
            code = usage_error("want at least one second", NULL);
        o->timeout_ms = (unsigned)n * 1000;
        break;
    default:
        /* getopt has said what is wrong. */
        fputs("Try resumelbctl --help.\n", stderr);
        code = CTL_USAGE;
        break;
    }
    return code;
}

static const struct word *find_word(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(words); ++i) {
        if (strcmp(words[i].name, name) == 0)
            return &words[i];
    }
    return NULL;
}

/* The options and the word. -1: go on; else the exit code. */
static int parse_command_line(int argc, char **argv, struct ctl_options *o,
                              const struct word **word)
{
    static const struct option options[] = {
        {"address", required_argument, NULL, 'a'},
        {"json", no_argument, NULL, 'j'},
        {"class", required_argument, NULL, 'c'},
        {"top", required_argument, NULL, 'n'},
        {"token-file", required_argument, NULL, 'T'},
        {"timeout", required_argument, NULL, 't'},
        {"version", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;

    optind = 0; /* start anew: a test parses more than once */
    while ((option = getopt_long(argc, argv, "a:jc:n:T:t:vh", options, NULL)) != -1) {
        if (option == 'v') {
            printf("resumelbctl %s\n", RLB_VERSION);
            return CTL_OK;
        }
        if (option == 'h') {
            print_help(stdout);
            return CTL_OK;
        }
        int code = take_option(option, o);
        if (code != CTL_OK)
            return code;
    }
    if (optind == argc)
        return usage_error("want a word: status, resumes, limits, detach, tree or simulate", NULL);
    *word = find_word(argv[optind]);
    if (*word == NULL)
        return usage_error("no such word", argv[optind]);
    if (argc - optind > 2)
        return usage_error("unexpected argument", argv[optind + 2]);
    /* NULL at the end. */
    if ((*word)->act == NULL)
        o->application = argv[optind + 1];
    else
        o->process = argv[optind + 1];
    if ((*word)->act != NULL && o->process == NULL)
        return usage_error("want the id of a process, which status shows", NULL);
    return -1;
}

/* The token in FILE, without the end of its line, into OUT. */
static enum err read_token(const char *file, struct text *out, struct diag *d)
{
    enum err e = file_read(file, FETCH_TOKEN_MAX, out);

    if (e != ERR_OK) {
        diag_add(d, file, 0, 0, "%s", e == ERR_SYSTEM ? strerror(errno) : err_text(e));
        return e;
    }
    while (out->len != 0 && (out->p[out->len - 1] == '\n' || out->p[out->len - 1] == '\r'))
        --out->len;
    for (size_t i = 0; i < out->len; ++i) {
        /* It becomes part of a header line. */
        if (out->p[i] <= ' ' || out->p[i] >= 0x7f) {
            diag_add(d, file, 0, 0, "not a token: blanks or other bytes that cannot be in one");
            return ERR_SYNTAX;
        }
    }
    return ERR_OK;
}

enum err ctl_ask(const struct ctl_options *o, const char *method, const char *path, int *status,
                 struct text *body, struct diag *d)
{
    struct text token = {0};
    enum err e = o->token_file != NULL ? read_token(o->token_file, &token, d) : ERR_OK;

    if (e == ERR_OK) {
        struct fetch_request q = {
            .method = method,
            .address = o->address,
            .path = path,
            .token = o->token_file != NULL ? text_cstr(&token) : NULL,
            .timeout_ms = o->timeout_ms,
        };
        e = fetch(&q, status, body, d);
    }
    text_fini(&token);
    return e;
}

static enum err get_page(const struct ctl_options *o, const char *path, struct text *body,
                         struct diag *d)
{
    int status = 0;
    enum err e = ctl_ask(o, "GET", path, &status, body, d);

    if (e == ERR_OK && status != 200) {
        diag_add(d, NULL, 0, 0, "%s: answered %s with status %d%s", o->address, path, status,
                 status == 401 ? " (--token-file?)" : "");
        e = ERR_BAD_RESPONSE;
    }
    return e;
}

static enum err print_page(const struct word *word, const struct ctl_options *o, struct text *body,
                           struct text *out, struct diag *d)
{
    json_error_t why;
    /* The bounds of wire/json.h are for strangers; this page is as large as the pool, and bounded
     * in bytes. */
    json_t *page =
        json_loadb(body->p != NULL ? body->p : "", body->len, JSON_REJECT_DUPLICATES, &why);

    if (page == NULL) {
        diag_add(d, NULL, 0, 0, "%s: %s is not JSON: %s", o->address, word->path, why.text);
        return ERR_SYNTAX;
    }
    enum err e = word->print(page, o, out);
    if (e == ERR_NOT_FOUND)
        diag_add(d, NULL, 0, 0, "%s: has no application '%s'", o->address, o->application);
    else if (e != ERR_OK)
        diag_add(d, NULL, 0, 0,
                 "%s: %s has no applications in it; is this an admin address of ours?", o->address,
                 word->path);
    json_decref(page);
    return e;
}

/* What WORD has to say, to OUT. */
static enum err run_word(const struct word *word, const struct ctl_options *o, struct text *out,
                         struct diag *d)
{
    struct text body = {0};
    enum err e;

    if (word->act != NULL)
        return word->act(o, out, d);
    e = get_page(o, word->path, &body, d);
    if (e == ERR_OK && o->json)
        text_add(out, text_slice(&body));
    else if (e == ERR_OK)
        e = print_page(word, o, &body, out, d);
    text_fini(&body);
    return e;
}

static bool print_answer(struct slice answer)
{
    size_t written = answer.len != 0 ? fwrite(answer.p, 1, answer.len, stdout) : 0;

    if (written == answer.len && fflush(stdout) == 0)
        return true;
    perror("resumelbctl: stdout");
    return false;
}

int ctl_main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "tree") == 0)
        return ctl_tree_main(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "simulate") == 0)
        return ctl_simulate_main(argc - 1, argv + 1);

    struct ctl_options o = {
        .address = "127.0.0.1:8081", .timeout_ms = FETCH_TIMEOUT_MS, .top = TOP_DEFAULT};
    const struct word *word = NULL;
    struct text out = {0};
    struct diag d = {0};
    int code = parse_command_line(argc, argv, &o, &word);

    if (code >= 0)
        return code;
    ASSERT(word != NULL);
    enum err e = run_word(word, &o, &out, &d);
    if (e == ERR_OK && !print_answer(text_slice(&out)))
        e = ERR_SYSTEM;
    if (d.text != NULL)
        fprintf(stderr, "resumelbctl: %s", d.text);
    diag_fini(&d);
    text_fini(&out);
    return e == ERR_OK ? CTL_OK : CTL_FAILED;
}
