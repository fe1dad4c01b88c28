/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/rules/peer_line.h"

#include "common/base/limits.h"
#include "common/skills/resume.h"

static const char invalid_name[] = "name of a worker missing, or over its limit";

/* {"v":1,"balancer":INSTANCE,"applications":{NAME:FINGERPRINT}} */
static const char *read_first(struct peer_line *l)
{
    const char *name;
    json_t *v;

    l->kind = PEER_LINE_FIRST;
    l->instance = json_text(l->object, "balancer");
    l->applications = json_object_get(l->object, "applications");
    if (l->instance.len != PEER_INSTANCE_LEN || !json_is_object(l->applications))
        return "not the stream of a load balancer";
    /* Instances are compared as texts, so that each must have one spelling. */
    for (size_t i = 0; i < l->instance.len; ++i) {
        char c = l->instance.p[i];

        if (ascii_hex_digit(c) < 0 || ascii_lower(c) != c)
            return "invalid instance";
    }
    json_object_foreach (l->applications, name, v) {
        if (!json_is_string(v) || !resume_is_fingerprint(json_slice(v)))
            return "invalid fingerprint";
    }
    return NULL;
}

/* {"v":1,"application":NAME,"in_flight":{WORKER:N}} */
static const char *read_in_flight(struct peer_line *l, json_t *counts)
{
    const char *name;
    json_t *v;

    l->kind = PEER_LINE_IN_FLIGHT;
    l->counts = counts;
    if (!json_is_object(counts))
        return "in_flight is not an object";
    json_object_foreach (counts, name, v) {
        if (*name == '\0' || strlen(name) > HOME_FROM_MAX)
            return invalid_name;
        if (!json_is_integer(v) || json_integer_value(v) < 0 ||
            json_integer_value(v) > PEER_IN_FLIGHT_MAX)
            return "invalid number of requests";
    }
    return NULL;
}

static const char *read_object(struct peer_line *l, bool first)
{
    json_t *counts = json_object_get(l->object, "in_flight");

    if (!json_is_object(l->object))
        return "not a JSON object";
    if (!first && json_is_string(json_object_get(l->object, "end"))) {
        l->kind = PEER_LINE_END;
        return NULL;
    }
    if (json_integer_value(json_object_get(l->object, "v")) != 1)
        return "not version 1";
    if (first)
        return read_first(l);
    l->application = json_text(l->object, "application");
    if (counts != NULL)
        return read_in_flight(l, counts);
    l->kind = PEER_LINE_WORKER;
    l->worker = json_text(l->object, "worker");
    return l->worker.len == 0 || l->worker.len > HOME_FROM_MAX ? invalid_name : NULL;
}

const char *peer_line_read(struct peer_line *l, bool first, struct slice bytes,
                           char why[JSON_WHY_ROOM])
{
    *l = (struct peer_line){.kind = PEER_LINE_EMPTY};
    if (bytes.len == 0)
        return NULL;
    if (!first && home_line_is(bytes)) {
        l->kind = PEER_LINE_HOMES;
        return home_line_parse(bytes, &l->homes, why) == ERR_OK ? NULL : why;
    }
    if (json_parse(bytes, RESUME_LINE_MAX, &l->object, why) != ERR_OK)
        return why;
    return read_object(l, first);
}

void peer_line_fini(struct peer_line *l)
{
    home_line_fini(&l->homes);
    json_decref(l->object);
    *l = (struct peer_line){0};
}
