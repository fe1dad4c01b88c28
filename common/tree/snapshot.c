/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is written a moment after a change, and at most once in a few seconds, because an fsync
 * blocks the loop. Contents above the limits of reading are not written.
 */
#include "common/tree/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/file.h"
#include "common/base/json.h"
#include "common/base/log.h"

struct snapshot {
    struct loop *loop;
    struct state_file file; /* without a path: none */
    char *tree;
    json_t *parts;    /* as in the file, or as stored since */
    uint64_t saved_s; /* wall clock, of the file that was read */
    struct timer write;
    uint64_t written_ms; /* 0: not yet */
    bool too_large;      /* already logged */
};

/* ---- reading ---- */

/* The parts in FILE, or NULL: WHY is then what is wrong with it, or NULL when it is of another
 * place. */
static json_t *parts_of(struct snapshot *m, const json_t *file, const char **why)
{
    json_t *parts = json_object_get(file, "parts");
    const json_t *saved = json_object_get(file, "saved");
    const char *name;
    json_t *part;

    *why = "not a state file of this program";
    if (json_integer_value(json_object_get(file, "v")) != 1 || !json_is_object(parts) ||
        !json_is_integer(saved) || json_integer_value(saved) < 0)
        return NULL;
    json_object_foreach (parts, name, part) {
        if (!json_is_object(part))
            return NULL;
    }
    *why = NULL;
    if (!slice_is(json_text(file, "tree"), m->tree)) {
        log_info(NULL, "tree-snapshot-mismatch", "file=%s tree=%s reason=\"of another tree\"",
                 m->file.path, m->tree);
        return NULL;
    }
    m->saved_s = (uint64_t)json_integer_value(saved);
    return json_incref(parts);
}

static void snapshot_load(struct snapshot *m)
{
    char why[JSON_WHY_ROOM] = "";
    const char *problem = why;
    struct text bytes = {0};
    json_t *file = NULL;
    json_t *parts = NULL;
    enum err e = file_read_state(m->file.path, SNAPSHOT_BYTES_MAX, &bytes);

    if (e == ERR_NOT_FOUND)
        return;
    if (e == ERR_SYSTEM) {
        log_error(NULL, "tree-snapshot-unreadable", "file=%s reason=\"%s\"", m->file.path,
                  strerror(errno));
        return;
    }
    if (e != ERR_OK)
        problem = err_text(e);
    else if (json_parse(text_slice(&bytes), SNAPSHOT_BYTES_MAX, &file, why) == ERR_OK)
        parts = parts_of(m, file, &problem);
    if (parts != NULL) {
        json_decref(m->parts);
        m->parts = parts;
    } else if (problem != NULL) {
        bool moved = file_set_aside(m->file.path) == ERR_OK;

        log_error(NULL, "tree-snapshot-corrupt", "file=%s reason=\"%s\" action=\"%s\"",
                  m->file.path, problem, moved ? "renamed to .bad" : "not used");
    }
    json_decref(file);
    text_fini(&bytes);
}

/* ---- writing ---- */

static void save_file(struct timer *t)
{
    struct snapshot *m = container_of(t, struct snapshot, write);
    json_t *file = json_pack("{s:i, s:s, s:I, s:O}", "v", 1, "tree", m->tree, "saved",
                             (json_int_t)time(NULL), "parts", m->parts);
    char *text = file != NULL ? json_dumps(file, JSON_COMPACT) : NULL;
    struct slice bytes = slice_of(text);
    char why[JSON_WHY_ROOM] = "";
    json_t *again = NULL;

    m->written_ms = loop_now_ms(m->loop);
    json_decref(file);
    /* PLACE is from a configuration, which need not be UTF-8. */
    if (text == NULL)
        return;
    bool good = bytes.len <= SNAPSHOT_BYTES_MAX &&
                json_parse(bytes, SNAPSHOT_BYTES_MAX, &again, why) == ERR_OK;
    if (good && !state_file_write(&m->file, bytes, 0600))
        timer_start(m->loop, &m->write, STATE_FILE_RETRY_MS);
    if (!good && !m->too_large)
        log_warn(NULL, "tree-snapshot-too-large",
                 "file=%s bytes=%zu reason=\"%s\" action=\"keep the older one\"", m->file.path,
                 bytes.len, bytes.len > SNAPSHOT_BYTES_MAX ? err_text(ERR_TOO_LARGE) : why);
    m->too_large = !good;
    json_decref(again);
    free(text);
}

static void write_soon(struct snapshot *m)
{
    if (m->file.path == NULL || timer_running(&m->write))
        return;
    uint64_t since = loop_now_ms(m->loop) - m->written_ms;
    bool lately = m->written_ms != 0 && since < SNAPSHOT_PAUSE_MS;
    timer_start(m->loop, &m->write, lately ? SNAPSHOT_PAUSE_MS - since : SNAPSHOT_DELAY_MS);
}

void snapshot_store(struct snapshot *m, const char *part, json_t *content)
{
    const json_t *old = json_object_get(m->parts, part);

    if (old != NULL && json_equal(old, content))
        return;
    json_object_set(m->parts, part, content);
    write_soon(m);
}

void snapshot_delete(struct snapshot *m, const char *part)
{
    if (json_object_del(m->parts, part) == 0)
        write_soon(m);
}

/* ---- life ---- */

struct snapshot *snapshot_open(struct loop *l, const char *path, const char *tree)
{
    struct snapshot *m = xcalloc(1, sizeof(*m));

    m->loop = l;
    state_file_init(&m->file, path);
    m->tree = xstrdup(tree);
    m->parts = json_object();
    timer_init(&m->write, save_file);
    if (path != NULL)
        snapshot_load(m);
    return m;
}

void snapshot_close(struct snapshot *m)
{
    if (m == NULL)
        return;
    if (timer_running(&m->write))
        save_file(&m->write);
    timer_stop(&m->write);
    json_decref(m->parts);
    free(m->tree);
    state_file_fini(&m->file);
    free(m);
}

json_t *snapshot_part(const struct snapshot *m, const char *part)
{
    return json_object_get(m->parts, part);
}

uint64_t snapshot_age_s(const struct snapshot *m)
{
    uint64_t now_s = (uint64_t)time(NULL);

    return now_s > m->saved_s ? now_s - m->saved_s : 0;
}
