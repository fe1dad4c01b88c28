/* SPDX-License-Identifier: Apache-2.0
 *
 * Which group gets the next process, one decision at a time: three groups of two slots each, with
 * processes that carry out each decision at once.
 */
#include "tests/support/pool_core_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { GROUPS = 3, SLOTS = 2, PROCESSES = 20, REQUESTS = 5, NOW_MS = 1000000 };

struct turns_pool {
    struct core core;
    struct core_group groups[GROUPS];
    struct core_slot slots[GROUPS][SLOTS];
    struct core_process processes[PROCESSES];
    struct core_request requests[REQUESTS];
    unsigned spawned, ended;
    struct core_group *last; /* the last group that got a process */
};

static void carry_out(struct turns_pool *p)
{
    struct core_action a;

    while ((a = core_next(&p->core, NOW_MS)).what != CORE_NOTHING) {
        if (a.what == CORE_SPAWN) {
            assert_in_range(p->spawned, 0, PROCESSES - 1);
            p->last = a.slot->group;
            core_enter(a.slot, &p->processes[p->spawned++], NOW_MS);
        } else if (a.what == CORE_END) {
            ++p->ended;
            core_exited(a.process);
        }
    }
    core_check(&p->core);
}

static void all_ready(struct turns_pool *p)
{
    for (unsigned i = 0; i < p->spawned; ++i) {
        if (p->processes[i].slot != NULL)
            core_ready(&p->processes[i], NOW_MS);
    }
}

/* Every slot has a process that is ready. */
static struct turns_pool *create(void)
{
    struct turns_pool *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    core_init(&p->core);
    for (size_t g = 0; g < GROUPS; ++g) {
        core_group_init(&p->core, &p->groups[g]);
        for (unsigned n = 0; n < SLOTS; ++n)
            core_slot_init(&p->groups[g], &p->slots[g][n]);
        p->groups[g].max_queue = REQUESTS;
        p->groups[g].min_processes = SLOTS;
        p->groups[g].queue = CORE_QUEUE_GLOBAL;
    }
    p->core.max = GROUPS * SLOTS;
    p->core.overlap = true;
    core_tick(&p->core, NOW_MS);
    carry_out(p);
    all_ready(p);
    carry_out(p);
    assert_int_equal(p->spawned, GROUPS * SLOTS);
    return p;
}

static void groups_take_turns_at_being_replaced_where_there_is_room_for_one(void **state)
{
    struct turns_pool *p = create();

    (void)state;
    for (size_t g = 0; g < GROUPS; ++g)
        ++p->groups[g].generation;
    core_tick(&p->core, NOW_MS);
    for (size_t turn = 0; turn < (size_t)GROUPS * SLOTS; ++turn) {
        carry_out(p);
        assert_int_equal(p->core.replacements, 1);
        assert_ptr_equal(p->last, &p->groups[turn % GROUPS]);
        all_ready(p);
    }
    carry_out(p);
    assert_int_equal(p->core.replacements, 0);
    assert_int_equal(p->ended, GROUPS * SLOTS);
    assert_true(list_empty(&p->core.replaces));
    free(p);
}

static void a_lowered_maximum_takes_the_next_free_one_although_requests_wait(void **state)
{
    struct turns_pool *p = create();
    struct core_request *r = p->requests;

    (void)state;
    /* The idle processes of the other groups end first; then none is idle. */
    for (size_t g = 0; g < GROUPS; ++g)
        p->groups[g].min_processes = 0;
    for (int i = 0; i < REQUESTS; ++i)
        assert_int_equal(core_request_process(&p->groups[0], NULL, &r[i], NOW_MS),
                         i < SLOTS ? CORE_GO_NOW : CORE_WAIT);
    p->core.max = 1;
    core_tick(&p->core, NOW_MS);
    carry_out(p);
    assert_int_equal(p->ended, 4);
    assert_int_equal(p->groups[0].nprocesses, 2);
    core_leave(&r[0], NOW_MS);
    carry_out(p);
    assert_int_equal(p->ended, 5);
    assert_int_equal(p->groups[0].nprocesses, 1);
    assert_int_equal(r[2].state, CORE_REQUEST_WAITING);
    core_leave(&r[1], NOW_MS);
    carry_out(p);
    assert_int_equal(p->ended, 5);
    assert_int_equal(r[2].state, CORE_REQUEST_RUNNING);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_take_turns_at_being_replaced_where_there_is_room_for_one),
        cmocka_unit_test(a_lowered_maximum_takes_the_next_free_one_although_requests_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
