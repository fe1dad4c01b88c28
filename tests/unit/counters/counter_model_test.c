/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of counters beside a plain model of its rules, through long random sequences in virtual
 * time. The model has one array of locks and looks through all of it for everything. After every
 * step both have woken the same locks in the same order, with equal states and sums; and what must
 * always hold is checked of the model, so that both cannot be wrong together. RLB_STEPS sets how
 * many steps, RLB_SEED which; both are printed.
 */
#include "common/counters/counter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "tests/support/counter_check.h"

enum {
    LOCKS = 256,
    KEYS = 64,
    TYPES = 4, /* type 0 is none */
    NONE = 0,
    STEPS = 2000000,
    STEPS_PER_RUN = 4000,
    CHECKED = 64, /* with more locks than that, counter_check runs only every few steps */
};

struct model_lock {
    enum counter_state state;
    enum counter_kind kind;
    unsigned key;
    uint32_t workers, slots;
    uint64_t since_us, order;
};

struct model {
    struct counter_table *table;
    struct counter_lease real[LOCKS];
    struct model_lock locks[LOCKS];
    unsigned type_of[KEYS]; /* while the key lives */
    struct counter_limits limits[TYPES];
    size_t held_of_key[KEYS], held_of_type[TYPES], locks_of_key[KEYS];
    struct counter_stats stats;
    unsigned woken[LOCKS], nwoken;
    enum counter_result responses[LOCKS];
    uint64_t now_us, random, order, steps;
    /* of this run */
    unsigned nlocks, nkeys, ntypes;
    uint32_t workers_max, slots_max, maxqueue_max;
    size_t max_keys, max_waiters;
    bool mixed, live;
    /* what was reached, of all runs */
    uint64_t overtaken, from_line, not_replaced, raised, other_type;
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

/* ---- the rules, plainly ---- */

static void count(struct model *m)
{
    memset(m->held_of_key, 0, sizeof(m->held_of_key));
    memset(m->held_of_type, 0, sizeof(m->held_of_type));
    memset(m->locks_of_key, 0, sizeof(m->locks_of_key));
    for (unsigned i = 0; i < m->nlocks; ++i) {
        const struct model_lock *l = &m->locks[i];

        if (l->state == COUNTER_FREE)
            continue;
        ++m->locks_of_key[l->key];
        if (l->state != COUNTER_HELD)
            continue;
        ++m->held_of_key[l->key];
        ++m->held_of_type[m->type_of[l->key]];
    }
}

static bool under(size_t held, uint32_t limit)
{
    return limit == 0 || held < limit;
}

static bool key_room(const struct model *m, const struct model_lock *l)
{
    size_t held = m->held_of_key[l->key];
    unsigned type = m->type_of[l->key];

    return held < l->workers && (type == NONE || under(held, m->limits[type].workers));
}

static bool type_room(const struct model *m, const struct model_lock *l)
{
    unsigned type = m->type_of[l->key];
    size_t held = m->held_of_type[type];

    return type == NONE || (under(held, l->slots) && under(held, m->limits[type].slots));
}

static void wake(struct model *m, unsigned i, enum counter_result response)
{
    struct model_lock *l = &m->locks[i];
    uint64_t waited_us = m->now_us - l->since_us;

    m->woken[m->nwoken] = i;
    m->responses[m->nwoken++] = response;
    --m->stats.waiting;
    if (response == COUNTER_DONE) {
        l->state = COUNTER_FREE;
        ++m->stats.done;
        m->stats.waited_good_us += waited_us;
    } else {
        l->state = COUNTER_HELD;
        l->since_us = m->now_us;
        l->order = ++m->order;
        ++m->stats.held;
        ++m->stats.acquired;
        *(l->kind == COUNTER_ME ? &m->stats.waited_me_us : &m->stats.waited_any_us) += waited_us;
    }
    count(m);
}

/* The oldest waiter: of KEY and KIND when TYPE is NONE; else of TYPE, with room at its key. */
static int oldest(const struct model *m, unsigned key, enum counter_kind kind, unsigned type)
{
    int found = -1;

    for (unsigned i = 0; i < m->nlocks; ++i) {
        const struct model_lock *l = &m->locks[i];

        if (l->state != COUNTER_WAITING)
            continue;
        if (type == NONE ? (l->key != key || l->kind != kind)
                         : (m->type_of[l->key] != type || !key_room(m, l)))
            continue;
        if (found < 0 || l->order < m->locks[found].order)
            found = (int)i;
    }
    return found;
}

static void hand_over(struct model *m, unsigned key, bool to_any)
{
    unsigned type = m->type_of[key];
    int next = oldest(m, key, COUNTER_ME, NONE);

    if (next < 0 && to_any)
        next = oldest(m, key, COUNTER_ANY, NONE);
    if (type != NONE && !under(m->held_of_type[type], m->limits[type].slots)) {
        m->not_replaced += next >= 0;
        return;
    }
    if (type != NONE && !under(m->held_of_key[key], m->limits[type].workers)) {
        m->not_replaced += next >= 0;
        next = -1;
    }
    if (next < 0 && type != NONE) {
        next = oldest(m, 0, COUNTER_ME, type);
        m->from_line += next >= 0;
    }
    if (next >= 0)
        wake(m, (unsigned)next, COUNTER_LOCKED);
}

static void end(struct model *m, unsigned i, bool done)
{
    struct model_lock *l = &m->locks[i];
    bool held = l->state == COUNTER_HELD;
    uint64_t held_us = held ? m->now_us - l->since_us : 0;
    int any = -1;

    l->state = COUNTER_FREE;
    count(m);
    m->stats.released += done;
    if (held) {
        --m->stats.held;
        ++m->stats.processed;
        m->stats.processing_us += held_us;
    } else {
        --m->stats.waiting;
        ++m->stats.given_up;
    }
    while (done && (any = oldest(m, l->key, COUNTER_ANY, NONE)) >= 0) {
        m->stats.gained_us += held_us;
        wake(m, (unsigned)any, COUNTER_DONE);
    }
    if (held)
        hand_over(m, l->key, !done);
}

static enum counter_result ask(struct model *m, unsigned i, const struct counter_request *a,
                               unsigned key, unsigned type)
{
    struct model_lock *l = &m->locks[i];
    bool lives = m->locks_of_key[key] > 0;

    if (m->locks_of_key[key] >= a->maxqueue) {
        ++m->stats.full;
        return COUNTER_QUEUE_FULL;
    }
    m->other_type += lives && type != m->type_of[key];
    if (!lives)
        m->type_of[key] = type;
    *l = (struct model_lock){.kind = a->kind, .key = key, .workers = a->workers, .slots = a->slots};
    bool room = key_room(m, l) && type_room(m, l);
    if (!room && a->timeout_ms == 0) {
        ++m->stats.timeouts_at_once;
        return COUNTER_TIMEOUT;
    }
    if ((!room && m->stats.waiting == m->max_waiters) || (!lives && m->stats.keys == m->max_keys)) {
        ++m->stats.no_room;
        return COUNTER_NO_ROOM;
    }
    l->since_us = m->now_us;
    l->order = ++m->order;
    l->state = room ? COUNTER_HELD : COUNTER_WAITING;
    ++*(room ? &m->stats.held : &m->stats.waiting);
    m->stats.acquired += room;
    for (unsigned j = 0; room && j < m->nlocks; ++j)
        m->overtaken += m->locks[j].state == COUNTER_WAITING && m->locks[j].key == key;
    return room ? COUNTER_LOCKED : COUNTER_WAIT;
}

static void set_limits(struct model *m, unsigned type, struct counter_limits limits)
{
    bool more = true;

    m->limits[type] = limits;
    while (more) {
        int found = -1;

        for (unsigned i = 0; i < m->nlocks; ++i) {
            const struct model_lock *l = &m->locks[i];

            if (l->state == COUNTER_WAITING && m->type_of[l->key] == type && key_room(m, l) &&
                type_room(m, l) && (found < 0 || l->order < m->locks[found].order))
                found = (int)i;
        }
        more = found >= 0;
        m->raised += more;
        if (more)
            wake(m, (unsigned)found, COUNTER_LOCKED);
    }
}

/* ---- both do the same ---- */

static struct slice key_bytes(char bytes[2], unsigned key)
{
    /* One is empty, seven are a byte (one of them zero), the others two. */
    bytes[0] = (char)(key < 8 ? key - 1 : key / 8);
    bytes[1] = (char)(key % 8);
    return (struct slice){bytes, key == 0 ? 0 : key < 8 ? 1 : 2};
}

static struct slice type_bytes(unsigned type)
{
    static const char names[TYPES][2] = {"", "a", "b", "c"};

    return (struct slice){names[type], type == NONE ? 0 : 1};
}

static uint32_t some_limit(struct model *m, uint32_t max)
{
    return m->mixed ? 1 + below(m, max) : max;
}

static void both_ask(struct model *m, unsigned i)
{
    char bytes[2];
    unsigned key = below(m, m->nkeys);
    unsigned type = below(m, 50) == 0 ? below(m, m->ntypes) : key % m->ntypes;
    struct counter_request a = {.key = key_bytes(bytes, key), .type = type_bytes(type)};

    a.kind = below(m, 2) == 0 ? COUNTER_ME : COUNTER_ANY;
    a.workers = some_limit(m, m->workers_max);
    a.maxqueue = some_limit(m, m->maxqueue_max);
    if (m->slots_max != 0 && !(m->mixed && below(m, 4) == 0))
        a.slots = some_limit(m, m->slots_max);
    a.timeout_ms = below(m, 8);

    enum counter_result expected = ask(m, i, &a, key, type);
    assert_int_equal(counter_acquire(m->table, &m->real[i], &a, m->now_us), expected);
}

static void both_limit(struct model *m, struct list *woken)
{
    unsigned type = 1 + below(m, m->ntypes - 1);
    struct counter_limits limits = {0};

    if (below(m, 3) != 0) {
        limits.workers = below(m, m->workers_max + 2);
        limits.slots = below(m, 2 * m->workers_max + 2);
    }
    set_limits(m, type, limits);
    assert_int_equal(counter_set_limits(m->table, type_bytes(type), limits, m->now_us, woken),
                     ERR_OK);
}

static void both_end(struct model *m, unsigned i, struct list *woken)
{
    unsigned what = below(m, 8);

    if (m->locks[i].state == COUNTER_WAITING && what < 4) {
        m->locks[i].state = COUNTER_FREE;
        --m->stats.waiting;
        ++m->stats.timeouts;
        m->stats.wasted_us += m->now_us - m->locks[i].since_us;
        counter_expire(m->table, &m->real[i], m->now_us);
    } else if (what % 2 == 0) {
        end(m, i, true);
        counter_release(m->table, &m->real[i], m->now_us, woken);
    } else {
        end(m, i, false);
        counter_leave(m->table, &m->real[i], m->now_us, woken);
    }
}

/* ---- what must hold ---- */

static void compare_woken(struct model *m, struct list *woken)
{
    for (unsigned n = 0; n < m->nwoken; ++n) {
        struct counter_lease *lock = &m->real[m->woken[n]];

        assert_ptr_equal(woken->next, &lock->in_key);
        list_remove(&lock->in_key);
        assert_int_equal(lock->woken, m->responses[n]);
    }
    assert_true(list_empty(woken));
}

static void compare(struct model *m)
{
    const struct counter_lease *first = NULL;
    char bytes[2];

    m->stats.keys = 0;
    for (unsigned key = 0; key < m->nkeys; ++key)
        m->stats.keys += m->locks_of_key[key] > 0;
    assert_memory_equal(counter_stats(m->table), &m->stats, sizeof(m->stats));
    for (unsigned i = 0; i < m->nlocks; ++i) {
        const struct counter_lease *lock = &m->real[i];
        const struct model_lock *l = &m->locks[i];

        assert_int_equal(lock->state, l->state);
        if (l->state == COUNTER_FREE)
            continue;
        struct slice key = counter_key_of(lock);
        assert_true(slice_eq(key, key_bytes(bytes, l->key)));
        assert_int_equal(lock->since_us, l->since_us);
        if (l->state == COUNTER_HELD &&
            (first == NULL || l->order < m->locks[first - m->real].order))
            first = lock;
    }
    assert_ptr_equal(counter_oldest(m->table), first);
}

/* Said of the model alone, in other words than its rules. */
static void check_promises(struct model *m)
{
    for (unsigned i = 0; i < m->nlocks; ++i) {
        const struct model_lock *l = &m->locks[i];

        /* No lost wake-up. */
        if (l->state == COUNTER_WAITING)
            assert_false(key_room(m, l) && type_room(m, l));
    }
    if (m->mixed)
        return;
    for (unsigned key = 0; key < m->nkeys; ++key)
        assert_true(m->held_of_key[key] <= m->workers_max);
    for (unsigned type = 1; type < m->ntypes; ++type)
        assert_true(under(m->held_of_type[type], m->slots_max == 0 ? 0 : m->slots_max + 1));
    /* First come, first served: no older waiter of its kind is left behind a granted one. */
    for (unsigned n = 0; n < m->nwoken; ++n) {
        const struct model_lock *woken = &m->locks[m->woken[n]];

        for (unsigned i = 0; m->responses[n] == COUNTER_LOCKED && i < m->nlocks; ++i) {
            const struct counter_lease *other = &m->real[i];

            assert_false(other->state == COUNTER_WAITING && m->locks[i].key == woken->key &&
                         m->locks[i].kind == woken->kind &&
                         other->order < m->real[m->woken[n]].order);
        }
    }
}

static void step(struct model *m)
{
    struct list woken = LIST_INIT(woken);
    unsigned i = below(m, m->nlocks);

    m->nwoken = 0;
    m->now_us += below(m, 4) == 0 ? 0 : below(m, 2000);
    if (m->live && m->ntypes > 1 && below(m, 20) == 0)
        both_limit(m, &woken);
    else if (m->locks[i].state == COUNTER_FREE)
        both_ask(m, i);
    else
        both_end(m, i, &woken);
    count(m);
    compare_woken(m, &woken);
    compare(m);
    check_promises(m);
    if (m->nlocks <= CHECKED || m->steps % CHECKED == 0)
        counter_check(m->table);
    ++m->steps;
}

/* ---- runs ---- */

static void start(struct model *m, uint64_t seed)
{
    m->random = seed * 0x9E3779B97F4A7C15ULL + 1;
    m->nlocks = 4 + below(m, below(m, 8) == 0 ? LOCKS - 4 : 40);
    m->nkeys = 1 + below(m, below(m, 4) == 0 ? KEYS : 8);
    m->ntypes = 1 + below(m, TYPES);
    m->workers_max = 1 + below(m, 6);
    m->slots_max = below(m, 12);
    m->maxqueue_max = 1 + below(m, below(m, 2) == 0 ? 8 : LOCKS);
    m->max_keys = below(m, 4) == 0 ? 1 + below(m, 6) : KEYS;
    m->max_waiters = below(m, 4) == 0 ? 1 + below(m, 6) : LOCKS;
    m->mixed = below(m, 2) == 0;
    m->live = below(m, 2) == 0;
    memset(&m->stats, 0, sizeof(m->stats));
    memset(m->limits, 0, sizeof(m->limits));
    m->table = counter_table_create(m->max_keys, m->max_waiters);
    count(m);
}

static void finish(struct model *m)
{
    struct list woken = LIST_INIT(woken);

    while (m->stats.held + m->stats.waiting > 0) {
        unsigned i = 0;

        while (m->locks[i].state == COUNTER_FREE)
            ++i;
        m->nwoken = 0;
        end(m, i, false);
        counter_leave(m->table, &m->real[i], m->now_us, &woken);
        compare_woken(m, &woken);
    }
    count(m);
    compare(m);
    counter_check(m->table);
    counter_table_destroy(m->table);
}

static uint64_t number_of(const char *name, uint64_t deflt)
{
    uint64_t v = deflt;
    const char *text = getenv(name);

    if (text != NULL)
        assert_true(parse_u64(slice_of(text), UINT64_MAX / 2, &v));
    return v;
}

static void a_table_wakes_and_counts_as_a_plain_model_of_its_rules_does(void **state)
{
    uint64_t seed = number_of("RLB_SEED", 1);
    uint64_t steps = number_of("RLB_STEPS", STEPS);
    struct model *m = test_calloc(1, sizeof(*m));

    (void)state;
    print_message("RLB_SEED=%llu RLB_STEPS=%llu\n", (unsigned long long)seed,
                  (unsigned long long)steps);
    for (; m->steps < steps; ++seed) {
        start(m, seed);
        for (unsigned i = 0; i < STEPS_PER_RUN && m->steps < steps; ++i)
            step(m);
        finish(m);
    }
    print_message("overtaken %llu, from the line %llu, not replaced %llu, raised %llu, of another "
                  "type %llu\n",
                  (unsigned long long)m->overtaken, (unsigned long long)m->from_line,
                  (unsigned long long)m->not_replaced, (unsigned long long)m->raised,
                  (unsigned long long)m->other_type);
    assert_true(steps < STEPS || (m->overtaken > 100 && m->from_line > 100 &&
                                  m->not_replaced > 100 && m->raised > 100 && m->other_type > 100));
    test_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_wakes_and_counts_as_a_plain_model_of_its_rules_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
