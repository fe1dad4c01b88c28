/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/agent_rig.h"

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/net/packet.h"
#include "common/upstream/http1_client.h"
#include "tests/support/pool_core_check.h"
#include "worker-agent/pool/app_pool.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    STEPS_MAX = 64,
    CONNS_MAX = 128,
    BACKLOG = 64,
    RECYCLE_MS = 1000,
    /* Above every pid that Linux assigns: a signal to it by mistake reaches no process. */
    PID_FIRST = 5000000,
    /* More than the agent needs to stop when nothing delays it. */
    STOP_MS = 10000,
};

struct agent_rig_conn {
    struct scripted_peer peer;
    unsigned process;
    bool tunnel; /* upgraded: no more requests */
};

struct agent_rig_process {
    char id[INSTANCE_MAX + 1];
    char path[108];
    int listener; /* -1: not started, dead, or it refuses connections */
    int output;   /* its end of the pipe */
    bool dead;
};

struct agent_rig {
    struct agent_rig_options o;
    char directory[64];
    struct agent agent;
    int supervisor_listener, supervisor; /* -1: closed */
    struct text orders;                  /* from the agent, not taken by the test yet */
    struct agent_rig_process processes[AGENT_RIG_PROCESSES_MAX];
    unsigned nprocesses;
    struct agent_rig_conn *conns[CONNS_MAX];
    unsigned nconns;
    struct agent_rig_call calls[AGENT_RIG_CALLS_MAX];
    unsigned ncalls;
    char *steps[STEPS_MAX];
    unsigned nsteps;
    struct scripted_peer clients[AGENT_RIG_CLIENTS_MAX];
    unsigned nclients;
    unsigned client; /* the one in use */
};

/* ---- processes ---- */

static void remove_listener(struct agent_rig_process *p)
{
    if (p->listener == -1)
        return;
    close(p->listener);
    unlink(p->path);
    p->listener = -1;
}

static void send_to_agent(struct agent_rig *r, json_t *message, int pass)
{
    if (r->supervisor != -1) {
        enum err e = packet_send(r->supervisor, message, pass);
        ASSERT(e == ERR_OK);
    }
    json_decref(message);
}

static void start_process(struct agent_rig *r, struct agent_rig_process *p)
{
    int output[2];
    int failed = pipe2(output, O_CLOEXEC | O_NONBLOCK);

    ASSERT(failed == 0);
    p->listener = scripted_listen(p->path, BACKLOG);
    p->output = output[1];
    char *address = xasprintf("unix:%s", p->path);
    send_to_agent(r,
                  json_pack("{s:s, s:s, s:I, s:s}", "op", "spawned", "id", p->id, "pid",
                            (json_int_t)(PID_FIRST + (p - r->processes)), "address", address),
                  output[0]);
    close(output[0]);
    free(address);
}

static void kill_process(struct agent_rig *r, unsigned n, const char *how)
{
    struct agent_rig_process *p = &r->processes[n];

    if (p->dead)
        return;
    p->dead = true;
    remove_listener(p);
    for (unsigned i = 0; i < r->nconns; ++i) {
        if (r->conns[i]->process == n)
            scripted_close(&r->conns[i]->peer);
    }
    if (p->output != -1)
        close(p->output);
    p->output = -1;
    send_to_agent(r, json_pack("{s:s, s:s, s:s}", "op", "died", "id", p->id, "how", how), -1);
}

static struct agent_rig_process *add_process(struct agent_rig *r, const char *id)
{
    struct agent_rig_process *p = &r->processes[r->nprocesses];

    ASSERT(r->nprocesses < AGENT_RIG_PROCESSES_MAX);
    snprintf(p->id, sizeof(p->id), "%s", id);
    snprintf(p->path, sizeof(p->path), "%s/p%u", r->directory, r->nprocesses);
    p->listener = p->output = -1;
    ++r->nprocesses;
    return p;
}

/* ---- the supervisor ---- */

static unsigned process_of(const struct agent_rig *r, const char *id)
{
    unsigned n = 0;

    while (strcmp(r->processes[n].id, id) != 0) {
        ++n;
        ASSERT(n < r->nprocesses);
    }
    return n;
}

static void obey(struct agent_rig *r, const json_t *m)
{
    const char *id = message_string(m, "id");
    int number = (int)message_count(m, "signal");

    if (packet_is(m, "bye")) {
        text_addf(&r->orders, "bye\n");
        close(r->supervisor);
        r->supervisor = -1;
    } else if (packet_is(m, "spawn")) {
        text_addf(&r->orders, "spawn p%u\n", r->nprocesses);
        struct agent_rig_process *p = add_process(r, id);
        if (!r->o.spawns_later)
            start_process(r, p);
    } else if (packet_is(m, "note")) {
        text_addf(&r->orders, "note p%u %s\n", process_of(r, id), message_string(m, "note"));
    } else if (packet_is(m, "signal")) {
        unsigned p = process_of(r, id);

        text_addf(&r->orders, "signal p%u %d\n", p, number);
        if (number == SIGKILL || !r->o.stubborn)
            kill_process(r, p, number == SIGKILL ? "signal 9" : "signal 15");
    } else {
        ASSERT(packet_is(m, "busy"));
    }
}

static bool step_supervisor(struct agent_rig *r)
{
    json_t *m;
    int passed;
    bool any = false;

    while (r->supervisor != -1 && packet_receive(r->supervisor, &m, &passed) == ERR_OK) {
        obey(r, m);
        json_decref(m);
        any = true;
    }
    return any;
}

/* The agent, which waits for the supervisor's response to its hello only within its start. */
static struct agent_rig *greeting;

enum err __real_packet_await(int fd, uint64_t until_us, json_t **message, int *passed);
enum err __wrap_packet_await(int fd, uint64_t until_us, json_t **message, int *passed);

static void greet(struct agent_rig *r)
{
    json_t *m;
    int passed;
    bool has = r->o.adopted != NULL;

    r->supervisor = accept4(r->supervisor_listener, NULL, NULL, SOCK_CLOEXEC);
    enum err e = packet_receive(r->supervisor, &m, &passed);
    ASSERT(e == ERR_OK && packet_is(m, "hello"));
    json_decref(m);
    send_to_agent(r,
                  json_pack("{s:s, s:i, s:i, s:i, s:b}", "op", "hello", "v", SUPERVISOR_VERSION,
                            "pid", PID_FIRST - 1, "processes", (int)has, "limited", 0),
                  -1);
    if (!has)
        return;
    struct agent_rig_process *p = add_process(r, "0123456789abcdef0123456789abcdef");
    p->listener = scripted_listen(p->path, BACKLOG);
    char *address = xasprintf("unix:%s", p->path);
    send_to_agent(r,
                  json_pack("{s:s, s:s, s:s, s:i, s:s, s:i, s:s, s:s, s:i, s:i}", "op", "process",
                            "id", p->id, "application", "a", "slot", 0, "spec",
                            r->agent.config->apps[0]->spec, "pid", PID_FIRST, "address", address,
                            "note", r->o.adopted, "age_ms", 1000, "busy", 0),
                  -1);
    free(address);
}

enum err __wrap_packet_await(int fd, uint64_t until_us, json_t **message, int *passed)
{
    struct agent_rig *r = greeting;

    greeting = NULL;
    if (r != NULL)
        greet(r);
    return __real_packet_await(fd, until_us, message, passed);
}

/* ---- calls ---- */

static void run_step(struct agent_rig *r, struct agent_rig_conn *c, const char *step)
{
    const char *end = scripted_run(&c->peer, step);

    c->tunnel |= slice_starts(slice_of(step), SLICE_LIT("HTTP/1.1 101"));
    if (strcmp(end, "$die") == 0)
        kill_process(r, c->process, "signal 11");
    else
        ASSERT(end[0] == '\0');
}

static void take_calls(struct agent_rig *r, unsigned connection)
{
    struct agent_rig_conn *c = r->conns[connection];
    size_t n;

    while (c->peer.fd != -1 && !c->tunnel && (n = scripted_message_length(&c->peer.in)) != 0) {
        struct slice bytes = {c->peer.in.p, n};
        bool probe = slice_starts(bytes, SLICE_LIT("GET /ready ")) && !r->o.probes;

        if (!probe) {
            ASSERT(r->ncalls < AGENT_RIG_CALLS_MAX);
            r->calls[r->ncalls] = (struct agent_rig_call){
                .process = c->process, .connection = connection, .at_ms = virtual_ms()};
            text_add(&r->calls[r->ncalls++].bytes, bytes);
        }
        memmove(c->peer.in.p, c->peer.in.p + n, c->peer.in.len - n);
        c->peer.in.len -= n;
        if (probe)
            run_step(r, c, RIG_OK "$close");
        else if (r->ncalls <= r->nsteps)
            run_step(r, c, r->steps[r->ncalls - 1]);
    }
}

static bool accept_connections(struct agent_rig *r)
{
    bool any = false;

    for (unsigned i = 0; i < r->nprocesses; ++i) {
        while (r->processes[i].listener != -1) {
            int fd = accept4(r->processes[i].listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

            if (fd == -1)
                break;
            struct agent_rig_conn *c = xcalloc(1, sizeof(*c));
            ASSERT(r->nconns < CONNS_MAX);
            r->conns[r->nconns++] = c;
            scripted_open(&c->peer, fd, NULL, true);
            c->process = i;
            any = true;
        }
    }
    return any;
}

static bool rig_step(void *context)
{
    struct agent_rig *r = context;
    bool any = step_supervisor(r);

    any |= accept_connections(r);
    for (unsigned i = 0; i < r->nconns; ++i) {
        any |= scripted_step(&r->conns[i]->peer);
        take_calls(r, i);
    }
    for (unsigned i = 0; i < r->nclients; ++i)
        any |= scripted_step(&r->clients[i]);
    return any;
}

void rig_add_plan(struct agent_rig *r, const char *const *steps)
{
    for (size_t i = 0; steps[i] != NULL; ++i) {
        ASSERT(r->nsteps < STEPS_MAX);
        r->steps[r->nsteps++] = xstrdup(steps[i]);
    }
}

static struct agent_rig_conn *conn_of(struct agent_rig *r, unsigned i)
{
    assert_true(i < r->ncalls);
    return r->conns[r->calls[i].connection];
}

struct scripted_peer *rig_call_peer(struct agent_rig *r, unsigned i)
{
    return &conn_of(r, i)->peer;
}

void rig_respond(struct agent_rig *r, unsigned i, const char *step)
{
    run_step(r, conn_of(r, i), step);
    rig_settle(r);
}

void rig_respond_bytes(struct agent_rig *r, unsigned i, struct slice bytes)
{
    scripted_send(rig_call_peer(r, i), bytes);
    rig_settle(r);
}

unsigned rig_calls(const struct agent_rig *r)
{
    return r->ncalls;
}

const struct agent_rig_call *rig_call(const struct agent_rig *r, unsigned i)
{
    assert_true(i < r->ncalls);
    return &r->calls[i];
}

void rig_refuse(struct agent_rig *r, unsigned p)
{
    remove_listener(&r->processes[p]);
}

void rig_spawned(struct agent_rig *r, unsigned p)
{
    assert_true(p < r->nprocesses);
    start_process(r, &r->processes[p]);
    rig_settle(r);
}

void rig_rejected(struct agent_rig *r, unsigned p, const char *why)
{
    assert_true(p < r->nprocesses);
    r->processes[p].dead = true;
    send_to_agent(
        r, json_pack("{s:s, s:s, s:s}", "op", "rejected", "id", r->processes[p].id, "why", why),
        -1);
    rig_settle(r);
}

void rig_die(struct agent_rig *r, unsigned p, const char *how)
{
    assert_true(p < r->nprocesses);
    kill_process(r, p, how);
    rig_settle(r);
}

void rig_output(struct agent_rig *r, unsigned p, const char *line)
{
    ssize_t n = write(r->processes[p].output, line, strlen(line));

    assert_int_equal(n, strlen(line));
    rig_settle(r);
}

unsigned rig_processes(const struct agent_rig *r)
{
    return r->nprocesses;
}

unsigned rig_open(const struct agent_rig *r)
{
    unsigned n = 0;

    for (unsigned i = 0; i < r->nconns; ++i)
        n += scripted_is_open(&r->conns[i]->peer);
    return n;
}

void rig_lose_supervisor(struct agent_rig *r)
{
    close(r->supervisor);
    r->supervisor = -1;
    rig_settle(r);
}

struct slot *rig_slot(struct agent_rig *r, unsigned n)
{
    struct slot *s;

    list_for_each_entry (s, &r->agent.pool.groups[0]->core.slots, core.node) {
        if (s->core.n == n)
            return s;
    }
    UNREACHABLE();
}

const char *rig_state(struct agent_rig *r, unsigned p)
{
    assert_true(p < r->nprocesses);
    const struct app_process *found =
        app_pool_process(&r->agent.pool, slice_of(r->processes[p].id));

    return found != NULL ? process_state_texts[found->state] : "ended";
}

/* ---- expectations ---- */

void rig_expect_call(struct agent_rig *r, unsigned i, const char *name, const char *bytes,
                     const char *file, int line)
{
    char process[16] = "no call";

    if (i < r->ncalls)
        snprintf(process, sizeof(process), "p%u", r->calls[i].process);
    scripted_expect_call(process, text_slice(&r->calls[i].bytes), name, bytes, file, line);
}

void rig_expect_orders(struct agent_rig *r, const char *lines, const char *file, int line)
{
    scripted_expect_all(&r->orders, "the messages to the supervisor", lines, file, line);
}

void rig_expect_bytes(struct agent_rig *r, const char *bytes, const char *file, int line)
{
    scripted_expect_bytes(rig_peer(r), bytes, file, line);
}

void rig_expect_status(struct agent_rig *r, int status, const char *const *fields, const char *file,
                       int line)
{
    scripted_expect_status(rig_peer(r), status, fields, file, line);
}

void rig_expect_closed(struct agent_rig *r, bool closed, const char *file, int line)
{
    scripted_expect_closed(rig_peer(r), closed, file, line);
}

/* ---- clients ---- */

unsigned rig_client(struct agent_rig *r, const char *name)
{
    char *path = xasprintf("%s/%s", r->directory, name);

    ASSERT(r->nclients < AGENT_RIG_CLIENTS_MAX);
    r->client = r->nclients;
    scripted_connect(&r->clients[r->nclients++], path, NULL);
    free(path);
    rig_settle(r);
    return r->client;
}

void rig_use(struct agent_rig *r, unsigned c)
{
    ASSERT(c < r->nclients);
    r->client = c;
}

struct scripted_peer *rig_peer(struct agent_rig *r)
{
    return &r->clients[r->client];
}

void rig_send_bytes(struct agent_rig *r, struct slice bytes)
{
    scripted_send(rig_peer(r), bytes);
    rig_settle(r);
}

void rig_send(struct agent_rig *r, const char *bytes)
{
    rig_send_bytes(r, slice_of(bytes));
}

void rig_get(struct agent_rig *r, const char *target)
{
    char *bytes = xasprintf("GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);

    rig_send(r, bytes);
    free(bytes);
}

void rig_post(struct agent_rig *r, const char *target, const char *body)
{
    char *bytes = xasprintf("POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n%s", target,
                            strlen(body), body);

    rig_send(r, bytes);
    free(bytes);
}

void rig_deaf(struct agent_rig *r, bool deaf)
{
    rig_peer(r)->deaf = deaf;
    rig_settle(r);
}

void rig_client_close(struct agent_rig *r)
{
    scripted_close(rig_peer(r));
    rig_settle(r);
}

/* ---- time, and figures ---- */

static void check_pool(const struct agent_rig *r)
{
    core_check(&r->agent.pool.core);
}

void rig_settle(struct agent_rig *r)
{
    virtual_settle(r->agent.loop, rig_step, r);
    check_pool(r);
}

bool rig_stopped(const struct agent_rig *r)
{
    return r->agent.phase == AGENT_CLOSING && !timer_running(&r->agent.tick);
}

/* A loop that has been stopped waits for nothing. */
static bool is_over(void *context)
{
    return rig_stopped(context);
}

void rig_pass(struct agent_rig *r, uint64_t ms)
{
    virtual_pass(r->agent.loop, virtual_ms() + ms, rig_step, is_over, r);
    check_pool(r);
}

int64_t rig_stat(const struct agent_rig *r, enum agent_stat stat)
{
    return stats_sum(r->agent.pool.groups[0]->stats, stat);
}

struct agent *rig_agent(struct agent_rig *r)
{
    return &r->agent;
}

/* ---- the agent ---- */

static void on_each_second(struct timer *t)
{
    struct agent *a = container_of(t, struct agent, each_second);

    conn_pool_recycle(a->pool.conn_pool, a->loop);
    timer_start(a->loop, t, RECYCLE_MS);
}

static void read_settings(struct agent_rig *r)
{
    const struct agent_rig_options *o = &r->o;
    const char *d = r->directory;
    struct text out = {0};
    struct diag diag = {0};
    char *path = xasprintf("%s/agent.yaml", d);

    text_addf(&out, "state_dir: %s\nspill_dir: %s\nusage_interval: 1h\n%s", d, d,
              o->program != NULL ? o->program : "");
    text_addf(&out,
              "applications:\n  a: {root: %s, command: [app], address: \"unix:%s/slot+\", "
              "listen: [\"unix:%s/own\"]%s%s%s}\n",
              d, d, d, o->unprobed ? "" : ", ready_probe: /ready", o->settings != NULL ? ", " : "",
              o->settings != NULL ? o->settings : "");
    enum err e = file_write(path, text_slice(&out), 0600);
    assert_int_equal(e, ERR_OK);
    r->agent.first = r->agent.config = agent_config_read(path, &diag);
    if (r->agent.config == NULL)
        fail_msg("%s", diag.text);
    diag_fini(&diag);
    text_fini(&out);
    free(path);
}

static void open_supervisor(struct agent_rig *r, struct adoptable_list *adopted)
{
    const struct supervisor_options o = {.state_dir = r->directory, .adopt_timeout_ms = 1000};
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    snprintf(at.sun_path, sizeof(at.sun_path), "%s/" SUPERVISOR_SOCKET_NAME, r->directory);
    r->supervisor_listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int failed = bind(r->supervisor_listener, (struct sockaddr *)&at, sizeof(at)) != 0 ||
                 listen(r->supervisor_listener, 1) != 0;
    assert_int_equal(failed, 0);
    greeting = r;
    r->agent.pool.supervisor = supervisor_link_open(&o, adopted);
    assert_non_null(r->agent.pool.supervisor);
}

static void start_agent(struct agent_rig *r)
{
    struct agent *a = &r->agent;
    struct app_pool *pool = &a->pool;
    struct adoptable_list adopted;

    a->lock_fd = -1;
    a->loop = pool->loop = loop_create(0);
    open_supervisor(r, &adopted);
    app_pool_init(pool);
    agent_stop_init(a);
    timer_init(&a->each_second, on_each_second);
    timer_start(a->loop, &a->each_second, RECYCLE_MS);
    pool->agent_name = xstrdup("h/1");
    pool->conn_pool = conn_pool_create(&http1_client_pool_ops, &a->loop, 1);
    a->front = pool->front = front_create(a->loop, a->config, NULL);
    pool->listen = front_listen;
    pool->supervisor_lost = agent_supervisor_lost;
    pool->context = a;
    bool started = app_pool_start(pool, a->config, &adopted);
    assert_true(started);
    free(adopted.items);
}

struct agent_rig *rig_create(const struct agent_rig_options *o)
{
    struct agent_rig *r = xcalloc(1, sizeof(*r));

    signal(SIGPIPE, SIG_IGN);
    log_set_level(getenv("RIG_LOG") != NULL ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR);
    virtual_start();
    r->o = *o;
    r->supervisor = -1;
    strcpy(r->directory, RLB_TEST_DIR "/rig-XXXXXX");
    assert_non_null(mkdtemp(r->directory));
    char *state = xasprintf("%s/a", r->directory);
    assert_int_equal(mkdir(state, 0700), 0);
    free(state);
    read_settings(r);
    start_agent(r);
    rig_settle(r);
    (void)rig_client(r, "slot0");
    return r;
}

/* ---- its end ---- */

static void check_leftovers(struct agent_rig *r, const char *file, int line)
{
    for (r->client = 0; r->client < r->nclients; ++r->client)
        rig_expect_bytes(r, "", file, line);
    r->client = 0;
    if (r->ncalls < r->nsteps)
        scripted_differ("a step of the plan was not reached", SLICE_NULL,
                        slice_of(r->steps[r->ncalls]), file, line);
    if (app_pool_requests(&r->agent.pool) != 0 || r->agent.front->buffered_bytes != 0 ||
        !list_empty(&r->agent.front->exchanges) || rig_stat(r, AGENT_STAT_requests_running) != 0 ||
        rig_stat(r, AGENT_STAT_requests_waiting) != 0) {
        print_error("a request is still in progress\n");
        _fail(file, line);
    }
}

/* As the end of the program does it. */
static void free_agent(struct agent *a)
{
    timer_stop(&a->each_second);
    upgrade_fini(&a->upgrade);
    front_destroy(a->front);
    app_pool_fini(&a->pool);
    conn_pool_close_loop(a->pool.conn_pool, a->loop);
    loop_settle(a->loop);
    conn_pool_destroy(a->pool.conn_pool);
    supervisor_link_destroy(a->pool.supervisor);
    loop_destroy(a->loop);
    agent_config_destroy(a->first);
}

void rig_finish(struct agent_rig *r, const char *file, int line)
{
    rig_settle(r);
    check_leftovers(r, file, line);
    for (unsigned i = 0; i < r->nclients; ++i)
        scripted_close(&r->clients[i]);
    agent_stop_at_once(&r->agent, EXIT_SUCCESS);
    rig_pass(r, STOP_MS);
    ASSERT(rig_stopped(r) && list_empty(&r->agent.pool.processes));
    free_agent(&r->agent);
    for (unsigned i = 0; i < r->nclients; ++i)
        scripted_fini(&r->clients[i]);
    for (unsigned i = 0; i < r->nconns; ++i) {
        scripted_fini(&r->conns[i]->peer);
        free(r->conns[i]);
    }
    for (unsigned i = 0; i < r->nprocesses; ++i)
        remove_listener(&r->processes[i]);
    for (unsigned i = 0; i < r->ncalls; ++i)
        text_fini(&r->calls[i].bytes);
    for (unsigned i = 0; i < r->nsteps; ++i)
        free(r->steps[i]);
    text_fini(&r->orders);
    close(r->supervisor_listener);
    if (r->supervisor != -1)
        close(r->supervisor);
    char *command = xasprintf("rm -rf %s", r->directory);
    assert_int_equal(system(command), 0);
    free(command);
    virtual_end();
    free(r);
}
