/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/supervisor/spawner.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/text.h"

json_t *spawn_request_message(const struct app_config *c, unsigned slot, const char *id,
                              uint64_t stop_timeout_ms)
{
    json_t *m = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:o, s:o, s:s, s:b, s:I}", "op", "spawn",
                          "id", id, "application", c->name, "spec", c->spec, "slot", (int)slot,
                          "listen", (int)c->listen, "words", command_words(c), "env",
                          command_environment(c), "root", c->s.root, "switch_user",
                          (int)c->user.wanted, "stop_timeout_ms", (json_int_t)stop_timeout_ms);

    keeper_user_put(&c->user, m);
    return m;
}

static bool take_text(const json_t *m, const char *name, char *out, size_t room)
{
    const char *s = json_string_value(json_object_get(m, name));

    if (s == NULL || strlen(s) >= room)
        return false;
    memcpy(out, s, strlen(s) + 1);
    return true;
}

static bool take_list(const json_t *m, const char *name, char ***out, size_t *n)
{
    const json_t *list = json_object_get(m, name);
    size_t i;
    json_t *item;

    if (!json_is_array(list) || json_array_size(list) > (size_t)2 * APP_WORDS_MAX)
        return false;
    *out = xcalloc(json_array_size(list) + 1, sizeof(char *));
    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            return false;
        (*out)[(*n)++] = xstrdup(json_string_value(item));
    }
    return true;
}

static bool take_number(const json_t *m, const char *name, json_int_t max, json_int_t *out)
{
    const json_t *v = json_object_get(m, name);

    *out = json_integer_value(v);
    return json_is_integer(v) && *out >= 0 && *out <= max;
}

static bool take_user(const json_t *m, struct spawn_request *r)
{
    bool whole = keeper_user_parse(m, &r->user);

    r->user.wanted = json_is_true(json_object_get(m, "switch_user"));
    return whole;
}

static bool good_id(const char *id)
{
    /* It becomes a file's name. */
    return strlen(id) >= 16 && strspn(id, "0123456789abcdef") == strlen(id);
}

bool spawn_request_parse(const json_t *m, struct spawn_request *out, char why[KEEPER_WHY_MAX])
{
    json_int_t slot;
    json_int_t listen;
    json_int_t stop;
    const char *root = json_string_value(json_object_get(m, "root"));
    bool good = take_text(m, "id", out->id, sizeof(out->id)) && good_id(out->id) &&
                take_text(m, "application", out->application, sizeof(out->application)) &&
                take_text(m, "spec", out->spec, sizeof(out->spec)) &&
                take_number(m, "slot", INT32_MAX, &slot) &&
                take_number(m, "listen", LISTEN_BY_SOCKET, &listen) &&
                take_number(m, "stop_timeout_ms", INT64_MAX, &stop) && root != NULL &&
                take_user(m, out) && take_list(m, "words", &out->words, &out->nwords) &&
                out->nwords > 0 && take_list(m, "env", &out->env, &out->nenv);

    if (!good) {
        snprintf(why, KEEPER_WHY_MAX, "the request to spawn is not complete");
        return false;
    }
    out->slot = (unsigned)slot;
    out->listen = (enum listen_mode)listen;
    out->stop_timeout_ms = (uint64_t)stop;
    out->root = xstrdup(root);
    return true;
}

static void free_list(char **list, size_t n)
{
    for (size_t i = 0; i < n; ++i)
        free(list[i]);
    free(list);
}

void spawn_request_fini(struct spawn_request *r)
{
    free_list(r->words, r->nwords);
    free_list(r->env, r->nenv);
    free(r->root);
    *r = (struct spawn_request){0};
}
