/* SPDX-License-Identifier: Apache-2.0
 *
 * PATTERN \n HOST \n TARGET \n fields, one a line: whatever a client sends, its class is bounded,
 * visible, escaped only as we escape, the same when it asks again; by Host whatever the case and
 * the port.
 */
#include "lb/rules/classify.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

enum { FIELDS_MAX = 16 };

struct fields {
    struct slice lines[FIELDS_MAX];
    size_t n;
};

static bool header_of(const void *context, size_t i, struct slice *name, struct slice *value)
{
    const struct fields *f = context;

    if (i >= f->n)
        return false;
    *value = f->lines[i];
    *name = slice_cut(value, ':');
    *value = slice_trim(*value);
    return true;
}

static void check_class(const char *cls, size_t len)
{
    ASSERT(len <= CLASS_BYTES_MAX);
    for (size_t i = 0; i < len; ++i) {
        ASSERT(cls[i] >= 0x21 && cls[i] <= 0x7e);
        if (cls[i] != '%')
            continue;
        ASSERT(len - i > 2);
        unsigned char c = 0;
        ASSERT(percent_decode((struct slice){cls + i, 3}, (char *)&c, 1) == 1);
        /* '%' itself, or what cannot be shown. */
        ASSERT(c == '%' || c < 0x21 || c > 0x7e);
    }
}

/* Twice, into CLS. */
static size_t ask(const struct classifier *k, const struct classify_request *r, char *cls)
{
    char again[CLASS_BYTES_MAX];
    size_t len = classify_run(k, r, cls);

    check_class(cls, len);
    ASSERT(classify_run(k, r, again) == len);
    ASSERT(memcmp(cls, again, len) == 0);
    return len;
}

static struct classifier *create(const char *yaml)
{
    struct diag d = {0};
    struct config c;
    struct classifier *k = NULL;

    if (config_parse("f", slice_of(yaml), &c, &d)) {
        k = classifier_create(&c, config_get(c.root, "classifier"), &d);
        config_fini(&c);
    }
    ASSERT((k != NULL) == (d.errors == 0));
    diag_fini(&d);
    return k;
}

static char flip(char c)
{
    char lower = ascii_lower(c);

    return lower < 'a' || lower > 'z' ? c : (char)(c ^ 0x20);
}

static void ask_by_host(const struct classify_request *r)
{
    struct classifier *k = create("classifier: host");
    char cls[CLASS_BYTES_MAX];
    char other[CLASS_BYTES_MAX];
    size_t len = ask(k, r, cls);
    char *flipped = xmalloc(r->host.len + 1);
    struct classify_request turned = *r;

    for (size_t i = 0; i < r->host.len; ++i)
        flipped[i] = flip(r->host.p[i]);
    turned.host = (struct slice){flipped, r->host.len};
    ASSERT(ask(k, &turned, other) == len);
    ASSERT(memcmp(cls, other, len) == 0);
    free(flipped);
    classifier_destroy(k);
}

/* PATTERN as YAML takes any text: in single quotes, which are doubled within. */
static struct classifier *by_pattern(struct slice pattern, const char *variable)
{
    struct text yaml = {0};

    text_addf(&yaml, "classifier: {regex: {variable: %s, pattern: '", variable);
    for (size_t i = 0; i < pattern.len; ++i)
        text_add(&yaml, pattern.p[i] == '\'' ? SLICE_LIT("''") : (struct slice){pattern.p + i, 1});
    text_add(&yaml, SLICE_LIT("'}}"));
    struct classifier *k = create(text_cstr(&yaml));
    text_fini(&yaml);
    return k;
}

static void ask_by_pattern(struct slice pattern, const struct classify_request *r)
{
    static const char *const variables[] = {"PATH_INFO", "QUERY_STRING", "HTTP_X_TENANT",
                                            "HTTP_COOKIE", "SERVER_NAME"};
    char cls[CLASS_BYTES_MAX];

    for (size_t i = 0; i < ARRAY_LEN(variables); ++i) {
        struct classifier *k = by_pattern(pattern, variables[i]);

        if (k == NULL)
            return;
        (void)ask(k, r, cls);
        classifier_destroy(k);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct addr no_addr;
    struct slice rest = {(const char *)data, size};
    struct slice pattern = slice_cut(&rest, '\n');
    struct slice host = slice_cut(&rest, '\n');
    struct slice query = slice_cut(&rest, '\n');
    struct slice path = slice_cut(&query, '?');
    struct fields fields = {.n = 0};

    while (rest.len != 0 && fields.n < FIELDS_MAX)
        fields.lines[fields.n++] = slice_cut(&rest, '\n');
    struct classify_request r = {.method = SLICE_LIT("GET"),
                                 .path = path,
                                 .query = query,
                                 .host = host,
                                 .protocol = SLICE_LIT("HTTP/1.1"),
                                 .peer = &no_addr,
                                 .local = &no_addr,
                                 .content_length = UINT64_MAX,
                                 .header = header_of,
                                 .context = &fields};

    ask_by_host(&r);
    ask_by_pattern(pattern, &r);
    return 0;
}
