/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: one line per event to stderr, UTC, "TIME LEVEL EVENT subject key=value ...".
 * A process-wide sink (the one allowed global); any thread.
 *
 * Quoting: the writer finds the values in the format ("key=" up to a blank, or in quotes) and
 * formats each by itself. A value that contains blanks, quotes, backslashes or bytes that are not
 * printable is put in quotes, whatever the format specifies; within quotes, \" \\ \n \r \t and \xNN
 * stand for a quote, a backslash, the end of a line, a carriage return, a tab and any other byte of
 * a control character (C1 included) or of invalid UTF-8. So no value can begin a line or a field.
 *
 * Folding, of errors, warnings and log_info_folded: of one event at most LOG_LINES_PER_SECOND
 * different lines are written per second, and each of them once. The rest is counted and reported
 * by a line of that event with "folded=17" once the second is over (log_flush).
 */
#ifndef RLB_BASE_LOG_H
#define RLB_BASE_LOG_H

#include "common/base/base.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Different lines of one event within a second; enough to see what the lines have in common. */
enum { LOG_LINES_PER_SECOND = 10 };

struct log_text;
/* Appends "key=value ..." pairs, quoted as above. For use in the describe function of a
 * log_subject. */
void log_put(struct log_text *out, const char *fmt, ...) printf_like(2, 3);

/* First member of the subject of a line: it writes its own fields ("worker=..."). */
struct log_subject {
    void (*describe)(const struct log_subject *self, struct log_text *out);
};

/*
 * EVENT is a literal of lower-case words joined by "-" and the key of folding. FMT consists of
 * "key=value ..." pairs; the values may be any bytes; "%.*s" is a slice, which may contain NUL.
 * SUBJECT is NULL or a pointer to an object with a struct log_subject as its first member.
 */
#define log_error(subject, event, ...)                                                             \
    log_line(LOG_LEVEL_ERROR, true, (subject), (event), __VA_ARGS__)
#define log_warn(subject, event, ...)                                                              \
    log_line(LOG_LEVEL_WARN, true, (subject), (event), __VA_ARGS__)
/* For events that occur once, on request, or at a rate that the caller limits. */
#define log_info(subject, event, ...)                                                              \
    log_line(LOG_LEVEL_INFO, false, (subject), (event), __VA_ARGS__)
/* For events that may occur for any number of objects at once. */
#define log_info_folded(subject, event, ...)                                                       \
    log_line(LOG_LEVEL_INFO, true, (subject), (event), __VA_ARGS__)
#define log_debug(subject, event, ...)                                                             \
    do {                                                                                           \
        if (log_wants(LOG_LEVEL_DEBUG))                                                            \
            log_line(LOG_LEVEL_DEBUG, false, (subject), (event), __VA_ARGS__);                     \
    } while (0)

void log_line(enum log_level level, bool fold, const void *subject, const char *event,
              const char *fmt, ...) printf_like(5, 6) cold_;
bool log_wants(enum log_level level);
void log_set_level(enum log_level level);
/* Reports the events that were folded in previous seconds. Must be called about once per second;
 * writing any line of the log does the same. */
void log_flush(void);
/* Like log_flush(), but includes the current second, in which identical lines may then be written
 * again. Must be called before the program exits. */
void log_flush_all(void);

/* Buffer size for log_cut(). */
#define LOG_VALUE_MAX 128
#define LOG_CUT_ROOM (LOG_VALUE_MAX + 4)
/* S as a string for a log line: longer input is cut, ending in "..."; NUL becomes "?". */
const char *log_cut(struct slice s, char out[LOG_CUT_ROOM]);

#endif
