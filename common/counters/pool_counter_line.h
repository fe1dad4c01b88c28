/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of PoolCounter's protocol, for both sides: splitting, parsing and printing. Pure functions
 * over borrowed bytes; any thread. Results point into the input.
 *
 *   ACQ4ME KEY WORKERS MAXQUEUE TIMEOUT [SLOTS]     ACQ4ANY, the same     RELEASE     STATS WHAT
 *
 * Strict where the original is, and lenient where it is: docs/guide/poolcounter.md lists both.
 * SLOTS is an extension of resumelb; the original ignores whatever follows TIMEOUT.
 */
#pragma once

#include "common/base/base.h"
#include "common/base/err.h"
#include "common/counters/counter.h"

enum {
    /* The longest line with its newline: what the original reads at once. */
    POOL_COUNTER_LINE_MAX = 1024,
};

enum pool_counter_cut {
    CUT_LINE, /* there is a line */
    CUT_LONG, /* a line over POOL_COUNTER_LINE_MAX: reported once, and skipped */
    CUT_REST, /* no whole line is left; *IN has less than POOL_COUNTER_LINE_MAX bytes, to be stored
               */
};

/*
 * Take the next line off the front of *IN.
 *   skipping  state of the stream, false at its start: in the middle of a line that is too long
 *   line      on CUT_LINE, without its newline and without one carriage return before that
 */
enum pool_counter_cut pool_counter_line_cut(struct slice *in, bool *skipping, struct slice *line);

enum pool_counter_verb {
    VERB_ACQUIRE,
    VERB_RELEASE,
    VERB_STATS,
    VERB_NONE, /* ERROR BAD_COMMAND */
};

struct pool_counter_line {
    enum pool_counter_verb verb;
    /* VERB_ACQUIRE. It may be rejected because of the state of its client before its syntax is
     * checked; if false, ERROR BAD_SYNTAX. */
    bool well_formed;
    struct counter_request ask; /* without a type; larger numbers become UINT32_MAX */
    /* VERB_STATS: everything after the space. */
    struct slice what;
};

/*
 * Parses a line from pool_counter_line_cut; a NUL byte ends the line early. Accepts arbitrary
 * bytes. fractions  whether a timeout may be "0.25"; if not, that is 0, like everything that is not
 * a valid number
 */
void pool_counter_line_parse(struct slice line, bool fractions, struct pool_counter_line *out);

/* ---- the client's side: request lines as a daemon takes them, and its responses ---- */

enum {
    /* An escaped key. Its whole line fits into the smallest TCP segment (536 bytes), because a
     * widely used daemon loses the beginning of a line that arrives in two. */
    POOL_COUNTER_KEY_WIRE_MAX = 400,
    POOL_COUNTER_REQUEST_LINE_MAX = 512,
    /* A response with its newline. The longest one that is used is the daemon's uptime. */
    POOL_COUNTER_RESPONSE_LINE_MAX = 128,
};

/* ---- requests ---- */

/*
 * Writes KEY as one word: bytes outside 0x21-0x7E and '%' become %XX. A word that would be longer
 * than POOL_COUNTER_KEY_WIRE_MAX is cut, and ends in "%~" and 32 hexadecimal digits, a hash of the
 * whole key (XXH3, 128 bits); the empty key is "%~". No other word contains "%~", so different keys
 * are different words. ':' is not escaped, so that counter_type_of() applies to the word. Returns
 * the length; no NUL.
 */
size_t pool_counter_key_escape(struct slice key, char out[POOL_COUNTER_KEY_WIRE_MAX]);

/*
 * "ACQ4ME KEY WORKERS MAXQUEUE TIMEOUT [SLOTS]" and a newline; returns the length. The key of ASK
 * is escaped, its time-out in whole seconds; slots of 0 are left out, as most daemons do not know
 * them.
 */
size_t pool_counter_acquire_print(const struct counter_request *ask,
                                  char out[POOL_COUNTER_REQUEST_LINE_MAX]);
/* Every daemon responds to STATS UPTIME at any time, and one that knows SLOTS responds to STATS
 * SLOTS, any other one by an error. */
#define POOL_COUNTER_RELEASE_LINE SLICE_LIT("RELEASE\n")
#define POOL_COUNTER_UPTIME_LINE SLICE_LIT("STATS UPTIME\n")
#define POOL_COUNTER_SLOTS_LINE SLICE_LIT("STATS SLOTS\n")

/* ---- responses ---- */

enum pool_counter_response_kind {
    POOL_COUNTER_RESPONSE_LOCKED,
    POOL_COUNTER_RESPONSE_DONE,
    POOL_COUNTER_RESPONSE_QUEUE_FULL,
    POOL_COUNTER_RESPONSE_TIMEOUT,
    POOL_COUNTER_RESPONSE_LOCK_HELD,
    POOL_COUNTER_RESPONSE_RELEASED,
    POOL_COUNTER_RESPONSE_NOT_LOCKED,
    POOL_COUNTER_RESPONSE_ERROR,
    POOL_COUNTER_RESPONSE_UPTIME,
    POOL_COUNTER_RESPONSE_SLOTS,
};

struct pool_counter_response {
    enum pool_counter_response_kind kind;
    struct slice
        text; /* of ERROR, UPTIME and SLOTS: what follows the word; visible ASCII and blanks */
};

/*
 * Parses the first line of BYTES, which are all bytes received so far. *USED is its length with the
 * newline.
 * Errors: ERR_NOT_FOUND if no newline has arrived yet; ERR_TOO_LARGE if there is none within
 * POOL_COUNTER_RESPONSE_LINE_MAX; ERR_SYNTAX if the line is not a valid response.
 */
enum err pool_counter_response_parse(struct slice bytes, struct pool_counter_response *out,
                                     size_t *used) must_check;

/* ---- the servers of keys ---- */

/*
 * Consistent hashing: assigns each key to one of several named servers. The hash has no secret, so
 * all that know the same names get the same response, on every machine and in whatever order the
 * names are given. A server that is added or removed moves only its own share of the keys. After
 * David Karger and others, "Consistent Hashing and Random Trees" (1997). Constant once created.
 *
 * Each key has exactly one server. The ring does not know whether a server is available: a caller
 * that falls back to the next server has two servers counting the same key.
 */
struct hash_ring;

enum {
    /* Points of one server on the ring: shares differ from even ones by at most about a fifth.
     * All load balancers must use the same number to agree on the servers. */
    HASH_RING_POINTS = 160,
};

/* N names, distinct; borrowed for the call. Freed by free(). */
struct hash_ring *hash_ring_create(const struct slice *names, size_t n);
/* Index of KEY's server among the names; SIZE_MAX when there are none. O(log of the points). */
size_t hash_ring_find(const struct hash_ring *r, struct slice key);
