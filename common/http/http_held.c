/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads that wait for the first bytes of their body: nearly all of them for less than the turn, and
 * all for the same time. So they are in one list, the first to be sent at its front (with several
 * hold times they are inserted in order), with one timer for all; it may expire for one that has
 * been sent meanwhile. Those that are held for the rest of the turn only have a list of their own.
 */
#include "common/http/http_server_internal.h"

static struct http_reply *first_of(const struct list *held)
{
    return list_first(held, struct http_reply, held_node);
}

static void on_timer(struct timer *t)
{
    struct http_server *s = container_of(t, struct http_server, held_timer);
    uint64_t now_ms = loop_now_ms(s->loop);
    struct list due;
    struct list *node;

    /* Entries added meanwhile are handled later, so that the loop cannot starve itself. */
    list_init(&due);
    list_splice_back(&due, &s->begun_replies);
    while (!list_empty(&s->held_replies) && first_of(&s->held_replies)->held_until_ms <= now_ms)
        list_push_back(&due, list_pop_front(&s->held_replies));
    while ((node = list_pop_front(&due)) != NULL)
        http_reply_flush(list_entry(node, struct http_reply, held_node));
    /* A head that is due in this turn may have set it meanwhile. */
    if (list_empty(&s->begun_replies) && !list_empty(&s->held_replies))
        timer_start_at(s->loop, t, first_of(&s->held_replies)->held_until_ms);
}

void http_held_start_server(struct http_server *s)
{
    list_init(&s->begun_replies);
    list_init(&s->held_replies);
    timer_init(&s->held_timer, on_timer);
}

void http_held_stop_server(struct http_server *s)
{
    timer_stop(&s->held_timer);
}

void http_hold(struct http_reply *r, uint64_t hold_ms)
{
    struct http_server *s = r->conn->server;
    struct list *line = hold_ms != 0 ? &s->held_replies : &s->begun_replies;
    struct list *behind = line->prev;
    uint64_t until_ms = hold_ms != 0 ? loop_due_ms(s->loop, hold_ms) : loop_now_ms(s->loop);

    r->held_until_ms = until_ms;
    while (behind != line &&
           list_entry(behind, struct http_reply, held_node)->held_until_ms > until_ms)
        behind = behind->prev;
    list_push_front(behind, &r->held_node);
    if (!timer_running(&s->held_timer) || s->held_timer.due_ms > until_ms)
        timer_start_at(s->loop, &s->held_timer, until_ms);
}
