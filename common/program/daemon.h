/* SPDX-License-Identifier: Apache-2.0
 *
 * What every server program does alike: command line, reading of the configuration, signals, ready
 * notification, exit codes. Main thread only; created before any other thread starts, so that they
 * inherit the blocked signals.
 */
#ifndef RLB_PROGRAM_DAEMON_H
#define RLB_PROGRAM_DAEMON_H

#include "common/base/err.h"
#include "common/event/loop.h"

#include <getopt.h>
#include <stdio.h>
#include <sys/resource.h>

enum { EXIT_CONFIG = 1, EXIT_USAGE = 2 };

/* The command line that a program runs with. */
struct daemon_line {
    const char *file;  /* the configuration; NULL: none was given */
    char *const *argv; /* of main() */
};

struct daemon_program {
    const char *name;     /* "resumelb" */
    const char *summary;  /* one line for --help */
    const char *usage;    /* its options, "-c FILE [-t]" */
    const char *subjects; /* of --describe, "settings|stats" */
    const char *signals;  /* for --help, a line or several */
    /* Read and check FILE (NULL: all defaults) whole, every problem to D; log level and warnings
     * are settled then. Returns the configuration, or NULL. */
    void *(*read)(const char *file, struct diag *d);
    void (*destroy)(void *config);
    /* --describe WHAT. False: no such WHAT. */
    bool (*describe)(const char *what, FILE *out);
    /* Start, run, stop; the exit code. Takes CONFIG. */
    int (*run)(void *context, void *config, const struct daemon_line *line);
    void *context; /* of run and option */
    /* For a program that keeps the command line of another one. */
    const char *letters;          /* more options, as for getopt; or NULL */
    const struct option *options; /* the same in long; ends with zeros */
    const char *options_help;     /* lines for --help */
    bool (*option)(void *context, int letter, const char *value); /* false: bad usage */
    bool (*finish)(void *context); /* all options are taken; false: it has printed why not to run */
    bool lenient; /* no configuration is needed, words are ignored, and bad usage exits with 1 */
};
/* The whole main(): parses -c -t -v -h --describe, calls the above. */
int daemon_main(const struct daemon_program *p, int argc, char **argv);

/* ---- while running ---- */
struct daemon_signals {
    void (*on_term)(void *context);  /* SIGTERM: drain */
    void (*on_int)(void *context);   /* SIGINT: stop at once */
    void (*on_hup)(void *context);   /* SIGHUP: re-read and reopen */
    void (*on_child)(void *context); /* SIGCHLD, or NULL */
    void (*on_usr1)(void *context);  /* SIGUSR1; NULL: ignored */
    void (*on_usr2)(void *context);  /* SIGUSR2: start the new program; NULL: ignored */
    void *context;
};
/* Before threads start: block the signals in this (and so every later) thread; ignore SIGPIPE;
 * raise RLIMIT_NOFILE to its hard limit; have malloc keep some of what is freed. */
void daemon_prepare(void);
/* The limit of descriptors of this process. */
struct rlimit daemon_descriptors(void);
/* Deliver them on L from now on (signalfd). */
struct daemon_watch *daemon_signals_start(struct loop *l, const struct daemon_signals *s);
void daemon_signals_stop(struct daemon_watch *w);
/* sd_notify: "READY=1", "MAINPID=...", "STOPPING=1", "RELOADING=1", "STATUS=..."; nothing without
 * NOTIFY_SOCKET.
 */
void daemon_notify(const char *state);
/* The re-read configuration FILE was rejected: logs that, and each problem in D. */
void daemon_reload_failed(const char *file, const struct diag *d);
/* 128 random bits as hex: an incarnation, a request id. OUT has 33 bytes. */
void daemon_random_id(char out[33]);

#endif
