/* SPDX-License-Identifier: Apache-2.0
 *
 * Worker connections: opened, given up, idle, moved, upgraded.
 */
#include "tests/unit/upstream/http1_client_fixture.h"

#include <linux/filter.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

/* ---- giving up ---- */

static void a_request_that_is_given_up_reports_nothing(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    http1_client_close(&f->conn);
    for (int i = 0; i < 20; ++i)
        loop_turn(f->loop, 0);
    assert_false(is_over(f));
    assert_int_equal(f->heads, 0);
}

static void close_now(struct fixture *f)
{
    http1_client_close(&f->conn);
}

static void connection_may_be_closed_within_on_head(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    f->at_head = close_now;
    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    raw_await_end(f->loop, &f->worker);
    assert_int_equal(f->heads, 1);
    assert_int_equal(f->bodies, 0);
}

static void connection_may_be_closed_within_on_body(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    f->at_body = close_now;
    start(f, &r);
    raw_send(f->loop, &f->worker,
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n");
    raw_await_end(f->loop, &f->worker);
    assert_int_equal(f->bodies, 1);
}

static void request_again(struct fixture *f)
{
    struct http1_client_request r = get_request(f);

    f->at_end = NULL;
    assert_true(http1_client_reusable(f->conn));
    start(f, &r);
}

static void next_request_may_start_within_the_last_callback(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    f->at_end = request_again;
    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 204 No Content\r\n\r\n");
    while (f->at_end != NULL)
        loop_turn(f->loop, RAW_TURN_MS);
    raw_send(f->loop, &f->worker, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo");
    raw_turn_until(f->loop, is_over, f);
    assert_body(f, "two");
}

/* ---- idle connections ---- */

static void idle_connection_that_ends_is_found_dead(void **state)
{
    struct fixture *f = *state;

    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_true(http1_client_pool_ops.alive(http1_client_pooled(f->conn)));
    raw_close(&f->worker);
    while (http1_client_reusable(f->conn))
        loop_turn(f->loop, RAW_TURN_MS);
    assert_false(http1_client_pool_ops.alive(http1_client_pooled(f->conn)));
    struct http1_client_request r = get_request(f);
    start(f, &r);
    assert_false(f->failed); /* not inside the call */
    raw_turn_until(f->loop, is_over, f);
    assert_int_equal(f->error, ERR_PEER_CLOSED);
    assert_false(f->failure.written);
}

static void connection_moves_between_loops(void **state)
{
    struct fixture *f = *state;
    struct loop *here = f->loop;

    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    struct loop *there = loop_create(1);
    assert_true(http1_client_pool_ops.detach(http1_client_pooled(f->conn)));
    assert_true(http1_client_pool_ops.attach(http1_client_pooled(f->conn), there));
    f->loop = there;
    exchange(f, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_body(f, "ok");
    http1_client_close(&f->conn);
    f->loop = here;
    loop_destroy(there);
}

/* ---- connections of a pool ---- */

struct pooled {
    struct conn_pool *pool;
    struct conn_backend *worker; /* of at most one connection */
    struct conn_waiter waiter;
};

/* A pool of which the fixture's connection is none, and a permission to open one. */
static struct pooled begin_pooled(struct fixture *f)
{
    const struct conn_pool_settings s = {.max_waiting = 1};
    struct conn_checkout options = {0};
    struct pooled p = {.pool = conn_pool_create(&http1_client_pool_ops, &f->loop, 1)};

    p.worker = conn_pool_backend(p.pool, SLICE_LIT("w"), SLICE_LIT("1"), 1, &s);
    assert_int_equal(conn_checkout(p.worker, f->loop, &options, &p.waiter), CONN_OPEN);
    return p;
}

static void assert_pooled(const struct pooled *p, unsigned opening, unsigned in_use, unsigned idle)
{
    struct conn_backend_view view;

    conn_backend_view(p->worker, &view);
    assert_int_equal(view.opening, opening);
    assert_int_equal(view.in_use, in_use);
    assert_int_equal(view.idle, idle);
}

static void end_pooled(struct fixture *f, struct pooled *p)
{
    conn_pool_close_loop(p->pool, f->loop);
    conn_backend_release(p->worker);
    loop_turn(f->loop, 0);
    loop_destroy(f->loop);
    conn_pool_destroy(p->pool);
    f->loop = loop_create(0);
}

/* Replaces the fixture's connection by one to A that is opened with the permission. */
static void open_pooled(struct fixture *f, struct pooled *p, const struct addr *a)
{
    http1_client_close(&f->conn);
    raw_close(&f->worker);
    f->connected = false;
    f->attempt = http1_client_connect_tls(f->loop, a, NULL, p->worker, 5000, on_connect, f);
}

static void idle_connection_that_ends_leaves_its_pool(void **state)
{
    struct fixture *f = *state;
    struct pooled p = begin_pooled(f);
    struct conn_backend_view view = {.idle = 1};

    conn_opened(p.worker, http1_client_pooled(f->conn), f->loop);
    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    http1_client_give_back(&f->conn);
    assert_pooled(&p, 0, 0, 1);
    raw_close(&f->worker);
    while (view.idle != 0) {
        loop_turn(f->loop, RAW_TURN_MS);
        conn_backend_view(p.worker, &view);
    }
    assert_pooled(&p, 0, 0, 0);
    end_pooled(f, &p);
}

static void a_connection_that_is_opened_with_permission_is_in_the_pool(void **state)
{
    struct fixture *f = *state;
    struct pooled p = begin_pooled(f);
    struct conn_checkout options = {0};

    open_pooled(f, &p, &f->addr);
    assert_pooled(&p, 1, 0, 0);
    raw_turn_until_set(f->loop, &f->connected);
    raw_accept(f->loop, f->listener, &f->worker);
    assert_pooled(&p, 0, 1, 0);
    assert_false(http1_client_reused(f->conn));
    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    http1_client_give_back(&f->conn);
    assert_null(f->conn);
    assert_pooled(&p, 0, 0, 1);
    assert_int_equal(conn_checkout(p.worker, f->loop, &options, &p.waiter), CONN_REUSED);
    f->conn = http1_client_of_pooled(p.waiter.conn);
    assert_true(http1_client_reused(f->conn));
    http1_client_give_back(&f->conn);
    end_pooled(f, &p);
}

static void a_connection_with_a_request_in_progress_is_closed_when_given_back(void **state)
{
    struct fixture *f = *state;
    struct pooled p = begin_pooled(f);
    struct http1_client_request r = get_request(f);

    conn_opened(p.worker, http1_client_pooled(f->conn), f->loop);
    start(f, &r);
    http1_client_give_back(&f->conn);
    assert_null(f->conn);
    assert_pooled(&p, 0, 0, 0);
    http1_client_give_back(&f->conn);
    end_pooled(f, &p);
}

static void an_attempt_that_is_given_up_returns_its_permission(void **state)
{
    struct fixture *f = *state;
    struct pooled p = begin_pooled(f);

    open_pooled(f, &p, &f->addr);
    assert_pooled(&p, 1, 0, 0);
    http1_client_connect_cancel(&f->attempt);
    assert_null(f->attempt);
    assert_pooled(&p, 0, 0, 0);
    end_pooled(f, &p);
}

static void an_attempt_that_fails_returns_its_permission(void **state)
{
    struct fixture *f = *state;
    struct pooled p = begin_pooled(f);
    struct addr a;

    assert_int_equal(addr_parse(SLICE_LIT("unix:/nonexistent/socket"), &a), ERR_OK);
    open_pooled(f, &p, &a);
    raw_turn_until_set(f->loop, &f->connected);
    assert_int_equal(f->connect_error, ERR_CONNECT_REFUSED);
    assert_pooled(&p, 0, 0, 0);
    end_pooled(f, &p);
}

/* ---- validation of idle connections ---- */

/* At the end of a turn of the loop, late bytes arrive; then the connection would be leased. */
struct taker {
    struct loop_deferred at_end;
    struct fixture *f;
    bool done, alive; /* the latter: whether it was considered so */
};

static void await_late_bytes(struct fixture *f)
{
    int unacknowledged = 1;

    assert_int_equal(send(f->worker.fd, "late", 4, 0), 4);
    for (int ms = 0; ms < RAW_DEADLINE_MS && unacknowledged != 0; ++ms) {
        assert_int_equal(ioctl(f->worker.fd, SIOCOUTQ, &unacknowledged), 0);
        poll(NULL, 0, unacknowledged != 0 ? 1 : 0);
    }
    assert_int_equal(unacknowledged, 0);
}

static void take_with_late_bytes(struct loop_deferred *d)
{
    struct taker *t = container_of(d, struct taker, at_end);

    await_late_bytes(t->f);
    t->alive = http1_client_pool_ops.alive(http1_client_pooled(t->f->conn));
    t->done = true;
}

static void a_parked_connection_needs_no_check_in_a_turn_that_reported_nothing(void **state)
{
    struct fixture *f = *state;
    struct taker t = {.f = f, .at_end.run = take_with_late_bytes};

    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    loop_defer(f->loop, &t.at_end);
    loop_turn(f->loop, 0);
    assert_true(t.done);
    assert_true(t.alive); /* no system call: the loop's wait was the check */
    /* The next turn detects the bytes before the connection can be leased. */
    loop_turn(f->loop, RAW_TURN_MS);
    assert_false(http1_client_reusable(f->conn));
}

static struct taker *taker_at_end;

static void defer_taker(struct fixture *f)
{
    loop_defer(f->loop, &taker_at_end->at_end);
}

static void a_connection_that_was_used_in_this_turn_is_checked_by_itself(void **state)
{
    struct fixture *f = *state;
    struct taker t = {.f = f, .at_end.run = take_with_late_bytes};

    taker_at_end = &t;
    f->at_end = defer_taker;
    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_true(t.done); /* in the same turn */
    assert_false(t.alive);
}

static void between_turns_a_connection_is_checked_by_itself(void **state)
{
    struct fixture *f = *state;

    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    loop_turn(f->loop, 0);
    assert_true(http1_client_pool_ops.alive(http1_client_pooled(f->conn)));
    await_late_bytes(f);
    assert_false(http1_client_pool_ops.alive(http1_client_pooled(f->conn)));
}

static void move_and_take(struct loop_deferred *d)
{
    struct taker *t = container_of(d, struct taker, at_end);
    struct fixture *f = t->f;

    assert_true(http1_client_pool_ops.detach(http1_client_pooled(f->conn)));
    assert_true(http1_client_pool_ops.attach(http1_client_pooled(f->conn), f->loop));
    take_with_late_bytes(d);
}

static void a_connection_that_came_from_another_loop_in_this_turn_is_checked(void **state)
{
    struct fixture *f = *state;
    struct taker t = {.f = f, .at_end.run = move_and_take};

    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    loop_turn(f->loop, 0);
    loop_defer(f->loop, &t.at_end);
    loop_turn(f->loop, 0);
    assert_true(t.done);
    assert_false(t.alive);
}

/* ---- whether a request that failed may have arrived ---- */

/* The worker closes the connection, and the loop has not noticed it when R is sent. */
static void send_after_the_end(struct fixture *f, struct http1_client_request *r)
{
    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    await_request(f);
    raw_close(&f->worker);
    r->once = true;
    start(f, r);
    assert_false(f->failed);
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->failed);
    assert_false(f->failure.received);
}

static void a_request_sent_after_the_worker_had_closed_has_not_arrived(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    send_after_the_end(f, &r);
    assert_int_equal(f->error, ERR_PEER_CLOSED);
    assert_false(f->failure.written);
}

static void a_large_request_sent_after_the_worker_had_closed_has_not_arrived(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);
    size_t bytes = (size_t)16 << 20; /* more than fits into the sockets */
    char *body = xcalloc(1, bytes);

    r.body = (struct slice){body, bytes};
    send_after_the_end(f, &r);
    assert_false(f->failure.written);
    free(body);
}

static void a_request_that_the_worker_acknowledged_before_it_closed_may_have_arrived(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    await_request(f);
    text_clear(&f->worker.in);
    start(f, &r);
    await_request(f);
    raw_close(&f->worker);
    raw_turn_until(f->loop, is_over, f);
    assert_int_equal(f->error, ERR_PEER_CLOSED);
    assert_true(f->failure.written);
}

static void a_request_that_ends_in_a_reset_may_have_arrived(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    await_request(f);
    start(f, &r);
    raw_close(&f->worker); /* with unread bytes, so it is a reset, which may acknowledge none */
    raw_turn_until(f->loop, is_over, f);
    assert_int_equal(f->error, ERR_PEER_RESET);
    assert_true(f->failure.written);
}

/* Whether segments that come for the worker are lost. */
static void lose_segments(struct fixture *f, bool on)
{
    struct sock_filter lose = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {.len = 1, .filter = &lose};

    assert_int_equal(setsockopt(f->worker.fd, SOL_SOCKET, on ? SO_ATTACH_FILTER : SO_DETACH_FILTER,
                                &program, sizeof(program)),
                     0);
}

/* The worker ends its sending side while a request that must not be processed twice is underway. */
static void end_sending_before_a_request(struct fixture *f)
{
    struct http1_client_request r = get_request(f);

    r.once = true;
    exchange(f, "HTTP/1.1 204 No Content\r\n\r\n");
    await_request(f);
    text_clear(&f->worker.in);
    lose_segments(f, true);
    assert_int_equal(shutdown(f->worker.fd, SHUT_WR), 0);
    start(f, &r);
    for (int i = 0; i < 5; ++i)
        loop_turn(f->loop, RAW_TURN_MS);
    assert_false(is_over(f)); /* the end alone proves nothing */
    lose_segments(f, false);
}

static void a_request_that_a_reset_rejects_after_the_end_has_not_arrived(void **state)
{
    struct fixture *f = *state;

    end_sending_before_a_request(f);
    raw_close(&f->worker);
    raw_turn_until(f->loop, is_over, f); /* the request is transmitted again */
    assert_int_equal(f->error, ERR_PEER_CLOSED);
    assert_false(f->failure.written);
}

static void a_request_that_a_worker_reads_after_the_end_of_its_sending_has_arrived(void **state)
{
    struct fixture *f = *state;

    end_sending_before_a_request(f);
    await_request(f);
    raw_turn_until(f->loop, is_over, f);
    assert_int_equal(f->error, ERR_PEER_CLOSED);
    assert_true(f->failure.written);
}

/* One piece of a unix socket counts as a whole until it is read to its end. */
static void a_request_that_a_worker_on_a_unix_socket_has_read_in_part_has_arrived(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);
    struct transport t;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    http1_client_close(&f->conn);
    raw_fini(&f->worker);
    transport_open(&t, ends[0]);
    f->conn = http1_client_conn_create(f->loop, &t);
    raw_init(&f->worker);
    f->worker.fd = ends[1];
    r.once = true;
    start(f, &r);
    raw_read(&f->worker, 1);
    assert_int_equal(shutdown(f->worker.fd, SHUT_RDWR), 0);
    raw_turn_until(f->loop, is_over, f);
    assert_int_equal(f->error, ERR_PEER_CLOSED);
    assert_true(f->failure.written);
}

/* ---- opening ---- */

static enum err connect_error(struct fixture *f, const struct addr *a, uint64_t timeout_ms)
{
    http1_client_close(&f->conn);
    f->connected = false;
    f->attempt = http1_client_connect_tls(f->loop, a, NULL, NULL, timeout_ms, on_connect, f);
    assert_false(f->connected); /* not inside the call */
    raw_turn_until_set(f->loop, &f->connected);
    assert_null(f->conn);
    return f->connect_error;
}

static void refused_connection_is_distinguished(void **state)
{
    struct fixture *f = *state;
    struct addr a;
    int fd = raw_reserve(&a);

    assert_int_equal(connect_error(f, &a, 5000), ERR_CONNECT_REFUSED);
    close(fd);
}

static void missing_unix_socket_is_rejected(void **state)
{
    struct fixture *f = *state;
    struct addr a;

    assert_int_equal(addr_parse(SLICE_LIT("unix:/nonexistent/socket"), &a), ERR_OK);
    assert_int_equal(connect_error(f, &a, 5000), ERR_CONNECT_REFUSED);
}

static void unix_socket_with_a_full_backlog_times_out(void **state)
{
    struct fixture *f = *state;
    char path[100];
    struct addr a;
    struct addr_listen_options o = {.backlog = 1};
    int fd = -1;
    struct raw_peer others[8];

    snprintf(path, sizeof(path), "unix:@resumelb-test-%d", (int)getpid());
    assert_int_equal(addr_parse(slice_of(path), &a), ERR_OK);
    assert_int_equal(addr_listen(&a, &o, &fd), ERR_OK);
    size_t n = 0;
    bool full = false;
    while (!full && n < ARRAY_LEN(others)) {
        raw_init(&others[n]);
        others[n].fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        full = connect(others[n].fd, &a.sa, a.len) != 0;
        ++n;
    }
    assert_true(full);
    assert_int_equal(connect_error(f, &a, 50), ERR_CONNECT_TIMEOUT);
    for (size_t i = 0; i < n; ++i)
        raw_fini(&others[i]);
    close(fd);
}

static void connecting_can_be_cancelled(void **state)
{
    struct fixture *f = *state;

    http1_client_close(&f->conn);
    f->connected = false;
    f->attempt = http1_client_connect_tls(f->loop, &f->addr, NULL, NULL, 5000, on_connect, f);
    http1_client_connect_cancel(&f->attempt);
    for (int i = 0; i < 20; ++i)
        loop_turn(f->loop, 0);
    assert_false(f->connected);
}

/* ---- upgrades ---- */

static void upgraded_connection_is_handed_out_with_early_bytes(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    r.upgrade = SLICE_LIT("websocket");
    start(f, &r);
    raw_send(f->loop, &f->worker,
             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nearly");
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->upgraded);
    assert_int_equal(f->status, 101);
    struct upgraded_transport upgraded = http1_client_take_upgraded(&f->conn);
    assert_null(f->conn);
    assert_true(transport_is_open(&upgraded.transport));
    assert_string_equal(text_cstr(&upgraded.early), "early");
    text_fini(&upgraded.early);
    transport_close(&upgraded.transport);
}

static void upgrade_that_is_declined_is_an_ordinary_response(void **state)
{
    struct fixture *f = *state;
    struct http1_client_request r = get_request(f);

    r.upgrade = SLICE_LIT("websocket");
    start(f, &r);
    raw_send(f->loop, &f->worker, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    raw_turn_until(f->loop, is_over, f);
    assert_true(f->ended);
    assert_int_equal(f->status, 403);
    assert_true(http1_client_reusable(f->conn));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_that_is_given_up_reports_nothing),
        TEST(connection_may_be_closed_within_on_head),
        TEST(connection_may_be_closed_within_on_body),
        TEST(next_request_may_start_within_the_last_callback),
        TEST(idle_connection_that_ends_is_found_dead),
        TEST(connection_moves_between_loops),
        TEST(idle_connection_that_ends_leaves_its_pool),
        TEST(a_connection_that_is_opened_with_permission_is_in_the_pool),
        TEST(a_connection_with_a_request_in_progress_is_closed_when_given_back),
        TEST(an_attempt_that_is_given_up_returns_its_permission),
        TEST(an_attempt_that_fails_returns_its_permission),
        TEST(a_parked_connection_needs_no_check_in_a_turn_that_reported_nothing),
        TEST(a_connection_that_was_used_in_this_turn_is_checked_by_itself),
        TEST(between_turns_a_connection_is_checked_by_itself),
        TEST(a_connection_that_came_from_another_loop_in_this_turn_is_checked),
        TEST(a_request_sent_after_the_worker_had_closed_has_not_arrived),
        TEST(a_large_request_sent_after_the_worker_had_closed_has_not_arrived),
        TEST(a_request_that_the_worker_acknowledged_before_it_closed_may_have_arrived),
        TEST(a_request_that_ends_in_a_reset_may_have_arrived),
        TEST(a_request_that_a_reset_rejects_after_the_end_has_not_arrived),
        TEST(a_request_that_a_worker_reads_after_the_end_of_its_sending_has_arrived),
        TEST(a_request_that_a_worker_on_a_unix_socket_has_read_in_part_has_arrived),
        TEST(refused_connection_is_distinguished),
        TEST(missing_unix_socket_is_rejected),
        TEST(unix_socket_with_a_full_backlog_times_out),
        TEST(connecting_can_be_cancelled),
        TEST(upgraded_connection_is_handed_out_with_early_bytes),
        TEST(upgrade_that_is_declined_is_an_ordinary_response),
    };

    return cmocka_run_group_tests_name("http1_client_conn", tests, NULL, NULL);
}
