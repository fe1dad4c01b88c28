/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/tls_config.h"

#include "lb/tls_set.h"

#include <stdlib.h>

/* Adds SUB's lines to D, each with the place AT. */
static void complain_all(const struct config *file, const struct config_node *at,
                         const struct diag *sub, struct diag *d)
{
    struct slice rest = slice_of(sub->text);

    while (rest.len > 0) {
        struct slice line = slice_cut(&rest, '\n');

        if (line.len > 0)
            config_complain(file, at, d, "%.*s", SLICE_FMT(line));
    }
}

/* Whether the files can be used: what is read here is thrown away, and read again when it counts.
 */
static void try_out(const struct config *file, const struct config_node *at,
                    const struct tls_config *c, struct diag *d)
{
    struct diag sub = {0};
    struct tls_set *set = tls_set_create(c, &sub);

    if (set == NULL && sub.errors == 0)
        config_complain(file, at, d, "the certificate cannot be used");
    complain_all(file, at, &sub, d);
    tls_set_unref(set);
    diag_fini(&sub);
}

static void read_one(struct tls_config *c, const struct config *file,
                     const struct config_node *node, struct certificate_settings *s, struct diag *d)
{
    struct tls_config alone = *c;
    unsigned before = d->errors;

    settings_read(&certificate_table, file, node, s, NULL, d);
    if (s->certificate == NULL && d->errors == before)
        config_complain(file, node, d, "tls: certificate is required");
    if (s->key == NULL && d->errors == before)
        config_complain(file, node, d, "tls: key is required");
    alone.certificates = s;
    alone.ncertificates = 1;
    if (d->errors == before)
        try_out(file, node, &alone, d);
}

static void read_list(struct tls_config *c, const struct config *file, struct diag *d)
{
    const struct config_node *list = c->s.certificates;
    unsigned before = d->errors;

    if (c->s.certificate != NULL || c->s.key != NULL || c->s.ocsp != NULL) {
        config_complain(file, list, d, "tls: either certificate and key, or certificates");
        return;
    }
    if (list->kind != CONFIG_LIST || list->n == 0 || list->n > TLS_CERTIFICATES_MAX) {
        config_complain(file, list, d, "tls: certificates: expected a list of 1 to %d entries",
                        TLS_CERTIFICATES_MAX);
        return;
    }
    c->certificates = xcalloc(list->n, sizeof(*c->certificates));
    c->ncertificates = list->n;
    for (size_t i = 0; i < list->n; ++i)
        read_one(c, file, list->items[i], &c->certificates[i], d);
    if (d->errors == before && list->n > 1)
        try_out(file, list, c, d);
}

/* One certificate: its keys stand in `tls` itself. */
static void read_single(struct tls_config *c, const struct config *file,
                        const struct config_node *map, struct diag *d)
{
    if (c->s.certificate == NULL)
        config_complain(file, map, d, "tls: certificate is required");
    if (c->s.key == NULL)
        config_complain(file, map, d, "tls: key is required");
    if (c->s.certificate == NULL || c->s.key == NULL)
        return;
    c->certificates = xcalloc(1, sizeof(*c->certificates));
    c->ncertificates = 1;
    settings_defaults(&certificate_table, &c->certificates[0]);
    c->certificates[0].certificate = xstrdup(c->s.certificate);
    c->certificates[0].key = xstrdup(c->s.key);
    c->certificates[0].ocsp = c->s.ocsp != NULL ? xstrdup(c->s.ocsp) : NULL;
    try_out(file, map, c, d);
}

struct tls_config *tls_config_read(const struct config *file, const struct config_node *map,
                                   bool http2, struct diag *d)
{
    struct tls_config *c = xcalloc(1, sizeof(*c));
    unsigned before = d->errors;

    c->refs = 1;
    c->http2 = http2;
    settings_read(&tls_table, file, map, &c->s, NULL, d);
    if (d->errors == before &&
        (c->s.client_ca != NULL) != (c->s.client_verify != CLIENT_VERIFY_OFF))
        config_complain(file, map, d, "tls: client_ca and client_verify go together");
    if (d->errors == before && c->s.certificates != NULL)
        read_list(c, file, d);
    else if (d->errors == before)
        read_single(c, file, map, d);
    c->s.certificates = NULL;
    if (d->errors == before)
        return c;
    tls_config_unref(c);
    return NULL;
}

struct tls_config *tls_config_ref(struct tls_config *c)
{
    ++c->refs;
    return c;
}

void tls_config_unref(struct tls_config *c)
{
    if (c == NULL || --c->refs != 0)
        return;
    for (size_t i = 0; i < c->ncertificates; ++i)
        settings_fini(&certificate_table, &c->certificates[i]);
    free(c->certificates);
    settings_fini(&tls_table, &c->s);
    free(c);
}
