/* SPDX-License-Identifier: Apache-2.0
 *
 * Means and sums that decay: with values (struct decayed), or with time (struct fading). Embedded
 * in what they are of; zero is "nothing yet". Plain computation, one thread at a time.
 */
#ifndef RLB_STATS_DECAY_H
#define RLB_STATS_DECAY_H

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

/* The decay that makes about the last VALUES values count; VALUES >= 1. */
static inline double decay_over(double values)
{
    ASSERT(values >= 1);
    return 1 - 1 / values;
}

/* Forget as much as STEPS values would make forgotten: decay to the power of STEPS. */
double decay_steps(double decay, double steps);

/* Add VALUE; what was there before keeps the share DECAY of itself. */
static inline void decayed_add(struct decayed *d, double decay, double value)
{
    d->sum = d->sum * decay + value;
    d->weight = d->weight * decay + 1;
    d->mean = d->sum / d->weight;
}

/*
 * ---- with time: of the work and the requests of classes and workers ----
 *
 * Sums that decay with time, of which none is touched while time passes: what comes at time t is
 * counted exp((t - epoch) / TAU) times, so that all before it weighs less beside it ("forward
 * decay", Cormode, Shkapenyuk, Srivastava, Xu 2009). Divided by what a new value weighs, a sum is
 * what is left of it; two sums of one clock are parts of each other as they stand.
 *
 *     time   t0        t0 + TAU       now
 *     value   a           b                   what is left: (a + e b) / weight
 *     sum     a        a + e b                weight = exp((now - t0) / TAU)
 *
 * Weights would outgrow every number, so an epoch ends after FADING_EPOCH_TAUS: a sum of an earlier
 * one is brought over when it is next asked for.
 */

/* exp(50) is 5e21, and its inverse is below the resolution of a double. */
#define FADING_EPOCH_TAUS 50
/* Between two calls of exp, so much of TAU apart, the weight is a polynomial: off by 1e-11 of it at
 * the most. */
#define FADING_ANCHOR_TAUS (1.0 / 256)

/* Set up by fading_clock_init. */
struct fading_clock {
    double tau_us;
    double per_us; /* 1 / tau_us */
    uint64_t now_us;
    uint64_t epoch_us;
    uint64_t anchor_us; /* when exp was called */
    double anchor;      /* the weight then */
    double weight;      /* of a value that comes now */
};

/* As counted from the epoch; zero is "nothing yet". */
struct fading {
    double sum;
    uint64_t epoch_us;
};

void fading_clock_init(struct fading_clock *c, double tau_us);
/* The same for longer than FADING_ANCHOR_TAUS. -> whether an epoch has begun. */
bool fading_run_far(struct fading_clock *c, uint64_t now_us) cold_;
/* Converts a sum counted from EPOCH_US to C's epoch, a later one. */
double fading_bring(double sum, uint64_t epoch_us, const struct fading_clock *c) cold_;

/* It is NOW_US, no earlier than before. -> whether an epoch has begun. */
static inline bool fading_run(struct fading_clock *c, uint64_t now_us)
{
    /* Signed numbers convert in one instruction. */
    double x = (double)(int64_t)(now_us - c->anchor_us) * c->per_us;

    if (x > FADING_ANCHOR_TAUS)
        return fading_run_far(c, now_us);
    c->now_us = now_us;
    c->weight = c->anchor * (1 + x * (1 + x * (1.0 / 2 + x * (1.0 / 6))));
    return false;
}

/* As counted from C's epoch. */
static inline double fading_sum(const struct fading *f, const struct fading_clock *c)
{
    return f->epoch_us == c->epoch_us ? f->sum : fading_bring(f->sum, f->epoch_us, c);
}

/* Its decayed value now. */
static inline double fading_value(const struct fading *f, const struct fading_clock *c)
{
    return fading_sum(f, c) / c->weight;
}

static inline struct fading fading_of(double value, const struct fading_clock *c)
{
    return (struct fading){value * c->weight, c->epoch_us};
}

/* VALUE comes, or goes; no sum is below nothing. */
static inline void fading_add(struct fading *f, double value, const struct fading_clock *c)
{
    double sum = fading_sum(f, c) + value * c->weight;

    *f = (struct fading){sum > 0 ? sum : 0, c->epoch_us};
}

#endif
