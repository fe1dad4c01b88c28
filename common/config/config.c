/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the events of libyaml to nodes with their positions. Nodes and texts are in one arena,
 * so that a configuration is freed as a whole. A YAML syntax error ends the parsing (what follows
 * it cannot be trusted); other errors are reported and skipped, so that one run shows all of them.
 */
#include "common/config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yaml.h>

#include "common/base/file.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/text.h"

/* What a configuration owns. */
struct config_memory {
    struct arena arena;
    struct text_list secret_files;
};

/* Returns BYTES zeroed bytes from the arena of C. */
static void *yaml_take(const struct config *c, size_t bytes)
{
    return memset(arena_take(&c->memory->arena, bytes), 0, bytes);
}

/* ---- reading ---- */

struct config_reader {
    yaml_parser_t parser;
    struct slice text;
    struct config *config;
    struct diag *diag;
    size_t nodes;
    bool stopped; /* after a syntax error or a bound: no further event is read */
};

/* Messages of libyaml, and their replacements for users. */
static const struct {
    const char *problem, *plain;
    bool at_context; /* report the position where the construct began */
} syntax_texts[] = {
    {"mapping values are not allowed in this context",
     "\":\" is not permitted here (check the indentation, or put the text in quotes)", false},
    {"did not find expected key", "expected \"name: value\" here (check the indentation)", false},
    {"could not find expected ':'", "expected \":\" after this name", true},
    {"did not find expected ',' or ']'", "expected \",\" or \"]\" in this list", false},
    {"did not find expected ',' or '}'", "expected \",\" or \"}\" in this map", false},
    {"did not find expected '-' indicator",
     "expected \"- \" and the next item of the list (check the indentation)", false},
    {"block sequence entries are not allowed in this context",
     "a list cannot start here (check the indentation)", false},
    {"did not find expected node content", "expected a value here", false},
    {"found unexpected end of stream", "unterminated text in quotes", true},
    {"found unexpected document indicator", "unterminated text in quotes", true},
    {"found unknown escape character", "unknown \"\\\" sequence in this text in quotes", false},
};

static void complain_at(struct config_reader *r, yaml_mark_t mark, const char *message)
{
    struct config_node at = {.line = mark.line + 1, .column = mark.column + 1};

    config_complain(r->config, &at, r->diag, "%s", message);
}

static void stop_at(struct config_reader *r, yaml_mark_t mark, const char *message)
{
    complain_at(r, mark, message);
    r->stopped = true;
}

static void syntax_error(struct config_reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem != NULL ? p->problem : "not readable as YAML";
    yaml_mark_t mark = p->error != YAML_READER_ERROR ? p->problem_mark : (yaml_mark_t){0};

    /* For invalid bytes libyaml reports a byte offset instead of a position. */
    for (size_t i = 0; p->error == YAML_READER_ERROR && i < p->problem_offset && i < r->text.len;
         ++i) {
        unsigned char c = (unsigned char)r->text.p[i];

        if (c == '\n') {
            ++mark.line;
            mark.column = 0;
        } else if ((c & 0xc0) != 0x80) {
            ++mark.column;
        }
    }
    if (p->error == YAML_READER_ERROR && strstr(problem, "control characters") == NULL)
        problem = "not valid UTF-8";
    if (p->error == YAML_SCANNER_ERROR && strstr(problem, "cannot start any token") != NULL) {
        bool tab = mark.index < r->text.len && *p->buffer.pointer == '\t';

        problem = tab ? "a tab cannot be used for indentation"
                      : "a text that starts like this must be in quotes";
    }
    for (size_t i = 0; i < ARRAY_LEN(syntax_texts); ++i) {
        if (strcmp(problem, syntax_texts[i].problem) == 0) {
            problem = syntax_texts[i].plain;
            if (syntax_texts[i].at_context && p->context != NULL)
                mark = p->context_mark;
            break;
        }
    }
    stop_at(r, mark, problem);
}

/* Returns false if reading has stopped; EVENT then need not be deleted. */
static bool next_event(struct config_reader *r, yaml_event_t *event)
{
    if (r->stopped)
        return false;
    if (yaml_parser_parse(&r->parser, event) == 0) {
        syntax_error(r);
        return false;
    }
    return true;
}

static struct config_node *node_create(struct config_reader *r, enum config_kind kind,
                                       yaml_mark_t mark)
{
    if (++r->nodes > CONFIG_NODES_MAX) {
        stop_at(r, mark, "too many values in one configuration file");
        return NULL;
    }
    struct config_node *node = yaml_take(r->config, sizeof(*node));
    node->kind = kind;
    node->line = mark.line + 1;
    node->column = mark.column + 1;
    return node;
}

/* Rejects anchors and tags. */
static void check_decorations(struct config_reader *r, yaml_mark_t mark, const yaml_char_t *anchor,
                              const yaml_char_t *tag)
{
    if (anchor != NULL)
        complain_at(r, mark, "anchors (\"&name\") are not supported; write the value");
    if (tag != NULL)
        complain_at(r, mark, "tags (\"!type\") are not supported; remove it");
}

static int by_text_then_line(const void *a, const void *b)
{
    const struct config_node *x = *(struct config_node *const *)a;
    const struct config_node *y = *(struct config_node *const *)b;
    int order = slice_compare(x->text, y->text);

    if (order == 0)
        order = compare_u64(x->line, y->line);
    return order != 0 ? order : compare_u64(x->column, y->column);
}

/* Sorts the names and compares neighbors: comparing all pairs would take quadratic time. */
static void check_duplicates(struct config_reader *r, struct config_node *const *keys, size_t n)
{
    if (n < 2)
        return;
    struct config_node **sorted = xmalloc(n * sizeof(struct config_node *));

    memcpy(sorted, keys, n * sizeof(struct config_node *));
    qsort(sorted, n, sizeof(struct config_node *), by_text_then_line);
    const struct config_node *first = sorted[0];
    for (size_t i = 1; i < n; ++i) {
        /* Names without text were already rejected. */
        if (first->text.len == 0 || !slice_eq(first->text, sorted[i]->text)) {
            first = sorted[i];
            continue;
        }
        struct text name = {0};
        text_add_escaped(&name, first->text);
        config_complain(r->config, sorted[i], r->diag,
                        "\"%.64s\" is a duplicate (first in line %zu)", text_cstr(&name),
                        first->line);
        text_fini(&name);
    }
    free(sorted);
}

static struct config_node *read_node(struct config_reader *r, yaml_event_t *e, size_t depth);

/* Reads the next value. Returns NULL at the end of the list or map, or if reading has stopped. */
static struct config_node *read_child(struct config_reader *r, size_t depth)
{
    yaml_event_t e;

    if (!next_event(r, &e))
        return NULL;
    struct config_node *node = NULL;
    if (e.type != YAML_SEQUENCE_END_EVENT && e.type != YAML_MAPPING_END_EVENT)
        node = read_node(r, &e, depth);
    yaml_event_delete(&e);
    return node;
}

static struct config_node *read_collection(struct config_reader *r, enum config_kind kind,
                                           yaml_mark_t mark, size_t depth)
{
    struct config_node *node = node_create(r, kind, mark);
    struct config_node **items = NULL; /* moved into the arena when their number is known */
    struct config_node **keys = NULL;
    struct config_node *child;
    size_t item_room = 0;
    size_t key_room = 0;
    size_t n = 0;

    if (node == NULL)
        return NULL;
    if (depth >= CONFIG_DEPTH_MAX) {
        stop_at(r, mark, "lists and maps are nested too deeply");
        return NULL;
    }
    while ((child = read_child(r, depth + 1)) != NULL) {
        if (kind == CONFIG_MAP) {
            keys = xgrow(keys, n + 1, &key_room, sizeof(struct config_node *));
            keys[n] = child;
            if (child->kind != CONFIG_SCALAR)
                config_complain(r->config, child, r->diag, "a name cannot be a list or a map");
            else if (child->text.len == 0)
                config_complain(r->config, child, r->diag, "a name cannot be empty");
            else if (!child->quoted && slice_is(child->text, "<<"))
                config_complain(r->config, child, r->diag,
                                "merging (\"<<\") is not supported; write the values");
            child = read_child(r, depth + 1);
            if (child == NULL)
                break;
        }
        items = xgrow(items, n + 1, &item_room, sizeof(struct config_node *));
        items[n++] = child;
    }
    if (n != 0 && !r->stopped) {
        size_t bytes = n * sizeof(struct config_node *);

        node->n = n;
        node->items = memcpy(yaml_take(r->config, bytes), items, bytes);
        if (kind == CONFIG_MAP) {
            node->keys = memcpy(yaml_take(r->config, bytes), keys, bytes);
            check_duplicates(r, keys, n);
        }
    }
    free(items);
    free(keys);
    return node;
}

static struct config_node *read_scalar(struct config_reader *r, const yaml_event_t *e)
{
    struct config_node *node = node_create(r, CONFIG_SCALAR, e->start_mark);

    if (e->type == YAML_ALIAS_EVENT)
        complain_at(r, e->start_mark, "references (\"*name\") are not supported; write the value");
    if (node == NULL)
        return NULL;
    if (e->type == YAML_ALIAS_EVENT) {
        node->text = SLICE_LIT("*");
        return node;
    }
    size_t len = e->data.scalar.length;
    char *copy = yaml_take(r->config, len + 1);
    memcpy(copy, e->data.scalar.value, len);
    node->text = (struct slice){copy, len};
    node->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    /* Texts end up as C strings: a NUL would silently cut them. */
    if (memchr(copy, '\0', len) != NULL)
        complain_at(r, e->start_mark, "a text cannot contain a NUL (\"\\0\")");
    return node;
}

static struct config_node *read_node(struct config_reader *r, yaml_event_t *e, size_t depth)
{
    switch ((int)e->type) {
    case YAML_SCALAR_EVENT:
        check_decorations(r, e->start_mark, e->data.scalar.anchor, e->data.scalar.tag);
        return read_scalar(r, e);
    case YAML_SEQUENCE_START_EVENT:
        check_decorations(r, e->start_mark, e->data.sequence_start.anchor,
                          e->data.sequence_start.tag);
        return read_collection(r, CONFIG_LIST, e->start_mark, depth);
    case YAML_MAPPING_START_EVENT:
        check_decorations(r, e->start_mark, e->data.mapping_start.anchor,
                          e->data.mapping_start.tag);
        return read_collection(r, CONFIG_MAP, e->start_mark, depth);
    case YAML_ALIAS_EVENT:
        return read_scalar(r, e);
    default:
        UNREACHABLE();
    }
}

static void read_document(struct config_reader *r)
{
    yaml_event_t e;
    bool more = true;
    unsigned documents = 0;

    while (more && next_event(r, &e)) {
        switch ((int)e.type) {
        case YAML_DOCUMENT_START_EVENT:
            if (++documents > 1)
                stop_at(r, e.start_mark, "a second document (\"---\") is not supported");
            break;
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_STREAM_END_EVENT:
            more = false;
            break;
        default:
            r->config->root = read_node(r, &e, 0);
            break;
        }
        yaml_event_delete(&e);
    }
    if (r->stopped)
        return;
    struct config_node *root = r->config->root;
    if (root == NULL ||
        (root->kind == CONFIG_SCALAR && !root->quoted && root->text.len == 0)) /* an empty file */
        r->config->root = node_create(r, CONFIG_MAP, (yaml_mark_t){0});
    else if (root->kind != CONFIG_MAP)
        config_complain(r->config, root, r->diag,
                        "a configuration is made of \"name: value\" lines");
}

/* Whether TEXT begins as UTF-16 or UTF-32 does: with their mark, or with ASCII among zero bytes. */
static bool is_wide(struct slice text)
{
    return slice_starts(text, SLICE_LIT("\xff\xfe")) || slice_starts(text, SLICE_LIT("\xfe\xff")) ||
           (text.len >= 2 && (text.p[0] == '\0') != (text.p[1] == '\0'));
}

bool config_parse(const char *file, struct slice text, struct config *out, struct diag *d)
{
    struct config config = {.file = xstrdup(file), .memory = xcalloc(1, sizeof(*config.memory))};
    struct config_reader r = {.text = utf8_skip_mark(text), .config = &config, .diag = d};
    unsigned errors_before = d->errors;

    arena_init(&config.memory->arena, NULL, 0);
    if (text.len > CONFIG_BYTES_MAX) {
        config_complain(&config, NULL, d, "larger than %d bytes", CONFIG_BYTES_MAX);
    } else if (is_wide(text)) {
        config_complain(&config, NULL, d, "is in UTF-16 or UTF-32: save it as UTF-8");
    } else {
        int initialized = yaml_parser_initialize(&r.parser);
        ASSERT(initialized == 1);
        yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(
            &r.parser, (const unsigned char *)(r.text.p != NULL ? r.text.p : ""), r.text.len);
        read_document(&r);
        yaml_parser_delete(&r.parser);
    }
    if (d->errors != errors_before) {
        config_fini(&config);
        return false;
    }
    *out = config;
    return true;
}

bool config_read(const char *file, struct config *out, struct diag *d)
{
    struct text text = {0};
    enum err e = file_read(file, CONFIG_BYTES_MAX, &text);
    bool good = false;

    if (e == ERR_OK)
        good = config_parse(file, text_slice(&text), out, d);
    else if (e == ERR_TOO_LARGE)
        diag_add(d, file, 0, 0, "larger than %d bytes", CONFIG_BYTES_MAX);
    else
        diag_add(d, file, 0, 0, "cannot be read: %s",
                 e == ERR_SYSTEM ? strerror(errno) : err_text(e));
    text_fini(&text);
    return good;
}

void config_fini(struct config *c)
{
    if (c->memory != NULL) {
        arena_fini(&c->memory->arena);
        text_list_fini(&c->memory->secret_files);
    }
    free(c->memory);
    free(c->file);
    *c = (struct config){0};
}

void config_add_secret_file(const struct config *c, const char *path)
{
    struct text_list *l = &c->memory->secret_files;

    for (size_t i = 0; i < l->n; ++i) {
        if (strcmp(l->items[i], path) == 0)
            return;
    }
    text_list_add(l, slice_of(path));
}

void config_warn_exposed(const struct config *c)
{
    for (size_t i = 0; i < c->memory->secret_files.n; ++i)
        file_warn_exposed(c->memory->secret_files.items[i]);
}

bool config_is_null(const struct config_node *n)
{
    return n->kind == CONFIG_SCALAR && !n->quoted &&
           (n->text.len == 0 || slice_is(n->text, "~") ||
            slice_eq_nocase(n->text, SLICE_LIT("null")));
}

struct config_node *config_get(const struct config_node *map, const char *key)
{
    if (map->kind != CONFIG_MAP)
        return NULL;
    for (size_t i = 0; i < map->n; ++i) {
        if (slice_is(map->keys[i]->text, key))
            return map->items[i];
    }
    return NULL;
}

void config_complain(const struct config *c, const struct config_node *at, struct diag *d,
                     const char *fmt, ...)
{
    const char *file = c != NULL ? c->file : NULL;
    va_list args;

    if (d->errors > CONFIG_PROBLEMS_MAX) {
        ++d->errors;
        return;
    }
    if (d->errors == CONFIG_PROBLEMS_MAX) {
        diag_add(d, file, 0, 0, "further problems are not shown");
        return;
    }
    va_start(args, fmt);
    diag_vadd(d, file, at != NULL ? at->line : 0, at != NULL ? at->column : 0, fmt, args);
    va_end(args);
}

void config_complain_all(const struct config *c, const struct config_node *at, const char *prefix,
                         const struct diag *sub, struct diag *d)
{
    struct slice rest = slice_of(sub->text);

    while (rest.len > 0) {
        struct slice line = slice_cut(&rest, '\n');

        config_complain(c, at, d, "%s%.*s", prefix, SLICE_FMT(line));
    }
}

/* ---- files and directories that settings name ---- */

static void check_directory_above(const struct config *c, const struct config_node *at,
                                  const char *what, const char *path, struct diag *d)
{
    const char *slash = strrchr(path, '/');
    char *directory = slash == NULL   ? xstrdup(".")
                      : slash == path ? xstrdup("/")
                                      : xslicedup((struct slice){path, (size_t)(slash - path)});
    struct stat st;

    if (stat(directory, &st) != 0 || !S_ISDIR(st.st_mode))
        config_complain(c, at, d, "%s: directory %s does not exist", what, directory);
    free(directory);
}

void config_check_output(const struct config *c, const struct config_node *at, const char *what,
                         const char *path, struct diag *d)
{
    struct stat st;

    if (path == NULL || at == NULL || strcmp(path, "-") == 0)
        return;
    if (stat(path, &st) != 0)
        check_directory_above(c, at, what, path, d);
    else if (S_ISDIR(st.st_mode))
        config_complain(c, at, d, "%s: %s is a directory", what, path);
}

void config_check_directory(const struct config *c, const struct config_node *at, const char *what,
                            const char *path, bool may_be_missing, struct diag *d)
{
    struct stat st;

    if (path == NULL || at == NULL)
        return;
    /* A name that ends in a slash is the same directory. */
    struct slice name = slice_of(path);
    while (name.len > 1 && slice_ends(name, SLICE_LIT("/")))
        --name.len;
    char *directory = xslicedup(name);
    if (stat(directory, &st) != 0) {
        if (may_be_missing)
            check_directory_above(c, at, what, directory, d);
        else
            config_complain(c, at, d, "%s: directory %s does not exist", what, path);
    } else if (!S_ISDIR(st.st_mode)) {
        config_complain(c, at, d, "%s: %s is not a directory", what, path);
    } else if (access(path, W_OK | X_OK) != 0) {
        config_complain(c, at, d, "%s: no permission to write to %s", what, path);
    }
    free(directory);
}
