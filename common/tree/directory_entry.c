/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own providers in the directory tree. An entry wants its file in place; whatever happens to
 * the name or a folder above makes it look, and put the file (again) when it is not there. While
 * another owner lives, it looks again at every event of that name, and on a timer that slows down
 * to a second.
 */
#include "common/base/log.h"
#include "common/tree/directory.h"
#include "common/tree/group_folder.h"
#include "common/wire/json.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
    /* While the name is taken: from the instant in which a dead owner's lock goes, to idle polling.
     */
    TAKEN_MS_MIN = 1,
    TAKEN_MS_MAX = 1000,
    /* After a failure. */
    RETRY_MS_MIN = 20,
    RETRY_MS_MAX = 5000,
};

struct tree_entry {
    struct list in_dir;
    struct dir *dir;
    struct timer look;
    uint64_t looked_ms;
    unsigned delay_ms; /* of the last retry; 0: none */
    enum err last;     /* of the last try, so that only news is logged */
    bool outdated;     /* the file in place has old properties */
    struct text bytes; /* what goes into the file */
    struct provider_file held;
    char *path; /* of the file */
    char file[PROVIDER_NAME_ROOM];
};

static void retry(struct tree_entry *e, unsigned min_ms, unsigned max_ms)
{
    e->delay_ms = e->delay_ms * 2;
    if (e->delay_ms < min_ms)
        e->delay_ms = min_ms;
    if (e->delay_ms > max_ms)
        e->delay_ms = max_ms;
    timer_start(e->dir->tree->base.loop, &e->look, e->delay_ms);
}

static void entry_put(struct tree_entry *e)
{
    enum err result = ERR_SYSTEM;

    if (group_folder_make_all(e->dir->full)) {
        /* Watched before the file is there, so that its loss cannot go unseen. */
        e->dir->stale = true;
        dir_update(e->dir);
        result = provider_file_put(&e->held, e->dir->full, e->file, text_slice(&e->bytes));
    }
    int saved = errno;
    bool news = result != e->last;
    e->last = result;
    if (result == ERR_OK) {
        e->outdated = false;
        e->delay_ms = 0;
        log_debug(NULL, "tree-registered", "file=%s", e->path);
    } else if (result == ERR_BUSY) {
        if (news)
            log_info(NULL, "tree-name-taken", "file=%s hint=\"waiting for its owner to end\"",
                     e->path);
        retry(e, TAKEN_MS_MIN, TAKEN_MS_MAX);
    } else {
        log_error(NULL, "tree-not-registered", "file=%s problem=\"%s\"", e->path, strerror(saved));
        retry(e, RETRY_MS_MIN, RETRY_MS_MAX);
    }
}

static void entry_look(struct timer *timer)
{
    struct tree_entry *e = container_of(timer, struct tree_entry, look);
    bool in_place = provider_file_in_place(&e->held, e->path);

    e->looked_ms = loop_now_ms(e->dir->tree->base.loop);
    if (in_place && !e->outdated)
        return;
    if (!in_place && e->held.fd >= 0) {
        log_warn(NULL, "tree-file-lost", "file=%s hint=\"somebody removed it; putting it back\"",
                 e->path);
        provider_file_drop(&e->held, e->path);
    }
    entry_put(e);
}

static void entry_touched(struct tree_entry *e)
{
    struct loop *l = e->dir->tree->base.loop;
    uint64_t since = loop_now_ms(l) - e->looked_ms;

    if (e->file[0] == '\0')
        return;
    /* An event while waiting for the name: look sharp again. */
    e->delay_ms = 0;
    timer_start(l, &e->look, since < TREE_PAUSE_MS ? TREE_PAUSE_MS - since : 0);
}

void dir_entries_touched(struct dir *d, const char *file)
{
    struct list *it;

    list_for_each (it, &d->entries) {
        struct tree_entry *e = list_entry(it, struct tree_entry, in_dir);

        if (file == NULL || strcmp(e->file, file) == 0)
            entry_touched(e);
    }
}

static bool set_bytes(struct tree_entry *e, const json_t *properties)
{
    struct text bytes = {0};

    json_print(properties, &bytes);
    if (bytes.len > PROVIDER_BYTES_MAX) {
        log_error(NULL, "tree-provider-too-large", "file=%s bytes=%zu max=%d", e->path, bytes.len,
                  PROVIDER_BYTES_MAX);
        text_fini(&bytes);
        return false;
    }
    text_fini(&e->bytes);
    e->bytes = bytes;
    return true;
}

struct tree_entry *directory_enter(struct tree *base, const char *path, const char *name,
                                   const json_t *properties)
{
    struct directory *t = container_of(base, struct directory, base);
    struct tree_entry *e = xcalloc(1, sizeof(*e));

    e->held.fd = -1;
    e->last = ERR_OK;
    e->dir = dir_get(t, path);
    list_push_back(&e->dir->entries, &e->in_dir);
    timer_init(&e->look, entry_look);
    if (!provider_name_encode(name, e->file)) {
        char escaped[LOG_CUT_ROOM];

        e->file[0] = '\0';
        log_error(NULL, "tree-not-registered", "path=%s name=%s problem=\"%s\"", e->dir->full,
                  log_cut(slice_of(name), escaped),
                  name[0] == '\0' ? "empty name" : "name too long for a file");
        return e;
    }
    e->path = xasprintf("%s/%s", e->dir->full, e->file);
    if (!set_bytes(e, properties))
        text_add(&e->bytes, SLICE_LIT("{}"));
    timer_start(base->loop, &e->look, 0);
    return e;
}

void directory_entry_set(struct tree_entry *e, const json_t *properties)
{
    if (e->file[0] == '\0' || !set_bytes(e, properties))
        return;
    e->outdated = true;
    entry_touched(e);
}

bool directory_entry_held(const struct tree_entry *e)
{
    return provider_file_in_place(&e->held, e->path);
}

void directory_leave(struct tree_entry *e)
{
    timer_stop(&e->look);
    provider_file_drop(&e->held, e->path);
    list_remove(&e->in_dir);
    dir_put(e->dir);
    text_fini(&e->bytes);
    free(e->path);
    free(e);
}
