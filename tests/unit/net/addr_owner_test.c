/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets in a directory that another user can write. bind() is wrapped (--wrap): after it, the
 * test does what that user could do between two system calls.
 */
#include "common/base/text.h"
#include "common/net/addr.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { SOMEONE = 65534 };

struct owner_fixture {
    char directory[64];
    char socket[80];
    char other[80];
    struct addr addr; /* of SOCKET */
    uid_t user;       /* that owns the directory: root's tests have another one */
};

/* Replaces the path of the socket that was bound by a link to OTHER; NULL: does nothing. */
static const struct owner_fixture *replaced;

int __real_bind(int fd, const struct sockaddr *a, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *a, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *a, socklen_t len)
{
    int r = __real_bind(fd, a, len);

    if (replaced != NULL) {
        assert_int_equal(unlink(replaced->socket), 0);
        assert_int_equal(symlink(replaced->other, replaced->socket), 0);
    }
    return r;
}

static struct addr at_path(const char *path)
{
    char text[100];
    struct addr a;

    snprintf(text, sizeof(text), "unix:%s", path);
    assert_int_equal(addr_parse(slice_of(text), &a), ERR_OK);
    return a;
}

static int set_up(void **state)
{
    struct owner_fixture *p = xcalloc(1, sizeof(*p));

    p->user = geteuid() == 0 ? SOMEONE : geteuid();
    snprintf(p->directory, sizeof(p->directory), "/tmp/rlb-owner-XXXXXX");
    assert_non_null(mkdtemp(p->directory));
    assert_int_equal(chown(p->directory, p->user, (gid_t)-1), 0);
    snprintf(p->socket, sizeof(p->socket), "%s/s", p->directory);
    snprintf(p->other, sizeof(p->other), "%s/o", p->directory);
    p->addr = at_path(p->socket);
    p->addr.owner = p->user;
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct owner_fixture *p = *state;

    replaced = NULL;
    unlink(p->socket);
    unlink(p->other);
    rmdir(p->directory);
    free(p);
    return 0;
}

/* Listens at PATH as USER, if the test is root's. */
static int listen_as(uid_t user, const char *path)
{
    const struct addr_listen_options o = {.mode = 0666};
    struct addr a = at_path(path);
    uid_t self = geteuid();
    int fd = -1;

    assert_int_equal(seteuid(self == 0 ? user : self), 0);
    assert_int_equal(addr_listen(&a, &o, &fd), ERR_OK);
    assert_int_equal(seteuid(self), 0);
    return fd;
}

static int connect_to(const struct addr *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    int error = addr_connect(fd, a);
    close(fd);
    return error;
}

/* The number of connections that LISTENER has accepted or could accept. */
static bool was_reached(int listener)
{
    int fd = accept(listener, NULL, NULL);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void the_owners_own_socket_is_connected_to(void **state)
{
    const struct owner_fixture *p = *state;
    int listener = listen_as(p->user, p->socket);

    assert_int_equal(connect_to(&p->addr), 0);
    assert_true(was_reached(listener));
    close(listener);
    assert_int_equal(connect_to(&p->addr), ECONNREFUSED);
    assert_int_equal(unlink(p->socket), 0);
    assert_int_equal(connect_to(&p->addr), ENOENT);
}

static void a_link_to_a_socket_is_not_followed(void **state)
{
    const struct owner_fixture *p = *state;
    int listener = listen_as(p->user, p->other);
    struct addr any = p->addr;

    assert_int_equal(symlink(p->other, p->socket), 0);
    assert_int_equal(connect_to(&p->addr), EPERM);
    assert_false(was_reached(listener));
    any.owner = 0;
    assert_int_equal(connect_to(&any), 0);
    assert_true(was_reached(listener));
    close(listener);
}

static void a_socket_of_another_user_is_not_connected_to(void **state)
{
    const struct owner_fixture *p = *state;
    int listener = listen_as(geteuid(), p->socket);
    struct addr a = p->addr;

    a.owner = p->user + 1;
    assert_int_equal(connect_to(&a), EPERM);
    assert_false(was_reached(listener));
    close(listener);
}

static void a_file_in_the_place_of_the_socket_is_not_connected_to(void **state)
{
    const struct owner_fixture *p = *state;
    int file = open(p->socket, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    assert_true(file >= 0);
    close(file);
    assert_int_equal(chown(p->socket, p->user, (gid_t)-1), 0);
    assert_int_equal(connect_to(&p->addr), EPERM);
}

/* The inode may be the owner's, and the listener another user's. Only root can make such a one:
 * others see that their own listener is accepted. */
static void the_listener_must_run_as_the_owner(void **state)
{
    const struct owner_fixture *p = *state;
    bool root = geteuid() == 0;
    int listener = listen_as(geteuid(), p->socket);

    assert_int_equal(chown(p->socket, p->user, (gid_t)-1), 0);
    assert_int_equal(connect_to(&p->addr), root ? EPERM : 0);
    close(listener);
}

static void the_mode_of_a_socket_is_not_set_through_a_link_put_in_its_place(void **state)
{
    const struct owner_fixture *p = *state;
    const struct addr_listen_options o = {.mode = 0666};
    int file = open(p->other, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct stat st;
    int fd = -1;

    replaced = p;
    assert_int_equal(addr_listen(&p->addr, &o, &fd), ERR_SYSTEM);
    assert_int_equal(fstat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    close(file);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_owners_own_socket_is_connected_to),
        TEST(a_link_to_a_socket_is_not_followed),
        TEST(a_socket_of_another_user_is_not_connected_to),
        TEST(a_file_in_the_place_of_the_socket_is_not_connected_to),
        TEST(the_listener_must_run_as_the_owner),
        TEST(the_mode_of_a_socket_is_not_set_through_a_link_put_in_its_place),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
