/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS as it is configured: `tls` of a listener, and `worker_tls` of an application. Control thread.
 */
#pragma once

#include "common/config/config.h"
#include "common/tls/tls_listener.h"
#include "common/tls/worker_tls.h"

/*
 * Reads MAP and all files it names; errors go to D, each with its place, and NULL is returned.
 *   http2  whether the listener offers it
 */
struct tls_listener *tls_config_read(const struct config *file, const struct config_node *map,
                                     bool http2, struct diag *d);

/*
 * Whether and how an application's workers speak TLS. A plain value, first of the configuration,
 * then of the application. It decides: no property of the tree turns TLS on or off
 * (docs/decisions/11-trust.md).
 */
struct tls_workers {
    struct worker_tls *tls; /* one reference; NULL: no worker speaks TLS */
    bool on;                /* all workers that do not specify otherwise */
    char *server_name;      /* name in their certificates; NULL: each worker's own name */
};

/* Whether NAME is a DNS name or an IP address that a certificate could be for. */
bool server_name_is_valid(const char *name);
/*
 * Read MAP (NULL: there is none), with the files it names; problems to D with their places.
 *   required  whether a worker requires TLS
 */
void tls_workers_read(const struct config *file, const struct config_node *map, bool required,
                      struct tls_workers *out, struct diag *d);
/* At SIGHUP: copies FROM to C. Peers of C's tls continue, with the new authorities. */
void tls_workers_take(struct tls_workers *c, struct tls_workers *from);
void tls_workers_fini(struct tls_workers *c);
