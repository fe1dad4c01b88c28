/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"

enum err file_read_from(int fd, size_t max, struct text *out)
{
    enum { STEP = 65536 };
    size_t start = out->len;

    for (;;) {
        char *at = text_reserve(out, STEP);
        ssize_t n = TEMP_FAILURE_RETRY(read(fd, at, STEP));

        if (n == 0)
            return ERR_OK;
        out->len += n > 0 ? (size_t)n : 0;
        if (n < 0 || out->len - start > max) {
            out->len = start;
            return n < 0 ? ERR_SYSTEM : ERR_TOO_LARGE;
        }
    }
}

static enum err read_with(const char *path, int flags, size_t max, struct text *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);

    if (fd < 0)
        return errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM;
    enum err result = file_read_from(fd, max, out);
    close(fd);
    return result;
}

enum err file_read(const char *path, size_t max, struct text *out)
{
    return read_with(path, 0, max, out);
}

enum err file_read_state(const char *path, size_t max, struct text *out)
{
    return read_with(path, O_NOFOLLOW | O_NONBLOCK, max, out);
}

bool file_write_all(int fd, struct slice bytes)
{
    while (bytes.len != 0) {
        ssize_t n = TEMP_FAILURE_RETRY(write(fd, bytes.p, bytes.len));

        if (n < 0)
            return false;
        bytes.p += n;
        bytes.len -= (size_t)n;
    }
    return true;
}

static void sync_directory_of(const char *path)
{
    char *copy = xstrdup(path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        /* Some file systems do not support this; the rename is then only as durable as they make
         * it. */
        (void)fsync(fd);
        close(fd);
    }
    free(copy);
}

int file_open_new(const char *path, mode_t mode)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(path, flags, mode);

    if (fd < 0 && errno == EEXIST && unlink(path) == 0)
        fd = open(path, flags, mode);
    return fd;
}

enum err file_write(const char *path, struct slice bytes, mode_t mode)
{
    char *tmp = xasprintf("%s.tmp.%ld", path, (long)getpid());
    int fd = file_open_new(tmp, mode);
    bool ok = fd >= 0 && file_write_all(fd, bytes) && fsync(fd) == 0;

    ok = (fd < 0 || close(fd) == 0) && ok;
    ok = ok && rename(tmp, path) == 0;
    if (ok) {
        sync_directory_of(path);
    } else if (fd >= 0) {
        int saved = errno;

        unlink(tmp);
        errno = saved;
    }
    free(tmp);
    return ok ? ERR_OK : ERR_SYSTEM;
}

enum err file_write_output(const char *path, struct slice bytes, mode_t mode)
{
    struct stat st;

    if (lstat(path, &st) != 0 || S_ISREG(st.st_mode))
        return file_write(path, bytes, mode);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, mode);
    bool ok = fd >= 0 && file_write_all(fd, bytes);

    ok = (fd < 0 || close(fd) == 0) && ok;
    return ok ? ERR_OK : ERR_SYSTEM;
}

int file_lock(const char *path, uint64_t wait_ms)
{
    enum { STEP_MS = 20 };
    uint64_t until_us = clock_mono_us() + wait_ms * 1000;
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    while (fd >= 0 && TEMP_FAILURE_RETRY(flock(fd, LOCK_EX | LOCK_NB)) != 0) {
        int error = errno;

        if (error == EWOULDBLOCK && clock_mono_us() < until_us) {
            poll(NULL, 0, STEP_MS);
            continue;
        }
        close(fd);
        errno = error;
        fd = -1;
    }
    return fd;
}

void file_warn_exposed(const char *path)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IROTH) != 0)
        log_warn(NULL, "secret-file-exposed", "file=%s mode=%04o hint=\"chmod o-r\"", path,
                 (unsigned)st.st_mode & 07777);
}

enum err file_set_aside(const char *path)
{
    char *aside = xasprintf("%s.bad", path);
    enum err result = rename(path, aside) == 0 ? ERR_OK : ERR_SYSTEM;

    free(aside);
    return result;
}

/* ---- state files ---- */

static struct {
    pthread_mutex_t lock;
    struct list files; /* the longest unsaved first */
    size_t n;
} unsaved = {.lock = PTHREAD_MUTEX_INITIALIZER, .files = LIST_INIT(unsaved.files)};

static void state_file_list(struct state_file *f, int error)
{
    pthread_mutex_lock(&unsaved.lock);
    if (error != 0 && f->error == 0) {
        f->unsaved_ms = clock_mono_us() / 1000;
        list_push_back(&unsaved.files, &f->unsaved);
        ++unsaved.n;
    } else if (error == 0 && f->error != 0) {
        list_remove(&f->unsaved);
        --unsaved.n;
    }
    f->error = error;
    pthread_mutex_unlock(&unsaved.lock);
}

/* Notes the result of an attempt; ERROR is an errno, or 0. */
static bool state_file_done(struct state_file *f, int error)
{
    int before = f->error;

    state_file_list(f, error);
    if (error != 0 && error != before)
        log_error(NULL, "state-file-not-written", "file=%s reason=\"%s\" action=\"retry\"", f->path,
                  strerror(error));
    else if (error == 0 && before != 0)
        log_info(NULL, "state-file-written", "file=%s", f->path);
    return error == 0;
}

void state_file_init(struct state_file *f, const char *path)
{
    *f = (struct state_file){.path = xstrdup(path)};
}

void state_file_fini(struct state_file *f)
{
    state_file_list(f, 0);
    free(f->path);
    f->path = NULL;
}

static bool make_directory_of(const char *path)
{
    char *directory = xslicedup((struct slice){path, (size_t)(strrchr(path, '/') - path)});
    bool made = mkdir(directory, 0770) == 0;

    free(directory);
    return made;
}

bool state_file_write(struct state_file *f, struct slice bytes, mode_t mode)
{
    if (f->path == NULL)
        return true;
    enum err e = file_write(f->path, bytes, mode);
    if (e != ERR_OK && errno == ENOENT && make_directory_of(f->path))
        e = file_write(f->path, bytes, mode);
    return state_file_done(f, e == ERR_OK ? 0 : errno);
}

bool state_file_remove(struct state_file *f)
{
    if (f->path == NULL)
        return true;
    return state_file_done(f, unlink(f->path) == 0 || errno == ENOENT ? 0 : errno);
}

size_t state_files_unsaved(void)
{
    pthread_mutex_lock(&unsaved.lock);
    size_t n = unsaved.n;
    pthread_mutex_unlock(&unsaved.lock);
    return n;
}

void state_files_describe(struct json_writer *w)
{
    enum { SHOWN_MAX = 20 };
    uint64_t now_ms = clock_mono_us() / 1000;
    const struct state_file *f;
    unsigned n = 0;

    json_open_array(w, "unsaved_files");
    pthread_mutex_lock(&unsaved.lock);
    list_for_each_entry (f, &unsaved.files, unsaved) {
        if (n++ == SHOWN_MAX)
            break;
        json_open_object(w, NULL);
        json_put_text(w, "file", slice_of(f->path));
        json_put_text(w, "reason", slice_of(strerror(f->error)));
        json_put_real(w, "unsaved_s", (double)(now_ms - f->unsaved_ms) / 1000);
        json_close_object(w);
    }
    pthread_mutex_unlock(&unsaved.lock);
    json_close_array(w);
}
