/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/config/command.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/json.h"

/* Of the agent's own environment, what processes may need to find programs and to speak to people.
 */
static const char *const inherited[] = {"PATH", "HOME", "LANG", "LC_ALL", "TZ"};

static bool any_word_has(const struct app_config *c, const char *place)
{
    for (size_t i = 0; i < c->s.command.n; ++i) {
        if (strstr(c->s.command.items[i], place) != NULL)
            return true;
    }
    for (size_t i = 0; i < c->nenv; ++i) {
        if (strstr(c->env[i].value, place) != NULL)
            return true;
    }
    return false;
}

/* What the message to the keeper would have of it. */
static size_t count_bytes(const struct app_config *c)
{
    json_t *all = json_pack("[o, o]", command_words(c), command_environment(c));
    struct text text = {0};

    json_print(all, &text);
    size_t bytes = text.len;
    text_fini(&text);
    json_decref(all);
    return bytes;
}

bool command_check(struct app_config *c, char why[SETTINGS_WHY_ROOM])
{
    bool port = any_word_has(c, "{port}");
    bool socket = any_word_has(c, "{socket}");

    if (port && socket) {
        snprintf(why, SETTINGS_WHY_ROOM, "has both {port} and {socket}");
        return false;
    }
    if (c->s.command.n > APP_WORDS_MAX || count_bytes(c) > APP_WORDS_BYTES_MAX) {
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

/* ---- the hash: FNV-1a, for it is compared with one that another process made ---- */

static uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
    const unsigned char *bytes = p;

    for (size_t i = 0; i < n; ++i)
        h = (h ^ bytes[i]) * 0x100000001b3ULL;
    return h;
}

/* With its NUL, so that neighbours do not run together. */
static uint64_t hash_text(uint64_t h, const char *s)
{
    return s != NULL ? hash_bytes(h, s, strlen(s) + 1) : hash_bytes(h, "\1", 1);
}

void command_spec(const struct app_config *c, char out[FINGERPRINT_LEN + 1])
{
    uint64_t h = 0xcbf29ce484222325ULL;
    int listen = c->listen;

    for (size_t i = 0; i < c->s.command.n; ++i)
        h = hash_text(h, c->s.command.items[i]);
    h = hash_text(h, "\2");
    for (size_t i = 0; i < c->nenv; ++i)
        h = hash_text(hash_text(h, c->env[i].name), c->env[i].value);
    h = hash_text(hash_text(h, c->s.root), c->s.version);
    h = hash_bytes(h, &listen, sizeof(listen));
    h = hash_bytes(h, &c->uid, sizeof(c->uid));
    h = hash_bytes(h, c->groups, sizeof(c->groups[0]) * (size_t)c->ngroups);
    snprintf(out, FINGERPRINT_LEN + 1, "%016llx", (unsigned long long)h);
}

/* ---- for the keeper ---- */

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
        set_variable(vars, "HOME", c->home);
    }
    for (size_t i = 0; i < c->nenv; ++i)
        set_variable(vars, c->env[i].name, c->env[i].value);
    json_object_foreach(vars, name, value)
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
