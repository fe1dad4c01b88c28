/* SPDX-License-Identifier: Apache-2.0
 *
 * Forwarding fields from a peer that is not trusted are removed before any other code reads them:
 * they are not part of any class, key or request to a worker. RFC 7239 section 8.1: a recipient
 * that trusts these fields from any peer can be sent arbitrary values.
 */
#include "lb/rules/trust.h"

#include <stdio.h>

#include "common/net/networks.h"
#include "common/tls/tls_server.h"
#include "common/wire/http1_request.h"
#include "lb/request/headers.h"

bool trust_compile_named(const char *name, const struct text_list *list, struct networks *out,
                         size_t *at, char why[SETTINGS_WHY_ROOM])
{
    for (size_t i = 0; i < list->n; ++i) {
        enum err e = networks_add(out, slice_of(list->items[i]));

        if (e == ERR_OK)
            continue;
        *at = i;
        if (e == ERR_TOO_LARGE)
            snprintf(why, SETTINGS_WHY_ROOM, "%s: more than %d networks", name, NETWORKS_MAX);
        else
            snprintf(why, SETTINGS_WHY_ROOM, "%s: %.60s: %s", name, list->items[i],
                     e == ERR_RANGE ? "has address bits beyond its prefix"
                                    : "expected a network, an address, \"loopback\" or \"unix\"");
        return false;
    }
    return true;
}

bool trust_compile(const struct text_list *list, struct networks *out, size_t *at,
                   char why[SETTINGS_WHY_ROOM])
{
    return trust_compile_named("trusted_proxies", list, out, at, why);
}

/* The field of KIND nearest to us. */
static struct slice last_of(const struct message_fields *fields, enum http_field kind)
{
    for (size_t i = fields->n; i-- != 0;) {
        if (fields->at[i].kind == kind)
            return fields->at[i].value;
    }
    return SLICE_NULL;
}

static void find_client(struct exchange *x, const struct networks *trusted)
{
    const struct message_fields *fields = &x->req->fields;
    struct client_search s = {.trusted = trusted, .client = x->client_addr};

    for (size_t i = fields->n; i-- != 0;) {
        if (fields->at[i].kind == FIELD_FOR && !client_addr_search(&s, fields->at[i].value))
            break;
    }
    if (s.hops == 0)
        return;
    x->client_addr = s.client;
    x->client = addr_host_slice(&x->client_addr, x->client_room);
}

static void believe(struct exchange *x)
{
    struct slice proto = last_of(&x->req->fields, FIELD_PROTO);
    struct slice host = last_of(&x->req->fields, FIELD_FORWARDED_HOST);

    if (slice_eq_nocase(proto, SLICE_LIT("https")))
        x->tls = true;
    else if (slice_eq_nocase(proto, SLICE_LIT("http")))
        x->tls = false;
    if (host.len != 0 && http_authority_valid(host))
        x->forwarded_host = host;
}

void exchange_trust(struct exchange *x)
{
    const struct networks *trusted = application_trusted(x->al);

    /* So far the client is the connected peer. */
    if (!networks_have(trusted, &x->client_addr)) {
        headers_drop_claims(x->req);
        return;
    }
    /* The certificate of this connection has been verified here. */
    if (client_certificate_is_asked(http_conn_ssl(x->conn)))
        headers_drop_certificate(x->req);
    find_client(x, trusted);
    believe(x);
}
