/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker-agent/supervisor/spawner.h"

static struct list all;

/* A process in a group of its own that waits to be ended. */
static struct child *sleeper(const char *id)
{
    struct spawn_request r = {.slot = 3, .stop_timeout_ms = 100};
    struct spawned spawned = {.listen_fd = -1, .output_fd = -1, .error_fd = -1};

    spawned.pid = fork();
    assert_true(spawned.pid >= 0);
    if (spawned.pid == 0) {
        for (;;)
            pause();
    }
    setpgid(spawned.pid, spawned.pid);
    snprintf(r.id, sizeof(r.id), "%s", id);
    return child_add(&all, &r, &spawned, 1, 1000);
}

static bool lives(const struct child *p)
{
    siginfo_t si = {0};

    assert_int_equal(waitid(P_PID, (id_t)p->spawned.pid, &si, WEXITED | WNOHANG | WNOWAIT), 0);
    return si.si_pid == 0;
}

/* The signal that it died of, once it has. */
static int reap_one(struct child *p)
{
    int status = 0;

    assert_int_equal(waitpid(p->spawned.pid, &status, 0), p->spawned.pid);
    child_remove(p);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int begin(void **state)
{
    (void)state;
    list_init(&all);
    return 0;
}

static void an_idle_child_gets_sigterm_at_once(void **state)
{
    struct child *p = sleeper("a");

    (void)state;
    child_signal(p, SIGTERM);
    assert_int_equal(reap_one(p), SIGTERM);
}

static void sigterm_waits_for_the_requests_of_the_agent_before(void **state)
{
    struct child *p = sleeper("a");

    (void)state;
    child_set_busy(p, 2);
    child_signal(p, SIGTERM);
    child_set_busy(p, 1);
    assert_true(p->term_deferred);
    assert_true(lives(p));
    child_set_busy(p, 0);
    assert_int_equal(reap_one(p), SIGTERM);
}

static void sigkill_waits_for_none(void **state)
{
    struct child *p = sleeper("a");

    (void)state;
    child_set_busy(p, 1);
    child_signal(p, SIGTERM);
    child_signal(p, SIGKILL);
    assert_int_equal(reap_one(p), SIGKILL);
}

static void at_the_end_a_busy_one_has_its_stop_timeout(void **state)
{
    struct child *idle = sleeper("a");
    struct child *busy = sleeper("b");

    (void)state;
    child_set_busy(busy, 1);
    children_end_all(&all, 5000);
    assert_int_equal(reap_one(idle), SIGTERM);
    children_kill_overdue(&all, 5099);
    assert_true(lives(busy));
    children_kill_overdue(&all, 5100);
    assert_int_equal(reap_one(busy), SIGKILL);
}

static void a_child_is_found_by_id_and_by_pid(void **state)
{
    struct child *p = sleeper("a");
    json_t *m = json_pack("{s:s}", "id", "a");
    json_t *other = json_pack("{s:i}", "id", 1);

    (void)state;
    assert_ptr_equal(child_of_message(&all, m), p);
    assert_null(child_of_message(&all, other));
    assert_ptr_equal(child_of_pid(&all, p->spawned.pid), p);
    assert_null(child_of_pid(&all, 1));
    json_decref(m);
    json_decref(other);
    child_signal(p, SIGKILL);
    reap_one(p);
}

static void an_agent_gets_all_of_it(void **state)
{
    struct child *p = sleeper("a");

    (void)state;
    free(p->note);
    p->note = xstrdup("ready");
    child_set_busy(p, 4);
    json_t *m = child_message(p, 1250);
    assert_int_equal(json_integer_value(json_object_get(m, "slot")), 3);
    assert_int_equal(json_integer_value(json_object_get(m, "age_ms")), 250);
    assert_int_equal(json_integer_value(json_object_get(m, "busy")), 4);
    assert_int_equal(json_integer_value(json_object_get(m, "pid")), p->spawned.pid);
    assert_string_equal(json_string_value(json_object_get(m, "note")), "ready");
    json_decref(m);
    child_signal(p, SIGKILL);
    reap_one(p);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_idle_child_gets_sigterm_at_once),
        TEST(sigterm_waits_for_the_requests_of_the_agent_before),
        TEST(sigkill_waits_for_none),
        TEST(at_the_end_a_busy_one_has_its_stop_timeout),
        TEST(a_child_is_found_by_id_and_by_pid),
        TEST(an_agent_gets_all_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
