/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that is replaced has another inode, one that is written anew another size or time; the
 * time of change goes along, as nobody can set it back.
 */
#include "lb/tls_files.h"

#include <stdlib.h>
#include <sys/stat.h>

/* Zero when it cannot be looked at. */
struct identity {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified, changed;
};

struct tls_files {
    size_t n;
    struct identity items[];
};

enum { FILES_PER_CERTIFICATE = 3 };

static void look_at(struct tls_files *f, const char *path)
{
    struct identity *id = &f->items[f->n++];
    struct stat st;

    if (path != NULL && stat(path, &st) == 0)
        *id = (struct identity){st.st_dev, st.st_ino, st.st_size, st.st_mtim, st.st_ctim};
}

struct tls_files *tls_files_look(const struct tls_config *c)
{
    size_t n = c->ncertificates * FILES_PER_CERTIFICATE + 1;
    struct tls_files *f = xcalloc(1, sizeof(*f) + n * sizeof(f->items[0]));

    for (size_t i = 0; i < c->ncertificates; ++i) {
        look_at(f, c->certificates[i].certificate);
        look_at(f, c->certificates[i].key);
        look_at(f, c->certificates[i].ocsp);
    }
    look_at(f, c->s.client_ca);
    ASSERT(f->n == n);
    return f;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool same(const struct identity *a, const struct identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           same_time(&a->modified, &b->modified) && same_time(&a->changed, &b->changed);
}

bool tls_files_same(const struct tls_files *a, const struct tls_files *b)
{
    ASSERT(a->n == b->n);
    for (size_t i = 0; i < a->n; ++i) {
        if (!same(&a->items[i], &b->items[i]))
            return false;
    }
    return true;
}

void tls_files_destroy(struct tls_files *f)
{
    free(f);
}
