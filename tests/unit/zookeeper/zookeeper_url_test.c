/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/crypto.h"
#include "common/zookeeper/zookeeper_url.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/file.h"

static void urls_are_taken_apart(void **state)
{
    static const struct {
        const char *place;
        const char *hosts;
        const char *prefix;
    } rows[] = {
        {"//a:2181", "a:2181", ""},
        {"//a", "a:2181", ""},
        {"//a/", "a:2181", ""},
        {"//a:1,b.example:65535,10.0.0.1/x", "a:1,b.example:65535,10.0.0.1:2181", "/x"},
        {"//a:02181/x", "a:2181", "/x"},
        {"//a:2181//x///y_z.w-%20//", "a:2181", "/x/y_z.w-%20"},
        {"//[::1]:2182/x", "::1:2182", "/x"},
        {"//[fe80::1],A-b_c.example.", "fe80::1:2181,A-b_c.example.:2181", ""},
        {"//a/.../x:y", "a:2181", "/.../x:y"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        char *hosts = NULL;
        char *prefix = NULL;
        struct diag d = {0};

        assert_int_equal(zookeeper_url_parse(slice_of(rows[i].place), &hosts, &prefix, &d), ERR_OK);
        assert_string_equal(hosts, rows[i].hosts);
        assert_string_equal(prefix, rows[i].prefix);
        assert_null(d.text);
        free(hosts);
        free(prefix);
    }
}

static void expect_rejected(const char *place, enum err want, const char *why)
{
    char untouched[] = "untouched";
    char *hosts = untouched;
    char *prefix = untouched;
    struct diag d = {0};
    enum err e = zookeeper_url_parse(slice_of(place), &hosts, &prefix, &d);

    if (e != want)
        fail_msg("%.80s: %s", place, err_text(e));
    assert_ptr_equal(hosts, untouched);
    assert_ptr_equal(prefix, untouched);
    if (d.text == NULL || strstr(d.text, why) == NULL)
        fail_msg("%.80s: says '%s'", place, d.text != NULL ? d.text : "");
    diag_fini(&d);
}

static void an_invalid_url_is_rejected_with_the_reason(void **state)
{
    static const struct {
        const char *place;
        enum err e;
        const char *why;
    } rows[] = {
        {"", ERR_SYNTAX, "expected zookeeper://"},
        {"/", ERR_SYNTAX, "expected zookeeper://"},
        {"a:2181", ERR_SYNTAX, "expected zookeeper://"},
        {"//", ERR_SYNTAX, "no host"},
        {"///x", ERR_SYNTAX, "no host"},
        {"//,a", ERR_SYNTAX, "is not a valid host"},
        {"//a,", ERR_SYNTAX, "is not a valid host"},
        {"//a,,b", ERR_SYNTAX, "is not a valid host"},
        {"//:2181", ERR_SYNTAX, "is not a valid host"},
        {"//.a", ERR_SYNTAX, "is not a valid host"},
        {"//a..b", ERR_SYNTAX, "is not a valid host"},
        {"//a b", ERR_SYNTAX, "is not a valid host"},
        {"//user@a", ERR_SYNTAX, "is not a valid host"},
        {"//a?b", ERR_SYNTAX, "is not a valid host"},
        {"//::1", ERR_SYNTAX, "is not a valid host"},
        {"//[::1", ERR_SYNTAX, "is not a valid host"},
        {"//[]:1", ERR_SYNTAX, "is not a valid host"},
        {"//[::g]:1", ERR_SYNTAX, "is not a valid host"},
        {"//[1.2.3.4]:1", ERR_SYNTAX, "is not a valid host"},
        {"//[fe80::1%eth0]:1", ERR_SYNTAX, "is not a valid host"},
        {"//[::1]2181", ERR_RANGE, "expected a port"},
        {"//a:", ERR_RANGE, "expected a port"},
        {"//a:0", ERR_RANGE, "expected a port"},
        {"//a:65536", ERR_RANGE, "expected a port"},
        {"//a:1:2", ERR_RANGE, "expected a port"},
        {"//a:0x10", ERR_RANGE, "expected a port"},
        {"//a/x y", ERR_SYNTAX, "byte 0x20 in the path"},
        {"//a/x\x7f", ERR_SYNTAX, "byte 0x7f in the path"},
        {"//a/\xc3\xa4", ERR_SYNTAX, "byte 0xc3 in the path"},
        {"//a/x/../y", ERR_SYNTAX, "are not valid names"},
        {"//a/.", ERR_SYNTAX, "are not valid names"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); ++i)
        expect_rejected(rows[i].place, rows[i].e, rows[i].why);
}

static void hosts_and_path_are_bounded(void **state)
{
    struct text url = {0};

    (void)state;
    text_add(&url, SLICE_LIT("//a"));
    for (int i = 1; i < ZOOKEEPER_HOSTS_MAX; ++i)
        text_add(&url, SLICE_LIT(",b"));
    char *hosts = NULL;
    char *prefix = NULL;
    struct diag d = {0};
    assert_int_equal(zookeeper_url_parse(text_slice(&url), &hosts, &prefix, &d), ERR_OK);
    free(hosts);
    free(prefix);
    text_add(&url, SLICE_LIT(",c"));
    expect_rejected(text_cstr(&url), ERR_TOO_LARGE, "more than 32 hosts");

    text_clear(&url);
    text_addf(&url, "//%0*d", ZOOKEEPER_HOST_MAX + 1, 1);
    expect_rejected(text_cstr(&url), ERR_SYNTAX, "is not a valid host");

    text_clear(&url);
    text_addf(&url, "//a/%0*d", ZOOKEEPER_TOP_MAX, 1);
    expect_rejected(text_cstr(&url), ERR_TOO_LARGE, "path of more than 256 bytes");
    text_fini(&url);
}

/* ---- the auth file ---- */

static int setup(void **state)
{
    char *path = xstrdup(RLB_TEST_DIR "/rlb-auth-XXXXXX");
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    *state = path;
    return 0;
}

static int teardown(void **state)
{
    unlink(*state);
    free(*state);
    return 0;
}

static enum err read_auth(const char *path, struct slice content, char **out, struct diag *d)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_true(file_write_all(fd, content));
    close(fd);
    *out = NULL;
    return zookeeper_auth_read(path, out, d);
}

static void first_line_of_the_auth_file_is_the_identity(void **state)
{
    static const char *const rows[] = {"lb:secret word:x", "lb:secret word:x\n",
                                       "lb:secret word:x\r\nsecond"};

    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        char *out = NULL;
        struct diag d = {0};

        assert_int_equal(read_auth(*state, slice_of(rows[i]), &out, &d), ERR_OK);
        assert_string_equal(out, "lb:secret word:x");
        crypto_free(out);
    }
}

static void bad_auth_files_are_rejected_and_not_quoted(void **state)
{
    char *path = *state;
    struct text lengthy = {0};

    text_addf(&lengthy, "u:%0*d", ZOOKEEPER_AUTH_MAX - 2, 7);
    size_t fits = lengthy.len;
    text_add_char(&lengthy, '8');
    const struct {
        struct slice content;
        enum err e;
        const char *why;
    } rows[] = {
        {SLICE_LIT(""), ERR_SYNTAX, "expected USER:PASSWORD"},
        {SLICE_LIT("\nlb:hush"), ERR_SYNTAX, "expected USER:PASSWORD"},
        {SLICE_LIT("hush"), ERR_SYNTAX, "expected USER:PASSWORD"},
        {SLICE_LIT(":hush"), ERR_SYNTAX, "expected USER:PASSWORD"},
        {SLICE_LIT("hush:\n"), ERR_SYNTAX, "expected USER:PASSWORD"},
        {SLICE_LIT("lb:hu\0sh"), ERR_SYNTAX, "control byte"},
        {SLICE_LIT("lb:hu\tsh"), ERR_SYNTAX, "control byte"},
        {text_slice(&lengthy), ERR_TOO_LARGE, "longer than 1024"},
    };
    char *out = NULL;
    struct diag d = {0};

    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        assert_int_equal(read_auth(path, rows[i].content, &out, &d), rows[i].e);
        assert_non_null(strstr(d.text, rows[i].why));
        assert_null(strstr(d.text, "hush"));
        assert_null(out);
        diag_fini(&d);
    }
    assert_int_equal(read_auth(path, (struct slice){lengthy.p, fits}, &out, &d), ERR_OK);
    assert_int_equal(strlen(out), ZOOKEEPER_AUTH_MAX);
    crypto_free(out);
    text_fini(&lengthy);
}

static void auth_file_open_to_others_is_rejected(void **state)
{
    char *path = *state;
    char *out = NULL;
    struct diag d = {0};

    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(read_auth(path, SLICE_LIT("lb:x"), &out, &d), ERR_OK);
    crypto_free(out);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(zookeeper_auth_read(path, &out, &d), ERR_UNSUPPORTED);
    assert_non_null(strstr(d.text, "accessible to all users"));
    diag_fini(&d);
    assert_int_equal(zookeeper_auth_read("/tmp", &out, &d), ERR_UNSUPPORTED);
    diag_fini(&d);
    assert_int_equal(zookeeper_auth_read("/nowhere/x", &out, &d), ERR_SYSTEM);
    assert_non_null(strstr(d.text, "No such file"));
    diag_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_taken_apart),
        cmocka_unit_test(an_invalid_url_is_rejected_with_the_reason),
        cmocka_unit_test(hosts_and_path_are_bounded),
        cmocka_unit_test_setup_teardown(first_line_of_the_auth_file_is_the_identity, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(bad_auth_files_are_rejected_and_not_quoted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(auth_file_open_to_others_is_rejected, setup, teardown),
    };

    return cmocka_run_group_tests_name("zookeeper_url", tests, NULL, NULL);
}
