/* SPDX-License-Identifier: Apache-2.0 */
#include "common/program/daemon.h"
#include "worker-agent/agent.h"

static int run(const char *file)
{
    struct rlimit nofile;

    /* Before daemon_prepare raises it: application processes get what we got. */
    if (getrlimit(RLIMIT_NOFILE, &nofile) != 0)
        nofile = (struct rlimit){1024, 1024};
    return agent_run(file, nofile);
}

int main(int argc, char **argv)
{
    static const struct daemon_program program = {
        .name = "resumelb-agent",
        .summary = "runs application processes, measures them, and publishes what they are good at",
        .check = agent_check,
        .describe = agent_describe,
        .run = run,
        .more_signals = "USR2 starts the program anew, which takes sockets and processes over",
    };

    return daemon_main(&program, argc, argv);
}
