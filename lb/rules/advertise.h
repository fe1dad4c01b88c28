/* SPDX-License-Identifier: Apache-2.0
 *
 * The names under which a load balancer registers itself: those of the setting `advertise`, else
 * the addresses of its listeners. Plain computation, except that the addresses of the machine are
 * read.
 */
#pragma once

#include "common/config/settings.h"
#include "common/net/addr.h"

enum {
    /* Names of one process: a machine has a few addresses, a configuration a few listeners. */
    ADVERTISE_MAX = 64,
};

/*
 * Whether TEXT is valid in `advertise`: HOST:PORT or unix:/path as it is, HOST with the port of the
 * first listener that has one, :PORT for every IPv4 address of this machine.
 */
bool advertise_valid(const char *text);
/*
 * The names, each once; to be freed with text_list_fini. CONFIGURED empty: one for each of
 * LISTENERS, a wildcard being every address of its family that this machine has beyond loopback
 * (loopback if none).
 */
struct text_list advertise_names(const struct text_list *configured, const struct addr *listeners,
                                 size_t n);
