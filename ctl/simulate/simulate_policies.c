/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies and their settings by the names that they have in a configuration: the rows of scope
 * POOL in routing/pool_settings.def, so that what is new there is known here.
 */
#include <stdlib.h>

#include "common/config/settings.h"
#include "ctl/simulate/simulate.h"
#include "routing/pool_rows.h"

struct pool_values {
#define POOL(...) SETTINGS_FIELD(__VA_ARGS__)
#include "routing/pool_settings.def"
};

static const struct setting_row rows[] = {
#define POOL(...) SETTINGS_ROW(struct pool_values, __VA_ARGS__)
#include "routing/pool_settings.def"
};

static const struct settings_table table = {.scope = "POOL",
                                            .where = "pool of an application",
                                            .rows = rows,
                                            .n = ARRAY_LEN(rows),
                                            .bytes = sizeof(struct pool_values)};

static const char POLICY[] = "policy";

/* Settings that one policy alone goes by: with another they would change nothing. */
static const struct owned {
    const char *setting;
    enum pool_policy policy;
} owned[] = {
    {"variance", POOL_POLICY_RESUME},           {"backlog_history", POOL_POLICY_RESUME},
    {"unskilled_score", POOL_POLICY_RESUME},    {"max_share", POOL_POLICY_ADAPTIVE},
    {"max_share_always", POOL_POLICY_ADAPTIVE}, {"hash_balance_factor", POOL_POLICY_HASH},
};

/* Settings without effect on simulated workers: versions, and dormant slots. */
static const char *const without_effect[] = {"single_version", "spawn_backlog", "spawn_after"};

/* The choices of the setting `policy`, with '|' between. */
static struct slice choices(void)
{
    return slice_of(settings_find(&table, slice_of(POLICY))->min);
}

void simulate_policy_names(struct text *out)
{
    struct slice rest = choices();

    while (rest.len != 0) {
        text_add(out, slice_cut(&rest, '|'));
        if (rest.len != 0)
            text_add(out, SLICE_LIT(", "));
    }
}

/* ---- which settings a policy has ---- */

static bool obeys(const struct pool_settings *s, enum pool_policy policy)
{
    return s->policy == policy || (s->shadowed && s->shadow == policy);
}

/* Whether the policy of S, or the shadow beside it, could go by SETTING. */
static bool has_effect(const struct pool_settings *s, struct slice setting)
{
    if (slice_is(setting, POLICY))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(without_effect); ++i) {
        if (slice_is(setting, without_effect[i]))
            return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(owned); ++i) {
        if (slice_is(setting, owned[i].setting))
            return obeys(s, owned[i].policy);
    }
    return true;
}

static void complain_of_setting(const struct pool_settings *s, struct slice setting, struct diag *d)
{
    struct text names = {0};

    for (size_t i = 0; i < ARRAY_LEN(rows); ++i) {
        if (has_effect(s, slice_of(rows[i].name)))
            text_addf(&names, "%s%s", names.len != 0 ? ", " : "", rows[i].name);
    }
    diag_add(d, NULL, 0, 0, "--policy: %s has no setting '%.*s' here: it has %s",
             pool_policy_text(s->policy), SLICE_FMT(setting), text_cstr(&names));
    text_fini(&names);
}

/* ---- reading ---- */

static bool set(struct pool_values *v, struct slice name, struct slice value, struct diag *d)
{
    const struct setting_row *row = settings_find(&table, name);
    char why[SETTINGS_WHY_ROOM];

    /* check_names lists the valid names when a name is unknown. */
    if (row == NULL || settings_set(&table, row, value, v, why) == ERR_OK)
        return true;
    diag_add(d, NULL, 0, 0, "--policy: %.*s: %s", SLICE_FMT(name), why);
    return false;
}

/* The setting's name at the front of REST, with its value. */
static struct slice cut_setting(struct slice *rest, struct slice *value)
{
    *value = slice_cut(rest, ':');
    return slice_cut(value, '=');
}

static bool is_given(struct slice settings, struct slice name)
{
    struct slice value;

    while (settings.len != 0) {
        if (slice_eq(cut_setting(&settings, &value), name))
            return true;
    }
    return false;
}

/* Whether each of SETTINGS is one of S's policy, and there once. */
static bool check_names(const struct pool_settings *s, struct slice settings, struct diag *d)
{
    struct slice rest = settings, value;

    while (rest.len != 0) {
        struct slice name = cut_setting(&rest, &value);

        if (settings_find(&table, name) == NULL || !has_effect(s, name)) {
            complain_of_setting(s, name, d);
            return false;
        }
        if (is_given(rest, name)) {
            diag_add(d, NULL, 0, 0, "--policy: duplicate %.*s", SLICE_FMT(name));
            return false;
        }
    }
    return true;
}

static bool check_values(const struct pool_settings *s, struct diag *d)
{
    if (pool_hash_balances(s->hash_balance_percent))
        return true;
    diag_add(d, NULL, 0, 0, "--policy: hash_balance_factor: must be above 100, or 0 for no bound");
    return false;
}

/* NAME:SETTING=VALUE:SETTING=VALUE */
static bool read_one(struct slice spec, struct simulate_policy *out, struct diag *d)
{
    enum { WAITING_MAX = 1000 };
    struct pool_values v;
    struct slice rest = spec, value;
    struct slice name = slice_cut(&rest, ':');
    struct slice given = rest;

    if (spec.len != 0 && spec.p[spec.len - 1] == ':') {
        diag_add(d, NULL, 0, 0, "--policy: %.*s: expected SETTING=VALUE", SLICE_FMT(spec));
        return false;
    }
    settings_defaults(&table, &v);
    bool good = set(&v, slice_of(POLICY), name, d);
    while (good && rest.len != 0) {
        struct slice setting = cut_setting(&rest, &value);

        good = slice_is(setting, POLICY) || set(&v, setting, value, d);
    }
    struct pool_settings settings = POOL_SETTINGS_OF(&v);
    if (good && check_names(&settings, given, d) && check_values(&settings, d)) {
        out->label = xslicedup(spec);
        out->settings = settings;
        out->settings.max_waiting = WAITING_MAX;
    } else {
        good = false;
    }
    settings_fini(&table, &v);
    return good;
}

/* Whether one of the N before has that label: it would be the same line twice. */
static bool is_there(const struct simulate_policy *policies, size_t n, struct slice label)
{
    for (size_t i = 0; i < n; ++i) {
        if (slice_is(label, policies[i].label))
            return true;
    }
    return false;
}

bool simulate_read_policies(const char *list, struct simulate_policy *out, size_t *n,
                            struct diag *d)
{
    bool all = strcmp(list, "all") == 0;
    struct slice rest = all ? choices() : slice_of(list);

    if (rest.len == 0 || rest.p[rest.len - 1] == ',') {
        diag_add(d, NULL, 0, 0, "--policy: '%s' does not name a policy%s", list,
                 rest.len != 0 ? " after its last comma" : "");
        return false;
    }
    while (rest.len != 0) {
        struct slice spec = slice_cut(&rest, all ? '|' : ',');

        if (*n == SIMULATE_POLICIES_MAX) {
            diag_add(d, NULL, 0, 0, "--policy: more than %d", SIMULATE_POLICIES_MAX);
            return false;
        }
        if (is_there(out, *n, spec)) {
            diag_add(d, NULL, 0, 0, "--policy: duplicate %.*s", SLICE_FMT(spec));
            return false;
        }
        if (!read_one(spec, &out[*n], d))
            return false;
        ++*n;
    }
    return true;
}

bool simulate_vary_policy(const struct simulate_policy *from, const char *setting,
                          const char *value, struct simulate_policy *out)
{
    struct text spec = {0};
    struct diag d = {0};
    struct slice rest = slice_of(from->label), old;

    text_add(&spec, slice_cut(&rest, ':'));
    while (rest.len != 0) {
        struct slice name = cut_setting(&rest, &old);

        if (!slice_is(name, setting))
            text_addf(&spec, ":%.*s=%.*s", SLICE_FMT(name), SLICE_FMT(old));
    }
    text_addf(&spec, ":%s=%s", setting, value);
    bool good = read_one(text_slice(&spec), out, &d);
    diag_fini(&d);
    text_fini(&spec);
    return good;
}

void simulate_policy_fini(struct simulate_policy *p)
{
    free(p->label);
    p->label = NULL;
}
