/* SPDX-License-Identifier: Apache-2.0
 *
 * The front over HTTP/2, libh2o behind the tap, with TLS or without: the input is what comes after
 * the preface and an empty SETTINGS frame, or in place of these; before it may come as many
 * requests as are announced.
 */
#include "common/base/text.h"
#include "tests/fuzz/front.h"

enum { STREAMS = 100 };

/* Of four, two are answered, one is cut short, and one waits for ever (front_on_request). */
static void put_requests(struct text *t)
{
    static const char path[] = "/abc";

    for (unsigned i = 0; i < STREAMS; ++i) {
        size_t len = 1 + i % 4;
        char head[] = "\0\0\0\1\5\0\0\0\0"; /* HEADERS, whole */

        head[2] = (char)(7 + len);
        head[8] = (char)(2 * i + 1);
        text_add(t, (struct slice){head, sizeof(head) - 1});
        text_add(t, SLICE_LIT("\x82\x87\1\1a\4")); /* GET, https, of "a" */
        text_add_char(t, (char)len);
        text_add(t, (struct slice){path, len});
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct front front;
    struct text before = {0};

    if (size < 1)
        return 0;
    if (front.loop == NULL)
        front_start(&front, true, false);
    if ((data[0] & FRONT_NO_PREFACE) == 0) {
        text_add(&before, SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"));
        if ((data[0] & FRONT_STREAMS) != 0)
            put_requests(&before);
    }
    front_talk(&front, text_slice(&before), (struct slice){(const char *)data + 1, size - 1},
               data[0]);
    text_fini(&before);
    return 0;
}
