/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cli/ctl.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A process that responds to one connection with given bytes, and gives the request back. */
struct peer {
    pid_t pid;
    int request; /* what it received can be read here */
    char address[128];
};

enum behaviour { CLOSE_AFTER, STAY_AFTER };

static void serve(int listener, int request, struct slice response, enum behaviour b)
{
    char buf[4096];
    size_t got = 0;
    int fd = accept(listener, NULL, NULL);

    while (got < sizeof(buf)) {
        ssize_t n = read(fd, buf + got, sizeof(buf) - got);

        if (n <= 0)
            break;
        got += (size_t)n;
        if (got >= 4 && memcmp(buf + got - 4, "\r\n\r\n", 4) == 0)
            break;
    }
    (void)!write(request, buf, got);
    close(request);
    /* In small pieces, so that no boundary is where it would be handy. */
    for (size_t at = 0; at < response.len;) {
        size_t step = response.len > 100000 ? 65536 : 7;
        size_t n = response.len - at < step ? response.len - at : step;

        if (send(fd, response.p + at, n, MSG_NOSIGNAL) != (ssize_t)n)
            break;
        at += n;
    }
    if (b == STAY_AFTER) {
        alarm(600);
        pause();
    }
    _exit(0);
}

static void start_on(struct peer *p, int listener, struct slice response, enum behaviour b)
{
    int fds[2];

    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(pipe(fds), 0);
    p->pid = fork();
    if (p->pid == 0)
        serve(listener, fds[1], response, b);
    close(fds[1]);
    close(listener);
    p->request = fds[0];
}

static void start(struct peer *p, struct slice response, enum behaviour b)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&in, &len), 0);
    snprintf(p->address, sizeof(p->address), "127.0.0.1:%d", ntohs(in.sin_port));
    start_on(p, listener, response, b);
}

static void stop(struct peer *p)
{
    kill(p->pid, SIGKILL);
    assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
    close(p->request);
}

/* A new file with TOKEN; PATH is its name. */
static void write_token(const char *token, char path[200])
{
    snprintf(path, 200, "%s", RLB_TEST_DIR "/rlb-token-XXXXXX");
    int fd = mkstemp(path);

    assert_int_equal(write(fd, token, strlen(token)), (ssize_t)strlen(token));
    close(fd);
}

static enum err ask(const char *address, unsigned timeout_ms, int *status, struct text *out)
{
    char token[200];
    struct ctl_options o = {.address = address, .token_file = token, .timeout_ms = timeout_ms};

    write_token("secret\n", token);
    enum err e = ctl_request(&o, "GET", "/status.json", SLICE_NULL, status, out);

    unlink(token);
    /* A failure is reported once, with the address. */
    assert_int_equal(o.diag.errors, e != ERR_OK);
    assert_true(e == ERR_OK || strncmp(o.diag.text, address, strlen(address)) == 0);
    diag_fini(&o.diag);
    return e;
}

static void expect(const char *response, enum behaviour b, enum err error, int status,
                   const char *body)
{
    struct peer p;
    struct text out = {0};
    int got = -1;

    start(&p, slice_of(response), b);
    assert_int_equal(ask(p.address, 5000, &got, &out), error);
    assert_int_equal(got, error == ERR_OK ? status : -1);
    if (error == ERR_OK)
        assert_string_equal(text_cstr(&out), body);
    text_fini(&out);
    stop(&p);
}

static void a_body_is_taken_whole_however_it_is_framed(void **state)
{
    (void)state;
    expect("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", STAY_AFTER, ERR_OK, 200, "hello");
    expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
           STAY_AFTER, ERR_OK, 200, "hello");
    expect("HTTP/1.0 200 OK\r\n\r\nhello", CLOSE_AFTER, ERR_OK, 200, "hello");
    expect("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
           STAY_AFTER, ERR_OK, 404, "");
}

static void a_body_cut_short_is_an_error(void **state)
{
    (void)state;
    expect("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", CLOSE_AFTER, ERR_PEER_CLOSED, 0,
           NULL);
    expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n", CLOSE_AFTER,
           ERR_PEER_CLOSED, 0, NULL);
    expect("HTTP/1.1 200 OK\r\nContent-Le", CLOSE_AFTER, ERR_PEER_CLOSED, 0, NULL);
    expect("", CLOSE_AFTER, ERR_PEER_CLOSED, 0, NULL);
}

static void a_response_that_is_not_http_is_an_error(void **state)
{
    (void)state;
    expect("SSH-2.0-OpenSSH_9.2\r\n\r\n", STAY_AFTER, ERR_BAD_RESPONSE, 0, NULL);
    expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", STAY_AFTER,
           ERR_BAD_RESPONSE, 0, NULL);
    expect("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", STAY_AFTER,
           ERR_BAD_RESPONSE, 0, NULL);
}

static void too_much_is_rejected_before_it_is_read(void **state)
{
    (void)state;
    expect("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", STAY_AFTER, ERR_TOO_LARGE, 0,
           NULL);
}

static void silence_ends_at_the_timeout(void **state)
{
    struct peer p;
    struct text out = {0};
    int status = 0;

    (void)state;
    start(&p, SLICE_LIT("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello"), STAY_AFTER);
    assert_int_equal(ask(p.address, 100, &status, &out), ERR_TIMEOUT);
    text_fini(&out);
    stop(&p);
}

static void large_bodies_arrive(void **state)
{
    enum { BYTES = 3000000 };
    struct text response = {0};
    struct text out = {0};
    struct peer p;
    int status = 0;

    (void)state;
    text_addf(&response, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BYTES);
    memset(text_reserve(&response, BYTES), 'x', BYTES);
    response.len += BYTES;
    start(&p, text_slice(&response), STAY_AFTER);
    assert_int_equal(ask(p.address, 10000, &status, &out), ERR_OK);
    assert_int_equal(out.len, BYTES);
    stop(&p);
    text_fini(&response);
    text_fini(&out);
}

static void the_request_has_host_and_token(void **state)
{
    struct peer p;
    struct text out = {0};
    char request[4096] = "";
    char host[160];
    int status = 0;

    (void)state;
    start(&p, SLICE_LIT("HTTP/1.1 204 No Content\r\n\r\n"), STAY_AFTER);
    assert_int_equal(ask(p.address, 5000, &status, &out), ERR_OK);
    assert_int_equal(status, 204);
    assert_true(read(p.request, request, sizeof(request) - 1) > 0);
    snprintf(host, sizeof(host), "\r\nHost: %s\r\n", p.address);
    assert_non_null(strstr(request, host));
    assert_non_null(strstr(request, "GET /status.json HTTP/1.1\r\n"));
    assert_non_null(strstr(request, "\r\nAuthorization: Bearer secret\r\n"));
    text_fini(&out);
    stop(&p);
}

static void unix_sockets_are_reached(void **state)
{
    struct peer p;
    struct text out = {0};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int status = 0;

    (void)state;
    snprintf(un.sun_path, sizeof(un.sun_path), RLB_TEST_DIR "/rlb-fetch-%d.sock", (int)getpid());
    snprintf(p.address, sizeof(p.address), "unix:%s", un.sun_path);
    assert_int_equal(bind(listener, (struct sockaddr *)&un, sizeof(un)), 0);
    start_on(&p, listener, SLICE_LIT("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), STAY_AFTER);
    assert_int_equal(ask(p.address, 5000, &status, &out), ERR_OK);
    assert_string_equal(text_cstr(&out), "ok");
    text_fini(&out);
    stop(&p);
    unlink(un.sun_path);
}

/* ADDRESS cannot be reached, with this error and reason. */
static void expect_failure_within(unsigned timeout_ms, const char *address, enum err error,
                                  const char *reason)
{
    struct ctl_options o = {.address = address, .timeout_ms = timeout_ms};
    struct text out = {0};
    char *expected = xasprintf("%s: %s", address, reason);
    int status = 0;

    assert_int_equal(ctl_request(&o, "GET", "/", SLICE_NULL, &status, &out), error);
    assert_int_equal(o.diag.errors, 1);
    assert_non_null(strstr(o.diag.text, expected));
    free(expected);
    diag_fini(&o.diag);
    text_fini(&out);
}

static void expect_unreachable(const char *address, enum err error, const char *reason)
{
    expect_failure_within(60000, address, error, reason);
}

static void an_unreachable_address_is_reported_with_the_reason(void **state)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int there = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char address[128];

    (void)state;
    expect_unreachable("unix:/nonexistent", ERR_CONNECT_FAILED,
                       "connection failed: No such file or directory");
    /* One's own network's broadcast address takes no connections. */
    expect_unreachable("127.255.255.255:80", ERR_CONNECT_FAILED,
                       "connection failed: Network is unreachable");
    assert_int_equal(bind(taken, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(getsockname(taken, (struct sockaddr *)&in, &len), 0);
    snprintf(address, sizeof(address), "127.0.0.1:%d", ntohs(in.sin_port));
    expect_unreachable(address, ERR_CONNECT_REFUSED, "connection refused");

    snprintf(un.sun_path, sizeof(un.sun_path), RLB_TEST_DIR "/rlb-closed-%d.sock", (int)getpid());
    snprintf(address, sizeof(address), "unix:%s", un.sun_path);
    assert_int_equal(bind(there, (struct sockaddr *)&un, sizeof(un)), 0);
    expect_unreachable(address, ERR_CONNECT_REFUSED, "connection refused");
    assert_int_equal(chmod(un.sun_path, 0), 0);
    /* Permissions do not apply to root. */
    uid_t user = geteuid();
    assert_int_equal(seteuid(user == 0 ? 65534 : user), 0);
    expect_unreachable(address, ERR_CONNECT_FAILED, "connection failed: Permission denied");
    assert_int_equal(seteuid(user), 0);

    assert_int_equal(chmod(un.sun_path, 0600), 0);
    assert_int_equal(listen(there, 0), 0);
    int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(first, (struct sockaddr *)&un, sizeof(un)), 0);
    /* It is tried again until the time is over. */
    expect_failure_within(100, address, ERR_CONNECT_FAILED, "connection failed: too busy");
    close(first);
    close(taken);
    close(there);
    unlink(un.sun_path);
}

/* ---- the whole tool ---- */

static int ask_with(const char *address, const char *token_file)
{
    char *argv[] = {xstrdup("resumelbctl"), xstrdup("status"),   xstrdup("-a"), xstrdup(address),
                    xstrdup("-T"),          xstrdup(token_file), NULL};
    int code = ctl_main((int)ARRAY_LEN(argv) - 1, argv);

    for (size_t i = 0; i + 1 < ARRAY_LEN(argv); ++i)
        free(argv[i]);
    return code;
}

static int ask_peer(const char *response, const char *token)
{
    char path[200];
    struct peer p;

    write_token(token, path);
    start(&p, slice_of(response), STAY_AFTER);
    int code = ask_with(p.address, path);
    stop(&p);
    unlink(path);
    return code;
}

static void the_exit_code_reports_how_it_went(void **state)
{
    static const char good[] = "HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n{\"applications\":{}}";

    (void)state;
    assert_int_equal(ask_peer(good, "t\n"), CTL_OK);
    assert_int_equal(ask_peer(good, "two words"), CTL_FAILED);
    assert_int_equal(ask_peer(good, "line\nbreak"), CTL_FAILED);
    assert_int_equal(ask_peer("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "t"),
                     CTL_FAILED);
    assert_int_equal(ask_peer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "t"), CTL_FAILED);
    assert_int_equal(ask_peer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{]", "t"), CTL_FAILED);
    assert_int_equal(ask_peer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "t"), CTL_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_taken_whole_however_it_is_framed),
        cmocka_unit_test(a_body_cut_short_is_an_error),
        cmocka_unit_test(a_response_that_is_not_http_is_an_error),
        cmocka_unit_test(too_much_is_rejected_before_it_is_read),
        cmocka_unit_test(silence_ends_at_the_timeout),
        cmocka_unit_test(large_bodies_arrive),
        cmocka_unit_test(the_request_has_host_and_token),
        cmocka_unit_test(unix_sockets_are_reached),
        cmocka_unit_test(an_unreachable_address_is_reported_with_the_reason),
        cmocka_unit_test(the_exit_code_reports_how_it_went),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
