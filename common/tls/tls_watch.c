/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tls/tls_watch.h"

void tls_watch_look(struct tls_watch *w, const char *const paths[TLS_WATCH_FILES])
{
    for (size_t i = 0; i < TLS_WATCH_FILES; ++i) {
        memset(&w->files[i], 0, sizeof(w->files[i]));
        if (paths[i] != NULL && stat(paths[i], &w->files[i]) != 0)
            memset(&w->files[i], 0, sizeof(w->files[i]));
    }
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           same_time(&a->st_mtim, &b->st_mtim) && same_time(&a->st_ctim, &b->st_ctim);
}

bool tls_watch_same(const struct tls_watch *a, const struct tls_watch *b)
{
    bool same = true;

    for (size_t i = 0; i < TLS_WATCH_FILES; ++i)
        same = same && same_file(&a->files[i], &b->files[i]);
    return same;
}
