/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/front/front_internal.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/program/daemon.h"
#include "common/program/inherited.h"

/* ---- requests ---- */

/* For requests that are answered here and now: nothing is to be done at their end. */
static void on_refused_gone(void *context, bool done)
{
    (void)context;
    (void)done;
}

static const struct http_reply_events refused_events = {.gone = on_refused_gone};

static void refuse(const struct slot *s, struct http_request *req, struct http_conn *conn,
                   int status, struct slice body)
{
    struct http_reply *r = http_request_take(req, sizeof(*r));

    group_count(s->group, AGENT_STAT_bad_requests);
    http_reply_init(r, req, conn, &refused_events, NULL);
    if (status == 403)
        req->keep_alive = false;
    http_reply_simple(r, status, "text/plain; charset=utf-8", body);
}

static bool is_stream_path(const struct http_request *req)
{
    return slice_is(req->target, RESUME_STREAM_PATH);
}

/* Called before anything is read from a connection, including its handshake. An application's own
 * address is open to all peers. */
static bool allows(void *context, void *tag, const struct addr *peer)
{
    const struct front *f = context;
    const struct front_listener *listener = tag;
    char text[ADDR_TEXT_MAX];

    if (listener->slot == NULL || networks_have(f->allow, peer))
        return true;
    group_count(listener->group, AGENT_STAT_not_allowed);
    log_warn(listener->slot, "connection-not-allowed", "client=%s", addr_format(peer, text));
    return false;
}

static void on_request(void *context, struct http_request *req, struct http_conn *conn)
{
    struct front *f = context;
    const struct front_listener *listener = http_conn_tag(conn);
    struct slot *s = listener->slot;
    const struct addr *peer = http_conn_peer(conn);

    if (s == NULL) {
        exchange_start(f, listener, req, conn);
        return;
    }

    /* A connection of before `allow` was changed. */
    if (!networks_have(f->allow, peer)) {
        char text[ADDR_TEXT_MAX];

        log_warn(s, "connection-not-allowed", "client=%s", addr_format(peer, text));
        refuse(s, req, conn, 403, SLICE_LIT("client address not permitted\n"));
        return;
    }
    if (f->turns_away)
        req->keep_alive = false;
    if (!is_stream_path(req)) {
        exchange_start(f, listener, req, conn);
        return;
    }
    if (!front_wants_stream(req) || !front_method_is(req, "GET")) {
        refuse(s, req, conn, 404, SLICE_LIT("not found\n"));
        return;
    }
    struct request_class rc;
    front_read_class(req, &rc);
    resume_stream_start(s, req, conn, (struct slice){rc.fingerprint, rc.fingerprint_len},
                        front_wants_homes(req));
}

/* ---- life ---- */

static struct http_server_options options_of(struct front *f, const struct agent_config *c)
{
    return (struct http_server_options){
        .max_body_bytes = c->s.max_body_bytes,
        .max_header_bytes = c->s.max_header_size_bytes,
        .max_headers = (size_t)c->s.max_headers,
        .max_connections = (size_t)c->s.max_connections,
        .header_timeout_ms = c->s.header_timeout_ms,
        .body_timeout_ms = c->s.body_timeout_ms,
        .keep_alive_timeout_ms = c->s.keep_alive_timeout_ms,
        .send_timeout_ms = c->s.send_timeout_ms,
        .body_spill_bytes = c->s.body_spill_bytes,
        .spill_dir = c->s.spill_dir,
        .body_totals = &f->body_totals,
        .on_request = on_request,
        .context = f,
    };
}

static void take_config(struct front *f, const struct agent_config *c)
{
    f->allow = &c->allow;
    f->response_buffers_total = c->s.response_buffers_total_bytes;
    body_totals_set(&f->body_totals, c->s.request_buffers_total_bytes, c->s.body_spill_total_bytes,
                    body_files_max(daemon_descriptor_limit()));
}

/* Whether there is TLS at all is a matter of listening. */
static void take_tls(struct front *f, struct agent_config *c)
{
    if ((f->tls == NULL) != (c->tls == NULL))
        log_warn(NULL, "config-restart-required", "setting=tls");
    else if (f->tls != NULL)
        tls_listener_take(f->tls, c->tls);
}

void front_look(struct front *f)
{
    if (f->tls != NULL)
        tls_listener_look(f->tls, "all", loop_now_ms(f->loop));
}

void front_handshakes(const struct front *f, uint64_t *finished, uint64_t *failed)
{
    struct http_server_counts counts;

    http_server_read_counts(f->server, &counts);
    *finished = counts.tls12 + counts.tls13;
    *failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(counts.tls_failed); ++i)
        *failed += counts.tls_failed[i];
}

const struct body_totals *front_body_totals(const struct front *f)
{
    return &f->body_totals;
}

struct front *front_create(struct loop *l, struct agent_config *c)
{
    struct front *f = xcalloc(1, sizeof(*f));
    struct http_server_options o = options_of(f, c);

    f->loop = l;
    list_init(&f->exchanges);
    take_config(f, c);
    f->tls = c->tls;
    c->tls = NULL;
    f->server = http_server_create(l, &o);
    return f;
}

void front_trace(struct front *f, struct trace_log *t)
{
    f->trace = t;
}

void front_configure(struct front *f, struct agent_config *c)
{
    struct http_server_options o = options_of(f, c);

    take_tls(f, c);
    take_config(f, c);
    http_server_set(f->server, &o);
}

int front_listener_number(const struct front_listener *listener)
{
    return listener->slot != NULL ? (int)listener->slot->n : -1;
}

struct http_listener *front_listen(struct front *f, struct addr *a, struct front_listener *listener,
                                   const void *subject)
{
    const struct addr_listen_options lo = {.mode = 0660};
    const struct http_listen_options ho = {.ssl =
                                               f->tls != NULL ? tls_listener_context(f->tls) : NULL,
                                           .allows = allows,
                                           .tag = listener};
    char text[ADDR_TEXT_MAX];
    struct addr bound;
    int fd;

    errno = 0;
    fd = inherited_take_socket(listener->group->pool->inherited, a, listener->group->name,
                               front_listener_number(listener));
    if (fd < 0 && addr_listen(a, &lo, &fd) != ERR_OK) {
        log_error(subject, "listen-failed", "address=%s reason=\"%s\"", addr_format(a, text),
                  strerror(errno));
        return NULL;
    }
    if (addr_of_socket(fd, &bound) == ERR_OK && a->sa.sa_family != AF_UNIX)
        *a = bound;
    return http_server_listen(f->server, fd, &ho);
}

struct http_server *front_server(const struct front *f)
{
    return f->server;
}

void front_turn_away(struct front *f, bool on, const struct agent_config *c)
{
    struct http_server_options o = options_of(f, c);

    f->turns_away = on;
    if (on && (o.keep_alive_timeout_ms == 0 || o.keep_alive_timeout_ms > FRONT_QUIET_MS))
        o.keep_alive_timeout_ms = FRONT_QUIET_MS;
    http_server_set(f->server, &o);
}

void front_cut(struct front *f)
{
    exchanges_cut(f);
    http_server_cut(f->server);
}

void front_destroy(struct front *f)
{
    if (f == NULL)
        return;
    http_server_destroy(f->server);
    tls_listener_destroy(f->tls);
    free(f);
}
