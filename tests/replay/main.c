/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a header and operations, one JSON object a line; responds to each with one line, at once.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/replay/replay.h"

static const struct kind *const kinds[] = {&kind_pool, &kind_single_version, &kind_classless,
                                           &kind_worker_resume};

static void response(json_t *object)
{
    /* 17 digits bring every double back as it was. */
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));

    ASSERT(text != NULL);
    puts(text);
    fflush(stdout);
    free(text);
    json_decref(object);
}

static struct subject *create(const json_t *header, const char **why)
{
    const char *name = member_string(header, "kind", why);

    if (name == NULL)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(kinds); ++i) {
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i]->create(kinds[i], header, why);
    }
    *why = "no such kind";
    return NULL;
}

/* The first line that is a header starts the subject. */
static json_t *handle(struct subject **subject, const json_t *line, const char **why)
{
    if (!json_is_object(line)) {
        *why = "not a JSON object";
        return NULL;
    }
    if (*subject == NULL) {
        *subject = create(line, why);
        return *subject != NULL ? json_pack("{s:b}", "ok", 1) : NULL;
    }
    const char *op = member_string(line, "op", why);
    return op != NULL ? (*subject)->kind->step(*subject, op, line, why) : NULL;
}

int main(void)
{
    struct subject *subject = NULL;
    char *text = NULL;
    size_t room = 0;
    ssize_t len;

    while ((len = getline(&text, &room, stdin)) > 0) {
        const char *why = "not understood";
        /* All numbers as doubles: whole ones may be larger than any integer of ours. */
        json_t *line = json_loadb(text, (size_t)len, JSON_DECODE_INT_AS_REAL, NULL);
        json_t *result = handle(&subject, line, &why);

        response(result != NULL ? result : json_pack("{s:s}", "error", why));
        json_decref(line);
    }
    if (subject != NULL)
        subject->kind->destroy(subject);
    free(text);
    return 0;
}
