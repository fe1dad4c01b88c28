/* SPDX-License-Identifier: Apache-2.0
 *
 * The store against a naive model of it: an array that is searched from end to end. Random calls,
 * from seeds that are printed; after each one, what was found, what is kept, what it costs and what
 * went must be the same.
 */
#include "tests/unit/lb/limits/response_store_fixture.h"

#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SEEDS = 6 };
#else
enum { SEEDS = 40 };
#endif
enum {
    STEPS = 3000,
    TARGETS = 8,
    VARIANTS = 20, /* more than a URL may have; 0: without Vary */
    ENTRIES_MAX = 256,
    HELD_MAX = 10,
    BODY_MAX = 3000,
};

struct entry {
    struct stored_response *stored; /* borrowed from the store; one of HELD too, maybe */
    unsigned target, variant;
    size_t cost, bytes;
    uint64_t made_us, put_us, used;
};

struct held {
    struct stored_response *stored;
    size_t bytes;
};

struct model {
    struct stored_memory memory;
    struct response_store *store;
    struct response_store_limits limits;
    struct response_store_stats stats; /* as they should be */
    struct entry entries[ENTRIES_MAX];
    size_t n;
    struct held held[HELD_MAX];
    uint64_t invalidated_us[TARGETS];
    uint64_t last_invalidated_us;
    uint64_t now_us, uses, step;
    uint64_t seed;
};

/* xorshift64* */
static uint32_t below(struct model *m, uint32_t n)
{
    m->seed ^= m->seed >> 12;
    m->seed ^= m->seed << 25;
    m->seed ^= m->seed >> 27;
    return (uint32_t)((m->seed * 0x2545F4914F6CDD1DULL) >> 32) % n;
}

/* One more often than the others, so that it has more variants than it may. */
static unsigned some_target(struct model *m)
{
    return below(m, 2) == 0 ? 0 : below(m, TARGETS);
}

static const char *target_text(unsigned target, char text[16])
{
    snprintf(text, 16, "/%0*u", (int)target % 3 + 1, target);
    return text;
}

static const char *request_text(unsigned variant, char text[24])
{
    snprintf(text, 24, "Accept: %u", variant);
    return text;
}

/* ---- the model's rules ---- */

static void drop(struct model *m, size_t i)
{
    m->stats.bytes -= m->entries[i].cost;
    --m->stats.responses;
    m->entries[i] = m->entries[--m->n];
}

static size_t least_used(const struct model *m, unsigned target)
{
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < m->n; ++i) {
        if (target != TARGETS && m->entries[i].target != target)
            continue;
        if (best == SIZE_MAX || m->entries[i].used < m->entries[best].used)
            best = i;
    }
    return best;
}

static void model_expire(struct model *m)
{
    for (size_t i = 0; i < m->n;) {
        if ((m->now_us - m->entries[i].put_us) / SECOND_US > m->limits.max_age_s) {
            ++m->stats.expired;
            drop(m, i);
        } else {
            ++i;
        }
    }
}

static void model_fit(struct model *m, size_t cost, size_t added)
{
    while (m->n != 0 && (m->stats.bytes + cost > m->limits.max_bytes ||
                         m->stats.responses + added > m->limits.max_responses)) {
        ++m->stats.evictions;
        drop(m, least_used(m, TARGETS));
    }
}

/* Whether E has its place now. */
static bool model_put(struct model *m, struct entry e)
{
    size_t of_target = 0;
    size_t same = SIZE_MAX;

    model_expire(m);
    for (size_t i = 0; i < m->n; ++i) {
        of_target += m->entries[i].target == e.target;
        if (m->entries[i].target == e.target && m->entries[i].variant == e.variant)
            same = i;
    }
    if (e.cost > m->limits.max_bytes || e.bytes > m->limits.max_response_bytes ||
        m->limits.max_responses == 0 || e.made_us <= m->invalidated_us[e.target] ||
        (same != SIZE_MAX && m->entries[same].made_us > e.made_us)) {
        ++m->stats.rejected;
        return false;
    }
    if (same != SIZE_MAX) {
        drop(m, same);
    } else if (of_target == RESPONSE_STORE_VARIANTS_MAX) {
        ++m->stats.evictions;
        drop(m, least_used(m, e.target));
    }
    model_fit(m, e.cost, 1);
    assert_true(m->n < ENTRIES_MAX);
    e.used = ++m->uses;
    m->entries[m->n++] = e;
    m->stats.bytes += e.cost;
    ++m->stats.responses;
    ++m->stats.stored;
    return true;
}

static struct entry *model_newest(struct model *m, unsigned target, unsigned variant)
{
    struct entry *best = NULL;

    for (size_t i = 0; i < m->n; ++i) {
        struct entry *e = &m->entries[i];

        if (e->target == target && (e->variant == 0 || e->variant == variant) &&
            (best == NULL || e->made_us > best->made_us))
            best = e;
    }
    return best;
}

/* ---- one call to both ---- */

/* Often later than all that has happened; else a response that took long. */
static uint64_t choose_made(struct model *m, unsigned target)
{
    uint64_t late_us = m->now_us - below(m, 30) * SECOND_US + m->step;

    /* URLs may share the moment of their invalidation; the model knows nothing of that. */
    bool known = late_us > m->last_invalidated_us || late_us <= m->invalidated_us[target];
    return known && below(m, 3) == 0 ? late_us : m->now_us + m->step;
}

static void do_put(struct model *m)
{
    static const char bytes[BODY_MAX];
    struct entry e = {.target = some_target(m), .variant = below(m, VARIANTS)};
    char target[16];
    char request[24];
    struct response_store_url url = url_of(target_text(e.target, target));

    e.made_us = choose_made(m, e.target);
    e.put_us = m->now_us;
    struct stored_response *c =
        make_by(response_store_begin(m->store),
                &(struct made){.fields = e.variant != 0 ? "Vary: Accept\r\n" : NULL,
                               .request = request_text(e.variant, request),
                               .body = {bytes, below(m, BODY_MAX)},
                               .at_us = e.made_us});
    if (c == NULL)
        return; /* over the limit of one */
    e.stored = c;
    e.bytes = stored_bytes(c);
    e.cost = e.bytes + strlen("http://a.example") + strlen(target) + RESPONSE_STORE_ENTRY_BYTES;
    (void)model_put(m, e);
    response_store_put(m->store, &url, &c, m->now_us);
}

static void hold(struct model *m, struct stored_response *found)
{
    struct held *h = &m->held[below(m, HELD_MAX)];

    stored_put(h->stored);
    *h = (struct held){found, found != NULL ? stored_bytes(found) : 0};
}

static void do_find(struct model *m)
{
    unsigned target = some_target(m);
    unsigned variant = 1 + below(m, VARIANTS - 1);
    uint64_t since_us = m->now_us - below(m, 60) * SECOND_US;
    uint64_t max_age_s = below(m, 100);
    bool stale = below(m, 2) == 0;
    char text[16];
    char field[24];
    struct asked a;

    ask(&a, request_text(variant, field));
    struct response_store_url url = url_of(target_text(target, text));
    struct stored_response *found =
        stale
            ? response_store_find_stale(m->store, &url, &a.request, &no_wish, max_age_s, m->now_us)
            : response_store_find_shared(m->store, &url, &a.request, since_us, m->now_us);
    model_expire(m);
    struct entry *e = model_newest(m, target, variant);
    if (e != NULL) {
        uint64_t age_s = m->now_us > e->made_us ? (m->now_us - e->made_us) / SECOND_US : 0;

        if (stale ? age_s > max_age_s : e->put_us < since_us)
            e = NULL;
    }
    assert_ptr_equal(found, e != NULL ? e->stored : NULL);
    if (e == NULL)
        return;
    e->used = ++m->uses;
    ++*(stale ? &m->stats.hits_stale : &m->stats.hits_coalesced);
    hold(m, found);
}

static void do_invalidate(struct model *m)
{
    unsigned target = below(m, TARGETS);
    char text[16];
    struct response_store_url url = url_of(target_text(target, text));

    response_store_invalidate(m->store, &url, m->now_us);
    model_expire(m);
    m->invalidated_us[target] = m->now_us;
    m->last_invalidated_us = m->now_us;
    for (size_t i = 0; i < m->n;) {
        if (m->entries[i].target == target) {
            ++m->stats.invalidated;
            drop(m, i);
        } else {
            ++i;
        }
    }
}

static void do_limits(struct model *m)
{
    bool off = below(m, 8) == 0;

    m->limits.max_bytes = off ? below(m, 2000) : 10000 + below(m, 190000);
    m->limits.max_responses = off ? below(m, 3) : 10 + below(m, 90);
    m->limits.max_response_bytes = BODY_MAX / 2 + below(m, BODY_MAX);
    m->limits.max_age_s = 50 + below(m, 250);
    response_store_set_limits(m->store, &m->limits, m->now_us);
    model_expire(m);
    model_fit(m, 0, 0);
}

/* ---- and a check of them ---- */

/* What all stored responses that are alive are charged: those kept, and those held that are not
 * kept. */
static size_t live_bytes(const struct model *m)
{
    size_t bytes = 0;

    for (size_t i = 0; i < m->n; ++i)
        bytes += m->entries[i].bytes;
    for (size_t i = 0; i < HELD_MAX; ++i) {
        bool counted = m->held[i].stored == NULL;

        for (size_t k = 0; k < m->n; ++k)
            counted |= m->entries[k].stored == m->held[i].stored;
        for (size_t k = 0; k < i; ++k)
            counted |= m->held[k].stored == m->held[i].stored;
        if (!counted)
            bytes += m->held[i].bytes;
    }
    return bytes;
}

static void compare(struct model *m)
{
    struct response_store_stats s;

    response_store_check(m->store);
    response_store_read_stats(m->store, &s);
    assert_memory_equal(&s, &m->stats, sizeof(s));
    assert_true(s.bytes <= m->limits.max_bytes);
    assert_true(s.responses <= m->limits.max_responses);
    assert_int_equal(stored_memory_used(&m->memory), live_bytes(m));
}

static void run(struct model *m)
{
    for (m->step = 1; m->step <= STEPS; ++m->step) {
        uint32_t what = below(m, 200);

        m->now_us += (1 + below(m, 3)) * SECOND_US;
        if (what == 0)
            do_limits(m);
        else if (what < 5)
            do_invalidate(m);
        else if (what < 20)
            hold(m, NULL);
        else if (what < 100)
            do_find(m);
        else
            do_put(m);
        compare(m);
    }
}

static void store_does_what_a_naive_one_does_in_any_order_of_calls(void **state)
{
    static struct model m;
    struct response_store_stats sum = {0};

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; ++seed) {
        print_message("seed %llu\n", (unsigned long long)seed);
        m = (struct model){.seed = seed * 0x9E3779B97F4A7C15ULL, .now_us = NOW_US};
        stored_memory_init(&m.memory, MEMORY_BYTES);
        m.limits = (struct response_store_limits){150000, 80, BODY_MAX, 200};
        m.store = response_store_create(&m.limits, &m.memory);
        run(&m);
        response_store_destroy(m.store);
        for (size_t i = 0; i < HELD_MAX; ++i)
            stored_put(m.held[i].stored);
        assert_int_equal(stored_memory_used(&m.memory), 0);
        sum.evictions += m.stats.evictions;
        sum.expired += m.stats.expired;
        sum.invalidated += m.stats.invalidated;
        sum.rejected += m.stats.rejected;
        sum.hits_stale += m.stats.hits_stale;
        sum.hits_coalesced += m.stats.hits_coalesced;
    }
    print_message(
        "%llu evicted, %llu expired, %llu invalidated, %llu rejected, %llu and %llu hits\n",
        (unsigned long long)sum.evictions, (unsigned long long)sum.expired,
        (unsigned long long)sum.invalidated, (unsigned long long)sum.rejected,
        (unsigned long long)sum.hits_stale, (unsigned long long)sum.hits_coalesced);
    /* All of it has happened. */
    assert_true(sum.evictions > 100);
    assert_true(sum.expired > 100);
    assert_true(sum.invalidated > 100);
    assert_true(sum.rejected > 100);
    assert_true(sum.hits_stale > 100);
    assert_true(sum.hits_coalesced > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_does_what_a_naive_one_does_in_any_order_of_calls),
    };

    return cmocka_run_group_tests_name("response_store_model", tests, NULL, NULL);
}
