/* SPDX-License-Identifier: Apache-2.0
 *
 * The front of one data loop: its HTTP server, its listeners, and the making of exchanges.
 * Created, used and destroyed on that loop's thread; owned by lb/program.
 */
#pragma once

#include "common/http/http_server.h"
#include "lb/core/application.h"

struct lb_front;
struct lb_loop;

/*
 * Appends the https location of TARGET ("/...", or "*") at AUTHORITY (host[:port] or empty):
 * "https://host[:PORT]/...". Returns false if AUTHORITY has no host.
 */
bool redirect_location(unsigned port, struct slice authority, struct slice target,
                       struct text *out) must_check;

struct lb_front *front_create(struct lb_loop *lb_loop, const struct http_server_options *limits);
/* Takes over FD. The tag of O, if any, is an unsigned, the port of https to redirect to. */
void front_listen(struct lb_front *f, int fd, const struct http_listen_options *o);
/* Accepts no new connections or requests; done() follows the last exchange and connection. PATIENT:
 * idle connections may send one more request, until front_shut_idle. */
void front_drain(struct lb_front *f, bool patient, void (*done)(void *context), void *context);
void front_destroy(struct lb_front *f);
/* For data_loops_call. LIMITS is a struct http_server_options. */
void front_set(struct lb_loop *ll, void *limits);
void front_shut_idle(struct lb_loop *ll, void *unused);
/* Ends all remaining exchanges and connections at once. */
void front_cut(struct lb_loop *ll, void *unused);
/* Counts of events on its connections so far. Any thread, while the front exists. */
void front_read_counts(const struct lb_front *f, struct http_server_counts *out);
