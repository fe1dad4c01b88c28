/* SPDX-License-Identifier: Apache-2.0
 *
 * Generates a trace from a description: a few sites get most of the requests, and pages need mostly
 * the objects in the middle of their site's range. Random, by a seed. Plain values; any thread.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/text.h"

/* ---- traces ---- */

/*
 * The workload: requests in order, each for a page. A page consists of its host and path and of the
 * objects needed to generate it. Does not include classes, which depend on the classifier. Owned by
 * its creator; constant while worlds run over it, on any thread.
 */

enum {
    /* Requests of one trace: ten minutes of a busy machine, a day of most; 64 MiB. */
    TRACE_REQUESTS_MAX = 4 << 20,
    /* Objects that all its pages list: 768 MiB. */
    TRACE_OBJECTS_MAX = 96 << 20,
    /* Of one page. */
    TRACE_PAGE_OBJECTS_MAX = 1000,
    /* Bytes of all hosts and paths. */
    TRACE_TEXT_MAX = INT32_MAX,
    /* Maximum cost of a request, in base costs. */
    TRACE_FACTOR_MAX = 1000,
};

enum { TRACE_TAG_NORMAL = 0, TRACE_TAG_SPECIAL = 1, TRACE_TAGS = 2 };

struct trace_page {
    uint32_t host, host_len; /* in trace->text; the path follows */
    uint32_t path_len;
    uint32_t object; /* its first, in trace->objects */
    uint32_t nobjects;
};

struct workload_request {
    uint64_t due_ns; /* from the start of its phase (open loop); from the response it follows */
    uint32_t page;
    uint16_t factor; /* its base cost is so many times that of others; >= 1 */
    uint8_t tag;     /* groups requests in the figures: 0 .. TRACE_TAGS - 1 */
    bool follows;    /* it comes after the response to the request before it in the trace */
};

struct trace {
    struct workload_request *requests;
    size_t n, room;
    struct trace_page *pages;
    size_t npages, pages_room;
    uint64_t *objects;
    size_t nobjects, objects_room;
    struct text text;
};

/* Zeroed, it is empty. */
void trace_fini(struct trace *t);
/* Adds a page of N objects, number *OUT. Errors: ERR_TOO_LARGE: the trace is full. */
enum err trace_add_page(struct trace *t, struct slice host, struct slice path,
                        const uint64_t *objects, size_t n, uint32_t *out) must_check;
/* Add a request for a page that is there. Errors: as above. */
enum err trace_add_request(struct trace *t, const struct workload_request *r) must_check;
struct slice trace_host(const struct trace *t, const struct trace_page *p);
struct slice trace_path(const struct trace *t, const struct trace_page *p);

/* ---- workloads ---- */

enum {
    WORKLOAD_SITES_MAX = 1000000,
    WORKLOAD_SITE_OBJECTS_MAX = 1000000,
};

struct workload {
    uint32_t sites;           /* 1 .. WORKLOAD_SITES_MAX */
    double zipf;              /* the site of rank r gets a share in proportion to r^-zipf; >= 0 */
    bool simul;               /* instead: shares as in zc.resumelb's simul.py, nearly even */
    uint32_t site_objects;    /* four standard deviations of a normal distribution */
    uint32_t request_objects; /* drawn for each page, with repetitions; <= TRACE_PAGE_OBJECTS_MAX */
    uint64_t seed;
};

/* A class of requests in addition to the others, for a limited time. */
enum workload_hot {
    WORKLOAD_NO_HOT,
    WORKLOAD_FLASH, /* its objects are those of a site */
    WORKLOAD_CRAWL, /* it never needs an object twice */
};

/* One stretch of a workload. Positions are numbers of requests from its start. */
struct workload_part {
    size_t n;
    uint64_t seed; /* of this part, in the workload's */
    double rate;   /* requests a second, at random times; 0: closed loop, due times are 0 */
    size_t shift_at;
    uint32_t shift; /* from SHIFT_AT on, rank r is the site that had rank r + SHIFT; 0: never */
    bool sessions;  /* in place of the sites; with a rate, they begin so often that it results */
    double think_s; /* ... with a rate: mean time from a response to the next request */
    bool costly;    /* one site in ten costs WORKLOAD_COSTLY times as much; those are tagged */
    enum workload_hot hot;
    size_t hot_from, hot_to;
    double hot_share; /* of the requests in between; the normal ones keep their rate; tagged */
};

enum { WORKLOAD_COSTLY = 10 };

/*
 * Sessions: each is a class of its own, with requests that come one after the other. A request
 * needs the objects of all earlier ones of its session, and some that no request needed before.
 */
enum {
    WORKLOAD_TURNS_MIN = 5,
    WORKLOAD_TURNS_MAX = 20,
    WORKLOAD_TURN_OBJECTS = 5, /* new ones of each request */
};

/* Append a part to OUT. Errors: ERR_TOO_LARGE: the trace is full. */
enum err workload_draw(const struct workload *w, const struct workload_part *part,
                       struct trace *out) must_check;
