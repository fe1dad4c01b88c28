/* SPDX-License-Identifier: Apache-2.0 */
#include "common/h2o/priority_tree.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void active_streams_have_turns_in_rotation(void **state)
{
    static char streams[3];
    struct priority_tree *t = priority_tree_create();
    struct priority_entry *e[3];

    (void)state;
    assert_null(priority_tree_next(t));
    for (unsigned i = 0; i < 3; ++i) {
        e[i] = priority_tree_open(t, 2 * i + 1, &(struct priority){.weight = 1}, &streams[i]);
        priority_tree_activate(e[i]);
    }
    priority_tree_activate(e[0]); /* again: without effect */
    for (unsigned i = 0; i < 9; ++i)
        assert_ptr_equal(priority_tree_next(t), &streams[i % 3]);
    priority_tree_deactivate(e[1]);
    for (unsigned i = 0; i < 4; ++i)
        assert_ptr_equal(priority_tree_next(t), &streams[i % 2 * 2]);
    for (unsigned i = 0; i < 3; ++i)
        priority_tree_close(t, e[i]);
    assert_null(priority_tree_next(t));
    priority_tree_destroy(t);
}

static void priority_frames_are_ignored(void **state)
{
    static char stream;
    struct priority_tree *t = priority_tree_create();
    struct priority_entry *e = priority_tree_open(t, 1, NULL, &stream);

    (void)state;
    assert_false(priority_tree_change(t, 1, &PRIORITY_DEFAULT, false));
    assert_false(priority_tree_change(t, 3, &PRIORITY_DEFAULT, true));
    priority_tree_close(t, e);
    priority_tree_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(active_streams_have_turns_in_rotation),
        cmocka_unit_test(priority_frames_are_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
