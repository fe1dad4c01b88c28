/* SPDX-License-Identifier: Apache-2.0
 *
 * Files are written and sent by system calls, which fill pages with the data directly; pages of a
 * mapping would be faulted in one by one, and filled with zeros first.
 */
#include "common/net/body_file.h"
#include "common/net/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    /* Maximum number of bytes sent at once, so that other sockets of the loop are served in
     * between. */
    SEND_MAX = 1 << 20,
    /* Number of bytes freed at once, which takes about a millisecond; and the pause before the
     * next ones. */
    CUT_BYTES = 16 << 20,
    CUT_PAUSE_MS = 1,
    /* A file system is low on space if it has less than this free, or less than this fraction of
     * its size, whichever is smaller. */
    FREE_MIN_BYTES = 256 << 20,
    FREE_MIN_PART = 16,
};

struct body_file {
    struct list in_bin;
    int fd;
    size_t bytes;
    size_t released; /* number of bytes at the start that use no space any more */
    void *map;       /* NULL: not mapped yet */
};

struct body_file *body_file_create(const char *directory)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    /* Not every file system supports O_TMPFILE. */
    if (fd == -1 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        char *name = xasprintf("%s/resumelb.XXXXXX", directory);

        fd = mkostemp(name, O_CLOEXEC);
        if (fd != -1)
            unlink(name);
        free(name);
    }
    if (fd == -1)
        return NULL;
    struct body_file *f = xcalloc(1, sizeof(*f));
    f->fd = fd;
    return f;
}

void body_file_destroy(struct body_file *f)
{
    if (f == NULL)
        return;
    if (f->map != NULL)
        munmap(f->map, f->bytes);
    close(f->fd);
    free(f);
}

/* ---- the bin ---- */

static void on_cut(struct timer *t)
{
    struct body_file_bin *b = container_of(t, struct body_file_bin, timer);
    struct body_file *f = list_first(&b->files, struct body_file, in_bin);

    if (f->bytes - f->released > CUT_BYTES &&
        ftruncate(f->fd, (off_t)(f->bytes - CUT_BYTES)) == 0) {
        f->bytes -= CUT_BYTES;
    } else {
        list_remove(&f->in_bin);
        body_file_destroy(f);
    }
    if (!list_empty(&b->files))
        timer_start(b->loop, &b->timer, CUT_PAUSE_MS);
}

void body_file_bin_init(struct body_file_bin *b, struct loop *l)
{
    b->loop = l;
    timer_init(&b->timer, on_cut);
    list_init(&b->files);
}

void body_file_bin_fini(struct body_file_bin *b)
{
    struct body_file *f;

    timer_stop(&b->timer);
    while ((f = list_pop_entry(&b->files, struct body_file, in_bin)) != NULL)
        body_file_destroy(f);
}

void body_file_throw(struct body_file_bin *b, struct body_file *f)
{
    if (f == NULL || f->bytes - f->released <= CUT_BYTES) {
        body_file_destroy(f);
        return;
    }
    if (f->map != NULL)
        munmap(f->map, f->bytes);
    f->map = NULL;
    list_push_back(&b->files, &f->in_bin);
    if (!timer_running(&b->timer))
        timer_start(b->loop, &b->timer, CUT_PAUSE_MS);
}

/* ---- what is in a file ---- */

bool body_file_add(struct body_file *f, struct slice bytes)
{
    size_t at = f->bytes;

    ASSERT(f->map == NULL);
    while (bytes.len != 0) {
        ssize_t n = TEMP_FAILURE_RETRY(pwrite(f->fd, bytes.p, bytes.len, (off_t)at));

        if (n == -1)
            return false;
        at += (size_t)n;
        bytes.p += n;
        bytes.len -= (size_t)n;
    }
    f->bytes = at;
    return true;
}

ssize_t body_file_read(const struct body_file *f, size_t at, char *to, size_t room)
{
    size_t max = room < f->bytes - at ? room : f->bytes - at;

    ASSERT(at < f->bytes);
    ssize_t n = TEMP_FAILURE_RETRY(pread(f->fd, to, max, (off_t)at));
    if (n == 0) {
        /* Another program has truncated the file. */
        errno = EIO;
        return -1;
    }
    return n;
}

size_t body_file_release(struct body_file *f, size_t bytes)
{
    ASSERT(bytes <= f->bytes);
    if (bytes > f->released && fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                         (off_t)f->released, (off_t)(bytes - f->released)) == 0)
        f->released = bytes;
    return f->released;
}

bool body_file_space_is_low(const struct body_file *f)
{
    struct statvfs v;

    if (fstatvfs(f->fd, &v) == -1)
        return false;
    uint64_t part = (uint64_t)v.f_blocks * v.f_frsize / FREE_MIN_PART;
    return (uint64_t)v.f_bavail * v.f_frsize < (part < FREE_MIN_BYTES ? part : FREE_MIN_BYTES);
}

struct slice body_file_map(struct body_file *f)
{
    if (f->bytes == 0)
        return SLICE_LIT("");
    if (f->map == NULL) {
        void *map = mmap(NULL, f->bytes, PROT_READ, MAP_SHARED, f->fd, 0);
        if (map == MAP_FAILED)
            return SLICE_NULL;
        f->map = map;
    }
    return (struct slice){f->map, f->bytes};
}

ssize_t body_file_send(const struct body_file *f, struct transport *to, size_t left)
{
    off_t at = (off_t)(f->bytes - left);

    ASSERT(left <= f->bytes);
    ssize_t n = transport_send_file(to, f->fd, at, left < SEND_MAX ? left : SEND_MAX);
    if (n == 0 && left != 0) {
        /* The file was truncated. */
        errno = EIO;
        return -1;
    }
    return n;
}
