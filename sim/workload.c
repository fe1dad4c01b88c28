/* SPDX-License-Identifier: Apache-2.0
 *
 * Sites by Zipf's law; objects of a page by a normal distribution over its site's, so that a site
 * has a core that all pages need and an edge that few do.
 */
#include "sim/workload.h"
#include "sim/parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- traces ---- */

void trace_fini(struct trace *t)
{
    free(t->requests);
    free(t->pages);
    free(t->objects);
    text_fini(&t->text);
    *t = (struct trace){0};
}

enum err trace_add_page(struct trace *t, struct slice host, struct slice path,
                        const uint64_t *objects, size_t n, uint32_t *out)
{
    ASSERT(n <= TRACE_PAGE_OBJECTS_MAX);
    if (t->npages == TRACE_REQUESTS_MAX || t->nobjects + n > TRACE_OBJECTS_MAX ||
        host.len + path.len > TRACE_TEXT_MAX - t->text.len)
        return ERR_TOO_LARGE;
    t->pages = xgrow(t->pages, t->npages + 1, &t->pages_room, sizeof(t->pages[0]));
    t->objects = xgrow(t->objects, t->nobjects + n, &t->objects_room, sizeof(t->objects[0]));
    struct trace_page *p = &t->pages[t->npages];
    *p = (struct trace_page){.host = (uint32_t)t->text.len,
                             .host_len = (uint32_t)host.len,
                             .path_len = (uint32_t)path.len,
                             .object = (uint32_t)t->nobjects,
                             .nobjects = (uint32_t)n};
    text_add(&t->text, host);
    text_add(&t->text, path);
    if (n != 0)
        memcpy(t->objects + t->nobjects, objects, n * sizeof(objects[0]));
    t->nobjects += n;
    *out = (uint32_t)t->npages++;
    return ERR_OK;
}

enum err trace_add_request(struct trace *t, const struct workload_request *r)
{
    ASSERT(r->page < t->npages);
    ASSERT(r->factor >= 1);
    ASSERT(r->factor <= TRACE_FACTOR_MAX);
    ASSERT(r->tag < TRACE_TAGS);
    if (t->n == TRACE_REQUESTS_MAX)
        return ERR_TOO_LARGE;
    t->requests = xgrow(t->requests, t->n + 1, &t->room, sizeof(t->requests[0]));
    t->requests[t->n++] = *r;
    return ERR_OK;
}

struct slice trace_host(const struct trace *t, const struct trace_page *p)
{
    return (struct slice){t->text.p + p->host, p->host_len};
}

struct slice trace_path(const struct trace *t, const struct trace_page *p)
{
    return (struct slice){t->text.p + p->host + p->host_len, p->path_len};
}

/* ---- workloads ---- */

/* The same sites are costly for every seed, because the choice of these sites would affect results
 * more than what is compared. Of 500 sites with zipf 0.9 the third is costly, and 9.4 % of the
 * requests are for costly ones. */
static const uint64_t COSTLY_SEED = 4691;
static const double NS = 1e9;
/* The site of the hot class, which is not one of the other sites. */
static const uint32_t HOT_SITE = UINT32_MAX;

struct drawing {
    const struct workload *w;
    const struct workload_part *part;
    struct draw draw, hot_draw;
    double *cumulative; /* of the sites' shares */
    double due_s;
    struct draw session;
    uint32_t nsessions, turn, turns; /* the current session has had TURN of TURNS requests */
};

/* Draws the rank of a site, with a probability in proportion to its share. */
static uint32_t draw_rank(struct drawing *d)
{
    double at = draw_unit(&d->draw) * d->cumulative[d->w->sites - 1];
    uint32_t low = 0;
    uint32_t high = d->w->sites - 1;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (d->cumulative[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static enum err draw_request(struct drawing *d, size_t i, struct trace *out)
{
    enum { COSTLY_ONE_IN = 10 };
    const struct workload_part *p = d->part;
    bool attack = p->hot != WORKLOAD_NO_HOT && i >= p->hot_from && i < p->hot_to;
    struct workload_request r = {.factor = 1};
    int64_t ids[TRACE_PAGE_OBJECTS_MAX];
    uint64_t objects[TRACE_PAGE_OBJECTS_MAX];
    char host[32];
    struct text path = {0};
    uint32_t site = HOT_SITE;
    struct draw *draw = &d->hot_draw;

    if (p->rate > 0) {
        d->due_s += draw_exponential(&d->draw) / (attack ? p->rate / (1 - p->hot_share) : p->rate);
        r.due_ns = (uint64_t)(d->due_s * NS);
    }
    bool hot = attack && draw_unit(&d->hot_draw) < p->hot_share;
    if (!hot) {
        uint32_t shift = p->shift != 0 && i >= p->shift_at ? p->shift : 0;

        site = (draw_rank(d) + shift) % d->w->sites;
        draw = &d->draw;
    }
    for (uint32_t k = 0; k < d->w->request_objects; ++k)
        ids[k] = hot && p->hot == WORKLOAD_CRAWL
                     ? (int64_t)(draw_bits(draw) >> 34)
                     : (int64_t)(draw_gauss(draw) * (d->w->site_objects / 4.0));
    qsort(ids, d->w->request_objects, sizeof(ids[0]), by_value);
    size_t n = 0;
    for (uint32_t k = 0; k < d->w->request_objects; ++k) {
        if (n == 0 || ids[n - 1] != ids[k])
            ids[n++] = ids[k];
    }
    if (!hot && p->costly && draw_mix(COSTLY_SEED, site) % COSTLY_ONE_IN == 0)
        r.factor = WORKLOAD_COSTLY;
    r.tag = hot || r.factor != 1 ? TRACE_TAG_SPECIAL : TRACE_TAG_NORMAL;
    if (site == HOT_SITE)
        snprintf(host, sizeof(host), "hot.example");
    else
        snprintf(host, sizeof(host), "h%u.example", (unsigned)site);
    for (size_t k = 0; k < n; ++k) {
        objects[k] = draw_mix(site, (uint64_t)ids[k]);
        text_addf(&path, "%c%" PRId64, k == 0 ? '/' : '_', ids[k]);
    }
    enum err e = trace_add_page(out, slice_of(host), text_slice(&path), objects, n, &r.page);
    text_fini(&path);
    return e == ERR_OK ? trace_add_request(out, &r) : e;
}

/* The next request of a session, or the first of the next session. */
static enum err draw_turn(struct drawing *d, struct trace *out)
{
    enum { MEAN_X2 = WORKLOAD_TURNS_MIN + WORKLOAD_TURNS_MAX };
    const struct workload_part *p = d->part;
    struct workload_request r = {.factor = 1, .follows = d->turn != d->turns};
    uint64_t objects[WORKLOAD_TURNS_MAX * WORKLOAD_TURN_OBJECTS];
    char host[48];
    char path[16];

    if (!r.follows) {
        d->turn = 0;
        d->turns =
            WORKLOAD_TURNS_MIN + draw_below(&d->draw, WORKLOAD_TURNS_MAX - WORKLOAD_TURNS_MIN + 1);
        d->session = draw_of(draw_bits(&d->draw));
        ++d->nsessions;
    }
    ++d->turn;
    if (p->rate > 0) {
        double s = draw_exponential(&d->draw);

        d->due_s += r.follows ? 0 : s * MEAN_X2 / 2 / p->rate;
        r.due_ns = (uint64_t)((r.follows ? s * p->think_s : d->due_s) * NS);
    }
    size_t n = (size_t)d->turn * WORKLOAD_TURN_OBJECTS;
    for (size_t k = 0; k < n; ++k)
        objects[k] = draw_mix(d->session.state, k);
    snprintf(host, sizeof(host), "s%" PRIu64 "-%" PRIu32 ".example", p->seed, d->nsessions);
    snprintf(path, sizeof(path), "/%" PRIu32, d->turn);
    enum err e = trace_add_page(out, slice_of(host), slice_of(path), objects, n, &r.page);
    return e == ERR_OK ? trace_add_request(out, &r) : e;
}

enum err workload_draw(const struct workload *w, const struct workload_part *part,
                       struct trace *out)
{
    enum { HALVINGS = 4 };
    uint64_t seed = draw_mix(w->seed, part->seed);
    struct drawing d = {.w = w, .part = part, .draw = draw_of(seed), .hot_draw = draw_of(seed + 1)};
    double sum = 0;
    enum err e = ERR_OK;

    ASSERT(w->sites >= 1);
    ASSERT(w->request_objects <= TRACE_PAGE_OBJECTS_MAX);
    d.cumulative = xcalloc(w->sites, sizeof(d.cumulative[0]));
    for (uint32_t rank = 0; rank < w->sites; ++rank) {
        if (!w->simul)
            sum += pow(rank + 1.0, -w->zipf);
        /* As zc.resumelb's simul.py: an eighth of the sites four times as often as the last half,
         * the next eighth three times, the next quarter twice; the first site five times. */
        for (int i = 0; w->simul && i < HALVINGS; ++i)
            sum += rank < w->sites >> i;
        sum += w->simul && rank == 0;
        d.cumulative[rank] = sum;
    }
    for (size_t i = 0; i < part->n && e == ERR_OK; ++i)
        e = part->sessions ? draw_turn(&d, out) : draw_request(&d, i, out);
    free(d.cumulative);
    return e;
}
