/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/transport.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <unistd.h>

void transport_open(struct transport *t, int fd)
{
    *t = (struct transport){.fd = fd};
}

void transport_close(struct transport *t)
{
    if (t->tls != NULL)
        tls_link_shutdown(t->tls);
    tls_link_destroy(t->tls);
    watch_stop(t->watch);
    if (t->fd != -1)
        close(t->fd);
    *t = TRANSPORT_CLOSED;
}

static const struct linger reset = {.l_onoff = 1, .l_linger = 0};

void transport_reset_at_close(struct transport *t)
{
    int queued = 0;

    if (ioctl(t->fd, SIOCOUTQ, &queued) == 0 && queued != 0)
        setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

void transport_abort_at_close(struct transport *t)
{
    setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    transport_cut_at_close(t);
}

void transport_cut_at_close(struct transport *t)
{
    if (t->tls != NULL)
        t->tls->broken = true;
}

void transport_attach(struct transport *t, struct loop *l, void (*readable)(void *context),
                      void *context)
{
    if (t->watch != NULL)
        watch_hand_over(t->watch, readable, context);
    else
        t->watch = watch_start_as_is(l, t->fd, readable, context);
}

void transport_detach(struct transport *t)
{
    watch_stop(t->watch);
    t->watch = NULL;
}

ssize_t transport_peek(struct transport *t, char *p, size_t room)
{
    ASSERT(t->tls == NULL);
    return recv(t->fd, p, room, MSG_PEEK | MSG_DONTWAIT);
}

ssize_t transport_send_file(struct transport *t, int fd, off_t at, size_t max)
{
    if (t->tls != NULL) {
        errno = ENOTSUP;
        return -1;
    }
    return TEMP_FAILURE_RETRY(sendfile(t->fd, fd, &at, max));
}

ssize_t transport_splice(const struct transport *t, int from, int to, size_t max)
{
    const unsigned flags = SPLICE_F_NONBLOCK | SPLICE_F_MOVE;

    if (t->tls != NULL) {
        errno = ENOTSUP;
        return -1;
    }
    return TEMP_FAILURE_RETRY(splice(from, NULL, to, NULL, max, flags));
}

uint64_t transport_sent_bytes(const struct transport *t)
{
    return BIO_number_written(SSL_get_wbio(t->tls->ssl));
}

uint64_t transport_unacknowledged(const struct transport *t)
{
    int protocol = 0;
    int bytes = 0;
    socklen_t len = sizeof(protocol);

    /* Of a unix socket it would be the memory of pieces that the peer has not read to their end. */
    if (getsockopt(t->fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) != 0 || protocol != IPPROTO_TCP)
        return 0;
    return ioctl(t->fd, SIOCOUTQ, &bytes) == 0 ? (uint64_t)bytes : 0;
}

bool transport_has_failed(const struct transport *t)
{
    struct pollfd p = {.fd = t->fd};

    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

void transport_end(struct transport *t)
{
    if (t->tls != NULL)
        tls_link_shutdown(t->tls);
    (void)shutdown(t->fd, SHUT_WR);
}

int transport_end_sending(struct transport *t)
{
    if (t->tls != NULL) {
        errno = ENOTSUP;
        return -1;
    }
    return shutdown(t->fd, SHUT_WR);
}

static bool is_empty(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == -1 && (errno == EAGAIN || errno == EINTR);
}

bool transport_has_input(const struct transport *t)
{
    return (t->tls != NULL && (t->tls->ended || SSL_has_pending(t->tls->ssl) == 1)) ||
           !is_empty(t->fd);
}

bool transport_is_quiet(struct transport *t)
{
    return t->tls != NULL ? tls_link_quiet(t->tls) : is_empty(t->fd);
}
