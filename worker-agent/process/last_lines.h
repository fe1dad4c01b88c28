/* SPDX-License-Identifier: Apache-2.0
 *
 * The last lines that a process wrote, as they were; bounded in number and length. Embedded in the
 * process's output, and in the record of a failure. Plain computation; a zeroed one is empty.
 */
#ifndef RLB_AGENT_PROCESS_LAST_LINES_H
#define RLB_AGENT_PROCESS_LAST_LINES_H

#include "common/base/text.h"

enum {
    /* A traceback of a deep framework, or what a server says of its configuration. */
    LAST_LINES_MAX = 40,
    /* Bytes kept of a line; with all of them 20 KB per process, at the worst. */
    LAST_LINE_BYTES_MAX = 500,
};

struct last_line {
    char *bytes;
    size_t len;
    bool cut; /* there was more of it */
};

struct last_lines {
    struct last_line ring[LAST_LINES_MAX];
    size_t first, n;
};

/* LINE, without its end, is the newest; the oldest gives way. Copied. */
void last_lines_add(struct last_lines *l, struct slice line);
/* There was more of the newest one than add was given. Harmless when there is none. */
void last_lines_cut(struct last_lines *l);
/* I < L->n; 0 is the oldest. Borrowed until L changes. */
const struct last_line *last_lines_at(const struct last_lines *l, size_t i);
/* Line I made safe for a terminal, a log and a page (text_add_visible), with " ..." when cut. */
void last_lines_show(const struct last_lines *l, size_t i, struct text *out);
/* TO, which is empty, gets a copy of FROM. */
void last_lines_copy(struct last_lines *to, const struct last_lines *from);
/* Empty again. */
void last_lines_fini(struct last_lines *l);

#endif
