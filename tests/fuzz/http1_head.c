/* SPDX-License-Identifier: Apache-2.0
 *
 * A response head: what is taken lies within the bytes, does not depend on what follows it, and is
 * not taken before it is whole; its lines and fields are those that a plain reader finds. The first
 * byte selects whether the request was a HEAD, the second
 * where to cut.
 */
#include "common/wire/http1_head.h"

#include "common/base/text.h"
#include "common/wire/http1_bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plain_head.h"

static void check_within(struct slice whole, struct slice part)
{
    if (part.len == 0)
        return;
    ASSERT(part.p >= whole.p);
    ASSERT(part.p + part.len <= whole.p + whole.len);
}

static void check_head(struct slice bytes, const struct http1_head *h)
{
    struct slice whole = {bytes.p, h->bytes};

    ASSERT(h->bytes <= bytes.len);
    ASSERT(h->bytes <= RESPONSE_HEAD_MAX);
    ASSERT(h->nheaders <= RESPONSE_HEADERS_MAX);
    ASSERT(h->status >= 100);
    ASSERT(h->status <= 999);
    ASSERT(h->minor_version == 0 || h->minor_version == 1);
    check_within(whole, h->reason);
    for (size_t i = 0; i < h->nheaders; ++i) {
        struct slice value = h->headers[i].value;

        check_within(whole, h->headers[i].name);
        check_within(whole, value);
        ASSERT(h->headers[i].name.len != 0);
        ASSERT(slice_find(value, '\n') == SIZE_MAX);
        ASSERT(slice_find(value, '\r') == SIZE_MAX);
        ASSERT(slice_find(value, '\0') == SIZE_MAX);
        (void)http1_list_has(value, SLICE_LIT("close"));
    }
    if (h->framing == HTTP1_BODY_LENGTH)
        ASSERT(h->content_length != UINT64_MAX);
    if (h->framing == HTTP1_BODY_CLOSE)
        ASSERT(!h->keep_alive);
}

/* E and H: what was found out about BYTES. */
static void check_plainly(struct slice bytes, enum err e, const struct http1_head *h)
{
    static struct plain_head plain;
    enum plain_end end = plain_head(bytes, true, &plain);

    if (e == ERR_BUSY)
        ASSERT(end == PLAIN_CUT);
    if (e != ERR_OK)
        return;
    ASSERT(end == PLAIN_WHOLE);
    ASSERT(h->bytes == plain.bytes);
    ASSERT(h->nheaders == plain.nfields);
    plain_same_fields(&plain, h->headers, h->nheaders);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http1_head h;
    static struct http1_head again;

    if (size < 2)
        return 0;
    bool is_head = data[0] % 2 != 0;
    struct slice bytes = {(const char *)data + 2, size - 2};
    enum err e = http1_head_parse(bytes, is_head, &h);
    check_plainly(bytes, e, &h);
    if (e != ERR_OK)
        return 0;
    check_head(bytes, &h);
    ASSERT(http1_head_parse((struct slice){bytes.p, h.bytes}, is_head, &again) == ERR_OK);
    ASSERT(again.bytes == h.bytes);
    ASSERT(again.framing == h.framing);
    ASSERT(again.content_length == h.content_length);
    ASSERT(again.nheaders == h.nheaders);
    ASSERT(again.keep_alive == h.keep_alive);
    size_t cut = data[1] * (h.bytes - 1) / 255;
    ASSERT(http1_head_parse((struct slice){bytes.p, cut}, is_head, &again) == ERR_BUSY);
    return 0;
}
