/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/list.h"

struct item {
    int number;
    struct list node;
};

/* The numbers as decimal digits: 123 for 1, 2, 3. */
static int digits(const struct list *head)
{
    struct list *it;
    int all = 0;

    list_for_each (it, head)
        all = all * 10 + list_entry(it, struct item, node)->number;
    return all;
}

static void members_stand_where_they_were_put(void **state)
{
    struct list head = LIST_INIT(head);
    struct item items[] = {{.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}};

    (void)state;
    assert_true(list_empty(&head));
    list_push_back(&head, &items[1].node);
    list_push_back(&head, &items[3].node);
    list_push_front(&head, &items[0].node);
    list_insert_before(&items[3].node, &items[2].node);
    assert_int_equal(digits(&head), 1234);
    assert_ptr_equal(list_first(&head, struct item, node), &items[0]);
}

static void a_node_leaves_without_knowing_its_list(void **state)
{
    struct list head;
    struct item items[] = {{.number = 1}, {.number = 2}, {.number = 3}};

    (void)state;
    list_init(&head);
    /* One that never was in a list may leave it, too. */
    list_remove(&items[0].node);
    assert_false(list_linked(&items[0].node));
    for (size_t i = 0; i < ARRAY_LEN(items); ++i)
        list_push_back(&head, &items[i].node);
    assert_true(list_linked(&items[1].node));
    list_remove(&items[1].node);
    list_remove(&items[1].node);
    assert_false(list_linked(&items[1].node));
    assert_int_equal(digits(&head), 13);
}

static void a_member_of_any_list_may_become_the_last_of_another(void **state)
{
    struct list head = LIST_INIT(head);
    struct list other = LIST_INIT(other);
    struct item items[] = {{.number = 1}, {.number = 2}, {.number = 3}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(items); ++i)
        list_push_back(&head, &items[i].node);
    list_move_back(&head, &items[0].node);
    assert_int_equal(digits(&head), 231);
    list_move_back(&head, &items[0].node);
    assert_int_equal(digits(&head), 231);
    list_move_back(&other, &items[2].node);
    assert_int_equal(digits(&head), 21);
    assert_int_equal(digits(&other), 3);
    list_remove(&items[1].node);
    list_move_back(&other, &items[0].node);
    assert_true(list_empty(&head));
    assert_int_equal(digits(&other), 31);
}

static void pop_front_empties_a_list_in_order(void **state)
{
    struct list head = LIST_INIT(head);
    struct item items[] = {{.number = 1}, {.number = 2}};

    (void)state;
    list_push_back(&head, &items[0].node);
    list_push_back(&head, &items[1].node);
    assert_ptr_equal(list_pop_front(&head), &items[0].node);
    assert_false(list_linked(&items[0].node));
    assert_ptr_equal(list_pop_front(&head), &items[1].node);
    assert_null(list_pop_front(&head));
    assert_true(list_empty(&head));
}

static void splice_moves_all_to_the_end(void **state)
{
    struct list to = LIST_INIT(to);
    struct list from = LIST_INIT(from);
    struct item items[] = {{.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}};

    (void)state;
    list_splice_back(&to, &from);
    assert_true(list_empty(&to));
    list_push_back(&from, &items[0].node);
    list_push_back(&from, &items[1].node);
    list_splice_back(&to, &from);
    assert_true(list_empty(&from));
    list_push_back(&from, &items[2].node);
    list_push_back(&from, &items[3].node);
    list_splice_back(&to, &from);
    assert_int_equal(digits(&to), 1234);
    assert_int_equal(digits(&from), 0);
}

static void members_may_leave_while_the_safe_form_walks(void **state)
{
    struct list head = LIST_INIT(head);
    struct item items[] = {{.number = 1}, {.number = 2}, {.number = 3}};
    struct list *it;
    struct list *next;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(items); ++i)
        list_push_back(&head, &items[i].node);
    list_for_each_safe (it, next, &head) {
        if (list_entry(it, struct item, node)->number != 2)
            list_remove(it);
    }
    assert_int_equal(digits(&head), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_stand_where_they_were_put),
        cmocka_unit_test(a_node_leaves_without_knowing_its_list),
        cmocka_unit_test(a_member_of_any_list_may_become_the_last_of_another),
        cmocka_unit_test(pop_front_empties_a_list_in_order),
        cmocka_unit_test(splice_moves_all_to_the_end),
        cmocka_unit_test(members_may_leave_while_the_safe_form_walks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
