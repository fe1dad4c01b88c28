/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: one line per event to stderr, UTC, "TIME LEVEL EVENT subject key=value ...".
 * A process-wide log (the one allowed global); any thread.
 *
 * A reader of stderr that has stopped does not stop the program. Servers divert lines to a thread
 * that writes them (common/event/log_writer.h). Otherwise, which is before that thread runs and
 * after it has ended, a line waits for the reader, but all together wait at most LOG_PATIENCE_MS
 * until the reader reads again. Lines without room are dropped and counted; the next line that is
 * written comes after one with their number ("log-lines-dropped").
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
#pragma once

#include "common/base/output.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Different lines of one event within a second; enough to see what the lines have in common. */
enum { LOG_LINES_PER_SECOND = 10 };

enum { LOG_PATIENCE_MS = 1000 };

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
/* Reports the events that were folded in previous seconds, and dropped lines. Must be called about
 * once per second; writing any line of the log does the same. */
void log_flush(void);
/* Like log_flush(), but includes the current second, in which identical lines may then be written
 * again. Must be called before the program exits. */
void log_flush_all(void);

/* Takes the lines instead of stderr. */
struct log_sink {
    /* Copies LINE, which includes its end. Returns false if there is no room. Any thread, one at a
     * time; must not log. */
    bool (*add)(struct log_sink *self, struct slice line);
};
/*
 * Opens stderr once more, so that writing to it does not block. Must be called while the process
 * has one thread: at the start of a server, and in a child that has closed all descriptors. From
 * then on lines wait for the reader PATIENCE_MS instead of LOG_PATIENCE_MS.
 */
void log_open(unsigned patience_ms);
/* Where the lines are written to at last. Valid until log_open(). */
struct output log_output(void);
/* Lines go to SINK; NULL: to stderr. Returns the sink before, which is not used any more. */
struct log_sink *log_divert(struct log_sink *sink);
/* Adds N lines that a sink could not write to those dropped. */
void log_count_dropped(uint64_t n);
/* The number of lines that were dropped since the start. */
uint64_t log_dropped(void);

/* Buffer size for log_cut(). */
#define LOG_VALUE_MAX 128
#define LOG_CUT_ROOM (LOG_VALUE_MAX + 4)
/* S as a string for a log line: longer input is cut, ending in "..."; NUL becomes "?". */
const char *log_cut(struct slice s, char out[LOG_CUT_ROOM]);
/* The same, in memory that is valid until the end of the block. */
#define log_shown(s) log_cut((s), (char[LOG_CUT_ROOM]){""})
