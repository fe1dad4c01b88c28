/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loop of one thread: timers, messages from other threads, watched descriptors, and work
 * that is deferred to the end of a turn. A loop is created, run and destroyed on one thread; only
 * functions marked "any thread" may be called from elsewhere. It outlives everything started on it.
 */
#pragma once

#include "common/base/err.h"
#include "common/event/timer_wheel.h"

struct loop;

/* Creates the loop of the calling thread. INDEX: 0.. for data loops; it indexes per-loop tables. */
struct loop *loop_create(unsigned index);
/* Runs turns until loop_stop. */
void loop_run(struct loop *l);
/* Runs one turn that waits at most MAX_WAIT_MS. For tests, and for callers that wait for a
 * condition. */
void loop_turn(struct loop *l, unsigned max_wait_ms);
/* Before what L's callbacks use is destroyed: runs turns that do not wait, until no work is
 * deferred and no message is in the mailbox. */
void loop_settle(struct loop *l);
/* Any thread; not from a signal handler. */
void loop_stop(struct loop *l);
/*
 * Runs what has been posted or deferred, and waits until calls of loop_post and loop_stop have
 * returned. Every watch and every timer must have been stopped. NULL is allowed.
 */
void loop_destroy(struct loop *l);
unsigned loop_index(const struct loop *l);

/* ---- time ---- */

/*
 * The monotonic clock, read at most once a turn: at the first request after the wait. Between turns
 * it is read each time. The wall clock is the monotonic time plus an offset, which is determined
 * again when it is older than a second. The first member of struct loop.
 *
 * Timers run by the active time, which lacks the pauses of the process: a stopped program, or a
 * machine that was suspended or starved. A turn that begins much later than its wait could have
 * lasted follows a pause. So no time-out expires because nothing could happen meanwhile, neither
 * here nor in the processes that are paused as well. What is measured, agreed with others (a
 * session, a ticket), or counted per time uses the monotonic clock.
 */
struct loop_clock {
    uint64_t now_us, now_ms;  /* of the turn; now_us is 0 until it is read */
    uint64_t wall_offset_us;  /* wall clock minus monotonic clock */
    uint64_t wall_checked_us; /* monotonic time at which the offset was determined */
    uint64_t paused_ms;       /* sum of the pauses of the process */
    bool in_turn;
};
uint64_t loop_read_clock_us(const struct loop *l) noinline_;

/* Monotonic time [us]. */
static inline uint64_t loop_now_us(const struct loop *l)
{
    const struct loop_clock *c = (const struct loop_clock *)(const void *)l;

    return c->now_us != 0 ? c->now_us : loop_read_clock_us(l);
}
/* Monotonic time [ms]. */
static inline uint64_t loop_now_ms(const struct loop *l)
{
    const struct loop_clock *c = (const struct loop_clock *)(const void *)l;

    return c->now_us != 0 ? c->now_ms : loop_read_clock_us(l) / 1000;
}
/* Monotonic time without the pauses of the process [ms]: for time-outs. */
static inline uint64_t loop_active_ms(const struct loop *l)
{
    const struct loop_clock *c = (const struct loop_clock *)(const void *)l;

    return loop_now_ms(l) - c->paused_ms;
}
/* Wall clock [ms since 1970]. A change of the wall clock is noticed within a second. */
uint64_t loop_wall_ms(const struct loop *l);

/* An active time at which DELAY_MS have certainly passed: the current millisecond is rounded up. */
static inline uint64_t loop_due_ms(const struct loop *l, uint64_t delay_ms)
{
    uint64_t now_us = loop_now_us(l);
    uint64_t now_ms = loop_now_ms(l);
    uint64_t from_ms = loop_active_ms(l) + (now_us > now_ms * 1000);

    return delay_ms < UINT64_MAX - from_ms ? from_ms + delay_ms : UINT64_MAX;
}

/* ---- timers: embedded; zero or timer_init before first use; start and stop in O(1) ---- */

void timer_init(struct timer *t, void (*expired)(struct timer *t));
/* Starts or restarts T. It expires once, not before DELAY_MS have passed, never in this call. */
void timer_start(struct loop *l, struct timer *t, uint64_t delay_ms);
/* The same, due at DUE_MS of loop_active_ms. */
void timer_start_at(struct loop *l, struct timer *t, uint64_t due_ms);
static inline void timer_stop(struct timer *t)
{
    list_remove(&t->node);
}
static inline bool timer_running(const struct timer *t)
{
    return list_linked(&t->node);
}

/* ---- deadlines ---- */

/*
 * A time-out that is set again, or cleared, far more often than it expires. Setting and clearing
 * only store the due time. The timer keeps running; when it expires, it is restarted for the stored
 * time, or stops if there is none. So a deadline passes at the same millisecond as a timer would
 * expire, and some timers expire without effect.
 *
 * Embedded in its owner; used by the loop's thread only. It must be stopped before its memory is
 * freed, and before another loop uses it.
 */

struct deadline {
    struct timer timer; /* due at DUE_MS or before */
    uint64_t due_ms;    /* 0: not set */
};

/* EXPIRED must call deadline_passed. */
static inline void deadline_init(struct deadline *d, void (*expired)(struct timer *t))
{
    timer_init(&d->timer, expired);
    d->due_ms = 0;
}

/* Sets D to DELAY_MS from now; not 0. */
static inline void deadline_set(struct loop *l, struct deadline *d, uint64_t delay_ms)
{
    d->due_ms = loop_due_ms(l, delay_ms);
    if (!timer_running(&d->timer) || d->timer.due_ms > d->due_ms)
        timer_start_at(l, &d->timer, d->due_ms);
}

/* Clears D; its timer may continue to run. */
static inline void deadline_clear(struct deadline *d)
{
    d->due_ms = 0;
}

static inline bool deadline_is_set(const struct deadline *d)
{
    return d->due_ms != 0;
}

static inline void deadline_stop(struct deadline *d)
{
    d->due_ms = 0;
    timer_stop(&d->timer);
}

/* To be called when D's timer has expired. Returns whether the deadline has passed; it is cleared
 * then. */
static inline bool deadline_passed(struct loop *l, struct deadline *d)
{
    if (d->due_ms == 0)
        return false;
    if (d->due_ms > loop_active_ms(l)) {
        timer_start_at(l, &d->timer, d->due_ms);
        return false;
    }
    d->due_ms = 0;
    return true;
}

/* ---- messages: posted by any thread, run once and in order by the loop ---- */

struct loop_message {
    struct list node;
    /* Called on the loop's thread; the message is out of the mailbox by then. */
    void (*run)(struct loop_message *m);
};
/* Any thread. The caller keeps the message allocated until it has run. */
void loop_post(struct loop *l, struct loop_message *m);

/* ---- end of turn ---- */

struct loop_deferred {
    struct list node;
    void (*run)(struct loop_deferred *d);
};
/*
 * Runs D once at the end of this turn or of the next one. No effect if D is deferred already, so
 * any number of events may request the same work. What D itself defers runs after it in the same
 * turn, but only one level deep.
 */
void loop_defer_once(struct loop *l, struct loop_deferred *d);
/*
 * The same for the end of an object that a callback may still be using: D frees or reports it, and
 * must not be deferred already. A comment at each call states why it is not (dev/check-layers).
 */
void loop_defer(struct loop *l, struct loop_deferred *d);
/* Runs D->run in every turn after all callbacks, until list_remove(&d->node). */
void loop_each_turn(struct loop *l, struct loop_deferred *d);

/* ---- watched descriptors ---- */

struct watch;
/* The conditions for which READABLE of a watch is called. Each level includes those before it. */
enum watch_level {
    WATCH_NOTHING,
    WATCH_FAILURE, /* an error, a reset, or the end of both directions */
    WATCH_END,     /* the peer has closed its sending side, even if there are unread bytes */
    WATCH_BYTES,   /* bytes, or the end of them */
};

/*
 * Calls READABLE in each turn while FD is readable (level-triggered), from the next wait on. FD
 * becomes non-blocking; the caller keeps ownership. Not for regular files, which epoll rejects.
 */
struct watch *watch_start(struct loop *l, int fd, void (*readable)(void *context), void *context);
/* The same without changing FD, for callers that use MSG_DONTWAIT. Makes no system call. */
struct watch *watch_start_as_is(struct loop *l, int fd, void (*readable)(void *context),
                                void *context);
/*
 * For a client's descriptor, before the next wait: the callbacks run after those of all other
 * watches that the same wait has reported. So everything reported of workers' connections has been
 * processed when a client's request selects one of them.
 */
void watch_set_client(struct watch *w);
/* Replaces the callback and its context. */
void watch_hand_over(struct watch *w, void (*readable)(void *context), void *context);
/*
 * Sets what READABLE is called for; a new watch has WATCH_BYTES. READABLE is called in each turn
 * until the bytes are read, or the level is lowered: after an end or a failure only the latter, or
 * watch_stop, ends the calls.
 */
void watch_read_level(struct watch *w, enum watch_level level);
/* WATCH_BYTES or WATCH_NOTHING. */
void watch_read(struct watch *w, bool on);
/* Whether the level is WATCH_BYTES. */
bool watch_reads(const struct watch *w);
/*
 * Within READABLE: whether the peer has closed its sending side, or the connection has failed,
 * according to the event that READABLE is called for. False does not exclude it: the end may have
 * arrived later. Unread bytes may precede the end.
 */
bool watch_ended(const struct watch *w);
/* Calls WRITABLE once, when FD accepts bytes or has failed. NULL: cancels the call. */
void watch_write(struct watch *w, void (*writable)(void *context));
bool watch_writes(const struct watch *w);
/* Frees W; may be called from its callbacks. FD may be closed afterwards. NULL is allowed. */
void watch_stop(struct watch *w);

/* ---- what is known of a wait ---- */

/* The number of waits so far; incremented by the wait of each turn. */
uint64_t loop_waits(const struct loop *l);
/*
 * Whether the wait of this turn has reported every ready descriptor, and all callbacks of watches
 * that are not clients' have been called. False before the wait and between turns. If it is true,
 * and watch_is_current as well, READABLE of a watch that has been watched for bytes since before
 * the wait has been called for everything that had arrived by then.
 */
bool loop_reported_all(const struct loop *l);
/*
 * Whether loop_reported_all applies to W. If not, W was polled before other descriptors, so a
 * reported event of those may be later than an event of W that was not reported yet.
 */
bool watch_is_current(const struct watch *w);

/* ---- buffers ---- */

/*
 * Memory of LOOP_BLOCK_BYTES for reading or writing, reused by the loop: room for 16 KiB and their
 * framing. A block is from malloc, so it may be freed instead of being returned. The loop's thread.
 */
enum { LOOP_BLOCK_BYTES = 16 * 1024 + 512 };
void *loop_alloc_block(struct loop *l);
void loop_free_block(struct loop *l, void *block);
