/* SPDX-License-Identifier: Apache-2.0
 *
 * What is the same in every back end: the deadline, the data of properties, the nodes above a new
 * one, links.
 */
#include "common/tree/tree_op.h"

#include "common/tree/node_data.h"

#include <stdlib.h>

void tree_record_fini(struct tree_record *r)
{
    json_decref(r->children);
    free(r->problem);
    json_decref(r->properties);
    *r = (struct tree_record){0};
}

void tree_record_set_data(struct tree_record *r, struct slice bytes)
{
    char why[JSON_WHY_ROOM];

    r->properties = node_data_decode(bytes, why);
    r->problem = why[0] != '\0' ? xstrdup(why) : NULL;
}

static void run_done(struct loop_message *m)
{
    struct tree_op *op = container_of(m, struct tree_op, message);

    --op->tree->watches;
    op->done(op);
}

static void tree_op_end(struct tree_op *op, enum err e)
{
    timer_stop(&op->deadline);
    timer_stop(&op->again);
    text_fini(&op->bytes);
    if (op->kind == TREE_RESOLVE)
        follower_fini(&op->follower);
    if (e != ERR_OK)
        tree_record_fini(&op->record);
    op->result = e;
    op->message.run = run_done;
    loop_post(op->tree->loop, &op->message);
}

static void on_tree_op_deadline(struct timer *timer)
{
    struct tree_op *op = container_of(timer, struct tree_op, deadline);

    op->tree->backend->abandon(op);
    tree_op_end(op, ERR_TIMEOUT);
}

struct slice tree_op_bytes(const struct tree_op *op)
{
    /* Nodes above a new one are empty. */
    bool has_data = op->bytes.len != 0 && strcmp(op->at, op->path) == 0;

    return has_data ? text_slice(&op->bytes) : SLICE_LIT("");
}

void tree_op_finish(struct tree_op *op, enum err e)
{
    size_t len = strlen(op->at);
    bool is_whole = op->path[len] == '\0';

    if (op->kind == TREE_CREATE && e == ERR_NOT_FOUND && !op->parents) {
        op->parents = true;
        len = 0;
    } else if (op->parents && !is_whole && (e == ERR_OK || e == ERR_EXISTS)) {
        const char *next = strchr(op->path + len + 1, '/');

        len = next != NULL ? (size_t)(next - op->path) : strlen(op->path);
    } else {
        tree_op_end(op, e);
        return;
    }
    /* The first LEN bytes of the path are created next. */
    memcpy(op->at, op->path, len);
    op->at[len] = '\0';
    op->tree->backend->begin(op);
}

static void evaluate_op(struct timer *timer)
{
    struct tree_op *op = container_of(timer, struct tree_op, follower.evaluate);
    const struct tree_node *n = NULL;

    follower_begin(&op->follower);
    enum tree_found found = follow_path(&op->follower, op->path, PART_NODE, &n);
    if (found == FOUND_BAD)
        diag_add(op->diag, NULL, 0, 0, "%s", text_cstr(&op->follower.problem));
    else if (found != FOUND_PENDING)
        memcpy(op->at, n->path, strlen(n->path) + 1);
    follower_end(&op->follower);
    if (found != FOUND_PENDING)
        tree_op_end(op, found == FOUND_NODE      ? ERR_OK
                        : found == FOUND_MISSING ? ERR_NOT_FOUND
                                                 : ERR_RANGE);
}

void tree_op_begin(struct tree *t, struct tree_op *op)
{
    const struct tree_backend *b = t->backend;
    enum err e = ERR_OK;

    op->tree = t;
    op->record = (struct tree_record){0};
    op->parents = false;
    op->bytes = (struct text){0};
    op->in_tree = (struct list){0};
    op->call = NULL;
    timer_init(&op->deadline, on_tree_op_deadline);
    timer_init(&op->again, NULL);
    ++t->watches;
    if (op->kind == TREE_RESOLVE)
        follower_init(&op->follower, t, op->path, 0, evaluate_op);
    /* A node that others have made may be deeper than any path of ours. */
    if (strlen(op->path) > TREE_PATH_MAX) {
        diag_add(op->diag, NULL, 0, 0, "%.60s...: path longer than %d bytes", op->path,
                 TREE_PATH_MAX);
        e = ERR_TOO_LARGE;
    } else if (op->properties != NULL) {
        e = node_data_encode(op->properties, b->text_as_json, b->data_max, &op->bytes);
        if (e == ERR_TOO_LARGE)
            diag_add(op->diag, NULL, 0, 0,
                     "%s: over %zu bytes, or nested too deep, or too many values",
                     tree_path_shown(op->path), b->data_max);
        else if (e != ERR_OK)
            diag_add(op->diag, NULL, 0, 0,
                     "%s: bytes that are not text can only be string_value, the only property",
                     tree_path_shown(op->path));
    }
    if (e != ERR_OK) {
        tree_op_end(op, e);
        return;
    }
    memcpy(op->at, op->path, strlen(op->path) + 1);
    if (op->timeout_ms != 0)
        timer_start(t->loop, &op->deadline, op->timeout_ms);
    if (op->kind == TREE_RESOLVE)
        evaluate_op(&op->follower.evaluate);
    else
        b->begin(op);
}
