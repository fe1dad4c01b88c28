/* SPDX-License-Identifier: Apache-2.0
 *
 * What was read of a node, and how it is shown to its spot. A list of providers is shown once every
 * provider in it was read; after that, those that come are shown when they have been.
 */
#include "common/base/json.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/zookeeper/zookeeper_tree.h"

#include <stdio.h>
#include <stdlib.h>

struct zk_node *zk_node_get(struct zookeeper *t, const char *path)
{
    size_t len = strlen(path);
    struct zk_node *n = map_entry(map_find(&t->nodes, path, len), struct zk_node, in_tree);

    if (n != NULL)
        return n;
    n = xcalloc(1, sizeof(*n) + len + 1);
    memcpy(n->path, path, len + 1);
    n->tree = t;
    list_init(&n->in_list);
    list_init(&n->members);
    zk_read_init(&n->data, ZK_READ_DATA, n);
    zk_read_init(&n->children, ZK_READ_CHILDREN, n);
    map_add(&t->nodes, &n->in_tree, n->path, len);
    return n;
}

/* N is a provider in its list no longer. */
static void leave_list(struct zk_node *n)
{
    struct zk_node *list = n->list_of;

    ASSERT(list != NULL);
    list_remove(&n->in_list);
    n->list_of = NULL;
    --list->nmembers;
    if (!n->known)
        --list->unread;
    list->changed = true;
    zk_node_put(n);
}

static void drop_members(struct zk_node *list)
{
    struct list *node;

    while ((node = list_pop_front(&list->members)) != NULL)
        leave_list(list_entry(node, struct zk_node, in_list));
}

void zk_node_put(struct zk_node *n)
{
    if (n->spot != NULL || n->list_of != NULL)
        return;
    drop_members(n);
    zk_read_fini(&n->data);
    zk_read_fini(&n->children);
    map_remove(&n->tree->nodes, &n->in_tree);
    json_decref(n->properties);
    free(n->problem);
    name_set_drop(n->names);
    free(n);
}

static void touch(struct zk_node *n, unsigned parts)
{
    if (n->spot != NULL)
        /* Of a node that is not known yet, only the node itself was requested. */
        tree_spot_touch(n->spot, n->spot->known ? parts : PART_NODE | parts);
}

/* ---- data ---- */

/* N's data, or that there is none, is known now. */
static void data_known(struct zk_node *n)
{
    struct zk_node *list = n->list_of;
    bool first = !n->known;

    n->known = true;
    touch(n, PART_NODE | PART_PROVIDERS | PART_CHILDREN);
    if (list == NULL)
        return;
    if (first)
        --list->unread;
    list->changed = true;
    if (list->unread == 0)
        list->complete = true;
    if (list->complete)
        touch(list, PART_PROVIDERS);
}

static void set_properties(struct zk_node *n, json_t *properties, const char *problem)
{
    json_decref(n->properties);
    n->properties = properties;
    free(n->problem);
    n->problem = xstrdup(problem);
}

/* Decodes as zc.zk does: empty data means no properties. Returns NULL, with the reason in WHY, if
 * BYTES are not a JSON object. */
static json_t *decode(struct slice bytes, char why[JSON_WHY_ROOM])
{
    json_t *v = NULL;

    while (bytes.len != 0 && strchr(" \t\r\n", bytes.p[bytes.len - 1]) != NULL)
        --bytes.len;
    if (bytes.len == 0)
        return json_object();
    if (json_parse(bytes, NODE_BYTES_MAX, &v, why) != ERR_OK)
        return NULL;
    if (json_is_object(v))
        return v;
    json_decref(v);
    snprintf(why, JSON_WHY_ROOM, "not a JSON object");
    return NULL;
}

/* A provider counts whatever its data are; zc.zk calls a raw text `string_value`. */
static json_t *decode_member(const struct zk_node *n, struct slice bytes)
{
    char why[JSON_WHY_ROOM] = "over its limit";
    char path[LOG_CUT_ROOM];
    json_t *v = bytes.len <= PROVIDER_BYTES_MAX ? decode(bytes, why) : NULL;

    if (v != NULL)
        return v;
    log_warn(NULL, "tree-bad-provider", "path=%s reason=\"%s\"", log_cut(slice_of(n->path), path),
             why);
    v = json_object();
    if (bytes.len <= PROVIDER_BYTES_MAX)
        json_object_set_new(v, "string_value", json_stringn(bytes.p, bytes.len));
    return v;
}

void zk_node_data(struct zk_node *n, const struct zk_call *c)
{
    char why[JSON_WHY_ROOM] = "";
    json_t *v = NULL;

    n->exists = c->result == ZK_OK;
    n->birth = (uint64_t)c->stat.birth_zxid;
    if (n->exists)
        v = n->spot == NULL ? decode_member(n, text_slice(&c->data))
                            : decode(text_slice(&c->data), why);
    /* A provider that is gone is one until its list says so: the list may be gone too, as a whole,
       and then it is not an empty one. */
    if (n->exists || n->list_of == NULL)
        set_properties(n, v, v == NULL && n->exists ? why : NULL);
    data_known(n);
}

/* ---- children ---- */

static void add_member(struct zk_node *list, const char *name)
{
    char path[TREE_PATH_MAX + 1];

    int len = snprintf(path, sizeof(path), "%s/%s", list->path, name);

    if (len < 0 || len > TREE_PATH_MAX) {
        char escaped[LOG_CUT_ROOM];

        log_warn(NULL, "tree-bad-provider", "path=%s reason=\"name too long\"",
                 log_cut(slice_of(list->path), escaped));
        return;
    }
    struct zk_node *n = zk_node_get(list->tree, path);
    n->marked = true;
    if (n->list_of != NULL) {
        /* It went and came again, and was read in between. */
        if (n->known && !n->exists)
            zk_read_want(&n->data);
        return;
    }
    n->list_of = list;
    list_push_back(&list->members, &n->in_list);
    ++list->nmembers;
    list->changed = true;
    if (n->known)
        return;
    ++list->unread;
    zk_read_want(&n->data);
}

static void update_members(struct zk_node *list, const struct zk_call *c)
{
    struct list *it;
    size_t max = c->nnames;

    if (c->nthere > TREE_PROVIDERS_MAX) {
        char path[LOG_CUT_ROOM];

        max = TREE_PROVIDERS_MAX;
        log_warn(NULL, "tree-too-many-providers", "path=%s count=%zu limit=%d",
                 log_cut(slice_of(list->path), path), c->nthere, TREE_PROVIDERS_MAX);
    }
    list_for_each (it, &list->members)
        list_entry(it, struct zk_node, in_list)->marked = false;
    for (size_t i = 0; i < max; ++i)
        add_member(list, c->names[i]);
    for (it = list->members.next; it != &list->members;) {
        struct zk_node *n = list_entry(it, struct zk_node, in_list);

        it = it->next;
        if (!n->marked)
            leave_list(n);
    }
    list->members_read = true;
    if (list->unread == 0)
        list->complete = true;
}

void zk_node_children(struct zk_node *n, struct zk_call *c)
{
    name_set_drop(n->names);
    n->names = NULL;
    n->children_known = c->result == ZK_OK;
    if (c->result != ZK_OK) {
        /* Nothing watches for one that is not there but its data; and it may be back already, with
           its data read: these ask for the children again. */
        zk_read_want(&n->data);
        return;
    }
    size_t max = c->nnames < TREE_CHILDREN_MAX ? c->nnames : TREE_CHILDREN_MAX;

    if (n->spot != NULL && (n->spot->parts & PART_PROVIDERS) != 0)
        update_members(n, c);
    n->names = name_set_create(max);
    for (size_t i = 0; i < max; ++i) {
        n->names->names[i] = c->names[i];
        c->names[i] = NULL;
    }
    name_set_sort(n->names);
    touch(n, PART_PROVIDERS | PART_CHILDREN);
}

void zk_node_unreadable(struct zk_read *r, const char *why)
{
    struct zk_node *n = r->node;

    if (r->kind == ZK_READ_CHILDREN) {
        name_set_drop(n->names);
        n->names = NULL;
        n->children_known = true;
        touch(n, PART_PROVIDERS | PART_CHILDREN);
        return;
    }
    n->exists = true;
    /* A provider is there, whether its properties may be read or not. */
    if (n->list_of == NULL || n->properties == NULL)
        set_properties(n, n->list_of != NULL ? json_object() : NULL, why);
    data_known(n);
}

/* ---- for the spot ---- */

static void show_providers(struct zk_node *n)
{
    struct tree_spot *s = n->spot;
    struct provider_set *set = provider_set_create(n->nmembers);
    struct list *it;
    size_t i = 0;

    list_for_each (it, &n->members) {
        const struct zk_node *m = list_entry(it, struct zk_node, in_list);
        const char *name = strrchr(m->path, '/') + 1;

        /* One that was gone before it was read. */
        if (!m->known || m->properties == NULL)
            continue;
        struct tree_provider *p = &set->items[i++];
        p->name = xmalloc(strlen(name) + 1);
        zk_name_decode(name, p->name);
        p->properties = m->properties != NULL ? json_incref(m->properties) : json_object();
    }
    set->n = i;
    provider_set_sort(set);
    provider_set_drop(s->providers);
    s->providers = set;
    n->changed = false;
}

static void show_children(struct zk_node *n)
{
    struct tree_spot *s = n->spot;

    name_set_drop(s->children);
    s->children = n->names;
    if (n->names != NULL)
        ++n->names->refs;
    if (n->names == NULL) {
        provider_set_drop(s->providers);
        s->providers = NULL;
        n->changed = true;
    } else if ((s->parts & PART_PROVIDERS) != 0 && (n->changed || s->providers == NULL)) {
        show_providers(n);
    }
}

void zk_node_show(struct zk_node *n)
{
    struct tree_spot *s = n->spot;
    bool lists = (s->parts & (PART_PROVIDERS | PART_CHILDREN)) != 0;

    if (!n->known)
        return;
    if (!n->exists) {
        tree_spot_set_missing(s);
        n->children_known = n->members_read = n->complete = false;
        drop_members(n);
        provider_set_drop(s->providers);
        s->providers = NULL;
        name_set_drop(s->children);
        s->children = NULL;
        return;
    }
    s->birth = n->birth;
    if (n->properties != NULL)
        tree_spot_set_properties(s, json_incref(n->properties));
    else
        tree_spot_set_problem(s, n->problem);
    if (!lists)
        return;
    bool providers = (s->parts & PART_PROVIDERS) != 0;
    if (!n->children_known || (providers && n->names != NULL && !n->members_read))
        zk_read_want(&n->children);
    /* Of a list that was never read nothing is said until it has been. */
    if (!n->children_known || (providers && n->names != NULL && !n->complete))
        s->known = false;
    else
        show_children(n);
}
