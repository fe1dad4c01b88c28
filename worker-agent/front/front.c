/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/front/front.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/http/http_request.h"
#include "common/program/daemon.h"
#include "common/program/inherited.h"

/* ---- header fields: names are as they were written ---- */

/* The value of header NAME, or SLICE_NULL. The first of several. */
static struct slice header_of(const struct http_request *req, const char *name)
{
    const struct message_field *f = message_fields_find(&req->fields, slice_of(name), NULL);

    return f != NULL ? f->value : SLICE_NULL;
}

void front_read_class(const struct http_request *req, struct request_class *out)
{
    struct slice cls = header_of(req, "resumelb-class");
    struct slice fingerprint = header_of(req, "resumelb-classifier");

    out->cls = (struct slice){out->cls_bytes, 0};
    out->fingerprint = (struct slice){out->fingerprint_bytes, 0};
    if (cls.len > 0 && resume_is_class(cls)) {
        memcpy(out->cls_bytes, cls.p, cls.len);
        out->cls.len = cls.len;
    }
    out->has_reported =
        home_report_parse(header_of(req, "resumelb-home"), &out->reported) == ERR_OK;
    if (fingerprint.len > 0 && resume_is_fingerprint(fingerprint)) {
        memcpy(out->fingerprint_bytes, fingerprint.p, fingerprint.len);
        out->fingerprint.len = fingerprint.len;
    }
}

/* ---- requests ---- */

void front_put_backlog(struct http_request *req, size_t backlog)
{
    char digits[PUT_U64_MAX];
    size_t n = (size_t)(put_u64(digits, backlog) - digits);

    http_request_add_response(req, "Resumelb-Backlog", (struct slice){digits, n});
}

/* For requests that get a response here and now: nothing is to be done at their end. */
static void on_rejected_closed(unused_ void *context, unused_ bool done)
{
}

static const struct http_response_events rejected_events = {.gone = on_rejected_closed};

static void front_reject(const struct slot *s, struct http_request *req, struct http_conn *conn,
                         int status, struct slice body)
{
    struct http_response *r = http_request_take(req, sizeof(*r));

    group_count(s->group, AGENT_STAT_bad_requests);
    http_response_init(r, req, conn, &rejected_events, NULL);
    if (status == 403)
        req->keep_alive = false;
    http_response_simple(r, status, "text/plain; charset=utf-8", body);
}

/* An application's own address is open to all peers. */
static bool is_allowed(const struct agent_front *f, const struct slot *s, const struct addr *peer)
{
    if (s == NULL || networks_have(f->allow, peer))
        return true;
    log_warn(s, "connection-not-allowed", "client=%s", addr_text(peer));
    return false;
}

/* Called before anything is read from a connection, including its handshake. */
static bool allows_peer(void *context, void *tag, const struct addr *peer)
{
    const struct front_listener *listener = tag;

    if (is_allowed(context, listener->slot, peer))
        return true;
    group_count(listener->group, AGENT_STAT_not_allowed);
    return false;
}

static void on_request(void *context, struct http_request *req, struct http_conn *conn)
{
    struct agent_front *f = context;
    const struct front_listener *listener = http_conn_tag(conn);
    struct slot *s = listener->slot;

    /* The connection may be older than a change of `allow`. */
    if (!is_allowed(f, s, http_conn_peer(conn))) {
        front_reject(s, req, conn, 403, SLICE_LIT("client address not permitted\n"));
        return;
    }
    if (f->closes_connections && s != NULL)
        req->keep_alive = false;
    if (s == NULL || !slice_is(req->target, RESUME_STREAM_PATH)) {
        exchange_start(f, listener, req, conn);
        return;
    }
    if (!slice_is(header_of(req, "resumelb-feed"), "1") || !slice_is(req->method, "GET")) {
        front_reject(s, req, conn, 404, SLICE_LIT("not found\n"));
        return;
    }
    struct request_class rc;
    front_read_class(req, &rc);
    resume_stream_start(s, req, conn, rc.fingerprint,
                        slice_is(header_of(req, "resumelb-homes"), "1"));
}

/* ---- life ---- */

static struct http_server_options options_of(struct agent_front *f, const struct agent_config *c)
{
    return (struct http_server_options){
        .max.body_bytes = c->s.max_body_bytes,
        .max.head_bytes = c->s.max_header_size_bytes,
        .max.fields = (size_t)c->s.max_headers,
        .max_connections = (size_t)c->s.max_connections,
        .header_timeout_ms = c->s.header_timeout_ms,
        .body_timeout_ms = c->s.body_timeout_ms,
        .keep_alive_timeout_ms = c->s.keep_alive_timeout_ms,
        .send_timeout_ms = c->s.send_timeout_ms,
        .sinks = {.memory_bytes = c->s.body_spill_bytes,
                  .directory = c->s.spill_dir,
                  .totals = &f->body_totals},
        .on_request = on_request,
        .context = f,
    };
}

static void take_config(struct agent_front *f, const struct agent_config *c)
{
    f->allow = &c->allow;
    f->response_buffers_total = c->s.response_buffers_total_bytes;
    body_totals_set(&f->body_totals, c->s.request_buffers_total_bytes, c->s.body_spill_total_bytes,
                    body_files_max(daemon_descriptors().rlim_cur));
}

struct agent_front *front_create(struct loop *l, struct agent_config *c, struct trace_log *t)
{
    struct agent_front *f = xcalloc(1, sizeof(*f));
    struct http_server_options o = options_of(f, c);

    f->loop = l;
    f->trace = t;
    list_init(&f->exchanges);
    take_config(f, c);
    f->tls = c->tls;
    c->tls = NULL;
    f->server = http_server_create(l, &o);
    return f;
}

void front_configure(struct agent_front *f, struct agent_config *c)
{
    struct http_server_options o = options_of(f, c);

    /* TLS is turned on or off only when listening starts. */
    if ((f->tls == NULL) != (c->tls == NULL))
        log_warn(NULL, "config-restart-required", "setting=tls");
    else if (f->tls != NULL)
        tls_listener_take(f->tls, c->tls);
    take_config(f, c);
    http_server_set(f->server, &o);
}

bool front_listen(struct agent_front *f, struct front_listener *l)
{
    const struct addr_listen_options lo = {.mode = 0660};
    const struct http_listen_options ho = {.ssl =
                                               f->tls != NULL ? tls_listener_context(f->tls) : NULL,
                                           .allows = allows_peer,
                                           .tag = l};
    struct addr bound;
    int fd;

    errno = 0;
    fd = inherited_take_socket(l->group->pool->inherited, &l->addr, l->group->name,
                               l->slot != NULL ? (int)l->slot->core.n : -1);
    if (fd < 0 && addr_listen(&l->addr, &lo, &fd) != ERR_OK) {
        log_error(l->slot != NULL ? (const void *)l->slot : l->group, "listen-failed",
                  "address=%s reason=\"%s\"", addr_text(&l->addr), strerror(errno));
        return false;
    }
    if (addr_of_socket(fd, &bound) == ERR_OK && l->addr.sa.sa_family != AF_UNIX)
        l->addr = bound;
    l->listener = http_server_listen(f->server, fd, &ho);
    return l->listener != NULL;
}

void front_decline_idle(struct agent_front *f, bool on, const struct agent_config *c)
{
    struct http_server_options o = options_of(f, c);

    f->closes_connections = on;
    if (on && (o.keep_alive_timeout_ms == 0 || o.keep_alive_timeout_ms > FRONT_QUIET_MS))
        o.keep_alive_timeout_ms = FRONT_QUIET_MS;
    http_server_set(f->server, &o);
}

void front_cut(struct agent_front *f)
{
    exchanges_cut(f);
    http_server_cut(f->server);
}

void front_destroy(struct agent_front *f)
{
    if (f == NULL)
        return;
    exchanges_cut(f);
    http_server_destroy(f->server);
    tls_listener_destroy(f->tls);
    body_totals_fini(&f->body_totals);
    free(f);
}
