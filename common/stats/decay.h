/* SPDX-License-Identifier: Apache-2.0
 *
 * Means and sums that decay: with values (struct decayed), or with time (struct fading). Embedded
 * in their owners; all zero is "no value yet". Plain computation, one thread at a time.
 */
#pragma once

#include "common/base/base.h"

/*
 * ---- with values: of backlogs in the load balancer, of service times in the meter ----
 *
 * Each new value decays the sums: sum = sum * decay + value, weight = weight * decay
 * + 1, mean = sum / weight. With decay 1 - 1/n about the last n values count.
 */

struct decayed {
    double sum;
    double weight;
    double mean; /* sum / weight; 0 before the first value */
};

/* Returns the decay with which about the last VALUES (>= 1) values count. */
static inline double decay_over(double values)
{
    ASSERT(values >= 1);
    return 1 - 1 / values;
}

/* Adds VALUE, after multiplying the previous sums by DECAY. */
static inline void decayed_add(struct decayed *d, double decay, double value)
{
    d->sum = d->sum * decay + value;
    d->weight = d->weight * decay + 1;
    d->mean = d->sum / d->weight;
}

/*
 * ---- with time: of the work and the requests of classes and workers ----
 *
 * Sums that decay with time, without being updated as time passes: a value that is added at time t
 * is multiplied by exp((t - epoch) / TAU), so that earlier values weigh less in comparison
 * ("forward decay", Cormode, Shkapenyuk, Srivastava, Xu 2009). A sum divided by the weight of a new
 * value is the decayed sum; sums of one clock can be compared without dividing.
 *
 *     time   t0        t0 + TAU       now
 *     value   a           b                   decayed sum:  (a + e b) / weight
 *     sum     a        a + e b                weight = exp((now - t0) / TAU)
 *
 * Weights would exceed the range of a double, so an epoch ends after FADING_EPOCH_TAUS: a sum of an
 * earlier epoch is converted when it is next read.
 */

/* exp(50) is 5e21; its inverse is below the resolution of a double. */
#define FADING_EPOCH_TAUS 50
/* Distance of two calls of exp(), in TAU. Between them the weight is computed by a polynomial,
 * with a relative error of at most 1e-11. */
#define FADING_ANCHOR_TAUS (1.0 / 256)

/* Initialized by fading_clock_init(). */
struct fading_clock {
    double tau_us;
    double per_us; /* 1 / tau_us */
    uint64_t now_us;
    uint64_t epoch_us;
    uint64_t anchor_us; /* time of the last call of exp() */
    double anchor;      /* weight at that time */
    double weight;      /* weight of a value added now */
};

/* A sum weighted from the epoch on. All-zero means that nothing was added. */
struct fading {
    double sum;
    uint64_t epoch_us;
};

void fading_clock_init(struct fading_clock *c, double tau_us);
/* Slow path of fading_advance(), for an interval of more than FADING_ANCHOR_TAUS. */
bool fading_run_far(struct fading_clock *c, uint64_t now_us) cold_;
/* Converts a sum counted from EPOCH_US to C's epoch, a later one. */
double fading_convert(double sum, uint64_t epoch_us, const struct fading_clock *c) cold_;

/* Advances C to NOW_US, which must not be earlier than before. Returns true if a new epoch has
 * begun. */
static inline bool fading_advance(struct fading_clock *c, uint64_t now_us)
{
    /* A signed number converts to double in one instruction. */
    double x = (double)(int64_t)(now_us - c->anchor_us) * c->per_us;

    if (x > FADING_ANCHOR_TAUS)
        return fading_run_far(c, now_us);
    c->now_us = now_us;
    c->weight = c->anchor * (1 + x * (1 + x * (1.0 / 2 + x * (1.0 / 6))));
    return false;
}

/* Returns the sum of F, weighted from the epoch of C on. */
static inline double fading_sum(const struct fading *f, const struct fading_clock *c)
{
    return f->epoch_us == c->epoch_us ? f->sum : fading_convert(f->sum, f->epoch_us, c);
}

/* Returns the decayed value of F at the time of C. */
static inline double fading_value(const struct fading *f, const struct fading_clock *c)
{
    return fading_sum(f, c) / c->weight;
}

static inline struct fading fading_of(double value, const struct fading_clock *c)
{
    return (struct fading){value * c->weight, c->epoch_us};
}

/* Adds VALUE, which may be negative. The sum does not become negative. */
static inline void fading_add(struct fading *f, double value, const struct fading_clock *c)
{
    double sum = fading_sum(f, c) + value * c->weight;

    *f = (struct fading){sum > 0 ? sum : 0, c->epoch_us};
}
