/* SPDX-License-Identifier: Apache-2.0 */
#include "common/stats/decay.h"

#include <math.h>

#include "common/base/base.h"

double decay_over(double values)
{
    ASSERT(values >= 1);
    return 1 - 1 / values;
}

double decay_steps(double decay, double steps)
{
    /* pow(0, 0) is 1: with a history of one, a second request at once still finds the first. */
    return pow(decay, steps);
}

void decayed_add(struct decayed *d, double decay, double value)
{
    d->sum = d->sum * decay + value;
    d->weight = d->weight * decay + 1;
    d->mean = d->sum / d->weight;
}
