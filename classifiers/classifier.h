/* SPDX-License-Identifier: Apache-2.0
 *
 * The classifier contract: what a shared object must export to sort requests into classes. This
 * header stands alone: copy it with classifiers/example_path.c to write one of your own
 * (docs/guide/plugins.md).
 *
 * A class is any bytes; requests of different classes should use different data. It is
 * percent-encoded afterwards; over 255 encoded bytes counts as no class.
 */
#ifndef RLB_CLASSIFIER_H
#define RLB_CLASSIFIER_H

#include <stddef.h>

/* Goes up when the contract changes incompatibly; a plugin of another version is refused. */
#define RLB_CLASSIFIER_API 1

#define RLB_CLASSIFIER_EXPORT __attribute__((visibility("default")))

/* A request as a WSGI environment: REQUEST_METHOD, PATH_INFO (decoded), QUERY_STRING, SERVER_NAME,
 * SERVER_PORT, REMOTE_ADDR, SCRIPT_NAME, wsgi.url_scheme, SERVER_PROTOCOL, CONTENT_TYPE,
 * CONTENT_LENGTH, HTTP_*. */
struct rlb_environment {
    /*
     * Look a variable up: NULL when there is none, else its bytes (not NUL-terminated), *LEN long,
     * valid until classify returns.
     */
    const char *(*get)(const struct rlb_environment *env, const char *name, size_t *len);
};

struct rlb_classifier {
    unsigned api;        /* RLB_CLASSIFIER_API */
    const char *name;    /* for logs */
    const char *version; /* part of the fingerprint: change it when classes change their meaning */
    /*
     * Make an instance from the configured options text ("" when none). NULL on error, with a
     * reason in WHY (room WHY_ROOM bytes, NUL-terminated).
     */
    void *(*create)(const char *options, char *why, size_t why_room);
    void (*destroy)(void *instance);
    /*
     * The class of one request: write at most ROOM bytes to OUT and return how many, or (size_t)-1
     * for "no class". Called from several threads at once: an instance must not change. Must not
     * block.
     */
    size_t (*classify)(void *instance, const struct rlb_environment *env, char *out, size_t room);
};

/* Exported by the shared object: the one symbol that is looked up. */
RLB_CLASSIFIER_EXPORT const struct rlb_classifier *rlb_classifier(void);

#endif
