/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/config/tls_config.h"

#include <stdlib.h>

#include "lb/settings/settings.h"

enum {
    /* Certificates of one listener: each is read at start and checked every second. */
    TLS_CERTIFICATES_MAX = 256,
};

/* ---- listeners ---- */

struct tls_reading {
    const struct config *file;
    struct tls_settings s;
    bool http2;
    struct diag *d;
};

/* Complaints have the place AT. */
static struct tls_listener *tls_config_create(const struct tls_reading *r,
                                              const struct config_node *at,
                                              const struct tls_certificate_files *certificates,
                                              size_t n)
{
    const struct tls_listener_options o = {
        .certificates = certificates,
        .ncertificates = n,
        .client_ca = r->s.client_ca,
        .clients = (enum client_certificate_mode)r->s.client_verify,
        .client_subjects = true,
        .context = {.http2 = r->http2,
                    .tls13_only = r->s.min_version == TLS_VERSION_13,
                    .ciphers = r->s.ciphers,
                    .ciphersuites = r->s.ciphersuites},
        .ticket_rotation_ms = r->s.ticket_rotation_ms,
    };
    struct diag sub = {0};
    struct tls_listener *t = tls_listener_create(&o, &sub);

    if (t == NULL && sub.errors == 0)
        config_complain(r->file, at, r->d, "the certificate cannot be used");
    config_complain_all(r->file, at, "", &sub, r->d);
    diag_fini(&sub);
    return t;
}

static bool check_required(const struct tls_reading *r, const struct config_node *at,
                           const struct tls_certificate_files *files)
{
    if (files->certificate == NULL)
        config_complain(r->file, at, r->d, "tls: certificate is required");
    if (files->key == NULL)
        config_complain(r->file, at, r->d, "tls: key is required");
    return files->certificate != NULL && files->key != NULL;
}

static struct tls_listener *read_list(struct tls_reading *r)
{
    const struct config_node *list = r->s.certificates;
    unsigned before = r->d->errors;
    struct tls_listener *t = NULL;

    if (r->s.certificate != NULL || r->s.key != NULL || r->s.ocsp != NULL) {
        config_complain(r->file, list, r->d, "tls: either certificate and key, or certificates");
        return NULL;
    }
    if (list->kind != CONFIG_LIST || list->n == 0 || list->n > TLS_CERTIFICATES_MAX) {
        config_complain(r->file, list, r->d,
                        "tls: certificates: expected a list of 1 to %d entries",
                        TLS_CERTIFICATES_MAX);
        return NULL;
    }
    struct certificate_settings *all = xcalloc(list->n, sizeof(*all));
    struct tls_certificate_files *files = xcalloc(list->n, sizeof(*files));

    for (size_t i = 0; i < list->n; ++i) {
        const struct config_node *at = list->items[i];
        unsigned errors = r->d->errors;

        settings_read(&certificate_table, r->file, at, &all[i], NULL, r->d);
        files[i] = (struct tls_certificate_files){all[i].certificate, all[i].key, all[i].ocsp};
        /* Each is tried alone, so that a complaint has its place. */
        if (r->d->errors == errors && check_required(r, at, &files[i]))
            tls_listener_destroy(tls_config_create(r, at, &files[i], 1));
    }
    if (r->d->errors == before)
        t = tls_config_create(r, list, files, list->n);
    for (size_t i = 0; i < list->n; ++i)
        settings_fini(&certificate_table, &all[i]);
    free(files);
    free(all);
    return t;
}

struct tls_listener *tls_config_read(const struct config *file, const struct config_node *map,
                                     bool http2, struct diag *d)
{
    struct tls_reading r = {.file = file, .http2 = http2, .d = d};
    struct tls_listener *t = NULL;
    unsigned before = d->errors;

    settings_read(&tls_table, file, map, &r.s, NULL, d);
    if (d->errors == before && (r.s.client_ca != NULL) != (r.s.client_verify != CLIENT_VERIFY_OFF))
        config_complain(file, map, d, "tls: client_ca and client_verify go together");
    const struct tls_certificate_files own = {r.s.certificate, r.s.key, r.s.ocsp};
    if (d->errors == before && r.s.certificates != NULL)
        t = read_list(&r);
    else if (d->errors == before && check_required(&r, map, &own))
        t = tls_config_create(&r, map, &own, 1);
    settings_fini(&tls_table, &r.s);
    return t;
}

/* ---- workers ---- */

bool server_name_is_valid(const char *name)
{
    size_t n = strlen(name);

    return n != 0 && n <= TLS_PEER_NAME_MAX && name[0] != '.' && name[n - 1] != '.' &&
           slice_is_word(slice_of(name), "-_.:");
}

void tls_workers_read(const struct config *file, const struct config_node *map, bool required,
                      struct tls_workers *out, struct diag *d)
{
    const struct config_node *at = map != NULL ? map : file->root;
    struct worker_tls_settings s;
    struct diag sub = {0};
    unsigned before = d->errors;

    if (map == NULL && !required)
        return;
    settings_read(&worker_tls_table, file, map, &s, NULL, d);
    if ((s.certificate == NULL) != (s.key == NULL))
        config_complain(file, at, d, "worker_tls: certificate and key go together");
    if (s.server_name != NULL && !server_name_is_valid(s.server_name))
        config_complain(file, at, d, "worker_tls: server_name: expected a host name or an address");
    if (d->errors == before) {
        out->tls = worker_tls_create(
            &(struct worker_tls_options){.ca = s.ca,
                                         .verify = s.verify,
                                         .context = {.certificate = s.certificate,
                                                     .key = s.key,
                                                     .tls13_only = s.min_version == TLS_VERSION_13,
                                                     .ciphers = s.ciphers,
                                                     .ciphersuites = s.ciphersuites}},
            &sub);
        if (out->tls == NULL)
            config_complain_all(file, at, "worker_tls: ", &sub, d);
        diag_fini(&sub);
    }
    out->on = map != NULL;
    out->server_name = s.server_name != NULL ? xstrdup(s.server_name) : NULL;
    settings_fini(&worker_tls_table, &s);
}

void tls_workers_take(struct tls_workers *c, struct tls_workers *from)
{
    if (from->tls == NULL) {
        worker_tls_unref(c->tls);
        c->tls = NULL;
    } else if (c->tls != NULL) {
        worker_tls_take(c->tls, from->tls);
    } else {
        c->tls = worker_tls_ref(from->tls);
    }
    free(c->server_name);
    c->on = from->on;
    c->server_name = from->server_name != NULL ? xstrdup(from->server_name) : NULL;
}

void tls_workers_fini(struct tls_workers *c)
{
    worker_tls_unref(c->tls);
    free(c->server_name);
    *c = (struct tls_workers){0};
}
