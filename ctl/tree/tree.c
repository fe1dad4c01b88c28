/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of resumelbctl tree. Exit status: 0 success; 1 failure (diff: they differ); 2
 * usage error (diff: or failure).
 */
#include "ctl/tree/tree.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "ctl/cli/ctl.h"

enum { TIMEOUT_MAX_S = 3600 };

struct verb {
    const char *name;
    size_t min, max; /* number of words after it */
    int (*run)(struct tree_command *c);
    int trouble; /* exit code when the tree cannot be opened, or the output not be written */
    const char *usage;
};

static const struct verb verbs[] = {
    {"print", 0, 1, tree_print, CTL_FAILED, "print [PATH] [--json]"},
    {"export", 0, 1, tree_export, CTL_FAILED, "export [PATH] [-o FILE] [--ephemeral]"},
    {"import", 1, 2, tree_import, CTL_FAILED,
     "import FILE|- [PATH] [--dry-run] [--trim|--no-trim] [--reset-acl]"},
    {"diff", 1, 2, tree_diff, CTL_USAGE, "diff FILE|- [PATH] [--trim|--no-trim]"},
    {"set", 1, 1 + TREE_CHANGES_MAX, tree_set, CTL_FAILED,
     "set PATH [NAME=VALUE|NAME->PATH|NAME=>PATH [PROPERTY]]... [--unset NAME]... [--create]"},
    {"get", 1, 2, tree_get, CTL_FAILED, "get PATH [NAME]"},
    {"watch", 0, 1, tree_watch_changes, CTL_FAILED, "watch [PATH]"},
};

static void print_help(FILE *out)
{
    fputs("usage: resumelbctl tree [OPTIONS] VERB ...\n"
          "\n"
          "Read and edit the tree that settings and workers are in.\n"
          "\n"
          "verbs:\n",
          out);
    for (size_t i = 0; i < ARRAY_LEN(verbs); ++i)
        fprintf(out, "  %s\n", verbs[i].usage);
    fputs("\n"
          "options:\n"
          "  -u, --tree URL         directory:/PATH or zookeeper://HOST:PORT,HOST:PORT/PATH; else\n"
          "                         $RESUMELB_TREE\n"
          "  -A, --auth-file FILE   ZooKeeper: its first line is USER:PASSWORD\n"
          "  -t, --timeout SECONDS  how long to wait for an answer (10)\n"
          "  -j, --json             print: for programs, nodes with properties and nodes below\n"
          "  -e, --ephemeral        export: providers, too\n"
          "  -o, --output FILE      export: to FILE, which is replaced whole\n"
          "  -n, --dry-run          import: say what would change, and change nothing\n"
          "      --trim             delete nodes that the text has not, but none that hold "
          "providers\n"
          "      --no-trim          neither delete them nor tell of them\n"
          "      --reset-acl        permissions as of new nodes, also where nodes exist\n"
          "      --unset NAME       set: remove a property or link\n"
          "      --create           set: make the node if it is not there\n"
          "  -h, --help             print this\n"
          "\n"
          "VALUE is JSON, or text if it does not parse as such. Names and links: resumelbctl(1).\n"
          "exit codes: 0 done; 1 not done; 2 bad usage; diff: 0 the same; 1 different; 2 trouble\n",
          out);
}

static int usage_error(const char *what, const char *which)
{
    fprintf(stderr, "resumelbctl tree: %s%s%s\nTry resumelbctl tree --help.\n", what,
            which != NULL ? ": " : "", which != NULL ? which : "");
    return CTL_USAGE;
}

enum { OPTION_TRIM = 256, OPTION_NO_TRIM, OPTION_RESET_ACL, OPTION_UNSET, OPTION_CREATE };

static const struct option options[] = {
    {"tree", required_argument, NULL, 'u'},
    {"auth-file", required_argument, NULL, 'A'},
    {"timeout", required_argument, NULL, 't'},
    {"json", no_argument, NULL, 'j'},
    {"ephemeral", no_argument, NULL, 'e'},
    {"output", required_argument, NULL, 'o'},
    {"dry-run", no_argument, NULL, 'n'},
    {"trim", no_argument, NULL, OPTION_TRIM},
    {"no-trim", no_argument, NULL, OPTION_NO_TRIM},
    {"reset-acl", no_argument, NULL, OPTION_RESET_ACL},
    {"unset", required_argument, NULL, OPTION_UNSET},
    {"create", no_argument, NULL, OPTION_CREATE},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int take_trim(struct tree_command *c, enum tree_trim trim)
{
    if (c->trim != TREE_TRIM_TELL && c->trim != trim)
        return usage_error("want one of --trim and --no-trim", NULL);
    c->trim = trim;
    return CTL_OK;
}

static int take_timeout(struct tree_command *c)
{
    uint64_t seconds = 0;

    if (!parse_u64(slice_of(optarg), TIMEOUT_MAX_S, &seconds) || seconds == 0)
        return usage_error("want a number of seconds, at least 1", optarg);
    c->timeout_ms = (unsigned)seconds * 1000;
    return CTL_OK;
}

/* One option with its argument. CTL_OK, or the exit code. */
static int take_option(int option, struct tree_command *c)
{
    switch (option) {
    case 'u':
        c->url = optarg;
        return CTL_OK;
    case 'A':
        c->auth_file = optarg;
        return CTL_OK;
    case 't':
        return take_timeout(c);
    case 'e':
        c->ephemeral = true;
        return CTL_OK;
    case 'o':
        c->output = optarg;
        return CTL_OK;
    case 'j':
        c->json = true;
        return CTL_OK;
    case 'n':
        c->dry_run = true;
        return CTL_OK;
    case OPTION_TRIM:
        return take_trim(c, TREE_TRIM_DELETE);
    case OPTION_NO_TRIM:
        return take_trim(c, TREE_TRIM_IGNORE);
    case OPTION_RESET_ACL:
        c->reset_acl = true;
        return CTL_OK;
    case OPTION_UNSET:
        if (c->nunset == TREE_CHANGES_MAX)
            return usage_error("too many --unset", NULL);
        c->unset[c->nunset++] = optarg;
        return CTL_OK;
    case OPTION_CREATE:
        c->create = true;
        return CTL_OK;
    default:
        /* getopt has printed what is wrong. */
        fputs("Try resumelbctl tree --help.\n", stderr);
        return CTL_USAGE;
    }
}

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(verbs); ++i) {
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    }
    return NULL;
}

/* -1: continue; otherwise the exit status. */
static int parse_command_line(int argc, char **argv, struct tree_command *c,
                              const struct verb **verb)
{
    int option;

    optind = 0; /* reset: a test parses more than once */
    while ((option = getopt_long(argc, argv, "u:A:t:jeo:nh", options, NULL)) != -1) {
        if (option == 'h') {
            print_help(stdout);
            return CTL_OK;
        }
        int code = take_option(option, c);
        if (code != CTL_OK)
            return code;
    }
    if (optind == argc)
        return usage_error("want a verb: print, export, import, diff, set, get, watch", NULL);
    *verb = find_verb(argv[optind]);
    if (*verb == NULL)
        return usage_error("no such verb", argv[optind]);
    c->words = argv + optind + 1;
    c->nwords = (size_t)(argc - optind - 1);
    if (c->nwords < (*verb)->min || c->nwords > (*verb)->max)
        return usage_error("want", (*verb)->usage);
    if (c->json && (*verb)->run != tree_print)
        return usage_error("--json is for print; get answers in JSON anyway", NULL);
    if (c->url == NULL)
        c->url = getenv("RESUMELB_TREE");
    if (c->url == NULL || c->url[0] == '\0')
        return usage_error("which tree? --tree URL, or RESUMELB_TREE in the environment", NULL);
    return -1;
}

/* ---- operations ---- */

static void stop_loop(struct tree_op *op)
{
    struct tree_command *c = op->context;

    loop_stop(c->loop);
}

static enum err run(struct tree_command *c, struct tree_op *op)
{
    op->timeout_ms = c->timeout_ms;
    op->diag = &c->diag;
    op->done = stop_loop;
    op->context = c;
    tree_op_begin(c->tree, op);
    loop_run(c->loop);
    return op->result;
}

enum err tree_command_read(struct tree_command *c, const char *path, struct tree_record *out)
{
    struct tree_op op = {.kind = TREE_READ, .path = path};
    enum err e = run(c, &op);

    *out = op.record;
    return e;
}

enum err tree_command_change(struct tree_command *c, enum tree_op_kind kind, const char *path,
                             const json_t *properties, const uint64_t *version)
{
    struct tree_op op = {.kind = kind, .path = path, .properties = properties, .version = version};

    return run(c, &op);
}

enum err tree_command_resolve(struct tree_command *c, const char *path, char out[TREE_PATH_MAX + 1])
{
    struct tree_op op = {.kind = TREE_RESOLVE, .path = path};
    enum err e = run(c, &op);

    memcpy(out, op.at, sizeof(op.at));
    return e;
}

/* ---- paths ---- */

enum err tree_command_path(struct tree_command *c, const char *word, char out[TREE_PATH_MAX + 1])
{
    char path[TREE_PATH_MAX + 1];
    char full[2 * TREE_PATH_MAX + 1];
    enum err e = tree_path_join("", slice_of(word), path);

    if (e == ERR_OK) {
        snprintf(full, sizeof(full), "%s%s", tree_top(c->tree), path);
        e = strlen(full) <= TREE_PATH_MAX ? ERR_OK : ERR_TOO_LARGE;
    }
    if (e != ERR_OK) {
        diag_add(&c->diag, NULL, 0, 0, "'%s': %s", word,
                 e == ERR_RANGE ? "leaves the tree" : "path too long");
        return e;
    }
    e = tree_command_resolve(c, full, out);
    /* Only nodes have links, so a provider in a directory is none to them. */
    if (e == ERR_NOT_FOUND) {
        struct tree_record r;

        e = tree_command_read(c, out, &r);
        tree_record_fini(&r);
    }
    return e;
}

enum err tree_command_node(struct tree_command *c, const char *word, char out[TREE_PATH_MAX + 1])
{
    enum err e = tree_command_path(c, word, out);

    if (e == ERR_NOT_FOUND)
        diag_add(&c->diag, NULL, 0, 0, "%s: no such node in %s", word != NULL ? word : "/", c->url);
    return e;
}

static bool print_out(const struct tree_command *c)
{
    struct slice s = text_slice(&c->out);
    size_t written = s.len != 0 ? fwrite(s.p, 1, s.len, stdout) : 0;

    if (written == s.len && fflush(stdout) == 0)
        return true;
    perror("resumelbctl: stdout");
    return false;
}

int ctl_tree_main(int argc, char **argv)
{
    struct tree_command *c = xcalloc(1, sizeof(*c));
    const struct verb *verb = NULL;

    c->timeout_ms = TREE_OP_TIMEOUT_MS;
    int code = parse_command_line(argc, argv, c, &verb);

    if (code >= 0) {
        free(c);
        return code;
    }
    ASSERT(verb != NULL);
    /* A command reports a time-out itself; a watch continues, and logs what happens to the tree. */
    log_set_level(verb->run == tree_watch_changes ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR);
    const struct tree_options o = {.auth_file = c->auth_file};
    c->loop = loop_create(0);
    code = tree_open(c->loop, slice_of(c->url), &o, &c->tree, &c->diag) == ERR_OK ? verb->run(c)
                                                                                  : verb->trouble;
    tree_close(c->tree);
    loop_destroy(c->loop);
    if (!print_out(c))
        code = verb->trouble;
    if (c->diag.text != NULL)
        fprintf(stderr, "resumelbctl: %s", c->diag.text);
    diag_fini(&c->diag);
    text_fini(&c->out);
    free(c);
    return code;
}
