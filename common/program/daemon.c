/* SPDX-License-Identifier: Apache-2.0
 *
 * Command line, signals, ready notification. Signals are blocked everywhere and read from a
 * signalfd on one loop, so no code of ours ever runs in a signal handler.
 */
#include "common/program/daemon.h"
#include "common/base/log.h"
#include "common/base/output.h"
#include "common/base/text.h"
#include "common/event/log_writer.h"
#include "version.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- the signals that the programs handle ---- */

static const struct {
    int number;
    size_t handler; /* its offset */
} signals[] = {
    {SIGTERM, offsetof(struct daemon_signals, on_term)},
    {SIGINT, offsetof(struct daemon_signals, on_int)},
    {SIGHUP, offsetof(struct daemon_signals, on_hup)},
    {SIGCHLD, offsetof(struct daemon_signals, on_child)},
    {SIGUSR1, offsetof(struct daemon_signals, on_usr1)},
    {SIGUSR2, offsetof(struct daemon_signals, on_usr2)},
};

static void fill_signals(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < ARRAY_LEN(signals); ++i)
        sigaddset(set, signals[i].number);
}

/* HOW: SIG_BLOCK or SIG_UNBLOCK. */
static void mask_signals(int how)
{
    sigset_t set;

    fill_signals(&set);
    int failed = pthread_sigmask(how, &set, NULL);
    ASSERT(!failed);
}

/* ---- command line ---- */

enum { OPTIONS_MAX = 16 };

static void print_usage(const struct daemon_program *p, FILE *out)
{
    fprintf(out, "usage: %s %s\n       %s -v | -h | --describe %s\n", p->name, p->usage, p->name,
            p->subjects);
}

/* Must be called after the reason was printed. */
static int exit_of_usage(const struct daemon_program *p)
{
    print_usage(p, stderr);
    return p->lenient ? EXIT_CONFIG : EXIT_USAGE;
}

static void print_help(const struct daemon_program *p)
{
    printf("%s: %s\n\n", p->name, p->summary);
    print_usage(p, stdout);
    printf("\n"
           "  -c, --config FILE     the configuration%s\n"
           "%s"
           "  -t, --test            test the configuration and exit\n"
           "      --describe WHAT   print a manual page: %s\n"
           "  -v, --version         print the version\n"
           "  -h, --help            print this\n"
           "\n",
           p->lenient ? "; without it, all defaults" : "",
           p->options_help != NULL ? p->options_help : "", p->subjects);
    if (p->lenient)
        puts("Exit status: 0 success, 1 any failure");
    else
        printf("Exit status: 0 success, %d invalid configuration, %d usage error\n", EXIT_CONFIG,
               EXIT_USAGE);
    printf("signals: %s\n", p->signals);
}

/* Collects the common options and those of P for getopt_long(). */
static void collect_options(const struct daemon_program *p, char letters[2 * OPTIONS_MAX],
                            struct option all[OPTIONS_MAX])
{
    static const struct option common[] = {
        {"config", required_argument, NULL, 'c'},   {"test", no_argument, NULL, 't'},
        {"version", no_argument, NULL, 'v'},        {"help", no_argument, NULL, 'h'},
        {"describe", required_argument, NULL, 'd'},
    };
    size_t n = ARRAY_LEN(common);

    memcpy(all, common, sizeof(common));
    for (const struct option *o = p->options; o != NULL && o->name != NULL; ++o) {
        ASSERT(n < OPTIONS_MAX - 1);
        all[n++] = *o;
    }
    all[n] = (struct option){0};
    /* 'd' is not among the short options: --describe has no short form. */
    snprintf(letters, 2 * OPTIONS_MAX, "+c:tvh%s", p->letters != NULL ? p->letters : "");
}

/* Returns a failure if writing to stdout failed, for instance because the disk is full. */
static int exit_of_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_SUCCESS;
    perror("stdout");
    return EXIT_CONFIG;
}

static int run_or_test(const struct daemon_program *p, const struct daemon_line *line, bool run)
{
    struct diag d = {0};
    const char *file = line->file != NULL ? line->file : "defaults";
    void *config = p->read(line->file, &d);
    unsigned errors = d.errors;

    if (d.text != NULL)
        fputs(d.text, stderr);
    diag_fini(&d);
    if (config == NULL) {
        fprintf(stderr, "%s: configuration is invalid (%u %s)\n", file, errors,
                errors == 1 ? "problem" : "problems");
        return EXIT_CONFIG;
    }
    if (run) {
        log_open(LOG_PATIENCE_MS);
        int code = p->run(p->context, config, line);
        log_writer_stop();
        return code;
    }
    fprintf(stderr, "%s: configuration is valid\n", file);
    p->destroy(config);
    return EXIT_SUCCESS;
}

int daemon_main(const struct daemon_program *p, int argc, char **argv)
{
    struct daemon_line line = {.argv = argv};
    struct option options[OPTIONS_MAX];
    char letters[2 * OPTIONS_MAX];
    bool test = false;
    int option;

    output_fill_standard();
    /* One that arrives before its handler runs is pending until then: by its default action it
     * would leave behind what the start has made so far. */
    mask_signals(SIG_BLOCK);
    collect_options(p, letters, options);
    optind = 0; /* start again: a test parses more than once */
    while ((option = getopt_long(argc, argv, letters, options, NULL)) != -1) {
        switch (option) {
        case 'c':
            line.file = optarg;
            break;
        case 't':
            test = true;
            break;
        case 'v':
            printf("%s %s\n", p->name, RLB_VERSION);
            return exit_of_output();
        case 'h':
            print_help(p);
            return exit_of_output();
        case 'd':
            mask_signals(SIG_UNBLOCK);
            if (p->describe(optarg, stdout))
                return exit_of_output();
            fprintf(stderr, "%s: --describe: unknown manual page \"%s\"\n", p->name, optarg);
            return exit_of_usage(p);
        case '?':
            return exit_of_usage(p); /* getopt has printed the reason */
        default:
            if (!p->option(p->context, option, optarg))
                return exit_of_usage(p);
        }
    }
    if (p->finish != NULL && !p->finish(p->context))
        return p->lenient ? EXIT_CONFIG : EXIT_USAGE;
    if (optind != argc) {
        fprintf(stderr, "%s: unexpected argument \"%s\"%s\n", argv[0], argv[optind],
                line.file == NULL ? " (the configuration is given by -c FILE)" : "");
        return exit_of_usage(p);
    }
    if (!p->lenient && line.file == NULL) {
        fprintf(stderr, "%s: no configuration given (-c FILE)\n", argv[0]);
        return exit_of_usage(p);
    }
    if (test)
        mask_signals(SIG_UNBLOCK);
    /* From the first line of the log on: its reader may have ended. */
    signal(SIGPIPE, SIG_IGN);
    int code = run_or_test(p, &line, !test);
    /* One that arrived during a start that failed ends the program. */
    if (code != EXIT_SUCCESS)
        mask_signals(SIG_UNBLOCK);
    return code;
}

/* ---- signals ---- */

struct daemon_watch {
    struct daemon_signals handlers;
    struct watch *watch;
    struct loop *loop;
    struct timer log; /* each second */
    int fd;
};

struct rlimit daemon_descriptors(void)
{
    struct rlimit limit;

    int failed = getrlimit(RLIMIT_NOFILE, &limit);
    ASSERT(!failed);
    return limit;
}

enum {
    /* Freed memory that each arena retains. With the default of 128 KiB, relaying a large body
     * returned its buffers to the kernel at every read, and page faults restored them: half the
     * cost of a response of 64 KiB. */
    KEPT_FREE_BYTES = 16 * 1024 * 1024,
    /* Larger blocks are mapped, and unmapped when freed: request bodies, not relay buffers. */
    MAPPED_BYTES = 1024 * 1024,
};

void daemon_prepare(void)
{
    struct rlimit limit = daemon_descriptors();
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) == -1)
        log_warn(NULL, "descriptor-limit-not-raised", "reason=\"%s\"", strerror(errno));
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_FREE_BYTES);
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
}

/* Handles one signal: the descriptor stays readable, and a handler may stop the watch. */
static void on_signal(void *context)
{
    struct daemon_watch *w = context;
    struct signalfd_siginfo info;

    if (read(w->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    for (size_t i = 0; i < ARRAY_LEN(signals); ++i) {
        void (*handler)(void *);

        if ((uint32_t)signals[i].number != info.ssi_signo)
            continue;
        memcpy(&handler, (const char *)&w->handlers + signals[i].handler, sizeof(handler));
        if (handler != NULL)
            handler(w->handlers.context);
        return;
    }
}

static void on_log_second(struct timer *t)
{
    enum { LOG_FLUSH_MS = 1000 };

    log_flush();
    timer_start(container_of(t, struct daemon_watch, log)->loop, t, LOG_FLUSH_MS);
}

struct daemon_watch *daemon_signals_start(struct loop *l, const struct daemon_signals *s)
{
    struct daemon_watch *w = xcalloc(1, sizeof(*w));
    sigset_t set;

    fill_signals(&set);
    if (s->on_child == NULL)
        sigdelset(&set, SIGCHLD);
    w->handlers = *s;
    w->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    ASSERT(w->fd != -1);
    w->watch = watch_start(l, w->fd, on_signal, w);
    w->loop = l;
    timer_init(&w->log, on_log_second);
    on_log_second(&w->log);
    log_writer_start();
    return w;
}

void daemon_signals_stop(struct daemon_watch *w)
{
    if (w == NULL)
        return;
    watch_stop(w->watch);
    timer_stop(&w->log);
    log_flush_all();
    close(w->fd);
    free(w);
}

void daemon_exit(int code)
{
    log_flush_all();
    log_writer_stop();
    _exit(code);
}

/* ---- ready notification ---- */

void daemon_notify(const char *state)
{
    const char *name = getenv("NOTIFY_SOCKET"); /* a path, or an abstract name */
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    if (name == NULL || name[0] == '\0')
        return;
    size_t n = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || n < 2 || n >= sizeof(sa.sun_path)) {
        log_warn(NULL, "notify-socket-invalid", "name=\"%s\"", log_shown(slice_of(name)));
        return;
    }
    memcpy(sa.sun_path, name, n);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    if (name[0] == '@')
        sa.sun_path[0] = '\0';
    else
        ++len; /* the NUL */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    /* A service manager that does not read must not block the program. */
    if (fd == -1 || sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
                           (struct sockaddr *)&sa, len) == -1)
        log_warn(NULL, "notify-failed", "reason=\"%s\"", strerror(errno));
    if (fd != -1)
        close(fd);
}

/* ---- ids ---- */

void daemon_random_id(char out[33])
{
    unsigned char bytes[16];

    /* Waits until the kernel's generator is ready. */
    int failed = getentropy(bytes, sizeof(bytes));
    ASSERT(!failed);
    for (size_t i = 0; i < sizeof(bytes); ++i)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

void daemon_reload_failed(const char *file, const struct diag *d)
{
    struct slice rest = slice_of(d->text);

    log_error(NULL, "config-reload-failed",
              "file=%s errors=%u action=\"keep current configuration\"", file, d->errors);
    while (rest.len > 0) {
        struct slice line = slice_cut(&rest, '\n');

        if (line.len > 0)
            log_info(NULL, "config-error", "reason=\"%.*s\"", (int)line.len, line.p);
    }
}
