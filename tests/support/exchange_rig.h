/* SPDX-License-Identifier: Apache-2.0
 *
 * A load balancer with scripted clients and workers in one thread, on a virtual clock
 * (scripted_peer.h): one event loop, which is control loop and only data loop, a real front, a real
 * application with settings as of a file, its pool and membership. No port, no sleep, no helper
 * thread. A scenario:
 *
 *     struct exchange_rig *r = rig_start(state, .workers = 2, .settings = "retries: 1\n");
 *
 *     rig_plan(r, "$close", RIG_OK);               // what the workers do, request by request
 *     rig_get(r, "/a");                            // the client sends; runs until all is quiet
 *     rig_worker_got(r, 0, "w0", "GET /a HTTP/1.1\r\nHost: h\r\n");
 *     rig_worker_got(r, 1, "w1", "GET /a HTTP/1.1\r\nHost: h\r\n");
 *     rig_client_got(r, RIG_GOT_OK);               // every byte that the client has received
 *     rig_row(r, "outcome=responded status=200 tries=2 worker=w1");
 *     rig_end(r);
 *
 * WORKERS are named w0, w1, ... in the order of the configuration; round_robin, unless the settings
 * have a `pool`. Each request that has arrived completely at a worker is a *call*, numbered from 0
 * in the order of arrival, whichever worker it is. Call I does step I of the plan; without one it
 * waits for rig_respond(). A step is what the worker sends, and at its end optionally
 *     $close   closes the connection        $reset   resets it
 *     $end     closes the sending side      $deaf    reads nothing more
 * so "$close" alone is a worker that closes without a response, "" one that stalls.
 *
 * AGENTS: workers that are listed with `resume: stream`. The rig responds to the request for the
 * stream with a resume (ready, without skills); it is not a call.
 *
 * CLIENTS are numbered from 0; client 0 is connected at the start, others by rig_client(). What
 * they send and receive is bytes, decrypted.
 *
 * Every expectation takes what it expects out of what was received. rig_end() requires that nothing
 * is left: no bytes at a client, no row, no step of the plan, no request in progress, no place in
 * the pool. The pool is checked (pool_check.h) whenever the rig is quiet.
 *
 * The default settings switch off what every expectation would have to repeat: via, request_id,
 * forwarded_for. With the environment variable RIG_LOG all log levels go to standard error.
 * Programs that use the rig link test_rig (CMakeLists.txt here).
 */
#pragma once

#include "lb/core/application.h"
#include "tests/support/scripted_peer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <sys/resource.h>

struct exchange_rig;

enum { RIG_WORKERS_MAX = 8, RIG_CLIENTS_MAX = 32, RIG_CALLS_MAX = 256 };

struct rig_options {
    unsigned workers;     /* 0: one */
    unsigned agents;      /* the first of them have a resume stream */
    bool tls;             /* the client uses TLS */
    bool worker_tls;      /* the workers use TLS */
    bool proxied;         /* clients begin with a PROXY header: see rig_client_from() */
    const char *settings; /* lines of YAML, of the application or of the program; or NULL */
    const char *worker;   /* further settings of each worker, as of a YAML flow map; or NULL */
};

/* One request that has arrived at a worker. */
struct rig_call {
    unsigned worker;
    struct scripted_peer *peer; /* its connection */
    struct text bytes;          /* as received */
    unsigned connection;        /* number of its connection at this worker, from 0 */
    uint64_t at_ms;             /* virtual_ms() of its arrival */
};

/* The response of a worker, and what the client gets of it. */
#define RIG_OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define RIG_GOT_OK "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"

/* Sets *STATE, the argument of a test, to the rig as well. */
struct exchange_rig *rig_create(void **state, const struct rig_options *o);
#define rig_start(state, ...) rig_create(state, &(struct rig_options){__VA_ARGS__})
/* The expectations at the end of a scenario; then R is freed. */
#define rig_end(r) rig_finish(r, __FILE__, __LINE__)
void rig_finish(struct exchange_rig *r, const char *file, int line);

/* ---- workers ---- */

/* Sets the steps of the next calls. */
#define rig_plan(r, ...) rig_add_plan(r, (const char *const[]){__VA_ARGS__, NULL})
void rig_add_plan(struct exchange_rig *r, const char *const *steps);
/* Calls without a step of their own do STEP from now on; NULL: they wait for rig_respond(). */
void rig_always(struct exchange_rig *r, const char *step);
/* Worker W accepts no connections any more (they are refused), or does so again. */
void rig_refuse(struct exchange_rig *r, unsigned w, bool refuses);
/* Requests at worker W are calls when their head has arrived; the body is not read. */
void rig_early(struct exchange_rig *r, unsigned w);
/* Connections to worker W are neither accepted nor refused. */
void rig_hang(struct exchange_rig *r, unsigned w);
/* Call I, which is there, does STEP. */
void rig_respond(struct exchange_rig *r, unsigned i, const char *step);
/* The same with bytes. */
void rig_respond_bytes(struct exchange_rig *r, unsigned i, struct slice bytes);
unsigned rig_calls(const struct exchange_rig *r);
const struct rig_call *rig_call(const struct exchange_rig *r, unsigned i);
/* Of worker W: connections accepted so far, and those that neither side has closed. */
unsigned rig_accepted(const struct exchange_rig *r, unsigned w);
unsigned rig_open(const struct exchange_rig *r, unsigned w);
/* The worker's end of a tunnel, that of call I, has received exactly BYTES since the last time. */
#define rig_tunnel_got(r, i, bytes) rig_expect_tunnel(r, i, bytes, __FILE__, __LINE__)
void rig_expect_tunnel(struct exchange_rig *r, unsigned i, const char *bytes, const char *file,
                       int line);
/* A line of a resume stream (docs/reference/protocols.md). */
#define RIG_RESUME(instance, state)                                                                \
    "{\"v\": 1, \"instance\": \"" instance "\", \"application\": \"a\", \"version\": \"\", "       \
    "\"fingerprint\": \"\", \"state\": \"" state                                                   \
    "\", \"generation\": 0, \"concurrency\": 4, \"skills\": {}}"
/* Agent W sends LINE on its resume stream. */
void rig_feed(struct exchange_rig *r, unsigned w, const char *line);
/* Call I is at worker NAME, and begins with BYTES. */
#define rig_worker_got(r, i, name, bytes) rig_expect_call(r, i, name, bytes, __FILE__, __LINE__)
void rig_expect_call(struct exchange_rig *r, unsigned i, const char *name, const char *bytes,
                     const char *file, int line);

/* ---- clients ---- */

/* Connects another client, which rig_send() and the others use from now on. Returns its number. */
unsigned rig_client(struct exchange_rig *r);
/* The same with the address ADDRESS (IPv4); of a rig that is proxied. */
unsigned rig_client_from(struct exchange_rig *r, const char *address);
/* Client C is used from now on. */
void rig_use(struct exchange_rig *r, unsigned c);
struct scripted_peer *rig_peer(struct exchange_rig *r);
/* The client sends BYTES; runs until quiet. */
void rig_send(struct exchange_rig *r, const char *bytes);
void rig_send_bytes(struct exchange_rig *r, struct slice bytes);
/* "GET TARGET HTTP/1.1" with "Host: h". */
void rig_get(struct exchange_rig *r, const char *target);
/* POST with a body. */
void rig_post(struct exchange_rig *r, const char *target, const char *body);
/* The client stops reading, or continues. */
void rig_deaf(struct exchange_rig *r, bool deaf);
void rig_client_close(struct exchange_rig *r);
void rig_client_reset(struct exchange_rig *r);
/* Closes the sending side. */
void rig_client_half_close(struct exchange_rig *r);
/* The client has received exactly BYTES since the last expectation, Date fields apart. "": nothing.
 */
#define rig_client_got(r, bytes) rig_expect_bytes(r, bytes, __FILE__, __LINE__)
void rig_expect_bytes(struct exchange_rig *r, const char *bytes, const char *file, int line);
/* The client has received exactly one response, of which only the status, and FIELDS (each a part
 * of the head, NULL at the end) matter: those that the load balancer makes itself. */
#define rig_client_got_status(r, status, ...)                                                      \
    rig_expect_status(r, status, (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)
void rig_expect_status(struct exchange_rig *r, int status, const char *const *fields,
                       const char *file, int line);
/* The load balancer has closed (or reset) the client's connection, or has not. */
#define rig_client_is_closed(r, closed) rig_expect_closed(r, closed, __FILE__, __LINE__)
void rig_expect_closed(struct exchange_rig *r, bool closed, const char *file, int line);

/* ---- descriptors ---- */

/* From now on the process gets no descriptor but those that it has; returns the limit of before,
 * for setrlimit(2). */
struct rlimit rig_take_descriptors(void);

/* ---- time ---- */

/* Until all is quiet, without any time. */
void rig_settle(struct exchange_rig *r);
/* Lets MS pass. */
void rig_pass(struct exchange_rig *r, uint64_t ms);
/* Lets time pass until the next row is written, at most an hour; returns how many ms. */
uint64_t rig_pass_to_row(struct exchange_rig *r);

/* ---- the access log, and figures ---- */

/* The next row has these values: "outcome=responded status=200 ...", names of access_field.def. */
#define rig_row(r, fields) rig_expect_row(r, fields, __FILE__, __LINE__)
void rig_expect_row(struct exchange_rig *r, const char *fields, const char *file, int line);
int64_t rig_stat(const struct exchange_rig *r, enum app_stat stat);
struct application *rig_app(struct exchange_rig *r);
struct lb *rig_lb(struct exchange_rig *r);

/* ---- the end of the load balancer ---- */

/* Graceful stop: no new connections; DONE of front_drain sets what rig_drained() returns. */
void rig_drain(struct exchange_rig *r, bool patient);
/* The time of idle clients is over (front_shut_idle). */
void rig_shut_idle(struct exchange_rig *r);
/* Cuts what is left (front_cut). */
void rig_cut(struct exchange_rig *r);
bool rig_drained(const struct exchange_rig *r);
