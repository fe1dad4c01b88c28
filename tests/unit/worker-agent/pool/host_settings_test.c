/* SPDX-License-Identifier: Apache-2.0
 *
 * Over a real directory tree; what the two numbers do to processes is in e2e (test_host_settings).
 */
#include "worker-agent/pool/app_pool.h"

#include "tests/unit/tree/tree_fixture.h"

struct fixture {
    struct world *w;
    char *file; /* the configuration */
    char *url;
    struct agent_config *config;
    struct app_pool pool;
};

/* The file with MORE at its top, read. */
static struct agent_config *read_config(const struct fixture *f, const char *more)
{
    char *text =
        xasprintf("%s\ntree: %s\nstate_dir: %s\napplications:\n  app: {attach: [127.0.0.1:1], "
                  "address: '127.0.0.1:0+'}\n",
                  more, f->url, f->w->directory);
    struct diag d = {0};

    assert_int_equal(file_write(f->file, slice_of(text), 0600), ERR_OK);
    struct agent_config *c = agent_config_read(f->file, &d);
    if (c == NULL)
        fail_msg("%s", d.text);
    diag_fini(&d);
    free(text);
    return c;
}

static void begin(struct fixture *f, const char *more)
{
    f->config = read_config(f, more);
    f->pool = (struct app_pool){.loop = f->w->loop, .tree = f->w->tree};
    app_pool_init(&f->pool);
    app_pool_start_host(&f->pool, f->config);
}

static void end(struct fixture *f)
{
    app_pool_fini(&f->pool);
    agent_config_destroy(f->config);
}

static int start(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    void *w = NULL;

    assert_int_equal(setup(&w), 0);
    f->w = w;
    f->file = xasprintf("%s/agent.yaml", f->w->directory);
    f->url = xasprintf("directory:%s", f->w->root);
    *state = f;
    return 0;
}

static int stop(void **state)
{
    struct fixture *f = *state;
    void *w = f->w;

    free(f->url);
    free(f->file);
    free(f);
    return teardown(&w);
}

static void wait_for_maximum(const struct fixture *f, int64_t maximum)
{
    wait_for(f->w, f->pool.s->max_processes == maximum);
}

static void assert_origin(const struct fixture *f, const char *setting, const char *origin)
{
    struct text text = {0};
    struct json_writer w = {.out = &text};

    json_open_object(&w, NULL);
    live_settings_describe(f->pool.live, &w);
    json_close_object(&w);
    json_t *all = json_loads(text_cstr(&text), 0, NULL);
    const json_t *row = json_object_get(json_object_get(all, "settings"), setting);
    assert_non_null(row);
    assert_string_equal(json_string_value(json_object_get(row, "origin")), origin);
    json_decref(all);
    text_fini(&text);
}

static void the_tree_goes_before_the_file_and_that_before_the_default(void **state)
{
    struct fixture *f = *state;

    begin(f, "max_processes: 4\nhost_path: /hosts/a");
    assert_int_equal(f->pool.s->max_processes, 4);
    assert_origin(f, "max_processes", "yaml");
    assert_origin(f, "replace_overlap", "default");
    put_node(f->w, "/hosts/a", "{\"max_processes\":2}");
    wait_for_maximum(f, 2);
    assert_origin(f, "max_processes", "tree");
    assert_int_equal(f->pool.core.max, 2);
    put_node(f->w, "/hosts/a", "{\"replace_overlap\":false}");
    wait_for_maximum(f, 4);
    assert_false(f->pool.s->replace_overlap);
    end(f);
}

static void settings_stored_by_a_previous_process_are_effective_before_the_first_turn(void **state)
{
    struct fixture *f = *state;

    begin(f, "max_processes: 4\nhost_path: /hosts/a");
    put_node(f->w, "/hosts/a", "{\"max_processes\":7}");
    wait_for_maximum(f, 7);
    end(f);
    put_node(f->w, "/hosts/a", "{\"max_processes\":6}");
    begin(f, "max_processes: 4\nhost_path: /hosts/a");
    assert_int_equal(f->pool.s->max_processes, 7);
    wait_for_maximum(f, 6);
    end(f);
    /* What another node said is nothing to us. */
    begin(f, "max_processes: 4\nhost_path: /hosts/b");
    assert_int_equal(f->pool.s->max_processes, 4);
    end(f);
}

static void a_file_read_again_changes_what_a_reload_can(void **state)
{
    struct fixture *f = *state;

    begin(f, "max_processes: 4\nhost_path: /hosts/a\nmax_body: 1MiB\nusage_interval: 1s");
    struct agent_config *c =
        read_config(f, "max_processes: 3\nhost_path: /hosts/b\nmax_body: 2MiB\nusage_interval: 2s");
    live_settings_set_yaml(f->pool.live, &c->s, c->origins);
    agent_config_destroy(c);
    const struct agent_settings *now = f->pool.s;
    assert_int_equal(f->pool.core.max, 3);
    assert_int_equal(now->max_processes, 3);
    assert_int_equal(now->usage_interval_ms, 2000);
    assert_int_equal(now->max_body_bytes, 1024 * 1024);
    assert_string_equal(now->host_path, "/hosts/a");
    end(f);
}

static void the_node_has_the_machines_name_unless_it_is_given_one(void **state)
{
    struct fixture *f = *state;
    char host[256] = "";

    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    char *expected = xasprintf("/hosts/%s", host);
    begin(f, "");
    assert_string_equal(f->config->host_path, expected);
    end(f);
    begin(f, "host_path: /racks/b2");
    assert_string_equal(f->config->host_path, "/racks/b2");
    end(f);
    free(expected);
}

static void settings_that_the_node_must_not_state_are_counted(void **state)
{
    struct fixture *f = *state;
    struct live_settings_counts counts;

    begin(f, "host_path: /hosts/a");
    put_node(f->w, "/hosts/a",
             "{\"max_processes\":5,\"replace_overlap\":\"perhaps\",\"state_dir\":\"/evil\"}");
    wait_for_maximum(f, 5);
    live_settings_counts(f->pool.live, &counts);
    assert_int_equal(counts.rejected, 2);
    assert_true(f->pool.s->replace_overlap);
    assert_string_equal(f->pool.s->state_dir, f->w->directory);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_tree_goes_before_the_file_and_that_before_the_default,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            settings_stored_by_a_previous_process_are_effective_before_the_first_turn, start, stop),
        cmocka_unit_test_setup_teardown(a_file_read_again_changes_what_a_reload_can, start, stop),
        cmocka_unit_test_setup_teardown(the_node_has_the_machines_name_unless_it_is_given_one,
                                        start, stop),
        cmocka_unit_test_setup_teardown(settings_that_the_node_must_not_state_are_counted, start,
                                        stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
