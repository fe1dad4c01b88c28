/* SPDX-License-Identifier: Apache-2.0
 *
 * What is watched and registered in a real ZooKeeper, as long as it is there.
 */
#include "tests/unit/zookeeper/zookeeper_fixture.h"

#include "common/tree/tree_backend.h"

/* ---- watching ---- */

static void a_tree_without_its_root_is_waited_for(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};

    watch(&p->world, &r, "/lb");
    assert_false(r.exists);
    assert_true(r.providers_known);
    write_node(p, "", "");
    write_node(p, "/lb", "{\"variance\":4}");
    wait_for(&p->world, is_json(r.properties, "{\"variance\":4}"));
    assert_true(r.exists);
    unwatch(&r);
}

static void every_change_of_a_node_is_seen(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};

    write_node(p, "", "");
    write_node(p, "/lb", "");
    watch(&p->world, &r, "/lb");
    assert_true(r.exists);
    assert_true(is_json(r.properties, "{}"));
    for (int i = 0; i < 50; ++i) {
        char data[32];

        snprintf(data, sizeof(data), "{\"n\":%d}", i);
        write_node(p, "/lb", data);
        wait_for(&p->world, is_json(r.properties, data));
    }
    unwatch(&r);
}

static void a_burst_ends_with_the_last_value_and_few_reports(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};

    write_node(p, "", "");
    write_node(p, "/lb", "{}");
    watch(&p->world, &r, "/lb");
    uint64_t began_us = clock_mono_us();
    for (int i = 0; i <= 2000; ++i) {
        char data[32];

        snprintf(data, sizeof(data), "{\"n\":%d}", i);
        assert_int_equal(
            zoo_aset(p->other, in_place(p, "/lb"), data, (int)strlen(data), -1, set_done, NULL),
            ZOK);
        if (i % 50 == 0)
            loop_turn(p->world.loop, 0);
    }
    wait_for(&p->world, is_json(r.properties, "{\"n\":2000}"));
    assert_int_equal(zoo_exists(p->other, "/", 0, NULL), ZOK);
    /* One per pause, and one for each end of the burst. */
    uint64_t pauses = (clock_mono_us() - began_us) / 1000 / TREE_PAUSE_MS;
    assert_in_range(r.reports, 1, pauses + 4);
    unwatch(&r);
}

static void a_node_that_is_deleted_keeps_its_properties(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};

    write_node(p, "", "");
    write_node(p, "/lb", "{\"x\":1}");
    watch(&p->world, &r, "/lb");
    delete_node(p, "/lb");
    wait_for(&p->world, !r.exists);
    assert_true(is_json(r.properties, "{\"x\":1}"));
    write_node(p, "/lb", "{\"x\":2}");
    wait_for(&p->world, r.exists && is_json(r.properties, "{\"x\":2}"));
    unwatch(&r);
}

static void an_invalid_object_is_a_problem_and_keeps_the_last_good_one(void **state)
{
    static const char *const bad[] = {"{", "[1]", "hello", "{\"a\":1,\"a\":2}", "null", "\x80"};
    struct zookeeper_fixture *p = *state;
    struct record r = {0};

    write_node(p, "", "");
    write_node(p, "/lb", "{\"x\":1}");
    watch(&p->world, &r, "/lb");
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        write_node(p, "/lb", bad[i]);
        wait_for(&p->world, !r.parses);
        assert_true(is_json(r.properties, "{\"x\":1}"));
        assert_true(strlen(r.problem) > 0);
        write_node(p, "/lb", " {\"x\":1} \n");
        wait_for(&p->world, r.parses);
    }
    unwatch(&r);
}

/* Node PATH with FORMAT, in which each %s is the test's place. */
static void write_links(const struct zookeeper_fixture *p, const char *path, const char *format)
{
    struct text data = {0};

    for (const char *c = format; *c != '\0'; ++c) {
        if (c[0] == '%' && c[1] == 's') {
            text_add(&data, slice_of(p->root));
            ++c;
        } else {
            text_add_char(&data, *c);
        }
    }
    write_node(p, path, text_cstr(&data));
    text_fini(&data);
}

static void links_are_followed_and_watched(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};

    write_node(p, "", "");
    write_node(p, "/a", "{\"n\":1}");
    write_node(p, "/b", "{\"n\":2}");
    write_links(p, "/lb", "{\"main ->\":\"%s/a\",\"n =>\":\"%s/b\"}");
    watch(&p->world, &r, "/lb/main");
    struct record linked = {0};
    watch(&p->world, &linked, "/lb");
    assert_true(is_json(r.properties, "{\"n\":1}"));
    assert_true(is_json(linked.properties, "{\"n\":2}"));
    write_node(p, "/b", "{\"n\":3}");
    wait_for(&p->world, is_json(linked.properties, "{\"n\":3}"));
    write_links(p, "/lb", "{\"main ->\":\"%s/b\",\"n =>\":\"%s/a\"}");
    wait_for(&p->world, is_json(r.properties, "{\"n\":3}"));
    wait_for(&p->world, is_json(linked.properties, "{\"n\":1}"));
    write_links(p, "/lb", "{\"main ->\":\"%s/lb/main\"}");
    wait_for(&p->world, strstr(r.problem, "loop") != NULL);
    unwatch(&r);
    unwatch(&linked);
}

/* The tree is all of the server: the path of the URL is where paths begin, and no border. */
static void links_lead_anywhere_in_the_server(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};
    struct record workers = {0};
    struct record outside = {0};
    char *shop = xasprintf("%s/shop", p->root);
    struct tree *t = open_place(p->world.loop, shop);
    struct world w = {.loop = p->world.loop, .tree = t};

    write_node(p, "", "");
    write_node(p, "/defaults", "{\"n\":1,\"m\":2}");
    write_node(p, "/pool", "{\"k\":3}");
    write_links(p, "/shop",
                "{\"n =>\":\"../defaults\",\"x =>\":\"%s/defaults m\",\"workers ->\":\"%s/pool\","
                "\"up ->\":\"../../../..\"}");
    watch(&w, &r, "");
    assert_true(is_json(r.properties, "{\"n\":1,\"x\":2}"));
    assert_string_equal(r.problem, "");
    watch(&w, &workers, "/workers");
    assert_true(is_json(workers.properties, "{\"k\":3}"));
    watch(&w, &outside, "/up");
    assert_false(outside.exists);
    assert_non_null(strstr(outside.problem, "leaves the tree"));
    write_node(p, "/defaults", "{\"n\":5,\"m\":2}");
    wait_for(&w, is_json(r.properties, "{\"n\":5,\"x\":2}"));
    write_node(p, "/pool", "{\"k\":4}");
    wait_for(&w, is_json(workers.properties, "{\"k\":4}"));
    unwatch(&r);
    unwatch(&workers);
    unwatch(&outside);
    tree_close(t);
    free(shop);
}

/* The node that the URL names may itself be reached by a link. */
static void the_top_of_a_tree_may_be_linked_to(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};
    char *alias = xasprintf("%s/alias/below", p->root);
    struct tree *t = open_place(p->world.loop, alias);
    struct world w = {.loop = p->world.loop, .tree = t};

    watch(&w, &r, "");
    assert_false(r.exists);
    write_node(p, "", "{\"alias ->\":\"./real\"}");
    write_node(p, "/real", "");
    write_node(p, "/real/below", "{\"n\":1}");
    wait_for(&w, r.exists && is_json(r.properties, "{\"n\":1}"));
    struct tree_registration *e = enter(p, t, "127.0.0.1:80", 7);
    wait_for(&w, tree_registered(e));
    assert_true(node_is(p, "/real/below/w/providers/127.0.0.1:80", "{\"pid\":7}"));
    tree_unregister(e);
    unwatch(&r);
    tree_close(t);
    free(alias);
}

static void providers_come_change_and_go(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};

    write_node(p, "", "");
    write_node(p, "/w", "");
    watch(&p->world, &r, "/w");
    assert_true(r.providers_known);
    write_node(p, "/w/providers", "");
    write_node(p, "/w/providers/127.0.0.1:81", "{\"pid\":1}");
    write_node(p, "/w/providers/127.0.0.1:80", "{\"pid\":2}");
    wait_for(&p->world,
             is_json(r.providers, "{\"127.0.0.1:80\":{\"pid\":2},\"127.0.0.1:81\":{\"pid\":1}}"));
    write_node(p, "/w/providers/127.0.0.1:80", "raw");
    wait_for(&p->world, is_json(r.providers, "{\"127.0.0.1:80\":{\"string_value\":\"raw\"},"
                                             "\"127.0.0.1:81\":{\"pid\":1}}"));
    delete_node(p, "/w/providers/127.0.0.1:80");
    wait_for(&p->world, is_json(r.providers, "{\"127.0.0.1:81\":{\"pid\":1}}"));
    write_node(p, "/w/providers/127.0.0.1:80", "{\"pid\":3}");
    wait_for(&p->world, json_object_size(r.providers) == 2);
    delete_node(p, "/w/providers/127.0.0.1:80");
    delete_node(p, "/w/providers/127.0.0.1:81");
    wait_for(&p->world, json_object_size(r.providers) == 0);
    assert_true(r.providers_known);
    unwatch(&r);
}

static void a_list_of_providers_that_is_deleted_is_not_known(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};

    write_node(p, "", "");
    write_node(p, "/w", "");
    write_node(p, "/w/providers", "");
    write_node(p, "/w/providers/127.0.0.1:80", "{}");
    watch(&p->world, &r, "/w");
    assert_true(is_json(r.providers, "{\"127.0.0.1:80\":{}}"));
    assert_int_equal(r.without_providers, 0);
    delete_node(p, "/w/providers/127.0.0.1:80");
    wait_for(&p->world, json_object_size(r.providers) == 0);
    write_node(p, "/w/providers/127.0.0.1:81", "{}");
    wait_for(&p->world, json_object_size(r.providers) == 1);
    zoo_op_t ops[2];
    zoo_op_result_t results[2];
    zoo_delete_op_init(&ops[0], in_place(p, "/w/providers/127.0.0.1:81"), -1);
    zoo_delete_op_init(&ops[1], in_place(p, "/w/providers"), -1);
    assert_int_equal(zoo_multi(p->other, 2, ops, results), ZOK);
    wait_for(&p->world, !r.providers_known);
    assert_true(is_json(r.providers, "{\"127.0.0.1:81\":{}}"));
    write_node(p, "/w/providers", "");
    write_node(p, "/w/providers/127.0.0.1:82", "{}");
    wait_for(&p->world, r.providers_known && is_json(r.providers, "{\"127.0.0.1:82\":{}}"));
    unwatch(&r);
}

/* The list and its node were read just now and wait, so that the provider's end is known first. */
static void delete_a_list_that_was_just_read(struct zookeeper_fixture *p, struct tree *t)
{
    zoo_op_t ops[3];
    zoo_op_result_t results[3];
    uint64_t reads = status(t).reads;

    zoo_create_op_init(&ops[0], in_place(p, "/w/providers/passing"), "", 0, &ZOO_OPEN_ACL_UNSAFE, 0,
                       NULL, 0);
    zoo_delete_op_init(&ops[1], in_place(p, "/w/providers/passing"), -1);
    zoo_set_op_init(&ops[2], in_place(p, "/w/providers"), "{}", 2, -1, NULL);
    assert_int_equal(zoo_multi(p->other, 3, ops, results), ZOK);
    wait_for(&p->world, status(t).reads >= reads + 2);
    zoo_delete_op_init(&ops[0], in_place(p, "/w/providers/127.0.0.1:81"), -1);
    zoo_delete_op_init(&ops[1], in_place(p, "/w/providers"), -1);
    assert_int_equal(zoo_multi(p->other, 2, ops, results), ZOK);
}

static void a_list_that_is_deleted_as_a_whole_is_never_an_empty_one(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};

    write_node(p, "", "");
    write_node(p, "/w", "");
    write_node(p, "/w/providers", "");
    write_node(p, "/w/providers/127.0.0.1:81", "{}");
    watch(&p->world, &r, "/w");
    for (int i = 0; i < 20; ++i) {
        wait_for(&p->world, r.providers_known && json_object_size(r.providers) == 1);
        delete_a_list_that_was_just_read(p, p->world.tree);
        wait_for(&p->world, !r.providers_known);
        assert_true(is_json(r.providers, "{\"127.0.0.1:81\":{}}"));
        write_node(p, "/w/providers", "");
        write_node(p, "/w/providers/127.0.0.1:81", "{}");
    }
    unwatch(&r);
}

static void a_thousand_providers_are_reported_at_once(void **state)
{
    enum { N = 1000 };
    struct zookeeper_fixture *p = *state;
    struct record r = {0};

    write_node(p, "", "");
    write_node(p, "/w", "");
    write_node(p, "/w/providers", "");
    for (int i = 0; i < N; ++i) {
        char name[64];

        snprintf(name, sizeof(name), "/w/providers/127.0.%d.%d:80", i / 250, i % 250 + 1);
        assert_int_equal(zoo_acreate(p->other, in_place(p, name), "{}", 2, &ZOO_OPEN_ACL_UNSAFE, 0,
                                     create_done, NULL),
                         ZOK);
    }
    assert_int_equal(zoo_exists(p->other, "/", 0, NULL), ZOK);
    watch(&p->world, &r, "/w");
    assert_int_equal(json_object_size(r.providers), N);
    unwatch(&r);
}

static void a_node_that_may_not_be_read_is_a_problem_until_it_may(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct record r = {0};
    struct ACL nobody = {ZOO_PERM_ALL & ~ZOO_PERM_READ, ZOO_ANYONE_ID_UNSAFE};
    struct ACL_vector acl = {1, &nobody};

    write_node(p, "", "");
    write_node(p, "/lb", "{\"x\":1}");
    assert_int_equal(zoo_set_acl(p->other, in_place(p, "/lb"), -1, &acl), ZOK);
    watch(&p->world, &r, "/lb");
    assert_true(r.exists);
    assert_false(r.parses);
    assert_non_null(strstr(r.problem, "permission"));
    assert_int_equal(zoo_set_acl(p->other, in_place(p, "/lb"), -1, &ZOO_OPEN_ACL_UNSAFE), ZOK);
    wait_for(&p->world, r.parses && is_json(r.properties, "{\"x\":1}"));
    unwatch(&r);
}

/* ---- registering ---- */

static void a_registration_makes_its_parents_and_ends_with_us(void **state)
{
    struct zookeeper_fixture *p = *state;
    char bytes[256];
    struct Stat stat;
    struct tree_registration *r = enter(p, p->world.tree, "127.0.0.1:80", 7);

    wait_for(&p->world, tree_registered(r));
    assert_true(read_node(p, "/w/providers/127.0.0.1:80", bytes, sizeof(bytes), &stat));
    assert_string_equal(bytes, "{\"pid\":7}");
    assert_int_not_equal(stat.ephemeralOwner, 0);
    assert_int_equal(zoo_set(p->other, in_place(p, "/w/providers/127.0.0.1:80"), "x", 1, -1),
                     ZNOAUTH);
    json_t *properties = json_pack("{s:i}", "pid", 8);
    tree_registration_set(r, properties);
    json_decref(properties);
    wait_for(&p->world, node_is(p, "/w/providers/127.0.0.1:80", "{\"pid\":8}"));
    tree_unregister(r);
    wait_for(&p->world,
             zoo_exists(p->other, in_place(p, "/w/providers/127.0.0.1:80"), 0, &stat) == ZNONODE);
}

static void a_registration_that_was_deleted_is_put_back(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct tree_registration *r = enter(p, p->world.tree, "unix:/run/w%1.sock", 7);

    wait_for(&p->world, tree_registered(r));
    for (int i = 0; i < 3; ++i) {
        delete_node(p, "/w/providers/unix:%2Frun%2Fw%251.sock");
        wait_for(&p->world, node_is(p, "/w/providers/unix:%2Frun%2Fw%251.sock", "{\"pid\":7}"));
    }
    struct record seen = {0};
    watch(&p->world, &seen, "/w");
    assert_true(is_json(seen.providers, "{\"unix:/run/w%1.sock\":{\"pid\":7}}"));
    unwatch(&seen);
    tree_unregister(r);
}

static void a_name_that_is_taken_is_ours_when_its_owner_ends(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct tree *second = open_place(p->world.loop, p->root);
    struct tree_registration *a = enter(p, p->world.tree, "127.0.0.1:80", 1);

    wait_for(&p->world, tree_registered(a));
    struct tree_registration *b = enter(p, second, "127.0.0.1:80", 2);
    turn_for(&p->world, 200);
    assert_false(tree_registered(b));
    assert_true(node_is(p, "/w/providers/127.0.0.1:80", "{\"pid\":1}"));
    tree_unregister(a);
    wait_for(&p->world, tree_registered(b));
    assert_true(node_is(p, "/w/providers/127.0.0.1:80", "{\"pid\":2}"));
    tree_unregister(b);
    tree_close(second);
}

static void a_registration_taken_back_at_once_leaves_nothing(void **state)
{
    struct zookeeper_fixture *p = *state;
    struct Stat stat;

    for (int i = 0; i < 20; ++i) {
        struct tree_registration *r = enter(p, p->world.tree, "127.0.0.1:80", i);

        for (int turns = 0; turns < i; ++turns)
            loop_turn(p->world.loop, 1);
        tree_unregister(r);
    }
    struct tree_registration *r = enter(p, p->world.tree, "127.0.0.1:81", 0);
    wait_for(&p->world, tree_registered(r));
    wait_for(&p->world,
             zoo_exists(p->other, in_place(p, "/w/providers/127.0.0.1:80"), 0, &stat) == ZNONODE);
    tree_unregister(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        place_test(a_tree_without_its_root_is_waited_for),
        place_test(every_change_of_a_node_is_seen),
        place_test(a_burst_ends_with_the_last_value_and_few_reports),
        place_test(a_node_that_is_deleted_keeps_its_properties),
        place_test(an_invalid_object_is_a_problem_and_keeps_the_last_good_one),
        place_test(links_are_followed_and_watched),
        place_test(links_lead_anywhere_in_the_server),
        place_test(the_top_of_a_tree_may_be_linked_to),
        place_test(providers_come_change_and_go),
        place_test(a_list_of_providers_that_is_deleted_is_not_known),
        place_test(a_list_that_is_deleted_as_a_whole_is_never_an_empty_one),
        place_test(a_thousand_providers_are_reported_at_once),
        place_test(a_node_that_may_not_be_read_is_a_problem_until_it_may),
        place_test(a_registration_makes_its_parents_and_ends_with_us),
        place_test(a_registration_that_was_deleted_is_put_back),
        place_test(a_name_that_is_taken_is_ours_when_its_owner_ends),
        place_test(a_registration_taken_back_at_once_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
