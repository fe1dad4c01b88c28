/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/figures.h"

#include <math.h>
#include <stdlib.h>

static const double US_PER_S = 1e6;
static const double US_PER_MS = 1e3;

/* Sums over the records of a part. */
struct sums {
    size_t n, ok;
    uint64_t begin_us, end_us;
    uint64_t hits, loads, latency_us, service_us;
    uint64_t *latencies;
    uint64_t *requests, *busy_us; /* by worker */
};

static bool is_part(const struct world_record *r, const struct figures_part *part)
{
    return part->tag < 0 || r->tag == part->tag;
}

static void add(struct sums *s, const struct world_record *r)
{
    uint64_t end_us = r->start_us + r->latency_us;

    if (s->n++ == 0 || r->start_us < s->begin_us)
        s->begin_us = r->start_us;
    if (end_us > s->end_us)
        s->end_us = end_us;
    if (r->failed)
        return;
    s->latencies[s->ok++] = r->latency_us;
    s->latency_us += r->latency_us;
    s->service_us += r->service_us;
    s->hits += r->hits;
    s->loads += r->loads;
    ++s->requests[r->worker];
    s->busy_us[r->worker] += r->service_us;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The latency that so many of a hundred do not exceed. */
static double percentile(const struct sums *s, unsigned percent)
{
    size_t at = s->ok * percent / 100;

    return (double)s->latencies[at] / US_PER_MS;
}

static uint64_t largest(const uint64_t *v, unsigned n)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < n; ++i)
        most = v[i] > most ? v[i] : most;
    return most;
}

static void fill(const struct sums *s, unsigned nworkers, struct figures *out)
{
    double ok = (double)s->ok;
    uint64_t objects = s->hits + s->loads;

    out->wall_s = (double)(s->end_us - s->begin_us) / US_PER_S;
    out->rate = ok / fmax(out->wall_s, 1e-9);
    out->loads = (double)s->loads / ok;
    out->hit_share = (double)s->hits / (double)(objects != 0 ? objects : 1);
    out->mean_ms = (double)s->latency_us / ok / US_PER_MS;
    out->p50_ms = percentile(s, 50);
    out->p90_ms = percentile(s, 90);
    out->p99_ms = percentile(s, 99);
    out->max_ms = (double)s->latencies[s->ok - 1] / US_PER_MS;
    out->share_max = (double)largest(s->requests, nworkers) * nworkers / ok;
    out->busy_max =
        (double)largest(s->busy_us, nworkers) * nworkers / fmax((double)s->service_us, 1);
    out->busy = (double)s->service_us / US_PER_S / fmax(out->wall_s, 1e-9) / nworkers;
    for (unsigned i = 0; i < nworkers; ++i)
        out->workers += s->requests[i] != 0;
}

/* A request's class and worker in one number. */
static uint64_t pair_of(const struct world_record *r)
{
    return (uint64_t)r->cls << 16 | r->worker;
}

/*
 * The mean number of workers of a class. Sorted by class and worker, so that it takes as much
 * memory as there are requests, not as there are classes times workers.
 */
static double class_workers(const struct world_record *records, const struct figures_part *part,
                            uint64_t *pairs)
{
    size_t n = 0;
    size_t classes = 0;
    size_t workers = 0;

    for (size_t i = part->from; i < part->to; ++i) {
        if (is_part(&records[i], part) && !records[i].failed)
            pairs[n++] = pair_of(&records[i]);
    }
    qsort(pairs, n, sizeof(pairs[0]), by_value);
    for (size_t i = 0; i < n;) {
        size_t begin = i;
        size_t own = 0;

        for (; i < n && pairs[i] >> 16 == pairs[begin] >> 16; ++i)
            own += i == begin || pairs[i] != pairs[i - 1];
        if (i - begin >= FIGURES_CLASS_MIN) {
            ++classes;
            workers += own;
        }
    }
    return classes != 0 ? (double)workers / (double)classes : 0;
}

void figures_of(const struct world_record *records, const struct figures_part *part,
                unsigned nworkers, struct figures *out)
{
    size_t n = part->to - part->from;
    struct sums s = {0};

    ASSERT(part->from <= part->to);
    s.latencies = xcalloc(n != 0 ? n : 1, sizeof(s.latencies[0]));
    s.requests = xcalloc(nworkers, sizeof(s.requests[0]));
    s.busy_us = xcalloc(nworkers, sizeof(s.busy_us[0]));
    for (size_t i = part->from; i < part->to; ++i) {
        if (is_part(&records[i], part))
            add(&s, &records[i]);
    }
    *out = (struct figures){.n = s.n, .failed = s.n - s.ok};
    if (s.ok != 0) {
        qsort(s.latencies, s.ok, sizeof(s.latencies[0]), by_value);
        fill(&s, nworkers, out);
        out->class_workers = class_workers(records, part, s.latencies);
    }
    free(s.busy_us);
    free(s.requests);
    free(s.latencies);
}

double figures_share(const struct world_record *records, const struct figures_part *part,
                     unsigned first, unsigned last)
{
    size_t all = 0;
    size_t theirs = 0;

    for (size_t i = part->from; i < part->to; ++i) {
        const struct world_record *r = &records[i];

        if (r->failed || !is_part(r, part))
            continue;
        ++all;
        theirs += r->worker >= first && r->worker < last;
    }
    return all != 0 ? (double)theirs / (double)all : 0;
}
