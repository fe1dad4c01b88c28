/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/text.h"
#include "common/net/addr.h"
#include "worker-agent/supervisor/spawner.h"

static char directory[64];
static struct spawner spawner;

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), RLB_TEST_DIR "/rlb-spawn-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    spawner = (struct spawner){
        .run_dir = directory, .supervisor = getpid(), .umask = 022, .nofile = {256, 256}};
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory); /* empty again */
}

static struct spawned run(char **words, size_t n, enum listen_mode mode)
{
    json_t *list = json_array();
    json_t *env = json_pack("[s]", "PATH=/usr/bin:/bin");
    struct spawn_request r = {.id = "0123456789abcdef0123456789abcdef",
                              .listen = mode,
                              .words = list,
                              .env = env,
                              .root = "/"};
    struct spawned p;
    char why[SUPERVISOR_WHY_MAX] = "";

    for (size_t i = 0; i < n; ++i)
        json_array_append_new(list, json_string(words[i]));
    assert_int_equal(spawner_start(&spawner, &r, &p, why), ERR_OK);
    json_decref(list);
    json_decref(env);
    return p;
}

/* All that comes from FD until its end. */
static void read_all(int fd, char *out, size_t room)
{
    size_t len = 0;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        assert_true(poll(&p, 1, 60000) == 1);
        n = read(fd, out + len, room - 1 - len);
        assert_true(n >= 0 || errno == EAGAIN);
        if (n == 0)
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    out[len] = '\0';
}

static void reap_one(struct spawned *p)
{
    siginfo_t si;

    assert_int_equal(waitid(P_PID, (id_t)p->pid, &si, WEXITED | WNOWAIT), 0);
    spawner_clean_up(p);
    assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
}

static void shell(const char *script, enum listen_mode mode, char *out, size_t room)
{
    char sh[] = "sh";
    char c[] = "-c";
    char *text = xstrdup(script);
    char *words[] = {sh, c, text, NULL};
    struct spawned p = run(words, 3, mode);

    read_all(p.output_fd, out, room);
    reap_one(&p);
    free(text);
}

static void an_inherited_socket_is_descriptor_three_and_nothing_is_beyond(void **state)
{
    char out[1000];

    (void)state;
    shell("test \"$LISTEN_PID\" = $$ && test \"$LISTEN_FDS\" = 1 && test -S /proc/self/fd/3 && "
          "test ! -e /proc/$$/fd/4 && ulimit -n && umask",
          LISTEN_INHERITED_UNIX, out, sizeof(out));
    assert_string_equal(out, "256\n0022\n");
}

static void a_process_that_binds_itself_is_reported_where(void **state)
{
    char out[1000];
    char expected[200];

    (void)state;
    shell("echo {socket}; test ! -e /proc/$$/fd/3 && echo clean", LISTEN_BY_SOCKET, out,
          sizeof(out));
    snprintf(expected, sizeof(expected), "%s/0123456789abcdef/s\nclean\n", directory);
    assert_string_equal(out, expected);
}

static void no_port_is_given_twice_in_a_row(void **state)
{
    char first[100];
    char second[100];

    (void)state;
    shell("echo {port}", LISTEN_BY_PORT, first, sizeof(first));
    assert_true(atoi(first) > 0);
    for (int i = 0; i < 20; ++i) {
        shell("echo {port}", LISTEN_BY_PORT, second, sizeof(second));
        assert_string_not_equal(first, second);
    }
}

static void why_exec_failed_comes_through_the_error_pipe(void **state)
{
    char program[] = "/nonexistent/program";
    char *words[] = {program, NULL};
    char why[SUPERVISOR_WHY_MAX];
    struct spawned p = run(words, 1, LISTEN_INHERITED_UNIX);

    (void)state;
    read_all(p.error_fd, why, sizeof(why));
    assert_string_equal(why, "/nonexistent/program: No such file or directory");
    reap_one(&p);
}

static void burying_empties_the_backlog_of_a_socket_that_others_still_hold(void **state)
{
    static const enum listen_mode modes[] = {LISTEN_INHERITED_UNIX, LISTEN_INHERITED_TCP};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(modes); ++i) {
        char true_[] = "true";
        char *words[] = {true_, NULL};
        struct spawned p = run(words, 1, modes[i]);
        int escaped = dup(p.listen_fd);
        struct addr a;

        assert_int_equal(addr_parse(slice_of(p.address), &a), ERR_OK);
        int client = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(client, &a.sa, a.len), 0);
        assert_int_equal(send(client, "POST", 4, MSG_NOSIGNAL), 4);
        reap_one(&p);
        assert_true(accept4(escaped, NULL, NULL, SOCK_NONBLOCK) < 0);
        char byte;
        assert_true(recv(client, &byte, 1, 0) <= 0);
        int late = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(connect(late, &a.sa, a.len) < 0);
        close(client);
        close(late);
        close(escaped);
    }
}

static void a_request_survives_its_message(void **state)
{
    char word[] = "server";
    char *words[] = {word};
    char root[] = "/srv";
    struct app_config c = {
        .listen = LISTEN_BY_PORT,
        .user = {.required = true, .uid = 7, .gid = 8, .groups = {8, 9}, .ngroups = 2},
        .spec = "0123456789abcdef"};
    char name[] = "shop";
    struct spawn_request r = {.slot = 0};
    char why[SUPERVISOR_WHY_MAX];

    (void)state;
    c.name = name;
    c.s.command = (struct text_list){words, 1};
    c.s.root = root;
    json_t *m = spawn_request_message(&c, 3, "0123456789abcdef", 5000);
    assert_true(spawn_request_parse(m, &r, why));
    assert_string_equal(r.id, "0123456789abcdef");
    assert_string_equal(r.application, "shop");
    assert_int_equal(r.slot, 3);
    assert_int_equal(r.listen, LISTEN_BY_PORT);
    assert_int_equal(json_array_size(r.words), 1);
    assert_string_equal(json_string_value(json_array_get(r.words, 0)), "server");
    assert_string_equal(r.root, "/srv");
    assert_true(r.user.required);
    assert_int_equal(r.user.uid, 7);
    assert_int_equal(r.user.ngroups, 2);
    assert_int_equal(r.stop_timeout_ms, 5000);
    /* Each member is needed, and an id becomes a file's name. */
    const char *key;
    json_t *value;
    json_t *whole = json_deep_copy(m);
    json_object_foreach (whole, key, value) {
        if (strcmp(key, "op") == 0 || strcmp(key, "switch_user") == 0)
            continue;
        json_t *less = json_deep_copy(m);

        json_object_del(less, key);
        assert_false(spawn_request_parse(less, &r, why));
        json_decref(less);
    }
    json_object_set_new(m, "id", json_string("../../../../etc/x"));
    assert_false(spawn_request_parse(m, &r, why));
    json_decref(m);
    json_decref(whole);
}

static struct supervisor_rights two_users(void)
{
    struct supervisor_rights rights = {
        .n = 2,
        .users = {{.uid = 7, .gid = 8, .ngroups = 2, .groups = {8, 9}},
                  {.uid = 17, .gid = 18, .ngroups = 1, .groups = {18}}},
    };

    return rights;
}

static void a_supervisor_with_a_list_of_users_starts_no_other(void **state)
{
    static struct supervisor_rights rights; /* the spawner refers to it until the next test */
    static const struct privileges rejected[] = {
        {.required = true, .uid = 0, .gid = 0, .ngroups = 1, .groups = {0}},
        {.required = true, .uid = 0, .gid = 18, .ngroups = 1, .groups = {18}},
        {.required = true, .uid = 17, .gid = 0, .ngroups = 1, .groups = {18}},
        {.required = true, .uid = 17, .gid = 18, .ngroups = 2, .groups = {18, 0}},
        {.required = true, .uid = 17, .gid = 18, .ngroups = 1, .groups = {0}},
        {.required = true, .uid = 17, .gid = 18, .ngroups = 0},
        {.required = true, .uid = 7, .gid = 18, .ngroups = 1, .groups = {18}},
        {.uid = 17, .gid = 18, .ngroups = 1, .groups = {18}},
    };

    (void)state;
    rights = two_users();
    spawner.rights = &rights;
    for (size_t i = 0; i < ARRAY_LEN(rejected); ++i) {
        struct spawn_request r = {.id = "0123456789abcdef",
                                  .listen = LISTEN_INHERITED_TCP,
                                  .root = "/",
                                  .user = rejected[i]};
        struct spawned p;
        char why[SUPERVISOR_WHY_MAX] = "";

        assert_int_equal(spawner_start(&spawner, &r, &p, why), ERR_UNSUPPORTED);
        assert_non_null(strstr(why, "restart the agent"));
    }
}

static void users_are_compared_with_those_of_the_start(void **state)
{
    struct supervisor_rights rights = two_users();
    struct supervisor_rights wanted = rights;

    (void)state;
    json_t *list = supervisor_rights_message(&rights);
    assert_true(supervisor_rights_allow_all(&rights, list));
    /* An agent that sends no users would have processes started as it is. */
    assert_false(supervisor_rights_allow_all(&rights, NULL));
    json_object_set_new(json_array_get(list, 1), "uid", json_integer(0));
    assert_false(supervisor_rights_allow_all(&rights, list));
    json_array_set_new(list, 1, json_string("root"));
    assert_false(supervisor_rights_allow_all(&rights, list));
    json_decref(list);
    assert_true(supervisor_rights_cover(&rights, &wanted));
    assert_true(supervisor_rights_cover(NULL, NULL));
    assert_false(supervisor_rights_cover(NULL, &wanted));
    assert_false(supervisor_rights_cover(&rights, NULL));
    wanted.n = 1;
    assert_true(supervisor_rights_cover(&rights, &wanted));
    assert_false(supervisor_rights_cover(&wanted, &rights));
    /* The agent's own user stays, even where the list has the other. */
    wanted.users[0] = rights.users[1];
    assert_false(supervisor_rights_cover(&rights, &wanted));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_inherited_socket_is_descriptor_three_and_nothing_is_beyond),
        TEST(a_process_that_binds_itself_is_reported_where),
        TEST(no_port_is_given_twice_in_a_row),
        TEST(why_exec_failed_comes_through_the_error_pipe),
        TEST(burying_empties_the_backlog_of_a_socket_that_others_still_hold),
        TEST(a_request_survives_its_message),
        TEST(a_supervisor_with_a_list_of_users_starts_no_other),
        TEST(users_are_compared_with_those_of_the_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
