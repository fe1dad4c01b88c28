/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays a slot's most frequent requests to a new process, one after the other, before the process
 * receives traffic. These requests are neither metered nor counted as requests; a failed one is
 * counted, and the next one follows. Embedded in the process. Control loop only.
 *
 * Each request has its original Host and class, and "Resumelb-Warm-Up: 1", which clients cannot
 * send, so that an application that counts visits can distinguish it.
 */
#pragma once

#include "common/base/limits.h"
#include "common/event/loop.h"
#include "common/stats/topk.h"
#include "common/upstream/http_fetch.h"

/* ---- targets ---- */

/*
 * Which GET requests a slot gets most often, within a fixed number of counters
 * (common/stats/topk.h). Embedded in the slot. Plain computation; one thread.
 *
 * Targets are ranked by the certain part of their counts. All counters are halved periodically, so
 * that targets that are no longer frequent are replaced.
 */
struct warm_targets { /* zeroed, it counts nothing */
    struct topk *top; /* NULL: none are counted */
    size_t max;       /* targets to determine */
    uint64_t until_halved;
};

enum {
    /* Longer ones are seldom frequent, and would cost as much as they are long. */
    WARM_TARGET_MAX = 1024,
    WARM_HOST_MAX = 255,
    /* Counters per target to determine: a frequent one retains its own. */
    WARM_COUNTERS_EACH = 4,
    /* Maximum targets (warm_up); with the above 400 counters, 600 KiB per slot at worst. */
    WARM_TARGETS_MAX = 100,
    /* Requests per counter after which all are halved. */
    WARM_HALVE_AFTER = 256,
    /* Fewer requests than this do not make a target frequent. */
    WARM_SEEN_MIN = 2,
};

struct warm_target {
    uint64_t count;
    struct slice host, cls, target; /* CLS may be empty */
};

/* Sets the number of most frequent targets to determine; 0: none are counted. */
void warm_targets_resize(struct warm_targets *w, size_t max);
/* Counts a request. Ignored if a part is too long, or empty (except CLS). */
void warm_targets_add(struct warm_targets *w, struct slice host, struct slice cls,
                      struct slice target);
/*
 * Counts the request with HEAD as sent to a process that has responded to it with status 200. Only
 * a GET without body, range or upgrade, and without Cookie or Authorization, is counted, because
 * its response must not depend on the client. Other requests are ignored.
 */
void warm_targets_add_head(struct warm_targets *w, struct slice head);
/* Writes the targets to OUT, which has room for WARM_TARGETS_MAX, the most frequent one first, with
 * texts that are valid until the next add. Returns their number. */
size_t warm_targets_top(const struct warm_targets *w, struct warm_target *out);
void warm_targets_fini(struct warm_targets *w);

/* ---- the warm-up ---- */

struct warm_up {
    struct loop *loop; /* NULL: not in progress */
    struct addr addr;
    struct text heads[WARM_TARGETS_MAX];
    size_t n, at;
    uint64_t due_ms; /* of all */
    struct http_fetch fetch;
    unsigned responded, failed;      /* with 200, and not; the rest was not sent */
    void (*done)(struct warm_up *w); /* once, later, unless stopped */
};

/* W is zeroed or stopped. Takes LIMIT_MS at most. False: nothing to replay; no call of done(). */
bool warm_up_start(struct warm_up *w, struct loop *l, const struct addr *a,
                   const struct warm_targets *targets, uint64_t limit_ms);
/* Harmless if it is not in progress. */
void warm_up_stop(struct warm_up *w);
