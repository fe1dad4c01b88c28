/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/packet_queue.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"

struct packet {
    struct list node;
    json_t *message;
    int pass;
};

void packet_queue_init(struct packet_queue *q, int fd)
{
    q->fd = fd;
    list_init(&q->items);
}

static void packet_free(struct packet *p)
{
    json_decref(p->message);
    if (p->pass >= 0)
        close(p->pass);
    free(p);
}

void packet_queue_add(struct packet_queue *q, json_t *message, int pass)
{
    struct packet *p = xcalloc(1, sizeof(*p));

    ASSERT(message != NULL);
    p->message = message;
    /* One of our own, so that the caller's may go before it is sent. */
    p->pass = pass >= 0 ? fcntl(pass, F_DUPFD_CLOEXEC, 3) : -1;
    list_push_back(&q->items, &p->node);
}

enum err packet_queue_flush(struct packet_queue *q)
{
    struct list *node;

    while ((node = list_pop_front(&q->items)) != NULL) {
        struct packet *p = list_entry(node, struct packet, node);
        enum err e = packet_send(q->fd, p->message, p->pass);

        if (e == ERR_BUSY) {
            list_push_front(&q->items, node);
            return ERR_BUSY;
        }
        packet_free(p);
        if (e == ERR_TOO_LARGE)
            log_error(NULL, "packet-too-large", "limit=%d", PACKET_BYTES_MAX);
        if (e == ERR_PEER_CLOSED)
            return ERR_PEER_CLOSED;
    }
    return ERR_OK;
}

void packet_queue_clear(struct packet_queue *q)
{
    struct list *node;

    while ((node = list_pop_front(&q->items)) != NULL)
        packet_free(list_entry(node, struct packet, node));
}

void packet_queue_close(struct packet_queue *q)
{
    packet_queue_clear(q);
    if (q->fd >= 0)
        close(q->fd);
    q->fd = -1;
}
