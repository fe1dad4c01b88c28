/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/supervisor/supervisor_kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/text.h"

void kept_init(struct kept_all *all)
{
    list_init(&all->items);
    all->n = 0;
}

struct kept *kept_add(struct kept_all *all, const struct spawn_request *r,
                      const struct spawned *spawned, uint64_t agent, uint64_t now_ms)
{
    struct kept *p = xcalloc(1, sizeof(*p));

    memcpy(p->id, r->id, sizeof(p->id));
    memcpy(p->application, r->application, sizeof(p->application));
    memcpy(p->spec, r->spec, sizeof(p->spec));
    p->note = xstrdup("");
    p->slot = r->slot;
    p->stop_timeout_ms = r->stop_timeout_ms;
    p->started_ms = now_ms;
    p->agent = agent;
    p->spawned = *spawned;
    list_push_back(&all->items, &p->node);
    ++all->n;
    return p;
}

void kept_remove(struct kept_all *all, struct kept *p)
{
    list_remove(&p->node);
    --all->n;
    free(p->note);
    free(p);
}

struct kept *kept_of_message(const struct kept_all *all, const json_t *message)
{
    const char *id = json_string_value(json_object_get(message, "id"));
    struct kept *p;

    list_for_each_entry (p, &all->items, node) {
        if (id != NULL && strcmp(p->id, id) == 0)
            return p;
    }
    return NULL;
}

struct kept *kept_of_pid(const struct kept_all *all, pid_t pid)
{
    struct kept *p;

    list_for_each_entry (p, &all->items, node) {
        if (p->spawned.pid == pid)
            return p;
    }
    return NULL;
}

void kept_set_note(struct kept *p, const char *note)
{
    free(p->note);
    p->note = xstrdup(note);
}

void kept_signal(struct kept *p, int signal_number)
{
    p->term_deferred = signal_number == SIGTERM && p->busy > 0;
    /* The group: a shell before the program, or a master's own processes, are meant as well. */
    if (!p->term_deferred)
        kill(-p->spawned.pid, signal_number);
}

void kept_set_busy(struct kept *p, unsigned busy)
{
    p->busy = busy;
    if (busy == 0 && p->term_deferred)
        kept_signal(p, SIGTERM);
}

json_t *kept_message(const struct kept *p, uint64_t now_ms)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:s, s:I, s:s, s:s, s:I, s:i}", "op", "process", "id",
                     p->id, "application", p->application, "slot", (int)p->slot, "spec", p->spec,
                     "pid", (json_int_t)p->spawned.pid, "address", p->spawned.address, "note",
                     p->note, "age_ms", (json_int_t)(now_ms - p->started_ms), "busy", (int)p->busy);
}

void kept_describe_death(const struct kept *p, const siginfo_t *si, char out[SUPERVISOR_WHY_MAX])
{
    ssize_t n = read(p->spawned.error_fd, out, SUPERVISOR_WHY_MAX - 1);

    if (n > 0) {
        out[n] = '\0';
        /* A path in it may be no UTF-8, which JSON has to be. */
        ascii_clean(out);
    } else if (si->si_code == CLD_EXITED)
        snprintf(out, SUPERVISOR_WHY_MAX, "exit %d", si->si_status);
    else
        snprintf(out, SUPERVISOR_WHY_MAX, "signal %d", si->si_status);
}

void kept_end_all(struct kept_all *all, uint64_t now_ms)
{
    struct kept *p;

    list_for_each_entry (p, &all->items, node) {
        kept_signal(p, SIGTERM);
        p->kill_ms = now_ms + p->stop_timeout_ms;
    }
}

void kept_kill_overdue(struct kept_all *all, uint64_t now_ms)
{
    struct kept *p;

    list_for_each_entry (p, &all->items, node) {
        if (now_ms >= p->kill_ms)
            kept_signal(p, SIGKILL);
    }
}
