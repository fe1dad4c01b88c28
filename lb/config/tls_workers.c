/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/config/tls_workers.h"

#include <stdlib.h>

bool server_name_is_valid(const char *name)
{
    size_t n = strlen(name);

    return n != 0 && n <= TLS_PEER_NAME_MAX && name[0] != '.' && name[n - 1] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") == n;
}

/* SUB's lines, each with the place AT. */
static void complain_all(const struct config *file, const struct config_node *at,
                         const struct diag *sub, struct diag *d)
{
    struct slice rest = slice_of(sub->text != NULL ? sub->text : "");

    while (rest.len > 0) {
        struct slice line = slice_cut(&rest, '\n');

        if (line.len > 0)
            config_complain(file, at, d, "worker_tls: %.*s", SLICE_FMT(line));
    }
}

static struct worker_tls *create(const struct config *file, const struct config_node *at,
                                 const struct worker_tls_settings *s, struct diag *d)
{
    struct diag sub = {0};
    struct worker_tls_options o = {
        .ca = s->ca,
        .verify = s->verify,
        .certificate = s->certificate,
        .key = s->key,
        .tls13_only = s->min_version == TLS_VERSION_13,
        .ciphers = s->ciphers,
        .ciphersuites = s->ciphersuites,
    };
    struct worker_tls *t = worker_tls_create(&o, &sub);

    if (t == NULL)
        complain_all(file, at, &sub, d);
    diag_fini(&sub);
    return t;
}

void tls_workers_read(const struct config *file, const struct config_node *map, bool wanted,
                      struct tls_workers *out, struct diag *d)
{
    const struct config_node *at = map != NULL ? map : file->root;
    struct worker_tls_settings s;
    unsigned before = d->errors;

    if (map == NULL && !wanted)
        return;
    settings_read(&worker_tls_table, file, map, &s, NULL, d);
    if ((s.certificate == NULL) != (s.key == NULL))
        config_complain(file, at, d, "worker_tls: certificate and key go together");
    if (s.server_name != NULL && !server_name_is_valid(s.server_name))
        config_complain(file, at, d, "worker_tls: server_name: expected a host name or an address");
    if (d->errors == before)
        out->tls = create(file, at, &s, d);
    out->on = map != NULL;
    out->server_name = s.server_name != NULL ? xstrdup(s.server_name) : NULL;
    settings_fini(&worker_tls_table, &s);
}

void tls_workers_take(struct tls_workers *c, struct tls_workers *fresh)
{
    struct worker_tls *kept = c->tls;

    if (kept != NULL && fresh->tls != NULL)
        worker_tls_take(kept, fresh->tls);
    else if (fresh->tls != NULL)
        kept = worker_tls_ref(fresh->tls);
    if (fresh->tls == NULL) {
        worker_tls_unref(kept);
        kept = NULL;
    }
    free(c->server_name);
    c->tls = kept;
    c->on = fresh->on;
    c->server_name = fresh->server_name != NULL ? xstrdup(fresh->server_name) : NULL;
}

void tls_workers_fini(struct tls_workers *c)
{
    worker_tls_unref(c->tls);
    free(c->server_name);
    *c = (struct tls_workers){0};
}
