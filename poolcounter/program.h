/* SPDX-License-Identifier: Apache-2.0
 *
 * The assembled program: owns the control loop (signals, admin address) and the server. Main
 * thread.
 */
#pragma once

#include "common/program/admin.h"
#include "common/program/daemon.h"
#include "common/program/inherited.h"
#include "poolcounter/configuration.h"
#include "poolcounter/server.h"

struct poolcounter {
    const struct daemon_line *line;
    const struct command_line *listen;
    struct poolcounter_config *config;
    struct loop *loop;
    struct stats *stats;
    struct server *server;
    struct admin *admin; /* or NULL */
    struct inherited
        *inherited; /* from the old process of an upgrade, until the program serves; or NULL */
    struct upgrade upgrade;
    struct loop_message drained;
    struct daemon_watch *signals;
    bool handed_over;
    bool admin_stopped;
};

/* Adds the pages to the admin address. */
void status_add(struct poolcounter *p);
/* --describe stats: the metrics, as Markdown. */
void status_describe(FILE *out);
