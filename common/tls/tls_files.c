/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that is replaced has another inode, one that is rewritten another size or time; the time
 * of change is compared as well, as it cannot be set back.
 */
#include "common/tls/tls_files.h"

#include <stdlib.h>
#include <sys/stat.h>

const char *tls_files_add(struct tls_files *f, const char *text)
{
    f->texts = xrealloc(f->texts, (f->n + 1) * sizeof(char *));
    f->texts[f->n] = xstrdup(text);
    return f->texts[f->n++];
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool tls_files_changed(struct tls_files *f)
{
    bool changed = false;

    for (size_t i = 0; i < f->nfiles; ++i) {
        const struct stat *old = &f->states[i];
        struct stat now = {0}; /* also if there is no file, or stat(2) fails */

        if (f->texts[i] != NULL && stat(f->texts[i], &now) != 0)
            now = (struct stat){0};
        changed = changed || now.st_dev != old->st_dev || now.st_ino != old->st_ino ||
                  now.st_size != old->st_size || !same_time(&now.st_mtim, &old->st_mtim) ||
                  !same_time(&now.st_ctim, &old->st_ctim);
        f->states[i] = now;
    }
    return changed;
}

void tls_files_watch(struct tls_files *f)
{
    f->nfiles = f->n;
    f->states = xcalloc(f->nfiles, sizeof(*f->states));
    (void)tls_files_changed(f);
}

void tls_files_fini(struct tls_files *f)
{
    for (size_t i = 0; i < f->n; ++i)
        free(f->texts[i]);
    free(f->texts);
    free(f->states);
    *f = (struct tls_files){0};
}
