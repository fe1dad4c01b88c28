/* SPDX-License-Identifier: Apache-2.0
 *
 * Other load balancers with the same workers (setting peers). A worker without an agent stores
 * nothing that they could share. Therefore each load balancer publishes at its admin address what
 * it knows of such workers: the homes of classes, and its requests in flight. It reads the same
 * from its peers, and gives the pool what an agent would report: the records of all of them.
 *
 * Control thread. Owned by lb/program.
 */
#pragma once

#include "common/http/http_server.h"
#include "lb/backends/member.h"

struct peers;

/* NULL if no peers are configured. */
struct peers *peers_create(struct lb *lb);
/* Connects to them. The memberships must have been started. P may be NULL, here and below. */
void peers_start(struct peers *p);
/* Whether each peer was reached, or found to be absent. */
bool peers_settled(const struct peers *p);
/*
 * Serves the stream for a peer: the admin address calls it for GET /peers/stream. Returns 0 if it
 * has started the response, else the status to respond with. CONTEXT: the struct lb.
 */
int peers_serve(void *context, struct http_response *r);
/* The member "peers" of the status. */
void peers_describe(const struct peers *p, struct json_writer *w);
/* Ends all streams: requests that are still in flight are of no concern to the others. */
void peers_stop(struct peers *p);
/* After peers_stop, when no response is left. */
void peers_destroy(struct peers *p);
