/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line and related functions. Output is read back through a file in place of stdout or
 * stderr.
 */
#include "common/base/text.h"
#include "common/event/log_writer.h"
#include "common/program/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a program, and a run of it ---- */

static struct {
    int reads, runs, destroyed, finished;
    char file[64], option, value[64];
    char first_arg[16];
    /* While the configuration was read: */
    bool term_blocked, pipe_ignored;
    int next_descriptor;
} seen;

static void *read_configuration(const char *file, struct diag *d)
{
    sigset_t blocked;

    ++seen.reads;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &blocked), 0);
    seen.term_blocked = sigismember(&blocked, SIGTERM) == 1;
    struct sigaction pipe_action;
    assert_int_equal(sigaction(SIGPIPE, NULL, &pipe_action), 0);
    seen.pipe_ignored = pipe_action.sa_handler == SIG_IGN;
    seen.next_descriptor = open("/dev/null", O_RDONLY);
    close(seen.next_descriptor);
    snprintf(seen.file, sizeof(seen.file), "%s", file != NULL ? file : "none");
    if (file == NULL || strcmp(file, "bad.yaml") != 0)
        return &seen;
    diag_add(d, file, 3, 7, "no such thing");
    return NULL;
}

static void destroy(void *config)
{
    assert_ptr_equal(config, &seen);
    ++seen.destroyed;
}

static bool describe(const char *what, FILE *out)
{
    if (strcmp(what, "settings") != 0)
        return false;
    fputs("# Settings\n", out);
    return true;
}

static int run(void *context, void *config, const struct daemon_line *line)
{
    (void)context;
    assert_ptr_equal(config, &seen);
    snprintf(seen.first_arg, sizeof(seen.first_arg), "%s",
             line->argv[1] != NULL ? line->argv[1] : "");
    ++seen.runs;
    return 42;
}

static bool take_option(void *context, int letter, const char *value)
{
    assert_ptr_equal(context, &seen);
    seen.option = (char)letter;
    snprintf(seen.value, sizeof(seen.value), "%s", value);
    return strcmp(value, "bad") != 0;
}

static bool finish(void *context)
{
    assert_ptr_equal(context, &seen);
    ++seen.finished;
    if (strcmp(seen.value, "late") == 0)
        fputs("too late\n", stderr);
    return strcmp(seen.value, "late") != 0;
}

static const struct daemon_program strict = {.name = "testd",
                                             .summary = "does nothing",
                                             .usage = "-c FILE [-t]",
                                             .subjects = "settings",
                                             .signals = "none",
                                             .read = read_configuration,
                                             .destroy = destroy,
                                             .describe = describe,
                                             .run = run};
static const struct option more_options[] = {{"listen", required_argument, NULL, 'l'}, {0}};
static const struct daemon_program lenient = {.name = "testd",
                                              .summary = "does nothing",
                                              .usage = "[-c FILE] [-l ADDRESS]",
                                              .subjects = "settings",
                                              .signals = "none",
                                              .read = read_configuration,
                                              .destroy = destroy,
                                              .describe = describe,
                                              .run = run,
                                              .context = &seen,
                                              .letters = "l:",
                                              .options = more_options,
                                              .options_help = "  -l, --listen ADDRESS\n",
                                              .option = take_option,
                                              .finish = finish,
                                              .lenient = true};

enum { ARGS_MAX = 8, OUTPUT_MAX = 4096 };

struct run_outcome {
    int code;
    char out[OUTPUT_MAX], err[OUTPUT_MAX];
};

/* Take what was written to FILE since REPLACED stood in for descriptor FD. */
static void restore(int fd, int saved, FILE *file, char text[OUTPUT_MAX])
{
    dup2(saved, fd);
    close(saved);
    rewind(file);
    text[fread(text, 1, OUTPUT_MAX - 1, file)] = '\0';
    fclose(file);
}

static struct run_outcome outcome_of(const struct daemon_program *program, const char *a,
                                     const char *b, const char *c)
{
    char *argv[ARGS_MAX] = {xstrdup("testd"), xstrdup(a), xstrdup(b), xstrdup(c)};
    int argc = 1 + (a != NULL) + (b != NULL) + (c != NULL);
    FILE *out = tmpfile();
    FILE *err = tmpfile();
    struct run_outcome o;

    fflush(stdout);
    int saved_out = dup(STDOUT_FILENO);
    int saved_err = dup(STDERR_FILENO);
    dup2(fileno(out), STDOUT_FILENO);
    dup2(fileno(err), STDERR_FILENO);
    memset(&seen, 0, sizeof(seen));
    o.code = daemon_main(program, argc, argv);
    fflush(stdout);
    restore(STDOUT_FILENO, saved_out, out, o.out);
    restore(STDERR_FILENO, saved_err, err, o.err);
    for (int i = 0; i < argc; ++i)
        free(argv[i]);
    return o;
}

static struct run_outcome daemon_of(const char *a, const char *b, const char *c)
{
    return outcome_of(&strict, a, b, c);
}

static void a_good_configuration_is_read_once_and_run(void **state)
{
    struct run_outcome o = daemon_of("-c", "good.yaml", NULL);

    (void)state;
    assert_int_equal(o.code, 42);
    assert_int_equal(seen.reads, 1);
    assert_int_equal(seen.runs, 1);
    assert_string_equal(seen.first_arg, "-c");
    assert_string_equal(seen.file, "good.yaml");
    assert_string_equal(o.err, "");
}

static void signals_wait_for_their_handlers_from_the_first_step_of_a_start_on(void **state)
{
    (void)state;
    (void)daemon_of("-c", "good.yaml", NULL);
    assert_true(seen.term_blocked);
    (void)daemon_of("-t", "-c", "good.yaml");
    assert_false(seen.term_blocked);
}

static void a_reader_of_the_log_that_has_ended_does_not_end_a_start(void **state)
{
    (void)state;
    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    (void)daemon_of("-c", "good.yaml", NULL);
    assert_true(seen.pipe_ignored);
}

static void no_file_gets_the_number_of_a_standard_descriptor_that_was_closed(void **state)
{
    int saved = dup(STDIN_FILENO);

    (void)state;
    close(STDIN_FILENO);
    (void)daemon_of("-c", "good.yaml", NULL);
    assert_true(seen.next_descriptor > STDERR_FILENO);
    dup2(saved, STDIN_FILENO);
    close(saved);
}

static void a_bad_configuration_is_reported_with_its_places_and_not_run(void **state)
{
    struct run_outcome o = daemon_of("--config", "bad.yaml", NULL);

    (void)state;
    assert_int_equal(o.code, 1);
    assert_int_equal(seen.runs, 0);
    assert_string_equal(
        o.err, "bad.yaml:3:7: no such thing\nbad.yaml: configuration is invalid (1 problem)\n");
}

static void testing_a_configuration_does_not_run_it(void **state)
{
    struct run_outcome good = daemon_of("-t", "-c", "good.yaml");
    int runs = seen.runs;
    int destroyed = seen.destroyed;
    struct run_outcome bad = daemon_of("-t", "-cbad.yaml", NULL);

    (void)state;
    assert_int_equal(good.code, 0);
    assert_int_equal(destroyed, 1);
    assert_string_equal(good.err, "good.yaml: configuration is valid\n");
    assert_int_equal(bad.code, 1);
    assert_int_equal(runs + seen.runs, 0);
}

static void wrong_usage_is_exit_2_with_the_usage(void **state)
{
    const char *wrong[][3] = {
        {NULL, NULL, NULL},
        {"-t", NULL, NULL},
        {"-c", NULL, NULL},
        {"-x", NULL, NULL},
        {"-d", "settings", NULL},
        {"-c", "good.yaml", "more"},
        {"--describe", "nonsense", NULL},
        {"--describe", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); ++i) {
        struct run_outcome o = daemon_of(wrong[i][0], wrong[i][1], wrong[i][2]);
        assert_int_equal(o.code, 2);
        assert_non_null(strstr(o.err, "usage: testd -c FILE"));
        assert_string_equal(o.out, "");
        assert_int_equal(seen.runs, 0);
    }
}

static void version_help_and_manual_pages_go_to_stdout(void **state)
{
    struct run_outcome version = daemon_of("-v", NULL, NULL);
    struct run_outcome help = daemon_of("--help", NULL, NULL);
    struct run_outcome page = daemon_of("--describe", "settings", NULL);

    (void)state;
    assert_int_equal(version.code, 0);
    assert_memory_equal(version.out, "testd ", 6);
    assert_true(version.out[6] >= '0' && version.out[6] <= '9');
    assert_int_equal(help.code, 0);
    assert_non_null(strstr(help.out, "does nothing"));
    assert_int_equal(page.code, 0);
    assert_string_equal(page.out, "# Settings\n");
}

static void a_lenient_program_needs_no_configuration(void **state)
{
    struct run_outcome o = outcome_of(&lenient, "-l", "here", NULL);

    (void)state;
    assert_int_equal(o.code, 42);
    assert_string_equal(seen.file, "none");
    assert_int_equal(seen.option, 'l');
    assert_string_equal(seen.value, "here");
    assert_int_equal(seen.finished, 1);
    o = outcome_of(&lenient, "--listen=there", "-t", NULL);
    assert_int_equal(o.code, 0);
    assert_string_equal(seen.value, "there");
    assert_string_equal(o.err, "defaults: configuration is valid\n");
    o = outcome_of(&lenient, "--describe", "settings", "-x");
    assert_int_equal(o.code, 0);
}

static void a_configuration_without_its_option_is_an_error_of_every_program(void **state)
{
    struct run_outcome o = outcome_of(&lenient, "file.yaml", NULL, NULL);

    (void)state;
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "unexpected argument \"file.yaml\" (the configuration is given "
                                  "by -c FILE)\n"));
    assert_int_equal(seen.reads, 0);
    o = outcome_of(&strict, "file.yaml", NULL, NULL);
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "unexpected argument \"file.yaml\""));
}

static void wrong_options_of_a_lenient_program_are_exit_1(void **state)
{
    struct run_outcome o = outcome_of(&lenient, "-l", "bad", NULL);

    (void)state;
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "usage: testd [-c FILE] [-l ADDRESS]"));
    o = outcome_of(&lenient, "-l", "late", "-t");
    assert_int_equal(o.code, 1);
    assert_string_equal(o.err, "too late\n");
    assert_int_equal(seen.reads, 0);
    o = outcome_of(&lenient, "-x", NULL, NULL);
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(outcome_of(&lenient, "-h", NULL, NULL).out, "-l, --listen ADDRESS"));
}

/* ---- signals ---- */

struct signals_seen {
    struct loop *loop;
    int term, interrupt, hup, child;
};

static void on_term(void *context)
{
    ++((struct signals_seen *)context)->term;
}

static void on_int(void *context)
{
    ++((struct signals_seen *)context)->interrupt;
}

static void on_hup(void *context)
{
    ++((struct signals_seen *)context)->hup;
}

static void on_child(void *context)
{
    ++((struct signals_seen *)context)->child;
}

static void each_signal_reaches_its_handler_on_the_loop(void **state)
{
    struct signals_seen s = {.loop = loop_create(0)};
    struct daemon_signals handlers = {.on_term = on_term,
                                      .on_int = on_int,
                                      .on_hup = on_hup,
                                      .on_child = on_child,
                                      .context = &s};
    const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};

    (void)state;
    daemon_prepare();
    struct daemon_watch *w = daemon_signals_start(s.loop, &handlers);
    for (size_t i = 0; i < ARRAY_LEN(signals); ++i)
        kill(getpid(), signals[i]);
    while (s.term + s.interrupt + s.hup + s.child < 4)
        loop_turn(s.loop, 1000);
    assert_int_equal(s.term, 1);
    assert_int_equal(s.interrupt, 1);
    assert_int_equal(s.hup, 1);
    assert_int_equal(s.child, 1);
    daemon_signals_stop(w);
    log_writer_stop();
    loop_destroy(s.loop);
}

static void preparing_ignores_sigpipe_and_raises_the_descriptor_limit(void **state)
{
    struct rlimit limit;
    int fds[2];

    (void)state;
    daemon_prepare();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_cur == limit.rlim_max);
    assert_int_equal(pipe(fds), 0);
    close(fds[0]);
    assert_int_equal(write(fds[1], "x", 1), -1); /* and we are still here */
    close(fds[1]);
}

/* ---- notification ---- */

/* A bound datagram socket; its NOTIFY_SOCKET form goes to NAME. */
static int manager_socket(bool abstract, char name[108])
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (abstract)
        snprintf(name, 108, "@rlb-notify-%d", (int)getpid());
    else
        snprintf(name, 108, RLB_TEST_DIR "/rlb-notify-%d", (int)getpid());
    strcpy(sa.sun_path, name);
    size_t len = offsetof(struct sockaddr_un, sun_path) + strlen(name) + (abstract ? 0 : 1);
    if (abstract)
        sa.sun_path[0] = '\0';
    else
        unlink(name);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, (socklen_t)len), 0);
    return fd;
}

static void notifications_reach_paths_and_abstract_sockets(void **state)
{
    (void)state;
    for (int abstract = 0; abstract < 2; ++abstract) {
        char name[108];
        char got[32] = "";
        int fd = manager_socket(abstract, name);
        setenv("NOTIFY_SOCKET", name, 1);
        daemon_notify("READY=1");
        assert_int_equal(recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT), 7);
        assert_string_equal(got, "READY=1");
        close(fd);
        unlink(name);
    }
}

static void without_a_usable_notify_socket_nothing_is_sent_or_left_open(void **state)
{
    char name[108];
    char too_long[256];
    char got[32];
    int fd = manager_socket(false, name);
    int next_fd = dup(fd);

    (void)state;
    close(next_fd);
    unsetenv("NOTIFY_SOCKET");
    daemon_notify("READY=1");
    /* Cut to what fits, this would be the manager's. */
    memset(too_long, '/', sizeof(too_long));
    memcpy(too_long + 107 - strlen(name), name, strlen(name));
    strcpy(too_long + 107, "x");
    const char *bad[] = {"", "/", "@", "relative", "/nowhere/at/all", too_long};
    for (size_t i = 0; i < ARRAY_LEN(bad); ++i) {
        setenv("NOTIFY_SOCKET", bad[i], 1);
        daemon_notify("READY=1");
    }
    unsetenv("NOTIFY_SOCKET");
    assert_int_equal(recv(fd, got, sizeof(got), MSG_DONTWAIT), -1);
    assert_int_equal(dup(fd), next_fd);
    close(next_fd);
    close(fd);
    unlink(name);
}

static void random_ids_are_hex_and_differ(void **state)
{
    char a[33];
    char b[33];

    (void)state;
    daemon_random_id(a);
    daemon_random_id(b);
    assert_int_equal(strlen(a), 32);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_string_not_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_configuration_is_read_once_and_run),
        cmocka_unit_test(signals_wait_for_their_handlers_from_the_first_step_of_a_start_on),
        cmocka_unit_test(a_reader_of_the_log_that_has_ended_does_not_end_a_start),
        cmocka_unit_test(no_file_gets_the_number_of_a_standard_descriptor_that_was_closed),
        cmocka_unit_test(a_bad_configuration_is_reported_with_its_places_and_not_run),
        cmocka_unit_test(testing_a_configuration_does_not_run_it),
        cmocka_unit_test(wrong_usage_is_exit_2_with_the_usage),
        cmocka_unit_test(version_help_and_manual_pages_go_to_stdout),
        cmocka_unit_test(a_lenient_program_needs_no_configuration),
        cmocka_unit_test(a_configuration_without_its_option_is_an_error_of_every_program),
        cmocka_unit_test(wrong_options_of_a_lenient_program_are_exit_1),
        cmocka_unit_test(each_signal_reaches_its_handler_on_the_loop),
        cmocka_unit_test(preparing_ignores_sigpipe_and_raises_the_descriptor_limit),
        cmocka_unit_test(notifications_reach_paths_and_abstract_sockets),
        cmocka_unit_test(without_a_usable_notify_socket_nothing_is_sent_or_left_open),
        cmocka_unit_test(random_ids_are_hex_and_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
