/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree in a real ZooKeeper, whose address $RLB_ZOOKEEPER is (tests/support/with-zookeeper).
 * Another client writes with the library's own calls. Each test has a place of its own in the
 * server. The session's source is included, so that a test can take its password and end it.
 */
#include "common/tree/zookeeper_session.c"

#include "common/tree/zookeeper_tree.h"
#include "tests/support/reply_limit_proxy.h"
#include "tests/unit/tree/tree_fixture.h"

enum { SESSION_MS = 1000 };

struct place {
    struct world world;
    zhandle_t *other; /* the other client */
    char root[64];    /* this test's place */
};

static const char *server(void)
{
    const char *hosts = getenv("RLB_ZOOKEEPER");

    assert_non_null(hosts);
    return hosts;
}

static struct tree *open_at(struct loop *l, const char *hosts, const char *root)
{
    const struct tree_options o = {.session_timeout_ms = SESSION_MS};
    struct tree *t = NULL;
    struct diag d = {0};
    char *url = xasprintf("zookeeper://%s%s", hosts, root);

    assert_int_equal(tree_open(l, slice_of(url), &o, &t, &d), ERR_OK);
    free(url);
    diag_fini(&d);
    return t;
}

static struct tree *open_place(struct loop *l, const char *root)
{
    return open_at(l, server(), root);
}

static void ignore(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh;
    (void)type;
    (void)state;
    (void)path;
    (void)context;
}

static void set_done(int rc, const struct Stat *stat, const void *data)
{
    (void)rc;
    (void)stat;
    (void)data;
}

static void create_done(int rc, const char *path, const void *data)
{
    (void)rc;
    (void)path;
    (void)data;
}

static void connect_other(struct place *p)
{
    p->other = zookeeper_init(server(), ignore, 30000, NULL, NULL, 0);
    assert_non_null(p->other);
    for (int i = 0; zoo_state(p->other) != ZOO_CONNECTED_STATE && i < PATIENCE_MS; ++i)
        usleep(1000);
    assert_int_equal(zoo_state(p->other), ZOO_CONNECTED_STATE);
}

static int setup_place(void **state)
{
    static int n;
    struct place *p = xcalloc(1, sizeof(*p));

    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
    snprintf(p->root, sizeof(p->root), "/test-%d-%d", (int)getpid(), ++n);
    p->world.loop = loop_create(0);
    p->world.tree = open_place(p->world.loop, p->root);
    connect_other(p);
    *state = p;
    return 0;
}

static int teardown_place(void **state)
{
    struct place *p = *state;

    tree_close(p->world.tree);
    loop_destroy(p->world.loop);
    zookeeper_close(p->other);
    free(p);
    return 0;
}

static const char *in_place(const struct place *p, const char *path)
{
    static char full[4][256];
    static unsigned next;
    char *out = full[next++ % 4];

    snprintf(out, sizeof(full[0]), "%s%s", p->root, path);
    return out;
}

/* PATH with DATA, whether it was there or not. */
static void write_node(const struct place *p, const char *path, const char *data)
{
    const char *full = in_place(p, path);
    int rc = zoo_set(p->other, full, data, (int)strlen(data), -1);

    if (rc == ZNONODE)
        rc = zoo_create(p->other, full, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    assert_int_equal(rc, ZOK);
}

static void delete_node(const struct place *p, const char *path)
{
    assert_int_equal(zoo_delete(p->other, in_place(p, path), -1), ZOK);
}

static bool read_node(const struct place *p, const char *path, char *out, size_t room,
                      struct Stat *stat)
{
    int len = (int)room - 1;
    int rc = zoo_get(p->other, in_place(p, path), 0, out, &len, stat);

    if (rc != ZOK)
        return false;
    out[len > 0 ? len : 0] = '\0';
    return true;
}

static bool node_is(const struct place *p, const char *path, const char *data)
{
    char bytes[1024];
    struct Stat stat;

    return read_node(p, path, bytes, sizeof(bytes), &stat) && strcmp(bytes, data) == 0;
}

static struct tree_status status(const struct tree *t)
{
    struct tree_status s;

    tree_status(t, &s);
    return s;
}

static struct tree_status status_of(const struct place *p)
{
    return status(p->world.tree);
}

/* ---- watching ---- */

static void a_tree_without_its_root_is_waited_for(void **state)
{
    struct place *p = *state;
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
    struct place *p = *state;
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
    struct place *p = *state;
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
    struct place *p = *state;
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

static void what_is_no_json_object_is_a_problem_and_keeps_the_last(void **state)
{
    static const char *const bad[] = {"{", "[1]", "hello", "{\"a\":1,\"a\":2}", "null", "\x80"};
    struct place *p = *state;
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

static void links_are_followed_and_watched(void **state)
{
    struct place *p = *state;
    struct record r = {0};

    write_node(p, "", "");
    write_node(p, "/a", "{\"n\":1}");
    write_node(p, "/b", "{\"n\":2}");
    write_node(p, "/lb", "{\"main ->\":\"/a\",\"n =>\":\"/b\"}");
    watch(&p->world, &r, "/lb/main");
    struct record linked = {0};
    watch(&p->world, &linked, "/lb");
    assert_true(is_json(r.properties, "{\"n\":1}"));
    assert_true(is_json(linked.properties, "{\"n\":2}"));
    write_node(p, "/b", "{\"n\":3}");
    wait_for(&p->world, is_json(linked.properties, "{\"n\":3}"));
    write_node(p, "/lb", "{\"main ->\":\"/b\",\"n =>\":\"/a\"}");
    wait_for(&p->world, is_json(r.properties, "{\"n\":3}"));
    wait_for(&p->world, is_json(linked.properties, "{\"n\":1}"));
    write_node(p, "/lb", "{\"main ->\":\"/lb/main\"}");
    wait_for(&p->world, strstr(r.problem, "loop") != NULL);
    unwatch(&r);
    unwatch(&linked);
}

static void providers_come_change_and_go(void **state)
{
    struct place *p = *state;
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
    struct place *p = *state;
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

static void a_thousand_providers_are_told_at_once(void **state)
{
    enum { N = 1000 };
    struct place *p = *state;
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
    struct place *p = *state;
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

static struct tree_registration *enter(struct place *p, struct tree *t, const char *name, int pid)
{
    json_t *properties = json_pack("{s:i}", "pid", pid);
    struct tree_registration *r = tree_register(t, "/w", name, properties);

    (void)p;
    json_decref(properties);
    return r;
}

static void a_registration_makes_its_parents_and_ends_with_us(void **state)
{
    struct place *p = *state;
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

static void a_registration_that_somebody_deleted_is_put_back(void **state)
{
    struct place *p = *state;
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
    struct place *p = *state;
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
    struct place *p = *state;
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

/* ---- sessions ---- */

/*
 * As a second client with the session's id and password would. The two fight for it, each
 * connecting anew when the server drops it for the other, so it takes some tries.
 */
static void end_session(struct place *p)
{
    const struct zookeeper *t = container_of(p->world.tree, struct zookeeper, base);
    uint64_t before = status_of(p).expired;

    for (int tries = 0; status_of(p).expired == before; ++tries) {
        clientid_t id = *zoo_client_id(t->session->zh);
        zhandle_t *thief = zookeeper_init(server(), ignore, SESSION_MS, &id, NULL, 0);

        assert_in_range(tries, 0, 100);
        for (int i = 0; zoo_state(thief) != ZOO_CONNECTED_STATE && i < PATIENCE_MS; ++i)
            usleep(100);
        zookeeper_close(thief);
        turn_for(&p->world, 50);
    }
}

static void what_changed_around_an_expired_session_is_seen(void **state)
{
    struct place *p = *state;
    struct record r = {0};
    struct Stat before;
    struct Stat after;
    char bytes[64];

    write_node(p, "", "");
    write_node(p, "/w", "{\"x\":1}");
    watch(&p->world, &r, "/w");
    struct tree_registration *e = enter(p, p->world.tree, "127.0.0.1:80", 7);
    wait_for(&p->world, tree_registered(e) && json_object_size(r.providers) == 1);
    assert_true(read_node(p, "/w/providers/127.0.0.1:80", bytes, sizeof(bytes), &before));
    end_session(p);
    write_node(p, "/w", "{\"x\":2}");
    wait_for(&p->world, status_of(p).connected);
    wait_for(&p->world, is_json(r.properties, "{\"x\":2}"));
    wait_for(&p->world, tree_registered(e));
    assert_true(read_node(p, "/w/providers/127.0.0.1:80", bytes, sizeof(bytes), &after));
    assert_int_not_equal(before.ephemeralOwner, after.ephemeralOwner);
    assert_int_equal(status_of(p).sessions, 2);
    write_node(p, "/w", "{\"x\":3}");
    wait_for(&p->world, is_json(r.properties, "{\"x\":3}"));
    tree_unregister(e);
    unwatch(&r);
}

static void a_server_that_hangs_takes_nothing_away(void **state)
{
    struct place *p = *state;
    struct record r = {0};
    pid_t pid = (pid_t)atoi(getenv("RLB_ZOOKEEPER_PID"));

    write_node(p, "", "");
    write_node(p, "/w", "{\"x\":1}");
    write_node(p, "/w/providers", "");
    write_node(p, "/w/providers/127.0.0.1:80", "{}");
    watch(&p->world, &r, "/w");
    assert_int_equal(kill(pid, SIGSTOP), 0);
    wait_for(&p->world, !status_of(p).connected);
    turn_for(&p->world, 2 * SESSION_MS);
    assert_true(r.exists);
    assert_true(is_json(r.providers, "{\"127.0.0.1:80\":{}}"));
    assert_int_equal(kill(pid, SIGCONT), 0);
    wait_for(&p->world, status_of(p).connected);
    wait_for(&p->world, zoo_state(p->other) == ZOO_CONNECTED_STATE);
    write_node(p, "/w", "{\"x\":2}");
    wait_for(&p->world, is_json(r.properties, "{\"x\":2}"));
    unwatch(&r);
}

static void a_list_too_large_to_read_is_left_alone_and_the_rest_goes_on(void **state)
{
    enum { N = 6000 };
    struct place *p = *state;
    struct record good = {0};
    struct record bad = {0};
    char name[512];
    unsigned port = 0;
    pid_t proxy = reply_limit_proxy(server(), &port);

    write_node(p, "", "");
    write_node(p, "/good", "{\"x\":1}");
    write_node(p, "/bad", "{\"y\":1}");
    write_node(p, "/bad/providers", "");
    for (int i = 0; i < N; ++i) {
        snprintf(name, sizeof(name), "%s/bad/providers/%0200d", p->root, i);
        assert_int_equal(
            zoo_acreate(p->other, name, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, create_done, NULL), ZOK);
    }
    assert_int_equal(zoo_exists(p->other, "/", 0, NULL), ZOK);
    snprintf(name, sizeof(name), "127.0.0.1:%u", port);
    struct tree *t = open_at(p->world.loop, name, p->root);
    bad.watch = tree_watch(t, "/bad", record_changed, &bad);
    good.watch = tree_watch(t, "/good", record_changed, &good);
    wait_for(&p->world, status(t).quarantined == 1);
    wait_for(&p->world, bad.reports > 0 && is_json(bad.properties, "{\"y\":1}"));
    assert_false(bad.providers_known);
    wait_for(&p->world, status(t).connected);
    uint64_t connections = status(t).connections;
    write_node(p, "/good", "{\"x\":2}");
    write_node(p, "/bad", "{\"y\":2}");
    wait_for(&p->world, is_json(good.properties, "{\"x\":2}"));
    wait_for(&p->world, is_json(bad.properties, "{\"y\":2}"));
    turn_for(&p->world, 300);
    assert_int_equal(status(t).connections, connections);
    unwatch(&good);
    unwatch(&bad);
    tree_close(t);
    kill_provider(proxy);
}

static void names_of_hosts_that_nobody_knows_are_tried_again(void **state)
{
    struct loop *l = loop_create(0);
    struct tree *t = NULL;
    struct diag d = {0};

    (void)state;
    assert_int_equal(
        tree_open(l, SLICE_LIT("zookeeper://no-such-host.invalid:2181/x"), NULL, &t, &d), ERR_OK);
    for (int i = 0; i < 50; ++i)
        loop_turn(l, 10);
    assert_false(status(t).connected);
    assert_int_equal(status(t).sessions, 0);
    tree_close(t);
    loop_destroy(l);
    diag_fini(&d);
}

#define place_test(name) cmocka_unit_test_setup_teardown(name, setup_place, teardown_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        place_test(a_tree_without_its_root_is_waited_for),
        place_test(every_change_of_a_node_is_seen),
        place_test(a_burst_ends_with_the_last_value_and_few_reports),
        place_test(a_node_that_is_deleted_keeps_its_properties),
        place_test(what_is_no_json_object_is_a_problem_and_keeps_the_last),
        place_test(links_are_followed_and_watched),
        place_test(providers_come_change_and_go),
        place_test(a_list_of_providers_that_is_deleted_is_not_known),
        place_test(a_thousand_providers_are_told_at_once),
        place_test(a_node_that_may_not_be_read_is_a_problem_until_it_may),
        place_test(a_registration_makes_its_parents_and_ends_with_us),
        place_test(a_registration_that_somebody_deleted_is_put_back),
        place_test(a_name_that_is_taken_is_ours_when_its_owner_ends),
        place_test(a_registration_taken_back_at_once_leaves_nothing),
        place_test(what_changed_around_an_expired_session_is_seen),
        place_test(a_server_that_hangs_takes_nothing_away),
        place_test(a_list_too_large_to_read_is_left_alone_and_the_rest_goes_on),
        cmocka_unit_test(names_of_hosts_that_nobody_knows_are_tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
