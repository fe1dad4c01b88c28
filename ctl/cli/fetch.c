/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop of its own runs the request; the addresses of a host name are tried one after the other
 * within one deadline.
 */
#include "ctl/cli/fetch.h"

#include <errno.h>

#include "common/upstream/http_fetch.h"

struct asking {
    struct http_fetch fetch;
    struct text *out;
    bool done;
    enum err e;
};

static void on_head(struct http_fetch *f, const struct http1_head *head)
{
    struct asking *a = container_of(f, struct asking, fetch);

    if (head->framing != HTTP1_BODY_LENGTH || head->content_length <= FETCH_BODY_MAX)
        return;
    http_fetch_stop(f);
    a->done = true;
    a->e = ERR_TOO_LARGE;
}

static void on_body(struct http_fetch *f, struct slice bytes)
{
    text_add(container_of(f, struct asking, fetch)->out, bytes);
}

static void on_done(struct http_fetch *f, enum err e)
{
    struct asking *a = container_of(f, struct asking, fetch);

    a->done = true;
    a->e = e;
}

static const struct http_fetch_events events = {
    .on_head = on_head, .on_body = on_body, .done = on_done};

static struct text request_bytes(const struct fetch_request *q)
{
    struct text t = {0};
    /* A unix socket has no host; "localhost" is one that every admin address answers to. */
    const char *host = strncmp(q->address, "unix:", 5) == 0 ? "localhost" : q->address;

    text_addf(&t, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nAccept: */*\r\n", q->method,
              q->path, host);
    if (strcmp(q->method, "POST") == 0)
        text_addf(&t, "Content-Length: %zu\r\n", q->body.len);
    if (q->body.len != 0)
        text_add(&t, SLICE_LIT("Content-Type: application/json\r\n"));
    if (q->token != NULL)
        text_addf(&t, "Authorization: Bearer %s\r\n", q->token);
    text_add(&t, SLICE_LIT("\r\n"));
    text_add(&t, q->body);
    return t;
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

static enum err ask_one(struct asking *a, struct loop *l, const struct fetch_request *q,
                        const struct addr *to, uint64_t timeout_ms)
{
    const struct http_fetch_request r = {.addr = to,
                                         .bytes = request_bytes(q),
                                         .timeout_ms = timeout_ms,
                                         .body_max = FETCH_BODY_MAX,
                                         .events = &events};

    a->done = false;
    http_fetch_start(&a->fetch, l, &r);
    while (!a->done)
        loop_turn(l, FETCH_TIMEOUT_MS);
    /* Of a unix socket: it does not exist, or its backlog stays full. */
    if (a->fetch.connect_errno == ENOENT || a->fetch.connect_errno == EAGAIN)
        return ERR_CONNECT_FAILED;
    return a->e;
}

static enum err ask_any(struct asking *a, const struct fetch_request *q, const struct addr *all,
                        size_t n)
{
    struct loop *l = loop_create(0);
    uint64_t due_ms = loop_due_ms(l, q->timeout_ms);
    enum err e = ERR_NOT_FOUND;
    bool again = true;

    for (size_t i = 0; i < n && again; ++i) {
        uint64_t now_ms = loop_now_ms(l);

        e = ask_one(a, l, q, &all[i], now_ms < due_ms ? due_ms - now_ms : 1);
        again = a->fetch.connect_errno != 0;
    }
    loop_destroy(l);
    return e;
}

enum err fetch(const struct fetch_request *q, int *status, struct text *out, struct diag *d)
{
    struct asking a = {.out = out};
    struct addr all[FETCH_ADDRESSES_MAX];
    size_t n = 0;
    enum err e = find_addresses(slice_of(q->address), all, &n);
    const char *why = e == ERR_SYNTAX ? "no address: want HOST:PORT or unix:/PATH" : err_text(e);

    if (e == ERR_OK) {
        e = ask_any(&a, q, all, n);
        why = err_text(e);
    }
    int error = a.fetch.connect_errno;

    if (e == ERR_OK)
        *status = a.fetch.status;
    else if (e == ERR_CONNECT_FAILED || e == ERR_SYSTEM)
        diag_add(d, NULL, 0, 0, "%s: %s: %s", q->address, why,
                 error == EAGAIN ? "too busy" : strerror(error));
    else
        diag_add(d, NULL, 0, 0, "%s: %s", q->address, why);
    return e;
}
