/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of five keys and six waiters, and locks. The number of a lock is its index in `locks`.
 * Woken waiters are returned as text: "2 L" was granted its lock, "3 D" got DONE. All
 * invariants are checked at each call.
 */
#pragma once

#include "common/counters/counter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/text.h"
#include "tests/support/counter_check.h"

enum { LOCKS = 12, FIRST_US = 1000 };

static struct counter_table *table;
static struct counter_lease locks[LOCKS];
static struct list woken_list;
static uint64_t now_us;

static inline int with_table(void **state)
{
    (void)state;
    memset(locks, 0, sizeof(locks));
    list_init(&woken_list);
    now_us = FIRST_US;
    table = counter_table_create(5, 6);
    return table != NULL ? 0 : -1;
}

static inline int without_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < LOCKS; ++i) {
        if (locks[i].state != COUNTER_FREE)
            counter_leave(table, &locks[i], now_us, &woken_list);
        counter_check(table);
    }
    counter_table_destroy(table);
    return 0;
}

/* The type of a key is the part before its colon, if it has one. */
static inline struct counter_request ask_for(const char *key)
{
    struct slice type = counter_type_of(slice_of(key));

    return (struct counter_request){.key = slice_of(key),
                                    .type = type.len < strlen(key) ? type : SLICE_NULL,
                                    .kind = COUNTER_ME,
                                    .workers = 1,
                                    .maxqueue = 100,
                                    .timeout_ms = 1};
}

static inline enum counter_result acquire(size_t i, struct counter_request ask)
{
    enum counter_result response = counter_acquire(table, &locks[i], &ask, ++now_us);

    counter_check(table);
    return response;
}

static inline enum counter_result me(size_t i, const char *key, uint32_t workers)
{
    struct counter_request ask = ask_for(key);

    ask.workers = workers;
    return acquire(i, ask);
}

static inline enum counter_result any(size_t i, const char *key, uint32_t workers)
{
    struct counter_request ask = ask_for(key);

    ask.workers = workers;
    ask.kind = COUNTER_ANY;
    return acquire(i, ask);
}

static inline enum counter_result slots(size_t i, const char *key, uint32_t workers, uint32_t n)
{
    struct counter_request ask = ask_for(key);

    ask.workers = workers;
    ask.slots = n;
    return acquire(i, ask);
}

static inline const char *woken(void)
{
    static char text[LOCKS * 8];
    struct list *node = NULL;
    size_t len = 0;

    text[0] = '\0';
    counter_check(table);
    while ((node = list_pop_front(&woken_list)) != NULL) {
        const struct counter_lease *lock = list_entry(node, struct counter_lease, in_key);

        assert_int_equal(lock->state, lock->woken == COUNTER_LOCKED ? COUNTER_HELD : COUNTER_FREE);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%zu %c", len != 0 ? ", " : "",
                                (size_t)(lock - locks), lock->woken == COUNTER_LOCKED ? 'L' : 'D');
    }
    return text;
}

static inline const char *release(size_t i)
{
    counter_release(table, &locks[i], ++now_us, &woken_list);
    assert_int_equal(locks[i].state, COUNTER_FREE);
    return woken();
}

static inline const char *leave(size_t i)
{
    counter_leave(table, &locks[i], ++now_us, &woken_list);
    assert_int_equal(locks[i].state, COUNTER_FREE);
    return woken();
}

static inline const char *limit(const char *type, uint32_t workers, uint32_t n)
{
    struct counter_limits limits = {workers, n};

    assert_int_equal(counter_set_limits(table, slice_of(type), limits, ++now_us, &woken_list),
                     ERR_OK);
    return woken();
}

static inline const struct counter_stats *stats(void)
{
    return counter_stats(table);
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, with_table, without_table)
