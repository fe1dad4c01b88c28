/* SPDX-License-Identifier: Apache-2.0
 *
 * Folding: a small table of events, each with the second of its last line and how many were left
 * out since. The table is keyed by the event's text and never grows past EVENTS_MAX: a program has
 * a few dozen events, all of them literals.
 */
#include "common/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_MAX = 256, LINE_ROOM = 4096 };

struct event {
    const char *name;
    enum log_level level;
    time_t second;
    unsigned long folded;
};

static struct {
    pthread_mutex_t lock;
    _Atomic(enum log_level) level;
    struct event events[EVENTS_MAX];
    size_t nevents;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = LOG_LEVEL_INFO};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

bool log_wants(enum log_level level)
{
    return level <= atomic_load_explicit(&sink.level, memory_order_relaxed);
}

void log_set_level(enum log_level level)
{
    atomic_store(&sink.level, level);
}

static struct event *find_event_locked(enum log_level level, const char *name)
{
    for (size_t i = 0; i < sink.nevents; ++i) {
        if (sink.events[i].level == level && strcmp(sink.events[i].name, name) == 0)
            return &sink.events[i];
    }
    if (sink.nevents == EVENTS_MAX)
        return NULL;
    sink.events[sink.nevents] = (struct event){.name = name, .level = level};
    return &sink.events[sink.nevents++];
}

/* Whether a line of this event may go out now; *FOLDED: how many did not since the last that did.
 */
static bool admit(enum log_level level, const char *name, time_t now, unsigned long *folded)
{
    bool go = true;

    *folded = 0;
    /* What happens once, or is asked for, is never folded. */
    if (level >= LOG_LEVEL_INFO)
        return true;
    pthread_mutex_lock(&sink.lock);
    struct event *e = find_event_locked(level, name);
    if (e != NULL) {
        go = e->second != now;
        if (go) {
            *folded = e->folded;
            e->folded = 0;
            e->second = now;
        } else {
            ++e->folded;
        }
    }
    pthread_mutex_unlock(&sink.lock);
    return go;
}

void log_line(enum log_level level, const void *subject, const char *event, const char *fmt, ...)
{
    char line[LINE_ROOM];
    struct timespec now;
    struct tm utc;
    unsigned long folded;
    va_list args;
    size_t n;

    if (!log_wants(level))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!admit(level, event, now.tv_sec, &folded))
        return;
    gmtime_r(&now.tv_sec, &utc);
    n = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &utc);
    n += (size_t)snprintf(line + n, sizeof(line) - n, ".%03ldZ %s %s", now.tv_nsec / 1000000,
                          level_names[level], event);
    if (subject != NULL) {
        line[n++] = ' ';
        line[n] = '\0';
        const struct log_subject *s = subject;
        s->describe(s, line + n, sizeof(line) - n);
        n += strlen(line + n);
    }
    line[n++] = ' ';
    va_start(args, fmt);
    int wrote = vsnprintf(line + n, sizeof(line) - n, fmt, args);
    va_end(args);
    n += wrote > 0 ? (size_t)wrote : 0;
    if (n > sizeof(line) - 40)
        n = sizeof(line) - 40;
    if (folded != 0)
        n += (size_t)snprintf(line + n, sizeof(line) - n, " folded=%lu", folded);
    line[n++] = '\n';
    /* One write, so that lines of several threads do not mix; nowhere to report its failure. */
    if (write(STDERR_FILENO, line, n) < 0)
        return;
}

const char *log_escape(struct slice s, char out[LOG_ESCAPED_ROOM])
{
    size_t n = 0;
    size_t take = s.len > LOG_VALUE_MAX ? LOG_VALUE_MAX : s.len;

    for (size_t i = 0; i < take; ++i) {
        unsigned char c = (unsigned char)s.p[i];

        if (c <= 0x20 || c >= 0x7f || c == '"' || c == '\\')
            n += (size_t)snprintf(out + n, 5, "\\x%02x", c);
        else
            out[n++] = (char)c;
    }
    if (take < s.len) {
        memcpy(out + n, "...", 3);
        n += 3;
    }
    out[n] = '\0';
    return out;
}
