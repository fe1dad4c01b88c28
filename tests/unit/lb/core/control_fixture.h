/* SPDX-License-Identifier: Apache-2.0
 *
 * An application on a control loop, which is its only data loop as well, for tests of the control
 * side.
 */
#pragma once

#include "common/net/addr.h"
#include "lb/config/configuration.h"
#include "lb/core/application.h"
#include "lb/core/lb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct control {
    char directory[64];
    struct configuration config;
    struct lb lb;
    struct lb_loop loop;
    struct application *app;
};

/* From the YAML text; the application has no loops yet. */
static inline struct control *control_create_bare(const char *yaml)
{
    struct control *c = xcalloc(1, sizeof(*c));
    struct diag d = {0};

    strcpy(c->directory, RLB_TEST_DIR "/rlb-control-XXXXXX");
    assert_non_null(mkdtemp(c->directory));
    char *path = xasprintf("%s/c.yaml", c->directory);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(yaml, out);
    fclose(out);
    bool good = configuration_read(path, &c->config, &d);
    if (!good)
        print_error("%s\n", d.text);
    assert_true(good);
    unlink(path);
    free(path);
    diag_fini(&d);
    c->lb.control = loop_create(0);
    atomic_init(&c->lb.response_buffers_total, 32u << 20);
    c->app = application_create(&c->lb, &c->config.applications[0]);
    c->lb.applications = &c->app;
    c->lb.napplications = 1;
    return c;
}

static inline struct control *control_create(const char *yaml)
{
    struct control *c = control_create_bare(yaml);

    c->loop = (struct lb_loop){.lb = &c->lb, .loop = c->lb.control};
    c->lb.loops = &c->loop;
    c->lb.nloops = 1;
    application_attach(c->app, &c->lb.control, 1);
    return c;
}

static inline void control_destroy(struct control *c)
{
    loop_turn(c->lb.control, 0);
    loop_turn(c->lb.control, 0);
    application_destroy(c->app);
    loop_destroy(c->lb.control);
    configuration_fini(&c->config);
    char *command = xasprintf("rm -rf %s", c->directory);
    assert_int_equal(system(command), 0);
    free(command);
    free(c);
}
