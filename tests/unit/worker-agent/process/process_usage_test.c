/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests with real processes: each carries out commands of one byte and responds with one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/support/wait_limit.h"
#include "worker-agent/process/process_usage.h"

enum { INTERVAL_MS = 20, MEMORY = 32 << 20 };

struct fixture {
    struct loop *loop;
    struct process_usage *usage;
};

struct process {
    struct usage_target target;
    pid_t pid;
    int to, from;
    unsigned over;
    struct process *stops; /* when it is over its limit */
};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    f->loop = loop_create(0);
    f->usage = process_usage_create(f->loop, "/proc", INTERVAL_MS);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    process_usage_destroy(f->usage);
    loop_destroy(f->loop);
    free(f);
    return 0;
}

/* ---- what the processes do ---- */

static void use_processor(void)
{
    clock_t until = clock() + CLOCKS_PER_SEC * 3 / 10;

    while (clock() < until)
        continue;
}

static void use_memory(int flags)
{
    char *p = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        _exit(1);
    memset(p, 1, MEMORY);
}

/* A failed test leaves no process behind. */
static bool child(void)
{
    if (fork() != 0)
        return false;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return true;
}

static void have_child(bool escapes, int flags)
{
    int ends[2];
    char byte;

    if (pipe(ends) != 0)
        _exit(1);
    if (child()) {
        if (escapes)
            setsid();
        use_memory(flags);
        if (write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    if (read(ends[0], &byte, 1) != 1)
        _exit(1);
}

static no_return void serve(int in, int out)
{
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    while (read(in, &byte, 1) == 1) {
        if (byte == 'p')
            use_processor();
        else if (byte == 'm')
            use_memory(MAP_PRIVATE);
        else if (byte == 's')
            use_memory(MAP_SHARED);
        else if (byte == 'c')
            have_child(false, MAP_PRIVATE);
        else if (byte == 'e')
            have_child(true, MAP_PRIVATE);
        else if (byte == 'f' && child())
            for (;;)
                pause();
        if (write(out, &byte, 1) != 1)
            break;
    }
    _exit(0);
}

static void tell(struct process *p, char what)
{
    char byte;

    assert_int_equal(write(p->to, &what, 1), 1);
    assert_int_equal(read(p->from, &byte, 1), 1);
}

static void on_over(struct usage_target *t)
{
    struct process *p = container_of(t, struct process, target);

    ++p->over;
    if (p->stops != NULL)
        usage_stop(&p->stops->target);
}

static void start(struct fixture *f, struct process *p)
{
    int to[2];
    int from[2];

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    *p = (struct process){.to = to[1], .from = from[0], .target = {.over = on_over}};
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        close(to[1]);
        close(from[0]);
        serve(to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    setpgid(p->pid, p->pid);
    tell(p, '-');
    usage_start(f->usage, &p->target, p->pid);
}

static void end(struct process *p)
{
    usage_stop(&p->target);
    close(p->to);
    close(p->from);
    /* Its group; one that has escaped has it as parent until then. */
    kill(-p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
}

/* ---- waiting ---- */

static void turn_until(struct fixture *f, bool (*condition)(const struct process *p),
                       const struct process *p)
{
    uint64_t until_us = clock_mono_us() + WAIT_LIMIT_MS * 1000;

    while (!condition(p) && clock_mono_us() < until_us)
        loop_turn(f->loop, 10);
    assert_true(condition(p));
}

static bool is_known(const struct process *p)
{
    return p->target.usage.known;
}

static bool was_over(const struct process *p)
{
    return p->over > 0;
}

/* Some samples that began after this. */
static void samples(struct fixture *f, struct process *p)
{
    for (int i = 0; i < 3; ++i) {
        p->target.usage.known = false;
        turn_until(f, is_known, p);
    }
}

/* ---- tests ---- */

static void processor_memory_and_children_are_counted(void **state)
{
    struct fixture *f = *state;
    static struct process p;

    start(f, &p);
    samples(f, &p);
    uint64_t before_us = p.target.usage.cpu_us;
    uint64_t before_bytes = p.target.usage.rss_bytes;
    assert_int_equal(p.target.usage.processes, 1);
    assert_true(before_bytes > 0);
    tell(&p, 'p');
    tell(&p, 'm');
    tell(&p, 'c');
    samples(f, &p);
    assert_true(p.target.usage.cpu_us >= before_us + 200000);
    assert_true(p.target.usage.rss_bytes >= before_bytes + 2 * (uint64_t)MEMORY);
    assert_int_equal(p.target.usage.processes, 2);
    end(&p);
}

static void a_process_over_its_limit_is_reported_and_one_below_is_not(void **state)
{
    struct fixture *f = *state;
    static struct process fat;
    static struct process slim;

    start(f, &fat);
    start(f, &slim);
    fat.target.limit_bytes = slim.target.limit_bytes = MEMORY;
    samples(f, &fat);
    assert_int_equal(fat.over, 0);
    tell(&fat, 'm');
    tell(&fat, 'm');
    turn_until(f, was_over, &fat);
    assert_true(fat.target.usage.pss_bytes > MEMORY);
    samples(f, &slim);
    assert_int_equal(slim.over, 0);
    fat.target.limit_bytes = 0;
    samples(f, &fat);
    fat.over = 0;
    samples(f, &fat);
    assert_int_equal(fat.over, 0);
    end(&fat);
    end(&slim);
}

static void children_count_against_the_limit_also_those_that_left_the_group(void **state)
{
    struct fixture *f = *state;
    static struct process p;

    start(f, &p);
    tell(&p, 'e');
    p.target.limit_bytes = 1;
    samples(f, &p);
    assert_int_equal(p.target.usage.processes, 2);
    assert_true(p.target.usage.pss_bytes > MEMORY);
    p.target.limit_bytes = p.target.usage.pss_bytes + MEMORY / 2;
    samples(f, &p);
    p.over = 0;
    samples(f, &p);
    assert_int_equal(p.over, 0);
    tell(&p, 'c');
    turn_until(f, was_over, &p);
    end(&p);
}

static void memory_that_processes_share_counts_once(void **state)
{
    struct fixture *f = *state;
    static struct process p;

    start(f, &p);
    p.target.limit_bytes = 2 * (uint64_t)MEMORY;
    tell(&p, 's');
    for (int i = 0; i < 4; ++i)
        tell(&p, 'f');
    samples(f, &p);
    assert_int_equal(p.target.usage.processes, 5);
    assert_int_equal(p.over, 0);
    /* A forked child has mapped only what it has touched: the limit may not have been in doubt. */
    assert_true(p.target.usage.pss_bytes < 2 * (uint64_t)MEMORY);
    end(&p);
}

static void a_pid_that_another_process_has_now_has_no_owner(void **state)
{
    struct fixture *f = *state;
    static struct process p;
    static struct process other;

    start(f, &p);
    start(f, &other);
    tell(&p, 'm');
    p.target.limit_bytes = 1;
    p.target.start_ticks += 1;
    samples(f, &other);
    assert_false(p.target.usage.known);
    assert_int_equal(p.over, 0);
    end(&p);
    end(&other);
}

static void a_process_that_has_exited_keeps_its_last_figures(void **state)
{
    struct fixture *f = *state;
    static struct process p;
    static struct process other;
    static struct usage_target gone = {.over = on_over};

    start(f, &p);
    start(f, &other);
    samples(f, &p);
    uint64_t bytes = p.target.usage.rss_bytes;
    kill(p.pid, SIGKILL);
    waitpid(p.pid, NULL, 0);
    samples(f, &other);
    assert_int_equal(p.target.usage.rss_bytes, bytes);
    usage_start(f->usage, &gone, p.pid);
    samples(f, &other);
    assert_false(gone.usage.known);
    usage_stop(&gone);
    end(&p);
    end(&other);
}

static void targets_may_be_stopped_at_any_time(void **state)
{
    struct fixture *f = *state;
    static struct process a;
    static struct process b;

    start(f, &a);
    start(f, &b);
    a.target.limit_bytes = b.target.limit_bytes = 1;
    a.stops = &b;
    b.stops = &a;
    turn_until(f, was_over, a.pid < b.pid ? &a : &b);
    assert_int_equal(a.over + b.over, 1);
    for (int i = 0; i < 20; ++i) {
        usage_stop(&a.target);
        usage_stop(&b.target);
        usage_start(f->usage, &a.target, a.pid);
        loop_turn(f->loop, 5);
    }
    process_usage_set_interval(f->usage, 1);
    a.stops = NULL;
    samples(f, &a);
    end(&a);
    end(&b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(processor_memory_and_children_are_counted),
        TEST(a_process_over_its_limit_is_reported_and_one_below_is_not),
        TEST(children_count_against_the_limit_also_those_that_left_the_group),
        TEST(memory_that_processes_share_counts_once),
        TEST(a_pid_that_another_process_has_now_has_no_owner),
        TEST(a_process_that_has_exited_keeps_its_last_figures),
        TEST(targets_may_be_stopped_at_any_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
