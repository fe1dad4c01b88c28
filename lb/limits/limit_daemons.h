/* SPDX-License-Identifier: Apache-2.0
 *
 * What one loop's counter client says of its daemons, kept for the control thread. Embedded in
 * struct application_loop; written by the loop now and then (limit_status.h), read by the control
 * thread. What they share is under the mutex.
 */
#ifndef RLB_LB_LIMITS_LIMIT_DAEMONS_H
#define RLB_LB_LIMITS_LIMIT_DAEMONS_H

#include "common/base/base.h"

#include <pthread.h>

struct limit_daemon_row {
    char *name;
    unsigned connections, idle;
    bool resting;
};

struct limit_daemons {
    pthread_mutex_t lock;
    struct limit_daemon_row *rows;
    size_t n;
};

void limit_daemons_init(struct limit_daemons *d);
void limit_daemons_fini(struct limit_daemons *d);

#endif
