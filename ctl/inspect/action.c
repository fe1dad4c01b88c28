/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl drain, undrain, confirm-removal, forget, reload: actions at an admin address, with
 * its actions_token; detach: one at an agent's. Scores must also be removed from the agents, which
 * would report them again; these are named one by one. The token is only sent to addresses that the
 * operator has typed: those in the tree or on the status page may be written by others.
 */
#include "common/base/json.h"
#include "common/program/admin.h"
#include "ctl/cli/page.h"
#include "ctl/inspect/inspect.h"

#include <stdio.h>
#include <stdlib.h>

enum { AGENTS_MAX = 64 };

struct action_run {
    struct ctl_options o;
    const char *done;                   /* what was done, as a format for the response */
    const char *worker;                 /* detach: the id of a process */
    const char *agents[AGENTS_MAX + 1]; /* the load balancer after them */
    size_t nagents;
    bool all;
};

static int take_agent(struct ctl_options *o, unused_ const struct ctl_flag *f, const char *value)
{
    struct action_run *r = container_of(o, struct action_run, o);

    if (r->nagents == AGENTS_MAX)
        return ctl_usage_error(o->command, "--agent: too many", value);
    r->agents[r->nagents++] = value;
    return CTL_OK;
}

enum err ctl_act(struct ctl_options *o, const char *method, const char *path, struct slice content,
                 const char *done)
{
    struct text body = {0};
    int status = 0;
    enum err e = ctl_request(o, method, path, content, &status, &body);
    json_t *page = e == ERR_OK && body.len != 0 ? json_loadb(body.p, body.len, 0, NULL) : NULL;
    if (e == ERR_OK && status != 200 && status != 201) {
        const json_t *error = json_object_get(page, "error");
        struct slice rest = json_slice(error);
        const char *advice = status == 401   ? " (--token-file: with its actions_token?)"
                             : status == 405 ? " (is this the admin address of such a program?)"
                                             : "";

        if (!json_is_string(error))
            diag_add(&o->diag, NULL, 0, 0, "%s: status %d%s", o->address, status, advice);
        /* A line for each problem that the response has. */
        for (bool more = json_is_string(error); more; more = rest.len != 0) {
            struct text why = {0};

            page_add_words(&why, slice_cut(&rest, '\n'));
            diag_add(&o->diag, NULL, 0, 0, "%s: %s%s", o->address, text_cstr(&why), advice);
            text_fini(&why);
        }
        e = ERR_BAD_RESPONSE;
    } else if (e == ERR_OK && !json_is_object(page)) {
        diag_add(&o->diag, NULL, 0, 0, "%s: the response is not JSON", o->address);
        e = ERR_SYNTAX;
    } else if (e == ERR_OK && o->json) {
        text_add(&o->out, text_slice(&body));
    } else if (e == ERR_OK) {
        text_addf(&o->out, "%s: ", o->address);
        page_add(&o->out, page, done);
    }
    if (e == ERR_OK && json_is_string(json_object_get(page, "unsaved"))) {
        struct text why = {0};

        page_add_words(&why, json_slice(json_object_get(page, "unsaved")));
        diag_add(&o->diag, NULL, 0, 0,
                 "%s: in effect, but not saved: %s (retried; a restart before forgets it)",
                 o->address, text_cstr(&why));
        text_fini(&why);
        e = ERR_SYSTEM;
    }
    json_decref(page);
    text_fini(&body);
    return e;
}

static enum err send_action(struct action_run *r)
{
    const char *const members[][2] = {
        {"application", r->o.application}, {"worker", r->worker}, {"class", r->o.cls}};
    struct text content = {0};
    struct json_writer w = {.out = &content};
    char path[64];

    snprintf(path, sizeof(path), "/actions/%s", r->o.command->name);
    json_open_object(&w, NULL);
    for (size_t i = 0; i < ARRAY_LEN(members); ++i) {
        if (members[i][1] != NULL)
            json_put_text(&w, members[i][0], slice_of(members[i][1]));
    }
    json_close_object(&w);
    enum err e = ctl_act(&r->o, "POST", path, text_slice(&content), r->done);
    text_fini(&content);
    return e;
}

enum err ctl_detach(struct ctl_options *o, const char *id)
{
    struct text body = {0};
    struct text response = {0};
    int status = 0;

    /* It becomes part of a path. */
    if (id[0] == '\0' || strlen(id) > ADMIN_ARGUMENT_MAX || !slice_is_word(slice_of(id), "-_.")) {
        diag_add(&o->diag, NULL, 0, 0, "not the id of a process, which status shows: '%s'", id);
        return ERR_SYNTAX;
    }
    char *path = xasprintf("/processes/%s/detach", id);
    enum err e = ctl_request(o, "POST", path, SLICE_NULL, &status, &body);
    struct slice rest = text_slice(&body);

    text_add_visible(&response, slice_cut(&rest, '\n'));
    if (e == ERR_OK && status != 200) {
        const char *advice = status == 401   ? " (--token-file?)"
                             : status == 405 ? " (is this an agent's admin address?)"
                                             : "";

        diag_add(&o->diag, NULL, 0, 0, "%s: status %d%s: %s", o->address, status, advice,
                 text_cstr(&response));
        e = ERR_BAD_RESPONSE;
    } else if (e == ERR_OK) {
        text_addf(&o->out, "%s\n", text_cstr(&response));
    }
    free(path);
    text_fini(&response);
    text_fini(&body);
    return e;
}

static int action_main(const struct ctl_command *c, int argc, char **argv)
{
    struct action_run r = {
        .done = "{application} {worker} [{changed:?}is now][{changed:!}was already] {state}\n"};
    bool is_detach = c == &ctl_word_detach;
    enum err worst = ERR_OK;
    int code = ctl_parse(c, argc, argv, &r.o);

    if (code >= 0)
        return code;
    if (c == &ctl_word_forget) {
        r.done = "deleted {scores:d} scores of {workers:d} workers\n";
        if (r.all == (r.o.cls != NULL || r.worker != NULL))
            return ctl_usage_error(c, "expected --class, --worker, both, or --all", NULL);
    } else if (c == &ctl_word_reload) {
        r.done = "reloaded\n";
    } else {
        r.worker = r.o.words[0];
        if (r.worker == NULL && is_detach)
            return ctl_usage_error(c, "expected the id of a process, which status shows", NULL);
        if (c == &ctl_word_confirm_removal)
            r.done = "{application} released {workers:d} held workers\n";
        else if (r.worker == NULL)
            return ctl_usage_error(c, "expected a worker, as status shows it", NULL);
    }
    if (is_detach)
        return ctl_finish(&r.o, ctl_detach(&r.o, r.worker));
    if (r.o.token_file == NULL)
        return ctl_usage_error(c, "--token-file is required, with the admin's actions_token", NULL);
    /* Agents first, because they would send the data they still have to the load balancer again. A
     * failure does not stop the actions on the others. */
    r.agents[r.nagents] = r.o.address;
    for (size_t i = 0; i <= r.nagents; ++i) {
        r.o.address = r.agents[i];
        enum err e = send_action(&r);
        worst = e != ERR_OK ? e : worst;
    }
    return ctl_finish(&r.o, worst);
}

#define ACTION_FLAG_APPLICATION                                                                    \
    CTL_FLAG('p', "application", "NAME", NULL, "of this application",                              \
             CTL_TEXT(struct ctl_options, application))

static const struct ctl_flag drain_flags[] = {ACTION_FLAG_APPLICATION, CTL_FLAGS_ASKING};
const struct ctl_command ctl_word_drain = {
    .name = "drain",
    .arguments = "WORKER",
    .summary = "a worker gets no new requests, until undrain",
    CTL_FLAGS(drain_flags),
    .run = action_main,
};
const struct ctl_command ctl_word_undrain = {
    .name = "undrain",
    .arguments = "WORKER",
    .summary = "it gets requests again",
    CTL_FLAGS(drain_flags),
    .run = action_main,
};

const struct ctl_command ctl_word_confirm_removal = {
    .name = "confirm-removal",
    .arguments = "[WORKER]",
    .summary = "workers that vanished with many others were removed on purpose",
    .text = "More than discovery_max_drop of the workers vanished from the tree at once: they are "
            "held. This treats\nWORKER, or all of them, as if each had been removed alone.\n",
    CTL_FLAGS(drain_flags),
    .run = action_main,
};

static const struct ctl_flag forget_flags[] = {
    {'c', "class", "CLASS", NULL, "scores of this request class",
     CTL_TEXT(struct ctl_options, cls)},
    {'w', "worker", "WORKER", NULL, "scores of this worker", CTL_TEXT(struct action_run, worker)},
    {0, "all", NULL, NULL, "all scores of all workers", CTL_SET(struct action_run, all)},
    ACTION_FLAG_APPLICATION,
    {0, "agent", "ADDRESS", NULL,
     "also at this agent's admin address; once for each agent, the token is the same",
     CTL_OWN(take_agent)},
    CTL_FLAGS_ASKING,
};
const struct ctl_command ctl_word_forget = {
    .name = "forget",
    .summary = "delete what was learned, in the files of the load balancer and of agents too",
    .text = "Removes what was learned by a wrong classifier. Agents report the scores of their "
            "workers\nagain: name each with --agent.\n",
    CTL_FLAGS(forget_flags),
    .run = action_main,
};

static const struct ctl_flag asking_flags[] = {CTL_FLAGS_ASKING};
const struct ctl_command ctl_word_reload = {
    .name = "reload",
    .summary = "the load balancer re-reads its configuration, as on SIGHUP",
    CTL_FLAGS(asking_flags),
    .run = action_main,
};

const struct ctl_command ctl_word_detach = {
    .name = "detach",
    .arguments = "ID",
    .summary = "detach this process from its slot, and stop it when its requests are done",
    CTL_FLAGS(asking_flags),
    .run = action_main,
};
