/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/config/access_config.h"

bool access_fields_read(const struct text_list *list, uint64_t *out, size_t *at)
{
    uint64_t fields = list->n == 0 ? ACCESS_ALL_FIELDS : 0;

    for (size_t i = 0; i < list->n; ++i) {
        enum access_field f = access_field_find(slice_of(list->items[i]));

        if (f == ACCESS_FIELDS) {
            *at = i;
            return false;
        }
        fields |= (uint64_t)1 << f;
    }
    *out = fields;
    return true;
}

struct access_options access_options_of(const struct program_settings *s)
{
    struct access_options o = {
        .format = (enum access_format)s->access_log_format,
        .sample = s->access_log_sample,
        .keep_errors = s->access_log_keep_errors,
    };
    size_t at;

    ASSERT(access_fields_read(&s->access_log_fields, &o.fields, &at));
    return o;
}
