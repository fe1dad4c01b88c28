/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator's tool: each command is a row of a table and has its own file. The output of a
 * command is made from JSON by a pure function, so that tests need no server. Main thread.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/text.h"

#include <jansson.h>
#include <stdio.h>

enum { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2 };

struct ctl_command;

/* Options of most commands: the first member of the struct of a command's command line. */
struct ctl_options {
    const struct ctl_command *command;
    char **words; /* its arguments; NULL at the end */
    const char *address;
    const char *token_file;
    uint64_t timeout_ms;
    bool json;
    const char *application; /* only this one; NULL: all */
    const char *cls;         /* resumes: only this request class */
    uint64_t top;            /* resumes: so many classes of each worker; limits: keys; 0: all */
    bool colours;            /* the terminal supports them */
    /* What ctl_finish() prints to standard output and standard error. */
    struct text out;
    struct diag diag;
};

/* The whole main(). Returns the exit code. */
int ctl_main(int argc, char **argv);

/* ---- shared by commands ---- */
/*
 * Sends one HTTP request to the admin address of O, with O's token and, unless it is empty, CONTENT
 * (JSON). Sets *STATUS and appends the response body to BODY, for any status. Blocks for at most
 * O's timeout; the body is bounded. Problems are added to O's diag. Errors:
 * ERR_SYNTAX (the address, the token), ERR_NOT_FOUND (the host), ERR_CONNECT_*, ERR_TIMEOUT,
 * ERR_PEER_CLOSED, ERR_BAD_RESPONSE, ERR_TOO_LARGE, ERR_SYSTEM.
 */
enum err ctl_request(struct ctl_options *o, const char *method, const char *path,
                     struct slice content, int *status, struct text *body) must_check;
/* The body of a page; any status but 200 is ERR_BAD_RESPONSE. */
enum err ctl_get(struct ctl_options *o, const char *path, struct text *body) must_check;
/* The same as JSON; ERR_SYNTAX when it is none. The caller's to json_decref. */
enum err ctl_get_json(struct ctl_options *o, const char *path, json_t **out) must_check;
/* Appends to O's diag the message for error E of a page; returns E. */
enum err ctl_page_problem(struct ctl_options *o, const char *path, enum err e) must_check;

/* ---- commands ---- */

/*
 * The commands and their options, as tables: what is parsed, what --help prints
 * and what shells complete are made of the same rows. Const tables and plain functions.
 */

enum { CTL_FLAGS_MAX = 40, CTL_TIMEOUT_MAX_S = 3600 };

struct ctl_flag;
/* Stores VALUE of an option in the struct of the command, which begins with O. Returns CTL_OK, or
 * the exit status after printing the reason. */
typedef int (*ctl_take_fn)(struct ctl_options *o, const struct ctl_flag *f, const char *value);

struct ctl_flag {
    int letter;            /* 0: it has only the long name */
    const char *name;      /* without "--" */
    const char *value;     /* name of its argument; NULL: it takes none */
    const char *completes; /* words with blanks between, or CTL_FILES; NULL: anything */
    const char *help;
    ctl_take_fn take;  /* NULL: print the help */
    size_t at;         /* for TAKE: where it goes */
    uint64_t min, max; /* for TAKE: bounds */
};

/* The last members of a flag: what becomes of it. MEMBER is one of TYPE, which begins with struct
 * ctl_options: a bool that becomes true, a text, a whole number, or by TAKE. */
#define CTL_SET(type, member) ctl_take_true, CTL_AT(type, member, bool), 0, 0
#define CTL_TEXT(type, member) ctl_take_text, CTL_AT(type, member, const char *), 0, 0
#define CTL_NUMBER(type, member, a, b) ctl_take_number, CTL_AT(type, member, uint64_t), a, b
#define CTL_OWN(take) take, 0, 0, 0
#define CTL_AT(type, member, of) _Generic(((type *)0)->member, of : offsetof(type, member))
int ctl_take_true(struct ctl_options *o, const struct ctl_flag *f, const char *value);
int ctl_take_text(struct ctl_options *o, const struct ctl_flag *f, const char *value);
int ctl_take_number(struct ctl_options *o, const struct ctl_flag *f, const char *value);
/* The same, but VALUE is in seconds and is stored in milliseconds. */
int ctl_take_seconds(struct ctl_options *o, const struct ctl_flag *f, const char *value);

/* For CTL_FLAG.completes: names of files. */
#define CTL_FILES "@files"

struct ctl_command {
    const char *name;
    const char *arguments; /* "[APPLICATION]": a word for each that it may have, "..." for any
                              number; or NULL */
    const char *summary;   /* in one line */
    const char *text;      /* more of it, for its --help; or NULL */
    void (*describe)(struct text *out); /* further text, at the end; or NULL */
    const char *completes;              /* its arguments: as of a flag */
    const struct ctl_flag *flags;       /* CTL_FLAGS() */
    size_t nflags;
    /* ARGV[0] is the program; the command is removed. Returns the exit status. */
    int (*run)(const struct ctl_command *c, int argc, char **argv);
};

/* The members for the array ROWS. */
#define CTL_FLAGS(rows) .flags = (rows), .nflags = ARRAY_LEN(rows)

/* All of them, in the order in which they are shown. */
extern const struct ctl_command *const ctl_commands[];
extern const size_t ctl_ncommands;

/* Each in its file. */
extern const struct ctl_command ctl_word_status, ctl_word_top, ctl_word_resumes, ctl_word_limits,
    ctl_word_explain, ctl_word_classify, ctl_word_check, ctl_word_playback, ctl_word_simulate,
    ctl_word_tree, ctl_word_drain, ctl_word_undrain, ctl_word_confirm_removal, ctl_word_forget,
    ctl_word_reload, ctl_word_detach, ctl_word_completion, ctl_word_trace, ctl_word_report,
    ctl_word_worker;

/* ---- parsing ---- */

/*
 * Takes each option of ARGV; -h prints the help of C. Returns the exit status, or -1 to continue:
 * then O->words has the arguments, at most as many as C has.
 */
int ctl_parse(const struct ctl_command *c, int argc, char **argv, struct ctl_options *o) must_check;
/* Prints a usage error to standard error; returns CTL_USAGE. WHICH may be NULL. */
int ctl_usage_error(const struct ctl_command *c, const char *what, const char *which);
/* The same for problems that are in D, which is freed. */
int ctl_usage_problems(const struct ctl_command *c, struct diag *d);

/* ---- what most commands take ---- */

/* A row in a macro. */
#define CTL_FLAG(...)                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CTL_FLAG_ADDRESS                                                                           \
    CTL_FLAG('a', "address", "ADDRESS", NULL,                                                      \
             "its admin address: HOST:PORT, [IPV6]:PORT or unix:/path (127.0.0.1:8081)",           \
             CTL_TEXT(struct ctl_options, address))
#define CTL_FLAG_JSON                                                                              \
    CTL_FLAG('j', "json", NULL, NULL, "print JSON", CTL_SET(struct ctl_options, json))
#define CTL_FLAG_TOKEN                                                                             \
    CTL_FLAG('T', "token-file", "FILE", CTL_FILES, "file with the admin address's token",          \
             CTL_TEXT(struct ctl_options, token_file))
#define CTL_FLAG_TIMEOUT                                                                           \
    CTL_FLAG('t', "timeout", "SECONDS", NULL, "how long to wait for a response (10)",              \
             ctl_take_seconds, CTL_AT(struct ctl_options, timeout_ms, uint64_t), 1,                \
             CTL_TIMEOUT_MAX_S)
#define CTL_FLAG_HELP CTL_FLAG('h', "help", NULL, NULL, "print this help", CTL_OWN(NULL))
#define CTL_FLAGS_ASKING                                                                           \
    CTL_FLAG_ADDRESS, CTL_FLAG_JSON, CTL_FLAG_TOKEN, CTL_FLAG_TIMEOUT, CTL_FLAG_HELP

/* Finishes a command: prints and frees O's out and diag. Returns the exit status for E, or for a
 * failure to print. */
int ctl_finish(struct ctl_options *o, enum err e);

/* ---- files of lines ---- */

/* FILE, or standard input if that is "-"; NULL, and why is in D, if it cannot be opened. */
FILE *ctl_open(const char *file, struct diag *d);
/* Reads the next line, without its end, to LINE, which has room for MAX + 1 bytes; a longer line is
 * cut to that. Returns false at the end of the file. */
bool ctl_read_line(FILE *in, char *line, size_t max, struct slice *out) must_check;
/* ERR_SYSTEM: it could not be read to its end; why to D. */
enum err ctl_close(FILE *in, const char *file, struct diag *d) must_check;
