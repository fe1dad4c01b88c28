/* SPDX-License-Identifier: Apache-2.0
 *
 * A tunnel between a client of the fixture's server and a worker that the test plays. Include after
 * the fixture of HTTP servers.
 */
#pragma once

static inline void on_tunnel_ended(void *context, uint64_t to_worker_bytes,
                                   uint64_t to_client_bytes)
{
    struct fixture *f = context;

    assert_false(f->tunnel_ended);
    f->tunnel_ended = true;
    f->up_bytes = to_worker_bytes;
    f->down_bytes = to_client_bytes;
}

/* An upgrade that the worker, played by W, has agreed to; EARLY is what it sent behind its head. */
static inline void open_tunnel(struct fixture *f, struct raw_peer *w, const char *early,
                               uint64_t idle_ms)
{
    struct http_tunnel_end end = {.ended = on_tunnel_ended, .context = f};
    int fds[2];

    fixture_await_requests(f, 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    raw_init(w);
    w->fd = fds[1];
    struct upgraded_transport worker;
    transport_open(&worker.transport, fds[0]);
    worker.early = (struct text){0};
    text_add(&worker.early, slice_of(early));
    http_request_add_response(f->call->response.req, "Upgrade", SLICE_LIT("websocket"));
    http_response_tunnel(&f->call->response, &worker, idle_ms, &end);
}
