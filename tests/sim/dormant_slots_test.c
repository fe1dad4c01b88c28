/* SPDX-License-Identifier: Apache-2.0
 *
 * How many processes a load gets, in virtual time: slots of which one has a process and the others
 * are dormant; a process serves one request at a time, keeps the data of the classes it served
 * last, takes a while to start, and ends when it has been idle for long, unless it is the first.
 * Dormant ones are activated as lb/backends/activation.c does it: by what the pool finds at each
 * look. Time goes by in ms.
 *
 *   dormant --activated--> in, its request --> starting, out --> warm, in --idle--> dormant
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "common/skills/meter.h"
#include "routing/pool.h"
#include "sim/parts.h"
#include "tests/sim/seed.h"
#include "tests/support/pool_check.h"

enum {
    SLOTS = 8,
    CACHE = 30,
    HISTORY = 500,
    SERVE_MS = 10,
    LOAD_MS = 40,    /* in addition, for a class with its data not loaded */
    START_MS = 2000, /* until a process is ready */
    TELL_MS = 2,     /* until its state is known */
    IDLE_MS = 10000,
    LOOK_MS = 100,
    SPAWN_AFTER_MS = 1000,
    STARTS_MAX = 1000,
};

enum slot_state { DORMANT, STARTING, WARM };

struct job {
    struct pool_pick pick;
    struct job *next;
    int cls;
    uint64_t asked_ms;
};

struct sim_slot {
    enum slot_state state;
    bool in_pool;
    struct worker *worker;
    struct meter *meter;
    int cache[CACHE]; /* classes, most recently used first; -1: none */
    struct job *first, *last;
    uint64_t begun_ms, done_ms; /* of the first, in a warm one */
    uint64_t since_ms;          /* of its state */
    uint64_t used_ms;           /* when it was last done with one */
};

struct sim {
    struct draw draw;
    struct pool *pool;
    bool all_in; /* dormant ones are in the pool from the start, for comparison */
    struct sim_slot slots[SLOTS];
    int activated; /* -1: none */
    uint64_t now_ms;
    int fresh_class; /* the next one that has not been requested yet */
    /* Since the last stretch began. */
    size_t served, took_ms;
    uint64_t longest_ms;
    uint64_t starts_ms[STARTS_MAX]; /* each start of a process */
    size_t nstarts;
};

/* ---- processes ---- */

static struct slice class_of(int cls, char name[16])
{
    return (struct slice){name, (size_t)snprintf(name, 16, "c%d", cls)};
}

static bool use_cache(struct sim_slot *s, int cls)
{
    int at = 0;

    while (at < CACHE && s->cache[at] != cls)
        ++at;
    bool had = at < CACHE;
    memmove(s->cache + 1, s->cache, (size_t)(had ? at : CACHE - 1) * sizeof(s->cache[0]));
    s->cache[0] = cls;
    return had;
}

static void begin(const struct sim *m, struct sim_slot *s)
{
    s->begun_ms = m->now_ms;
    if (s->first != NULL)
        s->done_ms = m->now_ms + SERVE_MS + (use_cache(s, s->first->cls) ? 0 : LOAD_MS);
}

static void send_resume(struct sim *m, struct sim_slot *s)
{
    struct resume r = {0};

    meter_resume(s->meter, SIZE_MAX, &r);
    pool_new_resume(m->pool, s->worker, &r, "", "", NULL);
    s->in_pool = true;
    resume_fini(&r);
}

static void leave(struct sim *m, struct sim_slot *s)
{
    pool_remove(m->pool, s->worker, NULL);
    s->in_pool = false;
}

static void enter(struct sim *m, struct sim_slot *s, enum slot_state state)
{
    s->state = state;
    s->since_ms = s->used_ms = m->now_ms;
}

static void new_process(struct sim_slot *s)
{
    static const struct meter_settings measure = {
        .history = HISTORY, .max_skill_age = METER_SKILL_AGE_DEFAULT, .max_classes = 10000};

    meter_destroy(s->meter);
    s->meter = meter_create(&measure);
    memset(s->cache, -1, sizeof(s->cache));
}

static void start_process(struct sim *m, struct sim_slot *s)
{
    assert_true(m->nstarts < STARTS_MAX);
    m->starts_ms[m->nstarts++] = m->now_ms;
    new_process(s);
    enter(m, s, STARTING);
}

static void finish(struct sim *m, struct sim_slot *s)
{
    struct job *j = s->first;
    uint64_t took_ms = m->now_ms - j->asked_ms;
    char name[16];

    s->first = j->next;
    s->used_ms = m->now_ms;
    if (meter_add(s->meter, class_of(j->cls, name), (double)(m->now_ms - s->begun_ms) / 1000,
                  false))
        send_resume(m, s);
    pool_put(m->pool, &j->pick, NULL, NULL);
    ++m->served;
    m->took_ms += took_ms;
    if (took_ms > m->longest_ms)
        m->longest_ms = took_ms;
    free(j);
    begin(m, s);
}

static void live(struct sim *m, int n)
{
    struct sim_slot *s = &m->slots[n];

    switch (s->state) {
    case DORMANT:
        return;
    case STARTING:
        if (s->in_pool && !m->all_in && m->now_ms == s->since_ms + TELL_MS)
            leave(m, s);
        if (m->now_ms < s->since_ms + START_MS)
            return;
        enter(m, s, WARM);
        send_resume(m, s);
        pool_activate(m->pool, s->worker,
                      n == m->activated ? POOL_ACTIVATION_RELIEVE : POOL_ACTIVATION_NONE, NULL);
        if (n == m->activated) {
            m->activated = -1;
            pool_overload_forget(m->pool);
        }
        begin(m, s);
        return;
    case WARM:
        if (s->first != NULL && m->now_ms >= s->done_ms)
            finish(m, s);
        if (n != 0 && s->first == NULL && m->now_ms - s->used_ms >= IDLE_MS) {
            enter(m, s, DORMANT);
            if (!m->all_in)
                leave(m, s);
        }
        return;
    }
}

/* ---- the load balancer ---- */

static void ask(struct sim *m, int cls)
{
    struct job *j = calloc(1, sizeof(*j));
    char name[16];

    assert_non_null(j);
    j->cls = cls;
    j->asked_ms = m->now_ms;
    struct pool_request r = {.cls = class_of(cls, name)};
    assert_int_equal(pool_get(m->pool, &r, m->now_ms * 1000, &j->pick), ERR_OK);
    struct sim_slot *s = worker_context(j->pick.worker);
    if (s->first != NULL)
        s->last->next = j;
    else
        s->first = j;
    s->last = j;
    if (s->state == DORMANT)
        start_process(m, s);
    else if (s->state == WARM && s->first == j)
        begin(m, s);
}

/* The one that has been dormant for longest. */
static int longest_dormant(const struct sim *m)
{
    int best = -1;

    for (int i = 0; i < SLOTS; ++i) {
        if (m->slots[i].state == DORMANT &&
            (best == -1 || m->slots[i].since_ms < m->slots[best].since_ms))
            best = i;
    }
    return best;
}

static void look(struct sim *m)
{
    uint64_t for_ms = 0;
    bool over = pool_overloaded(m->pool, m->now_ms, &for_ms);

    if (m->all_in)
        return;
    if (m->activated != -1) {
        if (m->slots[m->activated].state == DORMANT && !over) {
            leave(m, &m->slots[m->activated]);
            m->activated = -1;
        }
        return;
    }
    if (!over || for_ms < SPAWN_AFTER_MS)
        return;
    m->activated = longest_dormant(m);
    if (m->activated == -1)
        return;
    send_resume(m, &m->slots[m->activated]);
    pool_activate(m->pool, m->slots[m->activated].worker, POOL_ACTIVATION_WAKE, NULL);
}

/* ---- the course of events ---- */

struct stretch {
    int seconds;
    double rate; /* requests per second, at random times */
    int classes; /* number of equally frequent classes; 0: each request has a new class */
};

static void run(struct sim *m, const struct stretch *t)
{
    uint64_t end_ms = m->now_ms + (uint64_t)t->seconds * 1000;

    m->served = m->took_ms = m->nstarts = 0;
    m->longest_ms = 0;
    for (; m->now_ms < end_ms; ++m->now_ms) {
        for (int i = 0; i < SLOTS; ++i)
            live(m, i);
        if (draw_unit(&m->draw) < t->rate / 1000)
            ask(m, t->classes != 0 ? (int)draw_below(&m->draw, (uint32_t)t->classes)
                                   : m->fresh_class++);
        if (m->now_ms % LOOK_MS == 0)
            look(m);
    }
    pool_check(m->pool);
}

static int processes(const struct sim *m)
{
    int n = 0;

    for (int i = 0; i < SLOTS; ++i)
        n += m->slots[i].state != DORMANT;
    return n;
}

static void tell_of(const struct sim *m, const char *what, uint64_t seed)
{
    print_message("seed %llu, %s: %zu starts, %d processes, mean %.0f ms, longest %llu ms\n",
                  (unsigned long long)seed, what, m->nstarts, processes(m),
                  m->served != 0 ? (double)m->took_ms / (double)m->served : 0,
                  (unsigned long long)m->longest_ms);
}

static void start(struct sim *m, enum pool_policy policy, bool all_in, uint64_t seed)
{
    struct pool_settings settings = {.policy = policy,
                                     .variance = 4,
                                     .backlog_history = 9,
                                     .unskilled_score = 1,
                                     .max_classes = 10000,
                                     .spawn_backlog = 2};

    *m = (struct sim){.draw = draw_of(seed),
                      .pool = pool_create(&settings, ""),
                      .all_in = all_in,
                      .activated = -1,
                      .fresh_class = 1000000,
                      .now_ms = 1};
    for (int i = 0; i < SLOTS; ++i) {
        struct worker_options o = {
            .name = SLICE_LIT("w"), .concurrency = 1, .context = &m->slots[i]};

        m->slots[i].worker = worker_create(&o);
        new_process(&m->slots[i]);
        enter(m, &m->slots[i], i == 0 ? WARM : DORMANT);
        if (i == 0 || all_in)
            send_resume(m, &m->slots[i]);
    }
}

static void end(struct sim *m)
{
    for (int i = 0; i < SLOTS; ++i) {
        struct sim_slot *s = &m->slots[i];

        while (s->first != NULL) {
            struct job *j = s->first;

            s->first = j->next;
            pool_put(m->pool, &j->pick, NULL, NULL);
            free(j);
        }
        pool_remove(m->pool, s->worker, NULL);
        worker_unref(s->worker);
        meter_destroy(s->meter);
    }
    pool_destroy(m->pool);
}

/* Half of what one process can do, each request of a class of its own. */
static const struct stretch new_classes = {60, 10, 0};
/* What takes about four processes: 240 a second, all of them known after a while. */
static const struct stretch heavy = {120, 240, 60};
/* As many for processes that all have to know all classes. */
static const struct stretch heavy_few = {120, 240, 20};
static const struct stretch light = {60, 5, 3};
static const struct stretch quiet = {30, 0, 1};

static void new_classes_do_not_start_every_process(void **state)
{
    struct sim m;

    (void)state;
    for (uint64_t seed = simulation_seed(); seed < simulation_seed() + 3; ++seed) {
        start(&m, POOL_POLICY_RESUME, false, seed);
        run(&m, &new_classes);
        tell_of(&m, "new classes", seed);
        assert_int_equal(m.nstarts, 0);
        end(&m);
        /* As it would be if dormant ones stood in the line. */
        start(&m, POOL_POLICY_RESUME, true, seed);
        run(&m, &new_classes);
        tell_of(&m, "new classes, dormant slots in the line", seed);
        assert_int_equal(processes(&m), SLOTS);
        end(&m);
    }
}

static void check_one_after_the_other(const struct sim *m)
{
    for (size_t i = 1; i < m->nstarts; ++i)
        assert_true(m->starts_ms[i] - m->starts_ms[i - 1] >= START_MS + SPAWN_AFTER_MS);
}

static void overload_starts_one_after_the_other(enum pool_policy policy, const struct stretch *load,
                                                uint64_t seed)
{
    struct sim m;

    start(&m, policy, false, seed);
    run(&m, load);
    tell_of(&m, "overload", seed);
    check_one_after_the_other(&m);
    int enough = processes(&m);
    assert_in_range(enough, 3, SLOTS - 1);
    /* Steady state: no further process is started, and no request waits for long. */
    run(&m, load);
    tell_of(&m, "the same load", seed);
    check_one_after_the_other(&m);
    assert_true(m.nstarts <= 1);
    assert_true(m.took_ms / m.served < 200);
    /* A light load stays with those that know its classes; by the least backlog all share in it. */
    run(&m, &light);
    tell_of(&m, "light load", seed);
    assert_int_equal(m.nstarts, 0);
    assert_true(processes(&m) <= (policy == POOL_POLICY_RESUME ? 3 : enough));
    run(&m, &quiet);
    assert_int_equal(processes(&m), 1);
    end(&m);
}

static void overload_starts_one_after_the_other_by_skills(void **state)
{
    (void)state;
    for (uint64_t seed = simulation_seed(); seed < simulation_seed() + 3; ++seed)
        overload_starts_one_after_the_other(POOL_POLICY_RESUME, &heavy, seed);
}

static void overload_starts_one_after_the_other_by_the_least_backlog(void **state)
{
    (void)state;
    for (uint64_t seed = simulation_seed(); seed < simulation_seed() + 3; ++seed)
        overload_starts_one_after_the_other(POOL_POLICY_CLASSLESS, &heavy_few, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_classes_do_not_start_every_process),
        cmocka_unit_test(overload_starts_one_after_the_other_by_skills),
        cmocka_unit_test(overload_starts_one_after_the_other_by_the_least_backlog),
    };

    return cmocka_run_group_tests_name("dormant_slots", tests, NULL, NULL);
}
