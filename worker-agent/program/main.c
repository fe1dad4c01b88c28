/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/log.h"
#include "worker-agent/config/agent_config.h"
#include "worker-agent/program/agent.h"

static void *read_configuration(const char *file, struct diag *d)
{
    struct agent_config *c = agent_config_read(file, d);

    if (c != NULL) {
        log_set_level((enum log_level)c->s.log_level);
        config_warn_exposed(&c->yaml);
    }
    return c;
}

static void destroy(void *config)
{
    agent_config_destroy(config);
}

int main(int argc, char **argv)
{
    static const struct daemon_program program = {
        .name = "resumelb-agent",
        .summary = "runs application processes, measures them, and publishes what they are good at",
        .usage = "-c FILE [-t]",
        .subjects = "settings|stats|outcomes",
        .signals = "TERM drains and exits, INT stops at once, HUP re-reads the configuration\n"
                   "         USR2 starts a new process, which takes over sockets and application "
                   "processes",
        .read = read_configuration,
        .destroy = destroy,
        .describe = agent_describe,
        .run = agent_run,
    };

    return daemon_main(&program, argc, argv);
}
