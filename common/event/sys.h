/* SPDX-License-Identifier: Apache-2.0
 *
 * The system calls that every request makes several times. In a program with threads, libc's recv,
 * send, sendmsg, poll and epoll_pwait are cancellation points: two locked operations and about 35
 * instructions each, around calls that do not block. No thread is cancelled here, and syscall(2) is
 * not a cancellation point; it sets errno as they do. Any thread.
 *
 * Under a sanitizer these are libc's functions: the sanitizer intercepts them to learn which memory
 * has been written, and how threads are synchronized.
 */
#pragma once

#include "common/base/base.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Also where a system call has several variants, or a long cannot hold a pointer. */
#if defined(RLB_CHECKED) || defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer) ||     \
    __has_feature(memory_sanitizer) || !defined(SYS_recvfrom) || !defined(SYS_sendto) ||           \
    !defined(SYS_sendmsg) || !defined(SYS_epoll_pwait) || !defined(__LP64__)
#define RLB_SYS_BY_LIBC
#endif

/* As recv(2); the others likewise. */
static inline ssize_t sys_recv(int fd, void *to, size_t room, int flags)
{
#ifdef RLB_SYS_BY_LIBC
    return recv(fd, to, room, flags);
#else
    return syscall(SYS_recvfrom, fd, to, room, flags, NULL, NULL);
#endif
}

/* Sends N pieces at IOV. A single one needs no msghdr, which the kernel would have to copy. */
static inline ssize_t sys_send_pieces(int fd, struct iovec *iov, size_t n, int flags)
{
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};

#ifdef RLB_SYS_BY_LIBC
    return n == 1 ? send(fd, iov->iov_base, iov->iov_len, flags) : sendmsg(fd, &m, flags);
#else
    return n == 1 ? syscall(SYS_sendto, fd, iov->iov_base, iov->iov_len, flags, NULL, 0)
                  : syscall(SYS_sendmsg, fd, &m, flags);
#endif
}

/* epoll_wait(2). */
static inline int sys_epoll_wait(int epoll, struct epoll_event *events, int max, int timeout_ms)
{
#ifdef RLB_SYS_BY_LIBC
    return epoll_pwait(epoll, events, max, timeout_ms, NULL);
#else
    return (int)syscall(SYS_epoll_pwait, epoll, events, max, timeout_ms, NULL, _NSIG / 8);
#endif
}

/* Not every architecture has the system call poll. */
static inline int sys_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
#if defined(RLB_SYS_BY_LIBC) || !defined(SYS_poll)
    return poll(fds, n, timeout_ms);
#else
    return (int)syscall(SYS_poll, fds, n, timeout_ms);
#endif
}
