/* SPDX-License-Identifier: Apache-2.0
 *
 * connect, write, read until the body is whole: each step waits by poll() for what is left of one
 * deadline. The response is parsed by the same strict code that reads workers' answers.
 */
#include "ctl/fetch.h"
#include "common/base/clock.h"
#include "common/net/addr.h"
#include "common/wire/http1_head.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

struct asking {
    const struct fetch_request *q;
    uint64_t deadline_us;
    int fd;
    int problem;       /* errno of a connection that was not made and not refused; else 0 */
    struct text bytes; /* received */
};

/* Wait until the descriptor is ready for EVENTS. */
static enum err wait_ready(struct asking *a, short events)
{
    struct pollfd p = {.fd = a->fd, .events = events};

    for (;;) {
        uint64_t now_us = clock_mono_us();
        uint64_t left_us = a->deadline_us > now_us ? a->deadline_us - now_us : 0;
        int n = poll(&p, 1, (int)((left_us + 999) / 1000));

        if (n > 0)
            return ERR_OK;
        if (n == 0)
            return ERR_TIMEOUT;
        if (errno != EINTR)
            return ERR_SYSTEM;
    }
}

static enum err connect_to(struct asking *a, const struct addr *to)
{
    int problem = 0;
    socklen_t len = sizeof(problem);

    a->problem = 0;
    a->fd = socket(to->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->fd < 0) {
        a->problem = errno;
        return ERR_SYSTEM;
    }
    if (connect(a->fd, &to->sa, to->len) != 0) {
        /* EAGAIN: a unix socket whose queue is full. It does not become writable; too busy is too
         * busy. */
        if (errno != EINPROGRESS)
            goto refused;
        enum err e = wait_ready(a, POLLOUT);
        if (e != ERR_OK)
            return e == ERR_TIMEOUT ? ERR_CONNECT_TIMEOUT : e;
        if (getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &problem, &len) != 0)
            return ERR_SYSTEM;
        errno = problem;
        if (problem != 0)
            goto refused;
    }
    return ERR_OK;
refused:
    if (errno == ECONNREFUSED)
        return ERR_CONNECT_REFUSED;
    a->problem = errno;
    return ERR_CONNECT_FAILED;
}

static void hang_up(struct asking *a)
{
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

/* The address itself, or all that its name resolves to. */
static enum err find_addresses(struct slice text, struct addr *all, size_t *n)
{
    enum err e = addr_parse(text, &all[0]);

    if (e == ERR_UNSUPPORTED) {
        *n = FETCH_ADDRESSES_MAX;
        return addr_resolve(text, all, n);
    }
    *n = 1;
    return e;
}

static enum err connect_any(struct asking *a)
{
    struct addr all[FETCH_ADDRESSES_MAX];
    size_t n = 0;
    enum err e = find_addresses(slice_of(a->q->address), all, &n);

    if (e != ERR_OK)
        return e;
    e = ERR_NOT_FOUND;
    for (size_t i = 0; i < n; ++i) {
        e = connect_to(a, &all[i]);
        if (e == ERR_OK)
            return ERR_OK;
        hang_up(a);
    }
    return e;
}

static enum err send_request(struct asking *a)
{
    struct text head = {0};
    enum err e = ERR_OK;
    /* A unix socket has no host; "localhost" is one that every admin address answers to. */
    const char *host = strncmp(a->q->address, "unix:", 5) == 0 ? "localhost" : a->q->address;

    text_addf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAccept: */*\r\n",
              a->q->method, a->q->path, host);
    if (strcmp(a->q->method, "POST") == 0)
        text_addf(&head, "Content-Length: %zu\r\n", a->q->body.len);
    if (a->q->body.len != 0)
        text_add(&head, SLICE_LIT("Content-Type: application/json\r\n"));
    if (a->q->token != NULL)
        text_addf(&head, "Authorization: Bearer %s\r\n", a->q->token);
    text_add(&head, SLICE_LIT("\r\n"));
    text_add(&head, a->q->body);
    for (size_t sent = 0; sent < head.len && e == ERR_OK;) {
        ssize_t n = send(a->fd, head.p + sent, head.len - sent, MSG_NOSIGNAL);

        if (n >= 0)
            sent += (size_t)n;
        else if (errno == EAGAIN)
            e = wait_ready(a, POLLOUT);
        else if (errno != EINTR)
            e = ERR_WRITE_FAILED;
    }
    text_fini(&head);
    return e;
}

/* Read some more. ERR_PEER_CLOSED at the end. */
static enum err read_more(struct asking *a)
{
    enum { STEP = 256 * 1024 };

    if (a->bytes.len > (size_t)FETCH_BODY_MAX + RESPONSE_HEAD_MAX)
        return ERR_TOO_LARGE;
    for (;;) {
        ssize_t n = recv(a->fd, text_reserve(&a->bytes, STEP), STEP, 0);

        if (n > 0) {
            a->bytes.len += (size_t)n;
            return ERR_OK;
        }
        if (n == 0)
            return ERR_PEER_CLOSED;
        if (errno == EAGAIN) {
            enum err e = wait_ready(a, POLLIN);
            if (e != ERR_OK)
                return e;
        } else if (errno != EINTR) {
            return ERR_PEER_RESET;
        }
    }
}

/* The final head; *BODY_AT is where its body begins. */
static enum err read_head(struct asking *a, struct http1_head *head, size_t *body_at)
{
    size_t at = 0;

    for (;;) {
        struct slice rest = {a->bytes.p + at, a->bytes.len - at};
        enum err e = rest.len != 0 ? http1_head_parse(rest, false, head) : ERR_BUSY;

        if (e == ERR_BUSY)
            e = read_more(a);
        else if (e != ERR_OK)
            return ERR_BAD_RESPONSE;
        else if (head->status >= 200)
            break;
        else
            at += head->bytes;
        if (e != ERR_OK)
            return e;
    }
    *body_at = at + head->bytes;
    return ERR_OK;
}

static enum err read_chunked(struct asking *a, size_t at, struct text *out)
{
    struct http1_chunked d = {0};

    for (;;) {
        while (at < a->bytes.len) {
            struct slice data;
            size_t used;
            enum err e = http1_chunked_decode(
                &d, (struct slice){a->bytes.p + at, a->bytes.len - at}, &data, &used);

            if (e != ERR_OK && e != ERR_NOT_FOUND)
                return ERR_BAD_RESPONSE;
            text_add(out, data);
            at += used;
            if (e == ERR_NOT_FOUND)
                return ERR_OK;
        }
        enum err e = read_more(a);
        if (e != ERR_OK)
            return e;
    }
}

static enum err read_plain(struct asking *a, size_t at, uint64_t bytes, struct text *out)
{
    if (bytes != UINT64_MAX && bytes > FETCH_BODY_MAX)
        return ERR_TOO_LARGE;
    while (a->bytes.len - at < bytes) {
        enum err e = read_more(a);

        if (e == ERR_PEER_CLOSED && bytes == UINT64_MAX)
            break;
        if (e != ERR_OK)
            return e;
    }
    if (bytes > a->bytes.len - at)
        bytes = a->bytes.len - at;
    text_add(out, (struct slice){a->bytes.p + at, (size_t)bytes});
    return ERR_OK;
}

static enum err read_response(struct asking *a, int *status, struct text *out)
{
    struct http1_head *head = xmalloc(sizeof(*head));
    size_t at = 0;
    enum err e = read_head(a, head, &at);

    if (e == ERR_OK) {
        *status = head->status;
        switch (head->framing) {
        case HTTP1_BODY_NONE:
            break;
        case HTTP1_BODY_LENGTH:
            e = read_plain(a, at, head->content_length, out);
            break;
        case HTTP1_BODY_CHUNKED:
            e = read_chunked(a, at, out);
            break;
        case HTTP1_BODY_CLOSE:
            e = read_plain(a, at, UINT64_MAX, out);
            break;
        }
    }
    free(head);
    return e;
}

/* WHY: instead of the text of E, when that is too general; or NULL. */
static void complain(const struct asking *a, enum err e, const char *why, struct diag *d)
{
    if (a->problem == 0) {
        diag_add(d, NULL, 0, 0, "%s: %s", a->q->address, why != NULL ? why : err_text(e));
    } else {
        diag_add(d, NULL, 0, 0, "%s: %s: %s", a->q->address, err_text(e),
                 a->problem == EAGAIN ? "too busy" : strerror(a->problem));
    }
}

enum err fetch(const struct fetch_request *q, int *status, struct text *out, struct diag *d)
{
    struct asking a = {
        .q = q, .deadline_us = clock_mono_us() + (uint64_t)q->timeout_ms * 1000, .fd = -1};
    int code = 0;
    enum err e = connect_any(&a);
    /* What is read only afterwards can be wrong in the same way. */
    const char *why = e == ERR_SYNTAX ? "no address: want HOST:PORT or unix:/PATH" : NULL;

    if (e == ERR_OK)
        e = send_request(&a);
    if (e == ERR_OK)
        e = read_response(&a, &code, out);
    if (e == ERR_OK)
        *status = code;
    else
        complain(&a, e, why, d);
    hang_up(&a);
    text_fini(&a.bytes);
    return e;
}
