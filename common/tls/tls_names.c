/* SPDX-License-Identifier: Apache-2.0
 *
 * One sorted table, wildcards in it as they are written: a host is looked for as it is, then with
 * "*" for its first label.
 */
#include "common/tls/tls_names.h"

#include <stdatomic.h>
#include <stdlib.h>

#include <openssl/x509v3.h>

struct owned_name {
    char *text; /* lower case */
    unsigned owner;
};

struct tls_names {
    _Atomic unsigned refs;
    struct owned_name *items;
    size_t n, room;
};

struct tls_names *tls_names_create(void)
{
    struct tls_names *n = xcalloc(1, sizeof(*n));

    atomic_init(&n->refs, 1);
    return n;
}

struct tls_names *tls_names_ref(struct tls_names *n)
{
    atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
    return n;
}

void tls_names_unref(struct tls_names *n)
{
    if (n == NULL || atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < n->n; ++i)
        free(n->items[i].text);
    free(n->items);
    free(n);
}

/* A "*" stands alone for the first label, with two labels after it at least. */
static bool usable(struct slice name)
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

static void lower(struct slice from, char *to)
{
    for (size_t i = 0; i < from.len; ++i)
        to[i] = ascii_lower(from.p[i]);
    to[from.len] = '\0';
}

static void add(struct tls_names *n, struct slice name, unsigned owner)
{
    if (n->n == n->room) {
        n->room = n->room != 0 ? 2 * n->room : 8;
        n->items = xrealloc(n->items, n->room * sizeof(*n->items));
    }
    char *text = xmalloc(name.len + 1);
    lower(name, text);
    n->items[n->n++] = (struct owned_name){text, owner};
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
        if (usable(name))
            add(n, name, owner);
    }
    GENERAL_NAMES_free(all);
    return count <= TLS_CERTIFICATE_NAMES_MAX;
}

static int by_name(const void *a, const void *b)
{
    const struct owned_name *x = a;
    const struct owned_name *y = b;
    int order = strcmp(x->text, y->text);

    return order != 0 ? order : (x->owner > y->owner) - (x->owner < y->owner);
}

void tls_names_sort(struct tls_names *n)
{
    size_t kept = 0;

    if (n->n != 0)
        qsort(n->items, n->n, sizeof(*n->items), by_name);
    for (size_t i = 0; i < n->n; ++i) {
        /* The first owner in the configuration keeps the name. */
        if (kept != 0 && strcmp(n->items[kept - 1].text, n->items[i].text) == 0)
            free(n->items[i].text);
        else
            n->items[kept++] = n->items[i];
    }
    n->n = kept;
}

bool tls_names_same(const struct tls_names *a, const struct tls_names *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; ++i) {
        if (strcmp(a->items[i].text, b->items[i].text) != 0)
            return false;
    }
    return a->n != 0;
}

static int by_text(const void *key, const void *item)
{
    return strcmp(key, ((const struct owned_name *)item)->text);
}

static const struct owned_name *look_up(const struct tls_names *n, const char *text)
{
    return n->n != 0 ? bsearch(text, n->items, n->n, sizeof(*n->items), by_text) : NULL;
}

bool tls_names_find(const struct tls_names *n, struct slice host, unsigned *owner)
{
    char text[TLS_NAME_MAX + 1];

    if (host.len > 0 && host.p[host.len - 1] == '.')
        --host.len;
    if (host.len == 0 || host.len > TLS_NAME_MAX || slice_find(host, '*') != SIZE_MAX ||
        memchr(host.p, '\0', host.len) != NULL)
        return false;
    lower(host, text);
    const struct owned_name *found = look_up(n, text);
    char *dot = strchr(text, '.');
    if (found == NULL && dot != NULL && dot != text) {
        dot[-1] = '*';
        found = look_up(n, dot - 1);
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
    const char *p = extension.p;
    size_t len = extension.len;

    if (len <= LIST_HEAD + ENTRY_HEAD || two_bytes(p) != len - LIST_HEAD)
        return false;
    p += LIST_HEAD;
    len -= LIST_HEAD;
    if (p[0] != TYPE_HOST_NAME || two_bytes(p + 1) != len - ENTRY_HEAD)
        return false;
    struct slice found = {p + ENTRY_HEAD, len - ENTRY_HEAD};
    if (found.len > TLS_NAME_MAX || memchr(found.p, '\0', found.len) != NULL)
        return false;
    *name = found;
    return true;
}
