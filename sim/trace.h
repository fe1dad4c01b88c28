/* SPDX-License-Identifier: Apache-2.0
 *
 * The workload: requests in order, each for a page. A page consists of its host and path and of the
 * objects needed to generate it. Does not include classes, which depend on the classifier. Owned by
 * its creator; constant while worlds run over it, on any thread.
 */
#ifndef RLB_SIM_TRACE_H
#define RLB_SIM_TRACE_H

#include "common/base/err.h"
#include "common/base/text.h"

enum {
    /* Requests of one trace: ten minutes of a busy machine, a day of most; 64 MiB. */
    TRACE_REQUESTS_MAX = 4 << 20,
    /* Objects that all its pages list: 256 MiB. */
    TRACE_OBJECTS_MAX = 32 << 20,
    /* Of one page. */
    TRACE_PAGE_OBJECTS_MAX = 1000,
    /* Bytes of all hosts and paths. */
    TRACE_TEXT_MAX = 1 << 30,
    /* What a request may cost, in base costs. */
    TRACE_FACTOR_MAX = 1000,
};

enum { TRACE_TAG_NORMAL = 0, TRACE_TAG_SPECIAL = 1, TRACE_TAGS = 2 };

struct trace_page {
    uint32_t host, host_len; /* in trace->text */
    uint32_t path, path_len;
    uint32_t object; /* its first, in trace->objects */
    uint32_t nobjects;
};

struct trace_request {
    uint64_t due_ns; /* from the start of the trace; open loop */
    uint32_t page;
    uint16_t factor; /* its base cost is so many times that of others; >= 1 */
    uint16_t tag;    /* groups requests in the figures: 0 .. TRACE_TAGS - 1 */
};

struct trace {
    struct trace_request *requests;
    size_t n, room;
    struct trace_page *pages;
    size_t npages, pages_room;
    uint64_t *objects;
    size_t nobjects, objects_room;
    struct text text;
};

/* Zeroed, it is empty. */
void trace_fini(struct trace *t);
/*
 * Add a page of N objects.
 *   out  its number
 * Errors: ERR_TOO_LARGE: the trace is full.
 */
enum err trace_add_page(struct trace *t, struct slice host, struct slice path,
                        const uint64_t *objects, size_t n, uint32_t *out) must_check;
/* Add a request for a page that is there, due no earlier than the one before. Errors: as above. */
enum err trace_add_request(struct trace *t, const struct trace_request *r) must_check;
struct slice trace_host(const struct trace *t, const struct trace_page *p);
struct slice trace_path(const struct trace *t, const struct trace_page *p);

#endif
