/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's side of the PoolCounter protocol: request lines as a daemon takes them, and its
 * replies (docs/guide/poolcounter.md). Pure; any thread.
 */
#ifndef RLB_LIMITER_COUNTER_REPLY_H
#define RLB_LIMITER_COUNTER_REPLY_H

#include "common/base/err.h"
#include "common/limiter/counter.h"

enum {
    /* An escaped key. With all of its line it is within the smallest segment TCP may be held to
     * (536 bytes): a widespread daemon loses the beginning of a line that comes in two. */
    COUNTER_KEY_WIRE_MAX = 400,
    COUNTER_REQUEST_LINE_MAX = 512,
    /* A reply with its newline. The longest that means anything is the daemon's uptime. */
    COUNTER_REPLY_LINE_MAX = 128,
};

/* ---- requests ---- */

/*
 * KEY as one word: bytes outside 0x21-0x7E and '%' are %XX. One that would be longer than
 * COUNTER_KEY_WIRE_MAX is cut, and ends in "%~" and 32 hexadecimal digits, which are a hash of all
 * of it (XXH3, 128 bits); the empty key is "%~". No other key's word has "%~" in it, so different
 * keys are different words. What stands before the first ':' stays the same. Returns the length;
 * no NUL.
 */
size_t counter_key_escape(struct slice key, char out[COUNTER_KEY_WIRE_MAX]);

struct counter_acquire_line {
    struct slice word; /* an escaped key */
    enum counter_kind kind;
    uint32_t workers, maxqueue; /* at least 1 */
    uint32_t timeout_s;         /* 0: without waiting */
    uint32_t slots;             /* 0: left out, as most daemons do not know it */
};
/* "ACQ4ME WORD WORKERS MAXQUEUE TIMEOUT [SLOTS]" and a newline; returns the length. */
size_t counter_acquire_print(const struct counter_acquire_line *l,
                             char out[COUNTER_REQUEST_LINE_MAX]);
/* The requests without arguments, with their newlines: RELEASE; STATS UPTIME, which every daemon
 * answers at any time; and STATS SLOTS, which a daemon that knows SLOTS answers, any other one by
 * an error. */
struct slice counter_release_line(void);
struct slice counter_uptime_line(void);
struct slice counter_slots_line(void);

/* ---- replies ---- */

enum counter_reply_kind {
    COUNTER_REPLY_LOCKED,
    COUNTER_REPLY_DONE,
    COUNTER_REPLY_QUEUE_FULL,
    COUNTER_REPLY_TIMEOUT,
    COUNTER_REPLY_LOCK_HELD,
    COUNTER_REPLY_RELEASED,
    COUNTER_REPLY_NOT_LOCKED,
    COUNTER_REPLY_ERROR,
    COUNTER_REPLY_UPTIME,
    COUNTER_REPLY_SLOTS,
};

struct counter_reply {
    enum counter_reply_kind kind;
    struct slice
        text; /* of ERROR, UPTIME and SLOTS: what follows the word; visible ASCII and blanks */
};

/*
 * Parses the first line of BYTES, which are all bytes received so far. *USED is its length with the
 * newline.
 * Errors: ERR_NOT_FOUND if no newline has arrived yet; ERR_TOO_LARGE if there is none within
 * COUNTER_REPLY_LINE_MAX; ERR_SYNTAX if the line is not a valid reply.
 */
enum err counter_reply_parse(struct slice bytes, struct counter_reply *out,
                             size_t *used) must_check;

/* Whether BYTES are the original's reply to STATS with a word it does not know: it has no newline.
 */
bool counter_reply_unknown_stat(struct slice bytes);

#endif
