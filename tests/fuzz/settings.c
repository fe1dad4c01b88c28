/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of every type, from texts and from a configuration: what is taken is printed so that it
 * is taken again, as the same value. The first byte chooses: a row, or the whole as YAML.
 */
#include "common/config/settings.h"

#include "tests/fuzz/fuzz.h"

/* clang-format off */
#define ROWS(ROW)                                                            \
    ROW(flag,   BOOL,   NONE, "yes",  NULL,  NULL,   LIVE,  "Flag.")         \
    ROW(count,  INT,    NONE, "7",    "-5",  NULL,   LIVE,  "Count.")        \
    ROW(ratio,  REAL,   NONE, "4",    NULL,  "1000", LIVE,  "Ratio.")        \
    ROW(wait,   TIME,   MS,   "off",  "1ms", NULL,   LIVE,  "Wait.")         \
    ROW(size,   SIZE,   NONE, "1MiB", NULL,  NULL,   LIVE,  "Size.")         \
    ROW(none,   TEXT,   NONE, NULL,   NULL,  NULL,   LIVE,  "None.")         \
    ROW(text,   TEXT,   NONE, "x",    NULL,  NULL,   LIVE,  "Text.")         \
    ROW(choice, CHOICE, NONE, "a",    "a|b", NULL,   LIVE,  "Choice.")       \
    ROW(list,   LIST,   NONE, "a, b", NULL,  NULL,   LIVE,  "List.")         \
    ROW(node,   NODE,   NONE, NULL,   NULL,  NULL,   LOCAL, "Node.")
/* clang-format on */

struct all {
#define ROW(...) SETTINGS_FIELD(__VA_ARGS__)
    ROWS(ROW)
#undef ROW
};
static const struct setting_row rows[] = {
#define ROW(...) SETTINGS_ROW(struct all, __VA_ARGS__)
    ROWS(ROW)
#undef ROW
};
static const struct settings_table table = {
    .scope = "ALL", .where = "", .rows = rows, .n = ARRAY_LEN(rows), .bytes = sizeof(struct all)};

static void check_round_trip(const struct setting_row *row, const struct all *s)
{
    struct all again;
    struct text printed = {0};
    char why[SETTINGS_WHY_ROOM];

    if (row->type == SETTING_NODE)
        return;
    settings_defaults(&table, &again);
    settings_print(row, s, &printed);
    ASSERT(settings_set(row, text_slice(&printed), &again, why) == ERR_OK);
    ASSERT(settings_same(row, s, &again));
    settings_fini(&table, &again);
    text_fini(&printed);
}

static void set_one(const struct setting_row *row, struct slice text)
{
    struct all s;
    struct all before;
    char why[SETTINGS_WHY_ROOM] = "";

    settings_defaults(&table, &s);
    settings_copy(&table, &s, &before);
    if (settings_set(row, text, &s, why) == ERR_OK) {
        check_round_trip(row, &s);
    } else {
        ASSERT(why[0] != '\0');
        ASSERT(settings_same(row, &s, &before));
    }
    settings_fini(&table, &s);
    settings_fini(&table, &before);
}

static void read_all(struct slice text)
{
    struct config c;
    struct all s;
    enum setting_origin origins[ARRAY_LEN(rows)];
    struct diag d = {0};

    if (config_parse("f", text, &c, &d)) {
        settings_read(&table, &c, c.root, &s, origins, &d);
        for (size_t i = 0; i < table.n; ++i)
            check_round_trip(&rows[i], &s);
        settings_fini(&table, &s);
        config_fini(&c);
    }
    diag_fini(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct slice text = {(const char *)data + 1, size - 1};
    size_t choice = data[0] % (ARRAY_LEN(rows) + 1);

    if (choice < ARRAY_LEN(rows))
        set_one(&rows[choice], text);
    else
        read_all(text);
    return 0;
}
