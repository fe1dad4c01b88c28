/* SPDX-License-Identifier: Apache-2.0
 *
 * A scenario in phases, and its measurements. A plan is created once, and run for each policy and
 * classifier over the same requests. A plan is owned by its creator, and constant while it runs; a
 * result is a plain value.
 */
#pragma once

#include "sim/workload.h"
#include "sim/world.h"

enum scenario {
#define SCENARIO(name, ...) SCENARIO_##name,
#include "sim/scenario.def"
    SCENARIOS
};
const char *scenario_name(enum scenario s);
const char *scenario_doc(enum scenario s);
/* SCENARIOS when there is none of that name. */
enum scenario scenario_find(const char *name);
/* The number of its requests, over all phases, if they are not scaled. */
size_t scenario_requests(enum scenario s);

enum {
    PLAN_PHASES_MAX = 3,
    PLAN_EXTRAS_MAX = 16,
    /* Maximum number of windows into which a run is divided, of about as many requests each. */
    PLAN_WINDOWS = 60,
};

struct plan_options {
    struct world_options world;
    struct workload workload;
    unsigned clients; /* in closed loops; >= 1 */
    double rate;  /* > 0: phases that are closed loops come at so many requests a second instead */
    double scale; /* all numbers of requests are multiplied by it; > 0 */
    double speed; /* replay of a log's own times; 0: closed loop, or RATE */
};

struct plan_phase {
    const char *name;
    size_t first, n;  /* its requests in the plan's trace */
    unsigned clients; /* 0: open loop */
    struct world_event *events;
    size_t nevents;
};

struct plan {
    enum scenario scenario;
    struct plan_options options;
    struct trace trace; /* of all phases, one behind the other */
    struct plan_phase phases[PLAN_PHASES_MAX];
    size_t nphases;
    size_t main; /* the measured phase; caches are examined after it */
};

/* A plan of any scenario but replay. Errors: ERR_TOO_LARGE: too many requests or objects. */
enum err plan_create(enum scenario s, const struct plan_options *o, struct plan **out) must_check;
/* A replay of T. Its contents pass to the plan; T is empty then. Due times must not decrease. */
struct plan *plan_replay(const struct plan_options *o, struct trace *t);
/* NULL is fine. */
void plan_destroy(struct plan *p);

struct plan_classes {
    struct names names;
    uint32_t *of; /* each request of the plan's trace */
};

/* An additional figure of one scenario. */
struct plan_extra {
    const char *key;   /* for programs */
    const char *title; /* for people, with its unit */
    double value;
    int decimals;
};

struct plan_window {
    double loads;  /* per request */
    double p99_ms; /* of requests tagged as normal, if there are any */
};

struct plan_result {
    struct sim_figures main;
    struct world_overlap overlap;
    struct pool_shadow_counts shadow; /* of the main phase; 0 without a shadow */
    double reasons[PICK_REASONS];     /* share of its requests that had this reason */
    struct plan_extra extras[PLAN_EXTRAS_MAX];
    size_t nextras;
    struct plan_window windows[PLAN_WINDOWS]; /* of all phases, one behind the other */
    size_t nwindows;
    size_t begins[PLAN_PHASES_MAX]; /* the window in which each phase begins */
    /* Shares of the requests of the main phase, the busiest worker first. */
    double shares[WORLD_WORKERS_MAX];
    unsigned nshares;
};

/* Runs P with pools of settings S. C has the class of each request. Deterministic. */
void plan_run(const struct plan *p, const struct plan_classes *c, const struct pool_settings *s,
              struct plan_result *out);
