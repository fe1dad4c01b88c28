/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of a plain HTTP/1 connection, which the tap reads by itself (tap.reads). libh2o would
 * read on until nothing is left, and double its buffer, and copy it, as often as it is full: by the
 * time the tap sees how large a body is, it would all have been copied once too often. Its layout
 * of buffers is locked with the rest of the tap. And what has been read too much of, for now.
 */
#include "common/event/sys.h"
#include "common/net/http_conn.h"

#include <errno.h>
#include <stdlib.h>

enum {
    READ_MIN = 4096, /* room before each read, as libh2o has it */
    /* Room for a body is there before it comes; a page that nothing has come for costs nothing. */
    ROOM_AHEAD_MAX = 512 * 1024,
    /* An unfinished head keeps no more room than this beyond itself. */
    SLACK_MAX = 512,
};

static void drop_empty(struct http_conn *c)
{
    h2o_buffer_t **in = &c->sock->input;

    if ((*in)->size != 0)
        return;
    h2o_buffer_dispose(in);
    h2o_buffer_init(in, &h2o_socket_buffer_prototype);
}

enum tap_read http_tap_receive(struct http_conn *c, size_t *fresh, const char **err)
{
    h2o_iovec_t room = h2o_buffer_reserve(&c->sock->input, READ_MIN);
    size_t max = room.len;

    /* What follows the body may stay where it is. */
    if (c->tap.state == TAP_LENGTH && c->tap.left < max)
        max = (size_t)c->tap.left;
    *fresh = 0;
    ssize_t n = sys_recv(h2o_socket_get_fd(c->sock), room.base, max, MSG_DONTWAIT);
    if (n > 0) {
        c->sock->input->size += (size_t)n;
        *fresh = (size_t)n;
    } else {
        drop_empty(c);
        if (n == -1 && (errno == EAGAIN || errno == EINTR))
            return TAP_READ_NOTHING;
        *err = n == 0 ? h2o_socket_error_closed : h2o_socket_error_io;
    }
    c->sock->bytes_read = *fresh;
    return *fresh == max ? TAP_READ_FULL : TAP_READ_SOME;
}

void http_tap_make_room(struct http_conn *c, size_t fresh)
{
    const struct http_tap *t = &c->tap;

    if (t->state == TAP_LENGTH && t->left > fresh && t->left - fresh <= ROOM_AHEAD_MAX &&
        !http_tap_spilling(c))
        (void)h2o_buffer_reserve(&c->sock->input, (size_t)t->left - fresh + READ_MIN);
}

void http_tap_shrink_head(struct http_conn *c)
{
    h2o_buffer_t *in = c->sock->input;

    if (c->tap.state != TAP_HEAD || in->size == 0 || in->_fd != -1 ||
        in->capacity < in->size + SLACK_MAX)
        return;
    h2o_buffer_t *small = xmalloc(sizeof(*small) + in->size);
    *small = *in;
    small->capacity = in->size;
    small->bytes = small->_buf;
    memcpy(small->_buf, in->bytes, in->size);
    c->sock->input = small;
    h2o_buffer_dispose(&in);
}

/* ---- held back ---- */

void http_tap_hold_back(struct http_conn *c, size_t rest)
{
    h2o_buffer_t *in = c->sock->input;

    if (rest == 0)
        return;
    ASSERT(c->tap.held.len == 0);
    in->size -= rest;
    c->sock->bytes_read -= rest;
    text_add(&c->tap.held, (struct slice){in->bytes + in->size, rest});
}

void http_tap_drop_held(struct http_conn *c)
{
    struct http_tap *t = &c->tap;

    if (t->held_at < t->held.len)
        return;
    text_fini(&t->held);
    t->held = (struct text){0};
    t->held_at = 0;
}

void http_tap_release(struct http_conn *c)
{
    struct http_tap *t = &c->tap;
    size_t n = t->held.len - t->held_at;

    t->state = TAP_NONE;
    if (t->reads)
        h2o_socket_dont_read(c->sock, 0);
    t->reads = false;
    list_remove(&t->node);
    if (n == 0)
        return;
    h2o_iovec_t room = h2o_buffer_reserve(&c->sock->input, n);
    memcpy(room.base, t->held.p + t->held_at, n);
    c->sock->input->size += n;
    t->held_at = t->held.len;
}
