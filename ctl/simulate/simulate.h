/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl simulate: what resumelb would do for an access log, or for described work. Variants,
 * a policy with its settings and a classifier each, run over the same requests (sim/); what comes
 * of it is a table, JSON, or a picture. Main thread; everything is owned by struct simulate.
 */
#ifndef RLB_CTL_SIMULATE_SIMULATE_H
#define RLB_CTL_SIMULATE_SIMULATE_H

#include "classifiers/registry.h"
#include "common/base/text.h"
#include "ctl/cli/page.h"
#include "ctl/simulate/access_line.h"
#include "sim/scenario.h"

enum {
    SIMULATE_POLICIES_MAX = 24,
    SIMULATE_CLASSIFIERS_MAX = 8,
    /* Classes that one classifier may make of a trace. */
    SIMULATE_CLASSES_MAX = 4 << 20,
    SIMULATE_RANDOM_MAX = 1000,
    /* Policies that know nothing of classes. */
    SIMULATE_COMMON = 3,
    SIMULATE_NUMBERS = 20,
};

/* ---- policies (simulate_policies.c) ---- */

struct simulate_policy {
    char *label; /* as it was given: NAME or NAME:SETTING=VALUE:... */
    struct pool_settings settings;
};

/* LIST: policies with commas between, each once, with settings that it goes by; "all": each that
 * there is. Problems to D. */
bool simulate_read_policies(const char *list, struct simulate_policy *out, size_t *n,
                            struct diag *d) must_check;
/* One policy, with another value of a setting; false when it has none such. */
bool simulate_vary_policy(const struct simulate_policy *from, const char *setting,
                          const char *value, struct simulate_policy *out) must_check;
void simulate_policy_fini(struct simulate_policy *p);
/* "resume, classless, ..." */
void simulate_policy_names(struct text *out);

/* ---- classifiers (simulate_log.c) ---- */

struct simulate_classifier {
    char *label;
    struct config config;
    struct classifier *classifier;
    struct plan_classes classes; /* of the plan at hand */
};

/* host, path, segment (the path's first), regex:VARIABLE:PATTERN. Problems to D. */
bool simulate_read_classifier(const char *spec, struct simulate_classifier *out,
                              struct diag *d) must_check;
void simulate_classifier_fini(struct simulate_classifier *c);
/* The class of a request, as a number in c->classes.names. False: there are too many. */
bool simulate_classify(struct simulate_classifier *c, const struct access_line *line,
                       uint32_t *out) must_check;
/* The classes of a plan of described work. False: there are too many. */
bool simulate_classify_plan(struct simulate_classifier *c, const struct plan *p) must_check;

/* ---- everything ---- */

struct simulate_variant {
    size_t policy, classifier;
    struct plan_result result;
};

/* Counts of a log. */
struct simulate_log {
    struct requests in; /* closed */
    size_t requests;
    bool cut; /* there was more than --requests, or than there is room for */
    double span_s;
};

struct simulate {
    struct ctl_options o;
    double numbers[SIMULATE_NUMBERS]; /* of the table in simulate.c */
    uint32_t given;                   /* which of them were */
    struct plan_options plan;         /* made of them */
    struct simulate_policy policies[SIMULATE_POLICIES_MAX];
    size_t npolicies;
    bool adds_today; /* the last policy was not asked for: the others are held against it */
    struct simulate_classifier classifiers[SIMULATE_CLASSIFIERS_MAX];
    size_t nclassifiers;
    const char *log_file; /* NULL: described work; "-": standard input */
    struct simulate_log log;
    bool scenarios[SCENARIOS];
    size_t requests;  /* 0: as many as there are */
    unsigned nrandom; /* workloads drawn at random; 0: not asked for */
    bool tune;
    const char *plot_file;
};

/* One scenario, with all its variants. */
struct simulate_story {
    const struct simulate *simulate;
    const struct plan *plan;
    struct simulate_variant *variants;
    size_t nvariants;
};

/* Reads the log into a plan, with the classes of each classifier (simulate_log.c). */
enum err simulate_read_log(struct simulate *s, struct plan **out, struct diag *d) must_check;
/* Runs every variant over PLAN, which must contain the classes. */
void simulate_run(const struct simulate *s, const struct plan *plan, struct simulate_story *out);
void simulate_story_fini(struct simulate_story *t);
/* The usual policies of other load balancers, the best first. */
extern const char *const simulate_common[SIMULATE_COMMON];
/* Returns the variant to compare the others with: the usual policy without classes, or else the
 * last one. */
const struct simulate_variant *simulate_baseline(const struct simulate_story *t);
/* Returns the best of the requested policies: in a closed loop the one with the highest rate, else
 * with the lowest p99; within one percent of that, the one with the lower p99, or with fewer loads.
 */
const struct simulate_variant *simulate_best(const struct simulate_story *t);
/* How many of the policies were asked for; they come first. */
static inline size_t simulate_asked(const struct simulate *s)
{
    return s->npolicies - s->adds_today;
}
void simulate_label(const struct simulate *s, const struct simulate_variant *v, struct text *out);
/* The same as the next cell of TABLE. */
void simulate_add_label(struct table *table, const struct simulate *s,
                        const struct simulate_variant *v);
/* Whether A is to be had rather than B, of the phase of P that counts. */
bool simulate_is_better(const struct plan *p, const struct figures *a, const struct figures *b);

/* ---- what is printed ---- */

/* Prints what was simulated, then a table of results, then the description of the scenario. */
void simulate_print(const struct simulate_story *t, struct text *out);
/* Reports the unusable parts of a log; prints nothing if there are none. */
void simulate_print_log(const struct simulate *s, struct text *out);
/* Describes the gain of the best variant over the baseline. */
void simulate_print_gain(const struct simulate_story *t, struct text *out);
void simulate_print_json(const struct simulate_story *const *stories, size_t n, struct text *out);
/* A picture of one story (SVG). */
void simulate_plot(const struct simulate_story *t, struct text *out);
/* s->nrandom workloads: a line each, and how often each policy is among the best. */
enum err simulate_random(struct simulate *s, struct text *out, struct diag *d) must_check;
/* The best of what can be set: classifier, policy and its settings, workers. */
enum err simulate_tune(struct simulate *s, struct plan *plan, struct text *out,
                       struct diag *d) must_check;

#endif
