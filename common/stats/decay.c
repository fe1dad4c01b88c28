/* SPDX-License-Identifier: Apache-2.0 */
#include "common/stats/decay.h"

#include <math.h>

void fading_clock_init(struct fading_clock *c, double tau_us)
{
    *c = (struct fading_clock){.tau_us = tau_us, .per_us = 1 / tau_us, .anchor = 1, .weight = 1};
}

bool fading_run_far(struct fading_clock *c, uint64_t now_us)
{
    bool new_epoch = (double)(now_us - c->epoch_us) > FADING_EPOCH_TAUS * c->tau_us;

    if (new_epoch)
        c->epoch_us = now_us;
    c->now_us = c->anchor_us = now_us;
    c->anchor = c->weight = exp((double)(now_us - c->epoch_us) / c->tau_us);
    return new_epoch;
}

double fading_convert(double sum, uint64_t epoch_us, const struct fading_clock *c)
{
    return sum > 0 ? sum * exp(-(double)(c->epoch_us - epoch_us) / c->tau_us) : 0;
}
