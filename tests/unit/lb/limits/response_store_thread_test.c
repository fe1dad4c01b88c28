/* SPDX-License-Identifier: Apache-2.0
 *
 * Many threads on one store, as loops use it, with too little memory for all; worth most under the
 * thread sanitizer. What one of them finds is whole, what it asked for, and stays so while it holds
 * it.
 */
#include "tests/unit/lb/limits/response_store_fixture.h"

#include <pthread.h>
#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STEPS = 1500 };
#else
enum { STEPS = 10000 };
#endif
enum { LOOPS = 5, TARGETS = 20, HELD = 2, BODY_MAX = 20000, TIGHT_BYTES = 200000 };

struct stage {
    struct stored_memory memory;
    struct response_store *store;
    atomic_uint_fast64_t clock_us;
    atomic_bool over;
    atomic_ulong made, given_up, found;
};

struct actor {
    struct stage *stage;
    uint64_t seed;
    pthread_t thread;
    struct stored_response *held[HELD];
};

/* xorshift64* */
static uint32_t below(struct actor *a, uint32_t n)
{
    a->seed ^= a->seed >> 12;
    a->seed ^= a->seed << 25;
    a->seed ^= a->seed >> 27;
    return (uint32_t)((a->seed * 0x2545F4914F6CDD1DULL) >> 32) % n;
}

static uint64_t now_us(struct actor *a)
{
    return atomic_fetch_add(&a->stage->clock_us, 1000);
}

/* A body is one letter, which goes by the target. */
static char letter_of(unsigned target)
{
    return (char)('a' + target);
}

static void check_body(const struct stored_response *c, char letter)
{
    struct slice body = stored_body(c);

    ASSERT(body.len != 0);
    for (size_t i = 0; i < body.len; ++i)
        ASSERT(body.p[i] == letter);
}

static void do_put(struct actor *a, unsigned target, const struct response_store_url *url)
{
    char bytes[BODY_MAX];
    size_t len = 1 + below(a, BODY_MAX);

    memset(bytes, letter_of(target), len);
    struct stored_response *c = make_by(response_store_begin(a->stage->store),
                                        &(struct made){.body = {bytes, len}, .at_us = now_us(a)});
    atomic_fetch_add(c != NULL ? &a->stage->made : &a->stage->given_up, 1);
    if (c != NULL)
        response_store_put(a->stage->store, url, &c, now_us(a));
}

static void do_find(struct actor *a, unsigned target, const struct response_store_url *url)
{
    struct stored_response **held = &a->held[below(a, HELD)];
    struct asked asked;
    struct stored_response *found;

    ask(&asked, "");
    if (below(a, 2) == 0) {
        uint64_t since_us = now_us(a);

        since_us -= since_us - NOW_US < SECOND_US ? 0 : SECOND_US;
        found =
            response_store_find_shared(a->stage->store, url, &asked.request, since_us, now_us(a));
    } else {
        found = response_store_find_stale(a->stage->store, url, &asked.request, &no_wish, 600,
                                          now_us(a));
    }
    if (found == NULL)
        return;
    atomic_fetch_add(&a->stage->found, 1);
    check_body(found, letter_of(target));
    if (*held != NULL)
        check_body(*held, stored_body(*held).p[0]);
    stored_put(*held);
    *held = found;
}

static void *act_loop(void *context)
{
    struct actor *a = context;

    for (unsigned i = 0; i < STEPS; ++i) {
        unsigned target = below(a, TARGETS);
        char text[16];

        snprintf(text, sizeof(text), "/%u", target);
        struct response_store_url url = url_of(text);
        uint32_t what = below(a, 20);
        if (what == 0)
            response_store_invalidate(a->stage->store, &url, now_us(a));
        else if (what < 8)
            do_put(a, target, &url);
        else
            do_find(a, target, &url);
        ASSERT(stored_memory_used(&a->stage->memory) <= TIGHT_BYTES);
    }
    for (unsigned i = 0; i < HELD; ++i)
        stored_put(a->held[i]);
    return NULL;
}

static void *act_onlooker(void *context)
{
    struct actor *a = context;
    struct response_store_stats s;

    while (!atomic_load(&a->stage->over)) {
        struct response_store_limits l = {below(a, TIGHT_BYTES), 1 + below(a, TARGETS),
                                          BODY_MAX * 2, 60};

        response_store_set_limits(a->stage->store, &l, now_us(a));
        response_store_read_stats(a->stage->store, &s);
        response_store_check(a->stage->store);
    }
    return NULL;
}

/* Whatever happened before, there is room for a stored response, and it is found. */
static void check_use(struct stage *stage)
{
    const struct response_store_limits limits = {TIGHT_BYTES, TARGETS, BODY_MAX * 2, 60};
    struct actor a = {.stage = stage, .seed = 1};
    unsigned long found = atomic_load(&stage->found);
    struct response_store_url url = url_of("/0");

    response_store_set_limits(stage->store, &limits, now_us(&a));
    do_put(&a, 0, &url);
    for (unsigned i = 0; i < HELD; ++i)
        do_find(&a, 0, &url);
    assert_int_equal(atomic_load(&stage->found), found + HELD);
    for (unsigned i = 0; i < HELD; ++i)
        stored_put(a.held[i]);
}

static void many_threads_leave_a_consistent_store_and_no_memory(void **state)
{
    static struct stage stage;
    struct actor actors[LOOPS + 1] = {0};
    struct response_store_limits limits = {TIGHT_BYTES, TARGETS, BODY_MAX * 2, 60};

    (void)state;
    atomic_store(&stage.clock_us, NOW_US);
    stored_memory_init(&stage.memory, TIGHT_BYTES);
    stage.store = response_store_create(&limits, &stage.memory);
    for (unsigned i = 0; i < ARRAY_LEN(actors); ++i) {
        actors[i].stage = &stage;
        actors[i].seed = 4711 + i;
        assert_int_equal(pthread_create(&actors[i].thread, NULL,
                                        i < LOOPS ? act_loop : act_onlooker, &actors[i]),
                         0);
    }
    for (unsigned i = 0; i < ARRAY_LEN(actors); ++i) {
        if (i == LOOPS)
            atomic_store(&stage.over, true);
        pthread_join(actors[i].thread, NULL);
    }
    check_use(&stage);
    response_store_check(stage.store);
    response_store_destroy(stage.store);
    assert_int_equal(stored_memory_used(&stage.memory), 0);
    print_message("%lu made, %lu given up, %lu found\n", atomic_load(&stage.made),
                  atomic_load(&stage.given_up), atomic_load(&stage.found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_leave_a_consistent_store_and_no_memory),
    };

    return cmocka_run_group_tests_name("response_store_thread", tests, NULL, NULL);
}
