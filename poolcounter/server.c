/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's thread. A round:
 *
 *     epoll -> clients, listeners, an ask -> timers -> some of the woken -> the closed are freed
 *
 * It does not run on the loop that the other programs share: docs/decisions/05-limits.md.
 */
#include "poolcounter/server_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"

static const struct stat_row rows[] = {
#define STAT(...) STATS_ROW(__VA_ARGS__)
#include "poolcounter/stats.def"
};

const struct stats_table poolcounter_stats_table = {rows, ARRAY_LEN(rows)};

/* A call of server_call; the pipe has its address. */
struct server_task {
    void (*fn)(struct server *s, void *context);
    void *context;
    sem_t responded;
};

void server_timer_start(struct server *s, struct timer *t, uint64_t delay_ms)
{
    uint64_t now_ms = (s->now_us + 999) / 1000;

    list_remove(&t->node);
    t->due_ms = delay_ms < UINT64_MAX - now_ms ? now_ms + delay_ms : UINT64_MAX;
    timer_wheel_add(&s->wheel, t);
}

static int wait_ms(struct server *s)
{
    uint64_t next_ms = timer_wheel_next(&s->wheel, false);

    if (!list_empty(&s->woken))
        return 0;
    if (next_ms == UINT64_MAX)
        return -1;
    uint64_t now_us = clock_mono_us() - s->paused_us;
    if (next_ms <= now_us / 1000)
        return 0;
    uint64_t ms = next_ms - now_us / 1000;
    return ms < TIMER_WAIT_MAX_MS ? (int)ms : TIMER_WAIT_MAX_MS;
}

static void read_clock(struct server *s)
{
    uint64_t now_us = clock_mono_us() - s->paused_us;
    uint64_t paused_us = 0;

    /* Without timers it may have waited that long. */
    if (timer_wheel_bound(&s->wheel) != UINT64_MAX)
        paused_us = timer_pause_ms((now_us - s->now_us) / 1000) * 1000;
    s->paused_us += paused_us;
    s->now_us = now_us - paused_us;
}

/* ---- listeners ---- */

/*
 * Accepts connections. The number per listener and turn is limited, so that existing clients are
 * served in between. Connections above max_connections, or without a free file descriptor, wait in
 * the socket's queue.
 */

enum {
    /* TCP keep-alive: after the first probe. */
    PROBE_INTERVAL_S = 10,
    PROBES = 3,
};

/*
 * Sets the options of FD, a listening socket (later connections inherit them, without a system call
 * each) or a client's. No delay: otherwise the second of two consecutive responses could wait for
 * the client's delayed acknowledgment. No pacing, which the machine's congestion control may imply
 * (bbr does): responses have a few bytes and cannot cause congestion, and pacing runs a kernel
 * timer for each send. Every kernel has reno; a failure to select it has no further consequences.
 */
static void set_options(const struct server *s, int fd)
{
    uint64_t idle_ms = s->config->s.keep_alive_ms;
    struct addr a;

    if (addr_of_socket(fd, &a) != ERR_OK || a.sa.sa_family == AF_UNIX)
        return;
    if (!addr_tune_socket(fd, (int)(idle_ms / 1000), PROBE_INTERVAL_S, PROBES))
        log_warn(NULL, "socket-option-failed", "reason=\"%s\"", strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

/* Registers the listeners with epoll, or removes them. False: not all could be registered. */
static bool watch_listeners(struct server *s, bool accepting)
{
    bool done = true;

    s->accepting = accepting;
    for (size_t i = 0; i < s->nlisteners; ++i) {
        struct server_listener *l = &s->listeners[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = l};

        done &= epoll_ctl(s->epoll, accepting ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, l->fd, &event) == 0;
    }
    return done;
}

static void listeners_pause(struct server *s)
{
    (void)watch_listeners(s, false);
    server_timer_start(s, &s->accept_again, ACCEPT_PAUSE_MS);
}

void listeners_resume(struct server *s)
{
    if (s->accepting || s->handed_over)
        return;
    timer_stop(&s->accept_again);
    /* The kernel is out of memory: retried after a pause. */
    if (!watch_listeners(s, true))
        listeners_pause(s);
}

static void pause_over(struct timer *t)
{
    listeners_resume(container_of(t, struct server, accept_again));
}

static void listeners_close(struct server *s)
{
    (void)watch_listeners(s, false);
    for (size_t i = 0; i < s->nlisteners; ++i)
        close(s->listeners[i].fd);
    s->nlisteners = 0;
    timer_stop(&s->accept_again);
}

/* Returns false if there are no more connections to accept, or none can be accepted now. */
static bool accept_one(struct server *s, struct server_listener *l)
{
    struct addr peer = {.len = sizeof(peer.un)};
    size_t max = (size_t)s->config->s.max_connections;
    int64_t max_of_one = s->config->s.max_connections_per_address;
    size_t of_one = max_of_one != 0 ? (size_t)max_of_one : SIZE_MAX;
    struct address_count *source;

    if (max != 0 && s->nclients >= max) {
        stat_add(s->cell, STAT_accept_pauses, 1);
        listeners_pause(s);
        return false;
    }
    int fd = accept4(l->fd, &peer.sa, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        if (!l->has_options)
            set_options(s, fd);
        stat_add(s->cell, STAT_connections_accepted, 1);
        if (!address_counts_add(s->sources, &peer, of_one, &source)) {
            log_warn(NULL, "client-rejected", "reason=\"max_connections_per_address\"");
            close(fd);
        } else if (client_create(s, fd, source) != NULL) {
            return true;
        }
        stat_add(s->cell, STAT_connections_rejected, 1);
        address_counts_remove(s->sources, &source);
        return true;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
        l->has_options = true;
        return false;
    }
    int error = errno;
    if (error == EINTR)
        return true;
    stat_add(s->cell, STAT_connect_errors, 1);
    if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM)
        return error == ECONNABORTED; /* other network errors: retried in the next turn */
    log_warn(NULL, "accepting-paused", "clients=%zu reason=\"%s\" hint=\"raise LimitNOFILE\"",
             s->nclients, strerror(error));
    stat_add(s->cell, STAT_accept_pauses, 1);
    listeners_pause(s);
    return false;
}

/* ---- rounds ---- */

void server_deliver(struct server *s)
{
    for (unsigned i = 0; i < WAKES_MAX && !list_empty(&s->woken); ++i) {
        struct counter_lease *lock = list_first(&s->woken, struct counter_lease, in_key);

        client_wake(container_of(lock, struct client_lock, lock));
    }
}

static void free_closed(struct server *s)
{
    struct server_client *c;

    while ((c = list_pop_entry(&s->closed, struct server_client, node)) != NULL)
        free(c);
}

/* Events of a client may be stale, but a closed client is not freed before the end of the round. */
static void handle_event(struct server *s, const struct epoll_event *event)
{
    struct server_watch *w = event->data.ptr;
    unsigned accepts = ACCEPTS_MAX;
    struct server_task *ask;

    switch ((enum watched_kind)w->kind) {
    case WATCHED_CLIENT:
        client_ready(container_of(w, struct server_client, watched), event->events);
        break;
    case WATCHED_LISTENER:
        while (accepts-- != 0 && s->accepting &&
               accept_one(s, container_of(w, struct server_listener, watched)))
            continue;
        break;
    case WATCHED_ASK:
        if (read(s->ask_fds[0], &ask, sizeof(ask)) != (ssize_t)sizeof(ask))
            break;
        ask->fn(s, ask->context);
        sem_post(&ask->responded);
        break;
    }
}

static void *server_run(void *context)
{
    struct server *s = context;
    struct epoll_event events[EVENTS_MAX];
    struct timer *t;

    s->now_us = clock_mono_us();
    listeners_resume(s);
    while (!s->stop) {
        int n = epoll_wait(s->epoll, events, EVENTS_MAX, wait_ms(s));

        read_clock(s);
        for (int i = 0; i < n; ++i)
            handle_event(s, &events[i]);
        timer_wheel_advance(&s->wheel, server_now_ms(s));
        while ((t = list_pop_entry(&s->wheel.due, struct timer, node)) != NULL)
            t->expired(t);
        server_deliver(s);
        free_closed(s);
        if (s->handed_over && s->drained != NULL && s->nclients == 0) {
            loop_post(s->loop, s->drained);
            s->drained = NULL;
        }
    }
    return NULL;
}

/* ---- asking ---- */

void server_call(struct server *s, void (*fn)(struct server *s, void *context), void *context)
{
    struct server_task ask = {.fn = fn, .context = context};
    const struct server_task *p = &ask;

    if (!s->running) {
        fn(s, context);
        return;
    }
    sem_init(&ask.responded, 0, 0);
    while (write(s->ask_fds[1], &p, sizeof(p)) < 0)
        ASSERT(errno == EINTR);
    while (sem_wait(&ask.responded) != 0)
        ASSERT(errno == EINTR);
    sem_destroy(&ask.responded);
}

static void apply_limits(struct server *s)
{
    for (size_t i = 0; i < s->config->ntypes; ++i) {
        const struct type_limit *l = &s->config->types[i];
        enum err e =
            counter_set_limits(s->table, slice_of(l->name), l->limits, s->now_us, &s->woken);

        if (e != ERR_OK)
            log_error(NULL, "limit-set-failed", "reason=\"%s\"", err_text(e));
    }
}

void server_configure(struct server *s, void *config)
{
    const struct poolcounter_config *old = s->config;
    const struct poolcounter_config *new = config;
    const struct counter_limits none = {0};
    struct server_client *c;

    /* Removes the limits only of types that have none in NEW: the others must not be unlimited even
     * for a moment. */
    for (size_t i = 0; i < old->ntypes; ++i) {
        const char *name = old->types[i].name;
        size_t k = 0;

        while (k < new->ntypes && strcmp(new->types[k].name, name) != 0)
            ++k;
        if (k == new->ntypes &&
            counter_set_limits(s->table, slice_of(name), none, s->now_us, &s->woken) != ERR_OK)
            log_error(NULL, "limit-remove-failed", "type=%s", name);
    }
    s->config = new;
    apply_limits(s);
    list_for_each_entry (c, &s->clients, node)
        client_watch_idling(c);
    listeners_resume(s);
}

void server_hand_over(struct server *s, unused_ void *context)
{
    s->handed_over = true;
    listeners_close(s);
}

void server_sockets(struct server *s, void *out)
{
    struct sockets *sockets = out;

    for (sockets->n = 0; sockets->n < s->nlisteners; ++sockets->n)
        sockets->fds[sockets->n] = s->listeners[sockets->n].fd;
}

/* ---- life ---- */

struct server *server_create(const struct poolcounter_config *config, struct stats *stats,
                             const struct sockets *sockets, struct loop *loop,
                             struct loop_message *drained)
{
    struct server *s = xcalloc(1, sizeof(*s));
    struct epoll_event ask = {.events = EPOLLIN, .data.ptr = &s->ask_watched};

    s->config = config;
    s->stats = stats;
    s->cell = stats_cell(stats, 0);
    s->loop = loop;
    s->drained = drained;
    s->now_us = s->started_us = clock_mono_us();
    list_init(&s->clients);
    list_init(&s->closed);
    list_init(&s->woken);
    s->sources = address_counts_create(ADDRESS_COUNTS_OF_HOSTS);
    timer_wheel_init(&s->wheel, server_now_ms(s));
    timer_init(&s->accept_again, pause_over);
    s->top = topk_create(TOPK_ENTRIES, COUNTER_NAME_MAX);
    s->types.max = (size_t)config->s.max_types;
    s->input = xmalloc(REST_BYTES_MAX + READ_BYTES);
    (void)text_reserve(&s->responses, RESPONSES_BYTES_MAX);
    s->table = counter_table_create((size_t)config->s.max_keys, (size_t)config->s.max_waiters);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->ask_watched.kind = WATCHED_ASK;
    if (pipe2(s->ask_fds, O_CLOEXEC) != 0)
        s->ask_fds[0] = s->ask_fds[1] = -1;
    if (s->epoll < 0 || s->table == NULL ||
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->ask_fds[0], &ask) != 0) {
        server_destroy(s);
        return NULL;
    }
    apply_limits(s);
    for (; s->nlisteners < sockets->n; ++s->nlisteners) {
        int fd = sockets->fds[s->nlisteners];

        s->listeners[s->nlisteners] =
            (struct server_listener){.watched.kind = WATCHED_LISTENER, .fd = fd};
        set_options(s, fd);
    }
    return s;
}

bool server_start(struct server *s)
{
    int failed = pthread_create(&s->thread, NULL, server_run, s);

    errno = failed;
    s->running = failed == 0;
    return s->running;
}

static void server_set_stop(struct server *s, unused_ void *context)
{
    s->stop = true;
}

void server_stop(struct server *s)
{
    if (!s->running)
        return;
    server_call(s, server_set_stop, NULL);
    pthread_join(s->thread, NULL);
    s->running = false;
}

void server_destroy(struct server *s)
{
    struct server_client *c;

    if (s == NULL)
        return;
    ASSERT(!s->running);
    s->handed_over = true; /* do not accept replacements for disconnected clients */
    list_for_each_entry_safe (c, &s->clients, node)
        client_close(c);
    /* Clients are not notified any more. */
    while (list_pop_front(&s->woken) != NULL)
        continue;
    free_closed(s);
    listeners_close(s);
    address_counts_destroy(s->sources);
    counter_table_destroy(s->table);
    types_fini(&s->types);
    topk_destroy(s->top);
    text_fini(&s->responses);
    free(s->input);
    if (s->epoll >= 0)
        close(s->epoll);
    for (size_t i = 0; i < ARRAY_LEN(s->ask_fds) && s->ask_fds[i] >= 0; ++i)
        close(s->ask_fds[i]);
    free(s);
}
