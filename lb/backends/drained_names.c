/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is {"v": 1, "drained": [NAME, ...]}; it does not exist while no name is drained. While
 * it cannot be written, drained names apply all the same, and writing is repeated.
 */
#include "lb/backends/membership_internal.h"

#include "common/base/file.h"
#include "common/base/json.h"
#include "common/base/log.h"

#include <errno.h>
#include <stdlib.h>

enum { FILE_BYTES_MAX = 1024 * 1024 };

struct drained_names {
    char *application;
    struct loop *loop;
    struct state_file file;
    struct timer retry;
    json_t *names; /* an array of texts, each once, the oldest first */
};

static void drop_oldest(struct drained_names *d)
{
    while (json_array_size(d->names) > DRAINED_NAMES_MAX) {
        const char *name = json_string_value(json_array_get(d->names, 0));

        log_warn(NULL, "drained-list-full",
                 "application=%s worker=%s reason=\"more than %d drained\"", d->application,
                 log_shown(slice_of(name)), DRAINED_NAMES_MAX);
        (void)json_array_remove(d->names, 0);
    }
}

static void read_names(struct drained_names *d)
{
    struct text bytes = {0};
    char why[JSON_WHY_ROOM] = "not a file of this program";
    json_t *file = NULL;
    json_t *name;
    size_t i;
    enum err e = file_read_state(d->file.path, FILE_BYTES_MAX, &bytes);

    if (e == ERR_SYSTEM)
        log_error(NULL, "drained-not-read", "file=%s reason=\"%s\"", d->file.path, strerror(errno));
    bool good = e == ERR_OK &&
                json_parse(text_slice(&bytes), FILE_BYTES_MAX, &file, why) == ERR_OK &&
                json_integer_value(json_object_get(file, "v")) == 1;
    json_t *names = json_object_get(file, "drained");
    good = good && json_is_array(names);
    json_array_foreach (names, i, name)
        good = good && json_is_string(name);
    if (good) {
        json_decref(d->names);
        d->names = json_incref(names);
        drop_oldest(d);
    } else if (e == ERR_OK || e == ERR_TOO_LARGE) {
        log_error(NULL, "drained-not-read", "file=%s reason=\"%s\" action=\"%s\"", d->file.path,
                  why, file_set_aside(d->file.path) == ERR_OK ? "renamed to .bad" : "left");
    }
    json_decref(file);
    text_fini(&bytes);
}

static void write_names(struct drained_names *d)
{
    if (json_array_size(d->names) == 0) {
        (void)state_file_remove(&d->file);
    } else {
        struct text bytes = {0};
        json_t *file = json_pack("{s:i, s:O}", "v", 1, "drained", d->names);

        ASSERT(file != NULL);
        json_print(file, &bytes);
        (void)state_file_write(&d->file, text_slice(&bytes), 0600);
        text_fini(&bytes);
        json_decref(file);
    }
    timer_stop(&d->retry);
    if (d->file.error != 0)
        timer_start(d->loop, &d->retry, STATE_FILE_RETRY_MS);
}

static void on_retry(struct timer *t)
{
    write_names(container_of(t, struct drained_names, retry));
}

struct drained_names *drained_names_open(struct loop *l, const char *state_dir,
                                         const char *application)
{
    struct drained_names *d = xcalloc(1, sizeof(*d));

    d->application = xstrdup(application);
    d->names = json_array();
    ASSERT(d->names != NULL);
    d->loop = l;
    timer_init(&d->retry, on_retry);
    if (state_dir == NULL)
        return d;
    char *path = xasprintf("%s/%s/drained.json", state_dir, application);
    state_file_init(&d->file, path);
    free(path);
    read_names(d);
    return d;
}

void drained_names_close(struct drained_names *d)
{
    if (d == NULL)
        return;
    if (d->file.error != 0)
        write_names(d);
    timer_stop(&d->retry);
    json_decref(d->names);
    free(d->application);
    state_file_fini(&d->file);
    free(d);
}

/* Where NAME is, or how many there are. */
static size_t drained_find(const struct drained_names *d, const char *name)
{
    size_t i = 0;

    while (i < json_array_size(d->names) &&
           strcmp(json_string_value(json_array_get(d->names, i)), name) != 0)
        ++i;
    return i;
}

bool drained_names_has(const struct drained_names *d, const char *name)
{
    return drained_find(d, name) < json_array_size(d->names);
}

void drained_names_set(struct drained_names *d, const char *name, bool on)
{
    size_t at = drained_find(d, name);

    if (on == (at < json_array_size(d->names))) {
        if (d->file.error != 0)
            write_names(d);
        return;
    }
    /* A name that is not UTF-8 cannot have been requested. */
    if (on)
        (void)json_array_append_new(d->names, json_string(name));
    else
        (void)json_array_remove(d->names, at);
    drop_oldest(d);
    write_names(d);
}

const char *drained_names_unsaved(const struct drained_names *d)
{
    return d->file.error != 0 ? strerror(d->file.error) : NULL;
}
