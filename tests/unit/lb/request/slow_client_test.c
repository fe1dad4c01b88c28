/* SPDX-License-Identifier: Apache-2.0
 *
 * A client that is slower than the worker: memory, a file, a full disk, a pause, a cut.
 *
 * A socket of the client takes about 200 KiB that it does not read. BIG is more than that and
 * response_buffer together.
 */
#include "lb/core/lb.h"
#include "tests/support/exchange_rig.h"

#include <signal.h>
#include <sys/socket.h>

enum { BIG = 3000000, HEAD_MAX = 200 };

/* The response of BIG bytes; PART: only so many of them. */
static struct text big_response(size_t part)
{
    struct text t = {0};

    text_addf(&t, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BIG);
    size_t head = t.len;
    while (t.len < head + part)
        text_addf(&t, "%09zu.", t.len);
    t.len = head + part;
    return t;
}

/* A client that reads nothing gets the first PART bytes of the response of the next call. */
static void get_big(struct exchange_rig *r, const char *target, size_t part)
{
    struct text t = big_response(part);
    unsigned call = rig_calls(r);

    rig_plan(r, "");
    rig_deaf(r, true);
    rig_get(r, target);
    assert_int_equal(rig_calls(r), call + 1);
    rig_respond_bytes(r, call, text_slice(&t));
    text_fini(&t);
}

/* The client reads again, and has the first PART bytes of the body, and no others. */
static void got_big(struct exchange_rig *r, size_t part)
{
    struct text whole = big_response(BIG);
    struct text *in = &rig_peer(r)->in;

    rig_deaf(r, false);
    assert_true(in->len > part);
    assert_true(in->len < part + HEAD_MAX);
    size_t head = in->len - part;
    assert_memory_equal(in->p + head - 4, "\r\n\r\n", 4);
    assert_memory_equal(in->p + head, strstr(text_cstr(&whole), "\r\n\r\n") + 4, part);
    text_clear(in);
    text_fini(&whole);
}

static uint64_t spilled(const struct exchange_rig *r)
{
    return (uint64_t)rig_stat(r, APP_STAT_spilled_bytes);
}

/* ---- into a file ---- */

static void a_response_for_a_client_that_does_not_read_goes_to_a_file(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    get_big(r, "/", BIG);
    assert_true(spilled(r) > BIG / 2);
    assert_int_equal(rig_stat(r, APP_STAT_spilled_responses), 1);
    /* The worker is free: its connection serves others. */
    rig_plan(r, RIG_OK);
    (void)rig_client(r);
    rig_get(r, "/2");
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/2");
    assert_int_equal(rig_accepted(r, 0), 1);
    rig_pass(r, 10000);
    rig_use(r, 0);
    got_big(r, BIG);
    rig_row(r, "outcome=responded target=/ sent_bytes=3000000 service_us=0 deliver_us=10000000");
    assert_int_equal(spilled(r), 0);
    assert_int_equal(rig_stat(r, APP_STAT_spill_failures), 0);
    rig_end(r);
}

static void a_response_that_fits_into_memory_needs_no_file(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "response_buffer: 4MiB\n");

    get_big(r, "/", BIG);
    assert_int_equal(rig_stat(r, APP_STAT_spilled_responses), 0);
    assert_true(rig_stat(r, APP_STAT_buffered_bytes) > BIG / 2);
    got_big(r, BIG);
    rig_row(r, "outcome=responded sent_bytes=3000000");
    rig_end(r);
}

static void a_response_in_a_file_goes_to_a_client_with_tls(void **state)
{
    struct exchange_rig *r = rig_start(state, .tls = true, .worker_tls = true);

    get_big(r, "/", BIG);
    assert_true(spilled(r) > BIG / 2);
    got_big(r, BIG);
    rig_row(r, "outcome=responded sent_bytes=3000000");
    rig_end(r);
}

static void a_response_whose_worker_fails_is_cut_behind_the_bytes_in_the_file(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    get_big(r, "/", 2000000);
    assert_true(spilled(r) > BIG / 3);
    rig_respond(r, 0, "$close");
    rig_client_is_closed(r, false);
    got_big(r, 2000000);
    rig_client_is_closed(r, true);
    rig_row(r, "outcome=cut-short status=200 sent_bytes=2000000");
    rig_end(r);
}

static void a_client_that_leaves_drops_the_file(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    get_big(r, "/", BIG);
    assert_true(spilled(r) > BIG / 2);
    rig_client_close(r);
    rig_row(r, "outcome=client-gone status=200");
    assert_int_equal(spilled(r), 0);
    assert_int_equal(rig_open(r, 0), 1);
    rig_end(r);
}

static void a_client_that_leaves_within_the_workers_response_closes_its_connection(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);

    get_big(r, "/", 2000000);
    rig_client_close(r);
    rig_row(r, "outcome=client-gone status=200");
    assert_int_equal(rig_open(r, 0), 0);
    rig_end(r);
}

static void a_client_that_reads_in_between_gets_every_byte_in_order(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);
    struct text whole = big_response(BIG);
    size_t at = 0;

    rig_plan(r, "");
    rig_get(r, "/");
    for (unsigned i = 0; at < whole.len; ++i) {
        size_t n = whole.len - at < 500000 ? whole.len - at : 500000;

        rig_deaf(r, i % 3 != 2);
        rig_respond_bytes(r, 0, (struct slice){whole.p + at, n});
        at += n;
    }
    got_big(r, BIG);
    rig_row(r, "outcome=responded sent_bytes=3000000");
    assert_true(rig_stat(r, APP_STAT_spilled_responses) == 1);
    text_fini(&whole);
    rig_end(r);
}

static void a_client_that_never_reads_is_cut_after_send_timeout(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "send_timeout: 20s\n");

    get_big(r, "/", BIG);
    uint64_t ms = rig_pass_to_row(r);
    assert_true(ms >= 20000);
    assert_true(ms <= 40000);
    rig_client_is_closed(r, true);
    rig_row(r, "outcome=client-gone status=200");
    assert_int_equal(spilled(r), 0);
    rig_deaf(r, false);
    text_clear(&rig_peer(r)->in);
    rig_end(r);
}

/* Its rate cannot be measured at a unix socket: the socket's queue is always full. */
static void a_client_that_reads_steadily_is_not_cut(void **state)
{
    struct exchange_rig *r = rig_start(state, .workers = 1);
    char bytes[20000];
    size_t taken = 0;

    get_big(r, "/", BIG);
    for (int i = 0; i < 60; ++i) {
        rig_pass(r, 5000);
        taken += (size_t)recv(rig_peer(r)->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        rig_client_is_closed(r, false);
    }
    rig_deaf(r, false);
    assert_true(taken + rig_peer(r)->in.len > BIG);
    text_clear(&rig_peer(r)->in);
    rig_row(r, "outcome=responded sent_bytes=3000000 total_us=300000000");
    rig_end(r);
}

/* ---- no file ---- */

static void an_event_stream_is_never_put_into_a_file(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "worker_hold_timeout: 0s\n");
    struct text t = {0};

    text_add(&t, SLICE_LIT("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                           "Content-Length: 3000000\r\n\r\n"));
    size_t head = t.len;
    while (t.len < head + BIG)
        text_add(&t, SLICE_LIT("data: x\n\n."));
    rig_plan(r, "");
    rig_deaf(r, true);
    rig_get(r, "/");
    rig_respond_bytes(r, 0, text_slice(&t));
    assert_int_equal(spilled(r), 0);
    assert_true(rig_call(r, 0)->peer->out.len > BIG / 2); /* the worker is not read */
    rig_pass(r, 10000);
    rig_deaf(r, false);
    assert_int_equal(rig_call(r, 0)->peer->out.len, 0);
    assert_true(rig_peer(r)->in.len > BIG);
    text_clear(&rig_peer(r)->in);
    rig_row(r, "outcome=responded sent_bytes=3000000 service_us=0");
    text_fini(&t);
    rig_end(r);
}

static void without_files_the_worker_is_read_as_fast_as_the_client_reads(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .settings = "response_spill_max: 0\nworker_hold_timeout: 0s\n");

    get_big(r, "/", BIG);
    assert_int_equal(spilled(r), 0);
    assert_true(rig_stat(r, APP_STAT_buffered_bytes) <= 300000);
    assert_true(rig_call(r, 0)->peer->out.len > BIG / 2);
    rig_pass(r, 5000);
    got_big(r, BIG);
    /* The pause is not service time. */
    rig_row(r, "outcome=responded sent_bytes=3000000 service_us=0 total_us=5000000");
    rig_end(r);
}

static void a_pause_for_the_client_is_not_the_workers_time_out(void **state)
{
    struct exchange_rig *r = rig_start(
        state, .settings = "response_spill_max: 0\nworker_hold_timeout: 0s\n"
                           "between_bytes_timeout: 2s\nsend_timeout: 10m\nmin_send_rate: 0\n");

    get_big(r, "/", BIG);
    rig_pass(r, 60000);
    got_big(r, BIG);
    rig_row(r, "outcome=responded sent_bytes=3000000");
    rig_end(r);
}

static void a_response_beyond_response_spill_max_pauses_and_continues(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .settings = "response_spill_max: 1MiB\nworker_hold_timeout: 0s\n");

    get_big(r, "/", BIG);
    assert_true(spilled(r) > 900000);
    assert_true(spilled(r) < 1200000);
    assert_int_equal(rig_stat(r, APP_STAT_spill_limits), 1);
    assert_true(rig_call(r, 0)->peer->out.len > 500000);
    got_big(r, BIG);
    rig_row(r, "outcome=responded sent_bytes=3000000");
    rig_end(r);
}

static void a_directory_that_is_removed_pauses_and_continues(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "worker_hold_timeout: 0s\n");

    rig_lb(r)->spill_space.directory = "/dev/null/none";
    get_big(r, "/", BIG);
    assert_int_equal(spilled(r), 0);
    assert_true(rig_stat(r, APP_STAT_spill_failures) > 0);
    got_big(r, BIG);
    rig_row(r, "outcome=responded sent_bytes=3000000");
    rig_end(r);
}

/* Writing fails from 1 MB on, as on a full disk. */
static void a_write_that_fails_loses_no_byte(void **state)
{
    struct exchange_rig *r = rig_start(state, .settings = "worker_hold_timeout: 0s\n");
    struct rlimit before, full;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    full = before;
    full.rlim_cur = 1000000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    get_big(r, "/", BIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rig_stat(r, APP_STAT_spill_failures), 1);
    assert_true(spilled(r) > 0);
    got_big(r, BIG);
    rig_row(r, "outcome=responded sent_bytes=3000000");
    rig_end(r);
}

/* ---- the worker is held ---- */

static void a_paused_response_ends_when_others_wait_for_its_worker(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .settings = "response_spill_max: 0\nworker_hold_timeout: 2s\n"
                                     "max_connections: 1\nconnection_wait_timeout: 30s\n"
                                     "send_timeout: 10m\nmin_send_rate: 0\n");

    get_big(r, "/1", BIG);
    rig_pass(r, 60000); /* no other request waits */
    rig_plan(r, RIG_OK);
    (void)rig_client(r);
    rig_get(r, "/2");
    uint64_t ms = rig_pass_to_row(r);
    assert_true(ms >= 2000);
    assert_true(ms <= 2250);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/2 tries=1");
    assert_int_equal(rig_stat(r, APP_STAT_holds_cut), 1);
    rig_use(r, 0);
    rig_deaf(r, false);
    rig_client_is_closed(r, true);
    assert_true(rig_peer(r)->in.len < BIG);
    text_clear(&rig_peer(r)->in);
    rig_row(r, "outcome=slow-client status=200 target=/1");
    rig_end(r);
}

static void a_paused_response_without_worker_hold_timeout_is_never_cut(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .settings = "response_spill_max: 0\nworker_hold_timeout: 0s\n"
                                     "max_connections: 1\nconnection_wait_timeout: 30s\n"
                                     "send_timeout: 10m\nmin_send_rate: 0\n");

    get_big(r, "/1", BIG);
    (void)rig_client(r);
    rig_get(r, "/2");
    assert_int_equal(rig_pass_to_row(r), 30000);
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=workers-busy target=/2");
    rig_use(r, 0);
    got_big(r, BIG);
    rig_row(r, "outcome=responded target=/1 sent_bytes=3000000");
    rig_end(r);
}

static void only_time_in_which_others_wait_counts_as_held(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .settings = "response_spill_max: 0\nworker_hold_timeout: 4s\n"
                                     "max_connections: 1\nconnection_wait_timeout: 2s\n"
                                     "send_timeout: 10m\nmin_send_rate: 0\n");

    get_big(r, "/1", BIG);
    /* Each waits for 2 s, with pauses in between: together less than 4 s. */
    (void)rig_client(r);
    rig_get(r, "/2");
    assert_int_equal(rig_pass_to_row(r), 2000);
    rig_client_got_status(r, 503, "");
    rig_row(r, "outcome=workers-busy target=/2");
    rig_pass(r, 20000);
    assert_int_equal(rig_stat(r, APP_STAT_holds_cut), 0);
    rig_use(r, 0);
    got_big(r, BIG);
    rig_row(r, "outcome=responded target=/1 sent_bytes=3000000");
    rig_end(r);
}

/* ---- shares of the files ---- */

static void a_client_with_files_loses_one_to_a_client_whose_worker_others_wait_for(void **state)
{
    struct exchange_rig *r =
        rig_start(state, .proxied = true, .workers = 3,
                  .settings = "response_spill_total: 6MiB\nworker_hold_timeout: 5s\n"
                              "max_connections: 1\nconnection_wait_timeout: 30s\n"
                              "send_timeout: 10m\n");

    (void)rig_client_from(r, "10.0.0.1");
    get_big(r, "/1", BIG); /* w0 */
    (void)rig_client_from(r, "10.0.0.1");
    get_big(r, "/2", BIG); /* w1 */
    (void)rig_client_from(r, "10.0.0.2");
    get_big(r, "/3", BIG); /* w2: what is left is too little */
    assert_true(rig_call(r, 2)->peer->out.len > 0);
    (void)rig_client_from(r, "10.0.0.3");
    rig_plan(r, RIG_OK, RIG_OK, RIG_OK);
    rig_get(r, "/4"); /* w0, which is free */
    rig_get(r, "/5"); /* w1 */
    rig_client_got(r, RIG_GOT_OK RIG_GOT_OK);
    rig_row(r, "outcome=responded target=/4 worker=w0 total_us=0");
    rig_row(r, "outcome=responded target=/5 worker=w1 total_us=0");
    rig_get(r, "/6"); /* waits for w2 */
    rig_pass(r, 250);
    rig_client_got(r, RIG_GOT_OK);
    rig_row(r, "outcome=slow-client client=10.0.0.1");
    rig_row(r, "outcome=responded target=/6 worker=w2 tries=1");
    assert_int_equal(rig_stat(r, APP_STAT_holds_cut), 1);
    rig_use(r, 2);
    got_big(r, BIG);
    rig_row(r, "outcome=responded target=/3 sent_bytes=3000000");
    for (unsigned c = 0; c < 2; ++c) {
        rig_use(r, c);
        rig_deaf(r, false);
        text_clear(&rig_peer(r)->in);
    }
    rig_row(r, "outcome=responded client=10.0.0.1 sent_bytes=3000000");
    rig_end(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_for_a_client_that_does_not_read_goes_to_a_file),
        cmocka_unit_test(a_response_that_fits_into_memory_needs_no_file),
        cmocka_unit_test(a_response_in_a_file_goes_to_a_client_with_tls),
        cmocka_unit_test(a_response_whose_worker_fails_is_cut_behind_the_bytes_in_the_file),
        cmocka_unit_test(a_client_that_leaves_drops_the_file),
        cmocka_unit_test(a_client_that_leaves_within_the_workers_response_closes_its_connection),
        cmocka_unit_test(a_client_that_reads_in_between_gets_every_byte_in_order),
        cmocka_unit_test(a_client_that_never_reads_is_cut_after_send_timeout),
        cmocka_unit_test(a_client_that_reads_steadily_is_not_cut),
        cmocka_unit_test(an_event_stream_is_never_put_into_a_file),
        cmocka_unit_test(without_files_the_worker_is_read_as_fast_as_the_client_reads),
        cmocka_unit_test(a_pause_for_the_client_is_not_the_workers_time_out),
        cmocka_unit_test(a_response_beyond_response_spill_max_pauses_and_continues),
        cmocka_unit_test(a_directory_that_is_removed_pauses_and_continues),
        cmocka_unit_test(a_write_that_fails_loses_no_byte),
        cmocka_unit_test(a_paused_response_ends_when_others_wait_for_its_worker),
        cmocka_unit_test(a_paused_response_without_worker_hold_timeout_is_never_cut),
        cmocka_unit_test(only_time_in_which_others_wait_counts_as_held),
        cmocka_unit_test(a_client_with_files_loses_one_to_a_client_whose_worker_others_wait_for),
    };

    return cmocka_run_group_tests_name("slow_client", tests, NULL, NULL);
}
