/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator's tool: one command, one row of a table, one file. The output of a command is made
 * from JSON by a pure function, so that tests need no server. Main thread.
 */
#ifndef RLB_CTL_CLI_CTL_H
#define RLB_CTL_CLI_CTL_H

#include "common/base/err.h"
#include "common/base/text.h"

#include <jansson.h>

enum { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2 };

/* Options of the command line; each command uses those that apply to it. */
struct ctl_options {
    const char *address;
    const char *token_file;
    unsigned timeout_ms;
    bool json;
    const char *application; /* only this one; NULL: all */
    const char *process;     /* detach: its id */
    const char *cls;         /* resumes: only this request class */
    size_t top;              /* resumes: so many classes of each worker; limits: keys; 0: all */
    bool colours;            /* the terminal supports them */
};

/* The whole main(). Returns the exit code. */
int ctl_main(int argc, char **argv);

/* ---- shared by commands ---- */
/*
 * Ask the admin address that O names, with its token; the answer's status and body, whatever they
 * are. What went wrong goes to D in words. Errors: those of fetch(), and of reading the token.
 */
enum err ctl_ask(const struct ctl_options *o, const char *method, const char *path, int *status,
                 struct text *body, struct diag *d) must_check;

/* The same for an order: POST PATH with ORDER (JSON). */
enum err ctl_order(const struct ctl_options *o, const char *path, struct slice order, int *status,
                   struct text *body, struct diag *d) must_check;
/* The body of a page; any status but 200 is ERR_BAD_RESPONSE. */
enum err ctl_get(const struct ctl_options *o, const char *path, struct text *body,
                 struct diag *d) must_check;
/* The same as JSON; ERR_SYNTAX when it is none. The caller's to json_decref. */
enum err ctl_get_json(const struct ctl_options *o, const char *path, json_t **out,
                      struct diag *d) must_check;
/* Appends to D the message for error E of a page; returns E. */
enum err ctl_page_problem(const struct ctl_options *o, const char *path, enum err e,
                          struct diag *d) must_check;

/* Take O->process out of the pool; what came of it to OUT. */
enum err ctl_detach(const struct ctl_options *o, struct text *out, struct diag *d) must_check;

/*
 * ---- the words, as text from the parsed page ----
 * Members that are missing or of another type are shown as "-"; unknown ones are ignored.
 * Errors: ERR_SYNTAX (not what /status.json, /resumes.json give), ERR_NOT_FOUND (no such
 * application).
 */
enum err ctl_status_text(const json_t *page, const struct ctl_options *o,
                         struct text *out) must_check;
enum err ctl_resumes_text(const json_t *page, const struct ctl_options *o,
                          struct text *out) must_check;
enum err ctl_limits_text(const json_t *page, const struct ctl_options *o,
                         struct text *out) must_check;
/* Of /explain. Errors: ERR_SYNTAX. */
enum err ctl_explain_text(const json_t *page, const struct ctl_options *o,
                          struct text *out) must_check;

/* ---- commands ---- */

/*
 * The words of the command line and their options, as tables: what is parsed, what --help prints
 * and what shells complete are made of the same rows. Const tables and plain functions.
 */

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
    const char *arguments; /* "[APPLICATION]": a word for each that it may have, "..." for any
                              number; or NULL */
    const char *summary;   /* in one line */
    const char *text;      /* more of it, for its --help; or NULL */
    void (*describe)(struct text *out); /* further text, at the end; or NULL */
    const char *completes;              /* its arguments: as of a flag */
    const struct ctl_flag *flags;
    size_t nflags;
    /* ARGV[0] is the program; the command is removed. Returns the exit status. */
    int (*run)(const struct ctl_command *c, int argc, char **argv);
};

/* All of them, in the order in which they are shown. */
extern const struct ctl_command *const ctl_commands[];
extern const size_t ctl_ncommands;

/* Each in its file. */
extern const struct ctl_command ctl_word_status, ctl_word_top, ctl_word_resumes, ctl_word_limits,
    ctl_word_explain, ctl_word_classify, ctl_word_check, ctl_word_playback, ctl_word_simulate,
    ctl_word_tree, ctl_word_drain, ctl_word_undrain, ctl_word_confirm_removal, ctl_word_forget,
    ctl_word_reload, ctl_word_detach, ctl_word_completion, ctl_word_trace;

/* ---- parsing ---- */

/* Handles one option. Returns CTL_OK, or the exit status after printing the reason. */
typedef int (*ctl_take_fn)(void *context, int letter, const char *value);
/*
 * Passes each option of ARGV to TAKE; -h prints the help of C. Returns -1 to continue: arguments
 * begin at *FIRST, and are not more than C has; else the exit code.
 */
int ctl_command_parse(const struct ctl_command *c, int argc, char **argv, int *first,
                      ctl_take_fn take, void *context) must_check;
/* Prints a usage error to standard error; returns CTL_USAGE. WHICH may be NULL. */
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
        'j', "json", NULL, NULL, "print JSON"                                                      \
    }
#define CTL_FLAG_TOKEN                                                                             \
    {                                                                                              \
        'T', "token-file", "FILE", CTL_FILES, "file with the admin address's token"                \
    }
#define CTL_FLAG_TIMEOUT                                                                           \
    {                                                                                              \
        't', "timeout", "SECONDS", NULL, "how long to wait for a response (10)"                    \
    }
#define CTL_FLAG_HELP                                                                              \
    {                                                                                              \
        'h', "help", NULL, NULL, "print this help"                                                 \
    }
#define CTL_FLAGS_ASKING                                                                           \
    CTL_FLAG_ADDRESS, CTL_FLAG_JSON, CTL_FLAG_TOKEN, CTL_FLAG_TIMEOUT, CTL_FLAG_HELP

/* One of CTL_FLAGS_ASKING. -1: it is none of them. */
int ctl_take_asking(const struct ctl_command *c, struct ctl_options *o, int letter,
                    const char *value) must_check;

/* ---- a terminal ---- */
/* Whether standard output is one that shows colours, and NO_COLOR is not set. */
bool ctl_colours(void);
/* Prints OUT to standard output. Returns false on failure, after printing the reason. */
bool ctl_print(struct slice out);
/* Finishes a command: prints OUT, and D to standard error; frees both. Returns the exit status for
 * E, or for a failure to print. */
int ctl_finish(enum err e, struct text *out, struct diag *d);

/* ---- one HTTP request ---- */

/*
 * One HTTP request to an admin address, blocking: for a tool that asks once and ends. Everything is
 * bounded: the time in all, and the bytes taken. Nothing outlives the call; any thread.
 */

enum {
    /* A hundred workers with ten thousand skills of a hundred bytes each come near it. */
    FETCH_BODY_MAX = 128 * 1024 * 1024,
    FETCH_TIMEOUT_MS = 10000,
    /* Of a host name, tried one after the other. */
    FETCH_ADDRESSES_MAX = 8,
    FETCH_TOKEN_MAX = 1024,
};

struct fetch_request {
    const char *method;  /* "GET" or "POST" */
    const char *address; /* as for the program: HOST:PORT, [IPV6]:PORT, unix:/path */
    const char *path;    /* "/status.json" */
    const char *token;   /* sent as "Authorization: Bearer TOKEN"; or NULL */
    struct slice body;   /* of a POST: JSON, or empty */
    unsigned timeout_ms; /* for all of it */
};

/*
 * Ask, and append the body to OUT; *STATUS is the HTTP status, whatever it is. What went wrong goes
 * to D in words.
 * Errors: ERR_SYNTAX (the address), ERR_NOT_FOUND (the host), ERR_CONNECT_*, ERR_TIMEOUT,
 * ERR_PEER_CLOSED, ERR_BAD_RESPONSE, ERR_TOO_LARGE, ERR_SYSTEM.
 */
enum err fetch(const struct fetch_request *q, int *status, struct text *out,
               struct diag *d) must_check;

#endif
