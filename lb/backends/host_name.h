/* SPDX-License-Identifier: Apache-2.0
 *
 * The host name of a worker and the addresses that it currently resolves to: resolved at once, and
 * again every resolve_interval. Owned by the listed worker or the provider that has the name;
 * control thread.
 */
#ifndef RLB_LB_BACKENDS_HOST_NAME_H
#define RLB_LB_BACKENDS_HOST_NAME_H

#include "common/net/resolver.h"
#include "lb/core/application.h"

struct host_name {
    struct application *app;
    char *text;    /* NAME:PORT */
    bool answered; /* once, if only by an error */
    struct addr *addrs;
    size_t naddrs;
    /* The addresses are others than before. Never inside a call of this header. */
    void (*changed)(void *context);
    void *context;
    struct resolve_request request;
    struct timer again;
    bool failing; /* already logged */
};

struct host_name *host_name_create(struct application *a, const char *text,
                                   void (*changed)(void *context), void *context);
void host_name_destroy(struct host_name *h);
/* Resolves now, unless a query is in progress. */
void host_name_ask(struct host_name *h);

#endif
