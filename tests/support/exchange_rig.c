/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/exchange_rig.h"

#include "common/base/log.h"
#include "common/net/address_counts.h"
#include "lb/access/access_log.h"
#include "lb/backends/member.h"
#include "lb/backends/membership.h"
#include "lb/backends/self_measure.h"
#include "lb/config/configuration.h"
#include "lb/core/lb.h"
#include "lb/core/traffic.h"
#include "lb/program/lb_parts.h"
#include "lb/request/front.h"
#include "tests/support/pool_check.h"

#include <dirent.h>
#include <openssl/pem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    STEPS_MAX = 256,
    CONNS_MAX = 256,
    ROWS_MAX = 256,
    RECYCLE_MS = 1000,
    BACKLOG = 64,
    FEED_ALIVE_MS = 5000
};

/* A connection to a worker, from its accept to the end of the rig. */
struct rig_conn {
    struct scripted_peer peer;
    unsigned worker, number;
    bool feed;       /* a resume stream */
    uint64_t fed_ms; /* its last line */
    bool tunnel;     /* upgraded: no more requests */
};

struct rig_worker {
    char path[108];
    int listener; /* -1: it refuses connections */
    bool hangs, early;
    struct scripted_peer dummy; /* occupies the queue of one that hangs */
    unsigned accepted;
};

struct exchange_rig {
    struct rig_options o;
    char directory[64];
    char front_path[108];
    struct configuration config;
    struct lb lb;
    struct lb_loop home;
    struct application *app;
    struct loop_deferred each_turn;
    struct timer recycle;
    struct rig_worker workers[RIG_WORKERS_MAX];
    struct rig_conn *conns[CONNS_MAX];
    unsigned nconns;
    struct rig_call calls[RIG_CALLS_MAX];
    unsigned ncalls;
    char *steps[STEPS_MAX];
    unsigned nsteps;
    const char *always; /* the step of further calls, or NULL */
    struct scripted_peer clients[RIG_CLIENTS_MAX];
    unsigned nclients;
    unsigned client; /* the one in use */
    bool drained, draining;
};

/* ---- the access log: rows in memory ---- */

static struct {
    char *rows[ROWS_MAX];
    unsigned first, n; /* the first not taken yet, and the number of all */
    struct text records;
} access_rows;

bool __wrap_access_log_wants(struct access_log *log, unsigned loop_index, bool error);
struct text *__wrap_access_log_begin(struct access_log *log, unsigned loop_index);
void __wrap_access_log_end(struct access_log *log, unsigned loop_index);
void __wrap_access_log_add(struct access_log *log, unsigned loop_index,
                           const struct access_entry *e);

/* " key=value key=value ... "; of a worker the last part of its path. */
static void access_add(const struct access_entry *e)
{
    struct text t = {0};
    const char *slash = e->worker.len != 0 ? memrchr(e->worker.p, '/', e->worker.len) : NULL;
    struct access_entry named = *e;

    if (slash != NULL) {
        named.worker.p = slash + 1;
        named.worker.len -= (size_t)(slash + 1 - e->worker.p);
    }
#define TEXT(name, key, doc) text_addf(&t, " " key "=%.*s", SLICE_FMT(named.name));
#define WORD(name, key, doc)                                                                       \
    text_addf(&t, " " key "=%s", named.fixed.name != NULL ? named.fixed.name : "");
#define NUMBER(name, key, doc) text_addf(&t, " " key "=%llu", (unsigned long long)named.fixed.name);
#include "lb/access/access_field.def"
    text_add_char(&t, ' ');
    ASSERT(access_rows.n < ROWS_MAX);
    access_rows.rows[access_rows.n++] = xslicedup(text_slice(&t));
    text_fini(&t);
}

bool __wrap_access_log_wants(struct access_log *log, unsigned loop_index, bool error)
{
    (void)log, (void)loop_index, (void)error;
    return true;
}

struct text *__wrap_access_log_begin(struct access_log *log, unsigned loop_index)
{
    (void)log, (void)loop_index;
    text_clear(&access_rows.records);
    return &access_rows.records;
}

void __wrap_access_log_end(struct access_log *log, unsigned loop_index)
{
    const struct access_record *record = (const void *)access_rows.records.p;
    const char *at = access_rows.records.p + sizeof(*record);
    struct access_entry e = {.fixed = record->fixed};
    struct slice *texts = &e.client;

    (void)log, (void)loop_index;
    for (size_t i = 0; i < ACCESS_TEXTS; ++i) {
        texts[i] = (struct slice){at, record->lengths[i]};
        at += record->lengths[i];
    }
    access_add(&e);
}

void __wrap_access_log_add(struct access_log *log, unsigned loop_index,
                           const struct access_entry *e)
{
    (void)log, (void)loop_index;
    access_add(e);
}

static void access_clear(void)
{
    while (access_rows.n != 0)
        free(access_rows.rows[--access_rows.n]);
    access_rows.first = 0;
    text_fini(&access_rows.records);
}

/* ---- workers ---- */

static void run_step(struct rig_conn *c, const char *step)
{
    const char *end = scripted_run(&c->peer, step);

    c->tunnel |= slice_starts(slice_of(step), SLICE_LIT("HTTP/1.1 101"));
    ASSERT(end[0] == '\0');
}

static void respond_feed(struct rig_conn *c)
{
    c->feed = true;
    text_clear(&c->peer.in);
    scripted_send(&c->peer,
                  SLICE_LIT("HTTP/1.1 200 OK\r\nContent-Type: application/x-resumelb-resume+jsonl"
                            "\r\nConnection: close\r\n\r\n" RIG_RESUME("i0", "ready") "\n"));
    c->fed_ms = virtual_ms();
}

static void feed_line(struct rig_conn *c, const char *line)
{
    c->fed_ms = virtual_ms();
    scripted_send(&c->peer, slice_of(line));
    scripted_send(&c->peer, SLICE_LIT("\n"));
}

/* Takes the requests that have arrived on C. */
static void take_calls(struct exchange_rig *r, struct rig_conn *c)
{
    size_t n;

    if (r->workers[c->worker].early && scripted_head_length(&c->peer.in) != 0) {
        c->peer.deaf = true;
        c->peer.in.len = scripted_head_length(&c->peer.in);
    }
    while (!c->feed && !c->tunnel &&
           (n = c->peer.deaf ? c->peer.in.len : scripted_message_length(&c->peer.in)) != 0) {
        struct slice bytes = {c->peer.in.p, n};
        struct rig_call *call = &r->calls[r->ncalls];

        if (slice_starts(bytes, SLICE_LIT("GET /.well-known/resumelb/resume "))) {
            respond_feed(c);
            return;
        }
        ASSERT(r->ncalls < RIG_CALLS_MAX);
        *call = (struct rig_call){
            .worker = c->worker, .peer = &c->peer, .connection = c->number, .at_ms = virtual_ms()};
        text_add(&call->bytes, bytes);
        memmove(c->peer.in.p, c->peer.in.p + n, c->peer.in.len - n);
        c->peer.in.len -= n;
        ++r->ncalls;
        if (r->ncalls <= r->nsteps)
            run_step(c, r->steps[r->ncalls - 1]);
        else if (r->always != NULL)
            run_step(c, r->always);
        if (c->peer.fd == -1)
            return;
    }
}

static bool accept_workers(struct exchange_rig *r)
{
    bool any = false;

    for (unsigned w = 0; w < r->o.workers; ++w) {
        struct rig_worker *worker = &r->workers[w];

        while (worker->listener != -1 && !worker->hangs) {
            int fd = accept4(worker->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

            if (fd == -1)
                break;
            struct rig_conn *c = xcalloc(1, sizeof(*c));
            ASSERT(r->nconns < CONNS_MAX);
            r->conns[r->nconns++] = c;
            scripted_open(&c->peer, fd, r->o.worker_tls ? scripted_tls_server() : NULL, true);
            c->worker = w;
            c->number = worker->accepted++;
            any = true;
        }
    }
    return any;
}

static bool rig_step(void *context)
{
    struct exchange_rig *r = context;
    bool any = accept_workers(r);

    for (unsigned i = 0; i < r->nconns; ++i) {
        struct rig_conn *c = r->conns[i];

        if (c->feed && scripted_is_open(&c->peer) && virtual_ms() - c->fed_ms >= FEED_ALIVE_MS)
            feed_line(c, "");
        any |= scripted_step(&c->peer);
        take_calls(r, c);
    }
    for (unsigned i = 0; i < r->nclients; ++i)
        any |= scripted_step(&r->clients[i]);
    return any;
}

void rig_add_plan(struct exchange_rig *r, const char *const *steps)
{
    for (size_t i = 0; steps[i] != NULL; ++i) {
        ASSERT(r->nsteps < STEPS_MAX);
        r->steps[r->nsteps++] = xstrdup(steps[i]);
    }
}

void rig_always(struct exchange_rig *r, const char *step)
{
    r->always = step;
}

static void stop_listening(struct rig_worker *w)
{
    if (w->listener == -1)
        return;
    close(w->listener);
    unlink(w->path);
    w->listener = -1;
    w->hangs = false;
    scripted_fini(&w->dummy);
    w->dummy = (struct scripted_peer){.fd = -1};
}

void rig_refuse(struct exchange_rig *r, unsigned w, bool refuses)
{
    stop_listening(&r->workers[w]);
    if (!refuses)
        r->workers[w].listener = scripted_listen(r->workers[w].path, BACKLOG);
}

void rig_early(struct exchange_rig *r, unsigned w)
{
    r->workers[w].early = true;
}

void rig_hang(struct exchange_rig *r, unsigned w)
{
    struct rig_worker *worker = &r->workers[w];

    stop_listening(worker);
    worker->listener = scripted_listen(worker->path, 0);
    worker->hangs = true;
    scripted_connect(&worker->dummy, worker->path, NULL);
}

static struct rig_conn *conn_of(struct exchange_rig *r, unsigned i)
{
    assert_true(i < r->ncalls);
    return container_of(r->calls[i].peer, struct rig_conn, peer);
}

void rig_respond(struct exchange_rig *r, unsigned i, const char *step)
{
    run_step(conn_of(r, i), step);
    rig_settle(r);
}

void rig_respond_bytes(struct exchange_rig *r, unsigned i, struct slice bytes)
{
    scripted_send(&conn_of(r, i)->peer, bytes);
    rig_settle(r);
}

unsigned rig_calls(const struct exchange_rig *r)
{
    return r->ncalls;
}

const struct rig_call *rig_call(const struct exchange_rig *r, unsigned i)
{
    assert_true(i < r->ncalls);
    return &r->calls[i];
}

unsigned rig_accepted(const struct exchange_rig *r, unsigned w)
{
    return r->workers[w].accepted;
}

unsigned rig_open(const struct exchange_rig *r, unsigned w)
{
    unsigned n = 0;

    for (unsigned i = 0; i < r->nconns; ++i)
        n += r->conns[i]->worker == w && scripted_is_open(&r->conns[i]->peer);
    return n;
}

void rig_feed(struct exchange_rig *r, unsigned w, const char *line)
{
    for (unsigned i = 0; i < r->nconns; ++i) {
        struct rig_conn *c = r->conns[i];

        if (c->worker == w && c->feed && scripted_is_open(&c->peer))
            feed_line(c, line);
    }
    rig_settle(r);
}

/* ---- expectations ---- */

void rig_expect_call(struct exchange_rig *r, unsigned i, const char *name, const char *bytes,
                     const char *file, int line)
{
    char worker[16] = "no call";

    if (i < r->ncalls)
        snprintf(worker, sizeof(worker), "w%u", r->calls[i].worker);
    scripted_expect_call(worker, text_slice(&r->calls[i].bytes), name, bytes, file, line);
}

void rig_expect_tunnel(struct exchange_rig *r, unsigned i, const char *bytes, const char *file,
                       int line)
{
    scripted_expect_all(&conn_of(r, i)->peer.in, "the bytes of a tunnel at its worker", bytes, file,
                        line);
}

void rig_expect_bytes(struct exchange_rig *r, const char *bytes, const char *file, int line)
{
    scripted_expect_bytes(rig_peer(r), bytes, file, line);
}

void rig_expect_status(struct exchange_rig *r, int status, const char *const *fields,
                       const char *file, int line)
{
    scripted_expect_status(rig_peer(r), status, fields, file, line);
}

void rig_expect_closed(struct exchange_rig *r, bool closed, const char *file, int line)
{
    scripted_expect_closed(rig_peer(r), closed, file, line);
}

void rig_expect_row(struct exchange_rig *r, const char *fields, const char *file, int line)
{
    struct slice rest = slice_of(fields);

    (void)r;
    if (access_rows.first == access_rows.n)
        scripted_differ("no row in the access log", SLICE_NULL, slice_of(fields), file, line);
    const char *row = access_rows.rows[access_rows.first++];
    while (rest.len != 0) {
        struct slice field = slice_cut(&rest, ' ');
        char *padded = xasprintf(" %.*s ", SLICE_FMT(field));
        bool found = strstr(row, padded) != NULL;

        free(padded);
        if (!found)
            scripted_differ("a row of the access log", slice_of(row), field, file, line);
    }
}

/* ---- clients ---- */

unsigned rig_client(struct exchange_rig *r)
{
    ASSERT(r->nclients < RIG_CLIENTS_MAX);
    r->client = r->nclients;
    scripted_connect(&r->clients[r->nclients++], r->front_path,
                     r->o.tls ? scripted_tls_client() : NULL);
    rig_settle(r);
    return r->client;
}

unsigned rig_client_from(struct exchange_rig *r, const char *address)
{
    unsigned c = rig_client(r);
    char *header = xasprintf("PROXY TCP4 %s 192.0.2.1 1000 80\r\n", address);

    rig_send(r, header);
    free(header);
    return c;
}

void rig_use(struct exchange_rig *r, unsigned c)
{
    ASSERT(c < r->nclients);
    r->client = c;
}

struct scripted_peer *rig_peer(struct exchange_rig *r)
{
    return &r->clients[r->client];
}

void rig_send_bytes(struct exchange_rig *r, struct slice bytes)
{
    scripted_send(rig_peer(r), bytes);
    rig_settle(r);
}

void rig_send(struct exchange_rig *r, const char *bytes)
{
    rig_send_bytes(r, slice_of(bytes));
}

void rig_get(struct exchange_rig *r, const char *target)
{
    char *bytes = xasprintf("GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);

    rig_send(r, bytes);
    free(bytes);
}

void rig_post(struct exchange_rig *r, const char *target, const char *body)
{
    char *bytes = xasprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n%s", target,
                            strlen(body), body);

    rig_send(r, bytes);
    free(bytes);
}

void rig_deaf(struct exchange_rig *r, bool deaf)
{
    rig_peer(r)->deaf = deaf;
    rig_settle(r);
}

void rig_client_close(struct exchange_rig *r)
{
    scripted_close(rig_peer(r));
    rig_settle(r);
}

void rig_client_reset(struct exchange_rig *r)
{
    scripted_reset(rig_peer(r));
    rig_settle(r);
}

void rig_client_half_close(struct exchange_rig *r)
{
    scripted_end(rig_peer(r));
    rig_settle(r);
}

/* ---- descriptors ---- */

struct rlimit rig_take_descriptors(void)
{
    struct rlimit before;
    int next = dup(STDERR_FILENO);

    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    return before;
}

/* ---- time ---- */

void rig_settle(struct exchange_rig *r)
{
    virtual_settle(r->lb.control, rig_step, r);
    pool_check(r->app->pool);
}

void rig_pass(struct exchange_rig *r, uint64_t ms)
{
    virtual_pass(r->lb.control, virtual_ms() + ms, rig_step, NULL, r);
    pool_check(r->app->pool);
}

static bool has_row(void *context)
{
    (void)context;
    return access_rows.first != access_rows.n;
}

uint64_t rig_pass_to_row(struct exchange_rig *r)
{
    enum { HOUR_MS = 3600 * 1000 };
    uint64_t from_ms = virtual_ms();

    virtual_pass(r->lb.control, from_ms + HOUR_MS, rig_step, has_row, r);
    pool_check(r->app->pool);
    return virtual_ms() - from_ms;
}

/* ---- figures ---- */

int64_t rig_stat(const struct exchange_rig *r, enum app_stat stat)
{
    return stats_sum(r->app->stats, stat);
}

struct application *rig_app(struct exchange_rig *r)
{
    return r->app;
}

struct lb *rig_lb(struct exchange_rig *r)
{
    return &r->lb;
}

/* ---- the load balancer ---- */

static void on_rig_turn(struct loop_deferred *d)
{
    struct exchange_rig *r = container_of(d, struct exchange_rig, each_turn);

    application_take_settings(application_on(r->app, 0));
}

static void on_recycle(struct timer *t)
{
    struct exchange_rig *r = container_of(t, struct exchange_rig, recycle);

    conn_pool_recycle(r->app->conn_pool, r->lb.control);
    timer_start(r->lb.control, t, RECYCLE_MS);
}

/* The files of the client listener's certificate, which the settings name. */
static void write_certificate(const struct exchange_rig *r)
{
    char *certificate = xasprintf("%s/front.pem", r->directory);
    char *key = xasprintf("%s/front.key", r->directory);
    FILE *out = fopen(certificate, "w");

    ASSERT(out != NULL);
    PEM_write_X509(out, SSL_CTX_get0_certificate(scripted_tls_server()));
    fclose(out);
    out = fopen(key, "w");
    ASSERT(out != NULL);
    PEM_write_PrivateKey(out, SSL_CTX_get0_privatekey(scripted_tls_server()), NULL, NULL, 0, NULL,
                         NULL);
    fclose(out);
    free(certificate);
    free(key);
}

static void write_settings(const struct exchange_rig *r, FILE *out)
{
    const struct rig_options *o = &r->o;
    const char *settings = o->settings != NULL ? o->settings : "";
    const char *d = r->directory;

    fprintf(out, "listen: [{address: \"unix:%s\"", r->front_path);
    if (o->tls)
        fprintf(out, ", http2: false, tls: {certificate: %s/front.pem, key: %s/front.key}", d, d);
    if (o->proxied)
        fprintf(out, ", proxy_protocol: true");
    fprintf(out, "}]\nspill_dir: %s\nvia: off\nrequest_id: off\nforwarded_for: off\n", d);
    if (o->worker_tls)
        fprintf(out, "worker_tls: {verify: off}\n");
    if (strstr(settings, "pool:") == NULL)
        fprintf(out, "pool: {policy: round_robin}\n");
    fprintf(out, "%sworkers:\n", settings);
    /* The last one listed is selected first. */
    for (unsigned w = o->workers; w-- != 0;)
        fprintf(out, "- {address: \"unix:%s/w%u\"%s%s%s}\n", d, w,
                w < o->agents ? ", resume: stream" : "", o->worker != NULL ? ", " : "",
                o->worker != NULL ? o->worker : "");
}

static void read_settings(struct exchange_rig *r)
{
    char *path = xasprintf("%s/rig.yaml", r->directory);
    FILE *out = fopen(path, "w");
    struct diag d = {0};

    ASSERT(out != NULL);
    if (r->o.tls)
        write_certificate(r);
    write_settings(r, out);
    fclose(out);
    bool good = configuration_read(path, &r->config, &d);
    if (!good)
        print_error("%s\n", d.text);
    assert_true(good);
    diag_fini(&d);
    free(path);
}

static void make_application(struct exchange_rig *r)
{
    struct lb *lb = &r->lb;
    struct diag d = {0};

    settings_copy(&program_table, &r->config.program, &lb->settings);
    strcpy(lb->instance, "00000000000000000000000000000000");
    lb->control = loop_create(0);
    r->home = (struct lb_loop){.lb = lb, .loop = lb->control, .traffic = traffic_create()};
    lb->loops = &r->home;
    lb->nloops = 1;
    lb->access_log = (struct access_log *)(void *)r; /* never dereferenced */
    lb->addresses = address_counts_create(ADDRESS_COUNTS_OF_CLIENTS);
    atomic_init(&lb->response_buffers_total, lb->settings.response_buffers_total_bytes);
    lb_set_body_totals(lb, &lb->settings);
    atomic_init(&lb->spill_space.bytes.max, lb->settings.response_spill_total_bytes);
    lb->spill_space.files = &lb->body_totals.files;
    lb->spill_space.directory = lb->settings.response_spill_dir != NULL
                                    ? lb->settings.response_spill_dir
                                    : lb->settings.spill_dir;
    lb->self_measure = self_measure_create(NULL, -1);
    r->app = application_create(lb, &r->config.applications[0]);
    lb->applications = &r->app;
    lb->index = application_index_create(&r->app, 1);
    application_attach(r->app, &lb->control, 1);
    lb->napplications = 1;
    enum err e = membership_start(r->app, &r->config.applications[0], &d);
    assert_int_equal(e, ERR_OK);
    diag_fini(&d);
}

static void make_front(struct exchange_rig *r)
{
    struct http_server_options limits = lb_limits(&r->lb.settings, 1);
    const struct listen_config *c = &r->config.listens[0];
    struct http_listen_options o = {
        .ssl = c->tls != NULL ? tls_listener_context(c->tls) : NULL,
        .proxy_from = c->proxied ? &c->proxy_from : NULL,
        .responds_plain = true,
    };

    r->home.front = front_create(&r->home, &limits);
    front_listen(r->home.front, scripted_listen(r->front_path, BACKLOG), &o);
    r->each_turn.run = on_rig_turn;
    loop_each_turn(r->lb.control, &r->each_turn);
    timer_init(&r->recycle, on_recycle);
    timer_start(r->lb.control, &r->recycle, RECYCLE_MS);
    r->lb.phase = LB_SERVING;
}

struct exchange_rig *rig_create(void **state, const struct rig_options *o)
{
    struct exchange_rig *r = xcalloc(1, sizeof(*r));

    *state = r;
    signal(SIGPIPE, SIG_IGN);
    log_set_level(getenv("RIG_LOG") != NULL ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR);
    access_clear(); /* of a scenario that failed */
    virtual_start();
    r->o = *o;
    r->o.workers = o->workers != 0 ? o->workers : 1;
    strcpy(r->directory, RLB_TEST_DIR "/rig-XXXXXX");
    assert_non_null(mkdtemp(r->directory));
    snprintf(r->front_path, sizeof(r->front_path), "%s/front", r->directory);
    for (unsigned w = 0; w < r->o.workers; ++w) {
        struct rig_worker *worker = &r->workers[w];

        snprintf(worker->path, sizeof(worker->path), "%s/w%u", r->directory, w);
        worker->dummy.fd = -1;
        worker->listener = scripted_listen(worker->path, BACKLOG);
    }
    read_settings(r);
    make_application(r);
    make_front(r);
    rig_settle(r);
    if (!o->proxied)
        (void)rig_client(r);
    return r;
}

/* ---- its end ---- */

static void on_drained(void *context)
{
    ((struct exchange_rig *)context)->drained = true;
}

void rig_drain(struct exchange_rig *r, bool patient)
{
    r->draining = true;
    front_drain(r->home.front, patient, on_drained, r);
    rig_settle(r);
}

void rig_shut_idle(struct exchange_rig *r)
{
    front_shut_idle(&r->home, NULL);
    rig_settle(r);
}

void rig_cut(struct exchange_rig *r)
{
    front_cut(&r->home, NULL);
    rig_settle(r);
}

bool rig_drained(const struct exchange_rig *r)
{
    return r->drained;
}

static void check_leftovers(struct exchange_rig *r, const char *file, int line)
{
    if (access_rows.first != access_rows.n)
        scripted_differ("a row that was not expected",
                        slice_of(access_rows.rows[access_rows.first]), SLICE_NULL, file, line);
    for (r->client = 0; r->client < r->nclients; ++r->client)
        rig_expect_bytes(r, "", file, line);
    if (r->ncalls < r->nsteps)
        scripted_differ("a step of the plan was not reached", SLICE_NULL,
                        slice_of(r->steps[r->ncalls]), file, line);
    if (rig_stat(r, APP_STAT_requests_active) != 0 || r->app->pool->backlog != 0 ||
        rig_stat(r, APP_STAT_buffered_bytes) != 0 || rig_stat(r, APP_STAT_requests_waiting) != 0) {
        print_error("a request is still in progress\n");
        _fail(file, line);
    }
}

static void close_all(struct exchange_rig *r)
{
    if (!r->draining)
        rig_drain(r, false);
    rig_cut(r);
    rig_pass(r, 1000);
    ASSERT(r->drained);
    conn_pool_close_loop(r->app->conn_pool, r->lb.control);
    front_destroy(r->home.front);
    membership_stop(r->app);
    ejection_stop(r->app);
    self_measure_destroy(r->lb.self_measure);
    virtual_settle(r->lb.control, rig_step, r);
    list_remove(&r->each_turn.node);
    timer_stop(&r->recycle);
    application_loop_end(application_on(r->app, 0));
    loop_settle(r->lb.control);
}

static void free_lb(struct exchange_rig *r)
{
    struct lb *lb = &r->lb;

    traffic_destroy(r->home.traffic);
    application_destroy(r->app);
    application_index_destroy(lb->index);
    loop_destroy(lb->control);
    settings_fini(&program_table, &lb->settings);
    configuration_fini(&r->config);
    fair_shares_fini(&lb->spill_space.bytes);
    body_totals_fini(&lb->body_totals);
    address_counts_destroy(lb->addresses);
}

static void remove_directory(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;

    ASSERT(d != NULL);
    while ((e = readdir(d)) != NULL)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    int failed = rmdir(path);
    ASSERT(failed == 0);
}

void rig_finish(struct exchange_rig *r, const char *file, int line)
{
    rig_settle(r);
    check_leftovers(r, file, line);
    close_all(r);
    free_lb(r);
    for (unsigned i = 0; i < r->nclients; ++i)
        scripted_fini(&r->clients[i]);
    for (unsigned i = 0; i < r->nconns; ++i) {
        scripted_fini(&r->conns[i]->peer);
        free(r->conns[i]);
    }
    for (unsigned i = 0; i < r->ncalls; ++i)
        text_fini(&r->calls[i].bytes);
    for (unsigned i = 0; i < r->nsteps; ++i)
        free(r->steps[i]);
    for (unsigned w = 0; w < r->o.workers; ++w)
        stop_listening(&r->workers[w]);
    remove_directory(r->directory);
    access_clear();
    virtual_end();
    free(r);
}
