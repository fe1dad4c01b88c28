/* SPDX-License-Identifier: Apache-2.0
 *
 * The guard against requests that kill workers, as exchanges use it (poison.h decides).
 */
#include "lb/request/exchange.h"

#include "common/base/log.h"
#include "lb/request/headers.h"
#include "lb/rules/poison.h"

static struct poison_rule rule_of(const struct exchange *x)
{
    const struct app_settings *s = exchange_settings(x);

    return (struct poison_rule){.deaths = (unsigned)s->poison_deaths,
                                .window_ms = s->poison_window_ms,
                                .hold_ms = s->poison_hold_ms};
}

static struct poison_key key_of(const struct exchange *x)
{
    return (struct poison_key){.cls = x->cls, .path = http_request_path(x->req)};
}

static void tell(const struct exchange *x, enum poison_verdict v, const struct poison_key *key)
{
    char cls[LOG_CUT_ROOM];
    char path[LOG_CUT_ROOM];

    if (v == POISON_NOTHING)
        return;
    if (v == POISON_TOO_MANY) {
        log_error(NULL, "poison-table-full", "application=%s limit=%d action=\"not blocking\"",
                  x->app->name, POISON_HELD_MAX);
        return;
    }
    stat_add(x->al->stats, APP_STAT_poison_holds, 1);
    log_error(NULL, "poison-blocked",
              "application=%s class=\"%s\" path=\"%s\" deaths=%lld for_ms=%llu", x->app->name,
              log_cut(key->cls, cls), log_cut(key->path, path),
              (long long)exchange_settings(x)->poison_deaths,
              (unsigned long long)exchange_settings(x)->poison_hold_ms);
}

bool guard_worker_died(struct exchange *x)
{
    const struct poison_rule rule = rule_of(x);
    const struct poison_key key = key_of(x);
    enum poison_verdict v =
        poison_death(x->app->poison, &rule, &key, x->member->worker, loop_now_ms(x->home->loop));

    tell(x, v, &key);
    return guard_refuses(x);
}

void guard_answered_(const struct exchange *x)
{
    const struct poison_rule rule = rule_of(x);
    const struct poison_key key = key_of(x);

    poison_answered(x->app->poison, &rule, &key, loop_now_ms(x->home->loop));
}

bool guard_refuses_(const struct exchange *x)
{
    const struct poison_key key = key_of(x);

    return exchange_settings(x)->poison_deaths != 0 &&
           poison_holds(x->app->poison, &key, loop_now_ms(x->home->loop));
}
