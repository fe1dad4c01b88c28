/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether and how an application's workers speak TLS: `worker_tls` as it is configured. A plain
 * value, first of the configuration, then of the application; control thread. Its values decide:
 * no property of the tree turns TLS on or off (docs/decisions/11-trust.md).
 */
#ifndef RLB_LB_CONFIG_TLS_WORKERS_H
#define RLB_LB_CONFIG_TLS_WORKERS_H

#include "common/tls/worker_tls.h"
#include "lb/settings/settings.h"

struct tls_workers {
    struct worker_tls *tls; /* one reference; NULL: no worker speaks TLS */
    bool on;                /* all workers that do not specify otherwise */
    char *server_name;      /* for which their certificates have to be; or NULL: by their names */
};

/* Whether NAME is a DNS name or an IP address that a certificate could be for. */
bool server_name_is_valid(const char *name);
/*
 * Read MAP (NULL: there is none), with the files it names; problems to D with their places.
 *   wanted  the worker's registration requires TLS
 */
void tls_workers_read(const struct config *file, const struct config_node *map, bool wanted,
                      struct tls_workers *out, struct diag *d);
/*
 * At SIGHUP: moves the contents of FRESH to C. Peers created from C's tls continue, with the new
 * authorities.
 */
void tls_workers_take(struct tls_workers *c, struct tls_workers *fresh);
void tls_workers_fini(struct tls_workers *c);

#endif
