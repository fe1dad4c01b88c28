/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl worker add, remove, list: workers that are registered by calls at a load balancer's
 * admin address.
 */
#include "common/base/json.h"
#include "ctl/cli/page.h"
#include "ctl/inspect/inspect.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    NAME_BYTES_MAX = 255,
    TTL_MAX_S = 31 * 24 * 3600,
};

struct worker_run {
    struct ctl_options o;
    const char *version, *instance;
    uint64_t ttl_s;
};

static enum err send_worker(struct worker_run *r, bool add)
{
    const char *const members[][2] = {{"application", r->o.application},
                                      {"version", add ? r->version : NULL},
                                      {"instance", add ? r->instance : NULL}};
    char name[3 * NAME_BYTES_MAX];
    size_t n = percent_encode(slice_of(r->o.words[1]), name, sizeof(name));
    struct text content = {0};
    struct json_writer w = {.out = &content};

    if (n == SIZE_MAX) {
        diag_add(&r->o.diag, NULL, 0, 0, "the address is too long");
        return ERR_SYNTAX;
    }
    json_open_object(&w, NULL);
    for (size_t i = 0; i < ARRAY_LEN(members); ++i) {
        if (members[i][1] != NULL)
            json_put_text(&w, members[i][0], slice_of(members[i][1]));
    }
    if (add && r->ttl_s != 0)
        json_put_int(&w, "ttl", (int64_t)r->ttl_s);
    json_close_object(&w);
    char *path = xasprintf("/workers/%.*s", (int)n, name);
    enum err e = ctl_act(&r->o, add ? "PUT" : "DELETE", path, text_slice(&content),
                         add ? "{application} {worker} [{created:?}registered][{created:!}renewed]"
                               "[ for {ttl:d} s]\n"
                             : "{application} {worker} removed[{known:?}, known from elsewhere or "
                               "leaving]\n");
    free(path);
    text_fini(&content);
    return e;
}

/* ---- list ---- */

static const char columns[] = "worker={name}|>ttl=[{ttl_s:t}]|>ends in=[{ends_in_s:t}]|"
                              "state=[{worker:?}known][{why:w}]";

static void print_called(const char *name, json_t *a, unused_ const struct ctl_options *o,
                         struct text *out)
{
    text_add_escaped(out, slice_of(name));
    page_add(out, a,
             ": workers registered by calls, at most {calls.limit:d}"
             "[; not saved: {calls.unsaved:w}]\n");
    page_print_rows(columns, json_object_get(json_object_get(a, "calls"), "workers"), 0, NULL, out);
}

static enum err list_workers(struct ctl_options *o)
{
    json_t *page = NULL;
    enum err e = ctl_get_json(o, "/status.json", &page);

    if (e == ERR_OK && o->json) {
        json_t *all = json_object();
        json_t *a;
        const char *name;

        json_object_foreach (json_object_get(page, "applications"), name, a) {
            if (o->application == NULL || strcmp(o->application, name) == 0)
                json_object_set(all, name, json_object_get(a, "calls"));
        }
        json_print(all, &o->out);
        text_add_char(&o->out, '\n');
        json_decref(all);
    } else if (e == ERR_OK) {
        e = page_each_application(page, o, print_called, &o->out);
        if (e != ERR_OK)
            e = ctl_page_problem(o, "/status.json", e);
    }
    json_decref(page);
    return e;
}

/* ---- the command ---- */

static int worker_main(const struct ctl_command *c, int argc, char **argv)
{
    struct worker_run r = {0};
    int code = ctl_parse(c, argc, argv, &r.o);

    if (code >= 0)
        return code;
    const char *verb = r.o.words[0];
    bool add = verb != NULL && strcmp(verb, "add") == 0;
    if (verb != NULL && strcmp(verb, "list") == 0)
        return r.o.words[1] == NULL ? ctl_finish(&r.o, list_workers(&r.o))
                                    : ctl_usage_error(c, "list takes no worker", NULL);
    if (!add && (verb == NULL || strcmp(verb, "remove") != 0))
        return ctl_usage_error(c, "expected add, remove or list", verb);
    if (r.o.words[1] == NULL)
        return ctl_usage_error(c, "expected the address of a worker", NULL);
    if (!add && (r.ttl_s != 0 || r.version != NULL || r.instance != NULL))
        return ctl_usage_error(c, "--ttl, --version and --instance are for add", NULL);
    if (r.o.token_file == NULL)
        return ctl_usage_error(c, "--token-file is required, with the admin's actions_token", NULL);
    return ctl_finish(&r.o, send_worker(&r, add));
}

static const struct ctl_flag worker_flags[] = {
    {0, "ttl", "SECONDS", NULL, "add: ends after this time, unless it is added again before",
     CTL_NUMBER(struct worker_run, ttl_s, 1, TTL_MAX_S)},
    {0, "version", "VERSION", NULL, "add: the version that the worker runs",
     CTL_TEXT(struct worker_run, version)},
    {0, "instance", "ID", NULL, "add: identifies the process; another one is another worker",
     CTL_TEXT(struct worker_run, instance)},
    {'p', "application", "NAME", NULL, "of this application",
     CTL_TEXT(struct ctl_options, application)},
    CTL_FLAGS_ASKING,
};
const struct ctl_command ctl_word_worker = {
    .name = "worker",
    .arguments = "add|remove|list [ADDRESS]",
    .summary = "register a worker at this load balancer, end that, or list those registered so",
    .completes = "add remove list",
    CTL_FLAGS(worker_flags),
    .run = worker_main,
};
