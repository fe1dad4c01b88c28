/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl resumes: each worker's best classes, or one class's best workers; of a load balancer,
 * or of an agent's slots.
 */
#include "ctl/cli/ctl.h"
#include "ctl/cli/page.h"
#include "ctl/cli/table.h"

#include <stdlib.h>

static const struct table_column skill_columns[] = {{"class", false}, {"score", true}};
static const struct table_column worker_columns[] = {{"worker", false}, {"score", true}};

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

static void print_scored(const struct table_column *columns, struct scored *all, size_t n,
                         size_t top, struct text *out)
{
    struct table t;

    qsort(all, n, sizeof(all[0]), compare_scored);
    if (top != 0 && n > top)
        n = top;
    table_init(&t, columns, 2);
    for (size_t i = 0; i < n; ++i) {
        table_add(&t, all[i].name[0] != '\0' ? slice_of(all[i].name) : SLICE_LIT("(none)"));
        table_addf(&t, "%.2f", all[i].score);
    }
    table_print(&t, 4, out);
    table_fini(&t);
}

/* One worker: how many skills it has, and the best of them. */
static void print_worker(const char *name, json_t *skills, size_t top, struct text *out)
{
    size_t n = json_object_size(skills);
    struct scored *all = xcalloc(n, sizeof(*all));
    const char *cls;
    json_t *score;
    size_t i = 0;

    json_object_foreach(skills, cls, score)
    {
        all[i++] = (struct scored){cls, json_number_value(score)};
    }
    text_add(out, SLICE_LIT("  "));
    text_add_escaped(out, slice_of(name));
    if (top != 0 && n > top)
        text_addf(out, ": %zu skills, the best %zu\n", n, top);
    else
        text_addf(out, ": %zu skill%s\n", n, n == 1 ? "" : "s");
    print_scored(skill_columns, all, n, top, out);
    free(all);
}

/* All workers skilled at CLS. */
static void print_class(const char *cls, json_t *workers, struct text *out)
{
    struct scored *all = xcalloc(json_object_size(workers), sizeof(*all));
    const char *name;
    json_t *skills;
    size_t n = 0;

    json_object_foreach(workers, name, skills)
    {
        const json_t *score = json_object_get(skills, cls);

        if (json_is_number(score))
            all[n++] = (struct scored){name, json_number_value(score)};
    }
    text_add(out, SLICE_LIT("  "));
    text_add_escaped(out, slice_of(cls));
    text_addf(out, ": %zu of %zu workers skilled\n", n, json_object_size(workers));
    print_scored(worker_columns, all, n, 0, out);
    free(all);
}

static void print_application(const char *name, json_t *workers, const struct ctl_options *o,
                              struct text *out)
{
    const char *worker;
    json_t *skills;

    text_add_escaped(out, slice_of(name));
    text_add(out, json_object_size(workers) != 0 ? SLICE_LIT(":\n") : SLICE_LIT(": no workers\n"));
    if (o->cls != NULL) {
        print_class(o->cls, workers, out);
        return;
    }
    json_object_foreach(workers, worker, skills)
    {
        print_worker(worker, skills, o->top, out);
    }
}

/* ---- an agent's page ---- */

/* One of RESUMES into APPLICATIONS. A slot has one for each classifier that it was asked with. */
static void add_resume(json_t *applications, const json_t *resume)
{
    const char *application = json_string_value(json_object_get(resume, "application"));
    const char *address = json_string_value(json_object_get(resume, "address"));
    const char *fingerprint = json_string_value(json_object_get(resume, "fingerprint"));
    json_t *skills = json_object_get(resume, "skills");

    if (application == NULL || address == NULL || fingerprint == NULL || !json_is_object(skills))
        return;
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

/* The list that an agent gives, as a load balancer's page (new). */
static json_t *page_of_agent(const json_t *resumes)
{
    json_t *applications = json_object();
    size_t i;
    json_t *resume;

    json_array_foreach(resumes, i, resume)
    {
        add_resume(applications, resume);
    }
    return json_pack("{s:o}", "applications", applications);
}

enum err ctl_resumes_text(const json_t *page, const struct ctl_options *o, struct text *out)
{
    json_t *of_agent = json_is_array(page) ? page_of_agent(page) : NULL;
    enum err e = page_check(of_agent != NULL ? of_agent : page, o);

    if (e == ERR_OK)
        page_each_application(of_agent != NULL ? of_agent : page, o, print_application, out);
    json_decref(of_agent);
    return e;
}
