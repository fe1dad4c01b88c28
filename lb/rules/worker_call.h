/* SPDX-License-Identifier: Apache-2.0
 *
 * PUT /workers/ADDRESS: the address in the path, and the body, a JSON object of what a registration
 * in the tree may state, and the time for which it is valid. Plain computation; any thread.
 */
#pragma once

#include "common/base/json.h"

enum {
    /* Time for which a registration is valid [s]. */
    WORKER_CALL_TTL_MAX = 31 * 24 * 3600,
    /* The address, decoded; as that of a registration in a tree. */
    WORKER_CALL_NAME_MAX = 255,
    WORKER_CALL_BYTES_MAX = 4096, /* of the body */
};

struct worker_call {
    char name[WORKER_CALL_NAME_MAX + 1]; /* canonical if it is an address */
    struct text application;             /* empty: not stated */
    json_t *properties;                  /* of the registration; owned */
    uint64_t ttl_s;                      /* 0: until it is removed */
};

/*
 * Reads PATH, percent-encoded, and BODY; a DELETE (PUT is false) may state the application only.
 * Returns NULL, or why they are invalid (constant text). Call worker_call_fini in any case.
 */
const char *worker_call_read(struct worker_call *c, bool put, struct slice path, struct slice body);
void worker_call_fini(struct worker_call *c);
