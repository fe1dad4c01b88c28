/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of the agent's processes and requests drives the pool's core through long random
 * sequences in virtual time, and checks after every step what must always hold. RLB_STEPS sets how
 * many, RLB_SEED which; a failure prints the seed.
 */
#include "tests/support/pool_core_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { GROUPS = 4, SLOTS = 6, PROCESSES = 200, REQUESTS = 64, STEPS = 300000 };

struct model_process {
    struct core_process core;
    bool used, asked_to_end;
};

struct model {
    struct core core;
    struct core_group groups[GROUPS];
    struct core_slot slots[GROUPS][SLOTS];
    struct model_process processes[PROCESSES];
    struct core_request requests[REQUESTS];
    uint64_t now_ms, random, steps;
    uint64_t granted, spawned, ended, rejected, replaced;
};

static uint64_t next_random(struct model *m)
{
    /* xorshift64*: the same everywhere. */
    m->random ^= m->random >> 12;
    m->random ^= m->random << 25;
    m->random ^= m->random >> 27;
    return m->random * 0x2545F4914F6CDD1DULL;
}

static unsigned below(struct model *m, unsigned n)
{
    return (unsigned)((next_random(m) >> 33) % n);
}

/* ---- what the core decides ---- */

static void spawn(struct model *m, struct core_slot *s)
{
    const struct core *c = &m->core;
    bool beside = s->process != NULL;

    assert_true(core_slot_enabled(s));
    assert_null(s->replacement);
    unsigned all = c->count + c->strays;
    assert_true(c->max == 0 || all < c->max || (c->overlap && beside && all == c->max));
    assert_true(m->now_ms >= s->not_before_ms || beside);
    for (size_t i = 0; i < PROCESSES; ++i) {
        struct model_process *p = &m->processes[i];

        if (p->used)
            continue;
        *p = (struct model_process){.used = true};
        core_enter(s, &p->core, m->now_ms);
        p->core.warmth = (double)below(m, 100);
        ++m->spawned;
        m->replaced += beside;
        return;
    }
    fail_msg("more processes than there can be");
}

static void granted(struct model *m, const struct core_request *r)
{
    const struct core_process *p = r->process;
    const struct core_slot *s = p->slot;
    struct list *it;

    ++m->granted;
    assert_int_equal(r->state, CORE_REQUEST_RUNNING);
    assert_true(p->state == CORE_READY || (p->state == CORE_STARTING && p->sessions == 1));
    assert_true(p->places <= s->group->concurrency);
    assert_false(p->held);
    assert_true(s->group->max_requests == 0 || s->group->one_shot ||
                p->served <= s->group->max_requests);
    assert_true(!s->group->one_shot || (p->served == 1 && p->born > r->order));
    assert_true(r->any || r->slot == s);
    /* First come, first served. */
    list_for_each (it, &s->waiting)
        assert_true(list_entry(it, struct core_request, node)->order > r->order);
}

static void carry_out(struct model *m)
{
    struct core_action a;

    for (int i = 0; (a = core_next(&m->core, m->now_ms)).what != CORE_NOTHING; ++i) {
        assert_in_range(i, 0, 10000);
        if (a.what == CORE_SPAWN) {
            spawn(m, a.slot);
        } else if (a.what == CORE_GO) {
            granted(m, a.request);
        } else if (a.what == CORE_REPORT) {
            assert_non_null(a.slot);
        } else {
            struct model_process *p = container_of(a.process, struct model_process, core);

            assert_true(p->used && !p->asked_to_end);
            assert_int_equal(a.process->state, CORE_LEAVING);
            assert_int_not_equal(a.process->marked, CORE_KEEP);
            p->asked_to_end = true;
            ++m->ended;
        }
    }
}

/* ---- what happens ---- */

static struct model_process *some_process(struct model *m)
{
    struct model_process *used[PROCESSES];
    unsigned n = 0;

    for (size_t i = 0; i < PROCESSES; ++i) {
        if (m->processes[i].used)
            used[n++] = &m->processes[i];
    }
    return n > 0 ? used[below(m, n)] : NULL;
}

static void bury(struct model *m, struct model_process *p)
{
    struct core_slot *s = p->core.slot;
    bool was_replacement = s->replacement == &p->core;

    core_exited(&p->core);
    p->used = false;
    if (p->asked_to_end)
        return;
    if (was_replacement)
        s->group->replace_not_before_ms = m->now_ms + below(m, 500);
    else
        s->not_before_ms = m->now_ms + below(m, 500);
}

static void do_process(struct model *m)
{
    struct model_process *p = some_process(m);

    if (p == NULL)
        return;
    switch (below(m, 8)) {
    case 0:
        if (below(m, 8) == 0)
            bury(m, p);
        break;
    case 1:
        core_probing(&p->core, below(m, 2) == 0);
        break;
    case 2:
        core_hold(&p->core, below(m, 12) == 0);
        break;
    case 3:
        if (below(m, 10) == 0)
            core_detach(&p->core, CORE_REPLACED);
        else if (below(m, 10) == 0)
            core_end(&p->core, CORE_REPLACED);
        else if (below(m, 4) == 0)
            core_elsewhere(&p->core, below(m, 3) / 2);
        break;
    case 4:
        if (below(m, 10) == 0)
            core_mark(&p->core, CORE_REPLACED);
        break;
    default:
        if (p->asked_to_end)
            bury(m, p);
        else
            core_ready(&p->core, m->now_ms);
    }
}

static void do_request(struct model *m)
{
    struct core_request *r = &m->requests[below(m, REQUESTS)];
    unsigned g = below(m, GROUPS);

    if (r->state == CORE_REQUEST_WAITING && below(m, 8) != 0)
        return;
    if (r->state != CORE_REQUEST_NONE) {
        if (below(m, 20) == 0)
            core_upgraded(r, m->now_ms);
        else
            core_leave(r, m->now_ms);
        return;
    }
    struct core_slot *s = below(m, 3) == 0 ? NULL : &m->slots[g][below(m, SLOTS)];
    r->may_probe = below(m, 2) == 0;
    enum core_result response = core_request_process(&m->groups[g], s, r, m->now_ms);
    if (response == CORE_GO_NOW)
        granted(m, r);
    m->rejected += response == CORE_QUEUE_FULL;
    assert_int_equal(r->state == CORE_REQUEST_NONE, response == CORE_QUEUE_FULL);
}

static void do_settings(struct model *m)
{
    struct core_group *g = &m->groups[below(m, GROUPS)];

    switch (below(m, 10)) {
    case 0:
        m->core.max = below(m, GROUPS * SLOTS);
        break;
    case 1:
        m->core.overlap = below(m, 2) == 0;
        break;
    case 2:
        g->max_processes = below(m, SLOTS + 1);
        break;
    case 3:
        g->min_processes = below(m, 3);
        break;
    case 4:
        g->max_requests = below(m, 2) * below(m, 20);
        break;
    case 5:
        m->core.strays = below(m, 3) / 2;
        g->max_idle_ms = below(m, 2) * 100;
        break;
    case 6:
        g->concurrency = 1 + below(m, 3);
        break;
    case 7:
        g->queue = below(m, 2) == 0 ? CORE_QUEUE_GLOBAL : CORE_QUEUE_PRIVATE;
        break;
    case 8:
        g->one_shot = below(m, 6) == 0;
        break;
    default:
        ++g->generation;
    }
    core_tick(&m->core, m->now_ms);
}

static void step(struct model *m)
{
    unsigned what = below(m, 100);

    ++m->steps;
    if (what < 55)
        do_request(m);
    else if (what < 90)
        do_process(m);
    else if (what < 92)
        do_settings(m);
    else if (what < 95)
        core_tick(&m->core, m->now_ms);
    else
        m->now_ms += below(m, 200);
    carry_out(m);
    core_check(&m->core);
}

/* ---- in the end ---- */

static void calm(struct model *m)
{
    m->now_ms += 1000;
    for (size_t i = 0; i < PROCESSES; ++i) {
        struct model_process *p = &m->processes[i];

        if (!p->used)
            continue;
        core_hold(&p->core, false);
        core_elsewhere(&p->core, 0);
        if (p->asked_to_end)
            bury(m, p);
        else
            core_ready(&p->core, m->now_ms);
    }
    carry_out(m);
    for (size_t i = 0; i < REQUESTS; ++i) {
        if (m->requests[i].state == CORE_REQUEST_RUNNING)
            core_leave(&m->requests[i], m->now_ms);
    }
    core_tick(&m->core, m->now_ms);
    carry_out(m);
    core_check(&m->core);
}

static bool anybody_waits(const struct model *m)
{
    for (size_t i = 0; i < REQUESTS; ++i) {
        const struct core_request *r = &m->requests[i];

        /* One for a slot that was taken out of use is the owner's to reject. */
        if (r->state == CORE_REQUEST_WAITING && (r->slot == NULL || core_slot_enabled(r->slot)))
            return true;
    }
    return false;
}

/* When nothing fails any more, all requests are served, and the required processes exist. */
static void settles(struct model *m)
{
    enum { ROUNDS = 2000 };
    int rounds = 0;

    m->core.max = m->core.max == 0 ? 0 : m->core.max + GROUPS * 2;
    m->core.strays = 0;
    for (size_t g = 0; g < GROUPS; ++g) {
        m->groups[g].replace_not_before_ms = 0;
        m->groups[g].max_requests = 0;
        m->groups[g].one_shot = false;
        if (m->groups[g].max_processes != 0 && m->groups[g].max_processes < 2)
            m->groups[g].max_processes = 2;
    }
    while (anybody_waits(m) && rounds++ < ROUNDS)
        calm(m);
    assert_in_range(rounds, 0, ROUNDS - 1);
    for (int i = 0; i < 100; ++i)
        calm(m);
    for (size_t g = 0; g < GROUPS; ++g) {
        assert_true(m->groups[g].nprocesses >= m->groups[g].min_processes);
        for (unsigned n = 0; n < SLOTS; ++n) {
            const struct core_slot *s = &m->slots[g][n];

            assert_true(s->process == NULL || s->process->marked == CORE_KEEP);
        }
    }
}

static struct model *create(uint64_t seed)
{
    struct model *m = calloc(1, sizeof(*m));

    assert_non_null(m);
    m->random = seed * 0x9E3779B97F4A7C15ULL + 1;
    m->now_ms = 1000000;
    core_init(&m->core);
    for (size_t g = 0; g < GROUPS; ++g) {
        core_group_init(&m->core, &m->groups[g]);
        for (unsigned n = 0; n < SLOTS; ++n)
            core_slot_init(&m->groups[g], &m->slots[g][n]);
        m->groups[g].max_queue = 5;
        m->groups[g].min_processes = 1;
    }
    m->core.max = 8;
    m->core.overlap = true;
    core_tick(&m->core, m->now_ms);
    return m;
}

static uint64_t number_of(const char *name, uint64_t deflt)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : deflt;
}

static void invariants_hold_over_random_sequences(void **state)
{
    uint64_t seed = number_of("RLB_SEED", 1);
    uint64_t steps = number_of("RLB_STEPS", STEPS);
    struct model *m = NULL;

    (void)state;
    print_message("RLB_SEED=%llu RLB_STEPS=%llu\n", (unsigned long long)seed,
                  (unsigned long long)steps);
    /* Several lives: in each the end must be reached, too. */
    for (uint64_t done = 0; done < steps; ++seed) {
        m = create(seed);
        for (uint64_t i = 0; i < 20000 && done < steps; ++i, ++done)
            step(m);
        settles(m);
        assert_true(steps < 20000 || (m->granted > 1000 && m->spawned > 100 && m->ended > 50 &&
                                      m->rejected > 10 && m->replaced > 10));
        free(m);
    }
}

/* ---- one decision at a time ---- */

/* Like the model, but nothing happens at random: what is spawned is ready at once. */
static struct model *create_calm(void)
{
    struct model *m = create(1);

    for (size_t g = 0; g < GROUPS; ++g)
        m->groups[g].min_processes = 0;
    return m;
}

/* A request for any process of group G, served at once. */
static void serve(struct model *m, size_t g)
{
    struct core_request *r = &m->requests[0];

    (void)core_request_process(&m->groups[g], NULL, r, m->now_ms);
    for (int i = 0; i < 4 && r->state != CORE_REQUEST_RUNNING; ++i) {
        carry_out(m);
        for (size_t k = 0; k < PROCESSES; ++k) {
            if (m->processes[k].used && m->processes[k].asked_to_end)
                bury(m, &m->processes[k]);
            else if (m->processes[k].used)
                core_ready(&m->processes[k].core, m->now_ms);
        }
    }
    assert_int_equal(r->state, CORE_REQUEST_RUNNING);
    core_leave(r, m->now_ms);
    carry_out(m);
    core_check(&m->core);
}

static void the_longest_idle_of_another_group_gives_way(void **state)
{
    struct model *m = create_calm();

    (void)state;
    m->core.max = 2;
    serve(m, 0);
    m->now_ms += 5000;
    for (int i = 0; i < 3; ++i)
        serve(m, 1);
    m->now_ms += 5000;
    /* Used lately, if seldom. */
    m->groups[0].traffic = 100;
    serve(m, 2);
    assert_int_equal(m->groups[0].nprocesses, 0);
    assert_int_equal(m->groups[1].nprocesses, 1);
    assert_int_equal(m->groups[2].nprocesses, 1);
    free(m);
}

static void the_process_with_less_traffic_gives_way_among_equally_idle_ones(void **state)
{
    struct model *m = create_calm();

    (void)state;
    m->core.max = 2;
    for (int i = 0; i < 5; ++i)
        serve(m, 0);
    serve(m, 1);
    serve(m, 2);
    assert_int_equal(m->groups[0].nprocesses, 1);
    assert_int_equal(m->groups[1].nprocesses, 0);
    free(m);
}

static void a_busy_group_takes_the_room_of_one_that_has_idled_for_long(void **state)
{
    struct model *m = create_calm();
    struct core_request *first = &m->requests[1];
    struct core_request *second = &m->requests[2];

    (void)state;
    m->now_ms = 1; /* soon after boot */
    m->core.max = 2;
    serve(m, 0);
    serve(m, 1);
    assert_int_equal(core_request_process(&m->groups[1], NULL, first, m->now_ms), CORE_GO_NOW);
    assert_int_equal(core_request_process(&m->groups[1], NULL, second, m->now_ms), CORE_WAIT);
    for (int seconds = 0; seconds < 8; ++seconds) {
        m->now_ms += 1000;
        core_tick(&m->core, m->now_ms);
        carry_out(m);
    }
    assert_int_equal(m->groups[0].nprocesses, 1);
    m->now_ms += 3000;
    core_tick(&m->core, m->now_ms);
    carry_out(m);
    assert_int_equal(m->groups[0].nprocesses, 0);
    calm(m);
    calm(m);
    assert_int_equal(m->groups[1].nprocesses, 2);
    core_leave(first, m->now_ms);
    core_leave(second, m->now_ms);
    free(m);
}

static void a_group_above_its_minimum_gives_way_before_one_that_is_not(void **state)
{
    struct model *m = create_calm();

    (void)state;
    m->core.max = 2;
    serve(m, 0);
    m->groups[0].min_processes = 1;
    m->now_ms += 60000;
    serve(m, 1);
    serve(m, 2);
    assert_int_equal(m->groups[0].nprocesses, 1);
    assert_int_equal(m->groups[1].nprocesses, 0);
    /* A request that waits is worth more than what is merely to be there, which comes back after.
     */
    m->groups[2].min_processes = 1;
    serve(m, 3);
    calm(m);
    calm(m);
    assert_int_equal(m->groups[3].nprocesses, 1);
    for (int i = 0; i < 12; ++i)
        calm(m);
    assert_int_equal(m->groups[0].nprocesses + m->groups[2].nprocesses, 2);
    free(m);
}

static void the_coldest_is_replaced_first_and_one_at_a_time(void **state)
{
    struct model *m = create_calm();
    struct core_group *g = &m->groups[0];
    struct core_action a;

    (void)state;
    m->core.max = 0;
    g->min_processes = 3;
    core_tick(&m->core, m->now_ms);
    calm(m);
    calm(m);
    assert_int_equal(g->nprocesses, 3);
    for (unsigned n = 0; n < 3; ++n)
        m->slots[0][n].process->warmth = n == 1 ? 1 : 5;
    ++g->generation;
    core_tick(&m->core, m->now_ms);
    while ((a = core_next(&m->core, m->now_ms)).what == CORE_REPORT)
        ;
    assert_int_equal(a.what, CORE_SPAWN);
    assert_ptr_equal(a.slot, &m->slots[0][1]);
    spawn(m, a.slot);
    carry_out(m);
    assert_int_equal(m->core.replacements, 1);
    assert_non_null(m->slots[0][1].replacement);
    free(m);
}

/* What there is becomes ready, or ends, until nothing changes. */
static void let_run(struct model *m)
{
    for (int i = 0; i < 8; ++i) {
        carry_out(m);
        for (size_t k = 0; k < PROCESSES; ++k) {
            if (m->processes[k].used && m->processes[k].asked_to_end)
                bury(m, &m->processes[k]);
            else if (m->processes[k].used)
                core_ready(&m->processes[k].core, m->now_ms);
        }
    }
    carry_out(m);
    core_check(&m->core);
}

static void set_one_shot(struct model *m, size_t g)
{
    m->groups[g].one_shot = true;
    ++m->groups[g].generation;
    core_tick(&m->core, m->now_ms);
}

static void with_one_shot_each_request_has_a_process_started_after_it_asked(void **state)
{
    struct model *m = create_calm();
    struct core_group *g = &m->groups[0];

    (void)state;
    /* Two have served, and are all that there may be. */
    m->core.max = 2;
    g->min_processes = 2;
    core_tick(&m->core, m->now_ms);
    let_run(m);
    assert_int_equal(g->nprocesses, 2);
    serve(m, 0);
    serve(m, 0);
    set_one_shot(m, 0);
    let_run(m);
    /* None waits with code that is about to be old. */
    assert_int_equal(g->nprocesses, 0);
    for (unsigned i = 0; i < 6; ++i) {
        struct core_request *r = &m->requests[0];
        uint64_t spawned = m->spawned;
        struct core_slot *s = i % 3 == 2 ? NULL : &m->slots[0][i % 2];

        assert_int_equal(core_request_process(g, s, r, m->now_ms), CORE_WAIT);
        let_run(m);
        assert_int_equal(r->state, CORE_REQUEST_RUNNING);
        assert_int_equal(m->spawned, spawned + 1);
        assert_true(r->process->served == 1 && r->process->born > r->order);
        core_leave(r, m->now_ms);
        let_run(m);
        assert_int_equal(g->nprocesses, 0);
    }
    free(m);
}

static void with_one_shot_all_that_wait_are_served_by_the_only_process_there_may_be(void **state)
{
    struct model *m = create_calm();

    (void)state;
    m->core.max = 1;
    serve(m, 0);
    set_one_shot(m, 0);
    for (unsigned i = 0; i < 5; ++i)
        assert_int_equal(core_request_process(&m->groups[0], i % 2 == 0 ? NULL : &m->slots[0][i],
                                              &m->requests[i], m->now_ms),
                         CORE_WAIT);
    for (unsigned served = 0; served < 5; ++served) {
        let_run(m);
        assert_int_equal(m->core.active, 1);
        for (unsigned i = 0; i < 5; ++i) {
            if (m->requests[i].state == CORE_REQUEST_RUNNING)
                core_leave(&m->requests[i], m->now_ms);
        }
    }
    let_run(m);
    assert_int_equal(m->core.count, 0);
    assert_int_equal(m->spawned, 6);
    free(m);
}

static void with_one_shot_a_connection_that_was_upgraded_is_not_waited_for(void **state)
{
    struct model *m = create_calm();
    struct core_request *upgraded = &m->requests[1];

    (void)state;
    set_one_shot(m, 0);
    (void)core_request_process(&m->groups[0], &m->slots[0][0], upgraded, m->now_ms);
    let_run(m);
    core_upgraded(upgraded, m->now_ms);
    (void)core_request_process(&m->groups[0], &m->slots[0][0], &m->requests[2], m->now_ms);
    let_run(m);
    assert_int_equal(m->requests[2].state, CORE_REQUEST_RUNNING);
    assert_int_equal(upgraded->state, CORE_REQUEST_RUNNING);
    free(m);
}

static void a_group_without_a_process_competes_for_the_next_one_that_becomes_idle(void **state)
{
    struct model *m = create_calm();
    struct core_request *r = m->requests;
    struct core_slot *third = &m->slots[2][0];

    (void)state;
    m->core.max = 2;
    for (size_t g = 0; g < 2; ++g) {
        (void)core_request_process(&m->groups[g], &m->slots[g][0], &r[g], m->now_ms);
        let_run(m);
        /* It has asked before the third group, and is served first. */
        assert_int_equal(core_request_process(&m->groups[g], &m->slots[g][0], &r[2 + g], m->now_ms),
                         CORE_WAIT);
    }
    assert_int_equal(core_request_process(&m->groups[2], third, &r[4], m->now_ms), CORE_WAIT);
    for (size_t g = 0; g < 2; ++g)
        assert_int_equal(core_request_process(&m->groups[g], &m->slots[g][0], &r[5 + g], m->now_ms),
                         CORE_WAIT);
    core_leave(&r[0], m->now_ms);
    let_run(m);
    assert_int_equal(r[2].state, CORE_REQUEST_RUNNING);
    assert_int_equal(r[4].state, CORE_REQUEST_WAITING);
    core_leave(&r[2], m->now_ms);
    let_run(m);
    assert_int_equal(r[4].state, CORE_REQUEST_RUNNING);
    assert_int_equal(m->groups[0].nprocesses, 0);
    /* One process has made room, which is enough. */
    core_leave(&r[1], m->now_ms);
    let_run(m);
    assert_int_equal(r[3].state, CORE_REQUEST_RUNNING);
    /* The first group competes in the regular order. */
    core_leave(&r[3], m->now_ms);
    let_run(m);
    assert_int_equal(r[5].state, CORE_REQUEST_RUNNING);
    core_leave(&r[4], m->now_ms);
    let_run(m);
    assert_int_equal(r[6].state, CORE_REQUEST_RUNNING);
    free(m);
}

static void a_later_request_does_not_overtake_a_group_without_a_process(void **state)
{
    struct model *m = create_calm();
    struct core_request *r = m->requests;

    (void)state;
    m->core.max = 1;
    assert_int_equal(core_request_process(&m->groups[0], NULL, &r[0], m->now_ms), CORE_WAIT);
    let_run(m);
    assert_int_equal(core_request_process(&m->groups[1], NULL, &r[1], m->now_ms), CORE_WAIT);
    carry_out(m);
    /* Both in one turn: there is no decision in between. */
    core_leave(&r[0], m->now_ms);
    assert_int_equal(core_request_process(&m->groups[0], NULL, &r[2], m->now_ms), CORE_WAIT);
    let_run(m);
    assert_int_equal(r[1].state, CORE_REQUEST_RUNNING);
    core_leave(&r[1], m->now_ms);
    let_run(m);
    assert_int_equal(r[2].state, CORE_REQUEST_RUNNING);
    free(m);
}

static void a_process_that_is_never_idle_makes_room_too(void **state)
{
    struct model *m = create_calm();
    struct core_request *r = m->requests;

    (void)state;
    m->core.max = 1;
    m->groups[0].concurrency = 2;
    serve(m, 0);
    for (int i = 0; i < 2; ++i)
        assert_int_equal(core_request_process(&m->groups[0], NULL, &r[i], m->now_ms), CORE_GO_NOW);
    (void)core_request_process(&m->groups[1], NULL, &r[2], m->now_ms);
    (void)core_request_process(&m->groups[0], NULL, &r[3], m->now_ms);
    core_leave(&r[0], m->now_ms);
    let_run(m);
    assert_int_equal(r[3].state, CORE_REQUEST_WAITING);
    assert_int_equal(r[1].state, CORE_REQUEST_RUNNING);
    core_leave(&r[1], m->now_ms);
    let_run(m);
    assert_int_equal(r[2].state, CORE_REQUEST_RUNNING);
    free(m);
}

static void under_light_load_the_others_idle_and_end(void **state)
{
    struct model *m = create_calm();
    struct core_group *g = &m->groups[0];

    (void)state;
    g->max_idle_ms = 10000;
    for (int i = 0; i < 3; ++i) {
        (void)core_request_process(g, &m->slots[0][i], &m->requests[i], m->now_ms);
        let_run(m);
    }
    assert_int_equal(g->nprocesses, 3);
    /* Slot 1 becomes idle last. */
    core_leave(&m->requests[0], m->now_ms);
    core_leave(&m->requests[2], m->now_ms);
    core_leave(&m->requests[1], m->now_ms);
    for (int seconds = 0; seconds < 12; ++seconds) {
        struct core_request *r = &m->requests[0];

        m->now_ms += 1000;
        assert_int_equal(core_request_process(g, NULL, r, m->now_ms), CORE_GO_NOW);
        assert_ptr_equal(r->process->slot, &m->slots[0][1]);
        core_leave(r, m->now_ms);
        core_tick(&m->core, m->now_ms);
        let_run(m);
    }
    assert_int_equal(g->nprocesses, 1);
    assert_non_null(m->slots[0][1].process);
    free(m);
}

static void in_a_burst_no_process_gets_more_than_max_requests(void **state)
{
    enum { MOST = 4, ALL = 50 };
    struct model *m = create_calm();
    struct core_group *g = &m->groups[0];
    unsigned done = 0;

    (void)state;
    g->max_requests = MOST;
    g->concurrency = 3;
    g->max_queue = ALL;
    g->max_processes = 2;
    for (unsigned i = 0; i < ALL; ++i)
        assert_int_not_equal(core_request_process(g, i % 2 == 0 ? NULL : &m->slots[0][0],
                                                  &m->requests[i], m->now_ms),
                             CORE_QUEUE_FULL);
    for (int rounds = 0; done < ALL; ++rounds) {
        assert_in_range(rounds, 0, ALL);
        let_run(m); /* asserts in granted() */
        for (unsigned i = 0; i < ALL; ++i) {
            if (m->requests[i].state != CORE_REQUEST_RUNNING)
                continue;
            core_leave(&m->requests[i], m->now_ms);
            ++done;
        }
    }
    assert_in_range(m->spawned, (ALL + MOST - 1) / MOST, ALL);
    free(m);
}

static void a_replacement_is_ready_before_max_requests_are_reached(void **state)
{
    struct model *m = create_calm();
    struct core_group *g = &m->groups[0];

    (void)state;
    g->max_requests = 100;
    for (int i = 0; i < 1000; ++i) {
        if (i > 0)
            assert_int_equal(core_request_process(g, NULL, &m->requests[1], m->now_ms),
                             CORE_GO_NOW);
        else
            serve(m, 0);
        core_leave(&m->requests[1], m->now_ms);
        let_run(m);
    }
    assert_in_range(m->spawned, 10, 12);
    free(m);
}

static void an_upgraded_connection_holds_its_process_but_no_place(void **state)
{
    struct model *m = create_calm();
    struct core_request *upgraded = &m->requests[1];

    (void)state;
    serve(m, 0);
    assert_int_equal(core_request_process(&m->groups[0], NULL, upgraded, m->now_ms), CORE_GO_NOW);
    core_upgraded(upgraded, m->now_ms);
    serve(m, 0);
    assert_int_equal(m->spawned, 1);
    struct core_process *p = upgraded->process;
    core_detach(p, CORE_REPLACED);
    carry_out(m);
    assert_int_equal(m->ended, 0);
    core_leave(upgraded, m->now_ms);
    carry_out(m);
    assert_int_equal(m->ended, 1);
    free(m);
}

/* Two requests at a time, however many connections the process has that were upgraded. */
static void upgraded_connections_leave_all_places_to_requests(void **state)
{
    struct model *m = create_calm();
    struct core_request *r = m->requests;

    (void)state;
    m->groups[0].concurrency = 2;
    m->groups[0].max_processes = 1;
    core_tick(&m->core, m->now_ms);
    serve(m, 0);
    for (unsigned i = 1; i <= 5; ++i) {
        assert_int_equal(core_request_process(&m->groups[0], NULL, &r[i], m->now_ms), CORE_GO_NOW);
        core_upgraded(&r[i], m->now_ms);
    }
    struct core_process *p = r[1].process;
    assert_int_equal(core_request_process(&m->groups[0], NULL, &r[6], m->now_ms), CORE_GO_NOW);
    assert_int_equal(core_request_process(&m->groups[0], NULL, &r[7], m->now_ms), CORE_GO_NOW);
    assert_int_equal(core_request_process(&m->groups[0], NULL, &r[8], m->now_ms), CORE_WAIT);
    assert_int_equal(p->sessions, 7);
    assert_int_equal(p->places, 2);
    /* The end of one that was upgraded makes no room, that of a request does. */
    core_leave(&r[1], m->now_ms);
    carry_out(m);
    assert_int_equal(r[8].state, CORE_REQUEST_WAITING);
    core_leave(&r[6], m->now_ms);
    carry_out(m);
    assert_int_equal(r[8].state, CORE_REQUEST_RUNNING);
    assert_int_equal(p->sessions, 6);
    core_check(&m->core);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invariants_hold_over_random_sequences),
        cmocka_unit_test(the_longest_idle_of_another_group_gives_way),
        cmocka_unit_test(the_process_with_less_traffic_gives_way_among_equally_idle_ones),
        cmocka_unit_test(a_busy_group_takes_the_room_of_one_that_has_idled_for_long),
        cmocka_unit_test(a_group_above_its_minimum_gives_way_before_one_that_is_not),
        cmocka_unit_test(the_coldest_is_replaced_first_and_one_at_a_time),
        cmocka_unit_test(with_one_shot_each_request_has_a_process_started_after_it_asked),
        cmocka_unit_test(with_one_shot_all_that_wait_are_served_by_the_only_process_there_may_be),
        cmocka_unit_test(with_one_shot_a_connection_that_was_upgraded_is_not_waited_for),
        cmocka_unit_test(a_group_without_a_process_competes_for_the_next_one_that_becomes_idle),
        cmocka_unit_test(a_later_request_does_not_overtake_a_group_without_a_process),
        cmocka_unit_test(a_process_that_is_never_idle_makes_room_too),
        cmocka_unit_test(under_light_load_the_others_idle_and_end),
        cmocka_unit_test(in_a_burst_no_process_gets_more_than_max_requests),
        cmocka_unit_test(a_replacement_is_ready_before_max_requests_are_reached),
        cmocka_unit_test(an_upgraded_connection_holds_its_process_but_no_place),
        cmocka_unit_test(upgraded_connections_leave_all_places_to_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
