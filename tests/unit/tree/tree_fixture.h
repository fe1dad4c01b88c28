/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree in a directory of its own, a loop, and a record of the notifications of a watch.
 */
#pragma once

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/tree/tree.h"
#include "tests/support/wait_limit.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
    char directory[64]; /* removed at the end */
    char root[80];      /* of the tree, in it; not made yet */
    struct loop *loop;
    struct tree *tree;
};

/* The last report, copied. */
struct record {
    struct tree_watch *watch;
    unsigned reports;
    unsigned without_providers;
    bool exists;
    bool parses;
    bool providers_known;
    char problem[1024];
    json_t *properties;
    json_t *providers; /* name -> properties */
    json_t *children;
};

static inline struct tree *open_tree(struct loop *l, const char *root)
{
    struct tree *t = NULL;
    struct diag d = {0};
    char *url = xasprintf("directory:%s", root);

    assert_int_equal(tree_open(l, slice_of(url), NULL, &t, &d), ERR_OK);
    free(url);
    diag_fini(&d);
    return t;
}

static inline int setup(void **state)
{
    struct world *w = xcalloc(1, sizeof(*w));

    snprintf(w->directory, sizeof(w->directory), RLB_TEST_DIR "/rlb-tree-XXXXXX");
    assert_non_null(mkdtemp(w->directory));
    snprintf(w->root, sizeof(w->root), "%s/tree", w->directory);
    w->loop = loop_create(0);
    w->tree = open_tree(w->loop, w->root);
    *state = w;
    return 0;
}

static inline int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static inline void remove_all(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int teardown(void **state)
{
    struct world *w = *state;

    tree_close(w->tree);
    loop_destroy(w->loop);
    remove_all(w->directory);
    free(w);
    return 0;
}

/* Turn the loop until COND holds; it is not evaluated again after that. */
#define wait_for(w, cond)                                                                          \
    do {                                                                                           \
        uint64_t deadline_us = clock_mono_us() + WAIT_LIMIT_MS * 1000;                             \
        bool holds = (cond);                                                                       \
        while (!holds && clock_mono_us() < deadline_us) {                                          \
            loop_turn((w)->loop, 5);                                                               \
            holds = (cond);                                                                        \
        }                                                                                          \
        if (!holds)                                                                                \
            fail_msg("timed out waiting for %s", #cond);                                           \
    } while (0)

/* Turn the loop for MS: for what must not happen. */
static inline void turn_for(struct world *w, unsigned ms)
{
    uint64_t end_us = clock_mono_us() + ms * 1000;

    while (clock_mono_us() < end_us)
        loop_turn(w->loop, 1);
}

static inline void make(const char *path)
{
    char copy[PATH_MAX];

    snprintf(copy, sizeof(copy), "%s", path);
    for (char *p = copy + 1; *p != '\0'; ++p) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(copy, 0770);
        *p = '/';
    }
    (void)mkdir(copy, 0770);
}

static inline void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

static inline const char *at(const struct world *w, const char *rest)
{
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, PATH_MAX, "%s%s", w->root, rest);
    return path;
}

/* Node PATH with properties TEXT, put in place by rename. */
static inline void put_node(const struct world *w, const char *path, const char *text)
{
    char *directory = xasprintf("%s%s", w->root, path);
    char *tmp = xasprintf("%s/.tmp", directory);
    char *file = xasprintf("%s/properties.json", directory);

    make(directory);
    write_file(tmp, text);
    assert_int_equal(rename(tmp, file), 0);
    free(file);
    free(tmp);
    free(directory);
}

static inline void record_changed(void *context, const struct tree_view *node)
{
    struct record *r = context;
    const char *name;
    json_t *unused;

    ++r->reports;
    r->exists = node->exists;
    r->parses = node->parses;
    r->providers_known = node->providers_known;
    snprintf(r->problem, sizeof(r->problem), "%s", node->problem != NULL ? node->problem : "");
    json_decref(r->properties);
    r->properties = json_deep_copy(node->properties);
    json_decref(r->providers);
    r->providers = node->providers != NULL ? json_copy(node->providers) : json_object();
    r->without_providers += json_object_size(node->providers) == 0;
    json_decref(r->children);
    r->children = json_array();
    json_object_foreach (node->children, name, unused)
        json_array_append_new(r->children, json_string(name));
}

static inline void watch(struct world *w, struct record *r, const char *path)
{
    *r = (struct record){0};
    r->watch = tree_watch(w->tree, path, record_changed, r);
    assert_int_equal(r->reports, 0);
    wait_for(w, r->reports == 1);
}

static inline void unwatch(struct record *r)
{
    tree_unwatch(r->watch);
    json_decref(r->properties);
    json_decref(r->providers);
    json_decref(r->children);
}

/* Whether V, printed, is TEXT (keys sorted). */
static inline bool is_json(const json_t *v, const char *text)
{
    char *printed = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    bool same = strcmp(printed, text) == 0;

    free(printed);
    return same;
}

/* A child process that registers NAME at PATH and keeps it until killed. */
static inline pid_t spawn_provider(const char *root, const char *path, const char *name)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct loop *l = loop_create(0);
        struct tree *t = open_tree(l, root);
        json_t *properties = json_pack("{s:i}", "pid", (int)getpid());
        struct tree_registration *r = tree_register(t, path, name, properties);

        while (!tree_registered(r))
            loop_turn(l, 5);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        alarm(600);
        for (;;)
            loop_turn(l, 1000);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static inline void kill_provider(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#define tree_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
