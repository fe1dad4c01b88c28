/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading continues after an error, so that all errors are reported at once.
 */
#include "worker-agent/config/agent_config.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/json.h"
#include "common/base/map.h"
#include "common/program/program_config.h"
#include "common/tree/tree.h"
#include "common/wire/http1_head.h"

enum {
    HOST_NAME_ROOM = 256,                 /* for gethostname(): more than Linux has */
    TICKET_ROTATION_MS = 8 * 3600 * 1000, /* as a load balancer's by default */
};

/* ---- an application ---- */

struct app_reader {
    const struct agent_config *top; /* its top level is already read */
    const struct config_node *key, *map;
    struct app_config *c;
    struct diag *d;
};

/* The node of setting NAME, or if it is not set of the application, for messages. */
static const struct config_node *agent_node_at(const struct app_reader *r, const char *name)
{
    return config_node_at(r->map, name, r->key);
}

static void agent_complain(const struct app_reader *r, const char *name, const char *what)
{
    config_complain(&r->top->yaml, agent_node_at(r, name), r->d, "%s: %s", name, what);
}

/* Names of applications and hosts: letters, digits, '-', '_' and '.', not first a '.'. */
static bool is_valid_name(struct slice name)
{
    return name.len > 0 && name.p[0] != '.' && slice_is_word(name, "-_.");
}

static void check_name(const struct app_reader *r)
{
    static const char *const own_files[] = {AGENT_LOCK_NAME, SUPERVISOR_SOCKET_NAME,
                                            SUPERVISOR_LOCK_NAME, SUPERVISOR_RUN_NAME,
                                            HOST_MEMORY_NAME};
    struct slice name = r->key->text;
    /* Of tree.json there are also tree.json.bad and tree.json.tmp.PID. */
    bool own = slice_starts(name, SLICE_LIT(HOST_MEMORY_NAME "."));

    for (size_t i = 0; i < ARRAY_LEN(own_files); ++i)
        own |= slice_is(name, own_files[i]);
    if (name.len > APP_NAME_MAX || !is_valid_name(name)) {
        config_complain(&r->top->yaml, r->key, r->d,
                        "an application's name consists of 1-%d letters, digits, '-', '_', '.', "
                        "and does not begin with '.'",
                        APP_NAME_MAX);
    } else if (own) {
        config_complain(&r->top->yaml, r->key, r->d,
                        "applications: %.*s is the name of a file of the agent's own in state_dir; "
                        "choose another name",
                        SLICE_FMT(name));
    }
}

/* ---- the command ---- */

/* Of the agent's own environment: what processes may need to find programs or to print text. */
static const char *const inherited[] = {"PATH", "HOME", "LANG", "LC_ALL", "TZ"};

bool command_check(struct app_config *c, char why[SETTINGS_WHY_ROOM])
{
    bool port = false;
    bool socket = false;
    json_t *all = json_pack("[o, o]", command_words(c), command_environment(c));
    struct text text = {0};

    /* As in the message to the supervisor. */
    json_print(all, &text);
    size_t bytes = text.len;
    text_fini(&text);
    json_decref(all);
    for (size_t i = 0; i < c->s.command.n + c->nenv; ++i) {
        const char *word =
            i < c->s.command.n ? c->s.command.items[i] : c->env[i - c->s.command.n].value;

        port |= strstr(word, "{port}") != NULL;
        socket |= strstr(word, "{socket}") != NULL;
    }
    if (port && socket) {
        snprintf(why, SETTINGS_WHY_ROOM, "has both {port} and {socket}");
        return false;
    }
    if (c->s.command.n > APP_WORDS_MAX || bytes > APP_WORDS_BYTES_MAX) {
        snprintf(why, SETTINGS_WHY_ROOM, "with its environment has over %d words or %d bytes",
                 APP_WORDS_MAX, APP_WORDS_BYTES_MAX);
        return false;
    }
    if (port)
        c->listen = LISTEN_BY_PORT;
    else if (socket)
        c->listen = LISTEN_BY_SOCKET;
    else
        c->listen = c->s.socket == APP_SOCKET_TCP ? LISTEN_INHERITED_TCP : LISTEN_INHERITED_UNIX;
    return true;
}

/* With its NUL, so that neighbors do not run together. */
static void add_text(struct text *out, const char *s)
{
    text_add(out, s != NULL ? (struct slice){s, strlen(s) + 1} : SLICE_LIT("\1"));
}

void command_spec(const struct app_config *c, char out[FINGERPRINT_LEN + 1])
{
    const struct privileges *user = &c->user;
    struct text all = {0};
    int listen = c->listen;

    for (size_t i = 0; i < c->s.command.n; ++i)
        add_text(&all, c->s.command.items[i]);
    add_text(&all, "\2");
    for (size_t i = 0; i < c->nenv; ++i) {
        add_text(&all, c->env[i].name);
        add_text(&all, c->env[i].value);
    }
    add_text(&all, c->s.root);
    add_text(&all, c->s.version);
    text_add(&all, (struct slice){(const char *)&listen, sizeof(listen)});
    text_add(&all, (struct slice){(const char *)&user->uid, sizeof(user->uid)});
    text_add(&all, (struct slice){(const char *)user->groups,
                                  sizeof(user->groups[0]) * (size_t)user->ngroups});
    /* Not seeded: it is compared with a hash made by another process. */
    snprintf(out, FINGERPRINT_LEN + 1, "%016llx", (unsigned long long)hash_fixed(text_slice(&all)));
    text_fini(&all);
}

json_t *command_words(const struct app_config *c)
{
    json_t *words = json_array();

    for (size_t i = 0; i < c->s.command.n; ++i)
        json_array_append_new(words, json_string(c->s.command.items[i]));
    return words;
}

static void set_variable(json_t *vars, const char *name, const char *value)
{
    if (value != NULL)
        json_object_set_new(vars, name, json_string(value));
}

json_t *command_environment(const struct app_config *c)
{
    json_t *vars = json_object();
    json_t *list = json_array();
    const char *name;
    json_t *value;

    for (size_t i = 0; i < ARRAY_LEN(inherited); ++i)
        set_variable(vars, inherited[i], getenv(inherited[i]));
    if (c->login != NULL) {
        set_variable(vars, "USER", c->login);
        set_variable(vars, "LOGNAME", c->login);
        set_variable(vars, "HOME", c->home_directory);
    }
    for (size_t i = 0; i < c->nenv; ++i)
        set_variable(vars, c->env[i].name, c->env[i].value);
    json_object_foreach (vars, name, value)
        json_array_append_new(list, json_sprintf("%s=%s", name, json_string_value(value)));
    json_decref(vars);
    return list;
}

char *command_replace(const char *word, const char *place, const char *with)
{
    struct text out = {0};
    const char *at;

    while ((at = strstr(word, place)) != NULL) {
        text_add(&out, (struct slice){word, (size_t)(at - word)});
        text_add(&out, slice_of(with));
        word = at + strlen(place);
    }
    text_add(&out, slice_of(word));
    char *copy = xstrdup(text_cstr(&out));
    text_fini(&out);
    return copy;
}

static void read_environment(const struct app_reader *r)
{
    const struct config_node *map = r->c->s.environment;

    if (map == NULL)
        return;
    if (map->kind != CONFIG_MAP || map->n > APP_WORDS_MAX) {
        config_complain(&r->top->yaml, map, r->d,
                        "environment: expected at most %d lines \"NAME: value\"", APP_WORDS_MAX);
        return;
    }
    r->c->env = xcalloc(map->n + 1, sizeof(*r->c->env));
    for (size_t i = 0; i < map->n; ++i) {
        struct slice name = map->keys[i]->text;
        const struct config_node *value = map->items[i];

        if (config_is_null(value))
            continue;
        if (name.len == 0 || (name.p[0] >= '0' && name.p[0] <= '9') || !slice_is_word(name, "_") ||
            slice_starts(name, SLICE_LIT("LISTEN_")))
            config_complain(
                &r->top->yaml, map->keys[i], r->d,
                "environment: not a valid name of a variable, or one that the agent sets");
        else if (value->kind != CONFIG_SCALAR)
            config_complain(&r->top->yaml, value, r->d, "environment: a value must be a text");
        else
            r->c->env[r->c->nenv++] = (struct env_var){xslicedup(name), xslicedup(value->text)};
    }
}

/* ---- user and group ---- */

/* Processes of other users must not write the agent's files; it must reach their sockets. */
static void check_other_user(const struct app_reader *r, const char *at)
{
    const struct privileges *own = &r->top->own;
    const struct app_config *c = r->c;
    bool other = c->user.uid != own->uid;
    bool shares_group = false;

    for (int i = 0; i < c->user.ngroups; ++i)
        shares_group |= c->user.groups[i] == own->gid;
    if (c->user.uid == 0)
        agent_complain(r, at, "root: an agent that has a user does not start processes of root");
    else if (other && shares_group)
        agent_complain(r, at,
                       "is in the group of the agent's own user: use a group for the agent that no "
                       "application has");
    else if (other && c->listen == LISTEN_BY_SOCKET)
        agent_complain(
            r, at,
            "with {socket} in command or environment: an agent that has a user cannot connect "
            "to a socket of another user; use {port} or an inherited socket");
}

static void find_user(const struct app_reader *r)
{
    const struct privileges *own = &r->top->own;
    struct app_config *c = r->c;
    const char *at = c->s.user != NULL ? "user" : "group";
    /* For an agent of another user than root, only the supervisor can change to other users. */
    bool has_own_user = own->required && own->uid != 0;
    uint64_t number;

    c->user.uid = own->required ? own->uid : geteuid();
    c->user.gid = own->required ? own->gid : getegid();
    c->login = c->s.user != NULL ? c->s.user : r->top->s.user;
    if (c->login != NULL) {
        const struct passwd *p = getpwnam(c->login);

        if (p == NULL && c->s.user != NULL)
            agent_complain(r, "user", "unknown user");
        if (p == NULL)
            return;
        if (c->s.user != NULL) {
            c->user.uid = p->pw_uid;
            c->user.gid = p->pw_gid;
        }
        c->home_directory = xstrdup(p->pw_dir);
    }
    if (c->s.group != NULL && parse_u64(slice_of(c->s.group), UINT32_MAX - 1, &number)) {
        c->user.gid = (gid_t)number;
    } else if (c->s.group != NULL) {
        const struct group *g = getgrnam(c->s.group);

        if (g == NULL) {
            agent_complain(r, "group", "unknown group");
            return;
        }
        c->user.gid = g->gr_gid;
    }
    if (has_own_user && c->user.uid == own->uid && c->user.gid == own->gid) {
        c->user = *own;
        return;
    }
    if (c->s.user == NULL && c->s.group == NULL)
        return;
    if (!has_own_user && geteuid() != 0) {
        agent_complain(r, at, "needs an agent that runs as root");
        return;
    }
    c->user.required = true;
    c->user.groups[0] = c->user.gid;
    c->user.ngroups = c->s.user != NULL ? PRIVILEGES_GROUPS_MAX : 1;
    if (c->s.user != NULL &&
        getgrouplist(c->s.user, c->user.gid, c->user.groups, &c->user.ngroups) < 0)
        agent_complain(r, "user", "is in too many groups");
    else if (has_own_user)
        check_other_user(r, at);
}

/* ---- processes ---- */

static void read_processes(const struct app_reader *r)
{
    struct app_config *c = r->c;
    const struct text_list *command = &c->s.command;
    const char *probe = c->s.ready_probe;
    char why[SETTINGS_WHY_ROOM];
    bool printable = true;

    if (c->s.attach.n != 0) {
        if (command->n != 0)
            agent_complain(r, "attach", "command and attach exclude one another");
        c->attach = xcalloc(c->s.attach.n, sizeof(*c->attach));
        for (size_t i = 0; i < c->s.attach.n; ++i) {
            if (addr_parse(slice_of(c->s.attach.items[i]), &c->attach[i]) != ERR_OK)
                config_complain(&r->top->yaml, agent_node_at(r, "attach"), r->d,
                                "attach: \"%s\" is not a numeric HOST:PORT or unix:/path",
                                c->s.attach.items[i]);
        }
        return;
    }
    if (c->s.min_processes == 0 && c->s.max_processes == 0 && r->top->s.max_processes == 0)
        agent_complain(r, "max_processes",
                       "with neither min_processes nor max_processes there are no slots");
    /* Any other list has been reported. */
    const struct config_node *node = config_get(r->map, "command");
    if (command->n == 0 && (node == NULL || node->kind == CONFIG_SCALAR || node->n == 0))
        agent_complain(r, "command", "is required (or attach)");
    if (command->n > 0 && command->items[0][0] == '\0')
        agent_complain(r, "command", "its first word, the program, is empty");
    if (command->n == 1 && strchr(command->items[0], ' ') != NULL &&
        access(command->items[0], F_OK) != 0)
        agent_complain(r, "command",
                       "is one word with blanks in it: write a list, [program, argument, ...]");
    if (command->n > 0 && !command_check(c, why))
        agent_complain(r, "command", why);
    if (command->n > 0 && c->s.root[0] != '/')
        agent_complain(r, "root", "must be an absolute path");
    for (const char *p = probe; p != NULL && *p != '\0'; ++p)
        printable &= *p > 0x20 && *p < 0x7f;
    if (!printable)
        agent_complain(r, "ready_probe", "must be a path of printable ASCII characters");
    else if (probe != NULL && probe[0] != '/')
        agent_complain(r, "ready_probe", "must be a path that begins with '/'");
    if (!slice_is_word(slice_of(c->s.ready_probe_host), "-_.[]:") ||
        !http_authority_valid(slice_of(c->s.ready_probe_host)))
        agent_complain(r, "ready_probe_host", "must be a host name, or HOST:PORT");
    find_user(r);
}

unsigned app_config_room(const struct app_config *c)
{
    return c->has_address ? slot_address_room(&c->address) : APP_SLOTS_MAX;
}

unsigned app_config_slots(const struct app_config *c, const struct agent_app_settings *s,
                          unsigned host_max)
{
    unsigned room = app_config_room(c);
    unsigned n = (unsigned)s->min_processes;

    if (s->max_processes != 0)
        return (unsigned)s->max_processes;
    if (host_max > n)
        n = host_max < room ? host_max : room;
    return n != 0 ? n : 1;
}

/* Reads `address`, which also limits the number of slots. */
static void read_address(const struct app_reader *r)
{
    struct app_config *c = r->c;
    /* Slots that are configured; the address determines whether there may be more. */
    unsigned n = (unsigned)(c->s.max_processes != 0 ? c->s.max_processes : c->s.min_processes);
    char why[SETTINGS_WHY_ROOM];

    if (c->s.attach.n != 0)
        n = (unsigned)c->s.attach.n;
    if (c->s.address == NULL && c->s.listen.n == 0 && config_get(r->map, "address") == NULL)
        agent_complain(r, "address", "is required (or listen)");
    if (c->s.address != NULL &&
        slot_address_parse(slice_of(c->s.address), n, &c->address, why) != ERR_OK) {
        config_complain(&r->top->yaml, agent_node_at(r, "address"), r->d, "address: \"%s\" %s",
                        c->s.address, why);
        return;
    }
    c->has_address = c->s.address != NULL;
    c->nslots = n;
    if (c->s.attach.n == 0)
        c->nslots = app_config_slots(c, &c->s, (unsigned)r->top->s.max_processes);
}

/* Reads the application KEY: MAP; never NULL. After an error (in D) it may only be destroyed. */
static struct app_config *read_app(const struct agent_config *top, const struct config_node *key,
                                   const struct config_node *map, struct diag *d)
{
    struct app_config *c = xcalloc(1, sizeof(*c));
    const struct app_reader r = {.top = top, .key = key, .map = map, .c = c, .d = d};
    struct addr a;
    unsigned errors_before = d->errors;
    char why[SETTINGS_WHY_ROOM];

    c->name = xslicedup(key->text);
    c->origins = xcalloc(app_table.n, sizeof(*c->origins));
    check_name(&r);
    settings_read(&app_table, &top->yaml, map, &c->s, c->origins, d);
    if (map->kind != CONFIG_MAP) {
        if (d->errors == errors_before)
            config_complain(&top->yaml, key, d, "%s: has no settings", c->name);
        return c;
    }
    if (!app_settings_check(&c->s, why))
        config_complain(&top->yaml, key, d, "%s: %s", c->name, why);
    c->path = c->s.path != NULL ? xstrdup(c->s.path) : xasprintf("/%s/workers", c->name);
    if (c->path[0] != '/')
        agent_complain(&r, "path", "must begin with '/'");
    if (c->s.advertise != NULL) {
        char *text = xasprintf("%s:1", c->s.advertise);
        enum err e = addr_parse(slice_of(text), &a);

        /* A host name, or an address that is not a wildcard. */
        if (e != ERR_UNSUPPORTED &&
            (e != ERR_OK || a.sa.sa_family == AF_UNIX || addr_is_wildcard(&a)))
            agent_complain(&r, "advertise", "must be a host name or an address, without a port");
        free(text);
    }
    if (strlen(c->s.version) > VERSION_MAX)
        agent_complain(&r, "version", "is too long");
    read_environment(&r);
    read_processes(&r);
    c->listen_addrs = xcalloc(c->s.listen.n + 1, sizeof(*c->listen_addrs));
    for (size_t i = 0; i < c->s.listen.n; ++i)
        c->nlisten_addrs +=
            config_read_addr(&top->yaml, agent_node_at(&r, "listen"), "listen",
                             c->s.listen.items[i], &c->listen_addrs[c->nlisten_addrs], d);
    read_address(&r);
    if (d->errors == errors_before)
        command_spec(c, c->spec);
    return c;
}

/* ---- tls ---- */

static void read_tls(struct agent_config *c, struct diag *d)
{
    struct agent_tls_settings s;
    struct diag sub = {0};
    unsigned before = d->errors;

    if (c->s.tls == NULL)
        return;
    settings_read(&tls_table, &c->yaml, c->s.tls, &s, NULL, d);
    if (s.certificate == NULL && d->errors == before)
        config_complain(&c->yaml, c->s.tls, d, "tls: certificate is required");
    if (s.key == NULL && d->errors == before)
        config_complain(&c->yaml, c->s.tls, d, "tls: key is required");
    if ((s.client_ca != NULL) != (s.client_verify != CLIENT_CERTIFICATE_OFF) && d->errors == before)
        config_complain(&c->yaml, c->s.tls, d, "tls: client_ca and client_verify go together");
    if (d->errors == before) {
        const struct tls_certificate_files files = {.certificate = s.certificate, .key = s.key};
        const struct tls_listener_options o = {
            .certificates = &files,
            .ncertificates = 1,
            .client_ca = s.client_ca,
            .clients = (enum client_certificate_mode)s.client_verify,
            .context = {.tls13_only = s.min_version == TLS_VERSION_13,
                        .ciphers = s.ciphers,
                        .ciphersuites = s.ciphersuites},
            .ticket_rotation_ms = TICKET_ROTATION_MS,
        };

        c->tls = tls_listener_create(&o, &sub);
    }
    if (c->tls == NULL)
        config_complain_all(&c->yaml, c->s.tls, "tls: ", &sub, d);
    diag_fini(&sub);
    settings_fini(&tls_table, &s);
}

/* ---- the top ---- */

/* The node of a setting at the top of the file, for messages. */
static const struct config_node *top_node(const struct agent_config *c, const char *name)
{
    return config_node_at(c->yaml.root, name, c->yaml.root);
}

static void check_top(struct agent_config *c, struct diag *d)
{
    const struct config_node *at = top_node(c, "state_dir");
    const char *dir = c->s.state_dir;
    char host[HOST_NAME_ROOM] = "";

    if (dir == NULL)
        config_complain(&c->yaml, c->yaml.root, d, "state_dir: is required");
    else if (dir[0] != '/')
        config_complain(&c->yaml, at, d, "state_dir: must be an absolute path");
    else if (strlen(dir) > STATE_DIR_MAX)
        config_complain(&c->yaml, at, d,
                        "state_dir: at most %d bytes, so that unix sockets in it fit",
                        STATE_DIR_MAX);
    else
        config_check_directory(&c->yaml, at, "state_dir", dir, true, d);
    config_check_output(&c->yaml, config_get(c->yaml.root, "trace_log"), "trace_log",
                        c->s.trace_log, d);
    if (c->s.applications == NULL || c->s.applications->n == 0)
        config_complain(&c->yaml, c->yaml.root, d, "applications: at least one is required");
    tree_check_config(&c->yaml, top_node(c, "tree"), c->s.tree, top_node(c, "zookeeper_auth"),
                      c->s.zookeeper_auth, d);
    if (c->s.host_path != NULL) {
        c->host_path = xstrdup(c->s.host_path);
        if (c->host_path[0] != '/' || c->host_path[1] == '\0')
            config_complain(&c->yaml, top_node(c, "host_path"), d,
                            "host_path: must begin with '/', and name a node");
    } else if (gethostname(host, sizeof(host) - 1) == 0 && is_valid_name(slice_of(host))) {
        c->host_path = xasprintf("/hosts/%s", host);
    }
    /* Access through a unix socket is controlled by the permissions of its file. */
    c->allow.unix_peers = true;
    at = top_node(c, "allow");
    for (size_t i = 0; i < c->s.allow.n; ++i) {
        const char *text = c->s.allow.items[i];
        enum err e = networks_add(&c->allow, slice_of(text));

        if (e == ERR_RANGE)
            config_complain(&c->yaml, at, d, "allow: %s has address bits beyond its prefix", text);
        else if (e == ERR_TOO_LARGE)
            config_complain(&c->yaml, at, d, "allow: more than %d networks", NETWORKS_MAX);
        else if (e != ERR_OK)
            config_complain(&c->yaml, at, d,
                            "allow: \"%s\" is not a network, an address or \"loopback\"", text);
    }
}

/* ---- applications ---- */

struct seen_address {
    struct addr addr;
    const struct app_config *app;
};

static int compare_seen(const void *a, const void *b)
{
    return strcmp(addr_text(&((const struct seen_address *)a)->addr),
                  addr_text(&((const struct seen_address *)b)->addr));
}

/* Two that listen at one address would take each other's requests. */
static void check_addresses(const struct agent_config *c, struct diag *d)
{
    size_t total = 0;
    size_t n = 0;

    for (size_t i = 0; i < c->napps; ++i)
        total += c->apps[i]->nslots + c->apps[i]->nlisten_addrs;
    struct seen_address *seen = xcalloc(total + 1, sizeof(*seen));
    for (size_t i = 0; i < c->napps; ++i) {
        const struct app_config *app = c->apps[i];

        for (unsigned k = 0; app->has_address && k < app->nslots; ++k) {
            seen[n].app = app;
            slot_address_of(&app->address, k, &seen[n++].addr);
        }
        for (size_t k = 0; k < app->nlisten_addrs; ++k)
            seen[n++] = (struct seen_address){app->listen_addrs[k], app};
    }
    for (size_t i = 0; i < n; ++i)
        admin_config_check_free(&c->admin, &c->yaml, c->s.admin, seen[i].app->name, &seen[i].addr,
                                1, d);
    qsort(seen, n, sizeof(*seen), compare_seen);
    for (size_t i = 1; i < n; ++i) {
        const struct addr *a = &seen[i].addr;

        if (compare_seen(&seen[i - 1], &seen[i]) == 0 &&
            (a->sa.sa_family == AF_UNIX || addr_port(a) != 0))
            config_complain(&c->yaml, c->s.applications, d,
                            "applications: %s and %s both listen at %s", seen[i - 1].app->name,
                            seen[i].app->name, addr_text(a));
    }
    free(seen);
}

/* Checks what concerns several applications. */
static void check_apps(struct agent_config *c, struct diag *d)
{
    int64_t always = 0;

    for (size_t i = 0; i < c->napps; ++i)
        always += c->apps[i]->attach != NULL ? 0 : c->apps[i]->s.min_processes;
    if (c->s.max_processes != 0 && always > c->s.max_processes)
        config_complain(&c->yaml, top_node(c, "max_processes"), d,
                        "max_processes: %lld is less than the %lld of all min_processes together",
                        (long long)c->s.max_processes, (long long)always);
    /* The users that processes may have, where the agent has one itself. */
    if (c->own.required && c->own.uid != 0) {
        c->users = xcalloc(1, sizeof(*c->users));
        bool fits = supervisor_rights_add(c->users, &c->own);
        for (size_t i = 0; i < c->napps && fits; ++i)
            fits = !c->apps[i]->user.required || supervisor_rights_add(c->users, &c->apps[i]->user);
        if (!fits)
            config_complain(&c->yaml, c->s.applications, d,
                            "applications: more than %d users, with an agent that has one itself",
                            SUPERVISOR_USERS_MAX);
    }
    /* In one node the two would take each other's settings: both have a max_processes. */
    for (size_t i = 0; i < c->napps; ++i) {
        if (c->host_path != NULL && strcmp(c->apps[i]->path, c->host_path) == 0)
            config_complain(&c->yaml, top_node(c, "host_path"), d,
                            "host_path: %s is the node of %s too", c->host_path, c->apps[i]->name);
    }
    check_addresses(c, d);
}

static void read_apps(struct agent_config *c, struct diag *d)
{
    const struct config_node *map = c->s.applications;
    unsigned errors_before = d->errors;

    if (map == NULL)
        return;
    if (map->kind != CONFIG_MAP || map->n > APPS_MAX) {
        config_complain(&c->yaml, map, d,
                        "applications: expected at most %d lines \"name: settings\"", APPS_MAX);
        return;
    }
    c->apps = xcalloc(map->n + 1, sizeof(struct app_config *));
    for (size_t i = 0; i < map->n; ++i) {
        struct app_config *app = read_app(c, map->keys[i], map->items[i], d);

        if (agent_config_app(c, app->name) != NULL)
            config_complain(&c->yaml, map->keys[i], d, "applications: duplicate entry %s",
                            app->name);
        c->apps[c->napps++] = app;
    }
    if (d->errors == errors_before)
        check_apps(c, d);
}

struct agent_config *agent_config_read(const char *file, struct diag *d)
{
    struct agent_config *c = xcalloc(1, sizeof(*c));
    unsigned errors_before = d->errors;

    if (config_read(file, &c->yaml, d)) {
        c->origins = xcalloc(agent_table.n, sizeof(*c->origins));
        settings_read(&agent_table, &c->yaml, c->yaml.root, &c->s, c->origins, d);
        check_top(c, d);
        user_rights_check(&c->yaml, c->s.user, c->s.group, &c->own, d);
        read_tls(c, d);
        admin_config_read(&admin_table, &c->yaml, c->s.admin, &c->admin, d);
        read_apps(c, d);
    }
    if (d->errors == errors_before)
        return c;
    agent_config_destroy(c);
    return NULL;
}

void agent_config_destroy(struct agent_config *c)
{
    if (c == NULL)
        return;
    for (size_t i = 0; i < c->napps; ++i) {
        struct app_config *app = c->apps[i];

        for (size_t k = 0; k < app->nenv; ++k) {
            free(app->env[k].name);
            free(app->env[k].value);
        }
        free(app->env);
        free(app->attach);
        free(app->listen_addrs);
        free(app->path);
        free(app->home_directory);
        slot_address_fini(&app->address);
        settings_fini(&app_table, &app->s);
        free(app->origins);
        free(app->name);
        free(app);
    }
    free(c->apps);
    free(c->users);
    networks_fini(&c->allow);
    tls_listener_destroy(c->tls);
    free(c->host_path);
    free(c->origins);
    admin_config_fini(&admin_table, &c->admin);
    settings_fini(&agent_table, &c->s);
    config_fini(&c->yaml);
    free(c);
}

const struct app_config *agent_config_app(const struct agent_config *c, const char *name)
{
    for (size_t i = 0; i < c->napps; ++i) {
        if (strcmp(c->apps[i]->name, name) == 0)
            return c->apps[i];
    }
    return NULL;
}
