/* SPDX-License-Identifier: Apache-2.0
 *
 * Spawn requests to the supervisor, which may run as root: a message is rejected with a reason, or
 * complete and within its bounds.
 */
#include "common/net/packet.h"
#include "worker-agent/supervisor/spawner.h"

#include "common/base/json.h"
#include "tests/fuzz/fuzz.h"

static void check_list(const json_t *list)
{
    ASSERT(json_is_array(list) && json_array_size(list) <= (size_t)2 * APP_WORDS_MAX);
    for (size_t i = 0; i < json_array_size(list); ++i)
        ASSERT(json_is_string(json_array_get(list, i)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spawn_request r = {.slot = 0};
    char why[SUPERVISOR_WHY_MAX] = "";
    json_t *message;

    if (json_parse((struct slice){(const char *)data, size}, PACKET_BYTES_MAX, &message, NULL) !=
        ERR_OK)
        return 0;
    if (spawn_request_parse(message, &r, why)) {
        ASSERT(strlen(r.id) >= 16 && strspn(r.id, "0123456789abcdef") == strlen(r.id));
        ASSERT(json_array_size(r.words) != 0);
        check_list(r.words);
        check_list(r.env);
        ASSERT(r.root != NULL);
        ASSERT(r.user.ngroups >= 0 && r.user.ngroups <= PRIVILEGES_GROUPS_MAX);
        ASSERT(r.listen >= 0 && r.listen <= LISTEN_BY_SOCKET);
        ASSERT(r.user.uid != (uid_t)-1 && r.user.gid != (gid_t)-1);
        for (int i = 0; i < r.user.ngroups; ++i)
            ASSERT(r.user.groups[i] != (gid_t)-1);
    } else {
        ASSERT(why[0] != '\0');
    }
    json_decref(message);
    return 0;
}
