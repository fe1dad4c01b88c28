/* SPDX-License-Identifier: Apache-2.0
 *
 * A record of a trace log, as zc.zservertracelog describes them: a letter, the request's name, the
 * time, and what else belongs to the letter. Pure functions; slices point into the line.
 *
 *   S 0 TIME                    the server starts: no earlier request is in progress
 *   B ID TIME METHOD PATH       a request begins
 *   I ID TIME BYTES             its body is complete
 *   C ID TIME                   it was sent to the application
 *   A ID TIME STATUS BYTES      the response's head was received
 *   E ID TIME                   the response has been sent
 *   X 0 TIME [TEXT]             the server ends, likewise
 *   D ID TIME [TEXT]            databases (only written by other programs, which define TEXT)
 *   - ID TIME NAME [TEXT]       another event
 *
 * TIME is YYYY-MM-DD HH:MM:SS.ffffff; a T instead of the blank, and a shorter fraction, are
 * accepted as well. BYTES may be "-": unknown.
 */
#pragma once

#include "common/base/text.h"

enum {
    TRACE_LINE_MAX = 16 * 1024,
    TRACE_LINE_ID_MAX = 64,
    /* Bytes of a path that are written; escaping may make each of them four. */
    TRACE_LINE_PATH_MAX = 2048,
    TRACE_LINE_METHOD_MAX = 32,
    TRACE_LINE_TEXT_MAX = 256,
};

/* For BYTES that are not known. */
#define TRACE_LINE_UNKNOWN UINT64_MAX

struct trace_line {
    char stage; /* one of SBICAEXD- */
    struct slice id;
    uint64_t time_us; /* since 1970, taken as UTC */
    struct slice method;
    struct slice path; /* as in the line; may contain blanks */
    struct slice name; /* of '-' */
    struct slice text; /* of '-', X and D */
    uint64_t bytes;    /* of I and A */
    unsigned status;   /* of A; 100 to 999 */
};

/* Parses LINE, without its line end. Returns NULL if it is valid, else a static error text. */
const char *trace_line_parse(struct slice line, struct trace_line *out);
/*
 * Append L as a line, with its end. Method, path and text may come from a client: cut, escaped, and
 * the method without blanks. Id and name are ours: no blanks, not empty.
 */
void trace_line_print(const struct trace_line *l, struct text *out);
