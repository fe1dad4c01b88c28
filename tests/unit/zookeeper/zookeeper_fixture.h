/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree in a real ZooKeeper at $RLB_ZOOKEEPER (tests/support/with-zookeeper), and another client
 * that writes with the calls of the library itself. Each test has its own path in the server.
 */
#pragma once

#include "tests/unit/tree/tree_fixture.h"

#include <zookeeper/zookeeper.h>

enum { SESSION_MS = 1000 };

struct zookeeper_fixture {
    struct world world;
    zhandle_t *other; /* the other client */
    char root[64];    /* this test's place */
};

static inline const char *server(void)
{
    const char *hosts = getenv("RLB_ZOOKEEPER");

    assert_non_null(hosts);
    return hosts;
}

static inline struct tree *open_at(struct loop *l, const char *hosts, const char *root)
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

static inline struct tree *open_place(struct loop *l, const char *root)
{
    return open_at(l, server(), root);
}

static inline void ignore(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh;
    (void)type;
    (void)state;
    (void)path;
    (void)context;
}

static inline void set_done(int rc, const struct Stat *stat, const void *data)
{
    (void)rc;
    (void)stat;
    (void)data;
}

static inline void create_done(int rc, const char *path, const void *data)
{
    (void)rc;
    (void)path;
    (void)data;
}

static inline void connect_other(struct zookeeper_fixture *p)
{
    p->other = zookeeper_init(server(), ignore, 30000, NULL, NULL, 0);
    assert_non_null(p->other);
    for (uint64_t i = 0; zoo_state(p->other) != ZOO_CONNECTED_STATE && i < WAIT_LIMIT_MS; ++i)
        usleep(1000);
    assert_int_equal(zoo_state(p->other), ZOO_CONNECTED_STATE);
}

static inline int setup_place(void **state)
{
    static int n;
    struct zookeeper_fixture *p = xcalloc(1, sizeof(*p));

    zoo_set_debug_level(ZOO_LOG_LEVEL_WARN);
    snprintf(p->root, sizeof(p->root), "/test-%d-%d", (int)getpid(), ++n);
    p->world.loop = loop_create(0);
    p->world.tree = open_place(p->world.loop, p->root);
    connect_other(p);
    *state = p;
    return 0;
}

static inline int teardown_place(void **state)
{
    struct zookeeper_fixture *p = *state;

    tree_close(p->world.tree);
    loop_destroy(p->world.loop);
    zookeeper_close(p->other);
    free(p);
    return 0;
}

static inline const char *in_place(const struct zookeeper_fixture *p, const char *path)
{
    static char full[4][256];
    static unsigned next;
    char *out = full[next++ % 4];

    snprintf(out, sizeof(full[0]), "%s%s", p->root, path);
    return out;
}

/* PATH with DATA, whether it was there or not. */
static inline void write_node(const struct zookeeper_fixture *p, const char *path, const char *data)
{
    const char *full = in_place(p, path);
    int rc = zoo_set(p->other, full, data, (int)strlen(data), -1);

    if (rc == ZNONODE)
        rc = zoo_create(p->other, full, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    assert_int_equal(rc, ZOK);
}

static inline void delete_node(const struct zookeeper_fixture *p, const char *path)
{
    assert_int_equal(zoo_delete(p->other, in_place(p, path), -1), ZOK);
}

static inline bool read_node(const struct zookeeper_fixture *p, const char *path, char *out,
                             size_t room, struct Stat *stat)
{
    int len = (int)room - 1;
    int rc = zoo_get(p->other, in_place(p, path), 0, out, &len, stat);

    if (rc != ZOK)
        return false;
    out[len > 0 ? len : 0] = '\0';
    return true;
}

static inline bool node_is(const struct zookeeper_fixture *p, const char *path, const char *data)
{
    char bytes[1024];
    struct Stat stat;

    return read_node(p, path, bytes, sizeof(bytes), &stat) && strcmp(bytes, data) == 0;
}

static inline struct tree_status status(const struct tree *t)
{
    struct tree_status s;

    tree_status(t, &s);
    return s;
}

static inline struct tree_status status_of(const struct zookeeper_fixture *p)
{
    return status(p->world.tree);
}

static inline struct tree_registration *enter(struct zookeeper_fixture *p, struct tree *t,
                                              const char *name, int pid)
{
    json_t *properties = json_pack("{s:i}", "pid", pid);
    struct tree_registration *r = tree_register(t, "/w", name, properties);

    (void)p;
    json_decref(properties);
    return r;
}

#define place_test(name) cmocka_unit_test_setup_teardown(name, setup_place, teardown_place)
