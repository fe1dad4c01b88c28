/* SPDX-License-Identifier: Apache-2.0
 *
 * `tls` of a listener as it is configured. Control thread.
 */
#ifndef RLB_LB_CONFIG_TLS_CONFIG_H
#define RLB_LB_CONFIG_TLS_CONFIG_H

#include "common/config/config.h"
#include "common/tls/tls_listener.h"

/*
 * Reads MAP and all files it names; errors go to D, each with its place, and NULL is returned.
 *   http2  whether the listener offers it
 */
struct tls_listener *tls_config_read(const struct config *file, const struct config_node *map,
                                     bool http2, struct diag *d);

#endif
