/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker gets that returns, or is new, while others serve streams: responses of 1 to 30 s to
 * sessions, which send their next request when they have the last response. 200 of them are served
 * by 4 workers with 1, 8 or 100 places, in virtual time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/sim/plan.h"
#include "tests/sim/seed.h"

/* The service time of a request of the scenario, nearly: a base cost and new objects. */
static const double SERVICE_S = 0.020;

static void run(double service_s, unsigned places, struct plan_result *out)
{
    struct plan_options o = plan_usual(simulation_seed());

    o.world.workers = 4;
    o.world.concurrency = places;
    o.world.cache = 20000;
    o.world.time_scale = service_s / SERVICE_S;
    o.clients = 200;
    run_scenario(SCENARIO_streams, &o, out);
}

static double figure(const struct plan_result *r, const char *key)
{
    for (size_t i = 0; i < r->nextras; ++i) {
        if (strcmp(r->extras[i].key, key) == 0)
            return r->extras[i].value;
    }
    UNREACHABLE();
}

static void a_worker_soon_has_half_of_its_share_whatever_others_serve(void **state)
{
    static const double services_s[] = {1, 8, 30};
    static const unsigned places[] = {1, 8, 100};
    /* Half of new sessions; and of those that had begun: a time, or so many service times. */
    const double NEW_S = 2;
    const double OLD_S = 10;
    const double OLD_SERVICES = 3;
    unsigned late = 0;
    struct plan_result r;

    (void)state;
    print_message("places  service s  back: new sessions s, older s  new: new sessions s, older s  "
                  "later requests elsewhere\n");
    for (size_t i = 0; i < ARRAY_LEN(places); ++i) {
        for (size_t k = 0; k < ARRAY_LEN(services_s); ++k) {
            run(services_s[k], places[i], &r);
            print_message("%6u %10.0f %22.1f %8.1f %20.1f %8.1f %10.3f\n", places[i], services_s[k],
                          figure(&r, "back_new_s"), figure(&r, "back_old_s"),
                          figure(&r, "added_new_s"), figure(&r, "added_old_s"),
                          figure(&r, "moved"));
            assert_true(figure(&r, "back_new_s") <= NEW_S);
            assert_true(figure(&r, "added_new_s") <= NEW_S);
            double old_s =
                services_s[k] * OLD_SERVICES > OLD_S ? services_s[k] * OLD_SERVICES : OLD_S;
            late += figure(&r, "back_old_s") > old_s || figure(&r, "added_old_s") > old_s;
        }
    }
    assert_int_equal(late, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_soon_has_half_of_its_share_whatever_others_serve),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
