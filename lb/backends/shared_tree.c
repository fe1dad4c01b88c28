/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/backends/shared_tree.h"

#include <stdlib.h>

struct shared_tree {
    struct map_node node; /* lb->trees, by key */
    char *key;
    struct tree *tree;
    unsigned users;
};

enum err shared_tree_open(struct lb *lb, const struct app_settings *s, struct tree **out,
                          struct diag *d)
{
    const struct tree_options o = {.auth_file = s->zookeeper_auth,
                                   .session_timeout_ms = s->zookeeper_session_timeout_ms};
    char *key =
        xasprintf("%s\n%s\n%llu", s->tree, s->zookeeper_auth != NULL ? s->zookeeper_auth : "",
                  (unsigned long long)s->zookeeper_session_timeout_ms);
    struct shared_tree *t =
        map_entry(map_find(&lb->trees, key, strlen(key)), struct shared_tree, node);
    struct tree *tree = NULL;

    if (t == NULL) {
        enum err e = tree_open(lb->control, slice_of(s->tree), &o, &tree, d);

        if (e != ERR_OK) {
            free(key);
            return e;
        }
        t = xcalloc(1, sizeof(*t));
        t->key = xstrdup(key);
        t->tree = tree;
        map_add(&lb->trees, &t->node, t->key, strlen(t->key));
    }
    ++t->users;
    *out = t->tree;
    free(key);
    return ERR_OK;
}

void shared_tree_close(struct lb *lb, struct tree *tree)
{
    map_for_each_safe (struct shared_tree, t, &lb->trees, node) {
        if (t->tree != tree || --t->users > 0)
            continue;
        map_remove(&lb->trees, &t->node);
        tree_close(t->tree);
        free(t->key);
        free(t);
    }
}
