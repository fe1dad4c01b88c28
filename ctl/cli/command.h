/* SPDX-License-Identifier: Apache-2.0
 *
 * The words of the command line and their options, as tables: what is parsed, what --help prints
 * and what shells complete are made of the same rows. Const tables and plain functions.
 */
#ifndef RLB_CTL_CLI_COMMAND_H
#define RLB_CTL_CLI_COMMAND_H

#include "common/base/text.h"
#include "ctl/cli/ctl.h"

enum { CTL_FLAGS_MAX = 40 };

struct ctl_flag {
    int letter;            /* or a number beyond letters: it has only the long name */
    const char *name;      /* without "--" */
    const char *value;     /* what its argument is called; NULL: it takes none */
    const char *completes; /* words with blanks between, or CTL_FILES; NULL: anything */
    const char *help;
};

/* For CTL_FLAG.completes: names of files. */
#define CTL_FILES "@files"

struct ctl_command {
    const char *name;
    const char *arguments; /* "[APPLICATION]": a word for each that it may have; or NULL */
    const char *summary;   /* in one line */
    const char *text;      /* more of it, for its --help; or NULL */
    const char *completes; /* its arguments: as of a flag */
    const struct ctl_flag *flags;
    size_t nflags;
    /* ARGV[0] is the program; the word is taken out. Returns the exit code. */
    int (*run)(const struct ctl_command *c, int argc, char **argv);
};

/* All of them, in the order in which they are shown. */
extern const struct ctl_command *const ctl_commands[];
extern const size_t ctl_ncommands;
/* NULL: there is none. */
const struct ctl_command *ctl_command_find(struct slice name);

/* Each in its file. */
extern const struct ctl_command ctl_word_status, ctl_word_top, ctl_word_resumes, ctl_word_limits,
    ctl_word_explain, ctl_word_classify, ctl_word_check, ctl_word_playback, ctl_word_simulate,
    ctl_word_tree, ctl_word_drain, ctl_word_undrain, ctl_word_confirm_removal, ctl_word_forget,
    ctl_word_reload, ctl_word_detach, ctl_word_completion, ctl_word_trace;

/* ---- parsing ---- */

/* One option was given. CTL_OK: fine; else the exit code, and it has said why. */
typedef int (*ctl_take_fn)(void *context, int letter, const char *value);
/*
 * Give each option of ARGV to TAKE; -h prints the help of C. Returns -1: go on, arguments begin at
 * *FIRST, and are not more than C has; else the exit code.
 */
int ctl_command_parse(const struct ctl_command *c, int argc, char **argv, int *first,
                      ctl_take_fn take, void *context) must_check;
void ctl_command_help(const struct ctl_command *c, struct text *out);
/* A bad command line, said on standard error; returns CTL_USAGE. WHICH may be NULL. */
int ctl_usage_error(const struct ctl_command *c, const char *what, const char *which);
/* A whole number from MIN to MAX; CTL_OK, or what ctl_usage_error returned. */
int ctl_take_number(const struct ctl_command *c, const char *name, const char *text, uint64_t min,
                    uint64_t max, uint64_t *out) must_check;
int ctl_take_real(const struct ctl_command *c, const char *name, const char *text, double min,
                  double max, double *out) must_check;

/* ---- what most words take ---- */
#define CTL_FLAG_ADDRESS                                                                           \
    {                                                                                              \
        'a', "address", "ADDRESS", NULL,                                                           \
            "its admin address: HOST:PORT, [IPV6]:PORT or unix:/path (127.0.0.1:8081)"             \
    }
#define CTL_FLAG_JSON                                                                              \
    {                                                                                              \
        'j', "json", NULL, NULL, "for programs: as JSON"                                           \
    }
#define CTL_FLAG_TOKEN                                                                             \
    {                                                                                              \
        'T', "token-file", "FILE", CTL_FILES, "file with the admin address's token"                \
    }
#define CTL_FLAG_TIMEOUT                                                                           \
    {                                                                                              \
        't', "timeout", "SECONDS", NULL, "how long to wait for an answer (10)"                     \
    }
#define CTL_FLAG_HELP                                                                              \
    {                                                                                              \
        'h', "help", NULL, NULL, "print this"                                                      \
    }
#define CTL_FLAGS_ASKING                                                                           \
    CTL_FLAG_ADDRESS, CTL_FLAG_JSON, CTL_FLAG_TOKEN, CTL_FLAG_TIMEOUT, CTL_FLAG_HELP

/* One of CTL_FLAGS_ASKING. -1: it is none of them. */
int ctl_take_asking(const struct ctl_command *c, struct ctl_options *o, int letter,
                    const char *value) must_check;

/* ---- shells ---- */
/* SHELL: "bash" or "zsh". False: neither. */
bool ctl_completion(struct slice shell, struct text *out) must_check;

/* ---- a terminal ---- */
/* Whether standard output is one that shows colours, and NO_COLOR is not set. */
bool ctl_colours(void);
/* All of OUT to standard output; false, and it was said, when that fails. */
bool ctl_print(struct slice out);
/* The end of a word: OUT is printed, D said on standard error, both freed. E, or a failure to
 * print, as exit code. */
int ctl_finish(enum err e, struct text *out, struct diag *d);

#endif
