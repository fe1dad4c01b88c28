/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/bound_sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/net/user_rights.h"

struct bound_sockets {
    size_t n, max;
    struct bound {
        struct addr address;
        int fd; /* -1: taken */
    } items[];
};

struct bound_sockets *bound_sockets_create(size_t max)
{
    struct bound_sockets *b = xcalloc(1, sizeof(*b) + max * sizeof(struct bound));

    b->max = max;
    return b;
}

void bound_sockets_add(struct bound_sockets *b, const struct addr *address, int fd)
{
    ASSERT(b->n < b->max);
    b->items[b->n++] = (struct bound){*address, fd};
}

bool bound_sockets_listen(struct bound_sockets *b, const struct addr *address, unsigned mode,
                          const struct privileges *p)
{
    const struct addr_listen_options o = {.mode = mode};
    char shown[ADDR_TEXT_MAX];
    int fd;
    enum err e = addr_listen(address, &o, &fd);

    if (e != ERR_OK) {
        log_error(NULL, "cannot-listen", "address=%s error=\"%s\"", addr_format(address, shown),
                  e == ERR_SYSTEM ? strerror(errno) : err_text(e));
        return false;
    }
    bound_sockets_add(b, address, fd);
    return user_rights_own_socket(address, p);
}

int bound_sockets_take(struct bound_sockets *b, const struct addr *address)
{
    for (size_t i = 0; b != NULL && i < b->n; ++i) {
        int fd = b->items[i].fd;

        if (fd >= 0 && addr_equal(&b->items[i].address, address)) {
            b->items[i].fd = -1;
            return fd;
        }
    }
    return -1;
}

void bound_sockets_destroy(struct bound_sockets *b)
{
    for (size_t i = 0; b != NULL && i < b->n; ++i) {
        if (b->items[i].fd >= 0)
            close(b->items[i].fd);
    }
    free(b);
}
