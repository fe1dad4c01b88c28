/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/packet.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

union packet_control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

enum err packet_send(int fd, const json_t *message, int pass)
{
    struct text bytes = {0};
    union packet_control control = {0};
    struct iovec iov;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    enum err result = ERR_OK;

    json_print(message, &bytes);
    iov = (struct iovec){bytes.p, bytes.len};
    if (pass >= 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &pass, sizeof(int));
    }
    if (bytes.len > PACKET_BYTES_MAX)
        result = ERR_TOO_LARGE;
    else if (TEMP_FAILURE_RETRY(sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0)
        result = errno == EAGAIN || errno == ENOBUFS ? ERR_BUSY : ERR_PEER_CLOSED;
    text_fini(&bytes);
    return result;
}

/* Returns the first descriptor of MSG, and closes any others. */
static int take_descriptor(struct msghdr *msg)
{
    int taken = -1;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; ++i) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (taken < 0)
                taken = fd;
            else
                close(fd);
        }
    }
    return taken;
}

enum err packet_receive(int fd, json_t **message, int *passed)
{
    union packet_control control = {0};
    char *bytes = xmalloc(PACKET_BYTES_MAX);
    struct iovec iov = {bytes, PACKET_BYTES_MAX};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;

    *passed = -1;
    /* If the peer closed without reading everything, the kernel reports that once, before the
     * messages of the peer, which can still be received. */
    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n <= 0) {
        free(bytes);
        return n < 0 && errno == EAGAIN ? ERR_BUSY : ERR_PEER_CLOSED;
    }
    *passed = take_descriptor(&msg);
    json_t *m = NULL;
    bool good = (msg.msg_flags & MSG_TRUNC) == 0 &&
                json_parse((struct slice){bytes, (size_t)n}, PACKET_BYTES_MAX, &m, NULL) == ERR_OK;
    free(bytes);
    if (good && json_is_object(m)) {
        *message = m;
        return ERR_OK;
    }
    json_decref(m);
    if (*passed >= 0)
        close(*passed);
    *passed = -1;
    return ERR_SYNTAX;
}

bool packet_peer_is(int fd, uid_t uid)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        return false;
    return peer.uid == uid || peer.uid == 0;
}

int packet_inherited(const char *variable, bool *bad)
{
    const char *value = getenv(variable);
    int type = 0;
    socklen_t len = sizeof(type);
    uint64_t n;

    *bad = false;
    if (value == NULL)
        return -1;
    *bad = true;
    if (!parse_u64(slice_of(value), INT32_MAX, &n) || n <= 2)
        return -1;
    int fd = (int)n;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_SEQPACKET ||
        !packet_peer_is(fd, geteuid()) || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return -1;
    *bad = false;
    return fd;
}

/* ---- queue ---- */

struct packet {
    struct list node;
    json_t *message;
    int pass;
};

void packet_queue_init(struct packet_queue *q, int fd)
{
    q->fd = fd;
    list_init(&q->items);
}

static void packet_free(struct packet *p)
{
    json_decref(p->message);
    if (p->pass >= 0)
        close(p->pass);
    free(p);
}

void packet_queue_add(struct packet_queue *q, json_t *message, int pass)
{
    struct packet *p = xcalloc(1, sizeof(*p));

    ASSERT(message != NULL);
    p->message = message;
    /* Duplicated, so that the caller may close its own before the message is sent. */
    p->pass = pass >= 0 ? fcntl(pass, F_DUPFD_CLOEXEC, 3) : -1;
    list_push_back(&q->items, &p->node);
}

enum err packet_queue_flush(struct packet_queue *q)
{
    struct packet *p;

    while ((p = list_pop_entry(&q->items, struct packet, node)) != NULL) {
        enum err e = packet_send(q->fd, p->message, p->pass);

        if (e == ERR_BUSY) {
            list_push_front(&q->items, &p->node);
            return ERR_BUSY;
        }
        packet_free(p);
        if (e == ERR_TOO_LARGE)
            log_error(NULL, "packet-too-large", "limit=%d", PACKET_BYTES_MAX);
        if (e == ERR_PEER_CLOSED)
            return ERR_PEER_CLOSED;
    }
    return ERR_OK;
}

void packet_queue_close(struct packet_queue *q)
{
    struct packet *p;

    while ((p = list_pop_entry(&q->items, struct packet, node)) != NULL)
        packet_free(p);
    if (q->fd >= 0)
        close(q->fd);
    q->fd = -1;
}

/* ---- conversations ---- */

bool packet_is(const json_t *m, const char *op)
{
    return slice_is(json_text(m, "op"), op);
}

enum err packet_send_op(int fd, const char *op)
{
    json_t *m = json_pack("{s:s}", "op", op);
    enum err e = packet_send(fd, m, -1);

    json_decref(m);
    return e;
}

enum err packet_await(int fd, uint64_t until_us, json_t **message, int *passed)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = clock_mono_us();
        enum err e = packet_receive(fd, message, passed);

        if (e != ERR_BUSY)
            return e;
        if (now >= until_us)
            return ERR_TIMEOUT;
        (void)poll(&p, 1, (int)((until_us - now) / 1000) + 1);
    }
}

enum err packet_receive_until(int fd, const char *until, uint64_t wait_ms, packet_take_fn take,
                              void *context, json_t **last)
{
    uint64_t until_us = clock_mono_us() + wait_ms * 1000;

    for (;;) {
        json_t *m;
        int passed;
        enum err e = packet_await(fd, until_us, &m, &passed);

        if (e != ERR_OK)
            return e;
        if (passed < 0 && packet_is(m, until)) {
            *last = m;
            return ERR_OK;
        }
        bool good = take(context, m, &passed);
        json_decref(m);
        if (passed >= 0)
            close(passed);
        if (!good)
            return ERR_SYNTAX;
    }
}
