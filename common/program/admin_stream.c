/* SPDX-License-Identifier: Apache-2.0
 *
 * An event is created when it is due, if there are listeners, and only for listeners that have
 * taken the previous one; so at most one event is queued for each, whatever the network does.
 * Listeners with the same query share a topic: the text is created once for all of them. A listener
 * that has the previous text receives only what has changed in it (line_delta).
 */
#include "common/program/admin_stream.h"

#include "common/program/line_delta.h"

#include <stdlib.h>

/* The text sent to listeners with the same query. */
struct topic {
    struct list node;
    struct list listeners;
    uint64_t serial; /* of the text; 0: none yet */
    struct text query, text;
};

struct listener {
    struct list node;
    struct topic *topic;
    struct http_reply *reply;
    uint64_t told; /* the serial of the last text sent to it */
    unsigned late;
};

struct admin_stream {
    struct loop *loop;
    uint64_t every_ms;
    admin_page_fn make;
    void *context;
    struct timer timer;
    struct list topics;
    bool ended;
};

static void drop_if_empty(struct topic *t)
{
    if (!list_empty(&t->listeners))
        return;
    list_remove(&t->node);
    text_fini(&t->query);
    text_fini(&t->text);
    free(t);
}

static void on_gone(void *context, bool done)
{
    struct listener *x = context;

    (void)done;
    list_remove(&x->node);
    drop_if_empty(x->topic);
    free(x);
}

static const struct http_reply_events events = {.gone = on_gone};

/* Each line of an event's data begins with its name. KIND: NULL: the usual. */
static void wrap(const char *kind, struct slice body, struct text *out)
{
    if (kind != NULL)
        text_addf(out, "event: %s\n", kind);
    while (body.len != 0) {
        struct slice line = slice_cut(&body, '\n');

        text_add(out, SLICE_LIT("data: "));
        text_add(out, line);
        text_add_char(out, '\n');
    }
    text_add_char(out, '\n');
}

/* Of one text: all of it, and what has changed since the one before. */
struct event {
    struct text whole, delta;
};

/* May end X. */
static void tell(struct listener *x, const struct event *e)
{
    const struct topic *t = x->topic;
    bool has_last = x->told != 0 && x->told + 1 == t->serial && e->delta.len < e->whole.len;

    if (x->reply->queued_bytes == 0) {
        x->late = 0;
        x->told = t->serial;
        http_reply_send(x->reply, http1_body_copy(text_slice(has_last ? &e->delta : &e->whole)),
                        false);
    } else if (++x->late >= ADMIN_LISTENER_LATE_MAX) {
        http_reply_abort(x->reply);
    }
}

static size_t count(const struct admin_stream *s)
{
    struct list *t;
    struct list *it;
    size_t n = 0;

    list_for_each (t, &s->topics) {
        list_for_each (it, &list_entry(t, struct topic, node)->listeners)
            ++n;
    }
    return n;
}

/* T may be gone afterwards. */
static void tell_all(const struct admin_stream *s, struct topic *t)
{
    struct event e = {{0}, {0}};
    struct text now = {0};
    struct text changes = {0};
    struct list *it;
    struct list *next;
    bool last = false;

    (void)s->make(s->context, text_slice(&t->query), &now);
    /* The members of a JSON document, on the one line that an event's data may have. */
    if (slice_ends(text_slice(&now), SLICE_LIT("\n")))
        --now.len;
    ASSERT(slice_find(text_slice(&now), '\n') == SIZE_MAX);
    line_delta(text_slice(&t->text), text_slice(&now), ',', &changes);
    wrap(NULL, text_slice(&now), &e.whole);
    wrap("delta", text_slice(&changes), &e.delta);
    text_fini(&t->text);
    t->text = now;
    ++t->serial;
    /* The last one takes the topic along. */
    for (it = t->listeners.next; !last; it = next) {
        next = it->next;
        last = next == &t->listeners;
        tell(list_entry(it, struct listener, node), &e);
    }
    text_fini(&changes);
    text_fini(&e.whole);
    text_fini(&e.delta);
}

static void on_timer(struct timer *t)
{
    struct admin_stream *s = container_of(t, struct admin_stream, timer);
    struct list *it;
    struct list *next;

    list_for_each_safe (it, next, &s->topics)
        tell_all(s, list_entry(it, struct topic, node));
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
    list_init(&s->topics);
    timer_init(&s->timer, on_timer);
    return s;
}

void admin_stream_destroy(struct admin_stream *s)
{
    ASSERT(list_empty(&s->topics));
    timer_stop(&s->timer);
    free(s);
}

bool admin_stream_has_room(const struct admin_stream *s)
{
    return !s->ended && count(s) < ADMIN_LISTENERS_MAX;
}

static struct topic *topic_of(struct admin_stream *s, struct slice query)
{
    struct list *it;

    list_for_each (it, &s->topics) {
        struct topic *t = list_entry(it, struct topic, node);

        if (slice_eq(text_slice(&t->query), query))
            return t;
    }
    struct topic *t = xcalloc(1, sizeof(*t));
    text_add(&t->query, query);
    list_init(&t->listeners);
    list_push_back(&s->topics, &t->node);
    return t;
}

void admin_stream_join(struct admin_stream *s, struct http_reply *r, struct slice query)
{
    struct listener *x = xcalloc(1, sizeof(*x));

    x->reply = r;
    x->topic = topic_of(s, query);
    list_push_back(&x->topic->listeners, &x->node);
    r->events = &events;
    r->context = x;
    http_reply_start(r, UINT64_MAX);
    if (!timer_running(&s->timer))
        timer_start(s->loop, &s->timer, 0);
}

static void end_topic(struct topic *t)
{
    struct list *it;
    struct list *next;
    bool last = false;

    /* The last one takes the topic along. */
    for (it = t->listeners.next; !last; it = next) {
        next = it->next;
        last = next == &t->listeners;
        http_reply_send(list_entry(it, struct listener, node)->reply, NULL, true);
    }
}

void admin_stream_end(struct admin_stream *s)
{
    struct list *it;
    struct list *next;

    s->ended = true;
    timer_stop(&s->timer);
    list_for_each_safe (it, next, &s->topics)
        end_topic(list_entry(it, struct topic, node));
}
