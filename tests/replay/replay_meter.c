/* SPDX-License-Identifier: Apache-2.0
 *
 * Kind worker_resume: a meter and the resume file, which is a JSON object here.
 */
#include <math.h>
#include <stdlib.h>

#include "common/base/text.h"
#include "common/skills/meter.h"
#include "tests/replay/replay.h"
#include "tests/support/skills_check.h"

/* Nothing is ever dropped for want of room. */
static const size_t CLASSES_UNBOUNDED = SIZE_MAX / 4;
static const uint64_t HISTORY_DEFAULT = 9999;

struct metered_worker {
    struct subject base;
    struct meter_settings settings;
    struct meter *meter;
    struct resume file;
};

static struct metered_worker *worker_of(struct subject *s)
{
    return container_of(s, struct metered_worker, base);
}

/* SETTINGS may be NULL. */
static bool read_settings(const json_t *settings, struct meter_settings *out, const char **why)
{
    *out = (struct meter_settings){.max_classes = CLASSES_UNBOUNDED, .inflate_loaded = true};
    return member_count(settings, "history", HISTORY_DEFAULT, 1, &out->history, why) &&
           member_count(settings, "max_skill_age", 10 * out->history, 0, &out->max_skill_age, why);
}

static void start(struct metered_worker *w)
{
    meter_destroy(w->meter);
    w->meter = meter_create(&w->settings);
    meter_load(w->meter, &w->file);
}

static struct subject *create(const struct kind *k, const json_t *header, const char **why)
{
    json_t *initial = json_object_get(header, "initial_resume");
    struct meter_settings settings;
    struct resume file = {0};

    if (!read_settings(json_object_get(header, "settings"), &settings, why))
        return NULL;
    if (initial != NULL && !resume_from_json(initial, &file, why))
        return NULL;
    struct metered_worker *w = xcalloc(1, sizeof(*w));
    w->base.kind = k;
    w->settings = settings;
    w->file = file;
    start(w);
    return &w->base;
}

static void destroy(struct subject *s)
{
    struct metered_worker *w = worker_of(s);

    meter_destroy(w->meter);
    resume_fini(&w->file);
    free(w);
}

static json_t *resume_now(const struct metered_worker *w)
{
    struct resume r = {0};

    meter_resume(w->meter, SIZE_MAX, &r);
    json_t *object = resume_to_json(&r);
    resume_fini(&r);
    return object;
}

static json_t *effective(const struct metered_worker *w)
{
    return json_pack("{s:o,s:o}", "history", count_to_json(w->settings.history), "max_skill_age",
                     count_to_json(w->settings.max_skill_age));
}

static json_t *step_request(struct metered_worker *w, const json_t *line, const char **why)
{
    const char *name = member_string(line, "class", why);
    double elapsed_s;
    json_t *published = NULL;

    if (name == NULL || !member_number(line, "elapsed", (double)NAN, &elapsed_s, why))
        return NULL;
    if (isnan(elapsed_s)) {
        *why = "elapsed is missing";
        return NULL;
    }
    bool due = meter_add(w->meter, slice_of(name), elapsed_s, false);
    const double *score = meter_score(w->meter, slice_of(name));
    /* It may be gone at once, when the maximal age is that short. */
    json_t *response =
        json_pack("{s:o,s:o}", "generation", count_to_json(meter_generation(w->meter)), "score",
                  score != NULL ? json_real(*score) : json_null());
    if (due) {
        resume_fini(&w->file);
        meter_resume(w->meter, SIZE_MAX, &w->file);
        published = resume_to_json(&w->file);
    }
    json_object_set_new(response, "published", published != NULL ? published : json_null());
    return response;
}

static json_t *step_settings(struct metered_worker *w, const json_t *line, const char **why)
{
    struct meter_settings settings;

    if (!read_settings(json_object_get(line, "settings"), &settings, why))
        return NULL;
    w->settings = settings;
    meter_set(w->meter, &settings);
    return json_pack("{s:o,s:f}", "effective", effective(w), "decay", meter_decay(w->meter));
}

static json_t *step_restart(struct metered_worker *w, const json_t *line, const char **why)
{
    struct meter_settings settings;

    if (!read_settings(json_object_get(line, "settings"), &settings, why))
        return NULL;
    w->settings = settings;
    start(w);
    return json_pack("{s:o,s:o}", "resume", resume_now(w), "effective", effective(w));
}

static void add_skill(void *context, const struct meter_class *c)
{
    json_t *skills = context;

    if (c->requests == 0)
        return;
    set_named(skills, c->cls,
              json_pack("{s:o,s:f,s:f}", "generation", count_to_json(c->generation), "time",
                        c->service_s, "count", c->requests));
}

static json_t *step_state(const struct metered_worker *w)
{
    json_t *skills = json_object();

    meter_check(w->meter);
    meter_each(w->meter, add_skill, skills);
    return json_pack("{s:o,s:o,s:f,s:o,s:o}", "generation",
                     count_to_json(meter_generation(w->meter)), "resume", resume_now(w), "decay",
                     meter_decay(w->meter), "effective", effective(w), "skills", skills);
}

static json_t *step(struct subject *s, const char *op, const json_t *line, const char **why)
{
    struct metered_worker *w = worker_of(s);

    if (strcmp(op, "request") == 0)
        return step_request(w, line, why);
    if (strcmp(op, "settings") == 0)
        return step_settings(w, line, why);
    if (strcmp(op, "restart") == 0)
        return step_restart(w, line, why);
    if (strcmp(op, "connect") == 0)
        return json_pack("{s:o}", "resume", resume_now(w));
    if (strcmp(op, "state") == 0)
        return step_state(w);
    *why = "no such operation";
    return NULL;
}

const struct kind kind_worker_resume = {
    .name = "worker_resume", .create = create, .destroy = destroy, .step = step};
