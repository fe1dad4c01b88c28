/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl tree print, export: a part of the tree is read node by node, then printed as text.
 * Nodes that cannot be read do not prevent the others from being printed.
 */
#include "ctl/tree/tree.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/json.h"
#include "ctl/cli/ctl.h"

struct walk {
    struct tree_command *command;
    bool providers;
    bool remarks;
    size_t nodes;
    size_t unread;
};

static void remark(const struct walk *w, struct tree_text_node *n, const struct tree_record *s)
{
    if (!w->remarks)
        return;
    if (s->problem != NULL)
        n->remark = xasprintf("%snot JSON: %s", s->provider ? "a provider; " : "", s->problem);
    else if (s->provider)
        n->remark = xstrdup("a provider");
}

static enum err walk(struct walk *w, const char *path, struct slice name, size_t depth,
                     struct tree_text_node *above);

static enum err walk_children(struct walk *w, const char *path, const struct tree_record *s,
                              size_t depth, struct tree_text_node *n)
{
    enum err e = ERR_OK;

    for (size_t i = 0; e == ERR_OK && i < s->nchildren; ++i) {
        char *below = xasprintf("%s/%s", path, s->children[i]);

        e = walk(w, below, slice_of(s->children[i]), depth + 1, n);
        free(below);
    }
    tree_text_sort(n);
    return e;
}

/* Whether the limits allow another node. */
static enum err check_room(struct walk *w, const char *path, size_t depth)
{
    if (w->nodes++ == TREE_TEXT_NODES_MAX) {
        diag_add(&w->command->diag, NULL, 0, 0, "%s: more than %d nodes in all: want a part of it",
                 path, TREE_TEXT_NODES_MAX);
        return ERR_SYSTEM;
    }
    if (depth == TREE_DEPTH_MAX) {
        diag_add(&w->command->diag, NULL, 0, 0, "%s: nested deeper than %d", path, TREE_DEPTH_MAX);
        return ERR_TOO_LARGE;
    }
    return ERR_OK;
}

/* The node at PATH becomes a child NAME of ABOVE, with all below. */
static enum err walk(struct walk *w, const char *path, struct slice name, size_t depth,
                     struct tree_text_node *above)
{
    struct tree_record s = {0};
    enum err e = check_room(w, path, depth);

    if (e == ERR_OK)
        e = tree_command_read(w->command, path, &s);
    if (e == ERR_NOT_FOUND && depth != 0)
        return ERR_OK; /* deleted meanwhile */
    if (e == ERR_OK && s.provider && !w->providers) {
        tree_record_fini(&s);
        return ERR_OK;
    }
    if (e != ERR_OK && e != ERR_UNSUPPORTED && e != ERR_TOO_LARGE)
        return e;
    struct tree_text_node *n = tree_text_create(name);
    tree_text_append(above, n);
    if (e != ERR_OK) {
        ++w->unread;
        n->remark = xstrdup("cannot be read");
        return ERR_OK;
    }
    json_decref(n->properties);
    n->properties = json_incref(s.properties);
    remark(w, n, &s);
    e = walk_children(w, path, &s, depth, n);
    tree_record_fini(&s);
    return e;
}

/* Returns N as {"properties": {...}, "nodes": {NAME: {...}}}, each only if not empty; owned by the
 * caller. *LEFT_OUT counts the nodes with a name that is not UTF-8. */
static json_t *json_of(const struct tree_text_node *n, size_t *left_out)
{
    json_t *o = json_object();
    json_t *nodes = n->nchildren != 0 ? json_object() : NULL;

    for (size_t i = 0; i < n->nchildren; ++i)
        *left_out += json_object_set_new(nodes, n->children[i]->name,
                                         json_of(n->children[i], left_out)) != 0;
    if (json_object_size(n->properties) != 0)
        json_object_set(o, "properties", n->properties);
    if (nodes != NULL)
        json_object_set_new(o, "nodes", nodes);
    if (n->remark != NULL)
        json_object_set_new(o, "remark", json_string(n->remark));
    return o;
}

static size_t print_json(const struct tree_text_node *top, struct tree_command *c)
{
    size_t left_out = 0;
    json_t *o = json_of(top, &left_out);

    json_print(o, &c->out);
    text_add_char(&c->out, '\n');
    json_decref(o);
    if (left_out != 0)
        diag_add(&c->diag, NULL, 0, 0, "%zu nodes left out: their names are not UTF-8", left_out);
    return left_out;
}

/* Prints the node of the command line, or for the top what is below it. */
static int show(struct tree_command *c, struct walk *w, struct diag *left_out)
{
    char path[TREE_PATH_MAX + 1];
    struct tree_text_node *top = tree_text_create(SLICE_NULL);
    struct tree_record s = {0};
    enum err e = tree_command_node(c, c->words[0], path);

    bool is_top = e == ERR_OK && (path[0] == '\0' || strcmp(path, tree_top(c->tree)) == 0);
    if (e == ERR_OK && !is_top) {
        e = walk(w, path, slice_of(strrchr(path, '/') + 1), 0, top);
    } else if (e == ERR_OK) {
        e = tree_command_read(c, path, &s);
        if (e == ERR_OK) {
            json_object_update(top->properties, s.properties);
            e = walk_children(w, path, &s, 0, top);
        }
        tree_record_fini(&s);
    }
    size_t nleft_out = e != ERR_OK ? 0
                       : c->json   ? print_json(top, c)
                                   : tree_text_print(top, &c->out, left_out);
    tree_text_destroy(top);
    return e == ERR_OK && nleft_out == 0 && w->unread == 0 ? CTL_OK : CTL_FAILED;
}

int tree_print(struct tree_command *c)
{
    struct walk w = {.command = c, .providers = true, .remarks = true};

    return show(c, &w, NULL);
}

int tree_export(struct tree_command *c)
{
    struct walk w = {.command = c, .providers = c->ephemeral};
    int code = show(c, &w, &c->diag);

    if (c->output == NULL || (code != CTL_OK && c->out.len == 0))
        return code;
    if (file_write(c->output, text_slice(&c->out)) != ERR_OK) {
        diag_add(&c->diag, c->output, 0, 0, "%m");
        code = CTL_FAILED;
    }
    text_clear(&c->out);
    return code;
}
