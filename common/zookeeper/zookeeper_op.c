/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on single nodes in ZooKeeper. If the connection breaks during an operation, it is
 * unknown whether the operation was done. It is repeated after reconnecting, and every change is
 * designed so that repeating it is harmless:
 *
 *   read    READ ──► LIST
 *   write   READ (a provider's?) ──► ACT ──► CHECK (after a break: is the node ours?)
 *   others                           ACT ──► CHECK
 */
#include "common/tree/tree_op.h"
#include "common/zookeeper/zookeeper_tree.h"

enum {
    /* Connections that break during one call: an ensemble that elects a leader breaks one or two; a
       packet that the server does not accept breaks every one. */
    LOSSES_MAX = 8,
};

enum zookeeper_phase { READ, LIST, ACT, CHECK };

static void on_call(struct zk_call *c);

static struct zookeeper *tree_of(const struct tree_op *op)
{
    return container_of(op->tree, struct zookeeper, base);
}

/* Calls the server, or waits until there is a connection. */
static void step_op(struct tree_op *op)
{
    struct zk_session *s = tree_of(op)->session;
    const char *path = zk_server_path(op->at);

    if (!tree_of(op)->connected)
        return;
    if (op->phase != ACT)
        op->call = zk_read(s, op->phase == LIST ? ZK_CHILDREN : ZK_DATA, path, false, on_call, op);
    else if (op->kind == TREE_WRITE)
        op->call = zk_set(s, path, tree_op_bytes(op),
                          op->version != NULL ? (int32_t)*op->version : -1, on_call, op);
    else if (op->kind == TREE_CREATE)
        op->call = zk_create(s, path, tree_op_bytes(op), false, on_call, op);
    else if (op->kind == TREE_REMOVE)
        op->call = zk_delete(s, path, on_call, op);
    else
        op->call = zk_reset_acl(s, path, on_call, op);
}

static void zk_op_enter(struct tree_op *op, enum zookeeper_phase phase)
{
    op->phase = phase;
    op->losses = 0;
    step_op(op);
}

static void zk_op_finish(struct tree_op *op, enum err e)
{
    list_remove(&op->in_tree);
    tree_op_finish(op, e);
}

/* Ends OP with a problem of its node. */
static void zk_op_reject(struct tree_op *op, enum err e, const char *what)
{
    diag_add(op->diag, NULL, 0, 0, "%s: %s", zk_server_path(op->at), what);
    zk_op_finish(op, e);
}

static void on_op_lost(struct tree_op *op)
{
    if (++op->losses >= LOSSES_MAX)
        zk_op_reject(op, ERR_TOO_LARGE,
                     "reading it breaks the connection: it is too large, or has too many children");
    else
        step_op(op);
}

/* C did not succeed. */
static void on_op_failed(struct tree_op *op, const struct zk_call *c)
{
    static const char *const verbs[] = {[TREE_WRITE] = "write",
                                        [TREE_CREATE] = "make",
                                        [TREE_REMOVE] = "delete",
                                        [TREE_RESET_ACL] = "change the permissions of"};
    const char *verb = op->phase == LIST ? "list" : op->phase == READ ? "read" : verbs[op->kind];
    char what[256];
    enum err e = ERR_UNSUPPORTED;

    switch (c->result) {
    case ZNONODE:
        zk_op_finish(op, ERR_NOT_FOUND);
        return;
    case ZNODEEXISTS:
        zk_op_finish(op, ERR_EXISTS);
        return;
    case ZBADVERSION:
    case ZNOTEMPTY:
        zk_op_finish(op, ERR_BUSY);
        return;
    case ZNOAUTH:
        snprintf(what, sizeof(what), "not permitted to %s it (%s)", verb,
                 tree_of(op)->identity != NULL ? "the identity of the auth file is not permitted"
                                               : "--auth-file with a permitted identity");
        break;
    case ZNOCHILDRENFOREPHEMERALS:
        snprintf(what, sizeof(what), "a registration cannot have children");
        break;
    case ZBADARGUMENTS:
        snprintf(what, sizeof(what), "not a valid ZooKeeper path");
        break;
    default:
        snprintf(what, sizeof(what), "cannot %s it: %s", verb, zerror(c->result));
        e = ERR_SYSTEM;
        break;
    }
    zk_op_reject(op, e, what);
}

static void on_data(struct tree_op *op, const struct zk_call *c)
{
    struct tree_record *r = &op->record;

    if (op->kind == TREE_WRITE && c->stat.ephemeralOwner != 0) {
        zk_op_reject(op, ERR_UNSUPPORTED, "belongs to the process that registered it");
    } else if (op->kind == TREE_WRITE) {
        zk_op_enter(op, ACT);
    } else {
        tree_record_set_data(r, text_slice(&c->data));
        r->provider = c->stat.ephemeralOwner != 0;
        r->version = (uint64_t)(uint32_t)c->stat.version;
        if (c->stat.numChildren != 0)
            zk_op_enter(op, LIST);
        else
            zk_op_finish(op, ERR_OK);
    }
}

static void on_op_listed(struct tree_op *op, const struct zk_call *c)
{
    if (c->nthere > TREE_CHILDREN_MAX) {
        char what[64];

        snprintf(what, sizeof(what), "more than %d children", TREE_CHILDREN_MAX);
        zk_op_reject(op, ERR_TOO_LARGE, what);
        return;
    }
    op->record.children = json_incref(c->names);
    /* The server's own nodes are not part of a tree. */
    if (op->at[0] == '\0')
        json_object_del(op->record.children, "zookeeper");
    zk_op_finish(op, ERR_OK);
}

static void on_call(struct zk_call *c)
{
    struct tree_op *op = c->context;
    /* Whether ACT may have failed because the previous attempt succeeded and its response was lost.
     */
    bool repeated = op->phase == ACT && op->losses != 0;
    bool is_there = (op->kind == TREE_CREATE && c->result == ZNODEEXISTS) ||
                    (op->kind == TREE_WRITE && c->result == ZBADVERSION);

    op->call = NULL;
    if (c->result == ZCONNECTIONLOSS)
        on_op_lost(op);
    else if (op->phase == CHECK &&
             (c->result != ZOK || !slice_eq(text_slice(&c->data), tree_op_bytes(op))))
        zk_op_finish(op, op->kind == TREE_CREATE ? ERR_EXISTS : ERR_BUSY);
    else if (repeated && is_there)
        zk_op_enter(op, CHECK);
    else if (repeated && op->kind == TREE_REMOVE && c->result == ZNONODE)
        zk_op_finish(op, ERR_OK);
    else if (c->result != ZOK)
        on_op_failed(op, c);
    else if (op->phase == READ)
        on_data(op, c);
    else if (op->phase == LIST)
        on_op_listed(op, c);
    else
        zk_op_finish(op, ERR_OK);
}

void zk_ops_connected(struct zookeeper *t)
{
    struct tree_op *op;

    list_for_each_entry (op, &t->ops, in_tree) {
        if (op->call == NULL)
            step_op(op);
    }
}

void zk_ops_ended(struct zookeeper *t)
{
    struct tree_op *op;

    list_for_each_entry (op, &t->ops, in_tree) {
        op->losses += op->call != NULL;
        zk_call_forget(op->call);
        op->call = NULL;
    }
}

void zk_op_begin(struct tree_op *op)
{
    list_push_back(&tree_of(op)->ops, &op->in_tree);
    op->call = NULL;
    zk_op_enter(op, op->kind == TREE_READ || op->kind == TREE_WRITE ? READ : ACT);
}

void zk_op_abandon(struct tree_op *op)
{
    diag_add(op->diag, NULL, 0, 0,
             "zookeeper: no response from %s within %u ms (is it running? --timeout)",
             tree_of(op)->hosts, op->timeout_ms);
    /* An operation of kind TREE_RESOLVE has neither. */
    list_remove(&op->in_tree);
    zk_call_forget(op->call);
}
