/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule. n workers are eligible; of a class
 *
 *     s = n * its work / all work             its share, in workers
 *     d = work that arrived / time            its demand, in workers, of the last requests
 *     h = number of its homes                 at most max_share * n, fewer in a flood, more when
 *                                             there is hardly anything else
 *
 * and of a worker B, its work in flight, and L, its load (homes_index.c). P is what a cold request
 * costs, V = PATIENCE * (P + median(B)) how long one may wait for its home. A class is parallel if
 * it has ever had two requests in flight; another one is moved, but not replicated.
 *
 *     no home:  argmin over x of L(x) + (B(x) - min B) / P                               NEW
 *     else w = the home with the least B, x as above of those that are no homes:
 *       w, the only home, was handed the class and has served nothing of it yet, and
 *         x saves more than CLAIM_COLD * P: x                                            REASSIGN
 *       B(w) - B(x) > P h / (PER_SHARE s), at most V, the class is parallel, and there
 *         is room for a home: x                                                          REPLICATE
 *       B(w) - min B > V, the class has little of it, and x saves more than P: x         REASSIGN
 *       another class floods w, and x saves more than SAVES_COLD * P: x                REASSIGN
 *       s / h is not too small, and L of its most loaded home is far above the least L: that
 *         home moves there; if h > 1, only where homes are few, and to an idle worker    REBALANCE
 *       the median of B is next to nothing, the class is parallel and has little of
 *         B(w), and x saves more than SAVES_COLD * P: x, this once                       OVERFLOW
 *       w                                                                                HOME
 *
 * With several load balancers d and a class's own part of B are what each has, times their number,
 * and REPLICATE, the last REASSIGN and REBALANCE are left to the one that owns the class
 * (homes_shared.c).
 *
 * In the common case neither x nor V is needed: B(w) - min B, an upper bound of what any x saves,
 * is first compared with the lowest of the prices.
 */
#include <math.h>

#include "routing/homes/homes_internal.h"

struct choosing {
    struct homes *h;
    const struct homes_class *c; /* NULL: new */
    const struct homes_request *r;
    struct homes_plan *plan;
    struct homes_choice *out; /* plan->choice */
    struct homes_worth worth;
    bool owned; /* with several load balancers: by this one */
};

static double patience_of(const struct homes *h)
{
    return HOMES_PATIENCE * (h->cold_us + homes_median(h));
}

static double price_of(const struct homes *h, const struct homes_plan *plan)
{
    const struct homes_choice *c = &plan->choice;

    return c->homes == 0 ? 0 : h->cold_us * real_of(c->homes) / (HOMES_PER_SHARE * c->share);
}

/* ---- how much a class needs ---- */

size_t homes_room(const struct homes *h, double part, double own_us, double all_us)
{
    double others = all_us > 0 && !h->o.settings.always ? 1 - own_us / all_us : 1;
    double room =
        greater_of(part, 1 - HOMES_OTHERS_ROOM * others) * real_of(homes_eligible(h)) - 1e-9;

    if (room <= 1)
        return 1;
    /* Rounded up. */
    int64_t whole = (int64_t)room;
    return (size_t)(whole + ((double)whole < room));
}

/* Computes the class's shares as if the request had already arrived. */
static void add_own_share(struct choosing *g)
{
    static const struct homes_class nothing = {0};
    const struct homes *h = g->h;
    const struct homes_class *c = g->c != NULL ? g->c : &nothing;
    struct homes_plan *plan = g->plan;
    double n = real_of(homes_eligible(h));
    double max_share = h->o.settings.max_share;
    double cost = greater_of(c->cost_us > 0 ? (double)c->cost_us : h->mean_us, 1);

    double left = 1 / h->fade.weight;

    plan->work = fading_sum(&c->work, &h->fade) * left + cost;
    plan->asked = fading_sum(&c->asked, &h->fade) * left + 1;
    plan->all_work = fading_sum(&h->work, &h->fade) * left + cost;
    plan->all_asked = fading_sum(&h->asked, &h->fade) * left + 1;
    double share = n * plan->work / plan->all_work;
    plan->worth = greater_of(share, n * plan->asked / plan->all_asked);
    plan->demand = fading_value(&c->demand, &h->moment) + cost;
    /* In workers. Many requests may come in no time; the workers are busy with them for longer. */
    double time_us = greater_of(fading_value(&h->passed, &h->moment),
                                HOMES_TAU_DEMAND * HOMES_MOST * h->mean_us);
    double demand =
        real_of(h->nbalancers) * plan->demand * n / (time_us * real_of(h->eligible_places));
    plan->parallel = c->parallel;
    g->out->expected_us = cost;
    g->out->share = share;
    g->out->homes_max = homes_room(
        h, demand > HOMES_FLOOD * max_share * n ? max_share * HOMES_FLOOD_ROOM : max_share,
        plan->work, plan->all_work);
}

/* ---- which worker ---- */

static bool is_home_of(const struct homes_class *c, const struct homes_worker *w)
{
    for (uint32_t i = 0; c != NULL && i < c->nhomes; ++i) {
        if (c->pairs[i]->worker == w)
            return true;
    }
    return false;
}

struct homes_candidate {
    struct homes_worker *worker;
    double value;
};

static void consider_worker(const struct choosing *g, struct homes_worker *w,
                            struct homes_candidate *best)
{
    double value =
        homes_load_by(&g->worth, w) + (w->key[HOMES_BY_WORK] - g->out->least_us) / g->h->cold_us;

    bool better = best->worker == NULL || value < best->value ||
                  (value == best->value && w->number < best->worker->number);

    if (better && !is_home_of(g->c, w) && !homes_rejected(g->r, w))
        *best = (struct homes_candidate){w, value};
}

/* argmin of L(x) + (B(x) - min B) / P over those that are no homes: over all, or over the first
 * levels of both orders, where it most likely is; if all of these are rejected, any that is not. */
static noinline_ struct homes_worker *best_other(const struct choosing *g)
{
    const struct homes_heap *by_work = &g->h->heaps[HOMES_BY_WORK];
    const struct homes_heap *by_load = &g->h->heaps[HOMES_BY_LOAD];
    struct homes_candidate best = {0};
    size_t i = 0;

    if (by_work->n <= HOMES_SCAN_MAX) {
        for (; i < by_work->n; ++i)
            consider_worker(g, by_work->at[i], &best);
        return best.worker;
    }
    for (; i < HOMES_SCAN_MAX / 2; ++i) {
        consider_worker(g, by_work->at[i], &best);
        consider_worker(g, by_load->at[i], &best);
    }
    for (; best.worker == NULL && i < by_work->n; ++i)
        consider_worker(g, by_work->at[i], &best);
    return best.worker;
}

/* Returns best_other() if it has less work in flight than the home by more than SAVES; or NULL. */
static struct homes_worker *other_saving(const struct choosing *g, double saves)
{
    /* An upper bound of what any saves. */
    if (g->out->home_us - g->out->least_us <= saves)
        return NULL;
    struct homes_worker *x = best_other(g);
    return x != NULL && g->out->home_us - x->key[HOMES_BY_WORK] > saves ? x : NULL;
}

/* ---- the steps of the rule ---- */

static bool choose_worker(struct choosing *g, struct homes_worker *w, enum homes_reason reason)
{
    if (w == NULL)
        return false;
    g->plan->worker = w;
    g->out->reason = reason;
    return true;
}

static noinline_ bool first_home(struct choosing *g)
{
    struct homes_plan *plan = g->plan;
    const struct homes_options *o = &g->h->o;

    /* Resumes count only if nothing is known of the class here, not after it lost its homes. */
    if (o->warm != NULL && (g->c == NULL || g->c->npairs == 0))
        plan->nwarm = o->warm(o->context, g->r->cls, plan->warm);
    ASSERT(plan->nwarm <= HOMES_WARM_MAX);
    for (size_t i = 0; i < plan->nwarm; ++i) {
        if (plan->warm[i]->eligible && !homes_rejected(g->r, plan->warm[i]))
            return choose_worker(g, plan->warm[i], HOMES_WARM);
    }
    return choose_worker(g, best_other(g), HOMES_NEW);
}

static bool move_to(struct choosing *g, struct homes_pair *from, struct homes_worker *x,
                    enum homes_reason reason)
{
    g->plan->from = from;
    g->out->from = from->worker;
    return choose_worker(g, x, reason);
}

/* Moves the class away from HOME if that saves more than SAVES. */
static bool move_away(struct choosing *g, struct homes_pair *home, double saves,
                      enum homes_cause cause)
{
    struct homes_worker *x = other_saving(g, saves);

    if (x == NULL)
        return false;
    g->out->cause = cause;
    return move_to(g, home, x, HOMES_REASSIGN);
}

/* Returns true if less than half of the work in flight at HOME is the class's own. */
static bool is_victim(const struct choosing *g, const struct homes_pair *home)
{
    double own_us = real_of(g->h->nbalancers) * real_of(home->own_us) * home->worker->per_place;

    return own_us < HOMES_MOST * g->out->home_us;
}

/* Adds a home (REPLICATE), or moves the class away from HOME (REASSIGN), if that pays. */
static bool relieve_home(struct choosing *g, struct homes_pair *home)
{
    const struct homes *h = g->h;
    struct homes_choice *out = g->out;
    double over = out->home_us - g->out->least_us;
    bool room = out->homes < out->homes_max && g->owned && g->plan->parallel;
    bool victim = is_victim(g, home);

    double price = out->price_us = price_of(h, g->plan);
    if (!(room && over > price) && !(victim && over > HOMES_PATIENCE * h->cold_us))
        return false;
    double patience = out->patience_us = patience_of(h);
    bool may_replicate = room && over > price && price <= patience;
    bool may_move = victim && over > patience;
    if (!may_replicate && !may_move)
        return false;
    struct homes_worker *x = best_other(g);
    if (x == NULL)
        return false;
    double saves = out->home_us - x->key[HOMES_BY_WORK];
    if (may_replicate && saves > price)
        return choose_worker(g, x, HOMES_REPLICATE);
    if (may_move && saves > h->cold_us)
        return move_to(g, home, x, HOMES_REASSIGN);
    return false;
}

/* A flood by another class will last, so waiting until V does not help. */
static bool leave_flood(struct choosing *g, struct homes_pair *home)
{
    const struct homes *h = g->h;
    const struct homes_worker *w = home->worker;

    if (w->most == NULL || w->most == home ||
        w->most->in_flight_n * h->nbalancers < HOMES_FLOODED_REQUESTS * w->concurrency ||
        real_of(w->most->own_us) < HOMES_MOST * real_of(w->own_us))
        return false;
    return move_away(g, home, HOMES_SAVES_COLD * h->cold_us, HOMES_FLOODED);
}

/* Moves the class away from a home that received it by hand-over and has not served it yet: its
 * cache contains no more than that of other workers. */
static bool leave_unserved(struct choosing *g, struct homes_pair *home)
{
    return !home->touched && g->out->homes == 1 &&
           move_away(g, home, HOMES_CLAIM_COLD * g->h->cold_us, HOMES_UNSERVED);
}

/* From the most loaded of its homes to the least loaded worker. */
static bool rebalance_class(struct choosing *g, struct homes_pair *home)
{
    const struct homes *h = g->h;
    struct homes_worker *x = homes_top(h, HOMES_BY_LOAD);

    /* A worker that has just got a class gets another when that one is warm, or if a cold request
     * waits there for much less. */
    double wait_us = x != NULL && x->ncold >= x->concurrency ? HOMES_SAVES_COLD * h->cold_us : 0;
    if (x == NULL || x->key[HOMES_BY_WORK] + wait_us > g->out->home_us)
        return false;
    /* If there are few homes, all may belong to classes with several homes; else there are enough
     * classes with a single home, and their requests move with it. */
    bool idle = g->worth.work * homes_work_per_place(x) < HOMES_MOST * HOMES_LOAD_WORK;
    bool few = h->eligible_homes <= HOMES_REBALANCE_FEW * homes_eligible(h);
    if (g->out->homes > 1 && !(idle && few))
        return false;
    struct homes_pair *from = home; /* the most loaded of the class's homes */
    for (uint32_t i = 0; i < g->c->nhomes; ++i) {
        struct homes_pair *p = g->c->pairs[i];

        if (p->worker->eligible && homes_before(from->worker, p->worker, HOMES_BY_LOAD))
            from = p;
    }
    double share = g->out->share / real_of(g->out->homes);
    double own = (idle ? HOMES_REBALANCE_OWN_IDLE : HOMES_REBALANCE_OWN) *
                 (HOMES_LOAD_WORK * share + g->worth.home);
    double gap = homes_load_by(&g->worth, from->worker) - homes_load_by(&g->worth, x);
    /* Loads differ by chance: of N requests, the work is off by a part of sqrt(1 / N). */
    double n = g->plan->all_asked / real_of(homes_eligible(h));
    if (gap <= own || gap <= own + HOMES_REBALANCE_NOISE * HOMES_LOAD_WORK / sqrt(n) ||
        share < HOMES_REBALANCE_SHARE * h->usual_share * gap || is_home_of(g->c, x) ||
        homes_rejected(g->r, x))
        return false;
    return move_to(g, from, x, HOMES_REBALANCE);
}

/* Serves this request elsewhere if half of the workers are idle: the loads there delay no others.
 * A class that causes the wait itself may not use more workers than its homes in this way. */
static bool overflow_request(struct choosing *g, const struct homes_pair *home)
{
    const struct homes *h = g->h;
    double saves = HOMES_SAVES_COLD * h->cold_us;
    double spare_us = HOMES_SPARE_COLD * h->cold_us;

    if (!g->plan->parallel || g->out->home_us - g->out->least_us <= saves ||
        g->out->least_us > spare_us || !is_victim(g, home) || homes_median(h) > spare_us)
        return false;
    return choose_worker(g, other_saving(g, saves), HOMES_OVERFLOW);
}

static bool rule_choose(struct choosing *g)
{
    struct homes_pair *home = NULL; /* the one with the least work that may have the request */

    for (uint32_t i = 0; g->c != NULL && i < g->c->nhomes; ++i) {
        struct homes_pair *p = g->c->pairs[i];

        if (!p->worker->eligible)
            continue;
        ++g->out->homes;
        g->plan->parallel |= p->in_flight_n != 0;
        if ((home == NULL || homes_before(p->worker, home->worker, HOMES_BY_WORK)) &&
            !homes_rejected(g->r, p->worker))
            home = p;
    }
    if (g->out->homes == 0)
        return first_home(g);
    if (home == NULL)
        return choose_worker(g, best_other(g), HOMES_OVERFLOW);
    g->out->home_us = home->worker->key[HOMES_BY_WORK];
    g->owned = !homes_shared(g->h) || homes_owns(g->h, g->r->cls);
    /* Usually no worker has less work in flight, so moving saves nothing. */
    if (g->out->home_us > g->out->least_us &&
        (leave_unserved(g, home) || relieve_home(g, home) || (g->owned && leave_flood(g, home))))
        return true;
    if ((g->owned && rebalance_class(g, home)) || overflow_request(g, home))
        return true;
    g->plan->home = home;
    return choose_worker(g, home->worker, HOMES_HOME);
}

void homes_plan(struct homes *h, const struct homes_request *r, struct homes_plan *out)
{
    uint64_t hash = r->cls_hash != 0 ? r->cls_hash : class_hash(r->cls);
    struct class_entry *e = classes_find_hashed(&h->classes, r->cls, hash);
    struct choosing g = {.h = h, .r = r, .plan = out, .out = &out->choice};

    homes_tick(h, r->now_us);
    g.worth = homes_order(h);
    memset(out, 0, offsetof(struct homes_plan, warm));
    const struct homes_worker *least = homes_top(h, HOMES_BY_WORK);
    if (least == NULL)
        return;
    g.c = out->cls = homes_class_of(e);
    out->choice.least_us = least->key[HOMES_BY_WORK];
    add_own_share(&g);
    (void)rule_choose(&g);
}

/* ---- for status pages and explanations ---- */

size_t homes_of(struct homes *h, struct slice cls, struct homes_worker *out[], size_t max)
{
    const struct homes_class *c = homes_class_of(classes_find(&h->classes, cls));

    for (size_t i = 0; c != NULL && i < c->nhomes && i < max; ++i)
        out[i] = c->pairs[i]->worker;
    return c != NULL ? c->nhomes : 0;
}

static void add_sight(const struct homes *h, const struct homes_request *r,
                      const struct homes_plan *plan, struct homes_worker *w,
                      struct homes_evidence *out)
{
    const struct homes_choice *c = &plan->choice;
    double work_us = homes_work_of(w);

    out->sights[out->n++] = (struct homes_sight){
        .worker = w,
        .home = is_home_of(plan->cls, w),
        .eligible = w->eligible,
        .rejected = homes_rejected(r, w),
        .work_us = work_us,
        .saves_us = c->homes != 0 ? c->home_us - work_us : 0,
        .cost = homes_load(h, w) + (work_us - c->least_us) / h->cold_us,
    };
}

void homes_evaluate(const struct homes *h, const struct homes_request *r,
                    const struct homes_plan *plan, struct homes_evidence *out)
{
    const struct homes_heap *heap = &h->heaps[HOMES_BY_WORK];
    const struct homes_class *c = plan->cls;
    uint32_t nhomes = c != NULL ? c->nhomes : 0;

    *out = (struct homes_evidence){
        .cold_us = h->cold_us,
        .price_us = price_of(h, plan),
        .patience_us = patience_of(h),
        .owned = homes_owns(h, r->cls),
        .sights = xcalloc(heap->n + nhomes + 1, sizeof(*out->sights)),
    };
    for (uint32_t i = 0; i < 2 * nhomes; ++i) {
        struct homes_worker *w = c->pairs[i % nhomes]->worker;

        if (w->eligible == (i < nhomes))
            add_sight(h, r, plan, w, out);
    }
    for (size_t i = 0; i < heap->n; ++i) {
        if (!is_home_of(c, heap->at[i]))
            add_sight(h, r, plan, heap->at[i], out);
    }
}
