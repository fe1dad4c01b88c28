/* SPDX-License-Identifier: Apache-2.0
 *
 * A parser and a printer per type, and range checks; their bounds are parsed by the same parsers.
 * Integral numbers of ms and bytes are computed in integers: 0.1 has no exact double, but "0.1s" is
 * 100 ms.
 */
#include "common/config/setting.h"

#include <inttypes.h>
#include <stdio.h>

/* A century: longer than any wait, and adding it to the current time cannot overflow. */
static const uint64_t time_ms_max = 100ULL * 365 * 86400 * 1000;
static const uint64_t size_bytes_max = INT64_MAX;

struct unit {
    const char *suffix;
    uint64_t factor;
};

/* Largest first, for printing; "" is the unit of a bare number. */
static const struct unit time_units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000},
                                         {"s", 1000},     {"ms", 1},      {"", 1000}};
static const struct unit size_units[] = {
    {"TiB", 1ULL << 40}, {"GiB", 1ULL << 30}, {"MiB", 1ULL << 20}, {"KiB", 1ULL << 10}, {"", 1}};

const char *setting_shown(struct slice s, char out[SETTING_SHOWN_ROOM])
{
    struct text t = {0};
    bool cut = s.len > SETTING_SHOWN_MAX;

    text_add_escaped(&t, (struct slice){s.p, cut ? SETTING_SHOWN_MAX : s.len});
    snprintf(out, SETTING_SHOWN_ROOM, "%s%s", text_cstr(&t), cut ? "..." : "");
    text_fini(&t);
    return out;
}

#define MEMBER(m) offsetof(struct setting_value, m), sizeof(((struct setting_value *)0)->m)
const struct setting_type_info setting_types[] = {
    [SETTING_BOOL] = {"true or false", "yes or no", false, MEMBER(yes)},
    [SETTING_INT] = {"a whole number", "whole number", true, MEMBER(number)},
    [SETTING_REAL] = {"a number", "number", true, MEMBER(real)},
    [SETTING_TIME] = {"a time such as 250ms, 3.5s, 5m or 2h", "time", true, MEMBER(amount)},
    [SETTING_SIZE] = {"a size such as 4096, 256KiB or 1GiB", "size", true, MEMBER(amount)},
    [SETTING_TEXT] = {"a text", "text", false, MEMBER(text)},
    [SETTING_SECRET] = {"a text", "secret text", false, MEMBER(text)},
    [SETTING_CHOICE] = {"one of its words", NULL, false, MEMBER(choice)},
    [SETTING_LIST] = {"a list of texts", "list", false, MEMBER(list)},
    [SETTING_NODE] = {"a list or a map", "structure", false, MEMBER(node)},
};

/* ---- lists ---- */

/* Parses one item and the comma after it. Returns false if no item follows the comma. */
static bool parse_item(struct slice *rest, struct text *item)
{
    size_t i = 1;

    *rest = slice_trim(*rest);
    if (!slice_starts(*rest, SLICE_LIT("\""))) {
        text_add(item, slice_trim(slice_cut(rest, ',')));
        /* A trailing comma would yield an empty item. */
        return item->len != 0 && (rest->p == NULL || rest->len != 0);
    }
    for (; i < rest->len && rest->p[i] != '"'; ++i) {
        if (rest->p[i] == '\\' && ++i == rest->len)
            return false;
        text_add_char(item, rest->p[i]);
    }
    if (i >= rest->len)
        return false; /* the closing quote is missing */
    *rest = slice_trim((struct slice){rest->p + i + 1, rest->len - i - 1});
    if (rest->len == 0)
        return true;
    struct slice between = slice_cut(rest, ',');
    return between.len == 0 && rest->len != 0;
}

static bool parse_list(struct slice text, struct text_list *out)
{
    struct slice rest = slice_trim(text);
    struct text item = {0};
    bool good = true;

    while (good && rest.len != 0) {
        text_clear(&item);
        good = parse_item(&rest, &item);
        if (good)
            text_list_add(out, text_slice(&item));
    }
    text_fini(&item);
    if (!good)
        text_list_fini(out);
    return good;
}

static void print_list(const struct text_list *l, struct text *out)
{
    for (size_t i = 0; i < l->n; ++i) {
        struct slice item = slice_of(l->items[i]);

        text_add(out, i != 0 ? SLICE_LIT(", ") : SLICE_NULL);
        if (item.len != 0 && slice_trim(item).len == item.len && item.p[0] != '"' &&
            slice_find(item, ',') == SIZE_MAX) {
            text_add(out, item);
            continue;
        }
        text_add_char(out, '"');
        for (size_t k = 0; k < item.len; ++k) {
            if (item.p[k] == '"' || item.p[k] == '\\')
                text_add_char(out, '\\');
            text_add_char(out, item.p[k]);
        }
        text_add_char(out, '"');
    }
}

/* ---- numbers ---- */

static bool parse_bool(struct slice s, bool *out)
{
    static const char *const yes[] = {"true", "yes", "on"};
    static const char *const no[] = {"false", "no", "off"};

    for (size_t i = 0; i < ARRAY_LEN(yes); ++i) {
        bool is_yes = slice_eq_nocase(s, slice_of(yes[i]));

        if (is_yes || slice_eq_nocase(s, slice_of(no[i]))) {
            *out = is_yes;
            return true;
        }
    }
    return false;
}

static bool parse_int(struct slice s, int64_t *out)
{
    bool negative = slice_starts(s, SLICE_LIT("-"));
    uint64_t v;

    if (negative)
        s = (struct slice){s.p + 1, s.len - 1};
    if (!parse_u64(s, INT64_MAX, &v))
        return false;
    *out = negative ? -(int64_t)v : (int64_t)v;
    return true;
}

/* Parses digits, optionally a point and digits, directly followed by one of UNITS. Returns false if
 * S is invalid or the product is not an integer. */
static bool parse_amount(struct slice s, const struct unit *units, size_t n, uint64_t *out)
{
    enum { FRACTION_DIGITS = 6 }; /* times a TiB fits 64 bits */
    struct slice fraction = {s.p, 0};
    const struct unit *unit = units;
    uint64_t w;
    uint64_t f = 0;
    uint64_t scale = 1;

    while (fraction.len < s.len &&
           slice_find(SLICE_LIT("0123456789."), s.p[fraction.len]) != SIZE_MAX)
        ++fraction.len;
    struct slice suffix = {s.p + fraction.len, s.len - fraction.len};
    struct slice whole = slice_cut(&fraction, '.');
    while (unit < units + n && !slice_is(suffix, unit->suffix))
        ++unit;
    if (unit == units + n || !parse_u64(whole, UINT64_MAX, &w) || fraction.len > FRACTION_DIGITS)
        return false;
    if (fraction.p != NULL && !parse_u64(fraction, UINT64_MAX, &f))
        return false;
    for (size_t i = 0; i < fraction.len; ++i)
        scale *= 10;
    if (f * unit->factor % scale != 0)
        return false;
    return !__builtin_mul_overflow(w, unit->factor, &w) &&
           !__builtin_add_overflow(w, f * unit->factor / scale, out);
}

static bool parse_time(struct slice s, uint64_t *out)
{
    if (slice_is(s, "off")) {
        *out = 0;
        return true;
    }
    return parse_amount(s, time_units, ARRAY_LEN(time_units), out);
}

static bool parse_choice(const char *choices, struct slice s, int *out)
{
    struct slice rest = slice_of(choices);

    for (int i = 0; rest.len != 0; ++i) {
        if (slice_eq(slice_cut(&rest, '|'), s)) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* ---- any type ---- */

static bool parse_by_type(const struct setting_row *row, struct slice s, struct setting_value *v)
{
    switch (row->type) {
    case SETTING_BOOL:
        return parse_bool(s, &v->yes);
    case SETTING_INT:
        return parse_int(s, &v->number);
    case SETTING_REAL:
        return parse_double(s, &v->real);
    case SETTING_TIME:
        return parse_time(s, &v->amount);
    case SETTING_SIZE:
        return parse_amount(s, size_units, ARRAY_LEN(size_units), &v->amount);
    case SETTING_CHOICE:
        return parse_choice(row->min, s, &v->choice);
    case SETTING_TEXT:
    case SETTING_SECRET:
        if (slice_find(s, '\0') != SIZE_MAX)
            return false;
        /* If the default is NULL, an empty text selects it. */
        v->text = s.len == 0 && row->deflt == NULL ? NULL : xslicedup(s);
        return true;
    case SETTING_LIST:
        return slice_find(s, '\0') == SIZE_MAX && parse_list(s, &v->list);
    case SETTING_NODE:
        return false;
    }
    UNREACHABLE();
}

bool setting_is_off(const char *text)
{
    uint64_t ms;

    return text != NULL && parse_time(slice_of(text), &ms) && ms == 0;
}

bool setting_takes_off(const struct setting_row *row)
{
    return row->type == SETTING_TIME &&
           (row->min == NULL || setting_is_off(row->min) || setting_is_off(row->deflt));
}

/* Returns a number less than, equal to, or greater than 0, as V is to BOUND, which is valid. */
static int setting_compare(const struct setting_row *row, const struct setting_value *v,
                           const char *bound)
{
    struct setting_value b = {0};

    bool parsed = parse_by_type(row, slice_of(bound), &b);
    ASSERT(parsed);
    if (row->type == SETTING_INT)
        return (v->number > b.number) - (v->number < b.number);
    if (row->type == SETTING_REAL)
        return (v->real > b.real) - (v->real < b.real);
    return compare_u64(v->amount, b.amount);
}

static void setting_explain(const struct setting_row *row, struct slice text,
                            char why[SETTINGS_WHY_ROOM])
{
    char buf[SETTING_SHOWN_ROOM];

    /* A secret is not shown, even if it is invalid. */
    setting_shown(row->type == SETTING_SECRET ? SLICE_LIT("***") : text, buf);
    if (row->type != SETTING_CHOICE) {
        snprintf(why, SETTINGS_WHY_ROOM, "expected %s%s, not \"%s\"",
                 setting_types[row->type].expected, setting_takes_off(row) ? ", or off" : "", buf);
        return;
    }
    size_t used = (size_t)snprintf(why, SETTINGS_WHY_ROOM, "\"%s\" is not one of ", buf);
    for (const char *c = row->min; *c != '\0' && used + 3 < SETTINGS_WHY_ROOM; ++c) {
        why[used++] = (char)(*c != '|' ? *c : ',');
        if (*c == '|')
            why[used++] = ' ';
    }
    why[used] = '\0';
}

enum err setting_value_parse(const struct setting_row *row, struct slice text,
                             struct setting_value *out, char why[SETTINGS_WHY_ROOM])
{
    struct setting_value v = {0};

    ASSERT(row->type != SETTING_NODE);
    if (!parse_by_type(row, text, &v)) {
        setting_explain(row, text, why);
        return ERR_SYNTAX;
    }
    bool ranged = setting_types[row->type].ranged &&
                  !(row->type == SETTING_TIME && v.amount == 0 && setting_takes_off(row));
    if (ranged && row->min != NULL && setting_compare(row, &v, row->min) < 0) {
        snprintf(why, SETTINGS_WHY_ROOM, "must be at least %s", row->min);
        return ERR_RANGE;
    }
    if (ranged && row->max != NULL && setting_compare(row, &v, row->max) > 0) {
        snprintf(why, SETTINGS_WHY_ROOM, "must be at most %s", row->max);
        return ERR_RANGE;
    }
    if ((row->type == SETTING_TIME && v.amount > time_ms_max) ||
        (row->type == SETTING_SIZE && v.amount > size_bytes_max)) {
        snprintf(why, SETTINGS_WHY_ROOM, "is too large");
        return ERR_RANGE;
    }
    *out = v;
    return ERR_OK;
}

/* ---- printing ---- */

/* With the largest unit that leaves no remainder. */
static void print_amount(uint64_t amount, const struct unit *units, struct text *out)
{
    while (units->factor != 1 && amount % units->factor != 0)
        ++units;
    text_addf(out, "%" PRIu64 "%s", amount / units->factor, units->suffix);
}

void setting_value_print(const struct setting_row *row, const struct setting_value *v,
                         struct text *out)
{
    struct slice choices;
    struct slice choice = SLICE_NULL;

    switch (row->type) {
    case SETTING_BOOL:
        text_add(out, v->yes ? SLICE_LIT("true") : SLICE_LIT("false"));
        break;
    case SETTING_INT:
        text_addf(out, "%" PRId64, v->number);
        break;
    case SETTING_REAL:
        text_add_real(out, v->real);
        break;
    case SETTING_TIME:
        if (v->amount == 0) {
            text_add(out, setting_takes_off(row) ? SLICE_LIT("off") : SLICE_LIT("0s"));
        } else if (v->amount < 1000 || v->amount % 1000 == 0) {
            print_amount(v->amount, time_units, out);
        } else {
            text_addf(out, "%" PRIu64 ".%03" PRIu64, v->amount / 1000, v->amount % 1000);
            while (out->p[out->len - 1] == '0')
                --out->len;
            text_add_char(out, 's');
        }
        break;
    case SETTING_SIZE:
        if (v->amount == 0)
            text_add_char(out, '0');
        else
            print_amount(v->amount, size_units, out);
        break;
    case SETTING_TEXT:
        text_add(out, slice_of(v->text));
        break;
    case SETTING_SECRET:
        text_add(out, v->text != NULL ? SLICE_LIT("***") : SLICE_NULL);
        break;
    case SETTING_CHOICE:
        choices = slice_of(row->min);
        for (int i = 0; i <= v->choice; ++i)
            choice = slice_cut(&choices, '|');
        text_add(out, choice);
        break;
    case SETTING_LIST:
        print_list(&v->list, out);
        break;
    case SETTING_NODE:
        text_add(out, SLICE_LIT("..."));
        break;
    }
}
