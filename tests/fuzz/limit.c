/* SPDX-License-Identifier: Apache-2.0
 *
 * TEMPLATE \n PATTERN \n HOST \n TARGET: a limit of the first two, where they are taken, asked
 * about a request of the others. What is rejected names its row; what is taken says the same of the
 * same request twice, and gives a key that can be shown and is bounded; that of a whole URL changes
 * when the URL does.
 */
#include "lb/limits/limit.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

static bool no_header(const void *context, size_t i, struct slice *name, struct slice *value)
{
    (void)context;
    if (i != 0)
        return false;
    *name = SLICE_LIT("X-Tenant");
    *value = SLICE_LIT("a|b%\n");
    return true;
}

static const struct addr no_addr;

static struct classify_request request_of(struct slice host, struct slice target)
{
    struct slice query = target;
    struct slice path = slice_cut(&query, '?');

    return (struct classify_request){.method = SLICE_LIT("GET"),
                                     .path = path,
                                     .query = query,
                                     .host = host,
                                     .protocol = SLICE_LIT("HTTP/1.1"),
                                     .peer = &no_addr,
                                     .local = &no_addr,
                                     .content_length = UINT64_MAX,
                                     .header = no_header};
}

static void check_key(struct slice key)
{
    ASSERT(key.len <= LIMIT_KEY_MAX);
    ASSERT(slice_starts(key, SLICE_LIT("name:")));
    for (size_t i = 0; i < key.len; ++i)
        ASSERT(key.p[i] >= 0x21 && key.p[i] <= 0x7e);
}

static void ask(const struct limit *limit, struct slice cls, struct slice host, struct slice target)
{
    struct classify_request r = request_of(host, target);
    char room[LIMIT_KEY_MAX];
    char again[LIMIT_KEY_MAX];
    struct slice key = request_match_key(limit->match, "name", cls, &r, room);

    check_key(key);
    ASSERT(slice_eq(key, request_match_key(limit->match, "name", cls, &r, again)));
    ASSERT(request_match_fits(limit->match, cls, &r) == request_match_fits(limit->match, cls, &r));
    if (limit->s.mode != LIMIT_ANY || limit->s.key != NULL)
        return;
    struct text longer = {0};
    text_add(&longer, target);
    text_add_char(&longer, 'x');
    r = request_of(host, text_slice(&longer));
    ASSERT(!slice_eq(key, request_match_key(limit->match, "name", cls, &r, again)));
    text_fini(&longer);
}

static char *text_or_null(struct slice s)
{
    return s.len != 0 ? xslicedup(s) : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = {(const char *)data, size};
    struct slice template = slice_cut(&rest, '\n');
    struct slice pattern = slice_cut(&rest, '\n');
    struct slice host = slice_cut(&rest, '\n');
    struct limit_settings s;
    struct limit limit;
    struct limit_problem p = {0};
    char cls[CLASS_BYTES_MAX];
    size_t len = percent_encode(host, cls, sizeof(cls));

    settings_defaults(&limit_table, &s);
    s.key = text_or_null(template);
    s.path = text_or_null(pattern);
    s.class = text_or_null(pattern);
    s.mode = size % 2 != 0 ? LIMIT_ANY : LIMIT_EACH;
    if (limit_compile("name", &s, &limit, &p)) {
        ask(&limit, (struct slice){cls, len != SIZE_MAX ? len : 0}, host, rest);
        limit_fini(&limit);
    } else {
        ASSERT(p.row != NULL);
        ASSERT(p.why[0] != '\0');
    }
    limit_settings_fini(&s);
    return 0;
}
