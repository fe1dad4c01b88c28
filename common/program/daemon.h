/* SPDX-License-Identifier: Apache-2.0
 *
 * The common parts of all server programs: command line, reading of the configuration, signals,
 * ready notification, exit codes. Main thread only; daemon_prepare() must be called before any
 * other thread starts, so that all inherit the blocked signals.
 */
#pragma once

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
    /* Reads and checks FILE (NULL: all defaults), adds every problem to D, sets the log level, and
     * logs warnings. Returns the configuration, or NULL. */
    void *(*read)(const char *file, struct diag *d);
    void (*destroy)(void *config);
    /* --describe WHAT: writes the manual page. Returns false if WHAT is unknown. */
    bool (*describe)(const char *what, FILE *out);
    /* Runs the program, which owns CONFIG then, until it ends. Returns the exit code. */
    int (*run)(void *context, void *config, const struct daemon_line *line);
    void *context; /* of run and option */
    /* For a program that accepts the command line of another one. */
    const char *letters;          /* more options, as for getopt; or NULL */
    const struct option *options; /* the same in long; ends with zeros */
    const char *options_help;     /* lines for --help */
    bool (*option)(void *context, int letter, const char *value); /* false: bad usage */
    bool (*finish)(void *context); /* after the last option; false: exit, the reason was printed */
    bool lenient;                  /* no configuration is needed, bad usage exits with 1 */
};
/* Implements main(): parses -c -t -v -h --describe, calls the above. Returns the exit code. */
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
/* Must be called before threads start. Raises RLIMIT_NOFILE to its hard limit; makes
 * malloc retain some of the freed memory. */
void daemon_prepare(void);
/* The limit of descriptors of this process. */
struct rlimit daemon_descriptors(void);
/*
 * Calls the handlers on L from now on (signalfd), and flushes the log every second. A thread writes
 * the log from now on, until daemon_main() returns or daemon_exit() is called: must be called after
 * the last fork of a process that continues without exec.
 */
struct daemon_watch *daemon_signals_start(struct loop *l, const struct daemon_signals *s);
void daemon_signals_stop(struct daemon_watch *w);
/* Writes the log and exits at once, without releasing anything. */
no_return void daemon_exit(int code);
/* sd_notify: "READY=1", "MAINPID=...", "STOPPING=1", "RELOADING=1", "STATUS=..."; nothing without
 * NOTIFY_SOCKET.
 */
void daemon_notify(const char *state);
/* Logs that the re-read configuration FILE was rejected, and each problem in D. */
void daemon_reload_failed(const char *file, const struct diag *d);
/* 128 random bits as hex: an instance, a request id. OUT has 33 bytes. */
void daemon_random_id(char out[33]);
