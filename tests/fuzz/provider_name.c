/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of providers in trees that other programs write to: each file name denotes at most one
 * provider, and encoding that provider's name gives the file name again. Names that cannot be file
 * names are rejected.
 */
#include "common/tree/provider_file.h"

#include "common/zookeeper/zookeeper_tree.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *name = xmalloc(size + 1);
    char file[PROVIDER_NAME_ROOM];
    char again[PROVIDER_NAME_ROOM];

    memcpy(name, data, size);
    name[size] = '\0';
    if (provider_name_encode(name, file)) {
        ASSERT(file[0] != '.');
        ASSERT(strchr(file, '/') == NULL);
        ASSERT(strcmp(file, "properties.json") != 0);
        ASSERT(provider_name_decode(file, again));
        ASSERT(strcmp(name, again) == 0);
    }
    if (provider_name_decode(name, again)) {
        ASSERT(provider_name_encode(again, file));
        ASSERT(strcmp(name, file) == 0);
    }
    /* A decoded name is never longer. */
    size_t len = strlen(name);
    zk_name_decode(name);
    ASSERT(strlen(name) <= len);
    free(name);
    return 0;
}
