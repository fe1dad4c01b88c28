/* SPDX-License-Identifier: Apache-2.0
 *
 * A process while one agent follows another (upgrade.h): both know it, only the new one may end it.
 */
#include <signal.h>

#include "worker-agent/pool/app_pool.h"
#include "worker-agent/pool/slot.h"

static bool is_successor(const struct app_process *p)
{
    return p->slot != NULL && slot_successor(p->slot) == p;
}

void app_process_hand_over(struct app_process *p)
{
    /* Two readers would split its lines between them. */
    process_output_mute(&p->output, true);
    /* The new agent ends processes that are not a slot's process so far: nothing must be sent to
     * them. */
    if (is_successor(p)) {
        readiness_stop(&p->readiness);
        timer_stop(&p->deadline);
        timer_stop(&p->held);
        core_hold(&p->core, true);
    }
}

void app_process_take_back(struct app_process *p)
{
    process_output_mute(&p->output, false);
    /* The keeper ignored requests of this agent meanwhile. */
    if (p->state == PROCESS_STOPPING)
        keeper_link_signal(p->pool->keeper, p->id, SIGTERM);
    else if (p->state == PROCESS_KILLING)
        keeper_link_signal(p->pool->keeper, p->id, SIGKILL);
    else if (p->slot != NULL && p->core.ending)
        app_process_stop(p);
    else if (is_successor(p)) {
        core_hold(&p->core, false);
        if (p->state == PROCESS_STARTING)
            app_process_go_on(p, false);
    }
}

void app_process_before_gone(struct app_process *p)
{
    if (p->slot == NULL || p->core.ending)
        app_process_stop(p);
}

void app_process_tell_busy(struct app_process *p)
{
    unsigned n = 0;

    if (p->slot != NULL)
        n = p->core.places;
    /* Those come before any that another agent has for it. */
    if (p->slot != NULL && p->slot->core.process == &p->core)
        n += (unsigned)p->slot->core.nwaiting;
    if (n == p->busy_told || p->pid == 0)
        return;
    p->busy_told = n;
    keeper_link_busy(p->pool->keeper, p->id, n);
}
