/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of changing registrations for the control loop: a child process registers WORKERS in a
 * directory tree, and removes and renews FLAPS of them each second; measured is the CPU time of the
 * loop with membership and tree. membership_bench [WORKERS [FLAPS [SECONDS]]]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/dns/resolver.h"
#include "common/net/addr.h"
#include "common/tree/tree.h"
#include "lb/backends/membership.h"
#include "lb/backends/self_measure.h"
#include "lb/config/configuration.h"
#include "lb/core/lb.h"

enum { WORKERS_MAX = 10000 };

struct bench {
    char directory[64];
    size_t workers, flaps;
    unsigned seconds;
    struct configuration config;
    struct lb lb;
    struct lb_loop loop;
    struct application *app;
};

static struct tree *open_tree(const struct bench *b, struct loop *l)
{
    char *url = xasprintf("directory:%s", b->directory);
    struct diag d = {0};
    struct tree *t = NULL;

    if (tree_open(l, slice_of(url), NULL, &t, &d) != ERR_OK)
        abort();
    free(url);
    return t;
}

static struct tree_registration *enter(struct tree *t, size_t i)
{
    char name[80];
    json_t *p = json_pack("{s:i, s:s, s:s}", "pid", (int)i + 1, "version", "1", "state", "ready");

    snprintf(name, sizeof(name), "127.%zu.%zu.1:9000", i / 250, i % 250 + 1);
    struct tree_registration *r = tree_register(t, "/workers", name, p);
    json_decref(p);
    return r;
}

/* The child: reports when all are registered; then removes each, one by one, for 20 ms. */
static void flap(const struct bench *b, int ready)
{
    struct loop *l = loop_create(0);
    struct tree *t = open_tree(b, l);
    struct tree_registration **all = xcalloc(b->workers, sizeof(struct tree_registration *));
    uint64_t pause_us = 1000000 / (b->flaps > 0 ? b->flaps : 1);

    for (size_t i = 0; i < b->workers; ++i)
        all[i] = enter(t, i);
    for (size_t i = 0; i < b->workers; ++i) {
        while (!tree_registered(all[i]))
            loop_turn(l, 5);
    }
    if (write(ready, "x", 1) != 1)
        _exit(1);
    while (b->flaps == 0)
        pause();
    ASSERT(b->workers != 0);
    for (size_t n = 0;; ++n) {
        uint64_t next_us = clock_mono_us() + pause_us;

        tree_unregister(all[n % b->workers]);
        while (clock_mono_us() < next_us)
            loop_turn(l, 1);
        all[n % b->workers] = enter(t, n % b->workers);
    }
}

static void make_lb(struct bench *b)
{
    char *path = xasprintf("%s.yaml", b->directory);
    FILE *out = fopen(path, "w");
    struct diag d = {0};

    if (out == NULL)
        abort();
    fprintf(out, "listen: [\"127.0.0.1:0\"]\nresume: measure\ntree: \"directory:%s\"\n",
            b->directory);
    fclose(out);
    if (!configuration_read(path, &b->config, &d))
        abort();
    unlink(path);
    free(path);
    b->lb.control = loop_create(0);
    b->lb.resolver = resolver_create(b->lb.control, NULL);
    b->loop = (struct lb_loop){.lb = &b->lb, .loop = b->lb.control};
    b->lb.loops = &b->loop;
    b->lb.nloops = 1;
    b->lb.settings.tree_start_wait_ms = 60000;
    b->app = application_create(&b->lb, &b->config.applications[0]);
    application_attach(b->app, &b->lb.control, 1);
    b->lb.self_measure = self_measure_create(NULL, -1);
    if (membership_start(b->app, &b->config.applications[0], &d) != ERR_OK)
        abort();
}

static double cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1000 + (double)t.tv_nsec / 1e6;
}

static size_t providers(const struct bench *b)
{
    struct membership_figures f;

    (void)membership_figures(b->app->membership, &f);
    return f.providers;
}

static double measure(const struct bench *b)
{
    uint64_t end_us = clock_mono_us() + b->seconds * 1000000ULL;
    double before = cpu_ms();

    while (clock_mono_us() < end_us)
        loop_turn(b->lb.control, 10);
    return (cpu_ms() - before) / b->seconds;
}

static size_t argument(char *const *argv, int argc, int i, size_t deflt)
{
    return i < argc ? strtoul(argv[i], NULL, 10) : deflt;
}

int main(int argc, char **argv)
{
    struct bench b = {.directory = "/tmp/membership-bench-XXXXXX",
                      .workers = argument(argv, argc, 1, 1000),
                      .flaps = argument(argv, argc, 2, 100),
                      .seconds = (unsigned)argument(argv, argc, 3, 10)};
    struct rlimit files = {65536, 65536};
    int ready[2];
    char byte;

    if (b.workers < 1 || b.workers > WORKERS_MAX)
        b.workers = WORKERS_MAX;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    log_set_level(LOG_LEVEL_WARN);
    if (mkdtemp(b.directory) == NULL || pipe(ready) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0)
        flap(&b, ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        return 1;
    double begin = cpu_ms();
    make_lb(&b);
    while (providers(&b) + 1 < b.workers)
        loop_turn(b.lb.control, 5);
    double start = cpu_ms() - begin;
    double flapping = measure(&b);
    kill(child, SIGSTOP);
    double quiet = measure(&b);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    printf("%zu workers, %zu come and go each second: start %.1f ms; then %.2f ms of each second "
           "(quiet: %.2f ms)\n",
           b.workers, b.flaps, start, flapping, quiet);
    char *command = xasprintf("rm -rf %s", b.directory);
    int status = system(command);
    free(command);
    return status == 0 ? 0 : 1;
}
