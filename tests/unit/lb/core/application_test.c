/* SPDX-License-Identifier: Apache-2.0 */
#include "lb/core/application.h"

#include <pthread.h>
#include <semaphore.h>

#include "tests/unit/lb/core/control_fixture.h"

/* ---- which application ---- */

/* Applications by "NAME HOSTS PATH" lines; hosts separated by commas, "-" for none, "!" for the
 * default. */
struct site {
    struct lb lb;
    struct application *apps[8];
    size_t n;
};

static struct application *app_create(const char *name, const char *hosts, const char *path)
{
    struct application *a = xcalloc(1, sizeof(*a));
    struct slice rest = slice_of(hosts);

    a->name = xstrdup(name);
    a->path = slice_of(path);
    a->settings = xcalloc(1, sizeof(*a->settings));
    struct text_list *list = &a->settings->s.hosts;
    list->items = xcalloc(8, sizeof(char *));
    while (rest.len > 0) {
        struct slice host = slice_cut(&rest, ',');

        if (slice_is(host, "!"))
            a->is_default = true;
        else
            list->items[list->n++] = xslicedup(host);
    }
    return a;
}

static int make_site(void **state)
{
    struct site *s = xcalloc(1, sizeof(*s));

    s->apps[s->n++] = app_create("shop", "shop.example", "");
    s->apps[s->n++] = app_create("wiki", "shop.example", "/w");
    s->apps[s->n++] = app_create("deep", "shop.example", "/w/deep");
    s->apps[s->n++] = app_create("wild", "*.example", "");
    s->apps[s->n++] = app_create("wider", "*.shop.example,[::1]", "");
    s->apps[s->n++] = app_create("api", "only.example", "/api");
    s->apps[s->n++] = app_create("rest", "!", "/any");
    s->lb.index = application_index_create(s->apps, s->n);
    *state = s;
    return 0;
}

static void drop_applications(struct site *s)
{
    application_index_destroy(s->lb.index);
    for (size_t i = 0; i < s->n; ++i) {
        text_list_fini(&s->apps[i]->settings->s.hosts);
        free(s->apps[i]->settings);
        free(s->apps[i]->name);
        free(s->apps[i]);
    }
}

static int drop_site(void **state)
{
    drop_applications(*state);
    free(*state);
    return 0;
}

/* Whether the first of one or two applications is the only one, for all there is to ask. */
static bool is_the_only_one(const char *hosts, const char *path, const char *hosts_of_another)
{
    struct site s = {0};

    s.apps[s.n++] = app_create("first", hosts, path);
    if (hosts_of_another != NULL)
        s.apps[s.n++] = app_create("second", hosts_of_another, "");
    s.lb.index = application_index_create(s.apps, s.n);
    const struct application *only = application_only(&s.lb);
    bool is = only == s.apps[0];
    if (is)
        assert_ptr_equal(application_find(&s.lb, SLICE_LIT("a.example"), SLICE_LIT("/x")), only);
    else
        assert_null(only);
    drop_applications(&s);
    return is;
}

static void a_default_for_all_paths_with_no_hosts_beside_it_is_the_only_one(void **state)
{
    (void)state;
    assert_true(is_the_only_one("!", "", NULL));
    assert_false(is_the_only_one("!", "/w", NULL));
    assert_false(is_the_only_one("a.example", "", NULL));
    assert_false(is_the_only_one("!", "", "b.example"));
    assert_false(is_the_only_one("!,a.example", "", NULL));
}

static const char *who(const struct site *s, const char *host, const char *path)
{
    const struct application *a = application_find(&s->lb, slice_of(host), slice_of(path));

    return a != NULL ? a->name : "nobody";
}

static void the_longest_path_prefix_of_a_host_wins(void **state)
{
    const struct site *s = *state;

    assert_string_equal(who(s, "shop.example", "/"), "shop");
    assert_string_equal(who(s, "shop.example", "/w"), "wiki");
    assert_string_equal(who(s, "shop.example", "/w/page"), "wiki");
    assert_string_equal(who(s, "shop.example", "/w?x=1"), "wiki");
    assert_string_equal(who(s, "shop.example", "/w/deep/er"), "deep");
    assert_string_equal(who(s, "shop.example", "/w/deeper"), "wiki");
    assert_string_equal(who(s, "shop.example", "/wonder"), "shop");
    assert_string_equal(who(s, "shop.example", "*"), "shop");
    assert_string_equal(who(s, "shop.example", ""), "shop");
}

static void case_port_and_trailing_dot_of_a_host_do_not_matter(void **state)
{
    const struct site *s = *state;

    assert_string_equal(who(s, "SHOP.Example", "/"), "shop");
    assert_string_equal(who(s, "shop.example:8080", "/"), "shop");
    assert_string_equal(who(s, "shop.example.", "/"), "shop");
    assert_string_equal(who(s, "shop.example.:80", "/"), "shop");
    assert_string_equal(who(s, "[::1]:80", "/"), "wider");
    assert_string_equal(who(s, "[::1]", "/"), "wider");
}

static void the_longest_wildcard_wins_after_exact_hosts(void **state)
{
    const struct site *s = *state;

    assert_string_equal(who(s, "a.shop.example", "/"), "wider");
    assert_string_equal(who(s, "b.a.shop.example", "/w"), "wider");
    assert_string_equal(who(s, "other.example", "/"), "wild");
    assert_string_equal(who(s, "example", "/any"), "rest");
    assert_string_equal(who(s, ".example", "/any"), "wild");
}

static void a_host_without_that_path_continues_to_its_wildcards(void **state)
{
    const struct site *s = *state;

    assert_string_equal(who(s, "only.example", "/api/x"), "api");
    assert_string_equal(who(s, "only.example", "/"), "wild");
}

static void the_default_is_for_hosts_that_none_has(void **state)
{
    const struct site *s = *state;
    char long_host[4000];

    memset(long_host, 'x', sizeof(long_host) - 1);
    long_host[sizeof(long_host) - 1] = '\0';
    assert_string_equal(who(s, "unknown.test", "/any/x"), "rest");
    assert_string_equal(who(s, "unknown.test", "/"), "nobody");
    assert_string_equal(who(s, "", "/any"), "rest");
    assert_string_equal(who(s, ":80", "/any"), "rest");
    assert_string_equal(who(s, "[::1", "/any"), "rest");
    assert_string_equal(who(s, long_host, "/any"), "rest");
    assert_string_equal(who(s, ".", "/any"), "rest");
    assert_string_equal(who(s, "..", "/any"), "rest");
}

/* ---- publication, over threads ---- */

enum { LOOPS = 3, PUBLICATIONS = 500 };

struct reader {
    struct control *control;
    unsigned index;
    pthread_t thread;
    sem_t *ready, *attached;
    struct loop_deferred each_turn;
    int64_t last;
    bool back, torn;
};

/* The rows of one snapshot belong together: history is retries + 100 in each. */
static void on_each_turn(struct loop_deferred *d)
{
    struct reader *r = container_of(d, struct reader, each_turn);
    struct application_loop *al = application_on(r->control->app, r->index);

    application_take_settings(al);
    const struct app_settings *s = application_settings(al);
    r->torn = r->torn || (s->retries != 2 && s->history != s->retries + 100);
    r->back = r->back || s->retries < r->last;
    r->last = s->retries;
    if (s->retries == PUBLICATIONS)
        loop_stop(r->control->lb.loops[r->index].loop);
}

static void *read_settings(void *context)
{
    struct reader *r = context;
    struct loop *l = loop_create(r->index);

    r->control->lb.loops[r->index].loop = l;
    sem_post(r->ready);
    while (sem_wait(r->attached) != 0)
        ;
    r->each_turn.run = on_each_turn;
    loop_each_turn(l, &r->each_turn);
    loop_run(l);
    list_remove(&r->each_turn.node);
    loop_destroy(l);
    return NULL;
}

static void attach_loops(struct control *c, struct reader readers[LOOPS], sem_t *ready,
                         sem_t *attached)
{
    struct loop *loops[LOOPS];

    c->lb.loops = xcalloc(LOOPS, sizeof(*c->lb.loops));
    for (unsigned i = 0; i < LOOPS; ++i) {
        readers[i] = (struct reader){
            .control = c, .index = i, .ready = ready, .attached = attached, .last = 0};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_settings, &readers[i]), 0);
    }
    for (unsigned i = 0; i < LOOPS; ++i) {
        while (sem_wait(ready) != 0)
            ;
    }
    for (unsigned i = 0; i < LOOPS; ++i)
        loops[i] = c->lb.loops[i].loop;
    c->lb.nloops = LOOPS;
    application_attach(c->app, loops, LOOPS);
    for (unsigned i = 0; i < LOOPS; ++i)
        sem_post(attached);
}

static void every_loop_sees_each_publication_whole_and_in_order(void **state)
{
    struct control *c =
        control_create_bare("listen: [\"127.0.0.1:0\"]\nworkers: [\"127.0.0.1:1\"]\n");
    struct reader readers[LOOPS];
    struct app_settings s;
    sem_t ready;
    sem_t attached;

    (void)state;
    sem_init(&ready, 0, 0);
    sem_init(&attached, 0, 0);
    attach_loops(c, readers, &ready, &attached);
    app_settings_copy(&c->config.applications[0].s, &s);
    for (int64_t n = 3; n <= PUBLICATIONS; ++n) {
        s.retries = n;
        s.history = n + 100;
        application_publish(c->app, &s);
    }
    for (unsigned i = 0; i < LOOPS; ++i) {
        pthread_join(readers[i].thread, NULL);
        assert_false(readers[i].torn);
        assert_false(readers[i].back);
        assert_int_equal(readers[i].last, PUBLICATIONS);
    }
    app_settings_fini(&s);
    sem_destroy(&ready);
    sem_destroy(&attached);
    struct lb_loop *loops = c->lb.loops;
    control_destroy(c);
    free(loops);
}

static void a_snapshot_lives_until_its_last_reference(void **state)
{
    struct app_settings s;

    (void)state;
    settings_defaults(&application_table, &s);
    struct app_snapshot *snapshot = app_snapshot_create(&s, NULL, NULL, NULL);
    assert_ptr_equal(app_snapshot_ref(snapshot), snapshot);
    app_snapshot_unref(snapshot);
    assert_int_equal(snapshot->s.retries, 2);
    app_snapshot_unref(snapshot);
    app_snapshot_unref(NULL);
    app_settings_fini(&s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_site, drop_site)
    const struct CMUnitTest tests[] = {
        TEST(the_longest_path_prefix_of_a_host_wins),
        TEST(case_port_and_trailing_dot_of_a_host_do_not_matter),
        TEST(the_longest_wildcard_wins_after_exact_hosts),
        TEST(a_host_without_that_path_continues_to_its_wildcards),
        TEST(the_default_is_for_hosts_that_none_has),
        cmocka_unit_test(a_default_for_all_paths_with_no_hosts_beside_it_is_the_only_one),
        cmocka_unit_test(a_snapshot_lives_until_its_last_reference),
        cmocka_unit_test(every_loop_sees_each_publication_whole_and_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
