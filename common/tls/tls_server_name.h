/* SPDX-License-Identifier: Apache-2.0
 *
 * The name in a ClientHello's server_name extension (RFC 6066 section 3), as the client wrote it:
 * unauthenticated bytes. Pure functions over borrowed bytes; any thread.
 */
#ifndef RLB_TLS_TLS_SERVER_NAME_H
#define RLB_TLS_TLS_SERVER_NAME_H

#include "common/base/base.h"

enum {
    /* RFC 1035 section 2.3.4, as text. */
    TLS_NAME_MAX = 255,
};

/*
 * EXTENSION is the extension's body. True: *NAME is its one host name, 1..TLS_NAME_MAX bytes of
 * it, none of them 0. False for anything else, which the TLS library answers itself; *NAME is
 * untouched then.
 */
bool tls_server_name(struct slice extension, struct slice *name) must_check;

#endif
