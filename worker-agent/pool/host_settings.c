/* SPDX-License-Identifier: Apache-2.0
 *
 * The same machinery as an application's (app_pool.c), over the table of the top of the file.
 */
#include "worker-agent/pool/host_settings.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/tree/live_settings.h"

struct host_settings {
    struct host_settings_options o;
    char *path; /* as at the start; NULL: the host has no node */
    struct live_settings *live;
    struct snapshot *snapshot; /* NULL: no tree, or no node */
};

static void on_live_changed(void *context, bool values)
{
    const struct host_settings *h = context;

    if (values)
        h->o.changed(h->o.context);
}

static uint64_t hold_ms(void *context, const void *now)
{
    (void)context;
    return ((const struct agent_settings *)now)->settings_hold_ms;
}

static bool is_away(void *context)
{
    const struct host_settings *h = context;
    struct tree_status tree;

    if (h->o.tree == NULL)
        return false;
    tree_status(h->o.tree, &tree);
    return !tree.connected;
}

/* A value that is read at a start only stays effective until the next one. */
static bool is_frozen(const struct setting_row *row)
{
    return agent_setting_wants_restart(row);
}

struct host_settings *host_settings_create(const struct host_settings_options *o,
                                           const struct agent_config *c)
{
    static const struct settings_table *const tables[] = {&agent_table};
    struct host_settings *h = xcalloc(1, sizeof(*h));

    h->o = *o;
    h->path = xstrdup(c->host_path);
    const struct live_settings_options live = {.loop = o->loop,
                                               .tables = tables,
                                               .ntables = ARRAY_LEN(tables),
                                               .yaml = &c->s,
                                               .origins = c->origins,
                                               .path = h->path != NULL ? h->path : "(none)",
                                               .hold_ms = hold_ms,
                                               .away = is_away,
                                               .frozen = is_frozen,
                                               .changed = on_live_changed,
                                               .context = h};
    h->live = live_settings_create(&live);
    return h;
}

void host_settings_start(struct host_settings *h)
{
    if (h->o.tree == NULL)
        return;
    if (h->path == NULL) {
        log_warn(NULL, "host-name-invalid",
                 "reason=\"host name is not a valid node name\" hint=\"set host_path\"");
        return;
    }
    char *file = xasprintf("%s/%s", h->o.state_dir, HOST_MEMORY_NAME);
    char *place = xasprintf("%s %s", h->o.tree_url, h->path);
    h->snapshot = snapshot_open(h->o.loop, file, place);
    live_settings_follow(h->live, h->o.tree, h->snapshot, LIVE_SETTINGS_PART, h->o.wait_ms);
    live_settings_recall(h->live);
    free(place);
    free(file);
}

void host_settings_configure(struct host_settings *h, const struct agent_config *c)
{
    live_settings_set_yaml(h->live, &c->s, c->origins);
}

void host_settings_destroy(struct host_settings *h)
{
    if (h == NULL)
        return;
    live_settings_destroy(h->live);
    snapshot_close(h->snapshot);
    free(h->path);
    free(h);
}

const struct agent_settings *host_settings_now(const struct host_settings *h)
{
    return live_settings_now(h->live);
}

void host_settings_counts(const struct host_settings *h, struct live_settings_counts *out)
{
    live_settings_counts(h->live, out);
}

void host_settings_describe(const struct host_settings *h, struct json_writer *w)
{
    if (h->path != NULL)
        json_put_text(w, "path", slice_of(h->path));
    else
        json_put_null(w, "path");
    live_settings_describe(h->live, w);
    tree_describe_broken_links(h->path != NULL ? h->o.tree : NULL, h->path, w);
}
