/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU time that one access line costs the thread that adds it, while the writer thread works.
 * Rounds of lines are paced so that none is dropped; a run with dropped lines is invalid.
 *
 *   access_log_bench [ROUNDS]
 */
#include "lb/access/access_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LINES = 5000 };

static uint64_t thread_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wait_written(const struct access_log *log, uint64_t n)
{
    struct access_counts c;

    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        access_log_count(log, &c);
        ASSERT(c.dropped == 0);
    } while (c.written < n);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void run(const char *name, enum access_format format, size_t rounds)
{
    struct access_options o = {.format = format, .fields = ACCESS_ALL_FIELDS, .sample = 1};
    struct access_entry e = {
        .fixed.wall_ms = 1795224806123,
        .client = SLICE_LIT("192.0.2.7"),
        .method = SLICE_LIT("GET"),
        .target = SLICE_LIT("/some/path?query=1"),
        .fixed.protocol = "HTTP/1.1",
        .fixed.status = 200,
        .referer = SLICE_LIT("http://www.example.com/another/path"),
        .agent =
            SLICE_LIT("Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0"),
        .host = SLICE_LIT("www.example.com"),
        .fixed.application = "shop",
        .cls = SLICE_LIT("example.com"),
        .worker = SLICE_LIT("127.0.0.1:9000"),
        .fixed.reason = "skilled",
        .fixed.tries = 1,
        .fixed.outcome = "responded",
        .request_id = SLICE_LIT("0123456789abcdef0123456789abcdef"),
    };
    struct access_log *log = NULL;
    double *ns = xcalloc(rounds, sizeof(*ns));

    if (access_log_create("/dev/null", &o, 1, &log) != ERR_OK)
        exit(1);
    for (size_t i = 0; i < rounds; ++i) {
        uint64_t from = thread_ns();

        for (int k = 0; k < LINES; ++k) {
            if (access_log_wants(log, 0, false))
                access_log_add(log, 0, &e);
        }
        ns[i] = (double)(thread_ns() - from) / LINES;
        wait_written(log, (i + 1) * LINES);
    }
    access_log_destroy(log);
    qsort(ns, rounds, sizeof(*ns), by_size);
    printf("%-8s  median %.0f ns, least %.0f, most %.0f (%zu rounds of %d lines)\n", name,
           ns[rounds / 2], ns[0], ns[rounds - 1], rounds, LINES);
    free(ns);
}

int main(int argc, char **argv)
{
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;

    if (rounds == 0)
        return 2;
    run("combined", ACCESS_COMBINED, rounds);
    run("json", ACCESS_JSON, rounds);
    return 0;
}
