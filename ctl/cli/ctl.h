/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator's tool: one word of the command line, one row of a table, one file. What a word
 * prints is made of JSON by a pure function, so that tests need no server. Main thread.
 */
#ifndef RLB_CTL_CLI_CTL_H
#define RLB_CTL_CLI_CTL_H

#include "common/base/err.h"
#include "common/base/text.h"

#include <jansson.h>

enum { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2 };

/* What may stand on the command line; every word takes those that mean something to it. */
struct ctl_options {
    const char *address;
    const char *token_file;
    unsigned timeout_ms;
    bool json;
    const char *application; /* only this one; NULL: all */
    const char *process;     /* detach: its id */
    const char *cls;         /* resumes: only this request class */
    size_t top;              /* resumes: so many classes of each worker; limits: keys; 0: all */
    bool colours;            /* the terminal shows them */
};

/* The whole main(). Returns the exit code. */
int ctl_main(int argc, char **argv);

/* ---- what words share ---- */
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
/* What a word said of a page, E, in words to D; returns E. */
enum err ctl_page_problem(const struct ctl_options *o, const char *path, enum err e,
                          struct diag *d) must_check;

/* detach.c: take O->process out of the pool; what came of it to OUT. */
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

#endif
