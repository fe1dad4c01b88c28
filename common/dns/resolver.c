/* SPDX-License-Identifier: Apache-2.0
 *
 *   request -- waiting, then --> look-up: of a service first, which has targets --> of each target
 *   its addresses of one family, then perhaps of the other --> all are there: done
 *
 * A look-up fails as a whole: an answer that lacks a part is none. A query without a response
 * by UDP is repeated by TCP. c-ares cannot cancel one query: the look-up then stays until its
 * queries have ended, without its request.
 */
#define CARES_NO_DEPRECATED /* ares_search: its successor is newer than Debian 12 */
#include "common/dns/resolver.h"

#include <ares.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/wire/dns_srv.h"

static const char conf_file[] = "/etc/resolv.conf";

enum {
    CHANNEL_UDP,
    CHANNEL_TCP,
    CHANNELS,
    CONF_CHECK_MS = 1000,
    CLASS_IN = 1,
    TYPE_SRV = 33,
};

/* One name of which the addresses are needed, or the service itself. */
struct query {
    struct list waiting;
    struct lookup *lookup;
    char *name;
    unsigned port, priority, weight;
    bool service;
    int family; /* that is looked up now */
    int channel;
};

struct lookup {
    struct resolver *resolver;
    struct resolve_request *request; /* NULL: cancelled */
    struct query first;
    struct query *targets; /* of a service */
    size_t pending;        /* queries that have not ended */
    struct resolved *items;
    size_t n, room;
    uint32_t ttl_s;
    bool truncated;
    bool again;     /* the channel was closed under it */
    int failed, no; /* statuses of c-ares: of the failure; of the last empty answer */
};

struct dns_socket {
    struct list node;
    struct resolver *resolver;
    ares_channel channel;
    ares_socket_t fd;
    struct watch *watch;
};

struct resolver {
    struct loop *loop;
    char *servers;
    ares_channel channels[CHANNELS]; /* NULL: not open */
    int open_failed;                 /* why: a status of c-ares */
    struct list sockets;
    struct list requests; /* not started */
    struct list queries;  /* waiting */
    size_t in_flight;
    struct loop_deferred step;
    struct timer timer;
    struct stat conf;
    uint64_t conf_checked_ms;
};

/* ---- the channels ---- */

static void process_sockets(struct resolver *r, ares_channel channel, ares_socket_t readable,
                            ares_socket_t writable)
{
    ares_process_fd(channel, readable, writable);
    loop_defer_once(r->loop, &r->step);
}

static void on_readable(void *context)
{
    struct dns_socket *s = context;

    process_sockets(s->resolver, s->channel, s->fd, ARES_SOCKET_BAD);
}

static void on_writable(void *context)
{
    struct dns_socket *s = context;

    watch_write(s->watch, on_writable);
    process_sockets(s->resolver, s->channel, ARES_SOCKET_BAD, s->fd);
}

static struct dns_socket *find_socket(struct resolver *r, ares_socket_t fd)
{
    struct dns_socket *s;

    list_for_each_entry (s, &r->sockets, node) {
        if (s->fd == fd)
            return s;
    }
    return NULL;
}

/* c-ares waits for other events of FD, or closes it. */
static void on_socket_state(struct resolver *r, int channel, ares_socket_t fd, int readable,
                            int writable)
{
    struct dns_socket *s = find_socket(r, fd);

    if (s != NULL && !readable && !writable) {
        watch_stop(s->watch);
        list_remove(&s->node);
        free(s);
        return;
    }
    if (!readable && !writable)
        return;
    if (s == NULL) {
        s = xcalloc(1, sizeof(*s));
        s->resolver = r;
        s->fd = fd;
        s->watch = watch_start_as_is(r->loop, fd, on_readable, s);
        list_push_back(&r->sockets, &s->node);
    }
    s->channel = r->channels[channel];
    watch_read(s->watch, readable);
    watch_write(s->watch, writable ? on_writable : NULL);
}

static void on_udp_state(void *context, ares_socket_t fd, int readable, int writable)
{
    on_socket_state(context, CHANNEL_UDP, fd, readable, writable);
}

static void on_tcp_state(void *context, ares_socket_t fd, int readable, int writable)
{
    on_socket_state(context, CHANNEL_TCP, fd, readable, writable);
}

/* A channel that cannot be opened stays NULL; the next request tries it again. */
static void open_channels(struct resolver *r)
{
    struct ares_options o = {.timeout = RESOLVER_TIMEOUT_MS, .tries = RESOLVER_TRIES};
    int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;

#ifdef ARES_OPT_QUERY_CACHE
    /* A query is sent because the last answer is not valid any more. */
    mask |= ARES_OPT_QUERY_CACHE;
#endif
    o.sock_state_cb_data = r;
    for (int i = 0; i < CHANNELS; ++i) {
        if (r->channels[i] != NULL)
            continue;
        o.flags = ARES_FLAG_EDNS | (i == CHANNEL_TCP ? ARES_FLAG_USEVC : 0);
        o.sock_state_cb = i == CHANNEL_TCP ? on_tcp_state : on_udp_state;
        r->open_failed = ares_init_options(&r->channels[i], &o, mask);
        if (r->open_failed != ARES_SUCCESS) {
            r->channels[i] = NULL;
            return;
        }
        if (r->servers == NULL)
            continue;
        r->open_failed = ares_set_servers_ports_csv(r->channels[i], r->servers);
        if (r->open_failed != ARES_SUCCESS) {
            ares_destroy(r->channels[i]);
            r->channels[i] = NULL;
            return;
        }
    }
}

/* Look-ups in progress begin again. */
static void close_channels(struct resolver *r)
{
    for (int i = 0; i < CHANNELS; ++i) {
        ares_channel channel = r->channels[i];

        r->channels[i] = NULL;
        if (channel != NULL)
            ares_destroy(channel);
    }
}

static void check_conf(struct resolver *r)
{
    uint64_t now_ms = loop_now_ms(r->loop);
    struct stat now = {0};

    if (r->conf_checked_ms != 0 && now_ms - r->conf_checked_ms < CONF_CHECK_MS)
        return;
    (void)!stat(conf_file, &now);
    bool same = now.st_ino == r->conf.st_ino && now.st_size == r->conf.st_size &&
                now.st_mtim.tv_sec == r->conf.st_mtim.tv_sec &&
                now.st_mtim.tv_nsec == r->conf.st_mtim.tv_nsec;
    bool first = r->conf_checked_ms == 0;
    r->conf = now;
    r->conf_checked_ms = now_ms;
    if (same || first)
        return;
    log_info(NULL, "resolver-config-changed", "file=%s", conf_file);
    close_channels(r);
}

/* ---- the end of a look-up ---- */

static int compare_resolved(const void *x, const void *y)
{
    const struct resolved *a = x;
    const struct resolved *b = y;
    int order = addr_compare(&a->addr, &b->addr);

    if (order == 0)
        order = compare_u64(a->priority, b->priority);
    return order != 0 ? order : -compare_u64(a->weight, b->weight);
}

static void free_lookup(struct lookup *l)
{
    for (size_t i = 0; l->targets != NULL && l->targets[i].name != NULL; ++i)
        free(l->targets[i].name);
    free(l->targets);
    free(l->first.name);
    free(l->items);
    free(l);
}

/* Each address once, with its best priority. */
static void sort_items(struct lookup *l)
{
    size_t kept = 0;

    if (l->n != 0)
        qsort(l->items, l->n, sizeof(*l->items), compare_resolved);
    for (size_t i = 0; i < l->n; ++i) {
        if (kept == 0 || !addr_equal(&l->items[kept - 1].addr, &l->items[i].addr))
            l->items[kept++] = l->items[i];
    }
    l->truncated = kept > RESOLVED_ADDRS_MAX;
    l->n = l->truncated ? RESOLVED_ADDRS_MAX : kept;
}

static void end_lookup(struct lookup *l)
{
    struct resolve_request *q = l->request;

    if (q != NULL && l->again) {
        q->lookup = NULL;
        resolver_query(l->resolver, q);
    } else if (q != NULL) {
        sort_items(l);
        bool empty = l->failed == ARES_SUCCESS && l->n == 0;
        int status = empty ? l->no : l->failed;
        struct resolve_answer a = {
            .items = l->items,
            .n = l->failed == ARES_SUCCESS ? l->n : 0,
            .truncated = l->truncated,
            .ttl_s = l->ttl_s,
            .problem = status != ARES_SUCCESS ? ares_strerror(status) : NULL,
            .empty = empty,
        };

        q->lookup = NULL;
        q->done(q, &a);
    }
    free_lookup(l);
}

/* ---- queries ---- */

static void end_query(struct query *q, int status)
{
    struct lookup *l = q->lookup;

    if (status == ARES_ENODATA || status == ARES_ENOTFOUND)
        l->no = status;
    else if (status == ARES_EDESTRUCTION || status == ARES_ECANCELLED)
        l->again = true;
    else if (status != ARES_SUCCESS)
        l->failed = status;
    if (--l->pending == 0)
        end_lookup(l);
}

static void wait_query(struct query *q)
{
    struct resolver *r = q->lookup->resolver;

    list_push_back(&r->queries, &q->waiting);
    loop_defer_once(r->loop, &r->step);
}

/* Whether Q is repeated by TCP: there was no response by UDP. */
static bool repeat_query(struct query *q, int status)
{
    if (q->channel == CHANNEL_TCP || q->lookup->request == NULL ||
        (status != ARES_ETIMEOUT && status != ARES_ECONNREFUSED))
        return false;
    q->channel = CHANNEL_TCP;
    wait_query(q);
    return true;
}

static void add_item(struct query *q, const struct ares_addrinfo_node *node)
{
    struct lookup *l = q->lookup;
    struct resolved *item;

    if (l->n == l->room) {
        l->room = l->room != 0 ? 2 * l->room : 16;
        l->items = xrealloc(l->items, l->room * sizeof(*l->items));
    }
    item = &l->items[l->n++];
    *item = (struct resolved){.host = q->name, .priority = q->priority, .weight = q->weight};
    item->addr.len = node->ai_family == AF_INET ? sizeof(item->addr.in) : sizeof(item->addr.in6);
    memcpy(&item->addr.sa, node->ai_addr, item->addr.len);
    addr_set_port(&item->addr, q->port);
}

static void take_ttl(struct lookup *l, uint32_t ttl_s)
{
    l->ttl_s = ttl_s < l->ttl_s ? ttl_s : l->ttl_s;
}

static void on_addresses(void *context, int status, unused_ int timeouts,
                         struct ares_addrinfo *info)
{
    struct query *q = context;
    struct lookup *l = q->lookup;
    size_t before = l->n;

    --l->resolver->in_flight;
    for (struct ares_addrinfo_node *i = info != NULL ? info->nodes : NULL; i != NULL;
         i = i->ai_next) {
        if (i->ai_family != q->family || l->n > RESOLVED_ADDRS_MAX + before)
            continue;
        add_item(q, i);
        take_ttl(l, i->ai_ttl > 0 ? (uint32_t)i->ai_ttl : 0);
    }
    for (struct ares_addrinfo_cname *i = info != NULL ? info->cnames : NULL; i != NULL; i = i->next)
        take_ttl(l, i->ttl > 0 ? (uint32_t)i->ttl : 0);
    if (info != NULL)
        ares_freeaddrinfo(info);
    if (repeat_query(q, status))
        return;
    if (status == ARES_SUCCESS && l->n == before)
        status = ARES_ENODATA;
    enum resolve_family family = l->request != NULL ? l->request->family : RESOLVE_IPV4;
    bool none = status == ARES_ENODATA || status == ARES_ENOTFOUND;
    if (q->family == AF_INET && ((family == RESOLVE_BOTH && (none || status == ARES_SUCCESS)) ||
                                 (family == RESOLVE_AUTO && none))) {
        l->no = none ? status : l->no;
        q->family = AF_INET6;
        q->channel = CHANNEL_UDP;
        wait_query(q);
        return;
    }
    end_query(q, status);
}

static void start_target(struct query *q, struct lookup *l)
{
    q->lookup = l;
    q->family = l->request->family == RESOLVE_IPV6 ? AF_INET6 : AF_INET;
    ++l->pending;
    wait_query(q);
}

static void on_service(void *context, int status, unused_ int timeouts, unsigned char *bytes,
                       int len)
{
    struct query *q = context;
    struct lookup *l = q->lookup;
    struct slice message = {(const char *)bytes, len > 0 ? (size_t)len : 0};
    uint32_t ttl_s = 0;
    size_t n = 0;

    --l->resolver->in_flight;
    if (repeat_query(q, status))
        return;
    if (status == ARES_SUCCESS && l->request != NULL) {
        struct dns_srv *found = xcalloc(DNS_SRV_MAX, sizeof(*found));

        if (!dns_srv_parse(message, found, &n, &ttl_s))
            status = ARES_EBADRESP;
        else if (n == 0)
            status = ARES_ENODATA;
        l->targets = xcalloc(n + 1, sizeof(*l->targets));
        for (size_t i = 0; status == ARES_SUCCESS && i < n; ++i) {
            l->targets[i] = (struct query){.name = xstrdup(found[i].target),
                                           .port = found[i].port,
                                           .priority = found[i].priority,
                                           .weight = found[i].weight};
            start_target(&l->targets[i], l);
        }
        free(found);
        take_ttl(l, ttl_s);
    }
    end_query(q, status);
}

static void start_query(struct query *q)
{
    struct resolver *r = q->lookup->resolver;
    ares_channel channel = r->channels[q->channel];
    /* c-ares 1.18 leaks memory if /etc/hosts has "localhost", but not of the family that is asked
     * for; addresses of the other one are ignored. Sorting would connect a socket for each. */
    bool local = strcasecmp(q->name, "localhost") == 0;
    const struct ares_addrinfo_hints hints = {.ai_family = local ? AF_UNSPEC : q->family,
                                              .ai_flags = ARES_AI_NOSORT};

    if (q->lookup->request == NULL) {
        end_query(q, ARES_SUCCESS);
        return;
    }
    if (channel == NULL) {
        end_query(q, r->open_failed);
        return;
    }
    ++r->in_flight;
    if (q->service)
        ares_search(channel, q->name, CLASS_IN, TYPE_SRV, on_service, q);
    else
        ares_getaddrinfo(channel, q->name, NULL, &hints, on_addresses, q);
}

/* ---- requests ---- */

static void start_request(struct resolver *r, struct resolve_request *q)
{
    struct lookup *l = xcalloc(1, sizeof(*l));
    const char *colon = q->service ? NULL : strrchr(q->name, ':');
    uint64_t port = 0;

    if (colon != NULL)
        (void)!parse_u64(slice_of(colon + 1), UINT16_MAX, &port);
    l->resolver = r;
    l->request = q;
    l->ttl_s = UINT32_MAX;
    l->first.name = colon != NULL ? xslicedup((struct slice){q->name, (size_t)(colon - q->name)})
                                  : xstrdup(q->name);
    l->first.port = (unsigned)port;
    l->first.service = q->service;
    q->lookup = l;
    start_target(&l->first, l);
}

static void run_step(struct loop_deferred *d)
{
    struct resolver *r = container_of(d, struct resolver, step);
    struct resolve_request *request;
    struct query *q;
    uint64_t least_ms = UINT64_MAX;

    if (!list_empty(&r->requests)) {
        check_conf(r);
        open_channels(r);
    }
    while ((request = list_pop_entry(&r->requests, struct resolve_request, waiting)) != NULL)
        start_request(r, request);
    while (r->in_flight < RESOLVER_IN_FLIGHT_MAX &&
           (q = list_pop_entry(&r->queries, struct query, waiting)) != NULL)
        start_query(q);
    for (int i = 0; i < CHANNELS; ++i) {
        struct timeval room;
        const struct timeval *t =
            r->channels[i] != NULL ? ares_timeout(r->channels[i], NULL, &room) : NULL;

        if (t != NULL) {
            uint64_t ms = (uint64_t)t->tv_sec * 1000 + (uint64_t)t->tv_usec / 1000 + 1;

            least_ms = ms < least_ms ? ms : least_ms;
        }
    }
    if (least_ms != UINT64_MAX)
        timer_start(r->loop, &r->timer, least_ms);
    else
        timer_stop(&r->timer);
}

static void on_timer(struct timer *t)
{
    struct resolver *r = container_of(t, struct resolver, timer);

    for (int i = 0; i < CHANNELS; ++i) {
        if (r->channels[i] != NULL)
            ares_process_fd(r->channels[i], ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    }
    loop_defer_once(r->loop, &r->step);
}

void resolver_query(struct resolver *r, struct resolve_request *q)
{
    ASSERT(q->lookup == NULL);
    list_push_back(&r->requests, &q->waiting);
    loop_defer_once(r->loop, &r->step);
}

void resolver_cancel(struct resolve_request *q)
{
    list_remove(&q->waiting);
    if (q->lookup != NULL)
        q->lookup->request = NULL;
    q->lookup = NULL;
}

/* ---- life ---- */

struct resolver *resolver_create(struct loop *l, const char *servers)
{
    struct resolver *r = xcalloc(1, sizeof(*r));

    r->loop = l;
    r->servers = xstrdup(servers);
    r->step.run = run_step;
    timer_init(&r->timer, on_timer);
    list_init(&r->sockets);
    list_init(&r->requests);
    list_init(&r->queries);
    return r;
}

void resolver_destroy(struct resolver *r)
{
    struct query *q;

    if (r == NULL)
        return;
    ASSERT(list_empty(&r->requests));
    close_channels(r);
    while ((q = list_pop_entry(&r->queries, struct query, waiting)) != NULL)
        end_query(q, ARES_EDESTRUCTION);
    ASSERT(list_empty(&r->sockets));
    timer_stop(&r->timer);
    list_remove(&r->step.node);
    free(r->servers);
    free(r);
}

void resolver_set_servers(struct resolver *r, const char *servers)
{
    if (slice_eq(slice_of(servers), slice_of(r->servers)))
        return;
    free(r->servers);
    r->servers = xstrdup(servers);
    close_channels(r);
}
