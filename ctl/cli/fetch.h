/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP request to an admin address, blocking: for a tool that asks once and ends. Everything is
 * bounded: the time in all, and the bytes taken. Nothing outlives the call; any thread.
 */
#ifndef RLB_CTL_CLI_FETCH_H
#define RLB_CTL_CLI_FETCH_H

#include "common/base/err.h"
#include "common/base/text.h"

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
