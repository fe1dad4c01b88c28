/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tree/tree_fixture.h"

#include "common/base/limits.h"

static struct tree_registration *enter(struct world *w, const char *path, const char *name, int pid)
{
    json_t *properties = json_pack("{s:i}", "pid", pid);
    struct tree_registration *r = tree_register(w->tree, path, name, properties);

    json_decref(properties);
    return r;
}

static ino_t inode(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_ino : 0;
}

static void a_provider_is_there_while_it_is_registered(void **state)
{
    struct world *w = *state;
    struct record r;

    watch(w, &r, "/lb/workers");
    assert_true(r.providers_known);
    struct tree_registration *p = enter(w, "/lb/workers", "127.0.0.1:9001", 7);
    assert_false(tree_registered(p));
    wait_for(w, is_json(r.providers, "{\"127.0.0.1:9001\":{\"pid\":7}}"));
    assert_true(tree_registered(p));
    assert_true(r.providers_known);
    struct tree_registration *q = enter(w, "/lb/workers", "127.0.0.1:9000", 8);
    wait_for(w, json_object_size(r.providers) == 2);
    tree_unregister(p);
    wait_for(w, is_json(r.providers, "{\"127.0.0.1:9000\":{\"pid\":8}}"));
    tree_unregister(q);
    wait_for(w, is_json(r.providers, "{}"));
    assert_true(r.providers_known);
    unwatch(&r);
}

static void directories_are_made_for_the_group(void **state)
{
    struct world *w = *state;
    struct stat st;
    mode_t mask = umask(077);
    struct tree_registration *p = enter(w, "/lb/workers", "127.0.0.1:9001", 7);

    wait_for(w, tree_registered(p));
    umask(mask);
    assert_int_equal(stat(at(w, "/lb/workers/providers"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0770);
    assert_int_equal(stat(at(w, "/lb/workers/providers/127.0.0.1:9001"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    tree_unregister(p);
}

static void a_killed_process_is_gone_at_once(void **state)
{
    struct world *w = *state;
    struct record r;
    pid_t pid = spawn_provider(w->root, "/lb", "10.0.0.1:80");

    watch(w, &r, "/lb");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(r.providers, "10.0.0.1:80"), "pid")),
        pid);
    turn_for(w, 25);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    /* The kernel notified the loop, not a timer: turns that do not wait are enough. */
    for (int i = 0; i < 20; ++i)
        loop_turn(w->loop, 0);
    assert_int_equal(json_object_size(r.providers), 0);
    assert_true(r.providers_known);
    /* Its file is cleared away. */
    assert_int_equal(inode(at(w, "/lb/providers/10.0.0.1:80")), 0);
    unwatch(&r);
}

static void many_processes_die_at_once(void **state)
{
    enum { N = 12 };
    struct world *w = *state;
    struct record r;
    pid_t pids[N];

    for (int i = 0; i < N; ++i) {
        char name[32];

        snprintf(name, sizeof(name), "10.0.0.1:%d", 1000 + i);
        pids[i] = spawn_provider(w->root, "/lb", name);
    }
    watch(w, &r, "/lb");
    assert_int_equal(json_object_size(r.providers), N);
    for (int i = 0; i < N; ++i)
        kill(pids[i], SIGKILL);
    wait_for(w, json_object_size(r.providers) == 0);
    for (int i = 0; i < N; ++i)
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    unwatch(&r);
}

static void a_taken_name_is_taken_over_when_its_owner_ends(void **state)
{
    struct world *w = *state;
    struct record r;
    pid_t pid = spawn_provider(w->root, "/lb", "10.0.0.1:80");

    watch(w, &r, "/lb");
    ino_t theirs = inode(at(w, "/lb/providers/10.0.0.1:80"));
    struct tree_registration *p = enter(w, "/lb", "10.0.0.1:80", 7);
    turn_for(w, 100);
    assert_false(tree_registered(p));
    assert_int_equal(inode(at(w, "/lb/providers/10.0.0.1:80")), theirs);
    kill_provider(pid);
    wait_for(w, tree_registered(p));
    wait_for(w, is_json(r.providers, "{\"10.0.0.1:80\":{\"pid\":7}}"));
    tree_unregister(p);
    unwatch(&r);
}

static void a_process_registers_a_name_once(void **state)
{
    struct world *w = *state;
    struct tree_registration *p = enter(w, "/lb", "10.0.0.1:80", 1);

    wait_for(w, tree_registered(p));
    struct tree_registration *q = enter(w, "/lb", "10.0.0.1:80", 2);
    turn_for(w, 60);
    assert_true(tree_registered(p));
    assert_false(tree_registered(q));
    tree_unregister(p);
    wait_for(w, tree_registered(q));
    tree_unregister(q);
}

/* A child that wants NAME, and says its pid on FD each time it gets it. */
static pid_t spawn_claimant(const char *root, const char *name, int fd)
{
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    struct loop *l = loop_create(0);
    struct tree *t = open_tree(l, root);
    json_t *properties = json_pack("{s:i}", "pid", (int)getpid());
    struct tree_registration *r = tree_register(t, "/lb", name, properties);
    bool had = false;

    alarm(600);
    for (;;) {
        bool has = tree_registered(r);

        pid = getpid();
        if (has && !had && write(fd, &pid, sizeof(pid)) != sizeof(pid))
            _exit(1);
        had = has;
        loop_turn(l, 5);
    }
}

static void many_claimants_get_the_name_one_after_the_other(void **state)
{
    enum { N = 8 };
    struct world *w = *state;
    struct record r;
    int fds[2];
    pid_t owner;

    assert_int_equal(pipe(fds), 0);
    watch(w, &r, "/lb");
    for (int i = 0; i < N; ++i)
        assert_true(spawn_claimant(w->root, "10.0.0.1:80", fds[1]) > 0);
    close(fds[1]);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    for (int i = 0; i < N; ++i) {
        wait_for(w, read(fds[0], &owner, sizeof(owner)) == sizeof(owner));
        wait_for(w, json_integer_value(json_object_get(json_object_get(r.providers, "10.0.0.1:80"),
                                                       "pid")) == owner);
        /* No other process believes it holds the name meanwhile. */
        turn_for(w, 20);
        pid_t other;
        assert_int_equal(read(fds[0], &other, sizeof(other)), -1);
        kill_provider(owner);
    }
    wait_for(w, json_object_size(r.providers) == 0);
    close(fds[0]);
    unwatch(&r);
}

static void waiting_for_a_name_costs_next_to_nothing(void **state)
{
    struct world *w = *state;
    struct record r;
    struct tree_registration *p = enter(w, "/lb", "10.0.0.1:80", 1);

    wait_for(w, tree_registered(p));
    watch(w, &r, "/lb");
    struct tree_registration *q = enter(w, "/lb", "10.0.0.1:80", 2);
    struct stat before;
    struct stat after;
    turn_for(w, 100);
    assert_int_equal(stat(at(w, "/lb/providers"), &before), 0);
    turn_for(w, 1200);
    assert_int_equal(stat(at(w, "/lb/providers"), &after), 0);
    /* Nothing was created or removed meanwhile. */
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim));
    assert_int_equal(r.reports, 1);
    tree_unregister(q);
    tree_unregister(p);
    unwatch(&r);
}

static void a_file_removed_by_hand_is_put_back(void **state)
{
    struct world *w = *state;
    struct record r;
    struct tree_registration *p = enter(w, "/lb", "10.0.0.1:80", 7);

    watch(w, &r, "/lb");
    wait_for(w, json_object_size(r.providers) == 1);
    for (int i = 0; i < 3; ++i) {
        assert_int_equal(unlink(at(w, "/lb/providers/10.0.0.1:80")), 0);
        assert_false(tree_registered(p));
        wait_for(w, tree_registered(p));
    }
    /* Renamed away is lost too, and what was renamed is not ours any more. */
    assert_int_equal(rename(at(w, "/lb/providers/10.0.0.1:80"), at(w, "/lb/providers/10.0.0.1:81")),
                     0);
    wait_for(w, tree_registered(p));
    wait_for(w, is_json(r.providers, "{\"10.0.0.1:80\":{\"pid\":7}}"));
    tree_unregister(p);
    unwatch(&r);
}

static void a_tree_removed_by_hand_is_built_again(void **state)
{
    struct world *w = *state;
    struct record r;
    struct tree_registration *p = enter(w, "/lb/workers", "10.0.0.1:80", 7);
    struct tree_registration *q = enter(w, "/lb/workers", "10.0.0.1:81", 8);

    watch(w, &r, "/lb/workers");
    wait_for(w, json_object_size(r.providers) == 2);
    for (int i = 0; i < 3; ++i) {
        remove_all(w->root);
        wait_for(w, tree_registered(p) && tree_registered(q));
        wait_for(w, r.exists && r.providers_known && json_object_size(r.providers) == 2);
    }
    tree_unregister(p);
    tree_unregister(q);
    unwatch(&r);
}

static void providers_are_kept_while_their_node_is_gone(void **state)
{
    struct world *w = *state;
    struct record r;
    struct tree_registration *p = enter(w, "/lb", "10.0.0.1:80", 7);

    watch(w, &r, "/lb");
    wait_for(w, json_object_size(r.providers) == 1);
    tree_unregister(p);
    wait_for(w, json_object_size(r.providers) == 0);
    p = enter(w, "/lb", "10.0.0.1:80", 7);
    wait_for(w, json_object_size(r.providers) == 1);
    /* No process is left that would create it again. */
    assert_int_equal(rename(at(w, ""), at(w, ".away")), 0);
    tree_unregister(p);
    wait_for(w, !r.exists);
    assert_false(r.providers_known);
    assert_true(is_json(r.providers, "{\"10.0.0.1:80\":{\"pid\":7}}"));
    assert_int_equal(rename(at(w, ".away"), at(w, "")), 0);
    wait_for(w, r.providers_known);
    assert_true(is_json(r.providers, "{}"));
    unwatch(&r);
}

static void new_properties_replace_the_old_without_a_gap(void **state)
{
    struct world *w = *state;
    struct record r;
    struct tree_registration *p = enter(w, "/lb", "10.0.0.1:80", 0);

    wait_for(w, tree_registered(p));
    watch(w, &r, "/lb");
    for (int i = 1; i <= 50; ++i) {
        json_t *properties = json_pack("{s:i}", "pid", i);

        tree_registration_set(p, properties);
        json_decref(properties);
        if (i % 10 == 0)
            turn_for(w, 5);
        assert_true(tree_registered(p));
    }
    wait_for(w, is_json(r.providers, "{\"10.0.0.1:80\":{\"pid\":50}}"));
    assert_int_equal(r.without_providers, 0);
    tree_unregister(p);
    unwatch(&r);
}

static void unix_addresses_become_file_names(void **state)
{
    struct world *w = *state;
    struct record r;
    struct tree_registration *p = enter(w, "/lb", "unix:/run/a b/w%1.sock", 7);

    watch(w, &r, "/lb");
    wait_for(w, is_json(r.providers, "{\"unix:/run/a b/w%1.sock\":{\"pid\":7}}"));
    assert_int_not_equal(inode(at(w, "/lb/providers/unix:%2Frun%2Fa%20b%2Fw%251.sock")), 0);
    tree_unregister(p);
    unwatch(&r);
}

static void a_name_too_long_for_a_file_is_not_registered(void **state)
{
    struct world *w = *state;
    char name[ADDR_TEXT_MAX];

    memset(name, '/', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    struct tree_registration *p = enter(w, "/lb", name, 7);
    struct tree_registration *q = enter(w, "/lb", "", 7);
    turn_for(w, 40);
    assert_false(tree_registered(p));
    assert_false(tree_registered(q));
    tree_unregister(p);
    tree_unregister(q);
}

static void files_that_none_holds_are_cleared_away(void **state)
{
    struct world *w = *state;
    struct record r;

    make(at(w, "/lb/providers"));
    write_file(at(w, "/lb/providers/10.0.0.1:80"), "{\"pid\":1}");
    write_file(at(w, "/lb/providers/properties.json"), "{}");
    write_file(at(w, "/lb/providers/.new-0011223344556677"), "{}");
    watch(w, &r, "/lb");
    assert_true(is_json(r.providers, "{}"));
    assert_int_equal(inode(at(w, "/lb/providers/10.0.0.1:80")), 0);
    /* Neither the node's own file nor one that may be in the making. */
    assert_int_not_equal(inode(at(w, "/lb/providers/properties.json")), 0);
    assert_int_not_equal(inode(at(w, "/lb/providers/.new-0011223344556677")), 0);
    write_file(at(w, "/lb/providers/10.0.0.1:81"), "{\"pid\":1}");
    wait_for(w, inode(at(w, "/lb/providers/10.0.0.1:81")) == 0);
    assert_true(is_json(r.providers, "{}"));
    unwatch(&r);
    /* Long ago is not in the making. */
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, at(w, "/lb/providers/.new-0011223344556677"), old, 0), 0);
    watch(w, &r, "/lb");
    assert_int_equal(inode(at(w, "/lb/providers/.new-0011223344556677")), 0);
    unwatch(&r);
}

/* A file under a lock as an owner would have it, with any content. */
static int hold(const char *path, const char *text)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0660);

    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &whole), 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    return fd;
}

static void hostile_files_do_no_harm(void **state)
{
    struct world *w = *state;
    struct record r;
    char *large = xmalloc(100001);
    char fifo[PATH_MAX];

    make(at(w, "/lb/providers/directory"));
    memset(large, ' ', 100000);
    large[100000] = '\0';
    int fds[] = {
        hold(at(w, "/lb/providers/bad-json"), "{"),
        hold(at(w, "/lb/providers/array"), "[1]"),
        hold(at(w, "/lb/providers/large"), large),
        hold(at(w, "/lb/providers/empty"), ""),
        hold(at(w, "/lb/providers/lower%2fcase"), "{}"),
        hold(at(w, "/lb/providers/nul%00byte"), "{}"),
        hold(at(w, "/lb/providers/cut%2"), "{}"),
        hold(at(w, "/lb/providers/plain%41"), "{}"),
    };
    snprintf(fifo, sizeof(fifo), "%s", at(w, "/lb/providers/fifo"));
    assert_int_equal(mkfifo(fifo, 0660), 0);
    assert_int_equal(symlink("/etc/passwd", at(w, "/lb/providers/link")), 0);
    watch(w, &r, "/lb");
    /* Held files are providers, with no properties where they cannot be read; other names are not
     * ours. */
    assert_true(is_json(r.providers, "{\"array\":{},\"bad-json\":{},\"empty\":{},\"large\":{}}"));
    assert_int_not_equal(inode(at(w, "/lb/providers/lower%2fcase")), 0);
    for (size_t i = 0; i < ARRAY_LEN(fds); ++i)
        close(fds[i]);
    wait_for(w, is_json(r.providers, "{}"));
    free(large);
    unwatch(&r);
}

static void a_registration_follows_links(void **state)
{
    struct world *w = *state;
    struct record r;

    put_node(w, "/lb", "{\"workers ->\":\"/shared/one\"}");
    struct tree_registration *p = enter(w, "/lb/workers", "10.0.0.1:80", 7);
    wait_for(w, tree_registered(p));
    assert_int_not_equal(inode(at(w, "/shared/one/providers/10.0.0.1:80")), 0);
    watch(w, &r, "/lb/workers");
    wait_for(w, json_object_size(r.providers) == 1);
    put_node(w, "/lb", "{\"workers ->\":\"/shared/two\"}");
    wait_for(w, inode(at(w, "/shared/two/providers/10.0.0.1:80")) != 0);
    assert_int_equal(inode(at(w, "/shared/one/providers/10.0.0.1:80")), 0);
    wait_for(w, r.providers_known && json_object_size(r.providers) == 1);
    /* A loop leaves it where it is. */
    put_node(w, "/lb", "{\"workers ->\":\"/lb/workers\"}");
    turn_for(w, 60);
    assert_int_not_equal(inode(at(w, "/shared/two/providers/10.0.0.1:80")), 0);
    assert_true(tree_registered(p));
    tree_unregister(p);
    unwatch(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        tree_test(a_provider_is_there_while_it_is_registered),
        tree_test(directories_are_made_for_the_group),
        tree_test(a_killed_process_is_gone_at_once),
        tree_test(many_processes_die_at_once),
        tree_test(a_taken_name_is_taken_over_when_its_owner_ends),
        tree_test(a_process_registers_a_name_once),
        tree_test(many_claimants_get_the_name_one_after_the_other),
        tree_test(waiting_for_a_name_costs_next_to_nothing),
        tree_test(a_file_removed_by_hand_is_put_back),
        tree_test(a_tree_removed_by_hand_is_built_again),
        tree_test(providers_are_kept_while_their_node_is_gone),
        tree_test(new_properties_replace_the_old_without_a_gap),
        tree_test(unix_addresses_become_file_names),
        tree_test(a_name_too_long_for_a_file_is_not_registered),
        tree_test(files_that_none_holds_are_cleared_away),
        tree_test(hostile_files_do_no_harm),
        tree_test(a_registration_follows_links),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
