/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several certificates a host name belongs to: DNS names of their subjectAltName, exact or
 * with "*" for the whole leftmost label (RFC 6125 section 6.4). The common name counts for nothing.
 * Built by one thread, then constant and any thread's; reference counted.
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
/* CERTIFICATE's names belong to OWNER, unless they are somebody's already. False: too many. */
bool tls_names_add(struct tls_names *n, X509 *certificate, unsigned owner) must_check;
/* After the last name, before any search. */
void tls_names_sort(struct tls_names *n);
/* Whether both have the same names, and any; both sorted. */
bool tls_names_same(const struct tls_names *a, const struct tls_names *b);
/* The owner of HOST (no port; a dot at its end is taken off). An exact name goes before "*". */
bool tls_names_find(const struct tls_names *n, struct slice host, unsigned *owner) must_check;

#endif
