/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/packet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/text.h"

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

enum err packet_send(int fd, const json_t *message, int pass)
{
    struct text bytes = {0};
    union control control = {0};
    struct iovec iov;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    enum err result = ERR_OK;

    json_print(message, &bytes);
    iov = (struct iovec){bytes.p, bytes.len};
    if (bytes.len > PACKET_BYTES_MAX) {
        text_fini(&bytes);
        return ERR_TOO_LARGE;
    }
    if (pass >= 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &pass, sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        result = errno == EAGAIN || errno == ENOBUFS ? ERR_BUSY : ERR_PEER_CLOSED;
    text_fini(&bytes);
    return result;
}

/* The first descriptor of MSG; any others are closed. */
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
    union control control = {0};
    char *bytes = xmalloc(PACKET_BYTES_MAX);
    struct iovec iov = {bytes, PACKET_BYTES_MAX};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    char why[JSON_WHY_ROOM];
    enum err result = ERR_OK;
    ssize_t n;

    *passed = -1;
    /* A peer that has closed without reading all that it was sent: the system says so once, before
     * what that peer had sent, which is still there. */
    do
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));
    if (n < 0) {
        result = errno == EAGAIN ? ERR_BUSY : ERR_PEER_CLOSED;
        goto out;
    }
    if (n == 0) {
        result = ERR_PEER_CLOSED;
        goto out;
    }
    *passed = take_descriptor(&msg);
    result = msg.msg_flags & MSG_TRUNC
                 ? ERR_SYNTAX
                 : json_parse((struct slice){bytes, (size_t)n}, PACKET_BYTES_MAX, message, why);
    if (result == ERR_OK && !json_is_object(*message)) {
        json_decref(*message);
        result = ERR_SYNTAX;
    }
    if (result != ERR_OK) {
        if (*passed >= 0)
            close(*passed);
        *passed = -1;
        result = ERR_SYNTAX;
    }
out:
    free(bytes);
    return result;
}

bool packet_peer_is(int fd, uid_t uid)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        return false;
    return peer.uid == uid || peer.uid == 0;
}

bool packet_peer_is_ours(int fd)
{
    return packet_peer_is(fd, geteuid());
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
        !packet_peer_is_ours(fd) || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return -1;
    *bad = false;
    return fd;
}
