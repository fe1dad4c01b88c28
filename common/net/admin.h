/* SPDX-License-Identifier: Apache-2.0
 *
 * The admin address: small pages made on demand. On one loop (the control loop); owned by the program.
 * GET and HEAD only; checks the Host (a name other than an address, localhost or those configured is
 * refused, against DNS rebinding); never listens beyond loopback unless a token is configured, which is then wanted
 * as "Authorization: Bearer TOKEN".
 */
#ifndef RLB_NET_ADMIN_H
#define RLB_NET_ADMIN_H

#include "common/base/text.h"
#include "common/net/addr.h"
#include "common/net/loop.h"

struct admin;
struct admin_options {
    const struct addr *addresses;
    size_t naddresses;
    const char *token;        /* or NULL */
    const char *const *hosts; /* further Host names that are fine */
    size_t nhosts;
};
/* Makes BODY; returns the HTTP status (200, 503, ...). QUERY: the raw query string. */
typedef int (*admin_page_fn)(void *context, struct slice query, struct text *body);

/* Errors: ERR_SYSTEM and friends of addr_listen; ERR_UNSUPPORTED: beyond loopback without a token. */
enum err admin_create(struct loop *l, const struct admin_options *o, struct admin **out) must_check;
void admin_add(struct admin *a, const char *path, const char *content_type, admin_page_fn page, void *context);
/* The address a listener is bound to (port 0 resolved). */
void admin_address(const struct admin *a, size_t i, struct addr *out);
void admin_stop(struct admin *a, void (*done)(void *context), void *context);
void admin_destroy(struct admin *a);

#endif
