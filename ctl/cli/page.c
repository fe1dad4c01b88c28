/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/cli/page.h"

#include <inttypes.h>
#include <stdio.h>

int64_t page_int(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);

    if (json_is_real(v))
        return (int64_t)json_real_value(v);
    return json_integer_value(v);
}

void cell_text(struct table *t, const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    struct slice s = {json_string_value(v), json_string_length(v)};

    table_add(t, s.len != 0 ? s : SLICE_LIT("-"));
}

void cell_int(struct table *t, const json_t *object, const char *name)
{
    if (json_is_number(json_object_get(object, name)))
        table_addf(t, "%" PRId64, page_int(object, name));
    else
        table_add(t, SLICE_LIT("-"));
}

/* FMT is always a literal of ours. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void cell_real(struct table *t, const json_t *object, const char *name, const char *fmt)
{
    const json_t *v = json_object_get(object, name);

    if (json_is_number(v))
        table_addf(t, fmt, json_number_value(v));
    else
        table_add(t, SLICE_LIT("-"));
}
#pragma GCC diagnostic pop

void page_add_text(struct text *out, const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);

    if (json_is_string(v))
        text_add_escaped(out, (struct slice){json_string_value(v), json_string_length(v)});
    else
        text_add_char(out, '-');
}

void page_add_words(struct text *out, struct slice words)
{
    for (size_t i = 0; i < words.len; ++i) {
        if (words.p[i] == '"' || words.p[i] == '\\')
            text_add_char(out, words.p[i]);
        else
            text_add_escaped(out, (struct slice){words.p + i, 1});
    }
}

void page_add_why(struct text *out, const json_t *object)
{
    const json_t *v = json_object_get(object, "why");

    if (json_is_string(v))
        page_add_words(out, (struct slice){json_string_value(v), json_string_length(v)});
    else
        text_add_char(out, '-');
}

void page_add_real(struct text *out, const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);

    if (json_is_number(v))
        text_addf(out, "%.4g", json_number_value(v));
    else
        text_add_char(out, '-');
}

void page_add_cutoff(const json_t *application, struct text *out)
{
    const char *policy = json_string_value(json_object_get(application, "policy"));

    if (policy != NULL && strcmp(policy, "resume") != 0)
        return;
    text_add(out, SLICE_LIT(", cutoff "));
    page_add_real(out, application, "max_backlog");
}

void page_add_duration(struct text *out, double seconds)
{
    enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
    /* Beyond any uptime; also keeps the conversion defined. */
    uint64_t s = seconds > 0 && seconds < 1e12 ? (uint64_t)seconds : 0;

    if (s >= DAY)
        text_addf(out, "%" PRIu64 "d %" PRIu64 "h", s / DAY, s % DAY / HOUR);
    else if (s >= HOUR)
        text_addf(out, "%" PRIu64 "h %" PRIu64 "m", s / HOUR, s % HOUR / MINUTE);
    else if (s >= MINUTE)
        text_addf(out, "%" PRIu64 "m %" PRIu64 "s", s / MINUTE, s % MINUTE);
    else
        text_addf(out, "%" PRIu64 "s", s);
}

void page_print_refused(const json_t *application, struct text *out)
{
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(application, "refused"), i, row)
    {
        text_add(out, SLICE_LIT("  refused setting "));
        page_add_text(out, row, "name");
        text_add(out, SLICE_LIT(": "));
        page_add_why(out, row);
        text_add_char(out, '\n');
    }
    json_array_foreach(json_object_get(application, "broken_links"), i, row)
    {
        text_add(out, SLICE_LIT("  a link in the tree does not resolve: "));
        text_add_escaped(out, (struct slice){json_string_value(row), json_string_length(row)});
        text_add_char(out, '\n');
    }
}

enum err page_check(const json_t *page, const struct ctl_options *o)
{
    const json_t *applications = json_object_get(page, "applications");

    if (!json_is_object(applications))
        return ERR_SYNTAX;
    if (o->application != NULL && json_object_get(applications, o->application) == NULL)
        return ERR_NOT_FOUND;
    return ERR_OK;
}

void page_each_application(const json_t *page, const struct ctl_options *o,
                           page_application_fn print, struct text *out)
{
    json_t *applications = json_object_get(page, "applications");
    const char *name;
    json_t *a;

    if (json_object_size(applications) == 0)
        text_add(out, SLICE_LIT("no applications\n"));
    json_object_foreach(applications, name, a)
    {
        if (o->application != NULL && strcmp(o->application, name) != 0)
            continue;
        if (out->len != 0)
            text_add_char(out, '\n');
        print(name, a, o, out);
    }
}
