/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that speak HTTP where TLS is spoken, most often by a typing error. TLS has nothing to say
 * to them, but we have, in the clear. That it is so OpenSSL finds out, at no cost to others: it
 * refuses their first bytes, which then are looked at (http_tls.c), and writes no alert of its own.
 *
 * What else they send is thrown away until they close: to close before would have the kernel reset
 * the connection, and take our answer back.
 */
#include "common/event/sys.h"
#include "common/net/http_conn.h"

#include <errno.h>

/* Nothing of C after it, if it ends. */
static void on_more(h2o_socket_t *sock, const char *err)
{
    struct http_conn *c = sock->on_close.data;
    char bytes[4096];

    (void)err; /* nothing is read by libh2o: what it would, it would give to TLS */
    ssize_t n = sys_recv(h2o_socket_get_fd(sock), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n == -1 && (errno == EAGAIN || errno == EINTR))
        return;
    c->tap.refused->dropped += n > 0 ? (size_t)n : 0;
    if (n <= 0 || c->tap.refused->dropped > TAP_LINGER_BYTES)
        h2o_socket_close(sock);
}

void http_plain_refuse(struct http_conn *c)
{
    int fd = h2o_socket_get_fd(c->sock);

    http_tap_linger(c);
    struct text *answer = &c->tap.refused->answer;
    http_tap_put_answer(c, 400, "this address speaks TLS: use https\n", answer);
    /* The first bytes of a connection: there is room for them. */
    (void)sys_send(fd, answer->p, answer->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    h2o_socket_dont_read(c->sock, 1);
    h2o_socket_read_start(c->sock, on_more);
}
