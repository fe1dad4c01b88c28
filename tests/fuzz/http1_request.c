/* SPDX-License-Identifier: Apache-2.0
 *
 * The strict check of a request head: what passes lies within the bytes, has what a request must
 * have, does not depend on what follows it, and does not pass before it is whole; its lines and
 * fields are those that a plain reader finds.
 */
#include "common/wire/http1_head.h"

#include <stdlib.h>

#include "common/base/text.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plain_head.h"

enum { MAX_FIELDS = 8 };

static void check_within(struct slice whole, struct slice part)
{
    if (part.len == 0)
        return;
    ASSERT(part.p >= whole.p);
    ASSERT(part.p + part.len <= whole.p + whole.len);
}

static void check_texts(struct slice s)
{
    struct slice authority;
    struct slice path;

    (void)http_target_is_path(s);
    (void)http_authority_valid(s);
    if (!http_target_split(s, &authority, &path))
        return;
    check_within(s, authority);
    check_within(s, path);
}

/* The fields are those of the head, in their order, and reading them changes no verdict. */
static void check_fields(struct slice whole, const struct http1_request_facts *facts)
{
    struct http1_request_facts again;
    struct message_field fields[MAX_FIELDS];
    static struct plain_head plain;
    const char *at = whole.p;
    size_t blank = whole.p[0] == '\r' ? 2 : 0;
    struct slice head = {whole.p + blank, whole.len - blank};

    ASSERT(http1_request_read(whole, &again, fields, MAX_FIELDS) == FAULT_NONE);
    ASSERT(again.nheaders == facts->nheaders && again.bytes == facts->bytes);
    ASSERT(plain_head(head, false, &plain) == PLAIN_WHOLE);
    ASSERT(plain.nfields == facts->nheaders && plain.bytes == head.len);
    plain_same_fields(&plain, fields, facts->nheaders < MAX_FIELDS ? facts->nheaders : MAX_FIELDS);
    for (size_t i = 0; i < facts->nheaders && i < MAX_FIELDS; ++i) {
        check_within(whole, fields[i].name);
        check_within(whole, fields[i].value);
        ASSERT(fields[i].name.p > at);
        ASSERT(fields[i].value.p > fields[i].name.p + fields[i].name.len);
        at = fields[i].value.p + fields[i].value.len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {(const char *)data, size};
    struct http1_request_facts facts = {0};
    struct http1_request_facts again = {0};
    enum request_fault f = http1_request_read(bytes, &facts, NULL, 0);

    ASSERT(request_fault_text(f) != NULL);
    check_texts(bytes);
    if (f != FAULT_NONE) {
        static struct plain_head plain;

        ASSERT(request_fault_status(f) >= 400);
        if (f == FAULT_HEADER)
            ASSERT(plain_head(bytes, false, &plain) != PLAIN_WHOLE);
        return 0;
    }
    ASSERT(facts.bytes <= size);
    struct slice whole = {bytes.p, facts.bytes};
    check_within(whole, facts.method);
    check_within(whole, facts.target);
    check_within(whole, facts.host);
    ASSERT(facts.method.len != 0);
    ASSERT(facts.target.len != 0);
    ASSERT(facts.host.p != NULL || facts.minor_version == 0);
    check_texts(facts.target);
    ASSERT(http1_request_read(whole, &again, NULL, 0) == FAULT_NONE);
    ASSERT(again.bytes == facts.bytes);
    ASSERT(again.nheaders == facts.nheaders);
    check_fields(whole, &facts);
    whole.len -= 1;
    ASSERT(http1_request_read(whole, &again, NULL, 0) != FAULT_NONE);
    return 0;
}
