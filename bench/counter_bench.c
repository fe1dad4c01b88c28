/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of a limit: acquire and release with few and many keys held at the same time;
 * memory per held key; the worst call while the table grows; a wake-up in a long queue.
 * counter_bench [KEYS [PAIRS]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/base/text.h"
#include "common/counters/counter.h"
#include "common/stats/topk.h"

enum { KEY_ROOM = 24, WARM = 1000, LINE = 100000 };

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

/* xorshift: its cost is negligible in the measurement. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    if (f == NULL || fscanf(f, "%*u %zu", &pages) != 1)
        abort();
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void expect(bool ok)
{
    if (!ok)
        abort();
}

static struct counter_request ask_for(char text[KEY_ROOM], uint64_t key, bool typed)
{
    int len = snprintf(text, KEY_ROOM, "page:%" PRIu64, key);
    struct counter_request ask = {
        .key = {text, (size_t)len}, .workers = 1, .maxqueue = 100, .timeout_ms = 1};

    if (typed)
        ask.type = counter_type_of(ask.key);
    return ask;
}

/* Acquires all KEYS; measures the worst single call and the growth of memory. */
static void grow(struct counter_table *t, struct counter_lease *locks, size_t keys, bool typed)
{
    size_t before = resident_bytes();
    uint64_t worst_ns = 0, worst_at = 0, sum_ns = 0;
    char text[KEY_ROOM];

    for (size_t i = 0; i < keys; ++i) {
        struct counter_request ask = ask_for(text, i, typed);
        uint64_t start = now_ns();

        expect(counter_acquire(t, &locks[i], &ask, i) == COUNTER_LOCKED);
        uint64_t took = now_ns() - start;
        sum_ns += took;
        if (took > worst_ns) {
            worst_ns = took;
            worst_at = i;
        }
    }
    double table = (double)(resident_bytes() - before) / (double)keys;
    printf("grow to %zu keys%s: %.0f ns per acquire, worst single call %.3f ms (at key %" PRIu64
           ")\n",
           keys, typed ? ", of one type" : "", (double)sum_ns / (double)keys,
           (double)worst_ns / 1e6, worst_at);
    printf("memory: %.1f bytes per held key in the table, and %zu of the lock: %.1f\n", table,
           sizeof(struct counter_lease), table + sizeof(struct counter_lease));
}

/* Acquire and release of random keys among as many that are held all the time. */
static void pairs(struct counter_table *t, size_t keys, uint64_t n)
{
    struct list woken = LIST_INIT(woken);
    struct counter_lease lock = {0};
    uint64_t random = 88172645463325252ULL, empty_ns = 0, start = now_ns();
    char text[KEY_ROOM];
    size_t sum = 0;

    for (uint64_t i = 0; i < n; ++i)
        sum += ask_for(text, next_random(&random) % keys, true).key.len;
    empty_ns = now_ns() - start;
    expect(sum > 0);
    for (int twice = 1; twice <= 2; ++twice) {
        start = now_ns();
        for (uint64_t i = 0; i < n; ++i) {
            uint64_t key = next_random(&random) % keys;
            struct counter_request ask = ask_for(text, twice == 1 ? key : key + keys, true);

            ask.workers = 2;
            expect(counter_acquire(t, &lock, &ask, i) == COUNTER_LOCKED);
            counter_release(t, &lock, i, &woken);
        }
        printf("%8zu keys held, %s: %6.1f ns per acquire + release\n", keys,
               twice == 1 ? "one of them      " : "a key made for it",
               (double)(now_ns() - start - empty_ns) / (double)n);
    }
}

static void bench_keys(size_t keys, uint64_t n)
{
    struct counter_table *t = counter_table_create(2 * keys + 1, 1);
    struct counter_lease *locks = xcalloc(keys, sizeof(*locks));
    struct list woken = LIST_INIT(woken);

    memset(locks, 1, keys * sizeof(*locks)); /* resident before the table grows */
    memset(locks, 0, keys * sizeof(*locks));
    if (keys > WARM)
        grow(t, locks, keys, true);
    for (size_t i = 0; i < keys; ++i) {
        char text[KEY_ROOM];
        struct counter_request ask = ask_for(text, i, true);

        if (locks[i].state == COUNTER_FREE)
            expect(counter_acquire(t, &locks[i], &ask, i) == COUNTER_LOCKED);
    }
    pairs(t, keys, n);
    for (size_t i = 0; i < keys; ++i)
        counter_leave(t, &locks[i], i, &woken);
    counter_table_destroy(t);
    free(locks);
}

/* One slot, and a queue of waiters with other keys: each release wakes the next. */
static void bench_line(void)
{
    struct counter_table *t = counter_table_create(LINE, LINE);
    struct counter_lease *locks = xcalloc(LINE, sizeof(*locks));
    struct list woken = LIST_INIT(woken);
    char text[KEY_ROOM];

    for (size_t i = 0; i < LINE; ++i) {
        struct counter_request ask = ask_for(text, i, true);

        ask.slots = 1;
        expect(counter_acquire(t, &locks[i], &ask, i) == (i == 0 ? COUNTER_LOCKED : COUNTER_WAIT));
    }
    uint64_t start = now_ns();
    for (size_t i = 0; i < LINE; ++i) {
        counter_release(t, &locks[i], i, &woken);
        expect((list_pop_front(&woken) != NULL) == (i + 1 < LINE));
    }
    printf("queue of %d waiters for a slot: %.1f ns per release that wakes the next\n", LINE,
           (double)(now_ns() - start) / LINE);
    counter_table_destroy(t);
    free(locks);
}

static void bench_top(uint64_t n)
{
    struct topk *top = topk_create(TOPK_ENTRIES, COUNTER_NAME_MAX);
    uint64_t random = 88172645463325252ULL, start = now_ns();
    char text[KEY_ROOM];

    for (uint64_t i = 0; i < n; ++i) {
        uint64_t key = next_random(&random) % 1000;

        topk_add(top, ask_for(text, key, false).key, random % 1000);
    }
    printf("1000 top keys: %.1f ns per wait added (including formatting the key)\n",
           (double)(now_ns() - start) / (double)n);
    topk_destroy(top);
}

static size_t argument(int argc, char **argv, int i, size_t deflt)
{
    uint64_t v = deflt;

    if (i < argc && (!parse_u64(slice_of(argv[i]), 100000000, &v) || v == 0)) {
        fprintf(stderr, "usage: counter_bench [KEYS [PAIRS]]\n");
        exit(2);
    }
    return v;
}

int main(int argc, char **argv)
{
    size_t keys = argument(argc, argv, 1, 1000000);
    size_t n = argument(argc, argv, 2, 2000000);

    bench_keys(keys, n); /* first: memory freed by earlier runs would hide its use of memory */
    bench_keys(1000, n);
    bench_keys(1, n);
    bench_line();
    bench_top(n);
    return 0;
}
