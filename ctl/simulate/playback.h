/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl playback: the GETs of a log against real servers. Requests are read whole first; a
 * player asks one server for all of them, closed loop or paced; figures are made of what came back.
 * Main thread; everything is owned by struct playback.
 */
#ifndef RLB_CTL_SIMULATE_PLAYBACK_H
#define RLB_CTL_SIMULATE_PLAYBACK_H

#include "common/base/err.h"
#include "common/net/addr.h"
#include "ctl/simulate/simulate.h"

enum {
    PLAYBACK_SERVERS_MAX = 2,
    PLAYBACK_REQUESTS_MAX = 5000000,
    PLAYBACK_CLIENTS_MAX = 10000,
    PLAYBACK_NO_LOADS = UINT32_MAX,
};

struct playback_request {
    uint64_t due_us;           /* since the first one, in the log */
    size_t host_at, target_at; /* in playback.texts, each ends with a NUL; host: "" is unknown */
    uint32_t cls;
};

/* The result of a request. */
struct playback_record {
    uint32_t latency_us; /* paced: from when it was due; else from when it was asked */
    uint32_t loads;      /* as reported by the server; or PLAYBACK_NO_LOADS */
    uint16_t status;     /* 0: no response; the reason is in `error` */
    uint16_t error;      /* enum err */
    bool played;
};

struct playback_server {
    const char *url;
    struct text host; /* with its port, as the URL has it */
    struct addr addr;
    struct playback_record *records; /* of each request */
    double wall_s;
};

struct playback {
    struct ctl_options o;
    struct playback_server servers[PLAYBACK_SERVERS_MAX];
    size_t nservers;
    struct simulate_classifier classifier;
    struct playback_request *requests;
    size_t n, room;
    struct text texts;
    struct text bad; /* lines that were left out, in words */
    size_t others;   /* requests that are no GETs, or that cannot be asked for */
    uint64_t limit, clients;
    double speed; /* 0: closed loop */
    const char *loads_header;
    bool interrupted;
};

/* ---- figures ---- */

struct playback_figures {
    size_t n, errors;                      /* an error: no answer, or a status of 500 or above */
    double p50_ms, p90_ms, p99_ms, max_ms; /* of the answered requests */
    double loads;                          /* per request that reported it; < 0: none did */
};
/* Computes the metrics of the requests of class CLS; UINT32_MAX: of all. Requests not played do not
 * count. */
void playback_figures(const struct playback *p, const struct playback_server *s, uint32_t cls,
                      struct playback_figures *out);

#endif
