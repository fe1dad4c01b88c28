/* SPDX-License-Identifier: Apache-2.0
 *
 * What the load balancer passes to a new process (common/program/upgrade.h). Both accept from the
 * same sockets until the new one is ready: no connection waits for either.
 */
#include "lb/program/lb_parts.h"

#include "lb/backends/self_measure.h"

static const char *refuse(void *context)
{
    const struct lb *lb = context;

    if (lb->phase < LB_SERVING)
        return "starting";
    return lb->phase > LB_SERVING ? "shutting down" : NULL;
}

static void pass_listener(void *context, size_t listener, const struct addr *configured, int fd)
{
    char address[ADDR_TEXT_MAX];

    upgrade_pass(context, "socket", addr_format(configured, address), (int)listener, fd);
}

static void pass_admin(void *context, int fd, void *tag)
{
    (void)tag;
    upgrade_pass(context, "socket", NULL, 0, fd);
}

static void pass(void *context, struct upgrade *u)
{
    const struct lb *lb = context;
    const struct lb_parts *p = lb->parts;
    int lock_fd = self_measure_lock(lb->self_measure);

    if (lock_fd >= 0)
        upgrade_pass(u, "lock", NULL, 0, lock_fd);
    listeners_each_socket(p->listeners, pass_listener, u);
    if (p->admin != NULL)
        http_server_each_socket(admin_server(p->admin), pass_admin, u);
    self_measure_flush(lb->self_measure);
}

/* The new process reads resumes from their files. */
static bool written(void *context)
{
    const struct lb *lb = context;

    return self_measure_flushed(lb->self_measure);
}

static void drain(void *context)
{
    lb_hand_over(context);
}

static const struct upgrade_ops ops = {
    .refuse = refuse, .pass = pass, .written = written, .drain = drain};

void lb_upgrade_init(struct lb *lb)
{
    upgrade_init(&lb->parts->upgrade, lb->control, &ops, lb);
}

void lb_upgrade_begin(struct lb *lb)
{
    upgrade_begin(&lb->parts->upgrade,
                  &(struct upgrade_options){.args = lb->parts->line->args,
                                            .nofile = daemon_descriptors(),
                                            .timeout_ms = lb->settings.upgrade_timeout_ms});
}
