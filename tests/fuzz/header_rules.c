/* SPDX-License-Identifier: Apache-2.0
 *
 * NAME \n TEMPLATE \n CLASS \n TARGET: a rule of the first two, where it is taken, and its value
 * for a request of the others, which is one line of bounded length; and a name that is taken is
 * none that others rely on.
 */
#include "lb/rules/header_rules.h"

#include "common/http/http_request.h"
#include "common/wire/http1_bytes.h"
#include "tests/fuzz/fuzz.h"

static bool one_header(const void *context, size_t i, struct slice *name, struct slice *value)
{
    *name = SLICE_LIT("X-Tenant");
    *value = *(const struct slice *)context;
    return i == 0;
}

static void check_value(const struct header_rule *rule, struct slice cls, struct slice target)
{
    static const struct addr no_addr;
    struct slice query = target;
    struct slice path = slice_cut(&query, '?');
    const struct classify_request r = {.method = SLICE_LIT("GET"),
                                       .path = path,
                                       .query = query,
                                       .host = SLICE_LIT("a.example"),
                                       .protocol = SLICE_LIT("HTTP/1.1"),
                                       .peer = &no_addr,
                                       .local = &no_addr,
                                       .content_length = UINT64_MAX,
                                       .header = one_header,
                                       .context = &target};
    struct classify_environment e;
    char out[HEADER_VALUE_MAX];

    classify_environment_init(&e, &r);
    size_t n = header_rule_value(rule, cls, &e, out);
    classify_environment_fini(&e);
    ASSERT(n <= HEADER_VALUE_MAX);
    ASSERT(n == 0 || (out[0] != ' ' && out[n - 1] != ' '));
    for (size_t i = 0; i < n; ++i)
        ASSERT(out[i] >= 0x20 && out[i] <= 0x7e);
}

static void check_name(struct slice name)
{
    enum http_field kind = http_field_of(name);

    ASSERT(http1_is_token(name));
    ASSERT(name.len <= HEADER_NAME_MAX);
    ASSERT(kind == FIELD_OTHER || kind == FIELD_COOKIE || kind == FIELD_FORWARDED ||
           kind == FIELD_CLAIM || kind == FIELD_DATE || kind == FIELD_SERVER ||
           kind == FIELD_REFERER || kind == FIELD_USER_AGENT || kind == FIELD_CLIENT_CERTIFICATE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = {(const char *)data, size};
    struct slice name = slice_cut(&rest, '\n');
    struct slice template = slice_cut(&rest, '\n');
    struct slice cls = slice_cut(&rest, '\n');
    struct header_rules *rules = header_rules_create();
    char why[SETTINGS_WHY_ROOM] = "";

    for (int side = 0; side < HEADER_SIDES; ++side) {
        if (!header_rules_add(rules, side, HEADER_SET, name, template, why)) {
            ASSERT(why[0] != '\0');
            ASSERT(rules->n[side] == 0);
            continue;
        }
        check_name(name);
        check_value(&rules->rules[side][0], cls, rest);
        ASSERT(!header_rules_add(rules, side, HEADER_SET, name, template, why));
    }
    header_rules_unref(rules);
    return 0;
}
