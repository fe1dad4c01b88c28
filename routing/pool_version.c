/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which workers are eligible: the available members except those just woken
 * (pool_called.c), and with single_version only those of the active version. The active version is
 * the one that most members run. It changes only if another version has strictly more members; of
 * several such versions, the one seen first is elected. A version without available members counts
 * as having no members, because an outage of one version must not keep another one idle. Source:
 * zc.resumelb lb.py Pool._new_version and _quorum (formulas: tests/oracle/README.md).
 */
#include <stdlib.h>

#include "routing/pool_internal.h"

static struct version *version_at(struct list *node)
{
    return list_entry(node, struct version, node);
}

static struct worker *member_at(struct list *node)
{
    return list_entry(node, struct worker, member_node);
}

static void version_free(struct version *v)
{
    list_remove(&v->node);
    free(v->name);
    free(v);
}

static bool is_idle(const struct pool *p, const struct version *v)
{
    return v->members == 0 && v != p->active;
}

/* Names come from workers, so the number of stored unused names is limited. */
static void forget_idle(struct pool *p)
{
    struct version *first = NULL;
    struct list *it;
    size_t idle = 0;

    list_for_each (it, &p->versions) {
        if (!is_idle(p, version_at(it)))
            continue;
        if (first == NULL)
            first = version_at(it);
        ++idle;
    }
    if (idle >= VERSIONS_IDLE_MAX)
        version_free(first);
}

struct version *pool_version_locked(struct pool *p, const char *name)
{
    struct list *it;

    ASSERT(p->held);
    list_for_each (it, &p->versions) {
        if (strcmp(version_at(it)->name, name) == 0)
            return version_at(it);
    }
    forget_idle(p);
    struct version *v = xcalloc(1, sizeof(*v));
    v->name = xstrdup(name);
    list_push_back(&p->versions, &v->node);
    return v;
}

void pool_versions_fini(struct pool *p)
{
    struct list *node;

    while ((node = list_pop_front(&p->versions)) != NULL)
        version_free(version_at(node));
}

static size_t standing(const struct version *v)
{
    return v != NULL && v->available != 0 ? v->members : 0;
}

static struct version *elect(struct pool *p)
{
    struct version *best = p->active;
    struct list *it;

    list_for_each (it, &p->versions)
        version_at(it)->members = version_at(it)->available = 0;
    list_for_each (it, &p->members) {
        const struct worker *w = member_at(it);

        ++w->version->members;
        w->version->available += !w->unavailable;
    }
    list_for_each (it, &p->versions) {
        if (standing(version_at(it)) > standing(best))
            best = version_at(it);
    }
    return best;
}

static uint64_t free_places(const struct worker *w)
{
    uint64_t backlog = worker_backlog(w);

    return backlog < w->concurrency ? w->concurrency - backlog : 0;
}

static void make_eligible(struct pool *p, struct worker *w)
{
    ASSERT(w->place == WORKER_INELIGIBLE);
    list_remove(&w->place_node);
    w->place = WORKER_ELIGIBLE;
    list_push_front(&p->eligible, &w->place_node);
    ++p->neligible;
    p->places += free_places(w);
    pool_skills_replace(p, w, &w->kept);
    resume_fini(&w->kept);
    ++w->lost;
    pool_policy_eligible_locked(p, w);
}

void pool_make_ineligible_locked(struct pool *p, struct worker *w, bool keep)
{
    ASSERT(p->held);
    ASSERT(w->place == WORKER_ELIGIBLE);
    pool_policy_ineligible_locked(p, w);
    if (keep)
        pool_skills_copy(w, &w->kept);
    pool_skills_clear(p, w);
    p->places -= free_places(w);
    --p->neligible;
    list_remove(&w->place_node);
    w->place = WORKER_INELIGIBLE;
    list_push_back(&p->ineligible, &w->place_node);
}

static bool is_eligible(const struct pool *p, const struct worker *w)
{
    return !w->unavailable && w->call != WORKER_WOKEN &&
           (!p->settings.single_version || w->version == p->active);
}

void pool_update_eligible_locked(struct pool *p)
{
    struct list *it;

    ASSERT(p->held);
    p->active = elect(p);
    list_for_each (it, &p->members) {
        struct worker *w = member_at(it);

        if (w->place == WORKER_ELIGIBLE && !is_eligible(p, w))
            pool_make_ineligible_locked(p, w, true);
    }
    /* In reverse order of joining, so that the worker that joined first is at the front. */
    for (it = p->members.prev; it != &p->members; it = it->prev) {
        struct worker *w = member_at(it);

        if (w->place == WORKER_INELIGIBLE && is_eligible(p, w))
            make_eligible(p, w);
    }
    /* Without workers the pool retains its last decay, which is used for the puts of workers that
     * left. */
    if (p->neligible != 0)
        p->decay = decay_over(2.0 * (double)p->settings.backlog_history * (double)p->neligible);
    if (p->shadow != NULL)
        pool_shadow_update_eligible_locked(p);
}
