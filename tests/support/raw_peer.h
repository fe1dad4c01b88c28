/* SPDX-License-Identifier: Apache-2.0
 *
 * The other end of a connection, byte by byte, played by the test itself in the thread of the loop
 * under test: whatever waits turns the loop meanwhile. Nothing sleeps; what does not happen within
 * RAW_DEADLINE_MS fails the test.
 */
#pragma once

#include "common/base/clock.h"
#include "common/base/text.h"
#include "common/event/loop.h"
#include "common/net/addr.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RAW_DEADLINE_MS = 60000, RAW_TURN_MS = 5 };

struct raw_peer {
    int fd;
    struct text in; /* all received bytes */
    bool ended;     /* in an orderly way */
    bool reset;
};

static inline void raw_ignore_sigpipe(void)
{
    signal(SIGPIPE, SIG_IGN);
}

/* Turn L until COND(CONTEXT). */
static inline void raw_turn_until(struct loop *l, bool (*cond)(void *context), void *context)
{
    uint64_t deadline_us = clock_mono_us() + RAW_DEADLINE_MS * UINT64_C(1000);

    while (!cond(context)) {
        if (clock_mono_us() > deadline_us)
            fail_msg("what the test waits for does not happen");
        loop_turn(l, RAW_TURN_MS);
    }
}

static inline bool raw_flag_is_set(void *flag)
{
    return *(const bool *)flag;
}

static inline void raw_turn_until_set(struct loop *l, bool *flag)
{
    raw_turn_until(l, raw_flag_is_set, flag);
}

/* A listening socket on a free port of the loopback. */
static inline int raw_listen(struct addr *bound)
{
    int fd = -1;

    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:0"), bound), ERR_OK);
    struct addr_listen_options o = {.backlog = 64};
    assert_int_equal(addr_listen(bound, &o, &fd), ERR_OK);
    assert_int_equal(addr_of_socket(fd, bound), ERR_OK);
    return fd;
}

/* A port of the loopback that rejects connections while no process listens. It is reserved until
 * the socket that is returned is closed: the kernel assigns it to no other socket, and addr_listen
 * can listen there. */
static inline int raw_reserve(struct addr *bound)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    assert_int_equal(addr_parse(SLICE_LIT("127.0.0.1:0"), bound), ERR_OK);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    assert_int_equal(bind(fd, &bound->sa, bound->len), 0);
    assert_int_equal(addr_of_socket(fd, bound), ERR_OK);
    return fd;
}

/* Without a connection yet. */
static inline void raw_init(struct raw_peer *p)
{
    *p = (struct raw_peer){.fd = -1};
}

static inline void raw_close(struct raw_peer *p)
{
    if (p->fd != -1)
        close(p->fd);
    p->fd = -1;
}

static inline void raw_fini(struct raw_peer *p)
{
    raw_close(p);
    text_fini(&p->in);
}

/* End the connection by a reset. */
static inline void raw_reset(struct raw_peer *p)
{
    struct linger l = {.l_onoff = 1, .l_linger = 0};

    assert_int_equal(setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
    raw_close(p);
}

static inline void raw_accept(struct loop *l, int listener, struct raw_peer *p)
{
    uint64_t deadline_us = clock_mono_us() + RAW_DEADLINE_MS * UINT64_C(1000);

    raw_init(p);
    while ((p->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) == -1) {
        if (clock_mono_us() > deadline_us)
            fail_msg("no client connects");
        loop_turn(l, RAW_TURN_MS);
    }
}

static inline void raw_connect(const struct addr *a, struct raw_peer *p)
{
    raw_init(p);
    p->fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(p->fd != -1);
    assert_int_equal(connect(p->fd, &a->sa, a->len), 0);
    assert_int_equal(fcntl(p->fd, F_SETFL, O_NONBLOCK), 0);
}

/* Read what is there, at most MAX bytes. */
static inline void raw_read(struct raw_peer *p, size_t max)
{
    while (max != 0 && !p->ended && !p->reset) {
        size_t room = max < 65536 ? max : 65536;
        ssize_t n = recv(p->fd, text_reserve(&p->in, room), room, MSG_DONTWAIT);
        if (n == -1 && (errno == EAGAIN || errno == EINTR))
            return;
        p->ended |= n == 0;
        p->reset |= n == -1;
        if (n > 0) {
            p->in.len += (size_t)n;
            max -= (size_t)n;
        }
    }
}

/* Send all, turning the loop while the socket is full. */
static inline void raw_send_bytes(struct loop *l, struct raw_peer *p, struct slice bytes)
{
    uint64_t deadline_us = clock_mono_us() + RAW_DEADLINE_MS * UINT64_C(1000);

    while (bytes.len != 0) {
        ssize_t n = send(p->fd, bytes.p, bytes.len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) {
            bytes.p += n;
            bytes.len -= (size_t)n;
            continue;
        }
        assert_int_equal(errno, EAGAIN);
        if (clock_mono_us() > deadline_us)
            fail_msg("the peer does not read what is sent");
        loop_turn(l, RAW_TURN_MS);
    }
}

static inline void raw_send(struct loop *l, struct raw_peer *p, const char *text)
{
    raw_send_bytes(l, p, slice_of(text));
}

struct raw_wait {
    struct raw_peer *peer;
    const char *text;
    size_t bytes;
};

static inline bool raw_has_text(void *context)
{
    struct raw_wait *w = context;

    raw_read(w->peer, SIZE_MAX);
    return w->peer->in.len != 0 &&
           memmem(w->peer->in.p, w->peer->in.len, w->text, strlen(w->text)) != NULL;
}

/* Turns the loop until TEXT is in the received bytes. */
static inline void raw_await(struct loop *l, struct raw_peer *p, const char *text)
{
    raw_turn_until(l, raw_has_text, &(struct raw_wait){.peer = p, .text = text});
}

static inline bool raw_has_bytes(void *context)
{
    struct raw_wait *w = context;

    raw_read(w->peer, SIZE_MAX);
    return w->peer->in.len >= w->bytes;
}

static inline void raw_await_bytes(struct loop *l, struct raw_peer *p, size_t bytes)
{
    raw_turn_until(l, raw_has_bytes, &(struct raw_wait){.peer = p, .bytes = bytes});
}

static inline bool raw_is_over(void *context)
{
    struct raw_wait *w = context;

    raw_read(w->peer, SIZE_MAX);
    return w->peer->ended || w->peer->reset;
}

/* Until the connection has ended, in whatever way. */
static inline void raw_await_end(struct loop *l, struct raw_peer *p)
{
    raw_turn_until(l, raw_is_over, &(struct raw_wait){.peer = p});
}

/* Whether the received bytes contain TEXT now. */
static inline bool raw_has(const struct raw_peer *p, const char *text)
{
    return p->in.len != 0 && memmem(p->in.p, p->in.len, text, strlen(text)) != NULL;
}
