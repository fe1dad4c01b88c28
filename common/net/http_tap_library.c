/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether libh2o is the one whose private field the tap stands in (http_tap.c).
 */
#include "common/base/base.h"
#include "common/net/http_tap.h"

#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#if H2O_VERSION_MAJOR != 2 || H2O_VERSION_MINOR != 2 || H2O_LIBRARY_VERSION_MAJOR != 0 ||          \
    H2O_LIBRARY_VERSION_MINOR != 13
#error "The tap stands in a private field of libh2o 2.2's sockets; look whether it still may"
#endif

_Static_assert(offsetof(h2o_socket_t, input) == 2 * sizeof(void *), "input moved");
_Static_assert(offsetof(h2o_socket_t, bytes_read) == 3 * sizeof(void *), "bytes_read moved");
_Static_assert(offsetof(h2o_socket_t, on_close) == 5 * sizeof(void *), "on_close moved");
_Static_assert(offsetof(h2o_socket_t, _cb) == 7 * sizeof(void *), "_cb moved");

static void on_trial(h2o_socket_t *sock, const char *err)
{
    (void)sock;
    (void)err;
}

void http_tap_check_library(struct loop *l)
{
    int fds[2];

    int failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds);
    ASSERT(failed == 0);
    h2o_socket_t *sock = h2o_evloop_socket_create(loop_h2o(l), fds[0], 0);
    h2o_socket_read_start(sock, on_trial);
    ASSERT(sock->_cb.read == on_trial);
    ASSERT(h2o_socket_is_reading(sock));
    h2o_socket_read_stop(sock);
    ASSERT(sock->_cb.read == NULL);
    ASSERT(!h2o_socket_is_reading(sock));
    h2o_socket_close(sock);
    close(fds[1]);
}
