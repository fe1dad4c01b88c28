/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread's event loop: libh2o's, wrapped once. Timers of any length, a mailbox from other
 * threads, watched descriptors, and memory that is freed between turns. A loop is created, run and
 * destroyed on one thread; only the functions marked "any thread" may be called from elsewhere. It
 * outlives everything that was started on it.
 */
#ifndef RLB_EVENT_LOOP_H
#define RLB_EVENT_LOOP_H

#include "common/base/err.h"
#include "common/base/list.h"

struct loop;
struct st_h2o_evloop_t;

/* Make the calling thread's loop. INDEX: 0.. for data loops, which index per-loop tables. */
struct loop *loop_create(unsigned index);
/* Run turns until loop_stop. */
void loop_run(struct loop *l);
/* One turn, waiting at most MAX_WAIT_MS. For tests. */
void loop_turn(struct loop *l, unsigned max_wait_ms);
/* Any thread; not from a signal handler. */
void loop_stop(struct loop *l);
/* Runs what was posted or deferred before, and waits for those to return who are posting. Every
 * watch must have been stopped, every timer forgotten. */
void loop_destroy(struct loop *l);
struct st_h2o_evloop_t *loop_h2o(struct loop *l);
unsigned loop_index(const struct loop *l);

/* Monotonic time, read once a turn (when first asked for after waiting); outside of turns each
 * time. */
struct loop_clock {
    uint64_t now_us, now_ms; /* of the turn; now_us is 0 as long as it has not been read */
    bool in_turn;            /* outside of a turn time is read each time */
};
/* What a struct loop begins with. */
struct loop_time {
    struct loop_clock *clock; /* by address, so that asking a const loop for the time may read it */
};
/* The time when a turn is asked for it first, or none is on. */
uint64_t loop_read_clock_us(const struct loop *l) apart;
static inline uint64_t loop_now_us(const struct loop *l)
{
    const struct loop_clock *c = ((const struct loop_time *)(const void *)l)->clock;

    return c->now_us != 0 ? c->now_us : loop_read_clock_us(l);
}
static inline uint64_t loop_now_ms(const struct loop *l)
{
    const struct loop_clock *c = ((const struct loop_time *)(const void *)l)->clock;

    return c->now_us != 0 ? c->now_ms : loop_read_clock_us(l) / 1000;
}

/* When DELAY_MS have passed for sure: the fraction of the present millisecond is not taken off. */
static inline uint64_t loop_due_ms(const struct loop *l, uint64_t delay_ms)
{
    uint64_t now_us = loop_now_us(l);
    uint64_t now_ms = loop_now_ms(l);
    uint64_t from_ms = now_us > now_ms * 1000 ? now_ms + 1 : now_ms;

    return delay_ms < UINT64_MAX - from_ms ? from_ms + delay_ms : UINT64_MAX;
}

/* How often L has waited for its sockets: one more from the wait of each turn on. */
uint64_t loop_waits(const struct loop *l);
/*
 * Whether this turn's wait has heard of every socket with anything to tell, and nothing of it is
 * left to be run but what concerns accepted sockets. False when that is not known, as before the
 * wait and between turns. Of watches it holds where watch_heard does.
 */
bool loop_heard_all(const struct loop *l);

/* ---- timers: embedded; zero or timer_init before first use; O(1) to start and stop ---- */
struct timer {
    struct list node;
    uint64_t due_ms;
    void (*expired)(struct timer *t); /* may restart the timer, or free what holds it */
};

void timer_init(struct timer *t, void (*expired)(struct timer *t));
/* (Re)start; expires once, not before DELAY_MS have passed, never inside this call. */
void timer_start(struct loop *l, struct timer *t, uint64_t delay_ms);
/* The same at DUE_MS of the loop's time. */
void timer_start_at(struct loop *l, struct timer *t, uint64_t due_ms);
static inline void timer_stop(struct timer *t)
{
    list_remove(&t->node);
}
static inline bool timer_running(const struct timer *t)
{
    return list_linked(&t->node);
}

/* ---- mailbox: any thread posts, the loop runs the message in order, once ---- */
struct loop_message {
    struct list node;
    void (*run)(
        struct loop_message *m); /* on the loop's thread; the message is out of the mailbox then */
};
/* Any thread. The message stays the poster's to keep alive until it ran. */
void loop_post(struct loop *l, struct loop_message *m);

/* ---- end of turn ---- */
struct loop_deferred {
    struct list node;
    void (*run)(struct loop_deferred *d);
};
/*
 * Run D at the end of this turn, or of the next one: the place to free what a callback may still be
 * inside of. What D defers runs after it, in the same turn.
 */
void loop_defer(struct loop *l, struct loop_deferred *d);
/* Run D->run after every turn, before the loop waits, until list_remove(&d->node). */
void loop_each_turn(struct loop *l, struct loop_deferred *d);
/*
 * Run D->run in every turn as the last thing before sockets are looked at, until list_remove. What
 * it does must not make libh2o call back: that is for loop_defer.
 */
void loop_before_wait(struct loop *l, struct loop_deferred *d);

/* ---- watched descriptors that are no sockets of ours (inotify, signalfd, pidfd, socket pairs)
 * ---- */
struct watch;
/*
 * READABLE is called while FD is readable (level-triggered); the watch does not own FD, but makes
 * it non-blocking. Not for regular files, which epoll refuses.
 */
struct watch *watch_start(struct loop *l, int fd, void (*readable)(void *context), void *context);
/* The same, but FD stays as it is: for who reads with MSG_DONTWAIT, and asks for no system call. */
struct watch *watch_start_as_is(struct loop *l, int fd, void (*readable)(void *context),
                                void *context);
/* Call READABLE of another user from now on. */
void watch_hand_over(struct watch *w, void (*readable)(void *context), void *context);
/* Look out for bytes, as from the start; or not. The end of a connection is an end of bytes. */
void watch_read(struct watch *w, bool on);
bool watch_reads(const struct watch *w);
/*
 * Whether what loop_heard_all says goes for W. Else whoever this turn's wait has told of may have
 * come later than what W would tell of.
 */
bool watch_heard(const struct watch *w);
/* Call WRITABLE once, when FD takes bytes or never will; NULL: not any more. */
void watch_write(struct watch *w, void (*writable)(void *context));
bool watch_writes(const struct watch *w);
/* May be called from the callback. The descriptor may be closed after this. NULL is fine. */
void watch_stop(struct watch *w);

/*
 * Room for what is read or written, kept by the loop from one use to the next: LOOP_BLOCK_BYTES by
 * malloc, so that who does not give it back may as well free it, or let others do so. 16 KiB, and
 * what goes with them. The loop's thread.
 */
enum { LOOP_BLOCK_BYTES = 16 * 1024 + 512 };
void *loop_take_block(struct loop *l);
void loop_give_block(struct loop *l, void *block);

#endif
