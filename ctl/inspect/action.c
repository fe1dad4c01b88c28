/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl drain, undrain, confirm-removal, forget, reload: actions at an admin address, with
 * its actions_token. Scores must also be removed from the agents, which would report them again;
 * these are named one by one. The token is only sent to addresses that the operator has typed:
 * those in the tree or on the status page may be written by others.
 */
#include "common/base/json.h"
#include "common/base/limits.h"
#include "common/program/admin.h"
#include "ctl/cli/ctl.h"
#include "ctl/cli/page.h"

#include <stdio.h>

enum { AGENTS_MAX = 64, AGENT = 256, ALL };

struct action_run {
    const struct ctl_command *command;
    struct ctl_options o;
    const char *worker;
    const char *agents[AGENTS_MAX];
    size_t nagents;
    bool all;
};

static int take(void *context, int letter, const char *value)
{
    struct action_run *r = context;

    switch (letter) {
    case 'c':
        r->o.cls = value;
        break;
    case 'w':
        r->worker = value;
        break;
    case 'p':
        r->o.application = value;
        break;
    case AGENT:
        if (r->nagents == AGENTS_MAX)
            return ctl_usage_error(r->command, "--agent: too many", value);
        r->agents[r->nagents++] = value;
        break;
    case ALL:
        r->all = true;
        break;
    default:
        return ctl_take_asking(r->command, &r->o, letter, value);
    }
    return CTL_OK;
}

static void make_order(const struct action_run *r, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    if (r->o.application != NULL)
        json_put_text(&w, "application", slice_of(r->o.application));
    if (r->worker != NULL)
        json_put_text(&w, "worker", slice_of(r->worker));
    if (r->o.cls != NULL)
        json_put_text(&w, "class", slice_of(r->o.cls));
    json_close_object(&w);
}

/* Why it was refused: its own words, a line for each problem, and what to do about it. */
static void complain(const char *address, int status, const json_t *page, struct diag *d)
{
    const json_t *error = json_object_get(page, "error");
    const char *advice = status == 401   ? " (--token-file: with its actions_token?)"
                         : status == 405 ? " (is this the admin address of such a program?)"
                                         : "";

    if (!json_is_string(error)) {
        diag_add(d, NULL, 0, 0, "%s: status %d%s", address, status, advice);
        return;
    }
    struct slice rest = {json_string_value(error), json_string_length(error)};

    do {
        struct text why = {0};

        page_add_words(&why, slice_cut(&rest, '\n'));
        diag_add(d, NULL, 0, 0, "%s: %s%s", address, text_cstr(&why), advice);
        text_fini(&why);
    } while (rest.len != 0);
}

/* "deleted 7 scores of 2 workers" */
static void add_done(const struct action_run *r, const char *address, const json_t *page,
                     struct text *out)
{
    text_addf(out, "%s: ", address);
    if (strcmp(r->command->name, "forget") == 0) {
        text_addf(out, "deleted %lld scores of %lld workers\n", (long long)page_int(page, "scores"),
                  (long long)page_int(page, "workers"));
        return;
    }
    if (strcmp(r->command->name, "reload") == 0) {
        text_add(out, SLICE_LIT("reloaded\n"));
        return;
    }
    page_add_text(out, page, "application");
    if (r->command == &ctl_word_confirm_removal) {
        text_addf(out, " released %lld held workers\n", (long long)page_int(page, "workers"));
        return;
    }
    text_add_char(out, ' ');
    page_add_text(out, page, "worker");
    text_add(out, json_is_true(json_object_get(page, "changed")) ? SLICE_LIT(" is now ")
                                                                 : SLICE_LIT(" was already "));
    page_add_text(out, page, "state");
    text_add_char(out, '\n');
}

static enum err order_at(const struct action_run *r, const char *address, struct text *out,
                         struct diag *d)
{
    struct ctl_options o = r->o;
    struct text order = {0};
    struct text body = {0};
    char path[64];
    int status = 0;

    o.address = address;
    snprintf(path, sizeof(path), "/actions/%s", r->command->name);
    make_order(r, &order);
    enum err e = ctl_order(&o, path, text_slice(&order), &status, &body, d);
    json_t *page = e == ERR_OK && body.len != 0 ? json_loadb(body.p, body.len, 0, NULL) : NULL;
    if (e == ERR_OK && status != 200) {
        complain(address, status, page, d);
        e = ERR_BAD_RESPONSE;
    } else if (e == ERR_OK && !json_is_object(page)) {
        diag_add(d, NULL, 0, 0, "%s: the response is not JSON", address);
        e = ERR_SYNTAX;
    } else if (e == ERR_OK && r->o.json) {
        text_add(out, text_slice(&body));
    } else if (e == ERR_OK) {
        add_done(r, address, page, out);
    }
    json_decref(page);
    text_fini(&order);
    text_fini(&body);
    return e;
}

/* Agents first, because they would send the data they still have to the load balancer again. A
 * failure does not stop the actions on the others. */
static enum err order_all(const struct action_run *r, struct text *out, struct diag *d)
{
    enum err worst = ERR_OK;

    for (size_t i = 0; i < r->nagents; ++i) {
        enum err e = order_at(r, r->agents[i], out, d);
        worst = e != ERR_OK ? e : worst;
    }
    enum err e = order_at(r, r->o.address, out, d);
    return e != ERR_OK ? e : worst;
}

/* Returns -1 to continue; else the exit code. */ static int complete(struct action_run *r,
                                                                      const char *argument)
{
    bool is_forget = strcmp(r->command->name, "forget") == 0;

    if (!is_forget && strcmp(r->command->name, "reload") != 0) {
        r->worker = argument;
        if (argument == NULL && r->command != &ctl_word_confirm_removal)
            return ctl_usage_error(r->command, "expected a worker, as status shows it", NULL);
    }
    if (is_forget && r->all == (r->o.cls != NULL || r->worker != NULL))
        return ctl_usage_error(r->command, "expected --class, --worker, both, or --all", NULL);
    if (r->o.token_file == NULL)
        return ctl_usage_error(r->command,
                               "--token-file is required, with the admin's actions_token", NULL);
    return -1;
}

static int run(const struct ctl_command *c, int argc, char **argv)
{
    struct action_run r = {.command = c,
                           .o = {.address = "127.0.0.1:8081", .timeout_ms = FETCH_TIMEOUT_MS}};
    struct text out = {0};
    struct diag d = {0};
    int first = 0;
    int code = ctl_command_parse(c, argc, argv, &first, take, &r);

    if (code < 0)
        code = complete(&r, argv[first]);
    if (code >= 0)
        return code;
    return ctl_finish(order_all(&r, &out, &d), &out, &d);
}

#define ACTION_FLAG_APPLICATION                                                                    \
    {                                                                                              \
        'p', "application", "NAME", NULL, "of this application"                                    \
    }

static const struct ctl_flag drain_flags[] = {ACTION_FLAG_APPLICATION, CTL_FLAGS_ASKING};
const struct ctl_command ctl_word_drain = {
    .name = "drain",
    .arguments = "WORKER",
    .summary = "a worker gets no new requests, until undrain",
    .flags = drain_flags,
    .nflags = ARRAY_LEN(drain_flags),
    .run = run,
};
const struct ctl_command ctl_word_undrain = {
    .name = "undrain",
    .arguments = "WORKER",
    .summary = "it gets requests again",
    .flags = drain_flags,
    .nflags = ARRAY_LEN(drain_flags),
    .run = run,
};

const struct ctl_command ctl_word_confirm_removal = {
    .name = "confirm-removal",
    .arguments = "[WORKER]",
    .summary = "workers that vanished with many others were removed on purpose",
    .text = "More than discovery_max_drop of the workers vanished from the tree at once: they are "
            "held. This treats\nWORKER, or all of them, as if each had been removed alone.\n",
    .flags = drain_flags,
    .nflags = ARRAY_LEN(drain_flags),
    .run = run,
};

static const struct ctl_flag forget_flags[] = {
    {'c', "class", "CLASS", NULL, "scores of this request class"},
    {'w', "worker", "WORKER", NULL, "scores of this worker"},
    {ALL, "all", NULL, NULL, "all scores of all workers"},
    ACTION_FLAG_APPLICATION,
    {AGENT, "agent", "ADDRESS", NULL,
     "also at this agent's admin address; once for each agent, the token is the same"},
    CTL_FLAGS_ASKING,
};
const struct ctl_command ctl_word_forget = {
    .name = "forget",
    .summary = "delete what was learned, in the files of the load balancer and of agents too",
    .text = "Removes what was learned by a wrong classifier. Agents report the scores of their "
            "workers\nagain: name each with --agent.\n",
    .flags = forget_flags,
    .nflags = ARRAY_LEN(forget_flags),
    .run = run,
};

static const struct ctl_flag reload_flags[] = {CTL_FLAGS_ASKING};
const struct ctl_command ctl_word_reload = {
    .name = "reload",
    .summary = "the load balancer re-reads its configuration, as on SIGHUP",
    .flags = reload_flags,
    .nflags = ARRAY_LEN(reload_flags),
    .run = run,
};

/* ---- detach: the agent takes a process out of its pool permanently ---- */

/* Letters, digits, '-', '_' and '.': it becomes part of a path. */
static bool is_id(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        char c = ascii_lower(s.p[i]);

        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.')
            return false;
    }
    return s.len != 0 && s.len <= ADMIN_ARGUMENT_MAX;
}

/* Advice for STATUS; "" if its text is sufficient. */
static const char *advice(int status)
{
    if (status == 401)
        return " (--token-file?)";
    if (status == 405)
        return " (is this an agent's admin address?)";
    return "";
}

enum err ctl_detach(const struct ctl_options *o, struct text *out, struct diag *d)
{
    struct text body = {0};
    struct text said = {0};
    char path[ADMIN_ARGUMENT_MAX + sizeof("/processes//detach")];
    int status = 0;

    if (!is_id(slice_of(o->process))) {
        diag_add(d, NULL, 0, 0, "not the id of a process, which status shows: '%s'", o->process);
        return ERR_SYNTAX;
    }
    snprintf(path, sizeof(path), "/processes/%s/detach", o->process);
    enum err e = ctl_ask(o, "POST", path, &status, &body, d);
    if (e == ERR_OK) {
        struct slice rest = text_slice(&body);

        text_add_visible(&said, slice_cut(&rest, '\n'));
        text_add_char(&said, '\n');
    }
    if (e == ERR_OK && status != 200) {
        diag_add(d, NULL, 0, 0, "%s: status %d%s: %.*s", o->address, status, advice(status),
                 (int)said.len - 1, said.p);
        e = ERR_BAD_RESPONSE;
    } else if (e == ERR_OK) {
        text_add(out, text_slice(&said));
    }
    text_fini(&said);
    text_fini(&body);
    return e;
}

static int run_detach(const struct ctl_command *c, int argc, char **argv)
{
    struct action_run r = {.command = c,
                           .o = {.address = "127.0.0.1:8081", .timeout_ms = FETCH_TIMEOUT_MS}};
    struct text out = {0};
    struct diag d = {0};
    int first = 0;
    int code = ctl_command_parse(c, argc, argv, &first, take, &r);

    if (code >= 0)
        return code;
    r.o.process = argv[first];
    if (r.o.process == NULL)
        return ctl_usage_error(c, "expected the id of a process, which status shows", NULL);
    return ctl_finish(ctl_detach(&r.o, &out, &d), &out, &d);
}

static const struct ctl_flag detach_flags[] = {CTL_FLAGS_ASKING};
const struct ctl_command ctl_word_detach = {
    .name = "detach",
    .arguments = "ID",
    .summary = "detach this process from its slot, and stop it when its requests are done",
    .flags = detach_flags,
    .nflags = ARRAY_LEN(detach_flags),
    .run = run_detach,
};
