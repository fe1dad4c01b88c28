/* SPDX-License-Identifier: Apache-2.0
 *
 * A registration in the tree may have further properties, which are ignored. Here an unknown member
 * is an error: with a misspelt "ttl" a worker would be registered for good.
 */
#include "lb/rules/worker_call.h"

#include "common/base/limits.h"
#include "common/net/addr.h"

#include <stdio.h>

static const char *read_name(struct worker_call *c, struct slice path)
{
    char text[WORKER_CALL_NAME_MAX + 1];
    char canonical[ADDR_TEXT_MAX];
    size_t n = path.len <= 3 * WORKER_CALL_NAME_MAX ? percent_decode(path, text, sizeof(text))
                                                    : sizeof(text);
    struct slice name = {text, n};
    struct addr addr;

    if (n > WORKER_CALL_NAME_MAX)
        return "the address is too long";
    enum err e = addr_parse(name, &addr);
    if ((e != ERR_OK && e != ERR_UNSUPPORTED) || !utf8_valid(name) || memchr(text, '\0', n) != NULL)
        return "not an address: expected HOST:PORT, [IPV6]:PORT or unix:/path";
    if (e == ERR_OK) {
        addr = addr_plain(&addr);
        name = slice_of(addr_format(&addr, canonical));
    }
    snprintf(c->name, sizeof(c->name), "%.*s", SLICE_FMT(name));
    return name.len < sizeof(c->name) ? NULL : "the address is too long";
}

static const char *read_member(struct worker_call *c, bool put, const char *name, const json_t *v)
{
    static const struct {
        const char *name;
        size_t bytes_max;
    } texts[] = {{"description", SIZE_MAX}, {"instance", INSTANCE_MAX}, {"version", VERSION_MAX}};
    json_int_t n = json_integer_value(v);

    if (strcmp(name, "application") == 0) {
        if (json_string_length(v) == 0)
            return "\"application\" must be a name";
        text_add(&c->application, json_slice(v));
        return NULL;
    }
    if (!put)
        return "unknown member; the only one is application";
    if (strcmp(name, "ttl") == 0) {
        if (!json_is_integer(v) || n < 1 || n > WORKER_CALL_TTL_MAX)
            return "\"ttl\" must be a whole number of seconds, at most 31 days";
        c->ttl_s = (uint64_t)n;
        return NULL;
    }
    if (strcmp(name, "pid") == 0)
        return json_is_integer(v) ? NULL : "\"pid\" must be a whole number";
    for (size_t i = 0; i < ARRAY_LEN(texts); ++i) {
        if (strcmp(name, texts[i].name) == 0)
            return json_is_string(v) && json_string_length(v) <= texts[i].bytes_max
                       ? NULL
                       : "\"description\", \"instance\" and \"version\" must be strings; an "
                         "instance has at most 64 bytes, a version 100";
    }
    return "unknown member; known are application, description, instance, pid, ttl, version";
}

const char *worker_call_read(struct worker_call *c, bool put, struct slice path, struct slice body)
{
    const char *why;
    const char *name;
    json_t *v;

    *c = (struct worker_call){0};
    why = read_name(c, path);
    if (why != NULL)
        return why;
    if (slice_trim(body).len == 0)
        c->properties = json_object();
    else if (json_parse(body, WORKER_CALL_BYTES_MAX, &c->properties, NULL) != ERR_OK ||
             !json_is_object(c->properties))
        return "the body is not a JSON object";
    json_object_foreach (c->properties, name, v) {
        why = read_member(c, put, name, v);
        if (why != NULL)
            return why;
    }
    json_object_del(c->properties, "application");
    json_object_del(c->properties, "ttl");
    return NULL;
}

void worker_call_fini(struct worker_call *c)
{
    json_decref(c->properties);
    text_fini(&c->application);
}
