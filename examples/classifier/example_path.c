/* SPDX-License-Identifier: Apache-2.0
 *
 * A classifier of one's own, on one page: the class is the start of the path. With the options "2",
 * a request for /de/shop/item/7 is of class "de/shop"; without options, of class "de".
 *
 * Copy this file and classifier.h, then:
 *   cc -shared -fPIC -o my_classifier.so my_classifier.c
 * and in resumelb.yaml:
 *   classifier: {plugin: {path: /usr/local/lib/my_classifier.so, options: "2"}}
 */
#include "classifiers/classifier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parsed options. Constant; several threads read them concurrently. */
struct example_options {
    unsigned segments;
};

static void *example_create(const char *options, char *why, size_t why_room)
{
    unsigned segments = 1;

    if (options[0] != '\0') {
        if (options[0] < '1' || options[0] > '9' || options[1] != '\0') {
            snprintf(why, why_room, "expected a number of path segments from 1 to 9");
            return NULL;
        }
        segments = (unsigned)(options[0] - '0');
    }
    struct example_options *e = malloc(sizeof(*e));
    if (e == NULL) {
        snprintf(why, why_room, "out of memory");
        return NULL;
    }
    e->segments = segments;
    return e;
}

static void example_destroy(void *instance)
{
    free(instance);
}

static size_t example_classify(void *instance, const struct rlb_environment *env, char *out,
                               size_t room)
{
    const struct example_options *e = instance;
    size_t len;
    size_t end = 1;
    unsigned left = e->segments;
    const char *path = env->get(env, "PATH_INFO", &len);

    if (path == NULL || len == 0 || path[0] != '/')
        return (size_t)-1;
    /* Find the slash after the last requested segment, or the end of the path. */
    while (end < len && (path[end] != '/' || --left != 0))
        ++end;
    if (end - 1 > room)
        return (size_t)-1;
    memcpy(out, path + 1, end - 1);
    return end - 1;
}

static const struct rlb_classifier example = {
    .api = RLB_CLASSIFIER_API,
    .name = "example_path",
    .version = "1",
    .create = example_create,
    .destroy = example_destroy,
    .classify = example_classify,
};

const struct rlb_classifier *rlb_classifier(void)
{
    return &example;
}
