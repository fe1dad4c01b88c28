/* SPDX-License-Identifier: Apache-2.0 */
#include "common/program/admin_order.h"

#include <string.h>

#include "common/base/log.h"

int admin_order_refuse(struct text *body, int status, const char *why)
{
    struct json_writer w = {.out = body};

    json_open_object(&w, NULL);
    json_put_text(&w, "error", slice_of(why));
    json_close_object(&w);
    text_add_char(body, '\n');
    return status;
}

static const char *read_member(struct admin_order *o, const char *name, const json_t *v)
{
    struct slice text = {json_string_value(v), json_string_length(v)};

    if (!json_is_string(v))
        return "each member must be a string";
    if (strcmp(name, "application") == 0)
        o->application = text;
    else if (strcmp(name, "worker") == 0)
        o->worker = text;
    else if (strcmp(name, "class") == 0) {
        o->cls = text;
        o->has_class = true;
    } else
        return "unknown member; known are application, worker, class";
    return NULL;
}

const char *admin_order_read(struct admin_order *o, struct slice entity)
{
    const char *name;
    const char *why = NULL;
    json_t *v;

    *o = (struct admin_order){0};
    if (slice_trim(entity).len == 0)
        return NULL;
    if (json_parse(entity, ADMIN_ORDER_BYTES_MAX, &o->root, NULL) != ERR_OK ||
        !json_is_object(o->root))
        return "the body is not a JSON object";
    json_object_foreach(o->root, name, v)
    {
        if (why == NULL)
            why = read_member(o, name, v);
    }
    return why;
}

void admin_order_fini(struct admin_order *o)
{
    json_decref(o->root);
}

bool admin_order_means(const struct admin_order *o, const char *name)
{
    return o->application.len == 0 || slice_is(o->application, name);
}

void admin_order_forgotten(struct text *body, size_t workers, size_t scores)
{
    struct json_writer w = {.out = body};

    log_info(NULL, "skills-forgotten", "workers=%zu scores=%zu", workers, scores);
    json_open_object(&w, NULL);
    json_put_text(&w, "action", SLICE_LIT("forget"));
    json_put_int(&w, "workers", (int64_t)workers);
    json_put_int(&w, "scores", (int64_t)scores);
    json_close_object(&w);
    text_add_char(body, '\n');
}
