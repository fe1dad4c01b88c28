/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that are registered by calls at the admin address: a source (source.c) of which each call
 * changes one provider. A registration with a ttl ends unless it is renewed before.
 *
 *   PUT, DELETE -> checked -> the source -> written by a thread -> the response
 *   renewal     -> checked -> the response; written within a second
 *
 * The file is {"v": 1, "workers": {NAME: {"properties": {...}, "ttl": S, "until": MS}}}, without
 * the last two if there is no ttl; MS is of the wall clock. Backends that have lost their
 * registration, and are not given up yet, are in it as registrations that have ended. It does not
 * exist while there is nothing to store.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/event/worker_thread.h"
#include "common/program/upgrade.h"
#include "lb/backends/membership_internal.h"

enum {
    FILE_BYTES_MAX = 2 * 1024 * 1024,
    /* Renewals are frequent, and a crash may lose the last ones: the registration then ends by so
     * much earlier. */
    RENEWALS_PAUSE_MS = 1000,
};

struct called_worker {
    struct map_node node; /* by name */
    struct call_source *of;
    char *name;
    json_t *properties; /* counted */
    uint64_t ttl_s;     /* 0: until it is removed */
    struct timer expiry;
};

struct call_source {
    struct source source;
    struct map workers;           /* of struct called_worker */
    struct loop_deferred report;  /* some have expired */
    struct state_file file;       /* the writer's while WRITING */
    struct worker_thread *writer; /* NULL: not needed so far */
    struct worker_job job;
    struct text bytes; /* that JOB writes; empty: removes the file */
    struct timer save;
    bool writing, changed; /* changed: since the last write began */
    int error;             /* errno of the last write; 0: saved */
    bool handed_over, closing;
    struct list waiting, covered; /* of struct admin_item: for the next write, for this one */
};

/* ---- registrations ---- */

static struct loop *loop_of(const struct call_source *c)
{
    return c->source.membership->app->lb->control;
}

static struct called_worker *find_called(const struct call_source *c, const char *name)
{
    return map_entry(map_find(&c->workers, name, strlen(name)), struct called_worker, node);
}

static void drop_called(struct called_worker *k)
{
    map_remove(&k->of->workers, &k->node);
    timer_stop(&k->expiry);
    json_decref(k->properties);
    free(k->name);
    free(k);
}

static uint64_t left_ms(const struct called_worker *k)
{
    uint64_t now_ms = loop_active_ms(loop_of(k->of));

    return k->expiry.due_ms > now_ms ? k->expiry.due_ms - now_ms : 0;
}

static void log_unregistered(const struct call_source *c, const char *name, const char *reason)
{
    log_info_folded(NULL, "worker-unregistered", "application=%s worker=%s reason=\"%s\"",
                    c->source.membership->app->name, log_shown(slice_of(name)), reason);
}

static void on_expired(struct timer *t)
{
    struct called_worker *k = container_of(t, struct called_worker, expiry);
    struct call_source *c = k->of;

    log_unregistered(c, k->name, "ttl");
    drop_called(k);
    loop_defer_once(loop_of(c), &c->report);
}

/* Adds the registration NAME, or renews it. LEFT_MS: until it ends, if TTL_S is not 0. */
static void set_called(struct call_source *c, const char *name, json_t *properties, uint64_t ttl_s,
                       uint64_t ends_in_ms)
{
    struct called_worker *k = find_called(c, name);

    if (k == NULL) {
        k = xcalloc(1, sizeof(*k));
        k->of = c;
        k->name = xstrdup(name);
        timer_init(&k->expiry, on_expired);
        map_add(&c->workers, &k->node, k->name, strlen(k->name));
    }
    json_incref(properties);
    json_decref(k->properties);
    k->properties = properties;
    k->ttl_s = ttl_s;
    timer_stop(&k->expiry);
    if (ttl_s != 0)
        timer_start(loop_of(c), &k->expiry, ends_in_ms);
}

static void report_called(struct call_source *c, void (*report)(struct source *s, json_t *found))
{
    json_t *found = json_object();

    map_for_each (struct called_worker, k, &c->workers, node)
        json_object_set(found, k->name, k->properties);
    found = tree_set_sorted(found);
    report(&c->source, found);
    json_decref(found);
    membership_update(c->source.membership);
}

static void report_expired(struct loop_deferred *d)
{
    struct call_source *c = container_of(d, struct call_source, report);

    report_called(c, source_report);
    call_source_store(c);
}

/* ---- the file ---- */

static void print_missing(const struct call_source *c, const struct list *missing, json_t *workers)
{
    const struct backend *b;

    list_for_each_entry (b, missing, missing) {
        if (b->lost_by == &c->source)
            json_object_set_new(workers, b->name,
                                json_pack("{s:{s:s, s:s}, s:i, s:i}", "properties", "instance",
                                          b->instance, "version", b->version, "ttl", 1, "until",
                                          0));
    }
}

static void print_file(const struct call_source *c, struct text *out)
{
    const struct membership *ms = c->source.membership;
    uint64_t now_ms = loop_wall_ms(loop_of(c));
    json_t *workers = json_object();

    print_missing(c, &c->source.vanished, workers);
    print_missing(c, &ms->held.list, workers);
    map_for_each (struct called_worker, k, &c->workers, node) {
        json_t *w = json_pack("{s:O}", "properties", k->properties);

        if (k->ttl_s != 0) {
            json_object_set_new(w, "ttl", json_integer((json_int_t)k->ttl_s));
            json_object_set_new(w, "until", json_integer((json_int_t)(now_ms + left_ms(k))));
        }
        json_object_set_new(workers, k->name, w);
    }
    if (json_object_size(workers) > 0) {
        json_t *file = json_pack("{s:i, s:O}", "v", 1, "workers", workers);

        json_print(file, out);
        json_decref(file);
    }
    json_decref(workers);
}

/* On the writer. */
static void write_file(struct worker_job *j)
{
    struct call_source *c = container_of(j, struct call_source, job);

    if (c->bytes.len == 0)
        (void)state_file_remove(&c->file);
    else
        (void)state_file_write(&c->file, text_slice(&c->bytes), 0600);
}

/* Whether another process serves, or is about to, or none will: this one must not confirm calls. */
static bool is_replaced(const struct call_source *c)
{
    const struct lb *lb = c->source.membership->app->lb;

    return lb->phase > LB_SERVING ||
           (lb->upgrade != NULL && lb->upgrade->stage >= UPGRADE_HANDING_OVER);
}

static void reject_call(struct admin_item *i, int status, const char *why)
{
    text_clear(&i->body);
    i->status = admin_action_reject(&i->body, status, why);
    admin_item_respond(i);
}

static void reject_replaced(struct admin_item *i)
{
    reject_call(i, 503, "this process is being replaced, or ends: repeat the call");
}

/* I's body is complete but for its end. */
static void respond_call(const struct call_source *c, struct admin_item *i)
{
    struct json_writer w = {.out = &i->body, .need_comma = true};

    if (is_replaced(c)) {
        reject_replaced(i);
        return;
    }
    if (c->error != 0)
        json_put_text(&w, "unsaved", slice_of(strerror(c->error)));
    json_close_object(&w);
    text_add_char(&i->body, '\n');
    admin_item_respond(i);
}

static void respond_all(const struct call_source *c, struct list *items)
{
    struct admin_item *i;

    while ((i = list_pop_entry(items, struct admin_item, node)) != NULL)
        respond_call(c, i);
}

/* Begins to write, unless that is in progress. */
static void save_called(struct call_source *c)
{
    struct admin_item *i;

    if (c->writing)
        return;
    if (c->file.path == NULL || is_replaced(c)) {
        respond_all(c, &c->waiting);
        /* The new process may fail. */
        if (c->file.path != NULL && !c->handed_over)
            timer_start(loop_of(c), &c->save, RENEWALS_PAUSE_MS);
        return;
    }
    timer_stop(&c->save);
    while ((i = list_pop_entry(&c->waiting, struct admin_item, node)) != NULL)
        list_push_back(&c->covered, &i->node);
    text_clear(&c->bytes);
    print_file(c, &c->bytes);
    c->changed = false;
    c->writing = true;
    if (c->writer == NULL)
        c->writer = worker_thread_create(loop_of(c));
    worker_thread_add(c->writer, &c->job, 0);
}

static void on_written(struct worker_job *j, bool dropped)
{
    struct call_source *c = container_of(j, struct call_source, job);

    c->writing = false;
    c->error = c->file.error;
    c->changed = c->changed || c->error != 0 || dropped;
    respond_all(c, &c->covered);
    if (c->closing)
        return;
    if (!list_empty(&c->waiting))
        save_called(c);
    else if (c->error != 0)
        timer_start(loop_of(c), &c->save, STATE_FILE_RETRY_MS);
}

static void on_save(struct timer *t)
{
    struct call_source *c = container_of(t, struct call_source, save);

    timer_stop(t);
    if (c->changed)
        save_called(c);
}

void call_source_store(struct call_source *c)
{
    c->changed = true;
    if (c->file.path != NULL && !timer_running(&c->save))
        timer_start(loop_of(c), &c->save, RENEWALS_PAUSE_MS);
}

/* Adds the registrations of the file's WORKERS. Returns false if one is invalid. */
static bool take_workers(struct call_source *c, json_t *workers)
{
    uint64_t now_ms = loop_wall_ms(loop_of(c));
    const char *name;
    json_t *w;

    if (!json_is_object(workers))
        return false;
    json_object_foreach (workers, name, w) {
        json_t *properties = json_object_get(w, "properties");
        json_int_t ttl_s = json_integer_value(json_object_get(w, "ttl"));
        json_int_t until_ms = json_integer_value(json_object_get(w, "until"));
        uint64_t ends_in_ms = (uint64_t)until_ms > now_ms ? (uint64_t)until_ms - now_ms : 0;

        if (!json_is_object(properties) || ttl_s < 0 || ttl_s > WORKER_CALL_TTL_MAX || until_ms < 0)
            return false;
        /* The clock may have been set back. */
        if (ends_in_ms > (uint64_t)ttl_s * 1000)
            ends_in_ms = (uint64_t)ttl_s * 1000;
        set_called(c, name, properties, (uint64_t)ttl_s, ends_in_ms);
    }
    return true;
}

static void clear_called(struct call_source *c)
{
    map_for_each_safe (struct called_worker, k, &c->workers, node)
        drop_called(k);
}

static void read_file(struct call_source *c)
{
    struct text bytes = {0};
    char why[JSON_WHY_ROOM] = "not a file of this program";
    json_t *file = NULL;
    enum err e = file_read_state(c->file.path, FILE_BYTES_MAX, &bytes);

    if (e == ERR_SYSTEM)
        log_error(NULL, "called-workers-not-read", "file=%s reason=\"%s\"", c->file.path,
                  strerror(errno));
    bool good = e == ERR_OK &&
                json_parse(text_slice(&bytes), FILE_BYTES_MAX, &file, why) == ERR_OK &&
                json_integer_value(json_object_get(file, "v")) == 1 &&
                take_workers(c, json_object_get(file, "workers"));
    if (!good && (e == ERR_OK || e == ERR_TOO_LARGE)) {
        clear_called(c);
        log_error(NULL, "called-workers-not-read", "file=%s reason=\"%s\" action=\"%s\"",
                  c->file.path, why,
                  file_set_aside(c->file.path) == ERR_OK ? "renamed to .bad" : "left");
    }
    json_decref(file);
    text_fini(&bytes);
}

/* ---- calls ---- */

static void begin_response(const struct call_source *c, const char *action, const char *name,
                           struct json_writer *w)
{
    json_open_object(w, NULL);
    json_put_text(w, "action", slice_of(action));
    json_put_text(w, "application", slice_of(c->source.membership->app->name));
    json_put_text(w, "worker", slice_of(name));
}

/* Responds when the change is saved. */
static void save_call(struct call_source *c, struct admin_item *i)
{
    c->changed = true;
    list_push_back(&c->waiting, &i->node);
    save_called(c);
}

static void put_ttl(struct json_writer *w, const char *name, uint64_t seconds, bool known)
{
    if (known)
        json_put_int(w, name, (int64_t)seconds);
    else
        json_put_null(w, name);
}

static void put_called(struct call_source *c, const struct worker_call *call, struct admin_item *i)
{
    const struct called_worker *k = find_called(c, call->name);
    const char *why = source_rejection(&c->source, call->name, call->properties);
    struct json_writer w = {.out = &i->body};
    bool created = k == NULL;

    if (why != NULL) {
        reject_call(i, 403, why);
        return;
    }
    if (created && map_count(&c->workers) >= CALLED_WORKERS_MAX) {
        reject_call(i, 409, "too many workers are registered by calls: 1000 of an application");
        return;
    }
    bool renewed =
        !created && k->ttl_s == call->ttl_s && json_equal(k->properties, call->properties);
    set_called(c, call->name, call->properties, call->ttl_s, call->ttl_s * 1000);
    if (created)
        log_info_folded(NULL, "worker-registered", "application=%s worker=%s ttl_s=%llu",
                        c->source.membership->app->name, log_shown(slice_of(call->name)),
                        (unsigned long long)call->ttl_s);
    i->status = created ? 201 : 200;
    begin_response(c, "register", call->name, &w);
    json_put_bool(&w, "created", created);
    put_ttl(&w, "ttl", call->ttl_s, call->ttl_s != 0);
    if (renewed) {
        call_source_store(c);
        respond_call(c, i);
        return;
    }
    report_called(c, source_report);
    save_call(c, i);
}

/* Why B, which may be NULL, cannot be removed by a call; as a rejection of I. */
static void reject_removal(const struct backend *b, struct admin_item *i)
{
    if (b == NULL)
        reject_call(i, 404, "no such worker");
    else if (b->listed != NULL)
        reject_call(i, 409, "the configuration lists this worker, or its name: remove it there");
    else if (b->providers[SOURCE_TREE] != 0)
        reject_call(i, 409, "this worker is registered in the tree: its registration ends there");
    else if (b->providers[SOURCE_CALL] != 0)
        reject_call(i, 409, "this worker is registered by a host name: remove that");
    else
        reject_call(i, 409, "this worker is not registered any more, and leaves");
}

static void remove_called(struct call_source *c, const char *name, struct admin_item *i)
{
    struct membership *ms = c->source.membership;
    struct called_worker *k = find_called(c, name);
    const struct backend *b = membership_find(ms, name);
    struct json_writer w = {.out = &i->body};

    if (k != NULL) {
        drop_called(k);
        report_called(c, source_replace);
    } else if (b == NULL || !b->held || b->lost_by != &c->source) {
        reject_removal(b, i);
        return;
    } else {
        membership_confirm_removal(ms, slice_of(name));
    }
    log_unregistered(c, name, "call");
    begin_response(c, "remove", name, &w);
    b = membership_find(ms, name);
    json_put_bool(&w, "known", b != NULL);
    save_call(c, i);
}

void membership_call(struct membership *ms, const struct worker_call *call, struct admin_item *i)
{
    struct call_source *c = ms->calls;

    if (is_replaced(c))
        reject_replaced(i);
    else if (i->put)
        put_called(c, call, i);
    else
        remove_called(c, call->name, i);
}

/* ---- life ---- */

struct call_source *call_source_open(struct membership *ms)
{
    struct call_source *c = xcalloc(1, sizeof(*c));
    const char *state_dir = ms->app->lb->settings.state_dir;

    source_init(&c->source, ms, SOURCE_CALL);
    list_init(&c->waiting);
    list_init(&c->covered);
    timer_init(&c->save, on_save);
    c->report.run = report_expired;
    c->job.work = write_file;
    c->job.done = on_written;
    if (state_dir == NULL)
        return c;
    char *path = xasprintf("%s/%s/workers.json", state_dir, ms->app->name);
    state_file_init(&c->file, path);
    free(path);
    read_file(c);
    report_called(c, source_report);
    return c;
}

void membership_reread_calls(struct membership *ms)
{
    struct call_source *c = ms->calls;

    if (c->file.path == NULL)
        return;
    clear_called(c);
    read_file(c);
    report_called(c, source_replace);
    /* A write of the old process may be the last one otherwise. */
    if (c->source.n > 0)
        call_source_store(c);
}

void membership_hand_over(struct membership *ms)
{
    ms->calls->handed_over = true;
    timer_stop(&ms->calls->save);
}

void call_source_close(struct call_source *c)
{
    c->closing = true;
    (void)!worker_thread_destroy(c->writer, WORKER_THREAD_WAIT);
    if (c->changed && !c->handed_over && c->file.path != NULL) {
        text_clear(&c->bytes);
        print_file(c, &c->bytes);
        write_file(&c->job);
    }
    respond_all(c, &c->waiting);
    timer_stop(&c->save);
    list_remove(&c->report.node);
    clear_called(c);
    source_fini(&c->source);
    text_fini(&c->bytes);
    state_file_fini(&c->file);
    free(c);
}

/* ---- status ---- */

void call_source_describe_worker(const struct call_source *c, const struct backend *b,
                                 struct json_writer *w)
{
    const struct called_worker *k = find_called(c, b->name);

    for (size_t i = 0; i < c->source.n && k == NULL && c->source.nhosts > 0; ++i) {
        if (c->source.items[i]->worker == b)
            k = find_called(c, c->source.items[i]->name);
    }
    put_ttl(w, "ends_in_s", k != NULL ? left_ms(k) / 1000 : 0, k != NULL && k->ttl_s != 0);
}

size_t call_source_count(const struct call_source *c)
{
    return map_count(&c->workers);
}

void call_source_describe(const struct call_source *c, struct json_writer *w)
{
    json_open_object(w, "calls");
    json_put_int(w, "limit", CALLED_WORKERS_MAX);
    if (c->error != 0)
        json_put_text(w, "unsaved", slice_of(strerror(c->error)));
    else
        json_put_null(w, "unsaved");
    json_open_array(w, "workers");
    map_for_each (struct called_worker, k, &c->workers, node) {
        const struct provider *p = source_find(&c->source, k->name);

        json_open_object(w, NULL);
        json_put_text(w, "name", slice_of(k->name));
        put_ttl(w, "ttl_s", k->ttl_s, k->ttl_s != 0);
        put_ttl(w, "ends_in_s", left_ms(k) / 1000, k->ttl_s != 0);
        json_put_text(w, "worker", slice_of(p != NULL && p->worker != NULL ? p->worker->name : ""));
        json_put_text(w, "why", slice_of(p != NULL ? p->why : NULL));
        json_close_object(w);
    }
    json_close_array(w);
    json_close_object(w);
}
