/* SPDX-License-Identifier: Apache-2.0
 *
 * timer ──► rows of all targets ──► thread: one walk through /proc, PSS of suspects ──► targets
 *
 * If a target is stopped during a sample, its row remains in the sample with a NULL target.
 */
#include "worker-agent/process/process_usage.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/event/worker_thread.h"
#include "worker-agent/process/proc_table.h"

struct usage_row {
    struct usage_target *target; /* NULL: stopped. Used only by the loop */
    uint64_t limit_bytes;
    struct usage found;
    bool checked; /* OVER is known */
    bool over;
};

struct sample {
    struct worker_job job;
    struct process_usage *usage;
    const char *proc;
    size_t nrows;
    size_t first; /* the row for which PSS is read first */
    struct usage_row *rows;
    struct proc_root *roots; /* of each row; by pid */
    uint64_t at_us;
};

struct process_usage {
    struct loop *loop;
    struct worker_thread *thread;
    const char *proc;
    uint64_t interval_ms;
    struct timer next;
    struct list targets;
    struct sample *sample; /* in progress */
    size_t next_row;
    uint64_t last_at_us;
};

/* ---- on the thread ---- */

static void do_sample(struct worker_job *j)
{
    struct sample *s = container_of(j, struct sample, job);
    struct proc_table t = {0};
    uint64_t us_per_tick = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);

    s->at_us = clock_mono_us();
    bool read = proc_table_read(&t, s->proc);
    if (read)
        proc_table_own(&t, s->roots, s->nrows);
    for (size_t i = 0; i < t.n; ++i) {
        const struct proc_entry *e = &t.items[i];

        if (e->root == PROC_NO_ROOT)
            continue;
        struct usage *u = &s->rows[e->root].found;
        u->processes += !e->zombie;
        u->cpu_us += e->cpu_ticks * us_per_tick;
        u->rss_bytes += e->rss_bytes;
    }
    uint64_t until_us = clock_mono_us() + USAGE_PSS_MS * UINT64_C(1000);
    for (size_t i = 0; i < s->nrows; ++i) {
        size_t n = (s->first + i) % s->nrows;
        struct usage_row *r = &s->rows[n];
        bool suspect = r->limit_bytes > 0 && r->found.rss_bytes > r->limit_bytes;

        r->found.known = s->roots[n].there;
        r->checked = read && (!suspect || clock_mono_us() < until_us);
        for (size_t k = 0; k < t.n && suspect && r->checked; ++k) {
            const struct proc_entry *e = &t.items[k];
            uint64_t bytes;

            /* Without its share, the resident memory of a process counts in full. */
            if (e->root == (int)n && !e->zombie)
                r->found.pss_bytes += proc_pss_read(s->proc, e->pid, &bytes) ? bytes : e->rss_bytes;
        }
        r->over = r->found.pss_bytes > r->limit_bytes && suspect;
    }
    proc_table_fini(&t);
}

/* ---- on the loop ---- */

static void on_sampled(struct worker_job *j, bool dropped)
{
    struct sample *s = container_of(j, struct sample, job);
    struct process_usage *u = s->usage;

    if (!dropped) {
        uint64_t passed_us = u->last_at_us != 0 ? s->at_us - u->last_at_us : 0;

        for (size_t i = 0; i < s->nrows; ++i) {
            const struct usage_row *r = &s->rows[i];
            struct usage_target *t = r->target;

            if (t == NULL || !r->found.known)
                continue;
            struct usage old = t->usage;
            t->usage = r->found;
            /* The time of children that were not waited for by a process of the target is lost. */
            if (old.known && t->usage.cpu_us < old.cpu_us)
                t->usage.cpu_us = old.cpu_us;
            if (old.known && passed_us > 0)
                t->usage.cpu_share = (double)(t->usage.cpu_us - old.cpu_us) / (double)passed_us;
            if (!r->checked)
                t->usage.pss_bytes = old.pss_bytes;
        }
        /* Called last, because it may stop targets, including targets of this sample. */
        for (size_t i = 0; i < s->nrows; ++i) {
            struct usage_target *t = s->rows[i].target;

            if (t == NULL)
                continue;
            t->row = NULL;
            /* The state of an unchecked target is unchanged. */
            if (!s->rows[i].over && s->rows[i].checked)
                t->over_since_ms = 0;
            if (!s->rows[i].over || !s->rows[i].found.known)
                continue;
            if (t->over_since_ms == 0)
                t->over_since_ms = loop_now_ms(u->loop);
            t->over(t);
        }
        u->sample = NULL;
        u->last_at_us = s->at_us;
        timer_start(u->loop, &u->next, u->interval_ms);
    }
    free(s->rows);
    free(s->roots);
    free(s);
}

static int row_order(const void *a, const void *b)
{
    const struct usage_target *x = ((const struct usage_row *)a)->target;
    const struct usage_target *y = ((const struct usage_row *)b)->target;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

static void on_time(struct timer *t)
{
    struct process_usage *u = container_of(t, struct process_usage, next);
    struct usage_target *target;
    struct sample *s;
    size_t n = 0;

    if (list_empty(&u->targets)) {
        timer_start(u->loop, &u->next, u->interval_ms);
        return;
    }
    s = u->sample = xcalloc(1, sizeof(*s));
    s->nrows = list_length(&u->targets);
    ASSERT(s->nrows > 0);
    s->rows = xcalloc(s->nrows, sizeof(*s->rows));
    s->roots = xcalloc(s->nrows, sizeof(*s->roots));
    list_for_each_entry (target, &u->targets, node)
        s->rows[n++] = (struct usage_row){.target = target, .limit_bytes = target->limit_bytes};
    qsort(s->rows, n, sizeof(*s->rows), row_order);
    for (size_t i = 0; i < n; ++i) {
        target = s->rows[i].target;
        s->roots[i] = (struct proc_root){.pid = target->pid, .start_ticks = target->start_ticks};
        target->row = &s->rows[i];
    }
    s->usage = u;
    s->proc = u->proc;
    s->first = u->next_row++ % s->nrows;
    s->job.work = do_sample;
    s->job.done = on_sampled;
    worker_thread_add(u->thread, &s->job, 0);
}

struct process_usage *process_usage_create(struct loop *l, const char *proc, uint64_t interval_ms)
{
    struct process_usage *u = xcalloc(1, sizeof(*u));

    u->loop = l;
    u->proc = proc;
    u->interval_ms = interval_ms;
    u->thread = worker_thread_create(l);
    list_init(&u->targets);
    timer_init(&u->next, on_time);
    timer_start(l, &u->next, interval_ms);
    return u;
}

void process_usage_destroy(struct process_usage *u)
{
    if (u == NULL)
        return;
    /* Processes that are left to the next agent. */
    while (!list_empty(&u->targets))
        usage_stop(list_first(&u->targets, struct usage_target, node));
    timer_stop(&u->next);
    /* A sample in which the thread hangs does not need U. */
    (void)!worker_thread_destroy(u->thread, WORKER_THREAD_PATIENCE_MS);
    free(u);
}

void process_usage_set_interval(struct process_usage *u, uint64_t interval_ms)
{
    if (u->interval_ms == interval_ms)
        return;
    u->interval_ms = interval_ms;
    if (u->sample == NULL)
        timer_start(u->loop, &u->next, interval_ms);
}

void usage_start(struct process_usage *u, struct usage_target *t, pid_t pid)
{
    struct proc_entry e;

    t->pid = pid;
    t->usage = (struct usage){.known = false};
    /* Read now, while the pid certainly belongs to the process; a later process with the same pid
     * has a different start time. A process that has already exited is never found. */
    t->start_ticks = proc_entry_read(u->proc, pid, &e) ? e.start_ticks : UINT64_MAX;
    list_push_back(&u->targets, &t->node);
}

void usage_stop(struct usage_target *t)
{
    list_remove(&t->node);
    if (t->row != NULL)
        t->row->target = NULL;
    t->row = NULL;
}

/* ---- max_memory ---- */

bool over_memory_may_replace(struct over_memory *o, uint64_t ready_ms, uint64_t now_ms)
{
    if (now_ms < o->not_before_ms)
        return false;
    if (ready_ms >= OVER_MEMORY_SOON_MS)
        *o = (struct over_memory){.delay_ms = 0};
    else if (o->delay_ms == 0)
        o->delay_ms = OVER_MEMORY_DELAY_MS;
    else
        o->delay_ms *= 2;
    if (o->delay_ms > OVER_MEMORY_DELAY_MAX_MS)
        o->delay_ms = OVER_MEMORY_DELAY_MAX_MS;
    o->not_before_ms = now_ms + o->delay_ms;
    return true;
}

bool over_memory_warns(struct over_memory *o)
{
    /* The first may have been an unlucky one. */
    if (o->reported || o->delay_ms <= OVER_MEMORY_DELAY_MS)
        return false;
    o->reported = true;
    return true;
}
