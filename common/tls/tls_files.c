/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that is replaced has another inode, one that is rewritten another size or time; the time
 * of change is compared as well, as it cannot be set back.
 */
#include "common/tls/tls_files.h"

#include <stdlib.h>
#include <sys/stat.h>

struct tls_files {
    size_t n;
    struct stat items[]; /* all-zero if there is no file, or stat(2) failed */
};

struct tls_files *tls_files_look(const char *const *paths, size_t n)
{
    struct tls_files *f = xcalloc(1, sizeof(*f) + n * sizeof(f->items[0]));

    f->n = n;
    for (size_t i = 0; i < n; ++i) {
        if (paths[i] != NULL && stat(paths[i], &f->items[i]) != 0)
            f->items[i] = (struct stat){0};
    }
    return f;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           same_time(&a->st_mtim, &b->st_mtim) && same_time(&a->st_ctim, &b->st_ctim);
}

bool tls_files_changed(struct tls_files **f, const char *const *paths, size_t n)
{
    struct tls_files *now = tls_files_look(paths, n);
    bool changed = false;

    ASSERT((*f)->n == n);
    for (size_t i = 0; i < n; ++i)
        changed = changed || !same(&now->items[i], &(*f)->items[i]);
    tls_files_destroy(*f);
    *f = now;
    return changed;
}

void tls_files_destroy(struct tls_files *f)
{
    free(f);
}
