/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trace.h"

#include <stdlib.h>

enum { FIRST_ROOM = 1024 };

void trace_fini(struct trace *t)
{
    free(t->requests);
    free(t->pages);
    free(t->objects);
    text_fini(&t->text);
    *t = (struct trace){0};
}

/* Room for N more of BYTES each behind the COUNT that are there. */
static void *reserve(void *items, size_t count, size_t n, size_t *room, size_t bytes)
{
    if (count + n <= *room)
        return items;
    if (*room == 0)
        *room = FIRST_ROOM;
    while (*room < count + n)
        *room *= 2;
    return xrealloc(items, *room * bytes);
}

static uint32_t add_text(struct trace *t, struct slice s)
{
    uint32_t at = (uint32_t)t->text.len;

    text_add(&t->text, s);
    return at;
}

enum err trace_add_page(struct trace *t, struct slice host, struct slice path,
                        const uint64_t *objects, size_t n, uint32_t *out)
{
    ASSERT(n <= TRACE_PAGE_OBJECTS_MAX);
    if (t->npages == TRACE_REQUESTS_MAX || t->nobjects + n > TRACE_OBJECTS_MAX ||
        host.len + path.len > TRACE_TEXT_MAX - t->text.len)
        return ERR_TOO_LARGE;
    t->pages = reserve(t->pages, t->npages, 1, &t->pages_room, sizeof(t->pages[0]));
    t->objects = reserve(t->objects, t->nobjects, n, &t->objects_room, sizeof(t->objects[0]));
    struct trace_page *p = &t->pages[t->npages];
    p->host = add_text(t, host);
    p->host_len = (uint32_t)host.len;
    p->path = add_text(t, path);
    p->path_len = (uint32_t)path.len;
    p->object = (uint32_t)t->nobjects;
    p->nobjects = (uint32_t)n;
    if (n != 0)
        memcpy(t->objects + t->nobjects, objects, n * sizeof(objects[0]));
    t->nobjects += n;
    *out = (uint32_t)t->npages++;
    return ERR_OK;
}

enum err trace_add_request(struct trace *t, const struct trace_request *r)
{
    ASSERT(r->page < t->npages);
    ASSERT(r->factor >= 1);
    ASSERT(r->factor <= TRACE_FACTOR_MAX);
    ASSERT(r->tag < TRACE_TAGS);
    if (t->n == TRACE_REQUESTS_MAX)
        return ERR_TOO_LARGE;
    ASSERT(t->n == 0 || t->requests[t->n - 1].due_ns <= r->due_ns);
    t->requests = reserve(t->requests, t->n, 1, &t->room, sizeof(t->requests[0]));
    t->requests[t->n++] = *r;
    return ERR_OK;
}

static struct slice text_at(const struct trace *t, uint32_t at, uint32_t len)
{
    return (struct slice){len != 0 ? t->text.p + at : "", len};
}

struct slice trace_host(const struct trace *t, const struct trace_page *p)
{
    return text_at(t, p->host, p->host_len);
}

struct slice trace_path(const struct trace *t, const struct trace_page *p)
{
    return text_at(t, p->path, p->path_len);
}
