/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree of four levels: the total, addresses, their connections, claims. The weight of a node is
 * the sum of its parts. A claim leaves the tree when it is revoked, so that its part is free at
 * once, and its loop has what belongs to it closed a moment later.
 */
#include "common/net/fair_shares.h"

#include <stdlib.h>

enum {
    /* A claim is revoked for a client that has less than this part of what its client has. */
    FAIR_FACTOR = 2,
    PARTS_FIRST = 4,
};

/* Of an address (the key is ADDRESS), or of a connection (the key is both). */
struct account {
    struct fair_node node;
    struct map_node in_map;
    struct fair_owner key;
};

struct fair_loop {
    struct fair_shares *shares;
    struct loop *loop;
    void (*report)(struct fair_claim *c);
    struct loop_message message;
    struct list revoked; /* under the lock */
    bool posted;         /* under the lock: MESSAGE is in flight */
    bool over;           /* this loop only */
};

/* ---- heaps ---- */

static void heap_set(struct fair_node *parent, struct fair_node *n, size_t at)
{
    parent->parts[at] = n;
    n->at = at;
}

/* Restores the order around N, of which the weight has changed. */
static void sift_node(struct fair_node *n)
{
    struct fair_node *parent = n->parent;
    size_t at = n->at;

    while (at != 0 && parent->parts[(at - 1) / 2]->weight < n->weight) {
        heap_set(parent, parent->parts[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < parent->nparts &&
            parent->parts[child + 1]->weight > parent->parts[child]->weight)
            ++child;
        if (child >= parent->nparts || parent->parts[child]->weight <= n->weight)
            break;
        heap_set(parent, parent->parts[child], at);
        at = child;
    }
    heap_set(parent, n, at);
}

static void attach_node(struct fair_node *parent, struct fair_node *n)
{
    if (parent->nparts == parent->room) {
        parent->room = parent->room != 0 ? 2 * parent->room : PARTS_FIRST;
        parent->parts = xrealloc(parent->parts, parent->room * sizeof(*parent->parts));
    }
    n->parent = parent;
    heap_set(parent, n, parent->nparts++);
}

/* N has no weight. */
static void detach_node(struct fair_node *n)
{
    struct fair_node *parent = n->parent;
    struct fair_node *last = parent->parts[--parent->nparts];

    if (last != n) {
        heap_set(parent, last, n->at);
        sift_node(last);
    }
    n->parent = NULL;
    if (parent->nparts == 0) {
        free(parent->parts);
        parent->parts = NULL;
        parent->room = 0;
    }
}

/* Unsigned arithmetic wraps, which is correct for negative changes. */
static void add_weight(struct fair_shares *s, struct fair_node *n, uint64_t change)
{
    for (; n != &s->all; n = n->parent) {
        n->weight += change;
        sift_node(n);
    }
    s->all.weight += change;
}

static void publish_used(struct fair_shares *s)
{
    atomic_store_explicit(&s->used, s->all.weight + s->settled, memory_order_relaxed);
}

/* ---- accounts ---- */

static struct fair_node *account_of(struct fair_shares *s, const struct fair_owner *key, size_t len)
{
    struct map_node *found = map_find(&s->accounts, key, len);

    if (found != NULL)
        return &container_of(found, struct account, in_map)->node;
    struct account *a = xcalloc(1, sizeof(*a));
    a->key = *key;
    map_add(&s->accounts, &a->in_map, &a->key, len);
    attach_node(len == sizeof(*key) ? account_of(s, key, sizeof(key->address)) : &s->all, &a->node);
    return &a->node;
}

/* Detaches N, without weight, and the accounts that are empty then. */
static void remove_node(struct fair_shares *s, struct fair_node *n)
{
    struct fair_node *parent = n->parent;

    detach_node(n);
    while (parent != &s->all && parent->nparts == 0) {
        struct account *a = container_of(parent, struct account, node);
        parent = a->node.parent;
        detach_node(&a->node);
        map_remove(&s->accounts, &a->in_map);
        free(a);
    }
}

/* Removes C from the tree, with all that it has, and returns that. */
static uint64_t drop_claim(struct fair_shares *s, struct fair_claim *c)
{
    uint64_t weight = c->node.weight;

    if (c->node.parent == NULL)
        return 0;
    add_weight(s, &c->node, -weight);
    remove_node(s, &c->node);
    return weight;
}

/* ---- revoking ---- */

/* Whether N, an address or a connection, has a claim that is not its only one. The only one is not
 * revoked: among clients with one upload each, the largest one would be lost for one that has just
 * begun, and with more and more of these none would be completed. */
static bool has_several(const struct fair_node *n)
{
    return n->nparts > 1 || n->parts[0]->nparts > 1;
}

/* Returns the claim that has to make place for C; NULL: C is among the largest, or the largest
 * client has one claim only. */
static struct fair_claim *largest_beside(struct fair_shares *s, const struct fair_claim *c)
{
    const struct fair_node *own = c->node.parent;
    struct fair_node *n = s->all.parts[0];

    if (n->weight <= FAIR_FACTOR * own->parent->weight) {
        n = own->parent->parts[0];
        if (n->weight <= FAIR_FACTOR * own->weight)
            return NULL;
    }
    if (!has_several(n))
        return NULL;
    while (n->nparts != 0)
        n = n->parts[0];
    return container_of(n, struct fair_claim, node);
}

static void on_revoked(struct loop_message *m)
{
    struct fair_loop *l = container_of(m, struct fair_loop, message);
    struct list revoked;
    struct fair_claim *c;

    if (l->over) {
        free(l);
        return;
    }
    pthread_mutex_lock(&l->shares->lock);
    l->posted = false;
    list_take(&revoked, &l->revoked);
    pthread_mutex_unlock(&l->shares->lock);
    /* A report may end other claims, which leave the list then. */
    while ((c = list_pop_entry(&revoked, struct fair_claim, revoked)) != NULL)
        l->report(c);
}

struct fair_loop *fair_loop_create(struct fair_shares *s, struct loop *l,
                                   void (*revoked)(struct fair_claim *c))
{
    struct fair_loop *f = xcalloc(1, sizeof(*f));

    f->shares = s;
    f->loop = l;
    f->report = revoked;
    f->message.run = on_revoked;
    list_init(&f->revoked);
    return f;
}

void fair_loop_destroy(struct fair_loop *l)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->shares->lock);
    ASSERT(list_empty(&l->revoked));
    bool posted = l->posted;
    pthread_mutex_unlock(&l->shares->lock);
    l->over = true;
    if (!posted)
        free(l);
}

/* ---- claims ---- */

struct fair_owner fair_owner_of(const struct addr *client, const void *connection)
{
    struct fair_owner o = {.connection = connection};

    (void)address_key(client, ADDRESS_COUNTS_OF_CLIENTS, o.address);
    return o;
}

void fair_shares_fini(struct fair_shares *s)
{
    ASSERT(s->all.nparts == 0);
    ASSERT(map_count(&s->accounts) == 0);
    pthread_mutex_destroy(&s->lock);
}

/* The message is posted under the lock, so that V's loop does not end in between. */
static void revoke_claim(struct fair_shares *s, struct fair_claim *v)
{
    struct fair_loop *l = v->loop;

    (void)drop_claim(s, v);
    v->is_revoked = true;
    list_push_back(&l->revoked, &v->revoked);
    if (!l->posted)
        loop_post(l->loop, &l->message);
    l->posted = true;
}

uint64_t fair_take(struct fair_loop *l, struct fair_claim *c, const struct fair_owner *owner,
                   uint64_t n, bool revokes)
{
    struct fair_shares *s = l->shares;
    struct fair_claim *largest = NULL;
    uint64_t max = atomic_load_explicit(&s->max, memory_order_relaxed);

    ASSERT(c->settled == 0);
    pthread_mutex_lock(&s->lock);
    if (c->is_revoked) {
        pthread_mutex_unlock(&s->lock);
        return 0;
    }
    c->loop = l;
    if (c->node.parent == NULL)
        attach_node(account_of(s, owner, sizeof(*owner)), &c->node);
    add_weight(s, &c->node, n);
    while (revokes && max != 0 && s->all.weight + s->settled > max &&
           (largest = largest_beside(s, c)) != NULL)
        revoke_claim(s, largest);
    uint64_t all = s->all.weight + s->settled;
    uint64_t over = max != 0 && all > max ? all - max : 0;
    if (over > n)
        over = n;
    add_weight(s, &c->node, -over);
    if (c->node.weight == 0)
        remove_node(s, &c->node);
    publish_used(s);
    pthread_mutex_unlock(&s->lock);
    return n - over;
}

void fair_give_back(struct fair_claim *c, uint64_t n)
{
    if (c->loop == NULL)
        return;
    struct fair_shares *s = c->loop->shares;
    pthread_mutex_lock(&s->lock);
    if (c->node.parent != NULL) {
        add_weight(s, &c->node, -(n < c->node.weight ? n : c->node.weight));
        if (c->node.weight == 0)
            remove_node(s, &c->node);
    }
    publish_used(s);
    pthread_mutex_unlock(&s->lock);
}

void fair_end(struct fair_claim *c)
{
    if (c->loop == NULL)
        return;
    struct fair_shares *s = c->loop->shares;
    pthread_mutex_lock(&s->lock);
    (void)drop_claim(s, c);
    s->settled -= c->settled;
    list_remove(&c->revoked);
    publish_used(s);
    pthread_mutex_unlock(&s->lock);
    *c = (struct fair_claim){0};
}

bool fair_settle(struct fair_claim *c)
{
    if (c->loop == NULL)
        return true;
    struct fair_shares *s = c->loop->shares;
    pthread_mutex_lock(&s->lock);
    uint64_t weight = drop_claim(s, c);
    c->settled += weight;
    s->settled += weight;
    list_remove(&c->revoked);
    bool kept = !c->is_revoked;
    pthread_mutex_unlock(&s->lock);
    return kept;
}

uint64_t fair_others(struct fair_loop *l, const struct fair_claim *c,
                     const struct fair_owner *owner)
{
    struct fair_shares *s = l->shares;

    pthread_mutex_lock(&s->lock);
    struct map_node *found = map_find(&s->accounts, owner, sizeof(owner->address));
    uint64_t all = found != NULL ? container_of(found, struct account, in_map)->node.weight : 0;
    uint64_t own = c->node.parent != NULL ? c->node.weight : 0;
    pthread_mutex_unlock(&s->lock);
    return all - own;
}
