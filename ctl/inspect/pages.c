/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands that show a page of an admin address, once or periodically; resumes and limits are
 * printed here.
 */
#include "ctl/cli/page.h"
#include "ctl/inspect/inspect.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- resumes ---- */

struct scored {
    const char *name;
    double score;
};

/* Best first, ties by name. */
static int compare_scored(const void *a, const void *b)
{
    const struct scored *x = a;
    const struct scored *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* The TOP (0: all) best of SCORES, name -> score. */
static void print_scores(const char *columns, json_t *scores, size_t top, struct text *out)
{
    size_t n = json_object_size(scores);
    struct scored *all = xcalloc(n, sizeof(*all));
    struct table t;
    const char *name;
    json_t *score;
    size_t i = 0;

    json_object_foreach (scores, name, score) {
        all[i++] = (struct scored){name, json_number_value(score)};
    }
    qsort(all, n, sizeof(all[0]), compare_scored);
    table_begin(&t, columns);
    for (i = 0; i < n && (top == 0 || i < top); ++i) {
        table_add(&t, all[i].name[0] != '\0' ? slice_of(all[i].name) : SLICE_LIT("(none)"));
        table_addf(&t, "%.2f", all[i].score);
    }
    table_print(&t, 4, out);
    table_fini(&t);
    free(all);
}

static void print_resumes(const char *name, json_t *workers, const struct ctl_options *o,
                          struct text *out)
{
    json_t *skilled = json_object(); /* the workers that know the class asked for */
    const char *worker;
    json_t *skills;

    text_add_escaped(out, slice_of(name));
    text_add(out, json_object_size(workers) != 0 ? SLICE_LIT(":\n") : SLICE_LIT(": no workers\n"));
    json_object_foreach (workers, worker, skills) {
        size_t n = json_object_size(skills);

        if (o->cls != NULL) {
            if (json_is_number(json_object_get(skills, o->cls)))
                json_object_set(skilled, worker, json_object_get(skills, o->cls));
            continue;
        }
        text_add(out, SLICE_LIT("  "));
        text_add_escaped(out, slice_of(worker));
        if (o->top != 0 && n > o->top)
            text_addf(out, ": %zu skills, best %" PRIu64 "\n", n, o->top);
        else
            text_addf(out, ": %zu skill%s\n", n, n == 1 ? "" : "s");
        print_scores("class|>score", skills, o->top, out);
    }
    if (o->cls != NULL) {
        text_add(out, SLICE_LIT("  "));
        text_add_escaped(out, slice_of(o->cls));
        text_addf(out, ": %zu of %zu workers skilled\n", json_object_size(skilled),
                  json_object_size(workers));
        print_scores("worker|>score", skilled, 0, out);
    }
    json_decref(skilled);
}

enum err ctl_resumes_text(const json_t *page, const struct ctl_options *o, struct text *out)
{
    json_t *applications = json_object();
    json_t *of_agent = json_pack("{s:o}", "applications", applications);
    size_t i;
    json_t *resume;

    /* An agent's page is an array: a slot has a resume for each classifier of its requests. */
    json_array_foreach (page, i, resume) {
        const char *application, *address, *fingerprint;
        json_t *skills;

        if (json_unpack(resume, "{s:s, s:s, s:s, s:o}", "application", &application, "address",
                        &address, "fingerprint", &fingerprint, "skills", &skills) != 0 ||
            !json_is_object(skills))
            continue;
        json_t *workers = json_object_get(applications, application);

        if (workers == NULL) {
            workers = json_object();
            json_object_set_new(applications, application, workers);
        }
        char *name = json_object_get(workers, address) == NULL
                         ? xstrdup(address)
                         : xasprintf("%s, classifier %s", address, fingerprint);

        json_object_set(workers, name, skills);
        free(name);
    }
    enum err e =
        page_each_application(json_is_array(page) ? of_agent : page, o, print_resumes, out);
    json_decref(of_agent);
    return e;
}

/* ---- limits of each application, the keys most waited for, their daemons ---- */

static const char limit_columns[] =
    "limit={name}|where={figures.where}|mode={figures.mode}[{figures.shadow:?}, shadow]|"
    ">held={figures.held:i}|>workers={figures.workers:i}|>slots=[{figures.slots:d}]|"
    ">waiting={figures.waiting:i}|>acquired={figures.acquired:i}|>full={figures.rejected_full:i}|"
    ">late={figures.rejected_timeout:i}|>coalesced={figures.coalesced:i}|>stale={figures.stale:i}|"
    ">left={figures.abandoned:i}|>waited={figures.waited_s:%.1f s}|longest holder="
    "[{figures.longest.key:?}{figures.longest.for_s:%.1f s} {figures.longest.key}]";

/* Remarks about one limit, each in its own line. */
static const char limit_remarks[] =
    "[{figures.shadow_full:?}  {name}: {figures.shadow_full:d} would have been rejected "
    "(shadow)\n]"
    "[{figures.shadow_busy:?}  {name}: {figures.shadow_busy:d} would have waited (shadow)\n]"
    "[{figures.unreachable_open:?}  {name}: {figures.unreachable_open:d} admitted uncounted, "
    "daemon unreachable\n]"
    "[{figures.unreachable_closed:?}  {name}: {figures.unreachable_closed:d} rejected, daemon "
    "unreachable\n]"
    "[{figures.lost:?}  {name}: {figures.lost:d} leases lost at the daemon\n]";

static const char key_columns[] =
    "key most waited for={key}|>waited={waited_s:%.1f s}|>waits={waits:i}";

static const char daemon_columns[] =
    "daemon={name}|state=[{suspended:?}suspended][{suspended:!}in use]|"
    ">connections={connections:i}|>idle={idle:i}";

static void print_limits(const char *name, json_t *a, const struct ctl_options *o, struct text *out)
{
    const json_t *limits = json_object_get(a, "limits");
    const json_t *stored = json_object_get(a, "stored_responses");
    const json_t *limit, *rejected;
    json_t *key;
    size_t i, k;

    text_add_escaped(out, slice_of(name));
    if (json_array_size(limits) == 0) {
        text_add(out, SLICE_LIT(": no limits\n"));
        return;
    }
    text_add(out, SLICE_LIT(":\n"));
    page_print_rows(limit_columns, limits, 0, NULL, out);
    /* Of all limits together, most waited for first. A key begins with its limit's name. */
    json_t *keys = json_array();
    json_array_foreach (limits, i, limit) {
        if (json_is_false(json_object_get(limit, "in_force")))
            page_add(out, limit, "  {name}: not effective: {why:w}\n");
        json_array_foreach (json_object_get(limit, "rejected"), k, rejected) {
            page_add(out, limit, "  {name}");
            page_add(out, rejected, ": rejected setting {name}: {why:w}\n");
        }
        page_add(out, limit, limit_remarks);
        json_array_foreach (json_object_get(json_object_get(limit, "figures"), "top"), k, key) {
            size_t at = json_array_size(keys);

            while (at != 0 && page_number(json_array_get(keys, at - 1), "waited_s") <
                                  page_number(key, "waited_s"))
                --at;
            json_array_insert(keys, at, key);
        }
    }
    page_print_rows(key_columns, keys, o->top, NULL, out);
    json_decref(keys);
    page_print_rows(daemon_columns, json_object_get(a, "pool_counter_servers"), 0, NULL, out);
    if (page_int(stored, "stored") == 0 && page_int(stored, "rejected") == 0)
        return;
    page_add(out, stored, "  stored responses: {responses:d} in ");
    text_addf(out, "%.1f KiB", (double)page_int(stored, "bytes") / 1024);
    page_add(out, stored, "; responses: {hits_coalesced:d} coalesced, {hits_stale:d} stale\n");
}

/* Without a name: the sum of all types beyond those that are counted individually. */
static const char type_columns[] =
    "type of key=[{type}][{type:!}(others)]|>held={held:i}|>waiting={waiting:i}|"
    ">acquired={acquired:i}|>done={done:i}|>full={queue_full:i}|>late={timeouts:i}|"
    ">waited={waited_s:%.1f s}";

enum err ctl_limits_text(const json_t *page, const struct ctl_options *o, struct text *out)
{
    if (json_is_array(json_object_get(page, "types")) &&
        json_is_object(json_object_get(page, "counters"))) {
        if (o->application != NULL)
            return ERR_NOT_FOUND;
        page_add(out, page,
                 "resumelb-poolcounter {version}, {clients:d} clients, up {uptime_s:t}\n");
        page_print_rows(type_columns, json_object_get(page, "types"), 0, NULL, out);
        /* As the daemon has sorted them. */
        page_print_rows(key_columns, json_object_get(page, "most_waited_for"), o->top, NULL, out);
        page_add(out, page,
                 "[{oldest_holder:?}  longest holder: {oldest_holder.key} by "
                 "{oldest_holder.client} for {oldest_holder.held_s:%.1f s}\n]");
        return ERR_OK;
    }
    return page_each_application(page, o, print_limits, out);
}

/* ---- pages, once or again and again ---- */

enum { TOP_DEFAULT = 10, TOP_MAX = 1000000, WATCH_MAX_S = 3600 };

struct page_command {
    const struct ctl_command *command;
    const char *path; /* of the admin address */
    enum err (*print)(const json_t *page, const struct ctl_options *o, struct text *out);
};

static const struct page_command pages[] = {
    {&ctl_word_status, "/status.json", ctl_status_text},
    {&ctl_word_resumes, "/resumes.json", ctl_resumes_text},
    {&ctl_word_limits, "/status.json", ctl_limits_text},
};

/* A command line being executed. */
struct page_request {
    struct ctl_options o;
    uint64_t watch_s; /* 0: once */
    uint64_t count;   /* of --watch; 0: until interrupted */
};

static enum err show_page(const struct page_command *w, struct ctl_options *o)
{
    json_t *page = NULL;

    if (o->json)
        return ctl_get(o, w->path, &o->out);
    enum err e = ctl_get_json(o, w->path, &page);
    if (e == ERR_OK)
        e = ctl_page_problem(o, w->path, w->print(page, o, &o->out));
    json_decref(page);
    return e;
}

/* Repeats the query until the count is reached or a signal arrives. Failures are reported and do
 * not end the loop, so that the end of a restart can be observed. */
static int watch_page(const struct page_command *w, struct page_request *a)
{
    const struct timespec span = {.tv_sec = (time_t)a->watch_s};
    sigset_t ending;
    enum err e = ERR_OK;

    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    sigprocmask(SIG_BLOCK, &ending, NULL);
    for (uint64_t i = 0; a->count == 0 || i < a->count; ++i) {
        int signal = -1;

        while (i != 0 && (signal = sigtimedwait(&ending, NULL, &span)) < 0 && errno == EINTR)
            continue;
        if (signal > 0)
            break;
        if (isatty(STDOUT_FILENO) && !a->o.json)
            text_add(&a->o.out, SLICE_LIT("\033[H\033[2J")); /* home and clear */
        else if (i != 0 && !a->o.json)
            text_add_char(&a->o.out, '\n');
        e = show_page(w, &a->o);
        if (ctl_finish(&a->o, ERR_OK) != CTL_OK)
            return CTL_FAILED;
    }
    return e == ERR_OK ? CTL_OK : CTL_FAILED;
}

static int pages_main(const struct ctl_command *c, int argc, char **argv)
{
    struct page_request a = {.o = {.top = TOP_DEFAULT}};
    const struct page_command *w = pages;
    int code = ctl_parse(c, argc, argv, &a.o);

    if (code >= 0)
        return code;
    a.o.application = a.o.words[0]; /* NULL at the end */
    while (w->command != c)
        ++w;
    if (a.watch_s == 0 && a.count != 0)
        return ctl_usage_error(c, "--count is for --watch", NULL);
    if (a.watch_s != 0)
        return watch_page(w, &a);
    return ctl_finish(&a.o, show_page(w, &a.o));
}

#define WATCH_FLAGS                                                                                \
    CTL_FLAG('w', "watch", "SECONDS", NULL,                                                        \
             "repeat at this interval in seconds, until interrupted",                              \
             CTL_NUMBER(struct page_request, watch_s, 1, WATCH_MAX_S)),                            \
        CTL_FLAG(0, "count", "N", NULL, "with --watch: number of times",                           \
                 CTL_NUMBER(struct page_request, count, 1, UINT32_MAX))

static const struct ctl_flag status_flags[] = {
    CTL_FLAGS_ASKING,
    WATCH_FLAGS,
};
const struct ctl_command ctl_word_status = {
    .name = "status",
    .arguments = "[APPLICATION]",
    .summary = "applications, their workers or processes, how requests were routed",
    CTL_FLAGS(status_flags),
    .run = pages_main,
};

static const struct ctl_flag resumes_flags[] = {
    CTL_FLAGS_ASKING,
    {'c', "class", "CLASS", NULL, "only this request class, best worker first",
     CTL_TEXT(struct ctl_options, cls)},
    {'n', "top", "N", NULL, "number of classes per worker (10); 0: all",
     CTL_NUMBER(struct ctl_options, top, 0, TOP_MAX)},
};
const struct ctl_command ctl_word_resumes = {
    .name = "resumes",
    .arguments = "[APPLICATION]",
    .summary = "skills of each worker: its best classes, with scores",
    CTL_FLAGS(resumes_flags),
    .run = pages_main,
};

static const struct ctl_flag limits_flags[] = {
    CTL_FLAGS_ASKING,
    {'n', "top", "N", NULL, "number of keys (10); 0: all",
     CTL_NUMBER(struct ctl_options, top, 0, TOP_MAX)},
    WATCH_FLAGS,
};
const struct ctl_command ctl_word_limits = {
    .name = "limits",
    .arguments = "[APPLICATION]",
    .summary = "limits: requests that hold a lease, wait, were rejected; the keys most waited for",
    CTL_FLAGS(limits_flags),
    .run = pages_main,
};
