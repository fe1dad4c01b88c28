/* SPDX-License-Identifier: Apache-2.0 */
#include "common/net/packet_talk.h"

#include <poll.h>
#include <unistd.h>

#include "common/base/clock.h"

bool packet_is(const json_t *m, const char *op)
{
    const char *said = json_string_value(json_object_get(m, "op"));

    return said != NULL && strcmp(said, op) == 0;
}

enum err packet_say(int fd, const char *op)
{
    json_t *m = json_pack("{s:s}", "op", op);
    enum err e = packet_send(fd, m, -1);

    json_decref(m);
    return e;
}

enum err packet_await(int fd, uint64_t until_us, json_t **message, int *passed)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = clock_mono_us();
        enum err e = packet_receive(fd, message, passed);

        if (e != ERR_BUSY)
            return e;
        if (now >= until_us)
            return ERR_TIMEOUT;
        (void)poll(&p, 1, (int)((until_us - now) / 1000) + 1);
    }
}

enum err packet_hear(int fd, const char *until, uint64_t wait_ms, packet_take_fn take,
                     void *context, json_t **last)
{
    uint64_t until_us = clock_mono_us() + wait_ms * 1000;

    for (;;) {
        json_t *m;
        int passed;
        enum err e = packet_await(fd, until_us, &m, &passed);

        if (e != ERR_OK)
            return e;
        if (passed < 0 && packet_is(m, until)) {
            *last = m;
            return ERR_OK;
        }
        bool good = take(context, m, &passed);
        json_decref(m);
        if (passed >= 0)
            close(passed);
        if (!good)
            return ERR_SYNTAX;
    }
}
