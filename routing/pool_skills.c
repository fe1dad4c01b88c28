/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of classes, each with its skills, and the path back from a worker to its classes. A
 * pair of (class, worker) is in both; either end can remove it without a search in the other:
 *
 *     class "a": skills [ {w1, 35.2, slot 0}, {w2, 1.0, slot 1} ]
 *     w2: slots [ class "b", class "a" ]
 *
 * A class without skills stays only while it is known: when the one worker of a class restarts, a
 * flood must not take the class's place meanwhile.
 */
#include <math.h>
#include <stdlib.h>

#include "routing/pool_internal.h"

/* E may be NULL. */
static struct pool_class *skills_class_of(struct class_entry *e)
{
    return (struct pool_class *)(void *)e;
}

struct skill *pool_skill_of(const struct pool_class *c, const struct worker *w)
{
    for (uint32_t i = 0; c != NULL && i < c->n; ++i) {
        if (c->skills[i].worker == w)
            return &c->skills[i];
    }
    return NULL;
}

/* The last slot takes the place of the one that goes. */
static void drop_slot(struct worker *w, uint32_t slot)
{
    uint32_t last = --w->nslots;

    ++w->lost;
    if (slot == last)
        return;
    w->slots[slot] = w->slots[last];
    struct skill *moved = pool_skill_of(w->slots[slot].cls, w);
    ASSERT(moved != NULL);
    moved->slot = slot;
}

static void on_drop(void *owner, struct class_entry *e)
{
    struct pool *p = owner;
    struct pool_class *c = skills_class_of(e);

    for (uint32_t i = 0; i < c->n; ++i)
        drop_slot(c->skills[i].worker, c->skills[i].slot);
    if (c->n != 0)
        --p->nscored;
    free(c->skills);
}

void pool_skills_init(struct pool *p)
{
    classes_init(&p->classes, sizeof(struct pool_class), p->settings.max_classes, on_drop, p);
}

struct pool_class *pool_skills_find(const struct pool *p, struct slice cls)
{
    return skills_class_of(classes_find(&p->classes, cls));
}

static void remove_skill(struct pool *p, struct pool_class *c, const struct worker *w)
{
    struct skill *s = pool_skill_of(c, w);

    ASSERT(s != NULL);
    drop_slot(s->worker, s->slot);
    memmove(s, s + 1, (size_t)(&c->skills[c->n] - (s + 1)) * sizeof(*s));
    if (--c->n != 0)
        return;
    --p->nscored;
    free(c->skills);
    c->skills = NULL;
    c->room = 0;
    if (!c->base.known)
        classes_remove(&p->classes, &c->base);
}

void pool_skill_assign(struct pool *p, struct worker *w, struct slice cls, double score)
{
    enum { FIRST_SLOTS = 8 };
    struct class_entry *e = classes_find(&p->classes, cls);

    ASSERT(isfinite(score));
    /* Policies that count no requests here (adaptive) make no class known: then the class that was
     * in no resume for the longest time is dropped first. */
    if (e != NULL)
        classes_refresh(&p->classes, e);
    struct pool_class *c = skills_class_of(e != NULL ? e : classes_add(&p->classes, cls));
    struct skill *old = pool_skill_of(c, w);
    if (old != NULL) {
        struct skill renewed = {.worker = w, .score = score, .slot = old->slot};

        memmove(old, old + 1, (size_t)(&c->skills[c->n] - (old + 1)) * sizeof(*old));
        c->skills[c->n - 1] = renewed;
        w->slots[renewed.slot].resume_no = w->resume_no;
        return;
    }
    if (w->nslots == w->slots_room) {
        w->slots_room = w->slots_room != 0 ? w->slots_room * 2 : FIRST_SLOTS;
        w->slots = xrealloc(w->slots, w->slots_room * sizeof(w->slots[0]));
    }
    if (c->n == c->room) {
        c->room = c->room != 0 ? c->room * 2 : 1;
        c->skills = xrealloc(c->skills, c->room * sizeof(c->skills[0]));
    }
    if (c->n == 0)
        ++p->nscored;
    c->skills[c->n++] = (struct skill){.worker = w, .score = score, .slot = w->nslots};
    w->slots[w->nslots++] = (struct skill_slot){.cls = c, .resume_no = w->resume_no};
}

void pool_skills_replace(struct pool *p, struct worker *w, const struct resume *r)
{
    ++w->resume_no;
    /* Backwards: a resume begins with what matters most, to be dropped last. */
    for (size_t i = r->n; i-- != 0;)
        pool_skill_assign(p, w, r->rows[i].cls, r->rows[i].score);
    /* Downwards, as the last slot moves into the place of one that goes. */
    for (uint32_t i = w->nslots; i-- != 0;) {
        if (w->slots[i].resume_no != w->resume_no)
            remove_skill(p, w->slots[i].cls, w);
    }
}

void pool_skills_clear(struct pool *p, struct worker *w)
{
    while (w->nslots != 0)
        remove_skill(p, w->slots[w->nslots - 1].cls, w);
    free(w->slots);
    w->slots = NULL;
    w->slots_room = 0;
}

size_t pool_skills_forget(struct pool *p, struct worker *w, const struct slice *cls)
{
    size_t n = w->nslots;

    if (cls == NULL) {
        pool_skills_clear(p, w);
        return n;
    }
    struct pool_class *c = pool_skills_find(p, *cls);
    if (pool_skill_of(c, w) == NULL)
        return 0;
    remove_skill(p, c, w);
    return 1;
}

double pool_skills_score(const struct worker *w, uint32_t i)
{
    const struct skill *s = pool_skill_of(w->slots[i].cls, w);

    ASSERT(s != NULL);
    return s->score;
}

void pool_skills_copy(const struct worker *w, struct resume *out)
{
    if (w->state != WORKER_ELIGIBLE) {
        resume_copy(out, &w->stored);
        return;
    }
    for (uint32_t i = 0; i < w->nslots; ++i)
        resume_push(out, class_name(&w->slots[i].cls->base), pool_skills_score(w, i));
}
