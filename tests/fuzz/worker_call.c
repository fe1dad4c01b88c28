/* SPDX-License-Identifier: Apache-2.0
 *
 * The path and the body of a call that registers a worker, with a line break between them: rejected
 * with a reason, or a name that is its own canonical form, and properties within their bounds.
 */
#include "lb/rules/worker_call.h"

#include "tests/fuzz/fuzz.h"

#include "common/base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice body = {(const char *)data, size};
    struct slice path = slice_cut(&body, '\n');
    char encoded[3 * WORKER_CALL_NAME_MAX];
    struct worker_call c;
    struct worker_call again;
    const char *why = worker_call_read(&c, true, path, body);

    if (why != NULL) {
        ASSERT(why[0] != '\0');
        worker_call_fini(&c);
        return 0;
    }
    ASSERT(c.name[0] != '\0' && c.ttl_s <= WORKER_CALL_TTL_MAX);
    ASSERT(json_is_object(c.properties));
    ASSERT(json_text(c.properties, "version").len <= VERSION_MAX);
    ASSERT(json_text(c.properties, "instance").len <= INSTANCE_MAX);
    ASSERT(json_object_get(c.properties, "ttl") == NULL);
    ASSERT(json_object_get(c.properties, "application") == NULL);
    size_t n = percent_encode(slice_of(c.name), encoded, sizeof(encoded));
    ASSERT(n != SIZE_MAX);
    why = worker_call_read(&again, false, (struct slice){encoded, n}, SLICE_NULL);
    ASSERT(why == NULL && strcmp(c.name, again.name) == 0);
    worker_call_fini(&again);
    worker_call_fini(&c);
    return 0;
}
