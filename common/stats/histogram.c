/* SPDX-License-Identifier: Apache-2.0
 *
 * The bucket of a time is given by the position of its highest bit and the next four bits.
 * Source: the layout of HdrHistogram (Gil Tene), with one precision.
 */
#include "common/stats/histogram.h"

enum { STEP_BITS = 4, TIME_BITS = 32 };

static double lower_bound(unsigned bucket)
{
    unsigned doubling = bucket / HISTOGRAM_STEPS;

    if (doubling == 0)
        return bucket;
    return (double)((uint64_t)(HISTOGRAM_STEPS + bucket % HISTOGRAM_STEPS) << (doubling - 1));
}

void histogram_add(struct histogram *h, uint64_t us, double weight)
{
    uint64_t t = us >> TIME_BITS != 0 ? UINT32_MAX : us;
    size_t bucket = t;

    if (t >= HISTOGRAM_STEPS) {
        size_t doubling = 63 - (size_t)__builtin_clzll(t) - STEP_BITS; /* 0: 16..31 */
        bucket = (doubling + 1) * HISTOGRAM_STEPS + ((t >> doubling) & (HISTOGRAM_STEPS - 1));
    }
    h->n[bucket] += (float)weight;
}

void histogram_scale(struct histogram *h, double factor)
{
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; ++i)
        h->n[i] *= (float)factor;
}

double histogram_count(const struct histogram *h)
{
    double sum = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; ++i)
        sum += (double)h->n[i];
    return sum;
}

double histogram_quantile(const struct histogram *h, double q)
{
    double wanted = q * histogram_count(h);
    double below = 0;
    unsigned last = 0;

    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; ++i) {
        double n = (double)h->n[i];

        if (n <= 0)
            continue;
        last = i;
        if (below + n >= wanted) {
            double width = lower_bound(i + 1) - lower_bound(i);
            return lower_bound(i) + width * (wanted - below) / n;
        }
        below += n;
    }
    return lower_bound(last);
}
