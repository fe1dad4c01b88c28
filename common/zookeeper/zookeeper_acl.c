/* SPDX-License-Identifier: Apache-2.0
 *
 * A digest identity is shown to the server as it is, and named in access lists by what the server
 * makes of it: SHA-1, in base 64.
 */
#include "common/zookeeper/zookeeper_acl.h"

#include "common/base/text.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

enum { DIGEST_BYTES = 20, DIGEST_ROOM = (DIGEST_BYTES + 2) / 3 * 4 + 1 };

/* The id of "USER:PASSWORD" in an ACL: user, colon, and what the server makes of the whole. */
static char *digest_id(const char *identity)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned char coded[DIGEST_ROOM];
    unsigned int len = 0;
    struct slice rest = slice_of(identity);
    struct slice user = slice_cut(&rest, ':');

    if (EVP_Digest(identity, strlen(identity), hash, &len, EVP_sha1(), NULL) != 1 ||
        len != DIGEST_BYTES)
        return NULL;
    EVP_EncodeBlock(coded, hash, DIGEST_BYTES);
    return xasprintf("%.*s:%s", SLICE_FMT(user), (const char *)coded);
}

static void acl_add(struct ACL_vector *v, int32_t perms, const char *scheme, char *id)
{
    v->data = xrealloc(v->data, (size_t)(v->count + 1) * sizeof(*v->data));
    v->data[v->count++] = (struct ACL){.perms = perms, .id = {.scheme = xstrdup(scheme), .id = id}};
}

void zk_acls_make(struct ACL_vector *own, struct ACL_vector *open, const char *creator,
                  const char *identity)
{
    char *own_id = digest_id(creator);

    if (own_id != NULL)
        acl_add(own, ZOO_PERM_ALL, "digest", own_id);
    acl_add(own, ZOO_PERM_READ, "world", xstrdup("anyone"));
    char *id = identity != NULL ? digest_id(identity) : NULL;
    if (id != NULL)
        acl_add(open, ZOO_PERM_ALL, "digest", id);
    acl_add(open, id != NULL ? ZOO_PERM_READ : ZOO_PERM_ALL, "world", xstrdup("anyone"));
}

void zk_acl_free(struct ACL_vector *v)
{
    for (int i = 0; i < v->count; ++i) {
        free(v->data[i].id.scheme);
        free(v->data[i].id.id);
    }
    free(v->data);
}
