/* SPDX-License-Identifier: Apache-2.0
 *
 * `tls` of a listener as it is configured: the settings and the certificates' files. Constant once
 * read; reference counted by the control thread, as a listener keeps it longer than the
 * configuration lives.
 */
#ifndef RLB_LB_TLS_CONFIG_H
#define RLB_LB_TLS_CONFIG_H

#include "lb/settings.h"

enum {
    /* Certificates of one listener: each is read at start and looked at every second. */
    TLS_CERTIFICATES_MAX = 256,
};

struct tls_config {
    unsigned refs;
    bool http2;
    struct tls_settings s; /* its NODEs are gone */
    struct certificate_settings *certificates;
    size_t ncertificates; /* not 0 */
};

/*
 * Read MAP, with all files it names, each problem to D with its place. NULL when there was any.
 *   http2  whether the listener offers it
 */
struct tls_config *tls_config_read(const struct config *file, const struct config_node *map,
                                   bool http2, struct diag *d);
struct tls_config *tls_config_ref(struct tls_config *c);
/* NULL is fine. */
void tls_config_unref(struct tls_config *c);

#endif
