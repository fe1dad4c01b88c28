/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads one folder into its spot: properties.json, provider files, child folders. Anybody in the
 * group may have written what is read: sizes, numbers and kinds of files are checked. A provider
 * lives while its file is locked. The kernel tells of a file's close an instant before it drops the
 * lock, so a close is followed by a few more looks.
 */
#include "common/base/log.h"
#include "common/tree/directory.h"
#include "common/wire/json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* A provider's file as last seen. */
struct member {
    struct map_node in_dir;
    struct list dirty; /* in its folder's, when something happened to it */
    bool live;
    bool reread;  /* its content may be new */
    bool closing; /* a writer closed it; its lock may go any moment */
    struct stat seen;
    json_t *properties;
    char name[PROVIDER_NAME_ROOM]; /* the provider's */
    char file[];
};

/* ---- members ---- */

static void member_destroy(struct dir *d, struct member *m)
{
    list_remove(&m->dirty);
    map_remove(&d->members, &m->in_dir);
    json_decref(m->properties);
    free(m);
}

static void members_clear(struct dir *d)
{

    map_for_each_safe (struct member, m, &d->members, in_dir) {
        member_destroy(d, m);
    }
}

/* The member FILE, made if need be. NULL: no provider's name, or too many. */
static struct member *member_get(struct dir *d, const char *file)
{
    struct member *m;
    char name[PROVIDER_NAME_ROOM];
    size_t len = strlen(file);

    m = map_entry(map_find(&d->members, file, len), struct member, in_dir);
    if (m != NULL)
        return m;
    if (strcmp(file, PROPERTIES_FILE) == 0 || !provider_name_decode(file, name))
        return NULL;
    if (map_count(&d->members) == TREE_PROVIDERS_MAX) {
        log_warn(NULL, "tree-too-many-providers", "path=%s max=%d", d->full, TREE_PROVIDERS_MAX);
        return NULL;
    }
    m = xcalloc(1, sizeof(*m) + len + 1);
    memcpy(m->file, file, len + 1);
    memcpy(m->name, name, sizeof(name));
    m->properties = json_object();
    map_add(&d->members, &m->in_dir, m->file, len);
    return m;
}

static void member_mark(struct dir *d, struct member *m)
{
    if (!list_linked(&m->dirty))
        list_push_back(&d->dirty, &m->dirty);
}

void dir_member_touched(struct dir *d, const char *file, bool closed)
{
    if (d->spot == NULL || (d->spot->parts & PART_PROVIDERS) == 0)
        return;
    struct member *m = member_get(d, file);
    if (m == NULL)
        return;
    m->reread = true;
    member_mark(d, m);
    if (closed) {
        m->closing = true;
        d->recheck_ms = 1;
        timer_stop(&d->recheck);
    }
}

static bool same_content(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Its properties; what is no JSON object counts as none: the provider is there all the same. */
static json_t *read_properties(int fd, const char *path)
{
    struct text bytes = {0};
    char why[JSON_WHY_ROOM] = "not a JSON object";
    json_t *v = NULL;
    enum err e = plain_file_read(fd, PROVIDER_BYTES_MAX, &bytes);

    if (e == ERR_OK)
        e = json_parse(text_slice(&bytes), PROVIDER_BYTES_MAX, &v, why);
    else
        snprintf(why, sizeof(why), "%s", err_text(e));
    if (e != ERR_OK || !json_is_object(v)) {
        log_warn(NULL, "tree-bad-provider", "file=%s problem=\"%s\"", path, why);
        json_decref(v);
        v = json_object();
    }
    text_fini(&bytes);
    return v;
}

/* Look at M's file. Returns whether anything about it is new. */
static bool member_look(struct dir *d, struct member *m)
{
    char *path = xasprintf("%s/%s", d->full, m->file);
    bool was_live = m->live;
    bool fresh = false;
    struct stat st;
    int fd = -1;
    enum err e = plain_file_open(path, &fd, &st);

    if (e == ERR_SYSTEM) {
        /* Cannot tell now (no descriptors, no permission): leave it as it was; the next rescan asks
         * again. */
        log_warn(NULL, "tree-bad-provider", "file=%s problem=\"%s\"", path, strerror(errno));
        goto out;
    }
    m->live = e == ERR_OK && provider_file_held(fd);
    if (m->live && (!was_live || m->reread || !same_content(&m->seen, &st))) {
        fresh = true;
        json_decref(m->properties);
        m->properties = read_properties(fd, path);
        m->seen = st;
    }
    m->reread = false;
    if (e == ERR_OK && !m->live) {
        e = provider_file_clear(path);
        if (e == ERR_SYSTEM)
            log_warn(NULL, "tree-not-cleared", "file=%s problem=\"%s\"", path, strerror(errno));
    }
out:
    if (fd >= 0)
        close(fd);
    free(path);
    return fresh || m->live != was_live;
}

/* Files whose owner died before they were in place. */
static void clear_unfinished(struct dir *d, const char *file)
{
    char *path = xasprintf("%s/%s", d->full, file);
    struct stat st;

    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_mtime + NEW_FILE_AGE_S < time(NULL) &&
        provider_file_clear(path) == ERR_OK)
        log_info(NULL, "tree-cleared", "file=%s", path);
    free(path);
}

/* Mark every provider file of the folder, and those known that are there no longer. */
static bool scan_members(struct dir *d)
{
    DIR *folder = opendir(d->full);
    struct dirent *entry;

    if (folder == NULL) {
        log_warn(NULL, "tree-unreadable", "path=%s problem=\"%s\"", d->full, strerror(errno));
        return false;
    }
    while ((entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, NEW_FILE_PREFIX, strlen(NEW_FILE_PREFIX)) == 0)
            clear_unfinished(d, entry->d_name);
        if (entry->d_name[0] != '.' && (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN))
            (void)member_get(d, entry->d_name);
    }
    closedir(folder);
    map_for_each (struct member, m, &d->members, in_dir) {
        m->reread = m->reread || d->reread;
        member_mark(d, m);
    }
    d->rescan = d->reread = false;
    return true;
}

static void publish_members(struct dir *d)
{
    struct provider_set *set = provider_set_create(map_count(&d->members));
    size_t n = 0;

    map_for_each (struct member, m, &d->members, in_dir) {
        if (m->live)
            set->items[n++] = (struct tree_provider){xstrdup(m->name), json_incref(m->properties)};
    }
    set->n = n;
    provider_set_sort(set);
    provider_set_drop(d->spot->providers);
    d->spot->providers = set;
}

static void read_members(struct dir *d)
{
    struct list *node;
    bool changed = d->spot->providers == NULL;

    if (d->rescan && !scan_members(d)) {
        provider_set_drop(d->spot->providers);
        d->spot->providers = NULL;
        return;
    }
    while ((node = list_pop_front(&d->dirty)) != NULL) {
        struct member *m = list_entry(node, struct member, dirty);

        changed = member_look(d, m) || changed;
        if (!m->live)
            member_destroy(d, m);
        else if (m->closing && !timer_running(&d->recheck))
            timer_start(d->tree->base.loop, &d->recheck, d->recheck_ms);
    }
    if (changed)
        publish_members(d);
}

static void on_recheck(struct timer *timer)
{
    struct dir *d = container_of(timer, struct dir, recheck);

    d->recheck_ms *= 4;
    map_for_each (struct member, m, &d->members, in_dir) {
        if (!m->closing)
            continue;
        member_mark(d, m);
        m->closing = d->recheck_ms <= RECHECK_MS_MAX;
    }
    tree_spot_touch(d->spot, PART_PROVIDERS);
}

/* ---- properties ---- */

/* The properties in properties.json; NULL: WHY not. *IS_THERE: the file is. */
static json_t *load_properties(struct dir *d, bool *is_there, char *why, size_t room)
{
    char *path = xasprintf("%s/" PROPERTIES_FILE, d->full);
    char reason[JSON_WHY_ROOM] = "";
    struct text bytes = {0};
    struct stat st;
    json_t *v = NULL;
    int fd = -1;
    enum err e = plain_file_open(path, &fd, &st);

    *is_there = e != ERR_NOT_FOUND;
    if (e == ERR_NOT_FOUND) {
        v = json_object();
        goto out;
    }
    if (e == ERR_OK)
        e = plain_file_read(fd, NODE_BYTES_MAX, &bytes);
    if (e == ERR_SYSTEM)
        snprintf(why, room, PROPERTIES_FILE ": %s", strerror(errno));
    else if (e == ERR_UNSUPPORTED)
        snprintf(why, room, PROPERTIES_FILE ": not a regular file");
    else if (e == ERR_TOO_LARGE)
        snprintf(why, room, PROPERTIES_FILE ": over %d bytes", NODE_BYTES_MAX);
    if (e != ERR_OK)
        goto out;
    e = json_parse(text_slice(&bytes), NODE_BYTES_MAX, &v, reason);
    if (e != ERR_OK) {
        v = NULL;
        snprintf(why, room, PROPERTIES_FILE ": %s", reason);
    } else if (!json_is_object(v)) {
        json_decref(v);
        v = NULL;
        snprintf(why, room, PROPERTIES_FILE ": not a JSON object");
    }
out:
    if (fd >= 0)
        close(fd);
    text_fini(&bytes);
    free(path);
    return v;
}

/*
 * Whether to keep what was known for a moment: editors write in place, or move the old file away
 * before the new one comes, and in between nobody should see defaults or errors.
 */
static bool in_doubt(struct dir *d, const json_t *v, const char *why)
{
    const struct tree_spot *s = d->spot;
    bool news = s->parses || s->problem == NULL || strcmp(s->problem, why) != 0;

    if (v != NULL && json_object_size(s->properties) == 0)
        news = false;

    if (!s->known || !news || d->doubt_over)
        return false;
    if (!timer_running(&d->doubt))
        timer_start(d->tree->base.loop, &d->doubt, DOUBT_MS);
    return true;
}

static void read_data(struct dir *d)
{
    char why[JSON_WHY_ROOM + 64] = "";
    bool is_there;
    json_t *v = load_properties(d, &is_there, why, sizeof(why));

    d->data_stale = false;
    if (!is_there)
        snprintf(why, sizeof(why), PROPERTIES_FILE ": is gone");
    if ((v == NULL || !is_there) && in_doubt(d, v, why)) {
        json_decref(v);
        return;
    }
    timer_stop(&d->doubt);
    d->doubt_over = false;
    /* A node that never said anything has no properties; one that did keeps them, as if it were
     * gone itself. */
    if (v != NULL && (is_there || json_object_size(d->spot->properties) == 0)) {
        tree_spot_set_properties(d->spot, v);
    } else {
        json_decref(v);
        tree_spot_set_problem(d->spot, why);
    }
}

static void on_doubt_over(struct timer *timer)
{
    struct dir *d = container_of(timer, struct dir, doubt);

    d->doubt_over = true;
    d->data_stale = true;
    tree_spot_touch(d->spot, PART_NODE);
}

/* ---- children ---- */

static bool is_folder(const struct dir *d, const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    char *path = xasprintf("%s/%s", d->full, entry->d_name);
    struct stat st;
    bool yes = lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
    free(path);
    return yes;
}

static struct name_set *load_children(struct dir *d)
{
    DIR *folder = opendir(d->full);
    struct name_set *set;
    struct dirent *entry;
    size_t n = 0;

    if (folder == NULL)
        return NULL;
    set = name_set_create(0);
    while ((entry = readdir(folder)) != NULL && n < TREE_CHILDREN_MAX) {
        if (entry->d_name[0] == '.' || !is_folder(d, entry))
            continue;
        /* Room in powers of two. */
        if ((n & (n - 1)) == 0)
            set = xrealloc(set, sizeof(*set) + (n == 0 ? 1 : n * 2) * sizeof(set->names[0]));
        set->names[n++] = xstrdup(entry->d_name);
    }
    closedir(folder);
    set->n = n;
    name_set_sort(set);
    return set;
}

static void read_children(struct dir *d)
{
    name_set_drop(d->spot->children);
    d->spot->children = load_children(d);
    d->children_stale = d->spot->children == NULL;
}

/* ---- all of it ---- */

void dir_read(struct dir *d)
{
    struct tree_spot *s = d->spot;

    if (!d->exists) {
        tree_spot_set_missing(s);
        provider_set_drop(s->providers);
        s->providers = NULL;
        name_set_drop(s->children);
        s->children = NULL;
        members_clear(d);
        return;
    }
    if (d->data_stale)
        read_data(d);
    if ((s->parts & PART_PROVIDERS) != 0)
        read_members(d);
    if ((s->parts & PART_CHILDREN) != 0 && d->children_stale)
        read_children(d);
}

void dir_read_init(struct dir *d)
{
    d->data_stale = d->children_stale = d->rescan = true;
    list_init(&d->dirty);
    timer_init(&d->doubt, on_doubt_over);
    timer_init(&d->recheck, on_recheck);
}

void dir_read_fini(struct dir *d)
{
    timer_stop(&d->doubt);
    timer_stop(&d->recheck);
    members_clear(d);
}
