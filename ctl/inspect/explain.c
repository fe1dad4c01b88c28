/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl explain: which worker would get a request of a class, or of a URL, and how the policy
 * decides. The load balancer itself answers (GET /explain), with its classifier and its own code
 * for the choice. Nothing is sent to any worker.
 */
#include <stdio.h>

#include "common/base/limits.h"
#include "ctl/cli/ctl.h"
#include "ctl/cli/page.h"

struct explain_run {
    const struct ctl_command *command;
    struct ctl_options o;
};

/* ---- the answer as text ---- */

static const struct table_column candidate_columns[] = {
    {"", false}, {"worker", false}, {"score", true}, {"backlog", true}, {"work", true}, {"", false},
};

static void print_candidates(const json_t *page, bool colours, struct text *out)
{
    const json_t *all = json_object_get(page, "candidates");
    struct table t;
    const json_t *c;
    size_t i;

    table_init(&t, candidate_columns, ARRAY_LEN(candidate_columns));
    t.colours = colours;
    json_array_foreach(all, i, c)
    {
        bool chosen = json_is_true(json_object_get(c, "chosen"));

        table_add(&t, chosen ? SLICE_LIT(">") : SLICE_LIT(""));
        cell_text(&t, c, "worker");
        cell_real(&t, c, "score", "%.2f");
        cell_int(&t, c, "backlog");
        cell_real(&t, c, "work_s", "%.3f s");
        if (chosen)
            table_add(&t, SLICE_LIT("gets it"));
        else
            cell_text(&t, c, "passed_over");
        if (chosen)
            table_style(&t, TABLE_GOOD);
    }
    table_print(&t, 2, out);
    table_fini(&t);
    int64_t more = page_int(page, "considered") - (int64_t)json_array_size(all);
    if (more > 0)
        text_addf(out, "  ... and %lld more\n", (long long)more);
}

static void print_steps(const json_t *page, struct text *out)
{
    const json_t *s;
    size_t i;

    json_array_foreach(json_object_get(page, "steps"), i, s)
    {
        text_add(out, i == 0 ? SLICE_LIT("steps:\n") : SLICE_LIT(""));
        text_addf(out, "  %zu. ", i + 1);
        page_add_text(out, s, "step");
        text_addf(out, ": %lld of %lld\n", (long long)page_int(s, "after"),
                  (long long)page_int(s, "before"));
    }
}

static void print_values(const json_t *page, struct text *out)
{
    json_t *values = json_object_get(page, "values");
    const char *name;
    const char *before = "values: ";
    json_t *v;

    json_object_foreach(values, name, v)
    {
        (void)v;
        text_add(out, slice_of(before));
        text_add_escaped(out, slice_of(name));
        text_add(out, SLICE_LIT(" "));
        page_add_real(out, values, name);
        before = ", ";
    }
    if (json_object_size(values) != 0)
        text_add_char(out, '\n');
}

/* The reason, as a sentence; older load balancers have none. */
static void add_because(const json_t *page, struct text *out)
{
    if (!json_is_string(json_object_get(page, "because")))
        return;
    text_add(out, SLICE_LIT("  "));
    page_add_text(out, page, "because");
    text_add_char(out, '\n');
}

static void print_choice(const json_t *page, const struct ctl_options *o, struct text *out)
{
    if (json_is_string(json_object_get(page, "worker"))) {
        page_add_text(out, page, "worker");
        text_add(out, SLICE_LIT(" would be selected: "));
        page_add_text(out, page, "reason");
        text_add_char(out, '\n');
        add_because(page, out);
    } else {
        text_add(out, SLICE_LIT("no worker available: the request would be queued\n"));
    }
    print_values(page, out);
    print_steps(page, out);
    print_candidates(page, o->colours, out);
}

/* Result of shadow_policy, if there is one. */
static void print_shadow(const json_t *page, const struct ctl_options *o, struct text *out)
{
    const json_t *shadow = json_object_get(page, "shadow");

    if (!json_is_array(json_object_get(shadow, "candidates")))
        return;
    text_add(out, SLICE_LIT("\nshadow_policy "));
    page_add_text(out, shadow, "policy");
    text_add(out, SLICE_LIT(", which is not applied:\n"));
    print_choice(shadow, o, out);
}

enum err ctl_explain_text(const json_t *page, const struct ctl_options *o, struct text *out)
{
    const json_t *cls = json_object_get(page, "class");

    if (!json_is_string(cls) || !json_is_array(json_object_get(page, "candidates")))
        return ERR_SYNTAX;
    text_add(out, SLICE_LIT("application "));
    page_add_text(out, page, "application");
    text_add(out, SLICE_LIT(", class "));
    if (json_string_length(cls) == 0)
        text_add(out, SLICE_LIT("(none)"));
    else
        page_add_text(out, page, "class");
    text_add(out, SLICE_LIT(", policy "));
    page_add_text(out, page, "policy");
    text_addf(out, ", %lld workers\n", (long long)page_int(page, "workers"));
    print_choice(page, o, out);
    print_shadow(page, o, out);
    return ERR_OK;
}

/* ---- asking ---- */

static int take(void *context, int letter, const char *value)
{
    struct explain_run *r = context;

    if (letter == 'c')
        r->o.cls = value;
    else if (letter == 'p')
        r->o.application = value;
    else
        return ctl_take_asking(r->command, &r->o, letter, value);
    return CTL_OK;
}

static void add_escaped(struct text *out, const char *value)
{
    ASSERT(value != NULL);
    for (; *value != '\0'; ++value)
        text_addf(out, "%%%02x", (unsigned char)*value);
}

/* "/explain?class=..." */
static void make_path(const struct explain_run *r, const char *url, struct text *out)
{
    text_add(out, url != NULL ? SLICE_LIT("/explain?url=") : SLICE_LIT("/explain?class="));
    add_escaped(out, url != NULL ? url : r->o.cls);
    if (r->o.application != NULL) {
        text_add(out, SLICE_LIT("&application="));
        add_escaped(out, r->o.application);
    }
}

/* Rejections have a JSON body with the reason. */
static void complain(const struct explain_run *r, int status, struct slice body, struct diag *d)
{
    json_t *page = json_loadb(body.p != NULL ? body.p : "", body.len, 0, NULL);
    struct text why = {0};

    if (json_is_string(json_object_get(page, "error")))
        page_add_text(&why, page, "error");
    else if (status == 401)
        text_addf(&why, "status 401 (--token-file?)");
    else
        text_addf(&why, "status %d; is this the admin address of a resumelb?", status);
    diag_add(d, NULL, 0, 0, "%s: %s", r->o.address, text_cstr(&why));
    text_fini(&why);
    json_decref(page);
}

static enum err explain(const struct explain_run *r, const char *url, struct text *out,
                        struct diag *d)
{
    struct text path = {0};
    struct text body = {0};
    int status = 0;

    make_path(r, url, &path);
    enum err e = ctl_ask(&r->o, "GET", text_cstr(&path), &status, &body, d);
    if (e == ERR_OK && status != 200) {
        complain(r, status, text_slice(&body), d);
        e = ERR_BAD_RESPONSE;
    } else if (e == ERR_OK && r->o.json) {
        text_add(out, text_slice(&body));
    } else if (e == ERR_OK) {
        json_t *page = json_loadb(body.p != NULL ? body.p : "", body.len, 0, NULL);

        e = page != NULL ? ctl_explain_text(page, &r->o, out) : ERR_SYNTAX;
        if (e != ERR_OK)
            diag_add(d, NULL, 0, 0, "%s: the response is not an explanation", r->o.address);
        json_decref(page);
    }
    text_fini(&path);
    text_fini(&body);
    return e;
}

static int run(const struct ctl_command *c, int argc, char **argv)
{
    struct explain_run r = {.command = c,
                            .o = {.address = "127.0.0.1:8081",
                                  .timeout_ms = FETCH_TIMEOUT_MS,
                                  .colours = ctl_colours()}};
    struct text out = {0};
    struct diag d = {0};
    int first = 0;
    int code = ctl_command_parse(c, argc, argv, &first, take, &r);

    if (code >= 0)
        return code;
    if ((r.o.cls != NULL) == (argv[first] != NULL))
        return ctl_usage_error(c, "expected --class CLASS or a URL", NULL);
    enum { VALUE_MAX = 600 }; /* each byte is sent as three, in a query of 2 KiB */
    const char *value = argv[first] != NULL ? argv[first] : r.o.cls;
    ASSERT(value != NULL);
    if (strlen(value) > VALUE_MAX)
        return ctl_usage_error(c, "the class or URL is too long", NULL);
    return ctl_finish(explain(&r, argv[first], &out, &d), &out, &d);
}

static const struct ctl_flag flags[] = {
    {'c', "class", "CLASS", NULL, "a request of this class, as the access log has it"},
    {'p', "application", "NAME", NULL, "of this application; default: the one that serves the URL"},
    CTL_FLAGS_ASKING,
};
const struct ctl_command ctl_word_explain = {
    .name = "explain",
    .arguments = "[URL]",
    .summary = "worker that a request would get now: class, candidates with scores, each step, and "
               "the reason",
    .text = "URL is http://HOST/PATH (or only /PATH): the load balancer's classifier determines "
            "its class.\nNothing is sent to any worker.\n",
    .flags = flags,
    .nflags = ARRAY_LEN(flags),
    .run = run,
};
