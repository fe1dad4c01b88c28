/* SPDX-License-Identifier: Apache-2.0
 *
 *   SIGUSR2          good              prepared               ready
 *   -------> TESTING ----> STARTING --------------> HANDING ---------> HANDED --- idle ---> exit
 *               |             |                        |                  |
 *               +-------------+---- fails, or late ----+---> as before <--+--- it dies
 *
 * HANDING: nobody accepts; who connects waits in the queues of the sockets, which are the same in
 * both programs. It lasts as long as the new one takes to get the processes from the keeper.
 * HANDED: the new one accepts. What we have is finished, on connections that each get one more
 * answer.
 */
#include "worker-agent/upgrade.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/net/packet_queue.h"
#include "common/program/program.h"
#include "worker-agent/agent_internal.h"
#include "worker-agent/heir.h"
#include "worker-agent/slot.h"

enum {
    /* How long nobody may accept. */
    HANDING_MS = 5000,
    /* How often it is looked whether requests have ended, and what was to be sent is sent. */
    TICK_MS = 10,
    /* After requests were cut: for clients to see it. */
    CUT_MS = 1000,
};

enum upgrade_stage { TESTING, STARTING, HANDING, HANDED };

struct upgrade {
    struct agent *agent;
    enum upgrade_stage stage;
    struct program program;
    struct watch *ended; /* of the program */
    struct packet_queue out;
    struct watch *channel; /* out.fd is -1: none yet */
    struct timer tick;
    uint64_t until_ms; /* of the stage */
    bool cut;
    bool over; /* freed at the end of the turn */
    struct loop_deferred freeing;
};

static const char *const stage_texts[] = {"testing", "starting", "handing over", "handed over"};

bool upgrade_handed_over(const struct agent *a)
{
    return a->upgrade != NULL && a->upgrade->stage == HANDED;
}

/* ---- the ends ---- */

static void free_now(struct loop_deferred *d)
{
    free(container_of(d, struct upgrade, freeing));
}

static void close_channel(struct upgrade *u)
{
    watch_stop(u->channel);
    u->channel = NULL;
    packet_queue_close(&u->out);
}

/* Wait for the program, which has ended or is killed now. HOW it ended. */
static void end_program(struct upgrade *u, char how[40])
{
    watch_stop(u->ended);
    u->ended = NULL;
    how[0] = '\0';
    if (u->program.pid > 0)
        (void)program_end(&u->program, true, how);
}

static void forget(struct upgrade *u)
{
    struct agent *a = u->agent;

    timer_stop(&u->tick);
    close_channel(u);
    a->upgrade = NULL;
    u->over = true;
    u->freeing.run = free_now;
    loop_defer(a->loop, &u->freeing);
}

static void hold(struct agent *a, bool on)
{
    front_hold(a->front, on);
    if (a->admin != NULL)
        http_server_hold(admin_server(a->admin), on);
}

static void take_back(struct upgrade *u)
{
    struct agent *a = u->agent;

    if (u->stage >= HANDED)
        front_turn_away(a->front, false, a->config);
    if (u->stage >= HANDING) {
        hold(a, false);
        app_pool_take_back(&a->pool);
    }
    if (u->stage >= HANDED)
        daemon_notify("READY=1");
}

static void fail(struct upgrade *u, const char *why)
{
    char how[40];

    end_program(u, how);
    log_error(NULL, "upgrade-failed", "stage=\"%s\" reason=\"%s\" program=\"%s\" action=\"go on\"",
              stage_texts[u->stage], why, how);
    take_back(u);
    forget(u);
}

void upgrade_abandon(struct agent *a)
{
    struct upgrade *u = a->upgrade;

    if (u != NULL && u->stage != HANDED)
        fail(u, "the agent is told to end");
}

void upgrade_destroy(struct upgrade *u)
{
    if (u == NULL)
        return;
    timer_stop(&u->tick);
    watch_stop(u->ended);
    if (u->program.pidfd >= 0)
        close(u->program.pidfd);
    close_channel(u);
    free(u);
}

/* ---- what goes to the new one ---- */

static void each_slot(struct agent *a, void (*each)(void *context, struct slot *s), void *context)
{
    for (size_t i = 0; i < a->pool.ngroups; ++i) {
        for (unsigned n = 0; n < a->pool.groups[i]->nslots; ++n)
            each(context, a->pool.groups[i]->slots[n]);
    }
}

static json_t *item(const char *op, const struct app_group *g, const struct slot *s)
{
    if (g == NULL)
        return json_pack("{s:s}", "op", op);
    return json_pack("{s:s, s:s, s:i}", "op", op, "application", g->name, "slot",
                     s != NULL ? (int)s->n : HEIR_NO_SLOT);
}

static void pass_slot_socket(void *context, int fd, void *tag)
{
    struct upgrade *u = context;
    const struct front_door *door = tag;

    packet_queue_add(&u->out, item("socket", door->group, door->slot), fd);
}

static void pass_admin_socket(void *context, int fd, void *tag)
{
    struct upgrade *u = context;

    (void)tag;
    packet_queue_add(&u->out, item("socket", NULL, NULL), fd);
}

static void pass_resume(void *context, struct slot *s)
{
    struct upgrade *u = context;
    struct text text = {0};
    int fd = -1;

    slot_print_resume(s, &text);
    if (text.len > 0)
        fd = memfd_create("resume", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, text.p, text.len) == (ssize_t)text.len)
        packet_queue_add(&u->out, item("resume", s->group, s), fd);
    else if (text.len > 0)
        log_warn(s, "resume-not-passed", "error=\"%s\"", strerror(errno));
    if (fd >= 0)
        close(fd);
    text_fini(&text);
}

static void say(struct upgrade *u)
{
    /* What does not go now goes at the next tick; that it has died is found out about by reading.
     */
    (void)!packet_queue_flush(&u->out);
}

/* ---- the stages ---- */

static void enter(struct upgrade *u, enum upgrade_stage stage, uint64_t limit_ms)
{
    u->stage = stage;
    u->until_ms = loop_now_ms(u->agent->loop) + limit_ms;
    log_info(NULL, "upgrade-stage", "stage=\"%s\" pid=%ld requests=%zu", stage_texts[stage],
             (long)u->program.pid, app_pool_requests(&u->agent->pool));
}

static void on_prepared(struct upgrade *u)
{
    struct agent *a = u->agent;

    enter(u, HANDING, HANDING_MS);
    hold(a, true);
    app_pool_hand_over(&a->pool);
    app_pool_tell_busy(&a->pool);
    each_slot(a, pass_resume, u);
    packet_queue_add(&u->out, json_pack("{s:s}", "op", "go"), -1);
    say(u);
}

static void on_ready(struct upgrade *u)
{
    struct agent *a = u->agent;
    char *main_pid = xasprintf("MAINPID=%ld\nREADY=1", (long)u->program.pid);

    enter(u, HANDED, a->config->s.drain_timeout_ms);
    daemon_notify(main_pid);
    free(main_pid);
    app_pool_hand_over_names(&a->pool);
    front_turn_away(a->front, true, a->config);
}

static void on_message(struct upgrade *u, const json_t *m)
{
    const char *op = json_string_value(json_object_get(m, "op"));

    if (op != NULL && strcmp(op, "prepared") == 0 && u->stage == STARTING)
        on_prepared(u);
    else if (op != NULL && strcmp(op, "ready") == 0 && u->stage == HANDING)
        on_ready(u);
    else
        fail(u, "it says what it should not");
}

static void on_readable(void *context)
{
    struct upgrade *u = context;

    while (!u->over && u->out.fd >= 0) {
        json_t *m;
        int passed;
        enum err e = packet_receive(u->out.fd, &m, &passed);

        if (e == ERR_BUSY)
            return;
        if (e != ERR_OK && u->stage == HANDED) {
            /* How it has ended decides (on_program_ended). */
            close_channel(u);
            return;
        }
        if (e != ERR_OK) {
            fail(u, "it has ended, see what it logged");
            return;
        }
        if (passed >= 0)
            close(passed);
        on_message(u, m);
        json_decref(m);
    }
}

static bool start_program(struct upgrade *u, const char *const *args, int pass);

static void start_new(struct upgrade *u)
{
    struct agent *a = u->agent;
    const char *const args[] = {"-c", a->file, NULL};
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        fail(u, strerror(errno));
        return;
    }
    packet_queue_init(&u->out, pair[0]);
    bool started = start_program(u, args, pair[1]);
    close(pair[1]);
    if (!started)
        return;
    enter(u, STARTING, a->config->s.upgrade_timeout_ms);
    u->channel = watch_start(a->loop, pair[0], on_readable, u);
    packet_queue_add(&u->out, item("lock", NULL, NULL), a->lock_fd);
    front_each_socket(a->front, pass_slot_socket, u);
    if (a->admin != NULL)
        http_server_each_socket(admin_server(a->admin), pass_admin_socket, u);
    packet_queue_add(&u->out, json_pack("{s:s, s:i}", "op", "begin", "v", HEIR_VERSION), -1);
    say(u);
}

/* While we still finish. GOOD: it was told to, and has ended the processes, and the keeper. */
static void ended_after_us(struct upgrade *u, bool good, const char *how)
{
    if (good)
        log_info(NULL, "upgraded-has-ended", "requests=%zu", app_pool_requests(&u->agent->pool));
    else
        fail(u, how);
}

static void on_program_ended(void *context)
{
    struct upgrade *u = context;
    char how[40];

    watch_stop(u->ended);
    u->ended = NULL;
    if (u->stage == STARTING || u->stage == HANDING) {
        fail(u, "it has ended, see what it logged");
        return;
    }
    bool good = program_end(&u->program, false, how) == 0;
    if (u->stage == HANDED) {
        ended_after_us(u, good, how);
        return;
    }
    if (good) {
        start_new(u);
        return;
    }
    log_error(
        NULL, "upgrade-refused",
        "file=%s program=\"%s\" reason=\"the new program does not take the configuration, see "
        "what it wrote\" action=\"go on\"",
        u->agent->file, how);
    forget(u);
}

static bool start_program(struct upgrade *u, const char *const *args, int pass)
{
    const struct program_options o = {
        .args = args, .nofile = u->agent->nofile, .pass = pass, .variable = HEIR_VARIABLE};
    enum err e = program_start(&o, &u->program);

    if (e != ERR_OK) {
        u->program = (struct program){.pid = 0, .pidfd = -1};
        fail(u, e == ERR_SYSTEM ? strerror(errno) : "the program is not where it was");
        return false;
    }
    u->ended = watch_start(u->agent->loop, u->program.pidfd, on_program_ended, u);
    return true;
}

/* ---- the end of what we have ---- */

static bool is_idle(const struct agent *a)
{
    return app_pool_requests(&a->pool) == 0 && front_connections(a->front) == 0;
}

static void finish(struct upgrade *u)
{
    struct agent *a = u->agent;

    log_info(NULL, "upgrade-done", "pid=%ld requests_cut=%zu", (long)u->program.pid,
             app_pool_requests(&a->pool));
    timer_stop(&u->tick);
    agent_close(a);
}

/* Clients may still be there, with requests that the other has of us and that may wait for it to
 * end a process. */
static void seal_if_done(struct upgrade *u)
{
    struct app_pool *pool = &u->agent->pool;

    if (pool->sealed || app_pool_requests(pool) > 0)
        return;
    app_pool_seal(pool);
    if (u->out.fd < 0)
        return;
    packet_queue_add(&u->out, item("sealed", NULL, NULL), -1);
    say(u);
}

static void step_handed(struct upgrade *u, bool late)
{
    struct agent *a = u->agent;

    app_pool_tell_busy(&a->pool);
    seal_if_done(u);
    if (is_idle(a) || (late && u->cut)) {
        finish(u);
        return;
    }
    if (!late)
        return;
    log_warn(NULL, "drain-timeout", "requests_cut=%zu", app_pool_requests(&a->pool));
    u->cut = true;
    u->until_ms = loop_now_ms(a->loop) + CUT_MS;
    front_cut(a->front);
}

static void on_tick(struct timer *t)
{
    struct upgrade *u = container_of(t, struct upgrade, tick);
    bool late = loop_now_ms(u->agent->loop) >= u->until_ms;

    timer_start(u->agent->loop, t, TICK_MS);
    if (u->out.fd >= 0)
        say(u);
    if (u->stage == HANDED)
        step_handed(u, late);
    else if (late)
        fail(u, "it takes too long");
    else if (u->stage == HANDING)
        app_pool_tell_busy(&u->agent->pool);
}

/* ---- the beginning ---- */

static const char *why_not(const struct agent *a)
{
    if (a->phase != AGENT_RUNNING)
        return "the agent is ending";
    if (a->upgrade != NULL)
        return "there is one under way";
    if (a->pool.heir != NULL)
        return "the agent before has not finished";
    return NULL;
}

void upgrade_begin(struct agent *a)
{
    const char *const args[] = {"-c", a->file, "-t", NULL};
    const char *why = why_not(a);

    if (why != NULL) {
        log_warn(NULL, "upgrade-ignored", "reason=\"%s\"", why);
        return;
    }
    struct upgrade *u = xcalloc(1, sizeof(*u));
    u->agent = a;
    u->program.pidfd = -1;
    packet_queue_init(&u->out, -1);
    timer_init(&u->tick, on_tick);
    a->upgrade = u;
    enter(u, TESTING, a->config->s.upgrade_timeout_ms);
    timer_start(a->loop, &u->tick, TICK_MS);
    (void)start_program(u, args, -1);
}
