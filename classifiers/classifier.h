/* SPDX-License-Identifier: Apache-2.0
 *
 * The classifier contract: what a shared object must export to sort requests into classes. This
 * header stands alone: copy it with examples/classifier/example_path.c to write one of your own
 * (docs/guide/plugins.md).
 *
 * A class is any bytes; requests of different classes should use different data. It is
 * percent-encoded afterwards; over 255 encoded bytes counts as no class.
 */
#ifndef RLB_CLASSIFIER_H
#define RLB_CLASSIFIER_H

#include <stddef.h>

/* Increased with incompatible changes; plugins of other versions are rejected. */
#define RLB_CLASSIFIER_API 1

#define RLB_CLASSIFIER_EXPORT __attribute__((visibility("default")))

/* A request as a WSGI environment: REQUEST_METHOD, PATH_INFO (decoded), QUERY_STRING, SERVER_NAME,
 * SERVER_PORT, REMOTE_ADDR, SCRIPT_NAME, wsgi.url_scheme, SERVER_PROTOCOL, CONTENT_TYPE,
 * CONTENT_LENGTH, HTTP_*. */
struct rlb_environment {
    /*
     * Returns the *LEN bytes of a variable (not NUL-terminated), valid until classify() returns;
     * NULL if there is none.
     */
    const char *(*get)(const struct rlb_environment *env, const char *name, size_t *len);
};

struct rlb_classifier {
    unsigned api;     /* RLB_CLASSIFIER_API */
    const char *name; /* for logs */
    const char
        *version; /* part of the fingerprint; change it when the meaning of classes changes */
    /*
     * Creates an instance from the configured options text ("" if there is none). Returns NULL on
     * error, with a NUL-terminated reason in WHY, which has WHY_ROOM bytes.
     */
    void *(*create)(const char *options, char *why, size_t why_room);
    void (*destroy)(void *instance);
    /*
     * Writes the class of a request, at most ROOM bytes, to OUT and returns its length; (size_t)-1
     * if it has no class. Called by several threads at once, so it must not modify the instance.
     * Must not block.
     */
    size_t (*classify)(void *instance, const struct rlb_environment *env, char *out, size_t room);
};

/* Exported by the shared object; the only symbol that is looked up. */
RLB_CLASSIFIER_EXPORT const struct rlb_classifier *rlb_classifier(void);

#endif
