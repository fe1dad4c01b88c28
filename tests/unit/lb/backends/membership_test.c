/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/backends/membership.h"

#include "common/base/clock.h"
#include "common/dns/resolver.h"
#include "lb/backends/self_measure.h"
#include "tests/support/wait_limit.h"
#include "tests/unit/lb/core/control_fixture.h"

#include <sys/stat.h>

enum { PROVIDERS_MAX = 64 };

/* Self-measured workers at addresses without a server: they are in the pool while registered. */
struct world {
    struct control *c;
    char root[64];     /* of the tree */
    char state[64];    /* state_dir */
    struct tree *tree; /* the registering side's */
    struct tree_registration *entries[PROVIDERS_MAX];
};

static void start_lb(struct world *w, const char *tree, const char *more)
{
    char *yaml =
        xasprintf("listen: [\"127.0.0.1:0\"]\nresume: measure\ntree: \"%s\"\n%s", tree, more);
    struct diag d = {0};

    w->c = control_create(yaml);
    free(yaml);
    w->c->lb.resolver = resolver_create(w->c->lb.control, NULL);
    w->c->lb.settings.state_dir = w->state;
    w->c->lb.settings.tree_start_wait_ms = 50;
    w->c->lb.self_measure = self_measure_create(NULL, -1);
    assert_int_equal(membership_start(w->c->app, &w->c->config.applications[0], &d), ERR_OK);
    diag_fini(&d);
}

static void stop_lb(struct world *w)
{
    membership_stop(w->c->app);
    self_measure_destroy(w->c->lb.self_measure);
    loop_turn(w->c->lb.control, 0);
    resolver_destroy(w->c->lb.resolver);
    for (size_t i = 0; i < PROVIDERS_MAX; ++i) {
        tree_unregister(w->entries[i]);
        w->entries[i] = NULL;
    }
    tree_close(w->tree);
    w->tree = NULL;
    control_destroy(w->c);
}

static char *url_of(const struct world *w)
{
    return xasprintf("directory:%s", w->root);
}

static void start_with_directory(struct world *w, const char *more)
{
    char *url = url_of(w);

    start_lb(w, url, more);
    assert_int_equal(tree_open(w->c->lb.control, slice_of(url), NULL, &w->tree, &(struct diag){0}),
                     ERR_OK);
    free(url);
}

static int set_up(void **state)
{
    struct world *w = xcalloc(1, sizeof(*w));

    strcpy(w->root, RLB_TEST_DIR "/rlb-members-XXXXXX");
    assert_non_null(mkdtemp(w->root));
    strcpy(w->state, RLB_TEST_DIR "/rlb-members-XXXXXX");
    assert_non_null(mkdtemp(w->state));
    *state = w;
    return 0;
}

static void remove_tree(const char *path)
{
    char *command = xasprintf("rm -rf %s", path);

    assert_int_equal(system(command), 0);
    free(command);
}

static int tear_down(void **state)
{
    struct world *w = *state;

    remove_tree(w->root);
    remove_tree(w->state);
    free(w);
    return 0;
}

static void turn(const struct world *w)
{
    loop_turn(w->c->lb.control, 5);
}

#define wait_for(w, cond)                                                                          \
    do {                                                                                           \
        uint64_t deadline_us = clock_mono_us() + WAIT_LIMIT_MS * 1000;                             \
        while (!(cond) && clock_mono_us() < deadline_us)                                           \
            turn(w);                                                                               \
        if (!(cond))                                                                               \
            fail_msg("timed out waiting for %s", #cond);                                           \
    } while (0)

static void add(struct world *w, size_t i, const char *name, const char *properties)
{
    json_t *p = json_loads(properties, 0, NULL);

    assert_non_null(p);
    w->entries[i] = tree_register(w->tree, "/workers", name, p);
    json_decref(p);
}

static void end(struct world *w, size_t i)
{
    tree_unregister(w->entries[i]);
    w->entries[i] = NULL;
}

struct count {
    size_t all, in_pool;
    const char *name;
    const struct backend *found;
};

static void count_one(void *context, const struct backend *k)
{
    struct count *n = context;

    ++n->all;
    n->in_pool += backend_in_pool(k);
    if (n->name != NULL && strcmp(n->name, k->name) == 0)
        n->found = k;
}

static struct count count(const struct world *w, const char *name)
{
    struct count n = {.name = name};

    membership_each(w->c->app->membership, count_one, &n);
    return n;
}

static size_t in_pool(const struct world *w)
{
    return count(w, NULL).in_pool;
}

static struct membership_figures figures(const struct world *w)
{
    struct membership_figures f;

    assert_true(membership_figures(w->c->app->membership, &f));
    return f;
}

static void spellings_of_one_address_are_one_worker(void **state)
{
    struct world *w = *state;

    start_with_directory(w, "discovery_max_drop: 1\n");
    add(w, 0, "127.0.0.1:1", "{\"pid\": 5}");
    add(w, 1, "[::ffff:127.0.0.1]:1", "{\"pid\": 5}");
    add(w, 2, "unix:/run/x.sock", "{}");
    add(w, 3, "[::1]:1", "{}");
    wait_for(w, in_pool(w) == 3 && count(w, "127.0.0.1:1").found->providers[SOURCE_TREE] == 2);
    assert_int_equal(figures(w).providers, 3);
    end(w, 0);
    wait_for(w, count(w, "127.0.0.1:1").found->providers[SOURCE_TREE] == 1);
    assert_int_equal(in_pool(w), 3);
    end(w, 1);
    wait_for(w, in_pool(w) == 2);
    assert_null(count(w, "127.0.0.1:1").found);
    stop_lb(w);
}

static void a_provider_named_by_host_is_one_worker_at_its_first_address(void **state)
{
    struct world *w = *state;

    start_with_directory(w, "");
    add(w, 0, "localhost:7", "{\"version\": \"3\"}");
    wait_for(w, in_pool(w) == 1);
    const struct backend *k = count(w, "127.0.0.1:7").found;
    assert_non_null(k);
    assert_string_equal(k->version, "3");
    /* The same process by its address: no second worker. */
    add(w, 1, "127.0.0.1:7", "{\"version\": \"3\"}");
    wait_for(w, k->providers[SOURCE_TREE] == 2);
    assert_int_equal(count(w, NULL).all, 1);
    stop_lb(w);
}

static void invalid_registrations_are_rejected_with_their_reason(void **state)
{
    static const struct {
        const char *name, *properties, *why;
    } cases[] = {
        {"no-address", "{}", "not an address"},
        {"127.0.0.1:99999", "{}", "not an address"},
        {"127.0.0.1:0", "{}", "no port"},
        {"127.0.0.1:080", "{}", "not an address"},
        {"two words:1", "{}", "not an address"},
        {"127.0.0.1:9", "{\"application\": \"other\"}", "another application"},
    };
    struct world *w = *state;
    struct text out = {0};
    struct json_writer jw = {.out = &out};

    start_with_directory(w, "");
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i)
        add(w, i, cases[i].name, cases[i].properties);
    add(w, ARRAY_LEN(cases), "127.0.0.1:1", "{\"application\": \"default\"}");
    wait_for(w, figures(w).rejected == ARRAY_LEN(cases) && in_pool(w) == 1);
    json_open_object(&jw, NULL);
    membership_describe(w->c->app->membership, &jw);
    json_close_object(&jw);
    json_t *d = json_loads(text_cstr(&out), 0, NULL);
    const json_t *list = json_object_get(json_object_get(d, "tree"), "provider_rejections");
    assert_int_equal(json_array_size(list), ARRAY_LEN(cases));
    for (size_t i = 0; i < ARRAY_LEN(cases); ++i) {
        bool reported = false;

        for (size_t k = 0; k < ARRAY_LEN(cases); ++k) {
            const json_t *r = json_array_get(list, k);

            reported = reported ||
                       strstr(json_string_value(json_object_get(r, "why")), cases[i].why) != NULL;
        }
        assert_true(reported);
    }
    json_decref(d);
    text_fini(&out);
    /* It says something else now: taken. */
    json_t *ours = json_pack("{s:s}", "application", "default");
    tree_registration_set(w->entries[5], ours);
    json_decref(ours);
    wait_for(w, in_pool(w) == 2 && figures(w).rejected == ARRAY_LEN(cases) - 1);
    stop_lb(w);
}

static void workers_are_taken_from_the_networks_that_are_allowed_alone(void **state)
{
    struct world *w = *state;

    start_with_directory(w, "discovery_max_drop: 1\nprovider_networks: [10.0.0.0/8, 127.0.0.7]\n");
    add(w, 0, "10.0.0.1:1", "{}");
    add(w, 1, "127.0.0.1:1", "{}");
    add(w, 2, "unix:/run/x.sock", "{}");
    add(w, 3, "localhost:1", "{}");
    add(w, 4, "127.0.0.7:1", "{}");
    wait_for(w, in_pool(w) == 2 && figures(w).rejected == 3);
    assert_non_null(count(w, "10.0.0.1:1").found);
    assert_non_null(count(w, "127.0.0.7:1").found);
    assert_int_equal(count(w, NULL).all, 2);
    stop_lb(w);
}

static void own_listeners_become_no_workers(void **state)
{
    struct world *w = *state;
    struct addr own[3];

    start_with_directory(w, "discovery_max_drop: 1\n");
    add(w, 0, "127.0.0.1:81", "{}");
    add(w, 1, "127.0.0.1:82", "{}");
    add(w, 2, "localhost:82", "{}");
    wait_for(w, in_pool(w) == 2 && figures(w).providers == 2);
    /* It is known only when the listeners are bound. */
    assert_int_equal(addr_parse(SLICE_LIT("10.0.0.1:1"), &own[0]), ERR_OK);
    assert_int_equal(addr_parse(SLICE_LIT("0.0.0.0:82"), &own[1]), ERR_OK);
    /* On many machines localhost is ::1, too. */
    assert_int_equal(addr_parse(SLICE_LIT("[::]:82"), &own[2]), ERR_OK);
    w->c->lb.own = own;
    w->c->lb.nown = 3;
    membership_recheck_providers(w->c->app->membership);
    assert_int_equal(in_pool(w), 1);
    assert_int_equal(figures(w).held, 0);
    assert_null(count(w, "127.0.0.1:82").found);
    /* The look-up of the name may have ended only now. */
    wait_for(w, figures(w).rejected == 2);
    assert_int_equal(in_pool(w), 1);
    stop_lb(w);
}

static void flapping_keeps_the_worker_and_its_connections(void **state)
{
    struct world *w = *state;

    start_with_directory(w, "");
    for (size_t i = 0; i < 4; ++i) {
        char *name = xasprintf("127.0.0.1:%zu", i + 1);
        add(w, i, name, "{\"pid\": 5}");
        free(name);
    }
    wait_for(w, in_pool(w) == 4);
    struct worker *before = count(w, "127.0.0.1:1").found->worker;
    for (int i = 0; i < 20; ++i) {
        end(w, 0);
        wait_for(w, figures(w).providers == 3);
        add(w, 0, "127.0.0.1:1", "{\"pid\": 5}");
        wait_for(w, figures(w).providers == 4);
        assert_int_equal(count(w, NULL).all, 4);
    }
    assert_ptr_equal(count(w, "127.0.0.1:1").found->worker, before);
    /* Another process at the address is another worker. */
    json_t *other = json_pack("{s:i}", "pid", 6);
    tree_registration_set(w->entries[0], other);
    json_decref(other);
    wait_for(w, strcmp(worker_instance(count(w, "127.0.0.1:1").found->worker), "6") == 0);
    assert_int_equal(count(w, NULL).all, 4);
    stop_lb(w);
}

static void a_list_that_shrinks_at_once_is_held_until_there_is_no_sign_of_life(void **state)
{
    struct world *w = *state;

    start_with_directory(w, "providers_hold: 1200ms\n");
    for (size_t i = 0; i < 4; ++i) {
        char *name = xasprintf("127.0.0.1:%zu", i + 1);
        add(w, i, name, "{}");
        free(name);
    }
    wait_for(w, in_pool(w) == 4);
    /* Two of four are not more than half. */
    end(w, 0);
    end(w, 1);
    wait_for(w, in_pool(w) == 2);
    end(w, 2);
    end(w, 3);
    wait_for(w, figures(w).held == 2);
    assert_int_equal(in_pool(w), 2);
    assert_int_equal(figures(w).providers, 0);
    add(w, 2, "127.0.0.1:3", "{}");
    wait_for(w, figures(w).held == 1);
    wait_for(w, in_pool(w) == 1);
    assert_non_null(count(w, "127.0.0.1:3").found);
    stop_lb(w);
}

static void a_worker_that_has_refused_before_many_vanish_is_not_held(void **state)
{
    struct world *w = *state;

    start_with_directory(w, "");
    for (size_t i = 0; i < 4; ++i) {
        char *name = xasprintf("127.0.0.1:%zu", i + 1);
        add(w, i, name, "{}");
        free(name);
    }
    wait_for(w, in_pool(w) == 4);
    const struct worker *first = count(w, "127.0.0.1:1").found->worker;
    member_failed(member_of(first), FAULT_REFUSED, loop_now_ms(w->c->lb.control));
    for (size_t i = 0; i < 4; ++i)
        end(w, i);
    wait_for(w, figures(w).providers == 0 && figures(w).held == 3);
    assert_null(count(w, "127.0.0.1:1").found);
    stop_lb(w);
}

static char *memory_file(const struct world *w)
{
    return xasprintf("%s/default/tree.json", w->state);
}

static void a_tree_wiped_before_a_start_takes_none_away_at_once(void **state)
{
    struct world *w = *state;
    char *file = memory_file(w);

    start_with_directory(w, "");
    add(w, 0, "127.0.0.1:1", "{\"version\": \"2\"}");
    add(w, 1, "127.0.0.1:2", "{}");
    wait_for(w, in_pool(w) == 2);
    wait_for(w, access(file, F_OK) == 0);
    stop_lb(w);
    remove_tree(w->root);
    assert_int_equal(mkdir(w->root, 0700), 0);
    start_with_directory(w, "");
    wait_for(w, figures(w).held == 2);
    assert_int_equal(in_pool(w), 2);
    assert_string_equal(count(w, "127.0.0.1:1").found->version, "2");
    assert_true(membership_settled(w->c->app->membership));
    /* And a third life remembers them still. */
    stop_lb(w);
    start_with_directory(w, "");
    wait_for(w, figures(w).held == 2);
    stop_lb(w);
    free(file);
}

static void write_memory(const struct world *w, const char *place, const char *parts)
{
    char *directory = xasprintf("%s/default", w->state);
    char *file = memory_file(w);

    (void)mkdir(directory, 0700);
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fprintf(out, "{\"v\":1,\"tree\":\"%s\",\"saved\":1700000000,\"parts\":%s}", place, parts);
    fclose(out);
    free(file);
    free(directory);
}

static void the_snapshot_of_a_tree_is_used_while_it_does_not_respond(void **state)
{
    struct world *w = *state;

    /* As hostile as any tree. */
    write_memory(
        w, "zookeeper://127.0.0.1:1/x ",
        "{\"providers\":{\"127.0.0.1:1\":{},\"no-address\":{},\"127.0.0.1:2\":7,"
        "\"127.0.0.1:3\":{\"version\":[1],\"instance\":{}}},"
        "\"settings\":{\"retries\":7,\"variance\":\"lots\",\"error_page\":\"/etc/passwd\"}}");
    start_lb(w, "zookeeper://127.0.0.1:1/x", "provider_networks: [loopback]\n");
    assert_false(membership_settled(w->c->app->membership));
    wait_for(w, in_pool(w) == 2);
    assert_true(membership_settled(w->c->app->membership));
    struct membership_figures f = figures(w);
    assert_true(f.remembered);
    assert_int_equal(f.rejected, 1);
    assert_int_equal(f.held, 0);
    wait_for(w, w->c->app->settings->s.retries == 7);
    assert_true(w->c->app->settings->s.variance == 4);
    assert_int_equal(w->c->app->settings->s.error_page.n, 0);
    stop_lb(w);
}

static void the_snapshot_of_another_tree_is_not_used(void **state)
{
    struct world *w = *state;

    write_memory(w, "zookeeper://127.0.0.1:2/x ", "{\"providers\":{\"127.0.0.1:1\":{}}}");
    start_lb(w, "zookeeper://127.0.0.1:1/x", "provider_networks: [loopback]\n");
    for (int i = 0; i < 40; ++i)
        turn(w);
    assert_int_equal(count(w, NULL).all, 0);
    stop_lb(w);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(spellings_of_one_address_are_one_worker),
        TEST(a_provider_named_by_host_is_one_worker_at_its_first_address),
        TEST(invalid_registrations_are_rejected_with_their_reason),
        TEST(workers_are_taken_from_the_networks_that_are_allowed_alone),
        TEST(own_listeners_become_no_workers),
        TEST(flapping_keeps_the_worker_and_its_connections),
        TEST(a_list_that_shrinks_at_once_is_held_until_there_is_no_sign_of_life),
        TEST(a_worker_that_has_refused_before_many_vanish_is_not_held),
        TEST(a_tree_wiped_before_a_start_takes_none_away_at_once),
        TEST(the_snapshot_of_a_tree_is_used_while_it_does_not_respond),
        TEST(the_snapshot_of_another_tree_is_not_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
