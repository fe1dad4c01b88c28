/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/scripted_peer.h"

#include "common/base/clock.h"
#include "tests/support/self_signed.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    /* Turns without any byte moved, after which a loop is quiet: more than the number of turns for
     * which work inside the program is deferred. */
    QUIET_TURNS = 5,
    /* More than any scenario needs. */
    TURNS_MAX = 1000000,
    /* A wait that the next timer always ends before. */
    LONG_WAIT_MS = 60000,
    READ_MAX = 64 * 1024,
    /* The socket's memory for a larger piece is released only with its last byte, which therefore
     * is not left. */
    LEFT_IN_MAX = 4096,
};

/* ---- the clocks ---- */

static bool is_virtual;
static uint64_t now_ms;   /* since virtual_start() */
static uint64_t alarm_ms; /* monotonic: what the loop waits for; 0: it does not wait */

uint64_t __real_clock_mono_us(void);
uint64_t __real_clock_wall_us(void);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old);
uint64_t __wrap_clock_mono_us(void);
uint64_t __wrap_clock_wall_us(void);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old);

uint64_t __wrap_clock_mono_us(void)
{
    if (!is_virtual)
        return __real_clock_mono_us();
    return (VIRTUAL_START_S * UINT64_C(1000) + now_ms) * 1000;
}

uint64_t __wrap_clock_wall_us(void)
{
    if (!is_virtual)
        return __real_clock_wall_us();
    return (VIRTUAL_WALL_START_S * UINT64_C(1000) + now_ms) * 1000;
}

/* Notes until when the loop would wait, and ends the wait at once. */
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old)
{
    static const struct itimerspec past = {.it_value = {.tv_nsec = 1}};

    if (!is_virtual)
        return __real_timerfd_settime(fd, flags, to, old);
    alarm_ms = (uint64_t)to->it_value.tv_sec * 1000 + (uint64_t)to->it_value.tv_nsec / 1000000;
    return __real_timerfd_settime(fd, flags, &past, old);
}

void virtual_start(void)
{
    is_virtual = true;
    now_ms = 0;
}

void virtual_end(void)
{
    is_virtual = false;
}

uint64_t virtual_ms(void)
{
    return now_ms;
}

void virtual_settle(struct loop *l, bool (*step)(void *context), void *context)
{
    unsigned turns = 0;

    for (unsigned quiet = 0; quiet < QUIET_TURNS; ++quiet) {
        loop_turn(l, 0);
        if (step(context))
            quiet = 0;
        ++turns;
        ASSERT(turns < TURNS_MAX);
    }
}

/* The time of the first timer of L, which is quiet [virtual ms]. */
static uint64_t next_alarm(struct loop *l)
{
    alarm_ms = 0;
    /* The alarm may be set already; this wait ends with it then, and the next one sets it. */
    for (unsigned turns = 0; alarm_ms == 0; ++turns) {
        ASSERT(turns < TURNS_MAX);
        loop_turn(l, LONG_WAIT_MS);
    }
    uint64_t start_ms = VIRTUAL_START_S * UINT64_C(1000);
    return alarm_ms > start_ms + now_ms ? alarm_ms - start_ms : now_ms;
}

void virtual_pass(struct loop *l, uint64_t until_ms, bool (*step)(void *context),
                  bool (*done)(void *context), void *context)
{
    for (;;) {
        virtual_settle(l, step, context);
        if (now_ms >= until_ms || (done != NULL && done(context)))
            return;
        uint64_t next_ms = next_alarm(l);
        virtual_settle(l, step, context);
        if (done != NULL && done(context))
            return;
        now_ms = next_ms < until_ms ? next_ms : until_ms;
    }
}

/* ---- TLS ---- */

SSL_CTX *scripted_tls_server(void)
{
    static SSL_CTX *ctx;

    if (ctx == NULL)
        ctx = self_signed_context(&(struct tls_context_options){0});
    return ctx;
}

SSL_CTX *scripted_tls_client(void)
{
    static SSL_CTX *ctx;

    if (ctx == NULL)
        ctx = SSL_CTX_new(TLS_client_method());
    return ctx;
}

/* ---- an end ---- */

void scripted_open(struct scripted_peer *p, int fd, SSL_CTX *tls, bool server)
{
    *p = (struct scripted_peer){.fd = fd};
    if (tls == NULL)
        return;
    p->ssl = SSL_new(tls);
    SSL_set_bio(p->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    if (server)
        SSL_set_accept_state(p->ssl);
    else
        SSL_set_connect_state(p->ssl);
}

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    ASSERT(strlen(path) < sizeof(a.sun_path));
    strcpy(a.sun_path, path);
    return a;
}

void scripted_connect(struct scripted_peer *p, const char *path, SSL_CTX *tls)
{
    struct sockaddr_un a = address_of(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int failed = connect(fd, (struct sockaddr *)&a, sizeof(a));

    ASSERT(failed == 0);
    scripted_open(p, fd, tls, false);
}

int scripted_listen(const char *path, int backlog)
{
    struct sockaddr_un a = address_of(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    unlink(path);
    int failed = bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, backlog) != 0;
    ASSERT(!failed);
    return fd;
}

/* Adds the received BYTES to P->in, decrypted. */
static void take_bytes(struct scripted_peer *p, const char *bytes, size_t n)
{
    size_t before = p->in.len;

    if (p->ssl == NULL) {
        text_add(&p->in, (struct slice){bytes, n});
    } else {
        BIO_write(SSL_get_rbio(p->ssl), bytes, (int)n);
        for (int got = 1; got > 0;) {
            got = SSL_read(p->ssl, text_reserve(&p->in, READ_MAX), READ_MAX);
            p->in.len += got > 0 ? (size_t)got : 0;
        }
    }
    p->in_all += p->in.len - before;
}

/* All bytes in the socket leave it, except the last one. */
static bool read_bytes(struct scripted_peer *p)
{
    char bytes[READ_MAX];
    size_t total = 0;

    for (;;) {
        ssize_t n = recv(p->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
        size_t seen = p->left_byte;

        if (n <= (ssize_t)seen)
            return total != 0;
        take_bytes(p, bytes + seen, (size_t)n - seen);
        total += (size_t)n - seen;
        p->left_byte = total <= LEFT_IN_MAX;
        size_t takes = (size_t)n - p->left_byte;
        ssize_t taken = takes != 0 ? recv(p->fd, bytes, takes, MSG_DONTWAIT) : 0;
        ASSERT(taken == (ssize_t)takes);
    }
}

static void note_end(struct scripted_peer *p)
{
    struct pollfd f = {.fd = p->fd, .events = POLLRDHUP};

    if (poll(&f, 1, 0) <= 0)
        return;
    p->reset |= (f.revents & POLLERR) != 0;
    p->ended |= (f.revents & (POLLRDHUP | POLLHUP)) != 0;
    p->truncated |= p->ssl != NULL && (SSL_get_shutdown(p->ssl) & SSL_RECEIVED_SHUTDOWN) == 0;
}

static bool write_bytes(struct scripted_peer *p)
{
    bool any = false;

    if (p->ssl != NULL && !SSL_is_init_finished(p->ssl))
        (void)SSL_do_handshake(p->ssl);
    if (p->ssl != NULL) {
        size_t n = BIO_ctrl_pending(SSL_get_wbio(p->ssl));

        BIO_read(SSL_get_wbio(p->ssl), text_reserve(&p->out, n + 1), (int)n);
        p->out.len += n;
    }
    while (p->out.len != 0) {
        ssize_t n = send(p->fd, p->out.p, p->out.len, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n == -1 && errno == EAGAIN)
            return any;
        if (n == -1) {
            text_clear(&p->out);
            return any;
        }
        memmove(p->out.p, p->out.p + n, p->out.len - (size_t)n);
        p->out.len -= (size_t)n;
        any = true;
    }
    if (p->end_at_sent) {
        shutdown(p->fd, SHUT_WR);
        p->end_at_sent = false;
        any = true;
    }
    return any;
}

bool scripted_step(struct scripted_peer *p)
{
    bool was_over = p->ended || p->reset;

    if (p->fd == -1)
        return false;
    bool any = !p->deaf && read_bytes(p);
    if (!any)
        note_end(p);
    return write_bytes(p) || any || was_over != (p->ended || p->reset);
}

void scripted_send(struct scripted_peer *p, struct slice bytes)
{
    if (p->ssl == NULL) {
        text_add(&p->out, bytes);
        return;
    }
    ASSERT(SSL_is_init_finished(p->ssl));
    while (bytes.len != 0) {
        int n = SSL_write(p->ssl, bytes.p, (int)bytes.len);

        ASSERT(n > 0);
        bytes = (struct slice){bytes.p + n, bytes.len - (size_t)n};
    }
}

void scripted_end(struct scripted_peer *p)
{
    p->end_at_sent = true;
    (void)scripted_step(p);
}

static void close_peer(struct scripted_peer *p)
{
    close(p->fd);
    p->fd = -1;
    SSL_free(p->ssl);
    p->ssl = NULL;
}

void scripted_close(struct scripted_peer *p)
{
    char byte;

    if (p->fd == -1)
        return;
    if (p->ssl != NULL)
        (void)SSL_shutdown(p->ssl);
    (void)write_bytes(p);
    if (p->left_byte)
        (void)!recv(p->fd, &byte, 1, MSG_DONTWAIT);
    p->left_byte = false;
    close_peer(p);
}

void scripted_reset(struct scripted_peer *p)
{
    ASSERT(p->fd != -1);
    (void)write_bytes(p);
    ASSERT(p->left_byte);
    close_peer(p);
}

void scripted_fini(struct scripted_peer *p)
{
    if (p->fd != -1)
        close_peer(p);
    text_fini(&p->in);
    text_fini(&p->out);
}

bool scripted_is_open(const struct scripted_peer *p)
{
    return p->fd != -1 && !p->ended && !p->reset;
}

const char *scripted_run(struct scripted_peer *p, const char *step)
{
    const char *end = strrchr(step, '$');

    scripted_send(p, end != NULL ? (struct slice){step, (size_t)(end - step)} : slice_of(step));
    if (end == NULL)
        return "";
    if (strcmp(end, "$close") == 0)
        scripted_close(p);
    else if (strcmp(end, "$reset") == 0)
        scripted_reset(p);
    else if (strcmp(end, "$end") == 0)
        scripted_end(p);
    else if (strcmp(end, "$deaf") == 0)
        p->deaf = true;
    else
        return end;
    return "";
}

/* ---- HTTP messages ---- */

size_t scripted_head_length(const struct text *in)
{
    const char *end = in->len != 0 ? memmem(in->p, in->len, "\r\n\r\n", 4) : NULL;

    return end != NULL ? (size_t)(end - in->p) + 4 : 0;
}

size_t scripted_message_length(const struct text *in)
{
    size_t head = scripted_head_length(in);

    if (head == 0)
        return 0;
    const char *length = memmem(in->p, head, "\r\nContent-Length: ", 18);
    size_t body = length != NULL ? strtoul(length + 18, NULL, 10) : 0;

    return in->len >= head + body ? head + body : 0;
}

/* ---- expectations ---- */

void scripted_differ(const char *what, struct slice got, struct slice wanted, const char *file,
                     int line)
{
    print_error("%s\n--- received:\n%.*s\n--- expected:\n%.*s\n", what, SLICE_FMT(got),
                SLICE_FMT(wanted));
    _fail(file, line);
}

void scripted_expect_all(struct text *in, const char *what, const char *bytes, const char *file,
                         int line)
{
    if (!slice_eq(text_slice(in), slice_of(bytes)))
        scripted_differ(what, text_slice(in), slice_of(bytes), file, line);
    text_clear(in);
}

void scripted_expect_call(const char *receiver, struct slice got, const char *name,
                          const char *bytes, const char *file, int line)
{
    if (strcmp(receiver, name) != 0)
        scripted_differ("the receiver of a call", slice_of(receiver), slice_of(name), file, line);
    if (!slice_starts(got, slice_of(bytes)))
        scripted_differ("the request of a call", got, slice_of(bytes), file, line);
}

/* Removes the Date fields, in the format of RFC 9110 section 5.6.7. */
static void drop_dates(struct text *in)
{
    static const char date[] = "Date: Fri, 15 Jan 2027 08:00:00 GMT\r\n";
    char *at = in->p;

    while (in->len != 0 &&
           (at = memmem(at, (size_t)(in->p + in->len - at), "Date: Fri, ", 11)) != NULL) {
        size_t rest = (size_t)(in->p + in->len - at);

        ASSERT(rest >= sizeof(date) - 1);
        memmove(at, at + sizeof(date) - 1, rest - (sizeof(date) - 1));
        in->len -= sizeof(date) - 1;
    }
}

void scripted_expect_bytes(struct scripted_peer *p, const char *bytes, const char *file, int line)
{
    drop_dates(&p->in);
    scripted_expect_all(&p->in, "the bytes at the client", bytes, file, line);
}

void scripted_expect_status(struct scripted_peer *p, int status, const char *const *fields,
                            const char *file, int line)
{
    struct text *in = &p->in;
    struct slice got = text_slice(in);
    char line_text[32];

    snprintf(line_text, sizeof(line_text), "HTTP/1.1 %d ", status);
    if (!slice_starts(got, slice_of(line_text)))
        scripted_differ("the response at the client", got, slice_of(line_text), file, line);
    if (scripted_message_length(in) != in->len)
        scripted_differ("one response, and nothing else", got, SLICE_NULL, file, line);
    for (size_t i = 0; fields[i] != NULL; ++i) {
        bool wanted = fields[i][0] != '!';
        const char *field = fields[i] + !wanted;

        if ((memmem(in->p, in->len, field, strlen(field)) != NULL) != wanted)
            scripted_differ("the response", got, slice_of(fields[i]), file, line);
    }
    text_clear(in);
}

void scripted_expect_closed(const struct scripted_peer *p, bool closed, const char *file, int line)
{
    if (scripted_is_open(p) != closed)
        return;
    print_error("the client's connection is %s\n", closed ? "open" : "closed");
    _fail(file, line);
}
