/* SPDX-License-Identifier: Apache-2.0
 *
 * How processes failed, for operators: of each slot the last time, with what the process wrote
 * before. Owned by the group. Control loop only.
 */
#ifndef RLB_AGENT_PROCESS_FAILURES_H
#define RLB_AGENT_PROCESS_FAILURES_H

#include "common/base/json.h"
#include "common/base/limits.h"
#include "worker-agent/process/process_output.h"

enum {
    /* Of how a process ended: a sentence of the keeper. */
    FAILURE_HOW_MAX = 200,
    /* Bytes of the last lines in the log: one line of it has room for four times as many, which is
       what escaping may make of them. */
    FAILURE_LOG_BYTES_MAX = 700,
};

enum failure_kind {
    FAILURE_NOT_SPAWNED,   /* there never was a process */
    FAILURE_START_TIMEOUT, /* it was not ready in start_timeout */
    FAILURE_DIED_STARTING, /* it died before it was ready */
    FAILURE_PORT_TAKEN,    /* another process listens on the port that it was given */
    FAILURE_DIED,          /* it was ready once */
    FAILURE_STUCK,         /* it did not answer a request in first_byte_timeout */
};

struct failure {
    enum failure_kind kind;
    unsigned slot;
    long pid; /* 0: there was none */
    char id[INCARNATION_MAX + 1];
    char how[FAILURE_HOW_MAX + 1];
    uint64_t at_ms; /* of the loop's clock */
    struct last_lines lines;
};

struct failures {
    struct failure **of_slot; /* nslots; NULL: never */
    unsigned nslots;
    const struct failure *newest; /* NULL: none */
};

/* NSLOTS: how many there are for now. */
void failures_init(struct failures *f, unsigned nslots);
void failures_fini(struct failures *f);
/*
 * WHAT has happened (its lines are not used); LINES are what the process wrote last, or NULL. Takes
 * the place of the slot's last failure; the record, which is borrowed until the next one.
 */
const struct failure *failures_record(struct failures *f, const struct failure *what,
                                      const struct last_lines *lines);
/* NULL: none. Valid until the next record. */
const struct failure *failures_of(const struct failures *f, unsigned slot);

/* "died before it was ready" ... */
const char *failure_text(enum failure_kind k);
/* The members of a failure as an object NAME; null when F is NULL. */
void failure_describe(const struct failure *f, const char *name, uint64_t now_ms,
                      struct json_writer *w);
/* What happened in a line: "slot 2, pid 7 (ID): died ...: exit status 1". No line end. */
void failure_add_summary(const struct failure *f, struct text *out);
/* Its lines, the last of them, as one line of the log. SUBJECT as of log_warn. */
void failure_log(const struct failure *f, const void *subject);

#endif
