/* SPDX-License-Identifier: Apache-2.0
 *
 *   SIGUSR2             prepared            ready
 *   -------> STARTING ------------> GOING ---------> SERVING --- we have drained ---> exit
 *               |                     |
 *               +-- fails, or late ---+---> as before
 *
 * GOING: it accepts, and so do we, from the same sockets: nobody waits for either.
 */
#include "lb/upgrade.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/net/packet_queue.h"
#include "common/program/program.h"
#include "lb/lb_parts.h"
#include "lb/predecessor.h"
#include "lb/self_measure.h"

enum {
    /* How often it is looked whether resumes are written, and what was to be sent is sent. */
    TICK_MS = 10,
};

enum upgrade_stage { STARTING, GOING, SERVING };

struct upgrade {
    struct lb *lb;
    enum upgrade_stage stage;
    struct program program;
    struct watch *ended; /* of the program */
    struct packet_queue out;
    struct watch *channel; /* out.fd is -1: none */
    struct timer tick;
    uint64_t until_ms; /* it is late */
    bool begun;        /* "begin" is said */
    struct loop_deferred freeing;
};

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

/* Before its descriptor is closed. */
static void stop_watching(struct upgrade *u)
{
    watch_stop(u->ended);
    u->ended = NULL;
}

static void forget(struct upgrade *u)
{
    struct lb *lb = u->lb;

    timer_stop(&u->tick);
    close_channel(u);
    lb->parts->upgrade = NULL;
    u->freeing.run = free_now;
    loop_defer(lb->control, &u->freeing);
}

static void fail(struct upgrade *u, const char *why)
{
    char how[40] = "";

    stop_watching(u);
    if (u->program.pid > 0)
        (void)program_end(&u->program, true, how);
    log_error(NULL, "upgrade-failed", "reason=\"%s\" program=\"%s\" action=\"go on\"", why, how);
    forget(u);
}

void upgrade_abandon(struct lb *lb)
{
    struct upgrade *u = lb->parts->upgrade;

    if (u == NULL)
        return;
    if (u->stage == STARTING) {
        fail(u, "we are told to end");
        return;
    }
    /* It may have accepted somebody. */
    kill(u->program.pid, SIGTERM);
    stop_watching(u);
    close(u->program.pidfd);
    forget(u);
}

void upgrade_destroy(struct upgrade *u)
{
    if (u == NULL)
        return;
    timer_stop(&u->tick);
    stop_watching(u);
    if (u->program.pidfd >= 0)
        close(u->program.pidfd);
    close_channel(u);
    free(u);
}

/* ---- what goes to the new one ---- */

static void say(struct upgrade *u)
{
    /* What does not go now goes at the next tick; that it has ended is found out by reading. */
    (void)!packet_queue_flush(&u->out);
}

static void pass_listener(void *context, size_t listener, const struct addr *configured, int fd)
{
    struct upgrade *u = context;
    char address[ADDR_TEXT_MAX];

    packet_queue_add(&u->out,
                     json_pack("{s:s, s:I, s:s}", "op", "listener", "n", (json_int_t)listener,
                               "address", addr_format(configured, address)),
                     fd);
}

static void pass_admin(void *context, int fd, void *tag)
{
    struct upgrade *u = context;

    (void)tag;
    packet_queue_add(&u->out, json_pack("{s:s}", "op", "admin"), fd);
}

static void pass_all(struct upgrade *u)
{
    const struct lb_parts *p = u->lb->parts;
    int lock_fd = self_measure_lock(u->lb->self_measure);

    if (lock_fd >= 0)
        packet_queue_add(&u->out, json_pack("{s:s}", "op", "lock"), lock_fd);
    listeners_each_socket(p->listeners, pass_listener, u);
    if (p->admin != NULL)
        http_server_each_socket(admin_server(p->admin), pass_admin, u);
    self_measure_flush(u->lb->self_measure);
    say(u);
}

/* ---- the stages ---- */

static void on_prepared(struct upgrade *u)
{
    u->stage = GOING;
    packet_queue_add(&u->out, json_pack("{s:s}", "op", "go"), -1);
    say(u);
}

static void on_ready(struct upgrade *u)
{
    char *main_pid = xasprintf("MAINPID=%ld\nREADY=1", (long)u->program.pid);

    u->stage = SERVING;
    timer_stop(&u->tick);
    log_info(NULL, "upgraded", "pid=%ld action=\"drain\"", (long)u->program.pid);
    daemon_notify(main_pid);
    free(main_pid);
    close_channel(u);
    lb_hand_over(u->lb);
}

static void on_message(struct upgrade *u, const char *op)
{
    if (op != NULL && strcmp(op, "prepared") == 0 && u->stage == STARTING)
        on_prepared(u);
    else if (op != NULL && strcmp(op, "ready") == 0 && u->stage == GOING)
        on_ready(u);
    else
        fail(u, "it says what it should not");
}

static void on_readable(void *context)
{
    struct upgrade *u = context;
    json_t *m;
    int passed;
    enum err e = packet_receive(u->out.fd, &m, &passed);

    if (e == ERR_BUSY)
        return;
    if (e == ERR_PEER_CLOSED) {
        /* That it has ended says more. */
        close_channel(u);
        return;
    }
    if (passed >= 0)
        close(passed);
    const char *op = e == ERR_OK ? json_string_value(json_object_get(m, "op")) : NULL;
    on_message(u, op);
    if (e == ERR_OK)
        json_decref(m);
}

static void on_program_ended(void *context)
{
    struct upgrade *u = context;
    char how[40];

    if (u->stage != SERVING) {
        fail(u, "it has ended, see what it logged");
        return;
    }
    stop_watching(u);
    (void)program_end(&u->program, false, how);
    log_error(NULL, "upgraded-has-ended", "program=\"%s\" action=\"drain\"", how);
    forget(u);
}

static void on_tick(struct timer *t)
{
    struct upgrade *u = container_of(t, struct upgrade, tick);
    struct lb *lb = u->lb;

    if (loop_now_ms(lb->control) >= u->until_ms) {
        fail(u, "it takes longer than upgrade_timeout");
        return;
    }
    timer_start(lb->control, t, TICK_MS);
    if (!u->begun && self_measure_flushed(lb->self_measure)) {
        u->begun = true;
        packet_queue_add(&u->out, json_pack("{s:s, s:i}", "op", "begin", "v", PREDECESSOR_VERSION),
                         -1);
    }
    if (u->out.fd >= 0)
        say(u);
}

/* ---- the beginning ---- */

static enum err start_program(struct upgrade *u, int pass)
{
    const char *const args[] = {"-c", u->lb->parts->file, NULL};
    struct program_options o = {.args = args, .pass = pass, .variable = PREDECESSOR_VARIABLE};

    if (getrlimit(RLIMIT_NOFILE, &o.nofile) != 0)
        return ERR_SYSTEM;
    return program_start(&o, &u->program);
}

static const char *why_not(const struct lb *lb)
{
    if (lb->parts->phase < LB_SERVING)
        return "we are starting";
    if (lb->parts->phase > LB_SERVING)
        return "we are ending";
    return lb->parts->upgrade != NULL ? "there is one under way" : NULL;
}

void upgrade_begin(struct lb *lb)
{
    const char *why = why_not(lb);
    int pair[2];

    if (why == NULL && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        why = strerror(errno);
    if (why != NULL) {
        log_warn(NULL, "upgrade-ignored", "reason=\"%s\"", why);
        return;
    }
    struct upgrade *u = xcalloc(1, sizeof(*u));
    u->lb = lb;
    u->program = (struct program){.pid = 0, .pidfd = -1};
    packet_queue_init(&u->out, pair[0]);
    timer_init(&u->tick, on_tick);
    lb->parts->upgrade = u;
    enum err e = start_program(u, pair[1]);
    close(pair[1]);
    if (e != ERR_OK) {
        u->program = (struct program){.pid = 0, .pidfd = -1};
        fail(u, e == ERR_SYSTEM ? strerror(errno) : "the program is not where it was");
        return;
    }
    log_info(NULL, "upgrade-started", "pid=%ld", (long)u->program.pid);
    u->until_ms = loop_now_ms(lb->control) + lb->settings.upgrade_timeout_ms;
    u->ended = watch_start(lb->control, u->program.pidfd, on_program_ended, u);
    u->channel = watch_start(lb->control, pair[0], on_readable, u);
    pass_all(u);
    timer_start(lb->control, &u->tick, TICK_MS);
}
