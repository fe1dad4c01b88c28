/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/config/app_config.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/program/program_config.h"
#include "worker-agent/config/command.h"
#include "worker-agent/pool/registration.h"
#include "worker-agent/supervisor/keeper_wire.h"

/* What the steps of reading share. */
struct reader {
    const struct config *yaml;
    const struct agent_config *agent;
    const struct config_node *key, *map;
    struct app_config *c;
    unsigned host_max;
    struct diag *d;
};

/* Where setting NAME stands, or the application itself. */
static const struct config_node *place(const struct reader *r, const char *name)
{
    const struct config_node *at =
        r->map != NULL && r->map->kind == CONFIG_MAP ? config_get(r->map, name) : NULL;

    return at != NULL ? at : r->key;
}

static void complain(const struct reader *r, const char *name, const char *what)
{
    config_complain(r->yaml, place(r, name), r->d, "%s: %s", name, what);
}

/*
 * An application's state is in the folder of state_dir with its name, beside files of the agent's
 * own. Of tree.json there are also tree.json.bad and tree.json.tmp.PID.
 */
static bool is_own_file(struct slice name)
{
    return slice_is(name, AGENT_LOCK_NAME) || slice_is(name, KEEPER_SOCKET_NAME) ||
           slice_is(name, KEEPER_LOCK_NAME) || slice_is(name, KEEPER_RUN_NAME) ||
           slice_is(name, HOST_MEMORY_NAME) || slice_starts(name, SLICE_LIT(HOST_MEMORY_NAME "."));
}

static void check_name(const struct reader *r)
{
    struct slice name = r->key->text;
    bool good = name.len > 0 && name.len <= APP_NAME_MAX && name.p[0] != '.';

    for (size_t i = 0; good && i < name.len; ++i) {
        char c = name.p[i];

        good = (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    }
    if (!good) {
        config_complain(
            r->yaml, r->key, r->d,
            "an application's name is 1-%d letters, digits, '-', '_', '.', not first a '.'",
            APP_NAME_MAX);
    } else if (is_own_file(name)) {
        config_complain(r->yaml, r->key, r->d,
                        "applications: %.*s is the name of a file of the agent's own in state_dir; "
                        "choose another name",
                        SLICE_FMT(name));
    }
}

/* ---- environment ---- */

static bool good_variable(struct slice name)
{
    for (size_t i = 0; i < name.len; ++i) {
        char c = name.p[i];

        if (!((ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z') || c == '_' ||
              (i > 0 && c >= '0' && c <= '9')))
            return false;
    }
    return name.len > 0;
}

static void read_environment(const struct reader *r)
{
    const struct config_node *map = r->c->s.environment;

    if (map == NULL)
        return;
    if (map->kind != CONFIG_MAP || map->n > APP_WORDS_MAX) {
        config_complain(r->yaml, map, r->d,
                        "environment: expected at most %d lines \"NAME: value\"", APP_WORDS_MAX);
        return;
    }
    r->c->env = xcalloc(map->n + 1, sizeof(*r->c->env));
    for (size_t i = 0; i < map->n; ++i) {
        if (!good_variable(map->keys[i]->text) ||
            slice_starts(map->keys[i]->text, SLICE_LIT("LISTEN_"))) {
            config_complain(r->yaml, map->keys[i], r->d,
                            "environment: not a variable's name, or one that we set ourselves");
            continue;
        }
        if (map->items[i]->kind != CONFIG_SCALAR) {
            config_complain(r->yaml, map->items[i], r->d, "environment: a value must be a text");
            continue;
        }
        r->c->env[r->c->nenv++] =
            (struct env_var){xslicedup(map->keys[i]->text), xslicedup(map->items[i]->text)};
    }
}

/* ---- user and group ---- */

static bool find_group(const struct reader *r, gid_t *gid)
{
    uint64_t number;
    struct slice text = slice_of(r->c->s.group);

    if (parse_u64(text, UINT32_MAX - 1, &number)) {
        *gid = (gid_t)number;
        return true;
    }
    const struct group *g = getgrnam(r->c->s.group);
    if (g == NULL) {
        complain(r, "group", "there is no such group");
        return false;
    }
    *gid = g->gr_gid;
    return true;
}

/* Whether the agent runs as a user other than root. Only its keeper can then start processes as
 * other users. */
static bool has_own_user(const struct agent_config *a)
{
    return a->own.wanted && a->own.uid != 0;
}

static bool is_agents_own(const struct reader *r)
{
    const struct privileges *own = &r->agent->own;

    return has_own_user(r->agent) && r->c->uid == own->uid && r->c->gid == own->gid;
}

static void become_agents_own(struct app_config *c, const struct privileges *own)
{
    c->switch_user = true;
    c->ngroups = own->ngroups;
    memcpy(c->groups, own->groups, (size_t)own->ngroups * sizeof(gid_t));
}

static bool is_in_group(const struct app_config *c, gid_t gid)
{
    for (int i = 0; i < c->ngroups; ++i) {
        if (c->groups[i] == gid)
            return true;
    }
    return false;
}

/* What the agent may write and reach as its user must not be other users' to write, nor theirs out
 * of its reach. */
static void check_other_user(const struct reader *r)
{
    const char *at = r->c->s.user != NULL ? "user" : "group";
    const struct privileges *own = &r->agent->own;
    const struct app_config *c = r->c;

    if (c->uid == 0)
        complain(r, at, "root: an agent that has a user itself starts no processes of root");
    else if (c->uid != own->uid && is_in_group(c, own->gid))
        complain(r, at,
                 "is in the group of the agent's own user: give the agent a group that no "
                 "application has");
    else if (c->uid != own->uid && c->listen == LISTEN_BY_SOCKET)
        complain(r, at,
                 "with {socket} in command or environment: an agent that has a user itself cannot "
                 "connect to a socket that another one makes; use {port} or an inherited socket");
}

static bool may_switch(const struct reader *r)
{
    if (has_own_user(r->agent) || geteuid() == 0)
        return true;
    complain(r, r->c->s.user != NULL ? "user" : "group", "needs an agent that runs as root");
    return false;
}

/* Returns false if the user does not exist. */
static bool find_login(const struct reader *r)
{
    struct app_config *c = r->c;
    const struct passwd *p = getpwnam(c->login);

    if (p == NULL) {
        if (c->s.user != NULL)
            complain(r, "user", "there is no such user");
        return false;
    }
    if (c->s.user != NULL) {
        c->uid = p->pw_uid;
        c->gid = p->pw_gid;
    }
    c->home = xstrdup(p->pw_dir);
    return true;
}

static void find_user(const struct reader *r)
{
    const struct privileges *own = &r->agent->own;
    struct app_config *c = r->c;
    int n = APP_GROUPS_MAX;

    c->uid = own->wanted ? own->uid : geteuid();
    c->gid = own->wanted ? own->gid : getegid();
    c->login = c->s.user != NULL ? c->s.user : r->agent->s.user;
    if (c->login != NULL && !find_login(r))
        return;
    if (c->s.group != NULL && !find_group(r, &c->gid))
        return;
    if (is_agents_own(r)) {
        become_agents_own(c, own);
        return;
    }
    if ((c->s.user == NULL && c->s.group == NULL) || !may_switch(r))
        return;
    c->switch_user = true;
    c->groups[0] = c->gid;
    c->ngroups = 1;
    if (c->s.user != NULL) {
        if (getgrouplist(c->s.user, c->gid, c->groups, &n) < 0) {
            complain(r, "user", "is in too many groups");
            return;
        }
        c->ngroups = n;
    }
    if (has_own_user(r->agent))
        check_other_user(r);
}

/* ---- processes ---- */

static void check_probe(const struct reader *r)
{
    const char *p = r->c->s.ready_probe;

    if (p == NULL)
        return;
    for (const char *at = p; *at != '\0'; ++at) {
        if ((unsigned char)*at <= 0x20 || (unsigned char)*at >= 0x7f) {
            complain(r, "ready_probe", "must be a path of printable ASCII characters");
            return;
        }
    }
    if (p[0] != '/')
        complain(r, "ready_probe", "must be a path that begins with '/'");
}

static void check_command(const struct reader *r)
{
    const struct text_list *command = &r->c->s.command;
    char why[SETTINGS_WHY_ROOM];

    if (command->n == 0) {
        if (config_get(r->map, "command") == NULL)
            complain(r, "command", "is required (or attach)");
        return;
    }
    if (command->n == 1 && strchr(command->items[0], ' ') != NULL &&
        access(command->items[0], F_OK) != 0)
        complain(r, "command",
                 "is one word with blanks in it: write a list, [program, argument, ...]");
    if (!command_check(r->c, why))
        complain(r, "command", why);
    if (r->c->s.root[0] != '/')
        complain(r, "root", "must be an absolute path");
}

static void read_attach(const struct reader *r)
{
    struct app_config *c = r->c;

    if (c->s.command.n != 0)
        complain(r, "attach", "command and attach exclude one another");
    c->attach = xcalloc(c->s.attach.n, sizeof(*c->attach));
    for (size_t i = 0; i < c->s.attach.n; ++i) {
        if (addr_parse(slice_of(c->s.attach.items[i]), &c->attach[i]) != ERR_OK)
            config_complain(r->yaml, place(r, "attach"), r->d,
                            "attach: \"%s\" is not a numeric HOST:PORT or unix:/path",
                            c->s.attach.items[i]);
    }
}

static void read_processes(const struct reader *r)
{
    struct app_config *c = r->c;

    if (c->s.attach.n != 0) {
        read_attach(r);
        return;
    }
    if (c->s.min_processes == 0 && c->s.max_processes == 0 && r->host_max == 0)
        complain(r, "max_processes",
                 "with neither min_processes nor max_processes there are no slots");
    check_command(r);
    check_probe(r);
    find_user(r);
}

static void read_listen(const struct reader *r)
{
    struct app_config *c = r->c;

    c->doors = xcalloc(c->s.listen.n + 1, sizeof(*c->doors));
    for (size_t i = 0; i < c->s.listen.n; ++i) {
        enum err e = addr_parse(slice_of(c->s.listen.items[i]), &c->doors[c->ndoors]);

        if (e == ERR_OK)
            ++c->ndoors;
        else
            config_addr_complain(r->yaml, place(r, "listen"), "listen", c->s.listen.items[i], e,
                                 r->d);
    }
}

unsigned app_config_slots(const struct app_settings *s, const struct slot_address *a,
                          unsigned host_max)
{
    unsigned room = a != NULL ? slot_address_room(a) : APP_SLOTS_MAX;
    unsigned n = (unsigned)s->min_processes;

    if (s->max_processes != 0)
        return (unsigned)s->max_processes;
    if (host_max > n)
        n = host_max < room ? host_max : room;
    return n != 0 ? n : 1;
}

/* And with it how many slots there are. */
static void read_address(const struct reader *r)
{
    struct app_config *c = r->c;
    /* Those that are asked for; that there may be more follows from the address. */
    unsigned n = (unsigned)(c->s.max_processes != 0 ? c->s.max_processes : c->s.min_processes);
    char why[SETTINGS_WHY_ROOM];

    if (c->s.attach.n != 0)
        n = (unsigned)c->s.attach.n;
    if (c->s.address == NULL && c->s.listen.n == 0 && config_get(r->map, "address") == NULL)
        complain(r, "address", "is required (or listen)");
    if (c->s.address != NULL &&
        slot_address_parse(slice_of(c->s.address), n, &c->address, why) != ERR_OK) {
        config_complain(r->yaml, place(r, "address"), r->d, "address: \"%s\" %s", c->s.address,
                        why);
        return;
    }
    c->has_address = c->s.address != NULL;
    c->nslots = n;
    if (c->s.attach.n == 0)
        c->nslots = app_config_slots(&c->s, c->has_address ? &c->address : NULL, r->host_max);
}

struct app_config *app_config_read(const struct agent_config *agent, const struct config_node *key,
                                   const struct config_node *map, struct diag *d)
{
    struct app_config *c = xcalloc(1, sizeof(*c));
    const struct config *yaml = &agent->yaml;
    struct reader r = {.yaml = yaml,
                       .agent = agent,
                       .key = key,
                       .map = map,
                       .c = c,
                       .host_max = (unsigned)agent->s.max_processes,
                       .d = d};
    unsigned errors_before = d->errors;
    char why[SETTINGS_WHY_ROOM];

    c->name = xslicedup(key->text);
    c->origins = xcalloc(app_table.n, sizeof(*c->origins));
    check_name(&r);
    settings_read(&app_table, yaml, map, &c->s, c->origins, d);
    if (map->kind != CONFIG_MAP) {
        if (d->errors == errors_before)
            config_complain(yaml, key, d, "%s: has no settings", c->name);
        return c;
    }
    if (!app_settings_check(&c->s, why))
        config_complain(yaml, key, d, "%s: %s", c->name, why);
    c->path = c->s.path != NULL ? xstrdup(c->s.path) : xasprintf("/%s/workers", c->name);
    if (c->path[0] != '/')
        complain(&r, "path", "must begin with '/'");
    if (c->s.advertise != NULL && !registration_advertise_good(c->s.advertise))
        complain(&r, "advertise", "must be a host name or an address, without a port");
    if (strlen(c->s.version) > VERSION_MAX)
        complain(&r, "version", "is too long");
    read_environment(&r);
    read_processes(&r);
    read_listen(&r);
    read_address(&r);
    if (d->errors == errors_before)
        command_spec(c, c->spec);
    return c;
}

void app_config_destroy(struct app_config *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->nenv; ++i) {
        free(c->env[i].name);
        free(c->env[i].value);
    }
    free(c->env);
    free(c->attach);
    free(c->doors);
    free(c->path);
    free(c->home);
    slot_address_fini(&c->address);
    settings_fini(&app_table, &c->s);
    free(c->origins);
    free(c->name);
    free(c);
}
