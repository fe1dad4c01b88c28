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

static struct kept_all all;

/* A process in a group of its own that waits to be ended. */
static struct kept *sleeper(const char *id)
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
    return kept_add(&all, &r, &spawned, 1, 1000);
}

static bool lives(const struct kept *p)
{
    siginfo_t si = {0};

    assert_int_equal(waitid(P_PID, (id_t)p->spawned.pid, &si, WEXITED | WNOHANG | WNOWAIT), 0);
    return si.si_pid == 0;
}

/* The signal that it died of, once it has. */
static int bury(struct kept *p)
{
    int status = 0;

    assert_int_equal(waitpid(p->spawned.pid, &status, 0), p->spawned.pid);
    kept_remove(&all, p);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int begin(void **state)
{
    (void)state;
    kept_init(&all);
    return 0;
}

static void one_that_is_not_busy_gets_sigterm_at_once(void **state)
{
    struct kept *p = sleeper("a");

    (void)state;
    kept_signal(p, SIGTERM);
    assert_int_equal(bury(p), SIGTERM);
}

static void sigterm_waits_for_the_requests_of_the_agent_before(void **state)
{
    struct kept *p = sleeper("a");

    (void)state;
    kept_set_busy(p, 2);
    kept_signal(p, SIGTERM);
    kept_set_busy(p, 1);
    assert_true(p->term_deferred);
    assert_true(lives(p));
    kept_set_busy(p, 0);
    assert_int_equal(bury(p), SIGTERM);
}

static void sigkill_waits_for_none(void **state)
{
    struct kept *p = sleeper("a");

    (void)state;
    kept_set_busy(p, 1);
    kept_signal(p, SIGTERM);
    kept_signal(p, SIGKILL);
    assert_int_equal(bury(p), SIGKILL);
}

static void at_the_end_a_busy_one_has_its_stop_timeout(void **state)
{
    struct kept *idle = sleeper("a");
    struct kept *busy = sleeper("b");

    (void)state;
    kept_set_busy(busy, 1);
    kept_end_all(&all, 5000);
    assert_int_equal(bury(idle), SIGTERM);
    kept_kill_overdue(&all, 5099);
    assert_true(lives(busy));
    kept_kill_overdue(&all, 5100);
    assert_int_equal(bury(busy), SIGKILL);
}

static void one_is_found_by_id_and_by_pid(void **state)
{
    struct kept *p = sleeper("a");
    json_t *m = json_pack("{s:s}", "id", "a");
    json_t *other = json_pack("{s:i}", "id", 1);

    (void)state;
    assert_ptr_equal(kept_of_message(&all, m), p);
    assert_null(kept_of_message(&all, other));
    assert_ptr_equal(kept_of_pid(&all, p->spawned.pid), p);
    assert_null(kept_of_pid(&all, 1));
    json_decref(m);
    json_decref(other);
    kept_signal(p, SIGKILL);
    bury(p);
}

static void an_agent_gets_all_of_it(void **state)
{
    struct kept *p = sleeper("a");

    (void)state;
    free(p->note);
    p->note = xstrdup("ready");
    kept_set_busy(p, 4);
    json_t *m = kept_message(p, 1250);
    assert_int_equal(json_integer_value(json_object_get(m, "slot")), 3);
    assert_int_equal(json_integer_value(json_object_get(m, "age_ms")), 250);
    assert_int_equal(json_integer_value(json_object_get(m, "busy")), 4);
    assert_int_equal(json_integer_value(json_object_get(m, "pid")), p->spawned.pid);
    assert_string_equal(json_string_value(json_object_get(m, "note")), "ready");
    json_decref(m);
    kept_signal(p, SIGKILL);
    bury(p);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_that_is_not_busy_gets_sigterm_at_once),
        TEST(sigterm_waits_for_the_requests_of_the_agent_before),
        TEST(sigkill_waits_for_none),
        TEST(at_the_end_a_busy_one_has_its_stop_timeout),
        TEST(one_is_found_by_id_and_by_pid),
        TEST(an_agent_gets_all_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
