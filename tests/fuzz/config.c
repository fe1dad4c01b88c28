/* SPDX-License-Identifier: Apache-2.0
 *
 * A configuration is either rejected with a reason or a tree within its bounds, each node with a
 * place.
 */
#include "common/config/config.h"

#include "common/base/limits.h"
#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"

static size_t check_node(const struct config_node *n, size_t depth)
{
    size_t nodes = 1;

    ASSERT(depth <= CONFIG_DEPTH_MAX);
    ASSERT(n->line != 0);
    ASSERT(n->column != 0);
    if (n->kind == CONFIG_SCALAR) {
        ASSERT(n->text.p != NULL);
        ASSERT(strlen(n->text.p) == n->text.len);
        return nodes;
    }
    for (size_t i = 0; i < n->n; ++i) {
        nodes += check_node(n->items[i], depth + 1);
        if (n->kind != CONFIG_MAP)
            continue;
        nodes += check_node(n->keys[i], depth + 1);
        /* Duplicates are rejected, so that this one is the one. */
        ASSERT(config_get(n, n->keys[i]->text.p) == n->items[i]);
    }
    return nodes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config c;
    struct diag d = {0};

    if (!config_parse("f", (struct slice){(const char *)data, size}, &c, &d)) {
        ASSERT(d.errors != 0);
        ASSERT(d.text != NULL);
        diag_fini(&d);
        return 0;
    }
    ASSERT(d.errors == 0);
    ASSERT(c.root->kind == CONFIG_MAP);
    ASSERT(check_node(c.root, 0) <= CONFIG_NODES_MAX);
    config_fini(&c);
    return 0;
}
