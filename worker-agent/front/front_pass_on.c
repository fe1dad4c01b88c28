/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that this agent still holds after another agent has taken over (upgrade.h), and that
 * none of its processes can serve: only the new agent starts processes. Such a request is passed on
 * to the new agent at the address where it was received, and the response is returned through this
 * agent. Reporting the request as unprocessed would be sufficient for a load balancer that has
 * another worker at that moment, but a client of the application's own address has no alternative.
 * With TLS the request is not passed on, because the new agent would not authenticate this agent as
 * a load balancer; the client receives an error that permits a retry.
 */
#include "worker-agent/front/exchange_internal.h"

#include "common/base/log.h"

/* The source address of a connection from this agent to its own address A. */
static struct addr source_of(const struct addr *a)
{
    struct addr source = *a;

    if (a->sa.sa_family == AF_INET && a->in.sin_addr.s_addr == htonl(INADDR_ANY))
        source.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr))
        source.in6.sin6_addr = in6addr_loopback;
    return source;
}

/* Where the other listens for such as X. False: nowhere, or not for us. */
static bool find_door(const struct exchange *x, struct addr *out)
{
    const struct app_group *g = x->door->group;

    if (is_direct(x)) {
        *out = g->doors[0];
        return true;
    }
    *out = x->door->slot->addr;
    struct addr source = source_of(out);
    return networks_have(x->front->allow, &source);
}

bool exchange_pass_on(struct exchange *x, enum slot_refusal why)
{
    const struct app_pool *pool = x->door->group->pool;
    const struct conn_pool_settings cs = {.idle_timeout_ms = 1, .max_waiting = 1};
    char address[ADDR_TEXT_MAX];
    struct addr to;

    if (!pool->handed_over || (why != SLOT_STOPPED && why != SLOT_NOT_STARTED) ||
        x->reply == NULL || x->front->tls != NULL || !find_door(x, &to))
        return false;
    slot_pass_on(&x->place, &to,
                 conn_pool_backend(pool->conn_pool, slice_of(addr_format(&to, address)),
                                   SLICE_LIT("heir"), 0, &cs));
    if (!is_direct(x)) {
        text_clear(&x->head);
        front_write_agents_head(x->reply->req, &x->head);
    }
    x->passed_on = true;
    /* How long it may take, and what it says of a process, is the other's to judge. */
    x->unready = true;
    /* On a connection of its own: there is nothing to gain by keeping one. */
    x->retried = true;
    log_info(subject(x), "request-passed-on", "to=%s reason=\"another agent has taken over\"",
             address);
    return true;
}

void exchange_copy_headers(struct exchange *x, const struct http1_head *head)
{
    struct http_request *req = x->reply->req;
    bool to_load_balancer = !is_direct(x);

    front_copy_headers(req, head, x->passed_on && to_load_balancer);
    if (to_load_balancer && !x->passed_on)
        front_put_backlog(req, slot_backlog(&x->place));
}
