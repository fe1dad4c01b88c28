/* SPDX-License-Identifier: Apache-2.0
 *
 * A frame is read whole before the library gets a byte of it, and not a byte further: so it never
 * waits for a socket to become readable while what it waits for is here. A handle has one
 * connection at a time.
 */
#include "common/tree/zookeeper_guard.h"

#include "common/base/clock.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>

enum {
    /* Read at once; so much more memory than has come is taken for a frame at most. */
    PIECE_BYTES = 64 * 1024,
    /* A buffer that was larger is given back. */
    KEPT_BYTES = 64 * 1024,
};

struct shunned {
    struct sockaddr_storage peer;
    socklen_t len;
    uint64_t until_us;
};

struct zk_guard {
    void (*refused)(void *context, enum zookeeper_fault why);
    void *context;
    pthread_mutex_t mutex; /* of all below: the end of a handle sends from another thread */
    int fd;                /* the connection's; -1: none yet */
    struct zookeeper_dialog dialog;
    struct text in; /* the frame being read, or given, its length in front */
    size_t given;   /* of it, to the library */
    bool whole;     /* it may be given */
    bool dead;      /* the connection was ended by us */
    struct sockaddr_storage peer;
    socklen_t peer_len;
    struct shunned shunned[ZK_GUARD_SHUNNED_MAX];
    size_t next_shunned;
};

/* Whose the calls of this thread are. The library's callbacks into libc carry nothing of ours. */
static _Thread_local struct zk_guard *of_this_thread;

/* ---- a connection ---- */

static bool is_shunned(const struct zk_guard *g, const struct sockaddr *peer, socklen_t len)
{
    uint64_t now = clock_mono_us();

    for (size_t i = 0; i < ZK_GUARD_SHUNNED_MAX; ++i) {
        const struct shunned *s = &g->shunned[i];

        if (now < s->until_us && s->len == len && memcmp(&s->peer, peer, len) == 0)
            return true;
    }
    return false;
}

static void shun(struct zk_guard *g)
{
    struct shunned *s = &g->shunned[g->next_shunned++ % ZK_GUARD_SHUNNED_MAX];

    *s = (struct shunned){.peer = g->peer,
                          .len = g->peer_len,
                          .until_us = clock_mono_us() + (uint64_t)ZK_GUARD_SHUN_MS * 1000};
}

static void forget_frame(struct zk_guard *g)
{
    g->given = 0;
    g->whole = false;
    text_clear(&g->in);
    if (g->in.room > KEPT_BYTES)
        text_fini(&g->in);
}

static void begin(struct zk_guard *g, int fd, const struct sockaddr *peer, socklen_t len)
{
    zookeeper_dialog_fini(&g->dialog);
    forget_frame(g);
    g->fd = fd;
    g->dead = false;
    g->peer_len = len;
    memset(&g->peer, 0, sizeof(g->peer));
    memcpy(&g->peer, peer, len);
}

static void end(struct zk_guard *g)
{
    g->dead = true;
    forget_frame(g);
    shun(g);
}

/* ---- what the library calls ---- */

static int guarded_connect(int fd, const struct sockaddr *peer, socklen_t len)
{
    struct zk_guard *g = of_this_thread;

    if (g == NULL)
        return connect(fd, peer, len);
    pthread_mutex_lock(&g->mutex);
    bool refuse = len > sizeof(g->peer) || is_shunned(g, peer, len);
    if (!refuse)
        begin(g, fd, peer, len);
    pthread_mutex_unlock(&g->mutex);
    if (!refuse)
        return connect(fd, peer, len);
    errno = ECONNREFUSED;
    return -1;
}

/* This thread's guard, whose lock is held then; NULL: it has none. */
static struct zk_guard *guard_here(void)
{
    if (of_this_thread != NULL)
        pthread_mutex_lock(&of_this_thread->mutex);
    return of_this_thread;
}

/* Nothing is to be said or heard on FD: it was ended, or is not the connection that is guarded. */
static bool is_over(const struct zk_guard *g, int fd)
{
    return g->dead || g->fd != fd;
}

static ssize_t over(enum zookeeper_fault why, struct zk_guard *g)
{
    if (why != ZOOKEEPER_FAULT_NONE)
        g->refused(g->context, why);
    errno = ECONNRESET;
    return -1;
}

static ssize_t guarded_send(int fd, const void *bytes, size_t n, int flags)
{
    struct zk_guard *g = guard_here();
    enum zookeeper_fault why = ZOOKEEPER_FAULT_NONE;

    if (g == NULL)
        return send(fd, bytes, n, flags);
    bool ended = is_over(g, fd);
    ssize_t sent = ended ? -1 : send(fd, bytes, n, flags);
    int error = ended ? ECONNRESET : errno;
    if (sent > 0)
        why = zookeeper_dialog_sent(&g->dialog, (struct slice){bytes, (size_t)sent});
    if (why != ZOOKEEPER_FAULT_NONE)
        end(g);
    pthread_mutex_unlock(&g->mutex);
    if (why != ZOOKEEPER_FAULT_NONE)
        return over(why, g);
    errno = error;
    return sent;
}

/* Of the frame whose first bytes are here; 0: its length is not known yet. */
static size_t frame_bytes(const struct zk_guard *g)
{
    uint32_t length = 0;

    if (g->in.len < 4)
        return 0;
    for (size_t i = 0; i < 4; ++i)
        length = length << 8 | (unsigned char)g->in.p[i];
    return 4 + (size_t)length;
}

/* Read on, up to the end of the frame. As recv: 1 once the frame is whole and fits, 0, or -1. */
static ssize_t read_frame(struct zk_guard *g, int flags, enum zookeeper_fault *why)
{
    while (!g->whole) {
        size_t bytes = frame_bytes(g);
        size_t wanted = (bytes == 0 ? 4 : bytes) - g->in.len;

        if (wanted > PIECE_BYTES)
            wanted = PIECE_BYTES;
        ssize_t n = recv(g->fd, text_reserve(&g->in, wanted), wanted, flags);
        if (n <= 0)
            return n;
        g->in.len += (size_t)n;
        bytes = frame_bytes(g);
        if (g->in.len == 4)
            *why = zookeeper_dialog_length(&g->dialog, (uint32_t)(bytes - 4));
        else if (g->in.len == bytes)
            *why = zookeeper_dialog_heard(&g->dialog, (struct slice){g->in.p + 4, bytes - 4});
        if (*why != ZOOKEEPER_FAULT_NONE)
            return -1;
        g->whole = g->in.len == bytes;
    }
    return 1;
}

static ssize_t give(struct zk_guard *g, void *out, size_t room)
{
    size_t n = g->in.len - g->given < room ? g->in.len - g->given : room;

    memcpy(out, g->in.p + g->given, n);
    g->given += n;
    if (g->given == g->in.len)
        forget_frame(g);
    return (ssize_t)n;
}

static ssize_t guarded_recv(int fd, void *out, size_t room, int flags)
{
    struct zk_guard *g = guard_here();
    enum zookeeper_fault why = ZOOKEEPER_FAULT_NONE;

    if (g == NULL)
        return recv(fd, out, room, flags);
    bool ended = is_over(g, fd);
    ssize_t n = ended || room == 0 ? 0 : read_frame(g, flags, &why);
    int error = errno;
    if (n > 0)
        n = give(g, out, room);
    if (why != ZOOKEEPER_FAULT_NONE)
        end(g);
    pthread_mutex_unlock(&g->mutex);
    if (ended || why != ZOOKEEPER_FAULT_NONE)
        return over(why, g);
    errno = error;
    return n;
}

/* What a thread of the library begins with. */
struct start {
    void *(*run)(void *);
    void *argument;
    struct zk_guard *guard;
};

static void *run_thread(void *context)
{
    struct start s = *(struct start *)context;

    free(context);
    of_this_thread = s.guard;
    return s.run(s.argument);
}

static int guarded_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                                  void *(*run)(void *), void *argument)
{
    struct start *s = xmalloc(sizeof(*s));

    *s = (struct start){run, argument, of_this_thread};
    int rc = pthread_create(thread, attr, run_thread, s);
    if (rc != 0)
        free(s);
    return rc;
}

/* ---- the library's table of foreign functions ---- */

static const struct led {
    const char *name;
    void (*to)(void);
} led[] = {
    {"connect", (void (*)(void))guarded_connect},
    {"send", (void (*)(void))guarded_send},
    {"recv", (void (*)(void))guarded_recv},
    {"pthread_create", (void (*)(void))guarded_pthread_create},
};

/* What of the library's dynamic section is looked at. */
struct section {
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * rows;
    size_t nrows;
    bool has_addends; /* as rows are on the machines we know */
};

static struct section section_of(const struct dl_phdr_info *info, const ElfW(Dyn) * d)
{
    struct section s = {0};

    for (; d->d_tag != DT_NULL; ++d) {
        /* Where the loader leaves this table as it is, places in it count from the library's. */
        uintptr_t at =
            d->d_un.d_ptr < info->dlpi_addr ? d->d_un.d_ptr + info->dlpi_addr : d->d_un.d_ptr;

        if (d->d_tag == DT_SYMTAB)
            s.symbols = (const void *)at;
        else if (d->d_tag == DT_STRTAB)
            s.strings = (const void *)at;
        else if (d->d_tag == DT_JMPREL)
            s.rows = (const void *)at;
        else if (d->d_tag == DT_PLTRELSZ)
            s.nrows = d->d_un.d_val / sizeof(ElfW(Rela));
        else if (d->d_tag == DT_PLTREL)
            s.has_addends = d->d_un.d_val == DT_RELA;
    }
    return s;
}

/* Read-only once the library is loaded; then nobody may be led elsewhere. */
static bool is_sealed(const struct dl_phdr_info *info, uintptr_t place)
{
    for (size_t i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_GNU_RELRO && place - info->dlpi_addr - p->p_vaddr < p->p_memsz)
            return true;
    }
    return false;
}

/* How many of the functions in LED are led. */
static size_t lead(const struct dl_phdr_info *info, const struct section *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->nrows; ++i) {
        const ElfW(Rela) *row = &s->rows[i];
        const ElfW(Sym) *symbol = &s->symbols[row->r_info >> (__ELF_NATIVE_CLASS == 64 ? 32 : 8)];
        uintptr_t place = info->dlpi_addr + row->r_offset;

        for (size_t k = 0; k < ARRAY_LEN(led); ++k) {
            if (strcmp(s->strings + symbol->st_name, led[k].name) != 0 || is_sealed(info, place))
                continue;
            __atomic_store_n((uintptr_t *)place, (uintptr_t)led[k].to, __ATOMIC_RELAXED);
            ++n;
        }
    }
    return n;
}

static int lead_library(struct dl_phdr_info *info, size_t size, void *ok)
{
    (void)size;
    if (strstr(info->dlpi_name, "/" ZK_GUARD_LIBRARY) == NULL)
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_DYNAMIC) {
            struct section s = section_of(info, (const void *)(info->dlpi_addr + p->p_vaddr));
            bool known = s.symbols != NULL && s.strings != NULL && s.rows != NULL && s.has_addends;

            *(bool *)ok = known && lead(info, &s) == ARRAY_LEN(led);
        }
    }
    return 1;
}

static bool library_is_led;

static void lead_it(void)
{
    dl_iterate_phdr(lead_library, &library_is_led);
}

/* ---- life ---- */

struct zk_guard *zk_guard_create(void (*refused)(void *context, enum zookeeper_fault why),
                                 void *context)
{
    struct zk_guard *g = xcalloc(1, sizeof(*g));

    pthread_mutex_init(&g->mutex, NULL);
    g->refused = refused;
    g->context = context;
    g->fd = -1;
    return g;
}

void zk_guard_destroy(struct zk_guard *g)
{
    if (g == NULL)
        return;
    zookeeper_dialog_fini(&g->dialog);
    text_fini(&g->in);
    pthread_mutex_destroy(&g->mutex);
    free(g);
}

enum err zk_guard_check(struct diag *d)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, lead_it);
    if (library_is_led)
        return ERR_OK;
    diag_add(d, NULL, 0, 0,
             "zookeeper: a client library that is not known here: want " ZK_GUARD_LIBRARY);
    return ERR_UNSUPPORTED;
}

void zk_guard_enter(struct zk_guard *g)
{
    ASSERT(library_is_led);
    of_this_thread = g;
}
