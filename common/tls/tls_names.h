/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps host names to certificates, by the DNS names of their subjectAltName, exact or with "*" for
 * the whole leftmost label (RFC 6125 section 6.4). Common names are ignored. Built by one thread,
 * then constant and usable by any thread; reference counted.
 */
#pragma once

#include "common/base/base.h"
#include "common/base/text.h"

#include <openssl/x509.h>

enum {
    /* Maximum number of names of a certificate; authorities allow a few hundred. */
    TLS_CERTIFICATE_NAMES_MAX = 1000,
};

struct tls_names;

struct tls_names *tls_names_create(void);
struct tls_names *tls_names_ref(struct tls_names *n);
/* Any thread. NULL is allowed. */
void tls_names_unref(struct tls_names *n);
/* Adds the names of CERTIFICATE for OWNER. A name with several owners belongs to the one that it
 * was added for first. Returns false if there are too many. */
bool tls_names_add(struct tls_names *n, X509 *certificate, unsigned owner) must_check;
/* Returns true if A and B have the same names, at least one. */
bool tls_names_same(const struct tls_names *a, const struct tls_names *b);
/* Finds the owner of HOST, which has no port; a trailing dot is ignored. An exact name takes
 * precedence over a wildcard. */
bool tls_names_find(const struct tls_names *n, struct slice host, unsigned *owner) must_check;

/* ---- server_name ---- */

/*
 * The name in a ClientHello's server_name extension (RFC 6066 section 3), as the client wrote it:
 * unauthenticated bytes. Pure functions over borrowed bytes; any thread.
 */

enum {
    /* Maximum length (RFC 1035 section 2.3.4). */
    TLS_NAME_MAX = 255,
};

/*
 * Parses the body of the extension. Returns true if it has exactly one host name of 1 to
 * TLS_NAME_MAX bytes without NUL, which is stored in *NAME. Otherwise returns false without
 * changing *NAME; the TLS library handles such extensions.
 */
bool tls_server_name(struct slice extension, struct slice *name) must_check;
