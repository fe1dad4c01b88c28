/* SPDX-License-Identifier: Apache-2.0
 *
 * An agent with scripted clients, application processes and supervisor in one thread, on a virtual
 * clock (scripted_peer.h): a real front, pool and stop, with settings as of a file. The rig is the
 * other end of the supervisor's socket, and behind the socket of every process that the agent has
 * started: no process, no port, no sleep. A scenario:
 *
 *     struct agent_rig *r = rig_start(.settings = "concurrency: 2");
 *
 *     rig_plan(r, RIG_OK);                         // what the processes do, request by request
 *     rig_get(r, "/a");                            // the client sends; runs until all is quiet
 *     rig_process_got(r, 0, "p0", "GET /a HTTP/1.1\r\n");
 *     rig_client_got(r, RIG_GOT_OK);               // every byte that the client has received
 *     rig_end(r);
 *
 * PROCESSES are named p0, p1, ... in the order in which the agent requests them. Each request that
 * has arrived completely at a process is a *call*, numbered from 0 in the order of arrival. Call I
 * does step I of the plan; without one it waits for rig_respond(). A step is what the process
 * sends, and at its end optionally
 *     $close   closes the connection        $reset   resets it
 *     $end     closes the sending side      $deaf    reads nothing more
 *     $die     the process dies; the supervisor reports it at once
 * The requests of ready_probe are responded to with 200, and are no calls, unless `probes` is set.
 *
 * The SUPERVISOR starts what it is requested to start, unless `spawns_later` is set. A process dies
 * of SIGTERM at once, unless `stubborn` is set.
 *
 * CLIENTS are numbered from 0; client 0 is connected to slot 0 at the start, as a load balancer.
 *
 * Every expectation takes what it expects out of what was received. rig_end() requires that nothing
 * is left: no bytes at a client, no step of the plan, no request in progress. The pool is checked
 * (pool_core_check.h) whenever the rig is quiet.
 *
 * With the environment variable RIG_LOG all log levels go to standard error. Programs that use the
 * rig link test_agent_rig (CMakeLists.txt here).
 */
#pragma once

#include "tests/support/scripted_peer.h"
#include "worker-agent/program/agent.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct agent_rig;

enum { AGENT_RIG_PROCESSES_MAX = 32, AGENT_RIG_CLIENTS_MAX = 32, AGENT_RIG_CALLS_MAX = 256 };

struct agent_rig_options {
    const char *settings; /* of the application, as of a YAML flow map; or NULL */
    const char *program;  /* lines of YAML of the agent; or NULL */
    bool unprobed;        /* no ready_probe */
    bool probes;          /* requests of ready_probe are calls */
    bool spawns_later;    /* the supervisor does nothing by itself */
    bool stubborn;        /* processes survive SIGTERM */
    const char *adopted;  /* the supervisor has p0 already, with this note; or NULL */
};

/* One request that has arrived at a process. */
struct agent_rig_call {
    unsigned process;
    unsigned connection; /* number of its connection, of all processes */
    struct text bytes;   /* as received */
    uint64_t at_ms;      /* virtual_ms() of its arrival */
};

/* The response of a process, and what a load balancer gets of it. */
#define RIG_OK "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define RIG_GOT_OK                                                                                 \
    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\nResumelb-Backlog: 1\r\n"    \
    "\r\nok"

struct agent_rig *rig_create(const struct agent_rig_options *o);
#define rig_start(...) rig_create(&(struct agent_rig_options){__VA_ARGS__})
/* The expectations at the end of a scenario; then R is freed. */
#define rig_end(r) rig_finish(r, __FILE__, __LINE__)
void rig_finish(struct agent_rig *r, const char *file, int line);

/* ---- processes, and the supervisor ---- */

/* Sets the steps of the next calls. */
#define rig_plan(r, ...) rig_add_plan(r, (const char *const[]){__VA_ARGS__, NULL})
void rig_add_plan(struct agent_rig *r, const char *const *steps);
/* Call I, which is there, does STEP. */
void rig_respond(struct agent_rig *r, unsigned i, const char *step);
/* The same with bytes. */
void rig_respond_bytes(struct agent_rig *r, unsigned i, struct slice bytes);
unsigned rig_calls(const struct agent_rig *r);
const struct agent_rig_call *rig_call(const struct agent_rig *r, unsigned i);
/* The connection of call I, at its process. */
struct scripted_peer *rig_call_peer(struct agent_rig *r, unsigned i);
/* Call I is at process NAME, and begins with BYTES. */
#define rig_process_got(r, i, name, bytes) rig_expect_call(r, i, name, bytes, __FILE__, __LINE__)
void rig_expect_call(struct agent_rig *r, unsigned i, const char *name, const char *bytes,
                     const char *file, int line);
/* Process P refuses connections, which nothing else changes. */
void rig_refuse(struct agent_rig *r, unsigned p);
/* With spawns_later: process P runs now; or could not be started. */
void rig_spawned(struct agent_rig *r, unsigned p);
void rig_rejected(struct agent_rig *r, unsigned p, const char *why);
/* Process P dies, and the supervisor reports HOW. */
void rig_die(struct agent_rig *r, unsigned p, const char *how);
/* Process P writes a line. */
void rig_output(struct agent_rig *r, unsigned p, const char *line);
/* Processes that the agent has requested so far, and connections to them that both sides hold. */
unsigned rig_processes(const struct agent_rig *r);
unsigned rig_open(const struct agent_rig *r);
/* The agent has sent exactly these messages to the supervisor since the last time: lines as
 * "spawn p0", "note p0 ready", "signal p0 15", "bye". */
#define rig_supervisor_got(r, lines) rig_expect_orders(r, lines, __FILE__, __LINE__)
void rig_expect_orders(struct agent_rig *r, const char *lines, const char *file, int line);
/* The supervisor exits. */
void rig_lose_supervisor(struct agent_rig *r);
struct slot *rig_slot(struct agent_rig *r, unsigned n);
/* The state of process P as the agent sees it; "ended" if it does not know it any more. */
const char *rig_state(struct agent_rig *r, unsigned p);

/* ---- clients ---- */

/* Connects another client to NAME, which is "slot0", "slot1", ... or "own", the application's own
 * address. rig_send() and the others use it from now on. Returns its number. */
unsigned rig_client(struct agent_rig *r, const char *name);
/* Client C is used from now on. */
void rig_use(struct agent_rig *r, unsigned c);
struct scripted_peer *rig_peer(struct agent_rig *r);
/* The client sends BYTES; runs until quiet. */
void rig_send(struct agent_rig *r, const char *bytes);
void rig_send_bytes(struct agent_rig *r, struct slice bytes);
/* "GET TARGET HTTP/1.1" with "Host: h"; POST with a body. */
void rig_get(struct agent_rig *r, const char *target);
void rig_post(struct agent_rig *r, const char *target, const char *body);
/* The client stops reading, or continues. */
void rig_deaf(struct agent_rig *r, bool deaf);
void rig_client_close(struct agent_rig *r);
/* The client has received exactly BYTES since the last expectation, Date fields apart. */
#define rig_client_got(r, bytes) rig_expect_bytes(r, bytes, __FILE__, __LINE__)
void rig_expect_bytes(struct agent_rig *r, const char *bytes, const char *file, int line);
/* The client has received exactly one response: its status, and all of FIELDS (parts of the whole
 * response; one with "!" before it is not in it). */
#define rig_client_got_status(r, status, ...)                                                      \
    rig_expect_status(r, status, (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)
void rig_expect_status(struct agent_rig *r, int status, const char *const *fields, const char *file,
                       int line);
/* The agent has closed (or reset) the client's connection, or has not. */
#define rig_client_is_closed(r, closed) rig_expect_closed(r, closed, __FILE__, __LINE__)
void rig_expect_closed(struct agent_rig *r, bool closed, const char *file, int line);

/* ---- time, and figures ---- */

/* Until all is quiet, without any time. */
void rig_settle(struct agent_rig *r);
/* Lets MS pass, or less if the agent stops. */
void rig_pass(struct agent_rig *r, uint64_t ms);
int64_t rig_stat(const struct agent_rig *r, enum agent_stat stat);
struct agent *rig_agent(struct agent_rig *r);
/* The agent has stopped: its program would exit now. */
bool rig_stopped(const struct agent_rig *r);
