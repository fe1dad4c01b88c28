/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/backends/membership_internal.h"

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/program/upgrade.h"
#include "lb/backends/self_measure.h"
#include "tests/support/wait_limit.h"
#include "tests/unit/lb/core/control_fixture.h"

#include <errno.h>
#include <sys/stat.h>

struct world {
    struct control *c;
    struct upgrade upgrade;
    char state[64], file[96];
};

/* Responses are counted instead of sent. */
struct call {
    struct admin_item item;
    unsigned responses;
};

void __wrap_admin_item_respond(struct admin_item *i);
void __wrap_admin_item_respond(struct admin_item *i)
{
    ++container_of(i, struct call, item)->responses;
}

static void start_lb(struct world *w, const char *more)
{
    char *yaml = xasprintf("listen: [\"127.0.0.1:0\"]\nadmin: {address: \"127.0.0.1:0\", "
                           "actions_token: x}\nworkers: []\n%s",
                           more);
    struct diag d = {0};

    w->c = control_create(yaml);
    free(yaml);
    w->c->lb.resolver = resolver_create(w->c->lb.control, NULL);
    w->c->lb.settings.state_dir = w->state;
    w->c->lb.upgrade = &w->upgrade;
    w->c->lb.self_measure = self_measure_create(NULL, -1);
    assert_int_equal(membership_start(w->c->app, &w->c->config.applications[0], &d), ERR_OK);
    w->c->lb.phase = LB_SERVING;
    snprintf(w->file, sizeof(w->file), "%s/%s/workers.json", w->state, w->c->app->name);
}

static void stop_lb(struct world *w)
{
    w->c->lb.phase = LB_CLOSING;
    membership_stop(w->c->app);
    self_measure_destroy(w->c->lb.self_measure);
    loop_turn(w->c->lb.control, 0);
    resolver_destroy(w->c->lb.resolver);
    control_destroy(w->c);
}

static int set_up(void **state)
{
    struct world *w = xcalloc(1, sizeof(*w));

    strcpy(w->state, RLB_TEST_DIR "/rlb-calls-XXXXXX");
    assert_non_null(mkdtemp(w->state));
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    char *command = xasprintf("rm -rf %s", w->state);

    assert_int_equal(system(command), 0);
    free(command);
    free(w);
    return 0;
}

#define wait_for(w, cond)                                                                          \
    do {                                                                                           \
        uint64_t deadline_us = clock_mono_us() + WAIT_LIMIT_MS * 1000;                             \
        while (!(cond) && clock_mono_us() < deadline_us)                                           \
            loop_turn((w)->c->lb.control, 5);                                                      \
        if (!(cond))                                                                               \
            fail_msg("timed out waiting for %s", #cond);                                           \
    } while (0)

static void begin_call(struct world *w, struct call *k, bool put, const char *name,
                       const char *body)
{
    struct worker_call c;

    *k = (struct call){.item = {.put = put, .status = 200}};
    assert_null(worker_call_read(&c, put, slice_of(name), slice_of(body)));
    membership_call(w->c->app->membership, &c, &k->item);
    worker_call_fini(&c);
}

static void end_call(struct call *k)
{
    list_remove(&k->item.node);
    text_fini(&k->item.body);
}

/* The status of the response. */
static int complete_call(struct world *w, bool put, const char *name, const char *body)
{
    struct call k;

    begin_call(w, &k, put, name, body);
    wait_for(w, k.responses > 0);
    assert_int_equal(k.responses, 1);
    end_call(&k);
    return k.item.status;
}

static struct backend *find(const struct world *w, const char *name)
{
    return membership_find(w->c->app->membership, name);
}

static json_t *read_file(const struct world *w)
{
    return json_load_file(w->file, 0, NULL);
}

static void write_file(const struct world *w, const char *text)
{
    char *directory = xasprintf("%s/default", w->state);
    char *path = xasprintf("%s/workers.json", directory);

    assert_true(mkdir(directory, 0700) == 0 || errno == EEXIST);
    assert_int_equal(file_write(path, slice_of(text), 0600), ERR_OK);
    free(path);
    free(directory);
}

/* Of the status. */
static json_int_t ends_in_s(const struct world *w, size_t i)
{
    struct text text = {0};
    struct json_writer out = {.out = &text};

    json_open_object(&out, NULL);
    call_source_describe(w->c->app->membership->calls, &out);
    json_close_object(&out);
    json_t *all = json_loadb(text.p, text.len, 0, NULL);
    json_t *workers = json_object_get(json_object_get(all, "calls"), "workers");
    json_t *left = json_object_get(json_array_get(workers, i), "ends_in_s");
    json_int_t seconds = json_is_integer(left) ? json_integer_value(left) : -1;
    json_decref(all);
    text_fini(&text);
    return seconds;
}

static void a_response_comes_when_the_file_has_the_change(void **state)
{
    struct world *w = *state;
    struct call k;

    start_lb(w, "");
    begin_call(w, &k, true, "127.0.0.1:1", "{\"version\": \"3\"}");
    assert_int_equal(k.responses, 0);
    assert_true(backend_in_pool(find(w, "127.0.0.1:1")));
    wait_for(w, k.responses == 1);
    assert_int_equal(k.item.status, 201);
    end_call(&k);
    json_t *file = read_file(w);
    json_t *saved = json_object_get(json_object_get(file, "workers"), "127.0.0.1:1");
    assert_true(slice_is(json_text(json_object_get(saved, "properties"), "version"), "3"));
    json_decref(file);
    /* A renewal does not wait for a disk. */
    begin_call(w, &k, true, "127.0.0.1:1", "{\"version\": \"3\"}");
    assert_int_equal(k.responses, 1);
    assert_int_equal(k.item.status, 200);
    end_call(&k);
    assert_int_equal(complete_call(w, false, "127.0.0.1:1", ""), 200);
    assert_null(read_file(w));
    assert_null(find(w, "127.0.0.1:1"));
    stop_lb(w);
}

static void a_client_that_has_gone_gets_no_response(void **state)
{
    struct world *w = *state;
    struct call gone;

    start_lb(w, "");
    begin_call(w, &gone, true, "127.0.0.1:1", "");
    end_call(&gone);
    assert_int_equal(complete_call(w, true, "127.0.0.1:2", ""), 201);
    assert_int_equal(gone.responses, 0);
    assert_non_null(find(w, "127.0.0.1:1"));
    stop_lb(w);
}

static void no_call_is_confirmed_while_a_new_process_takes_over(void **state)
{
    struct world *w = *state;
    struct call k;

    start_lb(w, "");
    begin_call(w, &k, true, "127.0.0.1:1", "");
    w->upgrade.stage = UPGRADE_HANDING_OVER;
    wait_for(w, k.responses == 1);
    assert_int_equal(k.item.status, 503);
    end_call(&k);
    assert_int_equal(complete_call(w, true, "127.0.0.1:2", ""), 503);
    assert_null(find(w, "127.0.0.1:2"));
    /* It fails: the call, repeated, is a renewal. */
    w->upgrade.stage = UPGRADE_NONE;
    assert_int_equal(complete_call(w, true, "127.0.0.1:1", ""), 200);
    /* It serves: the file is the new process's. */
    w->upgrade.stage = UPGRADE_HANDED_OVER;
    membership_hand_over(w->c->app->membership);
    write_file(w, "{\"v\": 1, \"workers\": {}}");
    stop_lb(w);
    json_t *file = read_file(w);
    assert_int_equal(json_object_size(json_object_get(file, "workers")), 0);
    json_decref(file);
    w->upgrade.stage = UPGRADE_NONE;
}

static void the_new_process_has_what_the_old_one_confirmed_last(void **state)
{
    struct world *w = *state;

    write_file(w, "{\"v\": 1, \"workers\": {\"127.0.0.1:1\": {\"properties\": {}}}}");
    start_lb(w, "");
    assert_non_null(find(w, "127.0.0.1:1"));
    write_file(w, "{\"v\": 1, \"workers\": {\"127.0.0.1:2\": {\"properties\": {}}}}");
    membership_reread_calls(w->c->app->membership);
    /* The removal was a call, so that the only worker is not held. */
    assert_null(find(w, "127.0.0.1:1"));
    assert_true(backend_in_pool(find(w, "127.0.0.1:2")));
    stop_lb(w);
}

static void the_time_left_is_never_more_than_the_ttl(void **state)
{
    struct world *w = *state;
    uint64_t now_ms = clock_wall_us() / 1000;
    char *file = xasprintf(
        "{\"v\": 1, \"workers\": {"
        "\"127.0.0.1:1\": {\"properties\": {}, \"ttl\": 100, \"until\": %llu},"
        "\"127.0.0.1:2\": {\"properties\": {}, \"ttl\": 1000, \"until\": %llu}}}",
        (unsigned long long)now_ms + 3600 * 1000, (unsigned long long)now_ms + 500 * 1000);

    write_file(w, file);
    free(file);
    start_lb(w, "");
    assert_in_range(ends_in_s(w, 0), 50, 100); /* the clock was set back */
    assert_in_range(ends_in_s(w, 1), 400, 500);
    stop_lb(w);
}

static void expired_registrations_of_a_file_end_unless_they_are_most(void **state)
{
    struct world *w = *state;

    write_file(w, "{\"v\": 1, \"workers\": {"
                  "\"127.0.0.1:1\": {\"properties\": {}},"
                  "\"127.0.0.1:2\": {\"properties\": {}},"
                  "\"127.0.0.1:3\": {\"properties\": {}, \"ttl\": 5, \"until\": 1000}}}");
    start_lb(w, "");
    wait_for(w, find(w, "127.0.0.1:3") == NULL);
    assert_non_null(find(w, "127.0.0.1:2"));
    stop_lb(w);
    write_file(w, "{\"v\": 1, \"workers\": {"
                  "\"127.0.0.1:2\": {\"properties\": {}, \"ttl\": 5, \"until\": 1000},"
                  "\"127.0.0.1:3\": {\"properties\": {}, \"ttl\": 5, \"until\": 1000}}}");
    start_lb(w, "");
    wait_for(w, find(w, "127.0.0.1:2")->held && find(w, "127.0.0.1:3")->held);
    assert_int_equal(ends_in_s(w, 0), -1);
    /* A held one is registered again; the other one is removed. */
    assert_int_equal(complete_call(w, true, "127.0.0.1:2", ""), 201);
    assert_false(find(w, "127.0.0.1:2")->held);
    assert_int_equal(complete_call(w, false, "127.0.0.1:3", ""), 200);
    assert_null(find(w, "127.0.0.1:3"));
    stop_lb(w);
}

static void a_registration_ends_after_its_ttl(void **state)
{
    struct world *w = *state;

    start_lb(w, "discovery_max_drop: 1\n");
    assert_int_equal(complete_call(w, true, "127.0.0.1:1", "{\"ttl\": 1}"), 201);
    assert_int_equal(complete_call(w, true, "127.0.0.1:2", "{\"ttl\": 1}"), 201);
    /* Without a ttl now. */
    assert_int_equal(complete_call(w, true, "127.0.0.1:2", ""), 200);
    assert_int_equal(ends_in_s(w, 1), -1);
    wait_for(w, find(w, "127.0.0.1:1") == NULL);
    assert_non_null(find(w, "127.0.0.1:2"));
    stop_lb(w);
}

static void registrations_are_limited_by_networks_and_number(void **state)
{
    struct world *w = *state;

    start_lb(w, "provider_networks: [loopback]\n");
    assert_int_equal(complete_call(w, true, "10.0.0.1:1", ""), 403);
    assert_null(find(w, "10.0.0.1:1"));
    for (unsigned i = 0; i < CALLED_WORKERS_MAX; ++i) {
        char name[40];
        struct call k;

        snprintf(name, sizeof(name), "127.0.%u.%u:1", i / 250, i % 250 + 1);
        begin_call(w, &k, true, name, "{\"ttl\": 1000}");
        end_call(&k);
    }
    assert_int_equal(complete_call(w, true, "127.1.0.1:1", ""), 409);
    assert_int_equal(complete_call(w, true, "127.0.0.1:1", ""), 200);
    assert_int_equal(complete_call(w, false, "127.0.0.1:1", ""), 200);
    assert_int_equal(complete_call(w, true, "127.1.0.1:1", ""), 201);
    assert_int_equal(complete_call(w, false, "127.2.0.1:1", ""), 404);
    stop_lb(w);
    start_lb(w, "");
    assert_non_null(find(w, "127.1.0.1:1"));
    assert_null(find(w, "127.0.0.1:1"));
    stop_lb(w);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_response_comes_when_the_file_has_the_change),
        TEST(a_client_that_has_gone_gets_no_response),
        TEST(no_call_is_confirmed_while_a_new_process_takes_over),
        TEST(the_new_process_has_what_the_old_one_confirmed_last),
        TEST(the_time_left_is_never_more_than_the_ttl),
        TEST(expired_registrations_of_a_file_end_unless_they_are_most),
        TEST(a_registration_ends_after_its_ttl),
        TEST(registrations_are_limited_by_networks_and_number),
    };

    return cmocka_run_group_tests_name("call_source", tests, NULL, NULL);
}
