/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies and their settings by the names that they have in a configuration: the rows of scope
 * POOL in lb/settings.def, so that what is new there is known here.
 */
#include <stdlib.h>

#include "common/base/settings.h"
#include "ctl/simulate.h"
#include "lb/pool_rows.h"

struct pool_values {
#define POOL(...) SETTINGS_FIELD(__VA_ARGS__)
#include "lb/settings.def"
};

static const struct setting_row rows[] = {
#define POOL(...) SETTINGS_ROW(struct pool_values, __VA_ARGS__)
#include "lb/settings.def"
};

static const struct settings_table table = {.scope = "POOL",
                                            .where = "pool of an application",
                                            .rows = rows,
                                            .n = ARRAY_LEN(rows),
                                            .bytes = sizeof(struct pool_values)};

static const char POLICY[] = "policy";

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

static bool set(struct pool_values *v, struct slice name, struct slice value, struct diag *d)
{
    const struct setting_row *row = settings_find(&table, name);
    char why[SETTINGS_WHY_ROOM];

    if (row == NULL) {
        diag_add(d, NULL, 0, 0, "--policy: a pool has no setting '%.*s'", SLICE_FMT(name));
        return false;
    }
    if (settings_set(&table, row, value, v, why) == ERR_OK)
        return true;
    diag_add(d, NULL, 0, 0, "--policy: %.*s: %s", SLICE_FMT(name), why);
    return false;
}

/* NAME:SETTING=VALUE:SETTING=VALUE */
static bool read_one(struct slice spec, struct simulate_policy *out, struct diag *d)
{
    enum { WAITING_MAX = 1000 };
    struct pool_values v;
    struct slice rest = spec;
    struct slice name = slice_cut(&rest, ':');

    settings_defaults(&table, &v);
    bool good = set(&v, slice_of(POLICY), name, d);
    while (good && rest.len != 0) {
        struct slice value = slice_cut(&rest, ':');
        struct slice setting = slice_cut(&value, '=');

        good = set(&v, setting, value, d);
    }
    if (good) {
        out->label = xslicedup(spec);
        out->settings = POOL_SETTINGS_OF(&v);
        out->settings.max_waiting = WAITING_MAX;
    }
    settings_fini(&table, &v);
    return good;
}

bool simulate_read_policies(const char *list, struct simulate_policy *out, size_t *n,
                            struct diag *d)
{
    bool all = strcmp(list, "all") == 0;
    struct slice rest = all ? choices() : slice_of(list);

    while (rest.len != 0) {
        struct slice spec = slice_cut(&rest, all ? '|' : ',');

        if (*n == SIMULATE_POLICIES_MAX) {
            diag_add(d, NULL, 0, 0, "--policy: more than %d", SIMULATE_POLICIES_MAX);
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

    text_addf(&spec, "%s:%s=%s", from->label, setting, value);
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
