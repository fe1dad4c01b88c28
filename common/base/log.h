/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: one line per event to stderr, UTC, "TIME LEVEL EVENT subject key=value ...".
 * A process-wide sink (the one allowed global); any thread. Of one event at most one line goes out
 * per second; what was left out is counted in the next line of that event ("folded=17").
 */
#ifndef RLB_BASE_LOG_H
#define RLB_BASE_LOG_H

#include "common/base/base.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* First member of whatever may be the subject of a line: it prints its own prefix ("worker=...").
 */
struct log_subject {
    /* Writes at most ROOM bytes with a NUL, as snprintf. */
    void (*describe)(const struct log_subject *self, char *out, size_t room);
};

/*
 * EVENT is a literal of lower-case words joined by "-" and the key of folding; FMT gives "key=value
 * ..." pairs. Bytes from strangers go through log_escape() first. subject  NULL, or a pointer whose
 * first member is a struct log_subject
 */
#define log_error(subject, event, ...) log_line(LOG_LEVEL_ERROR, (subject), (event), __VA_ARGS__)
#define log_warn(subject, event, ...) log_line(LOG_LEVEL_WARN, (subject), (event), __VA_ARGS__)
#define log_info(subject, event, ...) log_line(LOG_LEVEL_INFO, (subject), (event), __VA_ARGS__)
#define log_debug(subject, event, ...)                                                             \
    do {                                                                                           \
        if (log_wants(LOG_LEVEL_DEBUG))                                                            \
            log_line(LOG_LEVEL_DEBUG, (subject), (event), __VA_ARGS__);                            \
    } while (0)

void log_line(enum log_level level, const void *subject, const char *event, const char *fmt, ...)
    printf_like(4, 5) rare;
bool log_wants(enum log_level level);
void log_set_level(enum log_level level);

/* Room that log_escape needs at most for a slice it cuts at LOG_VALUE_MAX input bytes, with NUL. */
#define LOG_VALUE_MAX 128
#define LOG_ESCAPED_ROOM (LOG_VALUE_MAX * 4 + 4)
/* Escape S for a log line into OUT (room LOG_ESCAPED_ROOM); longer input is cut, ending in "...".
 */
const char *log_escape(struct slice s, char out[LOG_ESCAPED_ROOM]);

#endif
