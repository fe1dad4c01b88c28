/* SPDX-License-Identifier: Apache-2.0 */
#include "common/event/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/text.h"

enum {
    PASSED_FD = 3,
    /* As shells have it for what cannot be executed. */
    EXIT_NOT_EXECUTED = 127,
};

/* ---- finding it ---- */

static bool is_program(const char *file)
{
    struct stat st;

    return stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0;
}

char *program_find(const char *name, const char *path)
{
    struct slice rest = slice_of(path != NULL ? path : "/usr/bin:/bin");

    if (strchr(name, '/') != NULL)
        return is_program(name) ? xstrdup(name) : NULL;
    while (rest.len > 0) {
        struct slice folder = slice_cut(&rest, ':');
        char *file = xasprintf("%.*s/%s", (int)folder.len, folder.p, name);

        /* An empty entry would mean the current directory, which must not be searched for
         * programs. */
        if (folder.len > 0 && is_program(file))
            return file;
        free(file);
    }
    return NULL;
}

/* ---- starting it ---- */

struct image { /* all that the child needs, made before it is there */
    char *file;
    char **argv;
    char **env;
    char *variable;
};

static void make_image(const struct program_options *o, char *file, struct image *out)
{
    size_t nargs = 0;
    size_t nenv = 0;

    while (o->args[nargs] != NULL)
        ++nargs;
    while (environ[nenv] != NULL)
        ++nenv;
    out->file = file;
    out->argv = xcalloc(nargs + 2, sizeof(char *));
    out->argv[0] = xstrdup(program_invocation_name);
    for (size_t i = 0; i < nargs; ++i)
        out->argv[i + 1] = xstrdup(o->args[i]);
    out->env = xcalloc(nenv + 2, sizeof(char *));
    memcpy(out->env, environ, nenv * sizeof(char *));
    if (o->pass >= 0) {
        out->variable = xasprintf("%s=%d", o->variable, PASSED_FD);
        out->env[nenv] = out->variable;
    }
}

static void free_image(struct image *image)
{
    for (size_t i = 0; image->argv[i] != NULL; ++i)
        free(image->argv[i]);
    free(image->argv);
    free(image->env);
    free(image->variable);
    free(image->file);
}

/*
 * In the child of a process with threads: nothing but system calls. Signals stay blocked as they
 * are here, until the program reads them: one that comes in between waits.
 */
static void become(const struct image *image, const struct program_options *o) no_return;
static void become(const struct image *image, const struct program_options *o)
{
    unsigned first = PASSED_FD;

    if (o->pass >= 0) {
        if (o->pass == PASSED_FD)
            fcntl(PASSED_FD, F_SETFD, 0);
        else
            dup2(o->pass, PASSED_FD);
        ++first;
    }
    close_range(first, ~0U, 0);
    setrlimit(RLIMIT_NOFILE, &o->nofile);
    signal(SIGPIPE, SIG_DFL);
    execve(image->file, image->argv, image->env);
    _exit(EXIT_NOT_EXECUTED);
}

enum err program_start(const struct program_options *o, struct program *out)
{
    struct image image = {0};
    char *file = program_find(program_invocation_name, getenv("PATH"));

    if (file == NULL)
        return ERR_NOT_FOUND;
    make_image(o, file, &image);
    pid_t pid = fork();
    if (pid == 0)
        become(&image, o);
    int saved = errno;
    free_image(&image);
    errno = saved;
    if (pid < 0)
        return ERR_SYSTEM;
    *out = (struct program){.pid = pid, .pidfd = pidfd_open(pid, 0)};
    if (out->pidfd >= 0)
        return ERR_OK;
    char how[40];
    saved = errno;
    (void)program_end(out, true, how);
    errno = saved;
    return ERR_SYSTEM;
}

int program_end(struct program *p, bool kill_it, char out[40])
{
    int status = 0;

    if (kill_it)
        kill(p->pid, SIGKILL);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (p->pidfd >= 0)
        close(p->pidfd);
    *p = (struct program){.pid = 0, .pidfd = -1};
    if (WIFEXITED(status))
        snprintf(out, 40, "exit %d", WEXITSTATUS(status));
    else
        snprintf(out, 40, "signal %d", WTERMSIG(status));
    return status;
}
