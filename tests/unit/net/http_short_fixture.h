/* SPDX-License-Identifier: Apache-2.0
 *
 * A server whose requests go past libh2o where they can, whatever the environment says.
 */
#ifndef RLB_TESTS_HTTP_SHORT_FIXTURE_H
#define RLB_TESTS_HTTP_SHORT_FIXTURE_H

#include "tests/unit/net/http_server_fixture.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

/* How many requests have gone past libh2o. */
static inline uint64_t short_way(struct fixture *f)
{
    struct http_server_counts c;

    http_server_read_counts(f->server, &c);
    assert_int_equal(c.requests, f->requests);
    return c.short_way;
}

static inline void set_long_way(struct fixture *f, bool long_way)
{
    struct http_server_options o = fixture_options(f);

    o.long_way = long_way;
    http_server_set(f->server, &o);
}

static inline int short_setup(void **state)
{
    int failed = fixture_setup(state);

    set_long_way(*state, false);
    return failed;
}

#define SHORT(name) cmocka_unit_test_setup_teardown(name, short_setup, fixture_teardown)

#endif
