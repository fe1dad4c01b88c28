/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps host names to certificates, by the DNS names of their subjectAltName, exact or with "*" for
 * the whole leftmost label (RFC 6125 section 6.4). Common names are ignored. Built by one thread,
 * then constant and usable by any thread; reference counted.
 */
#ifndef RLB_TLS_TLS_NAMES_H
#define RLB_TLS_TLS_NAMES_H

#include "common/base/text.h"

#include <openssl/x509.h>

enum {
    /* Names of one certificate: authorities stop at a few hundred. */
    TLS_CERTIFICATE_NAMES_MAX = 1000,
};

struct tls_names;

struct tls_names *tls_names_create(void);
struct tls_names *tls_names_ref(struct tls_names *n);
/* Any thread. NULL is fine. */
void tls_names_unref(struct tls_names *n);
/* Adds the names of CERTIFICATE for OWNER. A name with several owners belongs to the lowest of
 * these numbers. Returns false if there are too many. */
bool tls_names_add(struct tls_names *n, X509 *certificate, unsigned owner) must_check;
/* Must be called after the last name was added and before any look-up. */
void tls_names_sort(struct tls_names *n);
/* Whether A and B have the same names, and at least one. Both must be sorted. */
bool tls_names_same(const struct tls_names *a, const struct tls_names *b);
/* Finds the owner of HOST, which has no port; a trailing dot is ignored. An exact name takes
 * precedence over a wildcard. */
bool tls_names_find(const struct tls_names *n, struct slice host, unsigned *owner) must_check;

#endif
