/* SPDX-License-Identifier: Apache-2.0
 *
 * The front over HTTP/2, with TLS or without: the input is what comes after
 * the preface and an empty SETTINGS frame, or in place of these; before it may come as many
 * requests as are announced.
 */
#include "tests/fuzz/front.h"

static void put_requests(struct text *t, unsigned lengths)
{
    for (unsigned i = 0; i < FRONT_REQUESTS; ++i) {
        struct slice path = front_path(lengths, i);
        char head[] = "\0\0\0\1\5\0\0\0\0"; /* HEADERS, whole */

        head[2] = (char)(7 + path.len);
        head[8] = (char)(2 * i + 1);
        text_add(t, (struct slice){head, sizeof(head) - 1});
        text_add(t, SLICE_LIT("\x82\x87\1\1a\4")); /* GET, https, of "a" */
        text_add_char(t, (char)path.len);
        text_add(t, path);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct front front;
    struct slice bytes = {(const char *)data, size};
    struct text before = {0};

    if (size < 1)
        return 0;
    if (front.loop == NULL)
        front_start(&front, true, false);
    unsigned mode = front_take(&bytes);
    front.sip = (size_t)front_take(&bytes) * 16;
    unsigned lengths = (mode & FRONT_MANY) != 0 ? front_take(&bytes) : 0;
    if ((mode & FRONT_NO_PREFACE) == 0) {
        text_add(&before, SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"));
        if ((mode & FRONT_MANY) != 0)
            put_requests(&before, lengths);
    }
    front_talk(&front, text_slice(&before), bytes, mode);
    text_fini(&before);
    return 0;
}
