/* SPDX-License-Identifier: Apache-2.0
 *
 * The front over HTTP/1, with TLS or without: before the input may come pipelined requests.
 */
#include "tests/fuzz/front.h"

static void put_requests(struct text *t, unsigned lengths)
{
    for (unsigned i = 0; i < FRONT_REQUESTS; ++i) {
        struct slice path = front_path(lengths, i);

        text_addf(t, "GET %.*s HTTP/1.1\r\nHost: a\r\n\r\n", (int)path.len, path.p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct front fronts[2];
    struct slice bytes = {(const char *)data, size};
    struct text before = {0};

    if (size < 1)
        return 0;
    unsigned mode = front_take(&bytes);
    bool in_memory = (mode & FRONT_IN_MEMORY) != 0;
    struct front *front = &fronts[in_memory];
    if (front->loop == NULL)
        front_start(front, false, in_memory);
    front->sip = (size_t)front_take(&bytes) * 16;
    if ((mode & FRONT_MANY) != 0)
        put_requests(&before, front_take(&bytes));
    front_talk(front, text_slice(&before), bytes, mode);
    text_fini(&before);
    return 0;
}
