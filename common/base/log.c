/* SPDX-License-Identifier: Apache-2.0
 *
 * A line is built in a struct log_text: the format is split into values and the text between them,
 * and each value is formatted and quoted by itself. Folding: a small table of events, each with the
 * hashes of the lines of its last second and the number of those left out. The table is keyed by
 * the event's name and level, and never grows past EVENTS_MAX: a program has fewer events, all of
 * them literals.
 */
#include "common/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "common/base/map.h"
#include "common/base/text.h"

enum {
    EVENTS_MAX = 256,
    LINE_ROOM = 4096,
    /* Room at the end of a line: "..." and a closing quote of a truncated value, and the line
     * end. */
    VALUE_END_ROOM = 8,
    /* Maximum length of a conversion such as "%-08.12llu". */
    CONVERSION_ROOM = 48,
};

struct log_text {
    char bytes[LINE_ROOM];
    size_t len;
    bool full; /* further values are ignored */
};

struct log_event {
    const char *name;
    enum log_level level;
    time_t second;
    uint64_t lines[LOG_LINES_PER_SECOND]; /* hashes of the lines written in that second */
    unsigned nlines;
    unsigned long folded; /* number of lines folded in that second */
};

static struct {
    pthread_mutex_t lock;
    _Atomic(enum log_level) level;
    struct log_event events[EVENTS_MAX];
    size_t nevents;
    atomic_ulong nfolding; /* number of events with folded lines */
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = LOG_LEVEL_INFO};

/* Where lines go. */
static struct {
    pthread_mutex_t lock; /* of all */
    struct output output;
    struct log_sink *diverted; /* NULL: to OUTPUT */
    unsigned patience_ms;
    bool stuck;         /* the patience is used up */
    uint64_t dropped;   /* since the start */
    uint64_t to_report; /* of them, those that no line reports yet */
} stream = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .output = {.fd = STDERR_FILENO, .kind = OUTPUT_POLLED},
            .patience_ms = LOG_PATIENCE_MS};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

bool log_wants(enum log_level level)
{
    return level <= atomic_load_explicit(&sink.level, memory_order_relaxed);
}

void log_set_level(enum log_level level)
{
    atomic_store(&sink.level, level);
}

/* ---- values ---- */

/* Returns the length of the character at the start of S if it is written unchanged, or 0 if its
 * first byte is escaped. */
static size_t plain_length(struct slice s)
{
    unsigned char c = (unsigned char)s.p[0];

    if (c < 0x80)
        return c >= 0x20 && c != 0x7f && c != '"' && c != '\\';
    size_t len = utf8_length(s);
    /* U+0080 to U+009F */
    bool c1 = len == 2 && c == 0xc2 && (unsigned char)s.p[1] < 0xa0;
    return c1 ? 0 : len;
}

static void log_put_bytes(struct log_text *t, struct slice s)
{
    if (t->full || s.len > LINE_ROOM - VALUE_END_ROOM - t->len) {
        t->full = true;
        return;
    }
    memcpy(t->bytes + t->len, s.p, s.len);
    t->len += s.len;
}

/* Appends S with escapes. If the line becomes full, S is truncated and ends in "...". */
static void put_escaped(struct log_text *t, struct slice s)
{
    static const char from[] = "\"\\\n\r\t";
    static const char to[] = "\"\\nrt";
    bool was_full = t->full;

    while (s.len != 0 && !t->full) {
        size_t len = plain_length(s);
        const char *known = s.p[0] != '\0' ? strchr(from, s.p[0]) : NULL;
        char escape[5];

        if (known != NULL)
            snprintf(escape, sizeof(escape), "\\%c", to[known - from]);
        else if (len == 0)
            snprintf(escape, sizeof(escape), "\\x%02x", (unsigned char)s.p[0]);
        log_put_bytes(t, len != 0 ? (struct slice){s.p, len} : slice_of(escape));
        len = len != 0 ? len : 1;
        s = (struct slice){s.p + len, s.len - len};
    }
    if (t->full && !was_full) {
        memcpy(t->bytes + t->len, "...", 3);
        t->len += 3;
    }
}

static void log_put_value(struct log_text *t, struct slice s, bool quoted)
{
    for (struct slice rest = s; !quoted && rest.len != 0;) {
        size_t len = rest.p[0] != ' ' ? plain_length(rest) : 0;

        quoted = len == 0;
        rest = (struct slice){rest.p + len, rest.len - len};
    }
    if (quoted)
        log_put_bytes(t, SLICE_LIT("\""));
    if (t->full)
        return;
    put_escaped(t, s);
    /* VALUE_END_ROOM reserves room for the quote. */
    if (quoted)
        t->bytes[t->len++] = '"';
}

/* ---- formats ---- */

/* The formats are single conversions of a format that the compiler has checked. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void put_integer(struct text *v, const char *fmt, char size, va_list *args)
{
    /* printf() accepts signed and unsigned arguments of the same size alike, and types of the same
     * size on all Linux systems. */
    switch (size) {
    case 'q':
    case 'j':
        text_addf(v, fmt, va_arg(*args, long long));
        break;
    case 'l':
        text_addf(v, fmt, va_arg(*args, long));
        break;
    case 'z':
    case 't':
        text_addf(v, fmt, va_arg(*args, size_t));
        break;
    default:
        text_addf(v, fmt, va_arg(*args, int));
        break;
    }
}

/* Formats the conversion at *FMT into V, and advances *FMT past it. */
static void put_conversion(struct text *v, const char **fmt, va_list *args)
{
    char one[CONVERSION_ROOM];
    const char *p = *fmt;
    size_t n = 0;
    char size = '\0';

    if (strncmp(p, "%.*s", 4) == 0) {
        size_t len = (size_t)va_arg(*args, int);

        text_add(v, (struct slice){va_arg(*args, const char *), len});
        *fmt = p + 4;
        return;
    }
    /* Copies flags, width, precision and size; a "*" is replaced by its argument. */
    one[n++] = *p++;
    for (; *p != '\0' && strchr("-+ #0123456789.*hlzjt", *p) != NULL; ++p) {
        ASSERT(n < sizeof(one) - 16);
        if (*p == '*') {
            n += (size_t)snprintf(one + n, sizeof(one) - n, "%d", va_arg(*args, int));
            continue;
        }
        if (strchr("hlzjt", *p) != NULL)
            size = size == 'l' ? 'q' : *p;
        one[n++] = *p;
    }
    one[n++] = *p;
    one[n] = '\0';
    *fmt = p + 1;
    if (*p == '%')
        text_add_char(v, '%');
    else if (*p == 's')
        text_addf(v, one, va_arg(*args, const char *));
    else if (strchr("fFeEgG", *p) != NULL)
        text_addf(v, one, va_arg(*args, double));
    else
        put_integer(v, one, size, args);
}
#pragma GCC diagnostic pop

static void put_format(struct log_text *t, const char *fmt, va_list *args)
{
    enum { BETWEEN, BARE, QUOTED } state = BETWEEN;
    struct text v = {0};

    while (*fmt != '\0') {
        if (state != BETWEEN && *fmt == (state == QUOTED ? '"' : ' ')) {
            log_put_value(t, text_slice(&v), state == QUOTED);
            text_clear(&v);
            fmt += state == QUOTED;
            state = BETWEEN;
        } else if (*fmt == '%') {
            put_conversion(&v, &fmt, args);
        } else if (state == BETWEEN && *fmt == '=') {
            put_escaped(t, text_slice(&v));
            log_put_bytes(t, SLICE_LIT("="));
            text_clear(&v);
            state = fmt[1] == '"' ? QUOTED : BARE;
            fmt += state == QUOTED ? 2 : 1;
        } else {
            text_add_char(&v, *fmt++);
        }
    }
    if (state == BETWEEN)
        put_escaped(t, text_slice(&v));
    else
        log_put_value(t, text_slice(&v), state == QUOTED);
    text_fini(&v);
}

void log_put(struct log_text *out, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    put_format(out, fmt, &args);
    va_end(args);
}

/* ---- folding ---- */

static struct log_event *find_event_locked(enum log_level level, const char *name)
{
    for (size_t i = 0; i < sink.nevents; ++i) {
        if (sink.events[i].level == level && strcmp(sink.events[i].name, name) == 0)
            return &sink.events[i];
    }
    if (sink.nevents == EVENTS_MAX)
        return NULL;
    sink.events[sink.nevents] = (struct log_event){.name = name, .level = level};
    return &sink.events[sink.nevents++];
}

/* Returns true if this line of the event may be written now. */
static bool log_admit(enum log_level level, const char *name, time_t now, struct slice body)
{
    uint64_t line = map_hash(body.p, body.len);
    bool go = true;

    pthread_mutex_lock(&sink.lock);
    struct log_event *e = find_event_locked(level, name);
    if (e != NULL) {
        if (e->second != now && e->folded == 0) {
            e->second = now;
            e->nlines = 0;
        }
        go = e->second == now && e->nlines < LOG_LINES_PER_SECOND;
        for (unsigned i = 0; i < e->nlines; ++i)
            go = go && e->lines[i] != line;
        if (go)
            e->lines[e->nlines++] = line;
        else if (e->folded++ == 0)
            atomic_fetch_add(&sink.nfolding, 1);
    }
    pthread_mutex_unlock(&sink.lock);
    return go;
}

/* ---- lines ---- */

static struct log_text begin_line(enum log_level level, const char *event,
                                  const struct timespec *now)
{
    struct log_text t;
    struct tm utc;

    t.full = false;
    gmtime_r(&now->tv_sec, &utc);
    t.len = strftime(t.bytes, sizeof(t.bytes), "%Y-%m-%dT%H:%M:%S", &utc);
    t.len += (size_t)snprintf(t.bytes + t.len, sizeof(t.bytes) - t.len, ".%03ldZ %s %s ",
                              now->tv_nsec / 1000000, level_names[level], event);
    return t;
}

static void count_dropped_locked(uint64_t n)
{
    stream.dropped += n;
    stream.to_report += n;
}

/* Returns false if LINE could not be written. */
static bool put_line_locked(struct slice line)
{
    if (stream.diverted != NULL)
        return stream.diverted->add(stream.diverted, line);
    while (line.len != 0) {
        ssize_t n = output_write(&stream.output, line);

        if (n >= 0) {
            line = (struct slice){line.p + n, line.len - (size_t)n};
        } else if (errno != EAGAIN || stream.stuck ||
                   !output_wait(&stream.output, (int)stream.patience_ms)) {
            stream.stuck = true;
            return false;
        }
    }
    stream.stuck = false;
    return true;
}

/* Returns false if there is no room for that line either. */
static bool report_dropped_locked(const struct timespec *now)
{
    if (stream.to_report == 0)
        return true;
    struct log_text t = begin_line(LOG_LEVEL_WARN, "log-lines-dropped", now);
    log_put(&t, "lines=%llu", (unsigned long long)stream.to_report);
    t.bytes[t.len++] = '\n';
    if (!put_line_locked((struct slice){t.bytes, t.len}))
        return false;
    stream.to_report = 0;
    return true;
}

static void write_line(struct log_text *t, const struct timespec *now)
{
    t->bytes[t->len++] = '\n';
    pthread_mutex_lock(&stream.lock);
    if (!report_dropped_locked(now) || !put_line_locked((struct slice){t->bytes, t->len}))
        count_dropped_locked(1);
    pthread_mutex_unlock(&stream.lock);
}

void log_open(unsigned patience_ms)
{
    stream.output = output_open(STDERR_FILENO);
    stream.patience_ms = patience_ms;
    stream.stuck = patience_ms == 0;
}

struct output log_output(void)
{
    return stream.output;
}

struct log_sink *log_divert(struct log_sink *to)
{
    pthread_mutex_lock(&stream.lock);
    struct log_sink *before = stream.diverted;
    stream.diverted = to;
    pthread_mutex_unlock(&stream.lock);
    return before;
}

void log_count_dropped(uint64_t n)
{
    pthread_mutex_lock(&stream.lock);
    count_dropped_locked(n);
    stream.stuck = true;
    pthread_mutex_unlock(&stream.lock);
}

uint64_t log_dropped(void)
{
    pthread_mutex_lock(&stream.lock);
    uint64_t n = stream.dropped;
    pthread_mutex_unlock(&stream.lock);
    return n;
}

/* Reports the events with folded lines, except those of the second KEEP. */
static void report_folded(const struct timespec *now, time_t keep)
{
    if (atomic_load_explicit(&sink.nfolding, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&sink.lock);
    for (size_t i = 0; i < sink.nevents; ++i) {
        struct log_event *e = &sink.events[i];

        if (e->folded == 0 || e->second == keep)
            continue;
        struct log_event taken = *e;
        e->folded = 0;
        atomic_fetch_sub(&sink.nfolding, 1);
        /* The table only grows, so the iteration may continue after the lock was released. */
        pthread_mutex_unlock(&sink.lock);
        struct log_text t = begin_line(taken.level, taken.name, now);
        log_put(&t, "folded=%lu", taken.folded);
        write_line(&t, now);
        pthread_mutex_lock(&sink.lock);
    }
    pthread_mutex_unlock(&sink.lock);
}

/* Reports what earlier lines could not. */
static void log_catch_up(const struct timespec *now, time_t keep)
{
    report_folded(now, keep);
    pthread_mutex_lock(&stream.lock);
    (void)report_dropped_locked(now);
    pthread_mutex_unlock(&stream.lock);
}

void log_flush(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    log_catch_up(&now, now.tv_sec);
}

void log_flush_all(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    log_catch_up(&now, -1);
    pthread_mutex_lock(&sink.lock);
    for (size_t i = 0; i < sink.nevents; ++i)
        sink.events[i].nlines = 0;
    pthread_mutex_unlock(&sink.lock);
}

void log_line(enum log_level level, bool fold, const void *subject, const char *event,
              const char *fmt, ...)
{
    struct timespec now;
    va_list args;

    if (!log_wants(level))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    report_folded(&now, now.tv_sec);
    struct log_text t = begin_line(level, event, &now);
    size_t start = t.len;
    if (subject != NULL) {
        const struct log_subject *s = subject;

        s->describe(s, &t);
        log_put_bytes(&t, SLICE_LIT(" "));
    }
    va_start(args, fmt);
    put_format(&t, fmt, &args);
    va_end(args);
    if (!fold ||
        log_admit(level, event, now.tv_sec, (struct slice){t.bytes + start, t.len - start}))
        write_line(&t, &now);
}

const char *log_cut(struct slice s, char out[LOG_CUT_ROOM])
{
    size_t n = s.len > LOG_VALUE_MAX ? LOG_VALUE_MAX : s.len;

    for (size_t i = 0; i < n; ++i)
        out[i] = s.p[i] != '\0' ? s.p[i] : '?';
    memcpy(out + n, s.len > n ? "..." : "", s.len > n ? 4 : 1);
    return out;
}
