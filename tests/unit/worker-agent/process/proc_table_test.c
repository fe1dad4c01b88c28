/* SPDX-License-Identifier: Apache-2.0
 *
 * Over directories that look like /proc, with what a real one shows seldom.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker-agent/process/proc_table.h"

static char proc[64];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at)
{
    (void)st;
    (void)flag;
    (void)at;
    return remove(path);
}

static int make_proc(void **state)
{
    (void)state;
    snprintf(proc, sizeof(proc), RLB_TEST_DIR "/rlb-proc-XXXXXX");
    return mkdtemp(proc) != NULL ? 0 : -1;
}

static int remove_proc(void **state)
{
    (void)state;
    return nftw(proc, remove_one, 10, FTW_DEPTH | FTW_PHYS);
}

static void write_file(int pid, const char *name, const char *bytes, size_t len)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/%d", proc, pid);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%d/%s", proc, pid, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

struct shown {
    int pid, ppid, pgrp, session;
    const char *name; /* NULL: "(x)" */
    char state;       /* 0: S */
    unsigned start;   /* 0: 1000 + pid */
};

static void show(struct shown p)
{
    char line[600];

    int n = snprintf(line, sizeof(line),
                     "%d (%s) %c %d %d %d 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0 %u 99999 7 "
                     "18446744073709551615 1 1 0 0\n",
                     p.pid, p.name != NULL ? p.name : "x", p.state != 0 ? p.state : 'S', p.ppid,
                     p.pgrp, p.session, p.start != 0 ? p.start : 1000 + (unsigned)p.pid);
    write_file(p.pid, "stat", line, (size_t)n);
}

static struct proc_entry entry(const struct proc_table *t, pid_t pid)
{
    for (size_t i = 0; i < t->n; ++i) {
        if (t->items[i].pid == pid)
            return t->items[i];
    }
    fail_msg("no process %d", (int)pid);
    return (struct proc_entry){.pid = pid};
}

static void a_line_is_read_whatever_the_name_is(void **state)
{
    static const char *const names[] = {"x", "", ") R 1 1 1", "a b\nc)", "((((", "\xff\x01"};
    struct proc_table t = {0};

    (void)state;
    for (int i = 0; i < (int)ARRAY_LEN(names); ++i)
        show((struct shown){.pid = 100 + i, .ppid = 7, .pgrp = 8, .session = 9, .name = names[i]});
    assert_true(proc_table_read(&t, proc));
    assert_int_equal(t.n, ARRAY_LEN(names));
    for (size_t i = 0; i < t.n; ++i) {
        assert_int_equal(t.items[i].pid, 100 + i);
        assert_int_equal(t.items[i].ppid, 7);
        assert_int_equal(t.items[i].pgrp, 8);
        assert_int_equal(t.items[i].session, 9);
        assert_int_equal(t.items[i].cpu_ticks, 4330);
        assert_int_equal(t.items[i].start_ticks, 1100 + i);
        assert_int_equal(t.items[i].rss_bytes, 7 * sysconf(_SC_PAGESIZE));
    }
    proc_table_fini(&t);
}

static void an_invalid_line_of_a_process_is_left_out(void **state)
{
    static const char *const bad[] = {
        "",
        "1",
        "1 (x",
        "1 (x)",
        "1 (x) ",
        "1 (x)S 1 1 1 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0 5 99999 7 1\n",
        "1 (x) S 1 1 1 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0 5 99999\n",
        "1 (x) S 1 -1 1 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0 5 99999 7 1\n",
        "1 (x) S 1 1 1 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0 0x5 99999 7 1\n",
        ("1 (x) S 1 1 1 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0 5 99999 "
         "99999999999999999999 1\n"),
        "1 (x) S 4294967296 1 1 0 -1 4194560 1 2 3 4 10 20 300 4000 20 0 1 0 5 99999 7 1\n",
    };
    struct proc_table t = {0};
    struct proc_entry e;
    char path[200];

    (void)state;
    for (int i = 0; i < (int)ARRAY_LEN(bad); ++i)
        write_file(1 + i, "stat", bad[i], strlen(bad[i]));
    write_file(50, "stat", "\0\0\0\0", 4);
    snprintf(path, sizeof(path), "%s/meminfo", proc);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/60", proc);
    assert_int_equal(mkdir(path, 0700), 0);
    show((struct shown){.pid = 70});
    assert_true(proc_table_read(&t, proc));
    assert_int_equal(t.n, 1);
    assert_int_equal(t.items[0].pid, 70);
    assert_false(proc_entry_read(proc, 1, &e));
    assert_true(proc_entry_read(proc, 70, &e));
    assert_false(proc_table_read(&t, "/nonexistent"));
    assert_int_equal(t.n, 0);
    proc_table_fini(&t);
}

static void a_root_has_its_group_its_session_and_its_descendants(void **state)
{
    struct proc_root roots[] = {{.pid = 10, .start_ticks = 1010}, {.pid = 20, .start_ticks = 1020}};
    struct proc_table t = {0};

    (void)state;
    show((struct shown){.pid = 1, .pgrp = 1, .session = 1});
    show((struct shown){.pid = 10, .ppid = 1, .pgrp = 10, .session = 1});
    show((struct shown){.pid = 20, .ppid = 1, .pgrp = 20, .session = 1});
    show((struct shown){.pid = 11, .ppid = 10, .pgrp = 10, .session = 1}); /* an ordinary child */
    show((struct shown){.pid = 12, .ppid = 1, .pgrp = 10, .session = 1});  /* its parent has died */
    show((struct shown){.pid = 9, .ppid = 11, .pgrp = 9, .session = 9});   /* setsid, lower pid */
    show((struct shown){.pid = 8, .ppid = 9, .pgrp = 8, .session = 8});
    show((struct shown){.pid = 30, .ppid = 1, .pgrp = 30, .session = 20});
    show((struct shown){.pid = 40, .ppid = 1, .pgrp = 40, .session = 1});
    show((struct shown){.pid = 41, .ppid = 40, .pgrp = 40, .session = 1});
    assert_true(proc_table_read(&t, proc));
    proc_table_own(&t, roots, ARRAY_LEN(roots));
    assert_int_equal(entry(&t, 1).root, PROC_NO_ROOT);
    assert_int_equal(entry(&t, 10).root, 0);
    assert_int_equal(entry(&t, 20).root, 1);
    assert_int_equal(entry(&t, 11).root, 0);
    assert_int_equal(entry(&t, 12).root, 0);
    assert_int_equal(entry(&t, 9).root, 0);
    assert_int_equal(entry(&t, 8).root, 0);
    assert_int_equal(entry(&t, 30).root, 1);
    assert_int_equal(entry(&t, 40).root, PROC_NO_ROOT);
    assert_int_equal(entry(&t, 41).root, PROC_NO_ROOT);
    proc_table_fini(&t);
}

static void a_stranger_that_has_a_root_s_pid_is_not_the_root(void **state)
{
    struct proc_root roots[] = {{.pid = 10, .start_ticks = 5}, {.pid = 20, .start_ticks = 1020}};
    struct proc_table t = {0};

    (void)state;
    show((struct shown){.pid = 10, .ppid = 1, .pgrp = 10, .session = 10});
    show((struct shown){.pid = 11, .ppid = 10, .pgrp = 10, .session = 10});
    assert_true(proc_table_read(&t, proc));
    proc_table_own(&t, roots, ARRAY_LEN(roots));
    assert_false(roots[0].there);
    assert_false(roots[1].there);
    assert_int_equal(entry(&t, 10).root, PROC_NO_ROOT);
    assert_int_equal(entry(&t, 11).root, PROC_NO_ROOT);
    proc_table_own(&t, roots, 0);
    assert_int_equal(entry(&t, 10).root, PROC_NO_ROOT);
    proc_table_fini(&t);
}

static void parents_in_a_circle_belong_to_none(void **state)
{
    struct proc_root roots[] = {{.pid = 99, .start_ticks = 1099}};
    struct proc_table t = {0};

    (void)state;
    /* Read at different moments, a table may say that. */
    show((struct shown){.pid = 5, .ppid = 6, .pgrp = 1, .session = 1});
    show((struct shown){.pid = 6, .ppid = 5, .pgrp = 1, .session = 1});
    show((struct shown){.pid = 7, .ppid = 7, .pgrp = 1, .session = 1});
    for (int i = 0; i < 1000; ++i)
        show((struct shown){.pid = 1000 + i, .ppid = 999 + i, .pgrp = 1, .session = 1});
    show((struct shown){.pid = 99, .ppid = 1, .pgrp = 99, .session = 1});
    show((struct shown){.pid = 999, .ppid = 99, .pgrp = 1, .session = 1});
    assert_true(proc_table_read(&t, proc));
    proc_table_own(&t, roots, 1);
    assert_int_equal(entry(&t, 5).root, PROC_NO_ROOT);
    assert_int_equal(entry(&t, 6).root, PROC_NO_ROOT);
    assert_int_equal(entry(&t, 7).root, PROC_NO_ROOT);
    assert_int_equal(entry(&t, 999).root, 0);
    assert_int_equal(entry(&t, 1999).root, 0);
    proc_table_fini(&t);
}

static void the_dead_are_known_as_such(void **state)
{
    struct proc_table t = {0};

    (void)state;
    show((struct shown){.pid = 5, .state = 'Z'});
    show((struct shown){.pid = 6, .state = 'R'});
    assert_true(proc_table_read(&t, proc));
    assert_true(entry(&t, 5).zombie);
    assert_false(entry(&t, 6).zombie);
    proc_table_fini(&t);
}

static void a_share_of_memory_is_read_or_rejected(void **state)
{
    static const char good[] = "55f8-7ffe ---p 00000000 00:00 0    [rollup]\n"
                               "Rss:               21548 kB\n"
                               "Pss:               17343 kB\nPss_Dirty:   11580 kB\n";
    static const char *const bad[] = {
        "", "Pss:", "Pss: kB\n", "Pss: 99999999999999999999 kB\n", "Pss: 1 MB\n", "Rss: 1 kB\n"};
    uint64_t bytes = 0;

    (void)state;
    write_file(1, "smaps_rollup", good, sizeof(good) - 1);
    assert_true(proc_pss_read(proc, 1, &bytes));
    assert_int_equal(bytes, 17343 * 1024);
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        write_file(2, "smaps_rollup", bad[i], strlen(bad[i]));
        assert_false(proc_pss_read(proc, 2, &bytes));
    }
    assert_false(proc_pss_read(proc, 3, &bytes));
    assert_int_equal(bytes, 17343 * 1024);
}

static void the_real_one_has_ourselves(void **state)
{
    struct proc_root root = {.pid = getpid()};
    struct proc_table t = {0};
    struct proc_entry e;

    (void)state;
    assert_true(proc_entry_read("/proc", getpid(), &e));
    assert_int_equal(e.ppid, getppid());
    root.start_ticks = e.start_ticks;
    assert_true(proc_table_read(&t, "/proc"));
    proc_table_own(&t, &root, 1);
    assert_true(root.there);
    assert_int_equal(entry(&t, getpid()).root, 0);
    assert_int_equal(entry(&t, getppid()).root, PROC_NO_ROOT);
    assert_true(entry(&t, getpid()).rss_bytes > 100000);
    proc_table_fini(&t);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_proc, remove_proc)
    const struct CMUnitTest tests[] = {
        TEST(a_line_is_read_whatever_the_name_is),
        TEST(an_invalid_line_of_a_process_is_left_out),
        TEST(a_root_has_its_group_its_session_and_its_descendants),
        TEST(a_stranger_that_has_a_root_s_pid_is_not_the_root),
        TEST(parents_in_a_circle_belong_to_none),
        TEST(the_dead_are_known_as_such),
        TEST(a_share_of_memory_is_read_or_rejected),
        TEST(the_real_one_has_ourselves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
