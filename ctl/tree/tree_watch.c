/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl tree watch: what a watch of a node reports, one line per change, with the time:
 * properties with their links followed, providers, and nodes below. It runs until the process is
 * ended, also while the tree cannot be reached.
 */
#include "ctl/tree/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/literal.h"
#include "ctl/cli/ctl.h"

struct watched {
    struct tree_command *command;
    struct timer patience; /* until the first report */
    const char *path;
    bool told; /* there has been a report */
    bool exists;
    char *problem;
    json_t *properties; /* as last reported */
    json_t *providers;  /* name -> properties */
    json_t *children;   /* name -> null */
    struct text lines;
};

static void add_time(struct text *out)
{
    struct timespec now;
    struct tm utc;
    char text[32];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
    text_addf(out, "%s.%03ldZ", text, now.tv_nsec / 1000000);
}

/* Adds a line: time, path, WHAT, and NAME and "= V" if given. */
static void say(struct watched *w, const char *what, const char *name, const json_t *v)
{
    add_time(&w->lines);
    text_addf(&w->lines, " %s %s", w->path, what);
    if (name != NULL) {
        text_add_char(&w->lines, ' ');
        text_add_escaped(&w->lines, slice_of(name));
    }
    if (v != NULL && !json_is_null(v)) {
        text_add(&w->lines, SLICE_LIT(" = "));
        literal_print(v, &w->lines);
    }
    text_add_char(&w->lines, '\n');
}

/* Reports how NOW differs from *BEFORE, which becomes NOW (ownership is taken). */
static void tell(struct watched *w, json_t **before, json_t *now, const char *comes,
                 const char *goes)
{
    const char *key;
    json_t *v;

    json_object_foreach(*before, key, v)
    {
        if (json_object_get(now, key) == NULL)
            say(w, goes, key, NULL);
    }
    json_object_foreach(now, key, v)
    {
        json_t *was = json_object_get(*before, key);

        if (was == NULL || !json_equal(was, v))
            say(w, comes, key, v);
    }
    json_decref(*before);
    *before = now;
}

static json_t *providers_of(const struct tree_node *node)
{
    json_t *all = json_object();

    for (size_t i = 0; i < node->nproviders; ++i)
        json_object_set_nocheck(all, node->providers[i].name, node->providers[i].properties);
    return all;
}

static json_t *children_of(const struct tree_node *node)
{
    json_t *all = json_object();

    for (size_t i = 0; i < node->nchildren; ++i)
        json_object_set_new_nocheck(all, node->children[i], json_null());
    return all;
}

static void tell_problem(struct watched *w, const char *problem)
{
    const char *before = w->problem != NULL ? w->problem : "";
    const char *now = problem != NULL ? problem : "";

    if (strcmp(before, now) == 0)
        return;
    if (now[0] != '\0')
        say(w, "problem:", now, NULL);
    else
        say(w, "no problem any more", NULL, NULL);
    free(w->problem);
    w->problem = xstrdup(problem);
}

static void write_lines(struct watched *w)
{
    size_t written = fwrite(w->lines.p != NULL ? w->lines.p : "", 1, w->lines.len, stdout);

    if (written != w->lines.len || fflush(stdout) != 0) {
        diag_add(&w->command->diag, "stdout", 0, 0, "%m");
        loop_stop(w->command->loop);
    }
    text_clear(&w->lines);
}

static void on_changed(void *context, const struct tree_node *node)
{
    struct watched *w = context;

    timer_stop(&w->patience);
    if (!w->told || w->exists != node->exists)
        say(w, node->exists ? "is there" : "is not there", NULL, NULL);
    w->told = true;
    w->exists = node->exists;
    tell_problem(w, node->problem);
    tell(w, &w->properties, json_incref(node->properties), "property", "no property");
    if (node->providers_known)
        tell(w, &w->providers, providers_of(node), "provider", "no provider");
    tell(w, &w->children, children_of(node), "node", "no node");
    write_lines(w);
}

static void on_no_answer(struct timer *timer)
{
    struct watched *w = container_of(timer, struct watched, patience);

    fprintf(stderr, "resumelbctl: no answer from %s yet; waiting for it\n", w->command->url);
}

static void watched_fini(struct watched *w)
{
    timer_stop(&w->patience);
    json_decref(w->properties);
    json_decref(w->providers);
    json_decref(w->children);
    free(w->problem);
    text_fini(&w->lines);
}

int tree_watch_changes(struct tree_command *c)
{
    struct watched w = {.command = c,
                        .path = c->nwords != 0 ? c->words[0] : "/",
                        .properties = json_object(),
                        .providers = json_object(),
                        .children = json_object()};
    struct tree_watch *watch = tree_watch(c->tree, w.path, on_changed, &w);

    timer_init(&w.patience, on_no_answer);
    timer_start(c->loop, &w.patience, c->timeout_ms);
    loop_run(c->loop);
    tree_unwatch(watch);
    watched_fini(&w);
    /* A watch ends by a signal, or because its output cannot be written. */
    return CTL_FAILED;
}
