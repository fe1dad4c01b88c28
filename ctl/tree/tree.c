/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of resumelbctl tree. Exit status: 0 success; 1 failure (diff: they differ); 2
 * usage error (diff: or failure).
 */
#include "ctl/tree/tree.h"
#include "common/base/file.h"
#include "common/base/json.h"
#include "common/base/literal.h"
#include "common/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- print and export ---- */

/*
 * resumelbctl tree print, export: a part of the tree is read node by node, then printed as text.
 * Nodes that cannot be read do not prevent the others from being printed.
 */

struct tree_walk {
    struct tree_command *command;
    bool display; /* providers and remarks, too */
    size_t nodes;
    size_t unread;
};

/*
 * The node at PATH becomes a child NAME of ABOVE, with all below; NAME NULL: it becomes ABOVE, the
 * top of the text, which is not a node itself.
 */
static enum err tree_ctl_walk(struct tree_walk *w, const char *path, const char *name, size_t depth,
                              json_t *above)
{
    struct diag *d = &w->command->o.diag;
    json_t *n = above;
    struct tree_record s = {0};
    const char *child;
    json_t *unused;
    enum err e;

    if (name != NULL && w->nodes++ == TREE_TEXT_NODES_MAX) {
        diag_add(d, NULL, 0, 0, "%s: more than %d nodes in total: name a part of it", path,
                 TREE_TEXT_NODES_MAX);
        return ERR_SYSTEM;
    }
    if (depth == TREE_TEXT_DEPTH_MAX) {
        diag_add(d, NULL, 0, 0, "%s: nested deeper than %d", path, TREE_TEXT_DEPTH_MAX);
        e = ERR_TOO_LARGE;
    } else {
        e = tree_command_read(w->command, path, &s);
    }
    bool unreadable = name != NULL && (e == ERR_UNSUPPORTED || e == ERR_TOO_LARGE);
    if (e == ERR_NOT_FOUND && depth != 0)
        return ERR_OK; /* deleted meanwhile */
    if ((e != ERR_OK && !unreadable) || (s.provider && !w->display && !w->command->ephemeral)) {
        tree_record_fini(&s);
        return e;
    }
    if (name != NULL)
        n = tree_text_add(above, slice_of(name));
    if (unreadable) {
        ++w->unread;
        json_object_set_new(n, "remark", json_string("cannot be read"));
        return ERR_OK;
    }
    if (json_object_size(s.properties) != 0)
        json_object_set(n, "properties", s.properties);
    if (w->display && name != NULL && s.problem != NULL) {
        json_object_set_new(
            n, "remark",
            json_sprintf("%snot JSON: %s", s.provider ? "a provider; " : "", s.problem));
    } else if (w->display && s.provider) {
        json_object_set_new(n, "remark", json_string("a provider"));
    }
    json_object_foreach (s.children, child, unused) {
        if (e != ERR_OK)
            break;
        char *below = xasprintf("%s/%s", path, child);

        e = tree_ctl_walk(w, below, child, depth + 1, n);
        free(below);
    }
    tree_record_fini(&s);
    return e;
}

/* Removes the nodes with a name that is not UTF-8; *LEFT_OUT counts them. */
static void omit_odd_names(json_t *n, size_t *left_out)
{
    json_t *nodes = json_object_get(n, "nodes");
    const char *name;
    json_t *child;
    void *next;

    json_object_foreach_safe (nodes, next, name, child) {
        omit_odd_names(child, left_out);
        if (!utf8_valid(slice_of(name))) {
            ++*left_out;
            json_object_del(nodes, name);
        }
    }
}

/* Prints the node of the command line, or for the top what is below it. */
static int show_node(struct tree_command *c, bool display)
{
    struct tree_walk w = {.command = c, .display = display};
    char path[TREE_PATH_MAX + 1];
    json_t *top = json_object();
    size_t nleft_out = 0;
    enum err e = tree_command_path(c, c->words[0], true, path);

    if (e == ERR_OK) {
        bool is_top = path[0] == '\0' || strcmp(path, tree_top(c->tree)) == 0;

        e = tree_ctl_walk(&w, path, is_top ? NULL : strrchr(path, '/') + 1, 0, top);
    }
    if (e == ERR_OK && c->o.json) {
        omit_odd_names(top, &nleft_out);
        json_print(top, &c->o.out);
        text_add_char(&c->o.out, '\n');
        if (nleft_out != 0)
            diag_add(&c->o.diag, NULL, 0, 0, "%zu nodes omitted: their names are not UTF-8",
                     nleft_out);
    } else if (e == ERR_OK) {
        nleft_out = tree_text_print(top, &c->o.out, display ? NULL : &c->o.diag);
    }
    json_decref(top);
    return e == ERR_OK && nleft_out == 0 && w.unread == 0 ? CTL_OK : CTL_FAILED;
}

/* Each returns the exit status. Errors are in the diag. */
static int tree_print(struct tree_command *c)
{
    return show_node(c, true);
}

static int tree_export(struct tree_command *c)
{
    int code = show_node(c, false);

    if (c->output == NULL || (code != CTL_OK && c->o.out.len == 0))
        return code;
    if (file_write_output(c->output, text_slice(&c->o.out), 0640) != ERR_OK) {
        diag_add(&c->o.diag, c->output, 0, 0, "%m");
        code = CTL_FAILED;
    }
    text_clear(&c->o.out);
    return code;
}

/* ---- watch ---- */

/*
 * resumelbctl tree watch: what a watch of a node reports, one line per change, with the time:
 * properties with their links followed, providers, and nodes below. It runs until the process is
 * ended, also while the tree cannot be reached.
 */

struct watched_node {
    struct tree_command *command;
    struct timer response_timer; /* until the first report */
    const char *path;
    bool exists;
    char *problem;      /* as last reported: empty if none; NULL before the first report */
    json_t *properties; /* as last reported */
    json_t *providers;  /* name -> properties */
    json_t *children;   /* name -> null */
    struct text lines;
};

/* Adds a line: time, path, WHAT, and NAME and "= V" if given. */
static void ctl_add_line(struct watched_node *w, const char *what, const char *name,
                         const json_t *v)
{
    struct text *out = &w->lines;
    struct timespec now;
    struct tm utc;
    char time[32];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &utc);
    text_addf(out, "%s.%03ldZ %s %s", time, now.tv_nsec / 1000000, w->path, what);
    if (name != NULL) {
        text_add_char(out, ' ');
        text_add_escaped(out, slice_of(name));
    }
    if (v != NULL && !json_is_null(v)) {
        text_add(out, SLICE_LIT(" = "));
        literal_print(v, out);
    }
    text_add_char(out, '\n');
}

/* Reports how NOW differs from *BEFORE, which becomes NOW (ownership is taken). */
static void tree_ctl_report(struct watched_node *w, json_t **before, json_t *now, const char *added,
                            const char *removed)
{
    const char *key;
    json_t *v;

    json_object_foreach (*before, key, v) {
        if (json_object_get(now, key) == NULL)
            ctl_add_line(w, removed, key, NULL);
    }
    json_object_foreach (now, key, v) {
        json_t *was = json_object_get(*before, key);

        if (was == NULL || !json_equal(was, v))
            ctl_add_line(w, added, key, v);
    }
    json_decref(*before);
    *before = now;
}

static void on_tree_ctl_changed(void *context, const struct tree_view *node)
{
    struct watched_node *w = context;
    const char *problem = node->problem != NULL ? node->problem : "";

    timer_stop(&w->response_timer);
    if (w->problem == NULL || w->exists != node->exists)
        ctl_add_line(w, node->exists ? "is there" : "is not there", NULL, NULL);
    w->exists = node->exists;
    if (problem[0] != '\0' && !slice_is(slice_of(w->problem), problem))
        ctl_add_line(w, "problem:", problem, NULL);
    else if (problem[0] == '\0' && slice_of(w->problem).len != 0)
        ctl_add_line(w, "no problem", NULL, NULL);
    free(w->problem);
    w->problem = xstrdup(problem);
    tree_ctl_report(w, &w->properties, json_incref(node->properties), "property", "no property");
    if (node->providers_known)
        tree_ctl_report(w, &w->providers, json_incref(node->providers), "provider", "no provider");
    tree_ctl_report(w, &w->children, json_incref(node->children), "node", "no node");
    if ((w->lines.len != 0 && fwrite(w->lines.p, 1, w->lines.len, stdout) != w->lines.len) ||
        fflush(stdout) != 0) {
        diag_add(&w->command->o.diag, "stdout", 0, 0, "%m");
        loop_stop(w->command->loop);
    }
    text_clear(&w->lines);
}

static void on_no_response(struct timer *timer)
{
    struct watched_node *w = container_of(timer, struct watched_node, response_timer);

    fprintf(stderr, "resumelbctl: no response from %s yet; waiting\n", w->command->url);
}

/* Prints by itself, and runs until the process is ended. */
static int tree_watch_changes(struct tree_command *c)
{
    struct watched_node w = {.command = c,
                             .path = c->nwords != 0 ? c->words[0] : "/",
                             .properties = json_object(),
                             .providers = json_object(),
                             .children = json_object()};
    struct tree_watch *watch = tree_watch(c->tree, w.path, on_tree_ctl_changed, &w);

    timer_init(&w.response_timer, on_no_response);
    timer_start(c->loop, &w.response_timer, c->o.timeout_ms);
    loop_run(c->loop);
    tree_unwatch(watch);
    timer_stop(&w.response_timer);
    json_decref(w.properties);
    json_decref(w.providers);
    json_decref(w.children);
    free(w.problem);
    text_fini(&w.lines);
    /* A watch ends by a signal, or because its output cannot be written. */
    return CTL_FAILED;
}

/* ---- the command ---- */

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

static void describe_verbs(struct text *out)
{
    text_add(out, SLICE_LIT("\nverbs:\n"));
    for (size_t i = 0; i < ARRAY_LEN(verbs); ++i)
        text_addf(out, "  %s\n", verbs[i].usage);
    text_add(out,
             SLICE_LIT("\nVALUE is JSON, or text if it does not parse as such. Names and links: "
                       "resumelbctl(1).\n"
                       "Exit status: 0 success; 1 failure; 2 usage error; diff: 0 same; 1 "
                       "different; 2 trouble\n"));
}

static int usage_error(const char *what, const char *which)
{
    return ctl_usage_error(&ctl_word_tree, what, which);
}

/* The member `at` of F is the value to set. */
static int take_trim(struct ctl_options *o, const struct ctl_flag *f, unused_ const char *value)
{
    struct tree_command *c = container_of(o, struct tree_command, o);
    enum tree_trim trim = (enum tree_trim)f->at;

    if (c->trim != TREE_TRIM_REPORT && c->trim != trim)
        return usage_error("expected one of --trim and --no-trim", NULL);
    c->trim = trim;
    return CTL_OK;
}

static int take_unset(struct ctl_options *o, unused_ const struct ctl_flag *f, const char *value)
{
    struct tree_command *c = container_of(o, struct tree_command, o);

    if (c->nunset == TREE_CHANGES_MAX)
        return usage_error("too many --unset", NULL);
    c->unset[c->nunset++] = value;
    return CTL_OK;
}

/* ---- operations ---- */

static void stop_loop(struct tree_op *op)
{
    struct tree_command *c = op->context;

    loop_stop(c->loop);
}

static enum err tree_ctl_act(struct tree_command *c, struct tree_op *op)
{
    op->timeout_ms = (unsigned)c->o.timeout_ms;
    op->diag = &c->o.diag;
    op->done = stop_loop;
    op->context = c;
    tree_op_begin(c->tree, op);
    loop_run(c->loop);
    return op->result;
}

enum err tree_command_read(struct tree_command *c, const char *path, struct tree_record *out)
{
    struct tree_op op = {.kind = TREE_READ, .path = path};
    enum err e = tree_ctl_act(c, &op);

    *out = op.record;
    return e;
}

enum err tree_command_change(struct tree_command *c, enum tree_op_kind kind, const char *path,
                             const json_t *properties, const uint64_t *version)
{
    struct tree_op op = {.kind = kind, .path = path, .properties = properties, .version = version};

    return tree_ctl_act(c, &op);
}

enum err tree_command_resolve(struct tree_command *c, const char *path, char out[TREE_PATH_MAX + 1])
{
    struct tree_op op = {.kind = TREE_RESOLVE, .path = path};
    enum err e = tree_ctl_act(c, &op);

    memcpy(out, op.at, sizeof(op.at));
    return e;
}

enum err tree_command_path(struct tree_command *c, const char *word, bool must_exist,
                           char out[TREE_PATH_MAX + 1])
{
    char path[TREE_PATH_MAX + 1];
    char full[2 * TREE_PATH_MAX + 1];
    enum err e = tree_path_join("", slice_of(word), path);

    if (e == ERR_OK) {
        snprintf(full, sizeof(full), "%s%s", tree_top(c->tree), path);
        e = strlen(full) <= TREE_PATH_MAX ? ERR_OK : ERR_TOO_LARGE;
    }
    if (e != ERR_OK) {
        diag_add(&c->o.diag, NULL, 0, 0, "'%s': %s", word,
                 e == ERR_RANGE ? "leaves the tree" : "path too long");
        return e;
    }
    e = tree_command_resolve(c, full, out);
    /* Only nodes are resolved, and a provider in a directory is none: it is read itself. */
    if (e == ERR_NOT_FOUND) {
        struct tree_record r;

        e = tree_command_read(c, out, &r);
        tree_record_fini(&r);
    }
    if (e == ERR_NOT_FOUND && must_exist)
        diag_add(&c->o.diag, NULL, 0, 0, "%s: no such node in %s", word != NULL ? word : "/",
                 c->url);
    return e;
}

static int tree_ctl_main(const struct ctl_command *command, int argc, char **argv)
{
    struct tree_command c = {0};
    const struct verb *verb = NULL;
    int code = ctl_parse(command, argc, argv, &c.o);

    if (code >= 0)
        return code;
    if (c.o.words[0] == NULL)
        return usage_error("expected a verb: print, export, import, diff, set, get, watch", NULL);
    for (size_t i = 0; i < ARRAY_LEN(verbs); ++i) {
        if (strcmp(verbs[i].name, c.o.words[0]) == 0)
            verb = &verbs[i];
    }
    if (verb == NULL)
        return usage_error("unknown verb", c.o.words[0]);
    c.words = c.o.words + 1;
    while (c.words[c.nwords] != NULL)
        ++c.nwords;
    if (c.nwords < verb->min || c.nwords > verb->max)
        return usage_error("expected", verb->usage);
    if (c.o.json && verb->run != tree_print)
        return usage_error("--json is for print; get always prints JSON", NULL);
    if (c.url == NULL)
        c.url = getenv("RESUMELB_TREE");
    if (c.url == NULL || c.url[0] == '\0')
        return usage_error("no tree: use --tree URL, or RESUMELB_TREE in the environment", NULL);
    /* A command reports a time-out itself; a watch continues, and logs what happens to the tree. */
    log_set_level(verb->run == tree_watch_changes ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR);
    const struct tree_options o = {.auth_file = c.auth_file};
    c.loop = loop_create(0);
    code = tree_open(c.loop, slice_of(c.url), &o, &c.tree, &c.o.diag) == ERR_OK ? verb->run(&c)
                                                                                : verb->trouble;
    tree_close(c.tree);
    loop_destroy(c.loop);
    return ctl_finish(&c.o, ERR_OK) == CTL_OK ? code : verb->trouble;
}

static const struct ctl_flag tree_flags[] = {
    {'u', "tree", "URL", NULL,
     "directory:/PATH or zookeeper://HOST:PORT,HOST:PORT/PATH ($RESUMELB_TREE)",
     CTL_TEXT(struct tree_command, url)},
    {'A', "auth-file", "FILE", CTL_FILES, "ZooKeeper: its first line is USER:PASSWORD",
     CTL_TEXT(struct tree_command, auth_file)},
    CTL_FLAG_TIMEOUT,
    {'j', "json", NULL, NULL, "print: as JSON, nodes with properties and nodes below",
     CTL_SET(struct ctl_options, json)},
    {'e', "ephemeral", NULL, NULL, "export: providers, too",
     CTL_SET(struct tree_command, ephemeral)},
    {'o', "output", "FILE", CTL_FILES, "export: to FILE, which is replaced",
     CTL_TEXT(struct tree_command, output)},
    {'n', "dry-run", NULL, NULL, "import: print what would change, and change nothing",
     CTL_SET(struct tree_command, dry_run)},
    {0, "trim", NULL, NULL,
     "delete nodes that are not in the text, except those that hold providers", take_trim,
     TREE_TRIM_DELETE, 0, 0},
    {0, "no-trim", NULL, NULL, "neither delete nor report them", take_trim, TREE_TRIM_IGNORE, 0, 0},
    {0, "reset-acl", NULL, NULL, "set permissions as for new nodes on existing nodes, too",
     CTL_SET(struct tree_command, reset_acl)},
    {0, "unset", "NAME", NULL, "set: remove a property or link", CTL_OWN(take_unset)},
    {0, "create", NULL, NULL, "set: create the node if it does not exist",
     CTL_SET(struct tree_command, create)},
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_tree = {
    .name = "tree",
    .arguments = "VERB ...",
    .summary = "read and edit the tree of settings and workers",
    .describe = describe_verbs,
    .completes = "print export import diff set get watch",
    CTL_FLAGS(tree_flags),
    .run = tree_ctl_main,
};
