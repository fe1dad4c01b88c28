/* SPDX-License-Identifier: Apache-2.0
 *
 * An event is made when its time has come, if anybody listens, and only for those who have taken
 * the last one: so at most one is queued for each, whatever the network does.
 */
#include "common/net/admin_stream.h"

#include <stdlib.h>

struct listener {
    struct list node;
    struct http_reply *reply;
    struct slice query;
    unsigned late;
};

struct admin_stream {
    struct loop *loop;
    uint64_t every_ms;
    admin_page_fn make;
    void *context;
    struct timer timer;
    struct list listeners;
    bool ended;
};

static void on_gone(void *context, bool done)
{
    struct listener *x = context;

    (void)done;
    list_remove(&x->node);
    free(x);
}

static const struct http_reply_events events = {.gone = on_gone};

/* Each line of an event's data begins with its name; the text has no others. */
static void wrap(struct slice body, struct text *out)
{
    text_clear(out);
    while (body.len != 0) {
        struct slice line = slice_cut(&body, '\n');

        text_add(out, SLICE_LIT("data: "));
        text_add(out, line);
        text_add_char(out, '\n');
    }
    text_add_char(out, '\n');
}

/* May end X. */
static void tell(struct listener *x, struct slice event)
{
    if (x->reply->queued_bytes == 0) {
        x->late = 0;
        http_reply_send(x->reply, http1_body_copy(event), false);
    } else if (++x->late >= ADMIN_LISTENER_LATE_MAX) {
        http_reply_abort(x->reply);
    }
}

static size_t count(const struct admin_stream *s)
{
    const struct list *it;
    size_t n = 0;

    list_for_each (it, &s->listeners)
        ++n;
    return n;
}

static void on_timer(struct timer *t)
{
    struct admin_stream *s = container_of(t, struct admin_stream, timer);
    struct text last = {0}; /* what EVENT was asked with */
    struct text body = {0};
    struct text event = {0};
    struct list *it;
    struct list *next;

    list_for_each_safe (it, next, &s->listeners) {
        struct listener *x = list_entry(it, struct listener, node);

        if (event.len == 0 || !slice_eq(text_slice(&last), x->query)) {
            text_clear(&body);
            (void)s->make(s->context, x->query, &body);
            wrap(text_slice(&body), &event);
            text_clear(&last);
            text_add(&last, x->query);
        }
        tell(x, text_slice(&event));
    }
    text_fini(&last);
    text_fini(&body);
    text_fini(&event);
    if (count(s) != 0)
        timer_start(s->loop, &s->timer, s->every_ms);
}

struct admin_stream *admin_stream_create(struct loop *l, uint64_t every_ms, admin_page_fn make,
                                         void *context)
{
    struct admin_stream *s = xcalloc(1, sizeof(*s));

    s->loop = l;
    s->every_ms = every_ms;
    s->make = make;
    s->context = context;
    list_init(&s->listeners);
    timer_init(&s->timer, on_timer);
    return s;
}

void admin_stream_destroy(struct admin_stream *s)
{
    ASSERT(list_empty(&s->listeners));
    timer_stop(&s->timer);
    free(s);
}

bool admin_stream_has_room(const struct admin_stream *s)
{
    return !s->ended && count(s) < ADMIN_LISTENERS_MAX;
}

void admin_stream_join(struct admin_stream *s, struct http_reply *r, struct slice query)
{
    struct listener *x = xcalloc(1, sizeof(*x));

    x->reply = r;
    x->query = query;
    list_push_back(&s->listeners, &x->node);
    r->events = &events;
    r->context = x;
    http_reply_start(r, UINT64_MAX);
    if (!timer_running(&s->timer))
        timer_start(s->loop, &s->timer, 0);
}

void admin_stream_end(struct admin_stream *s)
{
    struct list *it;
    struct list *next;

    s->ended = true;
    timer_stop(&s->timer);
    list_for_each_safe (it, next, &s->listeners)
        http_reply_send(list_entry(it, struct listener, node)->reply, NULL, true);
}
