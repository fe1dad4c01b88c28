/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl explain: which worker would get a request of a class, or of a URL, and how the policy
 * decides. The load balancer itself responds (GET /explain), with its classifier and its own code
 * for the choice. Nothing is sent to any worker.
 */

#include "ctl/cli/page.h"
#include "ctl/inspect/inspect.h"

/* The one without a title marks what was chosen. */
static const char candidate_columns[] =
    "=[{chosen:?}>]|worker={worker}|>criterion={criterion:%.2f}|>backlog={backlog:i}|"
    ">work={work_s:%.3f s}|=[{chosen:?}gets it][{chosen:!}{passed_over}]";

static enum table_style candidate_style(const json_t *candidate)
{
    return page_is_true(candidate, "chosen") ? TABLE_GOOD : TABLE_PLAIN;
}

static void print_choice(const json_t *page, const struct ctl_options *o, struct text *out)
{
    const json_t *candidates = json_object_get(page, "candidates");
    int64_t more = page_int(page, "considered") - (int64_t)json_array_size(candidates);
    json_t *values = json_object_get(page, "values");
    const char *name, *before = "values: ";
    json_t *v;
    size_t i;

    /* Older load balancers have no reason as a sentence. */
    page_add(out, page,
             "[{worker:?}{worker} would be selected: {reason}\n]"
             "[{worker:!}no worker available: the request would be queued\n]");
    if (json_is_string(json_object_get(page, "worker")))
        page_add(out, page, "[  {because}\n]");
    json_object_foreach (values, name, v) {
        text_add(out, slice_of(before));
        text_add_escaped(out, slice_of(name));
        if (json_is_number(v))
            text_addf(out, " %.4g", json_number_value(v));
        else
            text_add(out, SLICE_LIT(" -"));
        before = ", ";
    }
    if (json_object_size(values) != 0)
        text_add_char(out, '\n');
    json_array_foreach (json_object_get(page, "steps"), i, v) {
        text_addf(out, "%s  %zu", i == 0 ? "steps:\n" : "", i + 1);
        page_add(out, v, ". {step}: {after:d} of {before:d}\n");
    }
    page_print_rows(candidate_columns, candidates, 0, o->colours ? candidate_style : NULL, out);
    if (more > 0)
        text_addf(out, "  ... and %lld more\n", (long long)more);
}

enum err ctl_explain_text(const json_t *page, const struct ctl_options *o, struct text *out)
{
    const json_t *shadow = json_object_get(page, "shadow");

    if (!json_is_string(json_object_get(page, "class")) ||
        !json_is_array(json_object_get(page, "candidates")))
        return ERR_SYNTAX;
    page_add(out, page,
             "application {application}, class [{class}][{class:!}(none)], policy {policy}, "
             "{workers:d} workers\n");
    print_choice(page, o, out);
    if (json_is_array(json_object_get(shadow, "candidates"))) {
        page_add(out, shadow, "\nshadow_policy {policy}, which is not applied:\n");
        print_choice(shadow, o, out);
    }
    return ERR_OK;
}

static void explain_add_escaped(struct text *out, const char *value)
{
    ASSERT(value != NULL);
    for (; *value != '\0'; ++value)
        text_addf(out, "%%%02x", (unsigned char)*value);
}

static int explain_main(const struct ctl_command *c, int argc, char **argv)
{
    enum { VALUE_MAX = 600 }; /* each byte is sent as three, in a query of 2 KiB */
    struct ctl_options o = {0};
    struct text path = {0};
    struct text body = {0};
    struct text why = {0};
    int status = 0;
    int code = ctl_parse(c, argc, argv, &o);

    if (code >= 0)
        return code;
    const char *url = o.words[0];
    const char *value = url != NULL ? url : o.cls;
    if ((o.cls != NULL) == (url != NULL))
        return ctl_usage_error(c, "expected --class CLASS or a URL", NULL);
    if (slice_of(value).len > VALUE_MAX)
        return ctl_usage_error(c, "the class or URL is too long", NULL);
    text_addf(&path, "/explain?%s=", url != NULL ? "url" : "class");
    explain_add_escaped(&path, value);
    if (o.application != NULL) {
        text_add(&path, SLICE_LIT("&application="));
        explain_add_escaped(&path, o.application);
    }
    enum err e = ctl_request(&o, "GET", text_cstr(&path), SLICE_NULL, &status, &body);
    json_t *page = e == ERR_OK && body.len != 0 ? json_loadb(body.p, body.len, 0, NULL) : NULL;
    if (e == ERR_OK && status != 200) {
        /* Rejections have a JSON body with the reason. */
        page_add(&why, page, "[{error}]");
        if (why.len == 0)
            text_addf(&why, "status %d%s", status,
                      status == 401 ? " (--token-file?)"
                                    : "; is this the admin address of a resumelb?");
        diag_add(&o.diag, NULL, 0, 0, "%s: %s", o.address, text_cstr(&why));
        e = ERR_BAD_RESPONSE;
    } else if (e == ERR_OK && o.json) {
        text_add(&o.out, text_slice(&body));
    } else if (e == ERR_OK) {
        e = page != NULL ? ctl_explain_text(page, &o, &o.out) : ERR_SYNTAX;
        if (e != ERR_OK)
            diag_add(&o.diag, NULL, 0, 0, "%s: the response is not an explanation", o.address);
    }
    json_decref(page);
    text_fini(&path);
    text_fini(&body);
    text_fini(&why);
    return ctl_finish(&o, e);
}

static const struct ctl_flag flags[] = {
    {'c', "class", "CLASS", NULL, "a request of this class, as the access log has it",
     CTL_TEXT(struct ctl_options, cls)},
    {'p', "application", "NAME", NULL, "of this application; default: the one that serves the URL",
     CTL_TEXT(struct ctl_options, application)},
    CTL_FLAGS_ASKING,
};
const struct ctl_command ctl_word_explain = {
    .name = "explain",
    .arguments = "[URL]",
    .summary = "worker that a request would get now: class, candidates with scores, each step, and "
               "the reason",
    .text = "URL is http://HOST/PATH (or only /PATH): the load balancer's classifier determines "
            "its class.\nNothing is sent to any worker.\n",
    CTL_FLAGS(flags),
    .run = explain_main,
};
