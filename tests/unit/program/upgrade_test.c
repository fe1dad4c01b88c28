/* SPDX-License-Identifier: Apache-2.0
 *
 * The old process is the test, the new one the same program again, which does what its argument
 * says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/net/packet.h"
#include "common/program/daemon.h"
#include "common/program/inherited.h"
#include "common/program/upgrade.h"
#include "tests/support/log_capture.h"
#include "tests/support/wait_limit.h"

/* ---- the new process ---- */

enum { PASSED_NUMBER = 5 };

static int serve(struct inherited *h, struct loop *l, const struct inherited_events *events)
{
    struct addr any;
    struct text text = {0};

    if (!inherited_take_over(h))
        return 1;
    if (addr_parse(SLICE_LIT("127.0.0.1:0"), &any) != ERR_OK ||
        inherited_take_socket(h, &any, "site", PASSED_NUMBER) < 0 ||
        !inherited_take_text(h, "resume", "site", PASSED_NUMBER, &text) || text.len != 5)
        return 2;
    text_fini(&text);
    inherited_ready(&h, l, events, l);
    loop_run(l);
    return 0;
}

static void on_message(void *context, const char *op)
{
    (void)context;
    if (strcmp(op, "crash") == 0)
        raise(SIGKILL);
}

static void on_gone(void *context)
{
    loop_stop(context);
}

/* "serve": until the old process closes the channel. */
static int new_process(const char *what)
{
    static const struct inherited_events events = {on_message, on_gone};
    struct inherited *h;

    if (strcmp(what, "exit") == 0)
        return 7;
    if (strcmp(what, "hang") == 0)
        pause();
    if (!inherited_begin(&h))
        return 3;
    if (strcmp(what, "babble") == 0) {
        inherited_ready(&h, NULL, NULL, NULL);
        pause();
    }
    return serve(h, loop_create(0), &events);
}

/* ---- the old process ---- */

struct fixture {
    struct loop *loop;
    struct upgrade upgrade;
    struct log_capture log;
    const char *rejection, *message; /* message: that tick() sends after the hand-over */
    int listener, unwritten;         /* unwritten: ticks until all is written */
    int passed, released, drained, resumed, resumed_draining;
};

static const char *reject(void *context)
{
    struct fixture *f = context;

    return f->rejection;
}

static void pass(void *context, struct upgrade *u)
{
    struct fixture *f = context;

    ++f->passed;
    upgrade_pass(u, "socket", "site", PASSED_NUMBER, f->listener);
}

static bool written(void *context)
{
    struct fixture *f = context;

    return f->unwritten-- <= 0;
}

static void release(void *context, struct upgrade *u)
{
    struct fixture *f = context;

    ++f->released;
    assert_int_equal(u->stage, UPGRADE_HANDING_OVER);
    upgrade_pass_text(u, "resume", "site", PASSED_NUMBER, SLICE_LIT("12345"));
}

static void drain(void *context)
{
    struct fixture *f = context;

    ++f->drained;
    assert_int_equal(f->upgrade.stage, UPGRADE_HANDED_OVER);
}

static void resume(void *context, bool draining)
{
    struct fixture *f = context;

    ++f->resumed;
    f->resumed_draining += draining;
    assert_int_equal(f->upgrade.stage, UPGRADE_NONE);
}

static void tick(void *context, struct upgrade *u)
{
    struct fixture *f = context;

    if (u->stage == UPGRADE_HANDED_OVER && f->message != NULL) {
        upgrade_pass(u, f->message, NULL, 0, -1);
        f->message = NULL;
    }
}

static const struct upgrade_ops ops = {.reject = reject,
                                       .pass = pass,
                                       .written = written,
                                       .release = release,
                                       .drain = drain,
                                       .resume = resume,
                                       .tick = tick};

static int setup(void **state)
{
    const struct addr_listen_options o = {0};
    struct fixture *f = xcalloc(1, sizeof(*f));
    struct addr a;

    f->loop = loop_create(0);
    upgrade_init(&f->upgrade, f->loop, &ops, f);
    if (addr_parse(SLICE_LIT("127.0.0.1:0"), &a) != ERR_OK ||
        addr_listen(&a, &o, &f->listener) != ERR_OK)
        return -1;
    log_capture_start(&f->log);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    upgrade_fini(&f->upgrade);
    loop_destroy(f->loop);
    close(f->listener);
    free(f);
    return 0;
}

static void begin(struct fixture *f, const char *what, uint64_t timeout_ms)
{
    char *const argv[] = {program_invocation_name, (char *)(uintptr_t)what, NULL};
    const struct upgrade_options o = {
        .argv = argv, .nofile = daemon_descriptors(), .timeout_ms = timeout_ms};

    upgrade_begin(&f->upgrade, &o);
}

static void turn_until(struct fixture *f, enum upgrade_stage stage)
{
    uint64_t end = loop_now_ms(f->loop) + WAIT_LIMIT_MS;

    while (f->upgrade.stage != stage && loop_now_ms(f->loop) < end)
        loop_turn(f->loop, 10);
    assert_int_equal(f->upgrade.stage, stage);
}

static void assert_logged(struct fixture *f, const char *what)
{
    const char *log = log_capture_end(&f->log);

    if (strstr(log, what) == NULL)
        fail_msg("\"%s\" is not in: %s", what, log);
}

/* Failed before anything was released. */
static void assert_as_before(struct fixture *f, const char *logged)
{
    turn_until(f, UPGRADE_NONE);
    assert_logged(f, logged);
    assert_int_equal(f->released + f->drained + f->resumed, 0);
}

static void the_new_process_gets_all_and_the_old_one_drains(void **state)
{
    struct fixture *f = *state;

    f->unwritten = 3;
    begin(f, "serve", WAIT_LIMIT_MS);
    assert_int_equal(f->upgrade.stage, UPGRADE_STARTING);
    assert_int_equal(f->passed, 1);
    turn_until(f, UPGRADE_HANDED_OVER);
    assert_true(f->unwritten < 0);
    assert_int_equal(f->released, 1);
    assert_int_equal(f->drained, 1);
    assert_int_equal(f->resumed, 0);
    assert_logged(f, "upgrade-stage stage=\"handed over\"");
}

static void a_new_process_that_exits_changes_nothing(void **state)
{
    struct fixture *f = *state;

    begin(f, "exit", WAIT_LIMIT_MS);
    assert_as_before(f, "stage=\"starting\" reason=\"the new process exited, see its messages\" "
                        "how=\"exit 7\"");
}

static void a_new_process_that_hangs_is_killed(void **state)
{
    struct fixture *f = *state;

    begin(f, "hang", 1);
    assert_as_before(f, "reason=\"not ready in time\" how=\"signal 9\"");
}

static void a_new_process_that_sends_unexpected_messages_is_killed(void **state)
{
    struct fixture *f = *state;

    begin(f, "babble", WAIT_LIMIT_MS);
    assert_as_before(f, "reason=\"unexpected message from the new process\" how=\"signal 9\"");
}

static void a_shutdown_ends_one_that_is_not_ready(void **state)
{
    struct fixture *f = *state;

    upgrade_abandon(&f->upgrade);
    begin(f, "hang", WAIT_LIMIT_MS);
    upgrade_abandon(&f->upgrade);
    assert_as_before(f, "reason=\"shutdown requested\" how=\"signal 9\"");
}

static void the_old_process_resumes_when_the_new_one_dies_meanwhile(void **state)
{
    struct fixture *f = *state;

    f->message = "crash";
    begin(f, "serve", WAIT_LIMIT_MS);
    turn_until(f, UPGRADE_HANDED_OVER);
    upgrade_abandon(&f->upgrade);
    assert_int_equal(f->upgrade.stage, UPGRADE_HANDED_OVER);
    turn_until(f, UPGRADE_NONE);
    assert_int_equal(f->resumed, 1);
    assert_int_equal(f->resumed_draining, 1);
    assert_logged(f, "upgrade-failed stage=\"handed over\" reason=\"signal 9\"");
}

static void an_upgrade_is_ignored_beside_another_or_when_rejected(void **state)
{
    struct fixture *f = *state;

    f->rejection = "not now";
    begin(f, "hang", WAIT_LIMIT_MS);
    assert_int_equal(f->upgrade.stage, UPGRADE_NONE);
    f->rejection = NULL;
    begin(f, "hang", WAIT_LIMIT_MS);
    pid_t pid = f->upgrade.program.pid;
    begin(f, "hang", WAIT_LIMIT_MS);
    assert_int_equal(f->upgrade.program.pid, pid);
    assert_int_equal(f->passed, 1);
    upgrade_abandon(&f->upgrade);
    const char *log = log_capture_end(&f->log);
    assert_non_null(strstr(log, "upgrade-ignored reason=\"not now\""));
    assert_non_null(strstr(log, "upgrade-ignored reason=\"an upgrade is in progress\""));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(the_new_process_gets_all_and_the_old_one_drains),
        TEST(a_new_process_that_exits_changes_nothing),
        TEST(a_new_process_that_hangs_is_killed),
        TEST(a_new_process_that_sends_unexpected_messages_is_killed),
        TEST(a_shutdown_ends_one_that_is_not_ready),
        TEST(the_old_process_resumes_when_the_new_one_dies_meanwhile),
        TEST(an_upgrade_is_ignored_beside_another_or_when_rejected),
    };

    if (argc > 1)
        return new_process(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
