/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of an action at an admin address is rejected with a reason, or is the same after being
 * written and parsed again.
 */
#include "common/program/admin.h"

#include "tests/fuzz/fuzz.h"

static void print(const struct admin_action *o, struct text *out)
{
    struct json_writer w = {.out = out};

    json_open_object(&w, NULL);
    if (o->application.p != NULL)
        json_put_text(&w, "application", o->application);
    if (o->worker.p != NULL)
        json_put_text(&w, "worker", o->worker);
    if (o->has_class)
        json_put_text(&w, "class", o->cls);
    json_close_object(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct admin_action o;
    struct admin_action again;
    struct text printed = {0};
    const char *why = admin_action_read(&o, (struct slice){(const char *)data, size});

    if (why != NULL) {
        ASSERT(why[0] != '\0');
        admin_action_fini(&o);
        return 0;
    }
    ASSERT(o.has_class == (o.cls.p != NULL));
    ASSERT(admin_action_applies_to(&o, "") == (o.application.len == 0));
    print(&o, &printed);
    /* control characters are written as escapes, up to six times as long */
    why = admin_action_read(&again, text_slice(&printed));
    ASSERT((why == NULL) == (printed.len <= ADMIN_ACTION_BYTES_MAX));
    if (why == NULL) {
        ASSERT(slice_eq(o.application, again.application));
        ASSERT(slice_eq(o.worker, again.worker));
        ASSERT(slice_eq(o.cls, again.cls));
        ASSERT(o.has_class == again.has_class);
    }
    admin_action_fini(&again);
    admin_action_fini(&o);
    text_fini(&printed);
    return 0;
}
