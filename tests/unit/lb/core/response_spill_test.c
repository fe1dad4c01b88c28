/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/core/response_spill.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

struct fixture {
    struct loop *loop;
    struct fair_shares files;
    struct spill_space space;
    struct spill_loop home;
    struct response_spill *spill;
    bool lost;
    unsigned char next_in, next_out; /* of the bytes, which count up */
};

static uint64_t used(struct fixture *f)
{
    return atomic_load(&f->space.bytes.used);
}

static void on_lost(void *context)
{
    struct fixture *f = context;

    response_spill_destroy(f->spill);
    f->spill = NULL;
    f->lost = true;
}

static struct response_spill *spill_of(struct fixture *f, const char *client)
{
    struct addr a;

    assert_int_equal(addr_parse((struct slice){client, strlen(client)}, &a), ERR_OK);
    const struct fair_owner owner = fair_owner_of(&a, client);
    return response_spill_create(&f->home, &owner, on_lost, f);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    f->loop = loop_create(0);
    f->space.directory = "/tmp";
    f->space.files = &f->files;
    atomic_init(&f->space.bytes.max, 1ull << 30);
    spill_loop_init(&f->home, &f->space, f->loop);
    f->spill = spill_of(f, "10.0.0.1:1");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    response_spill_destroy(f->spill);
    assert_int_equal(used(f), 0);
    spill_loop_fini(&f->home);
    loop_destroy(f->loop);
    fair_shares_fini(&f->files);
    fair_shares_fini(&f->space.bytes);
    free(f);
    return 0;
}

static struct body_piece *bytes(struct fixture *f, size_t n)
{
    unsigned char *p = malloc(n);

    for (size_t i = 0; i < n; ++i)
        p[i] = f->next_in++;
    return body_piece_borrow((struct slice){(char *)p, n}, free, p);
}

static bool put(struct fixture *f, size_t n)
{
    return response_spill_add(f->spill, bytes(f, n));
}

/* Takes at most MAX bytes, which are those that follow; how many. */
static size_t take(struct fixture *f, size_t max)
{
    struct body_piece *b = response_spill_take(f->spill, max);
    size_t n = b->bytes;

    for (size_t i = 0; i < b->nparts; ++i) {
        for (size_t k = 0; k < b->parts[i].len; ++k)
            assert_int_equal((unsigned char)b->parts[i].p[k], f->next_out++);
    }
    body_piece_release(b);
    return n;
}

static void bytes_are_taken_in_the_order_they_were_added(void **state)
{
    struct fixture *f = *state;

    assert_true(response_spill_is_empty(f->spill));
    for (int round = 0; round < 3; ++round) {
        assert_true(response_spill_room(f->spill, MIB, false) >= 5000);
        assert_true(put(f, 3000));
        assert_true(put(f, 2000));
        assert_int_equal(response_spill_in_file(f->spill), 5000);
        assert_int_equal(take(f, 100), 100);
        assert_true(put(f, 77));
        assert_int_equal(take(f, 10000), 4977);
        assert_true(response_spill_is_empty(f->spill));
        assert_int_equal(used(f), 0);
    }
}

static void a_response_takes_at_most_its_own_limit(void **state)
{
    struct fixture *f = *state;
    size_t all = 0;
    size_t room;

    while ((room = response_spill_room(f->spill, 3 * MIB, false)) != 0) {
        assert_true(put(f, room));
        all += room;
    }
    assert_int_equal(all, 3 * MIB);
    assert_int_equal(response_spill_error(f->spill), 0);
    /* What has been taken is room again, before all has been. */
    while (response_spill_in_file(f->spill) > MIB)
        take(f, 64 * KIB);
    assert_true(response_spill_room(f->spill, 3 * MIB, false) > 0);
    assert_true(put(f, 10));
    while (!response_spill_is_empty(f->spill))
        take(f, 64 * KIB);
    assert_int_equal(used(f), 0);
}

static void a_limit_of_nothing_opens_no_file(void **state)
{
    struct fixture *f = *state;

    f->space.directory = "/nowhere";
    assert_int_equal(response_spill_room(f->spill, 0, false), 0);
    assert_int_equal(response_spill_error(f->spill), 0);
    atomic_store(&f->space.bytes.max, 0);
    assert_int_equal(response_spill_room(f->spill, MIB, false), 0);
    assert_int_equal(response_spill_error(f->spill), 0);
}

static void the_responses_together_take_at_most_the_total(void **state)
{
    struct fixture *f = *state;
    struct response_spill *other = spill_of(f, "10.0.0.1:1");

    atomic_store(&f->space.bytes.max, 300 * KIB);
    assert_int_equal(response_spill_room(other, MIB, false), 256 * KIB);
    assert_int_equal(response_spill_room(f->spill, MIB, false), 44 * KIB);
    assert_int_equal(used(f), 300 * KIB);
    assert_true(put(f, 44 * KIB));
    assert_int_equal(response_spill_room(f->spill, MIB, false), 0);
    response_spill_destroy(other);
    assert_int_equal(used(f), 44 * KIB);
    assert_int_equal(response_spill_room(f->spill, MIB, false), 256 * KIB);
}

static void a_directory_that_is_gone_is_an_error_and_takes_no_space(void **state)
{
    struct fixture *f = *state;

    f->space.directory = "/nowhere";
    assert_int_equal(response_spill_room(f->spill, MIB, false), 0);
    assert_int_equal(response_spill_error(f->spill), ENOENT);
    assert_int_equal(used(f), 0);
    f->space.directory = "/tmp";
    assert_true(response_spill_room(f->spill, MIB, false) > 0);
    assert_int_equal(response_spill_error(f->spill), 0);
}

static void files_are_counted_with_those_of_others(void **state)
{
    struct fixture *f = *state;
    struct response_spill *other = spill_of(f, "10.0.0.1:1");

    atomic_init(&f->files.max, 1);
    assert_true(response_spill_room(other, MIB, false) > 0);
    assert_int_equal(atomic_load(&f->files.used), 1);
    assert_int_equal(response_spill_room(f->spill, MIB, false), 0);
    assert_int_equal(response_spill_error(f->spill), EMFILE);
    assert_true(response_spill_is_over_share(f->spill));
    assert_int_equal(used(f), 256 * KIB);
    response_spill_destroy(other);
    assert_int_equal(atomic_load(&f->files.used), 0);
    assert_true(response_spill_room(f->spill, MIB, false) > 0);
    assert_int_equal(atomic_load(&f->files.used), 1);
}

static void the_only_file_of_a_client_is_within_its_share(void **state)
{
    struct fixture *f = *state;
    struct response_spill *other = spill_of(f, "10.0.0.2:1");

    atomic_init(&f->files.max, 1);
    assert_true(response_spill_room(f->spill, MIB, false) > 0);
    assert_int_equal(response_spill_room(other, MIB, false), 0);
    assert_int_equal(response_spill_room(other, MIB, true), 0);
    assert_true(response_spill_is_crowded(other));
    assert_false(response_spill_is_over_share(other));
    response_spill_destroy(other);
}

static void a_file_is_lost_to_a_client_that_has_less(void **state)
{
    struct fixture *f = *state;
    struct response_spill *same[2] = {spill_of(f, "10.0.0.1:1"), spill_of(f, "10.0.0.1:1")};
    struct response_spill *other = spill_of(f, "10.0.0.2:1");

    atomic_init(&f->space.bytes.max, MIB);
    assert_true(response_spill_room(f->spill, MIB, false) > 0);
    assert_true(put(f, 256 * KIB));
    assert_true(response_spill_room(f->spill, MIB, false) > 0);
    assert_true(response_spill_room(same[0], MIB, false) > 0);
    assert_true(response_spill_room(same[1], MIB, false) > 0);
    assert_int_equal(response_spill_room(other, MIB, false), 0);
    assert_true(response_spill_is_crowded(other));
    assert_true(response_spill_room(other, MIB, true) > 0);
    assert_false(f->lost);
    loop_turn(f->loop, 0);
    assert_true(f->lost);
    assert_int_equal(used(f), 768 * KIB);
    response_spill_destroy(same[0]);
    response_spill_destroy(same[1]);
    response_spill_destroy(other);
}

static void bytes_that_cannot_be_written_follow_in_memory(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;

    assert_true(response_spill_room(f->spill, MIB, false) > 0);
    assert_true(put(f, 10000));
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){12000, before.rlim_max});
    assert_false(put(f, 5000));
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(response_spill_error(f->spill), EFBIG);
    assert_int_equal(response_spill_in_memory(f->spill), 5000);
    assert_int_equal(response_spill_in_file(f->spill), 10000);
    assert_int_equal(take(f, MIB), 10000);
    assert_false(response_spill_is_empty(f->spill));
    assert_int_equal(take(f, MIB), 5000);
    assert_true(response_spill_is_empty(f->spill));
    /* From then on as at first. */
    assert_true(response_spill_room(f->spill, MIB, false) > 0);
    assert_true(put(f, 300));
    assert_int_equal(take(f, MIB), 300);
}

static void the_first_bytes_may_fail_too(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;

    assert_true(response_spill_room(f->spill, MIB, false) > 0);
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, before.rlim_max});
    assert_false(put(f, 5000));
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(take(f, MIB), 5000);
    assert_true(response_spill_room(f->spill, MIB, false) > 0);
    assert_true(put(f, 300));
    assert_int_equal(take(f, MIB), 300);
    assert_int_equal(used(f), 0);
}

static void a_read_that_took_more_than_was_promised_is_counted(void **state)
{
    struct fixture *f = *state;
    size_t room = response_spill_room(f->spill, 10000, false);

    assert_int_equal(room, 10000);
    assert_true(put(f, 14096));
    assert_int_equal(used(f), 14096);
    assert_int_equal(response_spill_room(f->spill, 10000, false), 0);
    assert_int_equal(take(f, MIB), 14096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(bytes_are_taken_in_the_order_they_were_added),
        TEST(a_response_takes_at_most_its_own_limit),
        TEST(a_limit_of_nothing_opens_no_file),
        TEST(the_responses_together_take_at_most_the_total),
        TEST(a_directory_that_is_gone_is_an_error_and_takes_no_space),
        TEST(files_are_counted_with_those_of_others),
        cmocka_unit_test_setup_teardown(the_only_file_of_a_client_is_within_its_share, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_file_is_lost_to_a_client_that_has_less, setup, teardown),
        TEST(bytes_that_cannot_be_written_follow_in_memory),
        TEST(the_first_bytes_may_fail_too),
        TEST(a_read_that_took_more_than_was_promised_is_counted),
    };

    return cmocka_run_group_tests_name("response_spill", tests, NULL, NULL);
}
