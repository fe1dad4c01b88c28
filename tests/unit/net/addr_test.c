/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/text.h"
#include "common/net/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* 107 bytes: the longest path. */
#define A10 "/aaaaaaaaa"
#define PATH_100 A10 A10 A10 A10 A10 A10 A10 A10 A10 A10

static struct addr parsed(const char *text)
{
    struct addr a;

    assert_int_equal(addr_parse(slice_of(text), &a), ERR_OK);
    return a;
}

static void canonical_text_is_read_and_written_alike(void **state)
{
    const char *texts[] = {
        "127.0.0.1:80",   "0.0.0.0:0",       "255.255.255.255:65535",    "[::1]:80",
        "[::]:65535",     "[2001:db8::1]:1", "[::ffff:10.0.0.1]:80",     "unix:/run/x.sock",
        "unix:@abstract", "unix:/a b",       "unix:" PATH_100 "/aaaaaa", "unix:@" PATH_100 "/aaaaa",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i) {
        char text[ADDR_TEXT_MAX];
        struct addr a = parsed(texts[i]);
        assert_string_equal(addr_format(&a, text), texts[i]);
    }
}

static void other_spellings_become_canonical(void **state)
{
    const char *texts[][2] = {
        {"[0:0:0:0:0:0:0:1]:80", "[::1]:80"},
        {"[2001:DB8::A]:80", "[2001:db8::a]:80"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i) {
        char text[ADDR_TEXT_MAX];
        struct addr a = parsed(texts[i][0]);
        assert_string_equal(addr_format(&a, text), texts[i][1]);
    }
}

static void an_invalid_address_is_rejected(void **state)
{
    const char *texts[] = {
        "",
        ":",
        ":80",
        "80",
        "1.2.3.4",
        "1.2.3.4:",
        "1.2.3.4:65536",
        "1.2.3.4:-1",
        "1.2.3.4:+1",
        "1.2.3.4:080",
        "1.2.3.4:8o",
        "1.2.3.4:80 ",
        " 1.2.3.4:80",
        "1.2.3:80",
        "1.2.3.256:80",
        "1.2.3.4.5:80",
        "01.2.3.4:80",
        "0x7f.1:80",
        "::1:80",
        "[::1]",
        "[::1]:",
        "[::1",
        "::1]:80",
        "[]:80",
        "[1.2.3.4]:80",
        "[::1%lo]:80",
        "[fe80::1%1]:80",
        "[host.example]:80",
        "host..example:80",
        ".host:80",
        "-host:80",
        "host-:80",
        "ho st:80",
        "host/x:80",
        "h\xc3\xb6st:80",
        "host.123:80",
        "host.0xFf:80",
        "0x:80",
        "unix:",
        "unix:@",
        "unix:x.sock",
        "unix:/a\nb",
        "unix:@a\x7f",
        "1.2.3.4:99999999999999999999",
        "http://host:80",
        "a@host:80",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i) {
        struct addr a = {.len = 77};
        enum err e = addr_parse(slice_of(texts[i]), &a);
        if (e != ERR_SYNTAX)
            print_message("%s: %s\n", texts[i], err_text(e));
        assert_int_equal(e, ERR_SYNTAX);
        assert_int_equal(a.len, 77);
    }
}

static void an_embedded_nul_is_rejected(void **state)
{
    struct addr a;

    (void)state;
    assert_int_equal(addr_parse(SLICE_LIT("1.2.3.4\0:80"), &a), ERR_SYNTAX);
    assert_int_equal(addr_parse(SLICE_LIT("unix:/a\0b"), &a), ERR_SYNTAX);
    assert_int_equal(addr_parse(SLICE_NULL, &a), ERR_SYNTAX);
}

static void a_unix_path_over_107_bytes_is_too_large(void **state)
{
    struct addr a;

    (void)state;
    assert_int_equal(addr_parse(SLICE_LIT("unix:" PATH_100 "/aaaaaaa"), &a), ERR_TOO_LARGE);
    assert_int_equal(addr_parse(SLICE_LIT("unix:@" PATH_100 "/aaaaaa"), &a), ERR_TOO_LARGE);
}

static void names_are_left_to_be_resolved(void **state)
{
    const char *texts[] = {"host:80",     "host.example:0", "HOST.Example.:80", "a_b.c-d:80",
                           "1and1.de:80", "0xyz:80",        "9lives:80"};
    struct addr a;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i)
        assert_int_equal(addr_parse(slice_of(texts[i]), &a), ERR_UNSUPPORTED);
    char label[80];
    snprintf(label, sizeof(label), "%064d.example:80", 0);
    assert_int_equal(addr_parse(slice_of(label), &a), ERR_SYNTAX);
}

static void the_host_alone_has_no_port_or_brackets(void **state)
{
    char text[ADDR_TEXT_MAX];
    struct addr a = parsed("10.1.2.3:80");
    struct addr b = parsed("[2001:db8::1]:443");
    struct addr c = parsed("unix:/run/x");

    (void)state;
    assert_string_equal(addr_host(&a, text), "10.1.2.3");
    assert_string_equal(addr_host(&b, text), "2001:db8::1");
    assert_string_equal(addr_host(&c, text), "unix:");
    assert_true(slice_is(addr_host_slice(&a, text), "10.1.2.3"));
    assert_true(slice_is(addr_host_slice(&b, text), "2001:db8::1"));
    assert_true(slice_is(addr_host_slice(&c, text), "unix:"));
    assert_int_equal(addr_port(&b), 443);
    assert_int_equal(addr_port(&c), 0);
}

static void every_number_of_an_ipv4_address_is_written_as_inet_ntop_does(void **state)
{
    char ours[ADDR_TEXT_MAX];
    char theirs[INET_ADDRSTRLEN];
    struct addr a = parsed("10.1.2.3:80");

    (void)state;
    for (unsigned i = 0; i < 256; ++i) {
        unsigned char bytes[4] = {(unsigned char)i, (unsigned char)(i + 85), 0,
                                  (unsigned char)(255 - i)};

        memcpy(&a.in.sin_addr, bytes, sizeof(bytes));
        assert_non_null(inet_ntop(AF_INET, &a.in.sin_addr, theirs, sizeof(theirs)));
        assert_string_equal(addr_host(&a, ours), theirs);
    }
}

static void names_of_peers_cannot_break_a_line(void **state)
{
    struct addr a = {.un.sun_family = AF_UNIX};
    char text[ADDR_TEXT_MAX];

    (void)state;
    memset(a.un.sun_path, '\n', sizeof(a.un.sun_path));
    a.un.sun_path[0] = '\0';
    a.len = sizeof(a.un);
    addr_format(&a, text);
    assert_null(strchr(text, '\n'));
    assert_memory_equal(text, "unix:@%0A%0A", 12);
    a.len = sizeof(a.un.sun_family);
    assert_string_equal(addr_format(&a, text), "unix:"); /* unnamed */
}

static void addresses_are_compared_by_what_they_mean(void **state)
{
    struct addr a = parsed("10.0.0.1:80");
    struct addr other_port = parsed("10.0.0.1:81");
    struct addr path = parsed("unix:/run/x");
    struct addr kernels = path; /* may leave out the NUL, or fill the struct */
    struct addr longer = parsed("unix:/run/xy");
    struct addr abstract = parsed("unix:@/run/x");

    (void)state;
    a.in.sin_zero[0] = 1;
    struct addr same = parsed("10.0.0.1:80");
    assert_true(addr_equal(&a, &same));
    assert_false(addr_equal(&a, &other_port));
    assert_false(addr_equal(&a, &path));
    --kernels.len;
    assert_true(addr_equal(&path, &kernels));
    kernels.len = sizeof(kernels.un);
    assert_true(addr_equal(&path, &kernels));
    assert_false(addr_equal(&path, &longer));
    assert_false(addr_equal(&path, &abstract));
}

static void loopback_is_known_in_every_family(void **state)
{
    const char *yes[] = {"127.0.0.1:1", "127.255.0.3:1", "[::1]:1", "[::ffff:127.0.0.1]:1",
                         "unix:/x"};
    const char *no[] = {"0.0.0.0:1", "128.0.0.1:1", "[::]:1", "[::ffff:10.0.0.1]:1", "[::2]:1"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(yes); ++i) {
        struct addr a = parsed(yes[i]);
        assert_true(addr_is_loopback(&a));
    }
    for (size_t i = 0; i < ARRAY_LEN(no); ++i) {
        struct addr a = parsed(no[i]);
        assert_false(addr_is_loopback(&a));
    }
}

static void localhost_resolves_to_loopback_with_the_port(void **state)
{
    struct addr out[8];
    size_t n = ARRAY_LEN(out);

    (void)state;
    assert_int_equal(addr_resolve(SLICE_LIT("localhost:8080"), out, &n), ERR_OK);
    assert_in_range(n, 1, ARRAY_LEN(out));
    for (size_t i = 0; i < n; ++i) {
        assert_true(addr_is_loopback(&out[i]));
        assert_int_equal(addr_port(&out[i]), 8080);
        assert_false(i != 0 && addr_equal(&out[i - 1], &out[i]));
    }
}

static void numeric_addresses_resolve_to_themselves(void **state)
{
    struct addr expected = parsed("[::1]:80");
    struct addr out[2];
    size_t n = 2;

    (void)state;
    assert_int_equal(addr_resolve(SLICE_LIT("[::1]:80"), out, &n), ERR_OK);
    assert_int_equal(n, 1);
    assert_true(addr_equal(&out[0], &expected));
    assert_int_equal(addr_resolve(SLICE_LIT("nonsense"), out, &n), ERR_SYNTAX);
}

/* ---- listening ---- */

static const struct addr_listen_options plain = {.backlog = 0};

static int connected(const struct addr *a)
{
    int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, &a->sa, a->len), 0);
    return fd;
}

static void port_0_is_resolved_and_can_be_connected_to(void **state)
{
    const char *texts[] = {"127.0.0.1:0", "[::1]:0"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i) {
        struct addr a = parsed(texts[i]);
        struct addr bound;
        int fd = -1;
        enum err e = addr_listen(&a, &plain, &fd);
        if (e == ERR_SYSTEM && errno == EADDRNOTAVAIL)
            continue; /* a machine without IPv6 */
        assert_int_equal(e, ERR_OK);
        assert_int_equal(addr_of_socket(fd, &bound), ERR_OK);
        assert_int_not_equal(addr_port(&bound), 0);
        assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        close(connected(&bound));
        int second = -1;
        assert_int_equal(addr_listen(&bound, &plain, &second), ERR_BUSY);
        assert_int_equal(second, -1);
        close(fd);
    }
}

static void listeners_may_share_a_port_when_asked_to(void **state)
{
    const struct addr_listen_options shared = {.reuse_port = true};
    struct addr a = parsed("127.0.0.1:0");
    struct addr bound;
    int first;
    int second;

    (void)state;
    assert_int_equal(addr_listen(&a, &shared, &first), ERR_OK);
    assert_int_equal(addr_of_socket(first, &bound), ERR_OK);
    assert_int_equal(addr_listen(&bound, &shared, &second), ERR_OK);
    close(first);
    close(second);
}

static void an_address_of_another_machine_is_a_system_error(void **state)
{
    struct addr a = parsed("192.0.2.1:0");
    int fd;

    (void)state;
    assert_int_equal(addr_listen(&a, &plain, &fd), ERR_SYSTEM);
    assert_int_equal(errno, EADDRNOTAVAIL);
}

/* A path of our own in a fresh directory. */
static struct addr socket_path(char directory[64], char path[80])
{
    char text[100];

    snprintf(directory, 64, RLB_TEST_DIR "/rlb-addr-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, 80, "%s/s", directory);
    snprintf(text, sizeof(text), "unix:%s", path);
    return parsed(text);
}

static void a_live_unix_socket_is_busy_and_a_stale_one_is_replaced(void **state)
{
    char directory[64];
    char path[80];
    struct addr a = socket_path(directory, path);
    int first;
    int second = -1;

    (void)state;
    assert_int_equal(addr_listen(&a, &plain, &first), ERR_OK);
    assert_int_equal(addr_listen(&a, &plain, &second), ERR_BUSY);
    close(connected(&a)); /* the first one is unharmed */
    close(first);
    assert_int_equal(addr_listen(&a, &plain, &second), ERR_OK);
    close(connected(&a));
    struct addr bound;
    assert_int_equal(addr_of_socket(second, &bound), ERR_OK);
    assert_true(addr_equal(&bound, &a));
    close(second);
    unlink(path);
    rmdir(directory);
}

static void a_file_that_is_no_socket_is_never_removed(void **state)
{
    char directory[64];
    char path[80];
    struct addr a = socket_path(directory, path);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    (void)state;
    close(fd);
    assert_int_equal(addr_listen(&a, &plain, &fd), ERR_SYSTEM);
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
    rmdir(directory);
}

static void a_unix_socket_gets_the_mode_asked_for(void **state)
{
    const struct addr_listen_options everybody = {.mode = 0666};
    const struct addr_listen_options nobody = {.mode = 0600};
    const struct addr_listen_options *options[] = {&everybody, &nobody};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(options); ++i) {
        char directory[64];
        char path[80];
        struct addr a = socket_path(directory, path);
        struct stat st;
        int fd;
        assert_int_equal(addr_listen(&a, options[i], &fd), ERR_OK);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, options[i]->mode);
        close(fd);
        unlink(path);
        rmdir(directory);
    }
}

static void abstract_sockets_are_exclusive_while_they_live(void **state)
{
    char text[64];
    int first;
    int second;

    (void)state;
    snprintf(text, sizeof(text), "unix:@rlb-addr-test-%d", (int)getpid());
    struct addr a = parsed(text);
    assert_int_equal(addr_listen(&a, &plain, &first), ERR_OK);
    assert_int_equal(addr_listen(&a, &plain, &second), ERR_BUSY);
    close(first);
    assert_int_equal(addr_listen(&a, &plain, &second), ERR_OK);
    close(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text_is_read_and_written_alike),
        cmocka_unit_test(other_spellings_become_canonical),
        cmocka_unit_test(an_invalid_address_is_rejected),
        cmocka_unit_test(an_embedded_nul_is_rejected),
        cmocka_unit_test(a_unix_path_over_107_bytes_is_too_large),
        cmocka_unit_test(names_are_left_to_be_resolved),
        cmocka_unit_test(the_host_alone_has_no_port_or_brackets),
        cmocka_unit_test(every_number_of_an_ipv4_address_is_written_as_inet_ntop_does),
        cmocka_unit_test(names_of_peers_cannot_break_a_line),
        cmocka_unit_test(addresses_are_compared_by_what_they_mean),
        cmocka_unit_test(loopback_is_known_in_every_family),
        cmocka_unit_test(localhost_resolves_to_loopback_with_the_port),
        cmocka_unit_test(numeric_addresses_resolve_to_themselves),
        cmocka_unit_test(port_0_is_resolved_and_can_be_connected_to),
        cmocka_unit_test(listeners_may_share_a_port_when_asked_to),
        cmocka_unit_test(an_address_of_another_machine_is_a_system_error),
        cmocka_unit_test(a_live_unix_socket_is_busy_and_a_stale_one_is_replaced),
        cmocka_unit_test(a_file_that_is_no_socket_is_never_removed),
        cmocka_unit_test(a_unix_socket_gets_the_mode_asked_for),
        cmocka_unit_test(abstract_sockets_are_exclusive_while_they_live),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
