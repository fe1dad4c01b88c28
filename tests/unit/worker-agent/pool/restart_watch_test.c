/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests with real directories and a real loop. Each scan reports always_restart.txt at once, which
 * shows when a directory has been scanned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/support/wait_limit.h"
#include "worker-agent/pool/restart_watch.h"

enum { TURN_MS = 10 };

/* In the same order as the default ones. */
static const struct restart_times quick = {
    .settle_ms = 100, .poll_ms = 400, .poll_blind_ms = 80, .scan_ms = 10};
/* For changes that have to come within settle_ms, however slow the machine is. */
static const struct restart_times patient = {
    .settle_ms = 3600000, .poll_ms = 2000, .poll_blind_ms = 80, .scan_ms = 10};

struct reported {
    unsigned restarts, changes;
    bool one_shot;
};

struct fixture {
    struct loop *loop;
    struct restart_times times;
    struct restart_watch *watch;
    struct restart_directory *directory;
    char root[64];
    struct reported reported;
};

static void on_restart(void *context)
{
    ++((struct reported *)context)->restarts;
}

static void on_one_shot(void *context, bool on)
{
    struct reported *t = context;

    ++t->changes;
    t->one_shot = on;
}

static const struct restart_events events = {on_restart, on_one_shot};

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st;
    (void)flag;
    (void)at;
    return remove(path);
}

static int set_up_with(void **state, const struct restart_times *times)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    snprintf(f->root, sizeof(f->root), RLB_TEST_DIR "/rlb-restart-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    f->loop = loop_create(0);
    f->times = *times;
    f->watch = restart_watch_create(f->loop, times);
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, &quick);
}

static int set_up_patient(void **state)
{
    return set_up_with(state, &patient);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    restart_directory_remove(f->directory);
    restart_watch_destroy(f->watch);
    loop_destroy(f->loop);
    nftw(f->root, remove_one, 10, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

/* ---- files ---- */

static void in_root(const struct fixture *f, const char *name, char out[200])
{
    snprintf(out, 200, "%s/%s", f->root, name);
}

static void make_directory(const struct fixture *f, const char *name)
{
    char path[200];

    in_root(f, name, path);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void touch(const struct fixture *f, const char *name)
{
    char path[200];

    in_root(f, name, path);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(futimens(fd, NULL), 0);
    close(fd);
}

static void set_time(const struct fixture *f, const char *name, int64_t s)
{
    const struct timespec times[2] = {{.tv_sec = s}, {.tv_sec = s}};
    char path[200];

    in_root(f, name, path);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void rename_to(const struct fixture *f, const char *from, const char *to)
{
    char a[200];
    char b[200];

    in_root(f, from, a);
    in_root(f, to, b);
    assert_int_equal(rename(a, b), 0);
}

static void remove_file(const struct fixture *f, const char *name)
{
    char path[200];

    in_root(f, name, path);
    assert_int_equal(unlink(path), 0);
}

static void watch(struct fixture *f, int64_t since_ns)
{
    f->directory = restart_directory_add(f->watch, f->root, "tmp", since_ns, &events, &f->reported);
    assert_non_null(f->directory);
}

/* ---- waiting ---- */

static void turn_for(struct fixture *f, uint64_t ms)
{
    uint64_t until_us = clock_mono_us() + ms * 1000;

    while (clock_mono_us() < until_us)
        loop_turn(f->loop, TURN_MS);
}

static void await_restarts(struct fixture *f, unsigned n)
{
    uint64_t until_us = clock_mono_us() + WAIT_LIMIT_MS * 1000;

    while (f->reported.restarts < n && clock_mono_us() < until_us)
        loop_turn(f->loop, TURN_MS);
    assert_int_equal(f->reported.restarts, n);
}

static void await_one_shot(struct fixture *f, bool on)
{
    uint64_t until_us = clock_mono_us() + WAIT_LIMIT_MS * 1000;

    while (f->reported.one_shot != on && clock_mono_us() < until_us)
        loop_turn(f->loop, TURN_MS);
    assert_int_equal(f->reported.one_shot, on);
}

/* Waits until the directory has been scanned after all previous changes. */
static void await_scan(struct fixture *f)
{
    touch(f, "tmp/always_restart.txt");
    await_one_shot(f, true);
    remove_file(f, "tmp/always_restart.txt");
    await_one_shot(f, false);
}

/* After a further scan, all changes found so far have been reported. */
static void assert_no_more_restarts(struct fixture *f, unsigned n)
{
    await_scan(f);
    turn_for(f, f->times.settle_ms + 100);
    assert_int_equal(f->reported.restarts, n);
}

/* ---- restart.txt ---- */

static void a_file_that_comes_or_is_touched_restarts(void **state)
{
    struct fixture *f = *state;

    make_directory(f, "tmp");
    watch(f, restart_now_ns());
    await_scan(f);
    touch(f, "tmp/restart.txt");
    await_restarts(f, 1);
    touch(f, "tmp/restart.txt");
    await_restarts(f, 2);
    assert_no_more_restarts(f, 2);
}

static void a_file_that_was_there_at_the_start_does_not(void **state)
{
    struct fixture *f = *state;

    make_directory(f, "tmp");
    touch(f, "tmp/restart.txt");
    set_time(f, "tmp/restart.txt", 1000000000);
    watch(f, restart_now_ns());
    assert_no_more_restarts(f, 0);
    touch(f, "tmp/restart.txt");
    await_restarts(f, 1);
}

static void a_file_that_is_newer_than_the_oldest_process_does(void **state)
{
    struct fixture *f = *state;

    make_directory(f, "tmp");
    touch(f, "tmp/restart.txt");
    set_time(f, "tmp/restart.txt", 1000000000);
    watch(f, (int64_t)999999999 * 1000000000);
    await_restarts(f, 1);
    assert_no_more_restarts(f, 1);
}

static void a_file_of_the_future_does_not_restart_at_each_start(void **state)
{
    struct fixture *f = *state;

    make_directory(f, "tmp");
    touch(f, "tmp/restart.txt");
    set_time(f, "tmp/restart.txt", 4000000000);
    watch(f, restart_now_ns());
    assert_no_more_restarts(f, 0);
}

/* The interval between two restarts does not end in this test: what comes, comes at once. */
static void the_first_touch_restarts_at_once_and_many_after_it_wait(void **state)
{
    struct fixture *f = *state;

    make_directory(f, "tmp");
    watch(f, restart_now_ns());
    await_scan(f);
    touch(f, "tmp/restart.txt");
    await_restarts(f, 1);
    for (int i = 0; i < 20; ++i) {
        touch(f, "tmp/restart.txt");
        await_scan(f);
    }
    assert_int_equal(f->reported.restarts, 1);
}

static void touches_after_a_restart_are_one_more(void **state)
{
    struct fixture *f = *state;

    make_directory(f, "tmp");
    watch(f, restart_now_ns());
    await_scan(f);
    touch(f, "tmp/restart.txt");
    await_restarts(f, 1);
    for (int i = 0; i < 5; ++i)
        touch(f, "tmp/restart.txt");
    await_restarts(f, 2);
    assert_no_more_restarts(f, 2);
}

static void another_file_in_its_place_restarts_however_old_it_is(void **state)
{
    struct fixture *f = *state;

    make_directory(f, "tmp");
    touch(f, "tmp/restart.txt");
    touch(f, "tmp/other");
    set_time(f, "tmp/other", 1000000000);
    watch(f, restart_now_ns());
    await_scan(f);
    rename_to(f, "tmp/other", "tmp/restart.txt");
    await_restarts(f, 1);
}

static void a_file_that_is_away_for_a_moment_is_the_same(void **state)
{
    struct fixture *f = *state;

    make_directory(f, "tmp");
    touch(f, "tmp/restart.txt");
    watch(f, restart_now_ns());
    await_scan(f);
    rename_to(f, "tmp/restart.txt", "tmp/away");
    await_scan(f);
    rename_to(f, "tmp/away", "tmp/restart.txt");
    assert_no_more_restarts(f, 0);
}

/* ---- always_restart.txt ---- */

static void each_process_serves_one_request_while_the_file_is_there(void **state)
{
    struct fixture *f = *state;

    make_directory(f, "tmp");
    touch(f, "tmp/always_restart.txt");
    watch(f, restart_now_ns());
    await_one_shot(f, true);
    touch(f, "tmp/always_restart.txt");
    touch(f, "tmp/restart.txt");
    await_restarts(f, 1);
    assert_int_equal(f->reported.changes, 1);
    remove_file(f, "tmp/always_restart.txt");
    await_one_shot(f, false);
    assert_int_equal(f->reported.changes, 2);
}

/* ---- directories ---- */

static void a_directory_may_come_and_go(void **state)
{
    struct fixture *f = *state;

    f->directory = restart_directory_add(f->watch, f->root, "a/b/tmp", restart_now_ns(), &events,
                                         &f->reported);
    turn_for(f, f->times.scan_ms);
    make_directory(f, "a");
    turn_for(f, f->times.scan_ms * 2);
    make_directory(f, "a/b");
    make_directory(f, "a/b/tmp");
    touch(f, "a/b/tmp/restart.txt");
    await_restarts(f, 1);
    touch(f, "a/b/tmp/always_restart.txt");
    await_one_shot(f, true);
    rename_to(f, "a/b/tmp", "a/b/old");
    await_one_shot(f, false);
    make_directory(f, "a/b/tmp");
    touch(f, "a/b/tmp/restart.txt");
    await_restarts(f, 2);
}

static void a_link_that_leads_elsewhere_is_found_by_the_poll(void **state)
{
    struct fixture *f = *state;
    char link[200];

    make_directory(f, "one");
    make_directory(f, "one/tmp");
    make_directory(f, "two");
    make_directory(f, "two/tmp");
    touch(f, "one/tmp/restart.txt");
    touch(f, "two/tmp/restart.txt");
    in_root(f, "tmp", link);
    assert_int_equal(symlink("one/tmp", link), 0);
    watch(f, restart_now_ns());
    await_scan(f);
    remove_file(f, "tmp");
    assert_int_equal(symlink("two/tmp", link), 0);
    await_restarts(f, 1);
}

static void a_directory_open_to_all_does_not_count_until_it_is_closed(void **state)
{
    struct fixture *f = *state;
    char path[200];

    make_directory(f, "tmp");
    in_root(f, "tmp", path);
    watch(f, restart_now_ns());
    await_scan(f);
    assert_int_equal(chmod(path, 0777), 0);
    turn_for(f, f->times.scan_ms * 2);
    touch(f, "tmp/restart.txt");
    touch(f, "tmp/always_restart.txt");
    turn_for(f, f->times.settle_ms + 100);
    assert_int_equal(f->reported.restarts, 0);
    assert_false(f->reported.one_shot);
    assert_int_equal(chmod(path, 0755), 0);
    await_one_shot(f, true);
    await_restarts(f, 1);
}

static void a_path_that_is_not_a_file_does_not_count(void **state)
{
    struct fixture *f = *state;
    char path[200];

    make_directory(f, "tmp");
    watch(f, restart_now_ns());
    make_directory(f, "tmp/restart.txt");
    in_root(f, "tmp/always_restart.txt", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    turn_for(f, f->times.settle_ms + 100);
    assert_int_equal(f->reported.restarts, 0);
    assert_int_equal(f->reported.changes, 0);
}

static void applications_may_share_directories(void **state)
{
    enum { DIRECTORIES = 60 };
    struct fixture *f = *state;
    struct restart_directory *directories[DIRECTORIES];
    struct reported reported[DIRECTORIES] = {0};
    unsigned sum = 0;

    make_directory(f, "tmp");
    /* Every other one waits for a directory that does not exist in the one of the others. */
    for (unsigned i = 0; i < DIRECTORIES; ++i)
        directories[i] = restart_directory_add(f->watch, f->root, i % 2 == 0 ? "tmp" : "tmp/sub",
                                               restart_now_ns(), &events, &reported[i]);
    turn_for(f, f->times.scan_ms * 2);
    touch(f, "tmp/restart.txt");
    make_directory(f, "tmp/sub");
    touch(f, "tmp/sub/restart.txt");
    for (int i = 0; i < 300 && sum < DIRECTORIES; ++i) {
        turn_for(f, 20);
        sum = 0;
        for (unsigned k = 0; k < DIRECTORIES; ++k)
            sum += reported[k].restarts;
    }
    for (unsigned i = 0; i < DIRECTORIES; ++i) {
        assert_int_equal(reported[i].restarts, 1);
        restart_directory_remove(directories[i]);
    }
}

static void the_host_s_own_directory_is_not_owned(void **state)
{
    struct fixture *f = *state;

    assert_null(restart_directory_add(f->watch, "/", "tmp", 0, &events, &f->reported));
    assert_true(restart_directory_is(NULL, "/", "tmp"));
    assert_false(restart_directory_is(NULL, "/srv/shop", "tmp"));
    f->directory = restart_directory_add(f->watch, "/", f->root, 0, &events, &f->reported);
    assert_non_null(f->directory);
    assert_true(restart_directory_is(f->directory, "/elsewhere", f->root));
    assert_false(restart_directory_is(f->directory, f->root, "tmp"));
}

static void a_directory_may_end_while_it_is_checked(void **state)
{
    struct fixture *f = *state;

    make_directory(f, "tmp");
    touch(f, "tmp/always_restart.txt");
    for (int i = 0; i < 50; ++i) {
        watch(f, 0);
        restart_directory_remove(f->directory);
    }
    watch(f, restart_now_ns());
    await_one_shot(f, true);
    assert_int_equal(f->reported.changes, 1);
    restart_directory_remove(f->directory);
    watch(f, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_file_that_comes_or_is_touched_restarts),
        TEST(a_file_that_was_there_at_the_start_does_not),
        TEST(a_file_that_is_newer_than_the_oldest_process_does),
        TEST(a_file_of_the_future_does_not_restart_at_each_start),
        cmocka_unit_test_setup_teardown(the_first_touch_restarts_at_once_and_many_after_it_wait,
                                        set_up_patient, tear_down),
        TEST(touches_after_a_restart_are_one_more),
        TEST(another_file_in_its_place_restarts_however_old_it_is),
        TEST(a_file_that_is_away_for_a_moment_is_the_same),
        TEST(each_process_serves_one_request_while_the_file_is_there),
        TEST(a_directory_may_come_and_go),
        TEST(a_link_that_leads_elsewhere_is_found_by_the_poll),
        TEST(a_directory_open_to_all_does_not_count_until_it_is_closed),
        TEST(a_path_that_is_not_a_file_does_not_count),
        TEST(applications_may_share_directories),
        TEST(the_host_s_own_directory_is_not_owned),
        TEST(a_directory_may_end_while_it_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
