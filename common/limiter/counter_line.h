/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of PoolCounter's protocol: where one ends, and what it says. Pure functions over
 * borrowed bytes; any thread. What comes out points into what came in.
 *
 *   ACQ4ME KEY WORKERS MAXQUEUE TIMEOUT [SLOTS]     ACQ4ANY, the same     RELEASE     STATS WHAT
 *
 * Strict where the original is, and lenient where it is: docs/guide/poolcounter.md lists both.
 * SLOTS is ours; the original ignores whatever stands behind TIMEOUT.
 */
#ifndef RLB_LIMITER_COUNTER_LINE_H
#define RLB_LIMITER_COUNTER_LINE_H

#include "common/base/base.h"
#include "common/limiter/counter.h"

enum {
    /* The longest line with its newline: what the original reads at once. */
    COUNTER_LINE_MAX = 1024,
};

enum counter_cut {
    CUT_LINE, /* there is a line */
    CUT_LONG, /* a line over COUNTER_LINE_MAX: reported once, and skipped */
    CUT_REST, /* no whole line is left; *IN has less than COUNTER_LINE_MAX bytes, to be kept */
};

/*
 * Take the next line off the front of *IN.
 *   skipping  state of the stream, false at its start: in the middle of a line that is too long
 *   line      on CUT_LINE, without its newline and without one carriage return before that
 */
enum counter_cut counter_line_cut(struct slice *in, bool *skipping, struct slice *line);

enum counter_verb {
    VERB_ACQUIRE,
    VERB_RELEASE,
    VERB_STATS,
    VERB_NONE, /* ERROR BAD_COMMAND */
};

struct counter_line {
    enum counter_verb verb;
    /* VERB_ACQUIRE. It may be refused for what its client does before anybody asks whether it is
     * well-formed; when not, ERROR BAD_SYNTAX. */
    bool well_formed;
    enum counter_kind kind;
    struct slice key;
    uint32_t workers, maxqueue; /* at least 1 when well-formed; UINT32_MAX stands for more */
    uint32_t slots;             /* 0: none given */
    uint64_t timeout_ms;        /* 0: it does not wait */
    /* VERB_STATS: all that stands behind the blank. */
    struct slice what;
};

/*
 * Parses a line from counter_line_cut; a NUL byte ends the line early. Accepts arbitrary bytes.
 *   fractions  whether a timeout may be "0.25"; if not, that is 0, like everything that is not a
 *              valid number
 */
void counter_line_parse(struct slice line, bool fractions, struct counter_line *out);

#endif
