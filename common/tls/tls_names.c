/* SPDX-License-Identifier: Apache-2.0
 *
 * Wildcards are stored as they are written: a host is looked up as it is, then with "*" in place of
 * its first label.
 */
#include "common/tls/tls_names.h"

#include <stdlib.h>

#include <openssl/x509v3.h>

#include "common/base/map.h"

struct owned_name {
    struct map_node node; /* by TEXT */
    unsigned owner;
    char text[]; /* lower case */
};

struct tls_names {
    _Atomic unsigned refs;
    struct map names;
};

struct tls_names *tls_names_create(void)
{
    struct tls_names *n = xcalloc(1, sizeof(*n));

    atomic_init(&n->refs, 1);
    return n;
}

DEFINE_REF(tls_names)

void tls_names_unref(struct tls_names *n)
{
    if (n == NULL || atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) != 1)
        return;
    map_for_each_safe (struct owned_name, o, &n->names, node) {
        map_remove(&n->names, &o->node);
        free(o);
    }
    free(n);
}

/* A "*" must be the whole first label, followed by at least two labels. */
static bool is_usable(struct slice name)
{
    if (name.len == 0 || name.len > TLS_NAME_MAX || memchr(name.p, '\0', name.len) != NULL)
        return false;
    if (slice_find(name, '*') == SIZE_MAX)
        return true;
    if (!slice_starts(name, SLICE_LIT("*.")))
        return false;
    struct slice rest = {name.p + 2, name.len - 2};
    size_t dot = slice_find(rest, '.');

    return slice_find(rest, '*') == SIZE_MAX && dot != SIZE_MAX && dot != 0 && dot != rest.len - 1;
}

static const struct owned_name *names_look_up(const struct tls_names *n, const char *text,
                                              size_t len)
{
    return map_entry(map_find(&n->names, text, len), struct owned_name, node);
}

bool tls_names_add(struct tls_names *n, X509 *certificate, unsigned owner)
{
    GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    int count = all != NULL ? sk_GENERAL_NAME_num(all) : 0;

    for (int i = 0; i < count && count <= TLS_CERTIFICATE_NAMES_MAX; ++i) {
        const GENERAL_NAME *g = sk_GENERAL_NAME_value(all, i);

        if (g->type != GEN_DNS)
            continue;
        struct slice name = {(const char *)ASN1_STRING_get0_data(g->d.dNSName),
                             (size_t)ASN1_STRING_length(g->d.dNSName)};
        if (!is_usable(name))
            continue;
        struct owned_name *o = xcalloc(1, sizeof(*o) + name.len);
        o->owner = owner;
        ascii_lower_copy(o->text, name);
        if (names_look_up(n, o->text, name.len) == NULL)
            map_add(&n->names, &o->node, o->text, name.len);
        else
            free(o); /* the name belongs to its first owner */
    }
    GENERAL_NAMES_free(all);
    return count <= TLS_CERTIFICATE_NAMES_MAX;
}

bool tls_names_same(const struct tls_names *a, const struct tls_names *b)
{
    map_for_each (struct owned_name, o, &a->names, node) {
        struct slice name = map_key(&o->node);

        if (names_look_up(b, name.p, name.len) == NULL)
            return false;
    }
    return map_count(&a->names) != 0 && map_count(&a->names) == map_count(&b->names);
}

bool tls_names_find(const struct tls_names *n, struct slice host, unsigned *owner)
{
    char text[TLS_NAME_MAX];

    if (host.len > 0 && host.p[host.len - 1] == '.')
        --host.len;
    if (host.len == 0 || host.len > TLS_NAME_MAX || slice_find(host, '*') != SIZE_MAX ||
        memchr(host.p, '\0', host.len) != NULL)
        return false;
    ascii_lower_copy(text, host);
    const struct owned_name *found = names_look_up(n, text, host.len);
    size_t dot = slice_find(host, '.');
    if (found == NULL && dot != SIZE_MAX && dot != 0) {
        text[dot - 1] = '*';
        found = names_look_up(n, text + dot - 1, host.len - dot + 1);
    }
    if (found != NULL)
        *owner = found->owner;
    return found != NULL;
}

/* ---- server_name ---- */

enum { LIST_HEAD = 2, ENTRY_HEAD = 3, TYPE_HOST_NAME = 0 };

static size_t two_bytes(const char *p)
{
    return (size_t)(unsigned char)p[0] << 8 | (unsigned char)p[1];
}

bool tls_server_name(struct slice extension, struct slice *name)
{
    if (extension.len <= LIST_HEAD + ENTRY_HEAD)
        return false;
    const char *entry = extension.p + LIST_HEAD;
    size_t len = extension.len - LIST_HEAD - ENTRY_HEAD;
    if (two_bytes(extension.p) != len + ENTRY_HEAD || entry[0] != TYPE_HOST_NAME ||
        two_bytes(entry + 1) != len || len > TLS_NAME_MAX ||
        memchr(entry + ENTRY_HEAD, '\0', len) != NULL)
        return false;
    *name = (struct slice){entry + ENTRY_HEAD, len};
    return true;
}
