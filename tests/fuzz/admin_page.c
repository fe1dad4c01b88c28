/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever JSON a server gives for its pages: every word of resumelbctl that shows one prints lines
 * that no terminal takes for anything else, or rejects it; and what a monitor reads is one line.
 */
#include "ctl/inspect/inspect.h"

#include "common/base/json.h"
#include "tests/fuzz/fuzz.h"

typedef enum err (*word_fn)(const json_t *page, const struct ctl_options *o, struct text *out);

static void check_lines(const struct text *t)
{
    for (size_t i = 0; i < t->len;) {
        unsigned char c = (unsigned char)t->p[i];

        if (c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7f)) {
            ++i;
            continue;
        }
        size_t n = utf8_length((struct slice){t->p + i, t->len - i});

        ASSERT(n > 1);
        /* Neither a control character of the second row. */
        ASSERT(c != 0xc2 || (unsigned char)t->p[i + 1] >= 0xa0);
        i += n;
    }
}

static void show(word_fn word, const json_t *page, const char *application, const char *cls)
{
    struct ctl_options o = {.application = application, .cls = cls, .top = 3};
    struct text out = {0};

    if (word(page, &o, &out) == ERR_OK)
        check_lines(&out);
    text_fini(&out);
}

static void monitor(const json_t *page, const char *application)
{
    struct check_thresholds t = {.metrics = true};
    struct ctl_options o = {.application = application};
    struct text out = {0};

    for (int i = 0; i < CHECK_METRICS; ++i) {
        ASSERT(check_range_parse("3", CHECK_BARE_HIGH, &t.warn[i]));
        ASSERT(check_range_parse("@2:9", CHECK_BARE_HIGH, &t.error[i]));
    }
    enum check_state state = check_page(page, &o, &t, &out);

    ASSERT(state <= CHECK_UNKNOWN);
    ASSERT(out.len != 0);
    check_lines(&out);
    ASSERT(slice_find(text_slice(&out), '\n') == SIZE_MAX);
    struct slice perf = text_slice(&out);
    slice_cut(&perf, '|');
    ASSERT(slice_find(perf, '|') == SIZE_MAX);
    text_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const word_fn words[] = {ctl_status_text, ctl_resumes_text, ctl_limits_text,
                                    ctl_explain_text};
    json_t *page;

    if (json_parse((struct slice){(const char *)data, size}, size, &page, NULL) != ERR_OK)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(words); ++i) {
        show(words[i], page, NULL, NULL);
        show(words[i], page, "a", "x");
    }
    monitor(page, NULL);
    monitor(page, "a");
    json_decref(page);
    return 0;
}
