/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the state of the pool in pieces, while requests are processed. Between two pieces other
 * threads may acquire the lock; code that removes a worker from the list being scanned advances the
 * position of the scan (pool_look_past_locked). With the lock held, only a few bytes for the pool
 * itself are allocated.
 */
#include <stdlib.h>

#include "common/base/limits.h"
#include "routing/pool_internal.h"

enum { TRIES = 3 /* at the skills of one worker in pieces */ };

/* Workers that are copied while the lock is held once. */
struct piece {
    size_t n;
    struct worker_view workers[POOL_LOOK_WORKERS];
    char versions[POOL_LOOK_WORKERS][VERSION_MAX + 1];
};

static void look_at_worker(struct worker *w, struct piece *out)
{
    const char *version = w->version != NULL ? w->version->name : "";
    size_t len = strnlen(version, VERSION_MAX);

    pool_view_worker_locked(w, &out->workers[out->n]);
    memcpy(out->versions[out->n], version, len);
    out->versions[out->n][len] = '\0';
    ++out->n;
}

/* As many as fit into a piece, seen or not. False: that was the last of HEAD. MEMBERS: else
 * leaving.
 */
static bool look_on(struct pool *p, const struct list *head, bool members, struct piece *out)
{
    struct list *it = p->look_next;

    out->n = 0;
    for (size_t i = 0; i < POOL_LOOK_WORKERS && it != head; ++i, it = it->next) {
        struct worker *w = members ? list_entry(it, struct worker, member_node)
                                   : list_entry(it, struct worker, place_node);

        if (w->looked_at == p->look)
            continue;
        w->looked_at = p->look;
        look_at_worker(w, out);
    }
    p->look_next = it != head ? it : NULL;
    return it != head;
}

static void keep_piece(const struct piece *piece, size_t *room, size_t n, struct pool_view *out)
{
    if (*room - n < piece->n) {
        *room = 2 * *room + POOL_LOOK_WORKERS;
        out->workers = xrealloc(out->workers, *room * sizeof(out->workers[0]));
    }
    for (size_t i = 0; i < piece->n; ++i) {
        struct worker_view *v = &out->workers[n + i];

        *v = piece->workers[i];
        v->version = xstrdup(piece->versions[i]);
        pool_view_names(v);
    }
}

/* Appends the workers of HEAD after the N in OUT. Returns the new number. */
static size_t look_at_list(struct pool *p, struct list *head, bool members, size_t *room, size_t n,
                           struct pool_view *out)
{
    struct piece piece;
    size_t before = n;
    bool more = true;

    pool_lock(p);
    p->look_next = head->next;
    pool_let_in(p);
    while (more) {
        pool_lock(p);
        more = look_on(p, head, members, &piece);
        pool_let_in(p);
        keep_piece(&piece, room, n, out);
        n += piece.n;
    }
    return n - before;
}

/* ---- skills ---- */

struct skill_piece {
    size_t n;
    struct {
        double score;
        size_t len;
        char cls[CLASS_BYTES_MAX];
    } rows[POOL_LOOK_SKILLS];
};

static size_t skills_of(const struct worker *w)
{
    return w->place == WORKER_ELIGIBLE ? w->nslots : w->kept.n;
}

static void take_skill(const struct worker *w, size_t i, struct skill_piece *out)
{
    bool eligible = w->place == WORKER_ELIGIBLE;
    struct slice cls = eligible ? class_name(&w->slots[i].cls->base) : w->kept.rows[i].cls;

    ASSERT(cls.len <= CLASS_BYTES_MAX);
    out->rows[out->n].score = eligible ? pool_skills_score(w, (uint32_t)i) : w->kept.rows[i].score;
    out->rows[out->n].len = cls.len;
    if (cls.len != 0)
        memcpy(out->rows[out->n].cls, cls.p, cls.len);
    ++out->n;
}

/* In pieces. False: some have gone meanwhile, so that others may have been missed. */
static bool try_skills(struct pool *p, const struct worker *w, struct resume *out)
{
    struct skill_piece piece;
    uint32_t lost = 0;
    size_t from = 0;
    bool more = true;

    while (more) {
        piece.n = 0;
        pool_lock(p);
        if (from == 0)
            lost = w->lost;
        bool same = lost == w->lost;
        while (same && piece.n < POOL_LOOK_SKILLS && from + piece.n < skills_of(w))
            take_skill(w, from + piece.n, &piece);
        from += piece.n;
        more = same && from < skills_of(w);
        pool_let_in(p);
        if (!same)
            return false;
        for (size_t i = 0; i < piece.n; ++i)
            resume_push(out, (struct slice){piece.rows[i].cls, piece.rows[i].len},
                        piece.rows[i].score);
    }
    return true;
}

static void look_at_skills(struct pool *p, struct worker *w, struct resume *out)
{
    for (int i = 0; i < TRIES; ++i) {
        if (try_skills(p, w, out))
            return;
        resume_fini(out);
    }
    /* It is never at rest: once with the lock held throughout. */
    pool_lock(p);
    if (w->place == WORKER_ELIGIBLE)
        pool_skills_copy(w, out);
    else
        resume_copy(out, &w->kept);
    pool_let_in(p);
}

void pool_look(struct pool *p, bool skills, struct pool_view *out)
{
    pthread_mutex_lock(&p->look_lock);
    pool_lock(p);
    pool_view_figures_locked(p, out);
    size_t room = p->nmembers + p->nleaving + 1;
    ++p->look;
    pool_let_in(p);
    out->workers = xcalloc(room, sizeof(out->workers[0]));
    out->n = look_at_list(p, &p->members, true, &room, 0, out);
    out->ndetached = look_at_list(p, &p->leaving, false, &room, out->n, out);
    pthread_mutex_unlock(&p->look_lock);
    for (size_t i = 0; skills && i < out->n + out->ndetached; ++i)
        look_at_skills(p, out->workers[i].worker, &out->workers[i].skills);
}
