/* SPDX-License-Identifier: Apache-2.0
 *
 * A decayed mean: of backlogs in the load balancer, of service times in the meter. Embedded in the
 * measured object; all zero: no values yet. Plain computation, one thread at a time.
 *
 * Each new value decays the sums: sum = sum * decay + value, weight = weight * decay
 * + 1, mean = sum / weight. With decay 1 - 1/n about the last n values count.
 */
#ifndef RLB_STATS_DECAY_H
#define RLB_STATS_DECAY_H

struct decayed {
    double sum;
    double weight;
    double mean; /* sum / weight; 0 before the first value */
};

/* The decay that makes about the last VALUES values count; VALUES >= 1. */
double decay_over(double values);
/* Forget as much as STEPS values would make forgotten: decay to the power of STEPS. */
double decay_steps(double decay, double steps);
/* Add VALUE; what was there before keeps the share DECAY of itself. */
void decayed_add(struct decayed *d, double decay, double value);

#endif
