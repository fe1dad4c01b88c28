/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS of one listener, which may have several certificates: the client's server name selects one.
 * The whole configuration may be replaced while connections are accepted. Created, changed and
 * destroyed by one thread; outlives the listeners that use its context.
 */
#pragma once

#include "common/tls/tls_server.h"

struct tls_listener;

struct tls_certificate_files {
    const char *certificate, *key; /* PEM */
    const char *ocsp;              /* OCSP response to staple, DER; or NULL */
};

/* Texts are copied by tls_listener_create(). */
struct tls_listener_options {
    /* The first one is used for clients without a server name, or with an unknown one. */
    const struct tls_certificate_files *certificates;
    size_t ncertificates;  /* not 0 */
    const char *client_ca; /* PEM file; NULL with CLIENT_CERTIFICATE_OFF */
    enum client_certificate_mode clients;
    bool client_subjects; /* reject certificates if client_certificate_of cannot return their
                           * subject */
    struct tls_context_options context; /* without certificate and key */
    uint64_t ticket_rotation_ms;        /* interval between new keys of session tickets */
};

/* Reads the files. Returns NULL on failure; errors go to D. */
struct tls_listener *tls_listener_create(const struct tls_listener_options *o, struct diag *d);
/* NULL is allowed. */
void tls_listener_destroy(struct tls_listener *t);
/* Returns the context for http_server_listen() on any loop. It does not change during the
 * lifetime of T. Borrowed. */
SSL_CTX *tls_listener_context(struct tls_listener *t);
/*
 * Makes the configuration of FRESH effective for new handshakes. No listener may use FRESH, which
 * the caller destroys. Tickets remain valid where certificates and authorities are unchanged.
 */
void tls_listener_take(struct tls_listener *t, struct tls_listener *fresh);
/* Logs deviations from the configuration that do not prevent serving. ADDRESS is the listener's. */
void tls_listener_log_notes(const struct tls_listener *t, const char *address);
/*
 * Must be called each second. Rotates the ticket keys, and re-reads all files if one has changed or
 * a stapled response has expired. If they cannot be used (for instance a new certificate with the
 * old key), the previous ones remain effective until the next change; this is logged once, with
 * ADDRESS.
 */
void tls_listener_poll(struct tls_listener *t, const char *address, uint64_t now_ms);
/*
 * Returns true if HOST (host[:port]) belongs to another certificate than that of the connection
 * (RFC 9110 section 15.5.20). Any thread.
 */
bool tls_listener_misdirected(const SSL *ssl, struct slice host);
