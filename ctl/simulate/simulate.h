/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl simulate: what resumelb would do for an access log, or for described work. Variants,
 * a policy with its settings and a classifier each, run over the same requests (sim/); the result
 * is a table, JSON, or a chart. Everything is owned by struct simulate. The interfaces of classify
 * and playback, which read the same logs, are for their tests. Main thread.
 */
#pragma once

#include "classifiers/registry.h"
#include "common/base/text.h"
#include "common/net/addr.h"
#include "ctl/cli/page.h"
#include "ctl/simulate/access_line.h"
#include "sim/scenario.h"

enum {
    SIMULATE_POLICIES_MAX = 24,
    SIMULATE_CLASSIFIERS_MAX = 8,
    SIMULATE_RANDOM_MAX = 1000,
};

/* ---- policies ---- */

struct simulate_policy {
    char *label; /* of the command line: NAME or NAME:SETTING=VALUE:...; free() */
    struct pool_settings settings;
};

/* Appends the policies of LIST, separated by commas, each with settings that it uses; "all": every
 * policy. Errors, such as a duplicate, to D. */
bool simulate_read_policies(const char *list, struct simulate_policy *out, size_t *n,
                            struct diag *d) must_check;
/* Copies FROM with another value of a setting. False if it has no such setting. */
bool simulate_vary_policy(const struct simulate_policy *from, const char *setting,
                          const char *value, struct simulate_policy *out) must_check;

/* ---- classifiers ---- */

struct simulate_classifier {
    char *label;
    struct config config;
    struct classifier *classifier;
    struct plan_classes classes; /* of the current plan */
};

/* The classifiers of a command line. */
struct simulate_classifiers {
    struct simulate_classifier all[SIMULATE_CLASSIFIERS_MAX];
    size_t n;
};

/* The last members of a flag that takes up to MAX of them. */
#define SIMULATE_CLASSIFIERS(type, member, max)                                                    \
    simulate_take_classifier, CTL_AT(type, member, struct simulate_classifiers), 0, max
int simulate_take_classifier(struct ctl_options *o, const struct ctl_flag *f, const char *spec);
/* SPEC: host, path, segment (the path's first), regex:VARIABLE:PATTERN. Returns CTL_OK, or the exit
 * status after printing the reason. There must be room. */
int simulate_add_classifier(const struct ctl_options *o, struct simulate_classifiers *c,
                            const char *spec) must_check;
void simulate_classifiers_fini(struct simulate_classifiers *c);
/* The class of a request, as a number in c->classes.names. False: there are too many. */
bool simulate_classify(struct simulate_classifier *c, const struct access_line *line,
                       uint32_t *out) must_check;
/* The classes of a plan of described work. ERR_TOO_LARGE: there are too many. */
enum err simulate_classify_plan(struct simulate_classifiers *all, const struct plan *p) must_check;

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
    struct plan_options plan;
    uint32_t given; /* numbers of the table in simulate.c that are on the command line, as bits */
    struct simulate_policy policies[SIMULATE_POLICIES_MAX];
    size_t npolicies;
    bool adds_today; /* the last policy was not requested: it is the reference */
    struct simulate_classifiers classifiers;
    const char *log_file; /* NULL: described work; "-": standard input */
    struct simulate_log log;
    bool scenarios[SCENARIOS];
    size_t requests;  /* 0: as many as there are */
    unsigned nrandom; /* number of random workloads; 0: not requested */
    bool tune;
    const char *plot_file;
};

/* The runs of one scenario, one for each variant. */
struct simulate_runs {
    const struct simulate *simulate;
    const struct plan *plan;
    struct simulate_variant *variants; /* free() */
    size_t nvariants;
};

/* Reads the log into a plan, with the classes of each classifier. */
enum err simulate_read_log(struct simulate *s, struct plan **out, struct diag *d) must_check;
/* Runs every variant over PLAN, which must contain the classes. */
void simulate_run(const struct simulate *s, const struct plan *plan, struct simulate_runs *out);
/* Returns the variant of the usual policy without classes, or else the last one. */
const struct simulate_variant *simulate_baseline(const struct simulate_runs *t);
/* Returns the best of the policies FIRST .. LAST - 1: in a closed loop by rate, else by p99; within
 * one percent of that, the one with the lower p99, or with fewer loads. */
const struct simulate_variant *simulate_best(const struct simulate_runs *t, size_t first,
                                             size_t last);
/* The number of requested policies; they come first. */
static inline size_t simulate_requested(const struct simulate *s)
{
    return s->npolicies - s->adds_today;
}
void simulate_label(const struct simulate *s, const struct simulate_variant *v, struct text *out);
/* Adds the label of V as the next cell of TABLE. */
void simulate_add_label(struct table *table, const struct simulate *s,
                        const struct simulate_variant *v);
/* Whether A is better than B, as figures of the main phase of P. */
bool simulate_is_better(const struct plan *p, const struct sim_figures *a,
                        const struct sim_figures *b);

/* ---- what is printed ---- */

/* Prints what was simulated, then a table of results, then the description of the scenario. */
void simulate_print(const struct simulate_runs *t, struct text *out);
/* Prints the extent of the log, and the number of unusable lines if there are any. */
void simulate_print_log(const struct simulate *s, struct text *out);
/* Describes the gain of the best variant over the baseline. */
void simulate_print_gain(const struct simulate_runs *t, struct text *out);
void simulate_print_json(const struct simulate_runs *all, size_t n, struct text *out);
/* Writes a chart (SVG). */
void simulate_plot(const struct simulate_runs *t, struct text *out);
/* Runs s->nrandom workloads: prints a line for each, and how often each policy is among the best.
 */
enum err simulate_random(struct simulate *s, struct text *out, struct diag *d) must_check;
/* Searches the best classifier, policy, settings and number of workers, and prints them. */
enum err simulate_tune(struct simulate *s, struct plan *plan, struct text *out,
                       struct diag *d) must_check;

/* ---- classify: the classes that a classifier makes, and what is wrong with them ---- */

struct class_count {
    struct slice name;
    uint64_t requests;
    uint32_t number; /* of the classifier's names */
};

/* The classes of one classifier. */
struct class_counts {
    const char *label;
    struct class_count *classes; /* the largest first */
    size_t n;
    uint64_t requests;
};

struct class_facts {
    size_t single;      /* classes that only one request has */
    double largest;     /* share of the largest class that has a name */
    double nameless;    /* share of requests without a class */
    double as_if_equal; /* so many classes of the same size would be as uneven (exp of entropy) */
    /* A line for each problem; none if there are too few requests to judge. text_fini(). */
    struct text warnings;
};

/* All that C has classified; free() the classes. */
void classify_collect(const struct simulate_classifier *c, struct class_counts *out);
/* Sort them: the largest first, ties by name. */
void classify_sort(struct class_counts *c);
void classify_facts(const struct class_counts *c, struct class_facts *out);

/* ---- playback ---- */

/*
 * Requests are read whole first; a player asks one server for all of them, closed loop or paced;
 * figures are made of what came back. Everything is owned by struct playback.
 */

enum {
    PLAYBACK_SERVERS_MAX = 2,
    PLAYBACK_REQUESTS_MAX = 5000000,
    PLAYBACK_CLIENTS_MAX = 10000,
    PLAYBACK_NO_LOADS = UINT32_MAX,
};

struct playback_request {
    uint64_t due_ns;           /* since the first one, in the log */
    size_t host_at, target_at; /* in playback.texts, each ends with a NUL; host: "" is unknown */
    uint32_t cls;
};

/* The result of a request. */
struct playback_record {
    uint32_t latency_us; /* paced: from when it was due; else from when it was asked */
    uint32_t loads;      /* as reported by the server; or PLAYBACK_NO_LOADS */
    uint16_t status;     /* 0: no response; the reason is in `error` */
    uint16_t error;      /* enum err */
    bool played;
};

struct playback_server {
    const char *url;
    struct slice host; /* of the URL, with its port */
    struct addr addr;
    struct playback_record *records; /* of each request */
    double wall_s;
};

struct playback {
    struct ctl_options o;
    struct playback_server servers[PLAYBACK_SERVERS_MAX];
    size_t nservers;
    struct simulate_classifiers classifiers; /* one */
    struct playback_request *requests;
    size_t n, room;
    struct text texts;
    struct text bad; /* lines that were left out, in words */
    size_t others;   /* requests that are not GETs, or that cannot be sent */
    uint64_t limit, clients;
    double speed; /* 0: closed loop */
    const char *loads_header;
    bool interrupted;
};

struct playback_figures {
    size_t n, errors;                      /* an error: no response, or a status of 500 or above */
    double p50_ms, p90_ms, p99_ms, max_ms; /* of the requests with a response */
    double loads;                          /* per request that reported it; < 0: none did */
};
/* Computes the metrics of the played requests of class CLS; UINT32_MAX: of all. */
void playback_figures(const struct playback *p, const struct playback_server *s, uint32_t cls,
                      struct playback_figures *out);
