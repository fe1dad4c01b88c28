/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl report: what the description of a problem needs, in one file. A value is written only
 * if the table of settings shows that it cannot be a secret.
 */
#include "common/base/file.h"
#include "common/base/json.h"
#include "common/config/config.h"
#include "ctl/cli/page.h"
#include "ctl/inspect/inspect.h"
#include "version.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum {
    SECTION_MAX = 256 * 1024, /* bytes; the rest of a section is left out */
    EVENTS_SHOWN = 100,       /* the last ones */
};

/* ---- which values may be written ---- */

struct report_row {
    const char *name, *type, *unit;
};

#define ROW(name, type, unit, ...) {#name, #type, #unit},
static const struct report_row report_rows[] = {
#include "ctl/inspect/report_rows.def"
};

/* Units of texts, lists and nodes that are not secret. Free texts, words of commands, options of
 * plugins and values of variables and header fields are not among them. */
static const char *const shown_units[] = {
    "ADDRESS", "ADDRESSES", "CLASSIFIER",  "CPUS",   "DIRECTORY", "FILE",    "FILES", "GROUP",
    "HOST",    "HOSTS",     "LIST",        "MAP",    "METHODS",   "NAME",    "NAMES", "NETWORKS",
    "PATTERN", "RATE",      "SECRET_FILE", "SUITES", "TEMPLATE",  "THREADS", "USER",  "VARIABLE",
};

/* The strictest of several settings of one name applies. */
enum verdict {
    UNKNOWN, /* no setting: a name that a user has chosen, or a mistake */
    SHOWN,
    LOCATION, /* shown without a query and a user */
    HIDDEN,
};

static enum verdict verdict_of_row(const struct report_row *row)
{
    if (strcmp(row->type, "SECRET") == 0)
        return HIDDEN;
    if (strcmp(row->type, "TEXT") != 0 && strcmp(row->type, "LIST") != 0 &&
        strcmp(row->type, "NODE") != 0)
        return SHOWN;
    if (strcmp(row->unit, "PATH") == 0 || strcmp(row->unit, "URL") == 0)
        return LOCATION;
    for (size_t i = 0; i < ARRAY_LEN(shown_units); ++i) {
        if (strcmp(row->unit, shown_units[i]) == 0)
            return SHOWN;
    }
    return HIDDEN;
}

static enum verdict verdict_of(struct slice name)
{
    enum verdict worst = UNKNOWN;

    for (size_t i = 0; i < ARRAY_LEN(report_rows); ++i) {
        enum verdict v =
            slice_is(name, report_rows[i].name) ? verdict_of_row(&report_rows[i]) : UNKNOWN;

        worst = v > worst ? v : worst;
    }
    return worst;
}

static void add_value(struct slice value, enum verdict v, struct text *out)
{
    bool has_more = value.len != 0 && (memchr(value.p, '?', value.len) != NULL ||
                                       memchr(value.p, '@', value.len) != NULL);

    if (v == SHOWN || (v == LOCATION && !has_more))
        page_add_words(out, value);
    else
        text_add(out, SLICE_LIT("***"));
}

/* The members of N, which is a list or map below something of verdict V. */
static void add_members(const struct config_node *n, enum verdict v, unsigned depth,
                        struct text *out)
{
    for (size_t i = 0; i < n->n; ++i) {
        const struct config_node *item = n->items[i];
        enum verdict of_item = v;

        text_addf(out, "%*s", (int)(2 * depth), "");
        if (n->kind == CONFIG_MAP) {
            struct slice key = n->keys[i]->text;

            if (v != HIDDEN)
                of_item = verdict_of(key);
            /* Else it may be another file, such as one of passwords. */
            if (depth != 0 || of_item != UNKNOWN)
                page_add_words(out, key);
            else
                text_add(out, SLICE_LIT("***"));
        }
        text_add(out, n->kind == CONFIG_MAP ? SLICE_LIT(":") : SLICE_LIT("-"));
        if (item->kind == CONFIG_SCALAR) {
            text_add_char(out, ' ');
            if (config_is_null(item))
                text_add_char(out, '~');
            else
                add_value(item->text, of_item, out);
        }
        text_add_char(out, '\n');
        if (item->kind != CONFIG_SCALAR)
            add_members(item, of_item, depth + 1, out);
    }
}

void ctl_report_configuration(const struct config *c, struct text *out)
{
    add_members(c->root, UNKNOWN, 0, out);
}

/* ---- pages ---- */

/* "NAME = VALUE (ORIGIN)" of what is not the default, in an object with the member "settings". */
static void add_settings(const json_t *scope, const char *title, struct text *out)
{
    const char *name;
    json_t *row;

    text_add_escaped(out, slice_of(title));
    text_add(out, SLICE_LIT(":\n"));
    json_object_foreach (json_object_get(scope, "settings"), name, row) {
        if (slice_is(json_text(row, "origin"), "default"))
            continue;
        text_add(out, SLICE_LIT("  "));
        text_add_escaped(out, slice_of(name));
        text_add(out, SLICE_LIT(" = "));
        add_value(json_text(row, "value"), verdict_of(slice_of(name)), out);
        page_add(out, row, " ({origin})\n");
    }
    page_add_each(out, json_object_get(scope, "rejected"), "  rejected: {name}\n");
}

void ctl_report_settings(const json_t *page, struct text *out)
{
    const char *name;
    json_t *application;

    const json_t *host = json_object_get(page, "host");

    add_settings(host != NULL ? host : json_object_get(page, "program"), "program", out);
    json_object_foreach (json_object_get(page, "applications"), name, application)
        add_settings(application, name, out);
}

void ctl_report_events(const json_t *page, struct text *out)
{
    const json_t *events = json_object_get(page, "events");
    size_t n = json_array_size(events);

    for (size_t i = n > EVENTS_SHOWN ? n - EVENTS_SHOWN : 0; i < n; ++i) {
        const json_t *event = json_array_get(events, i);

        page_add(out, event, "{time:T} {kind} {application} {subject} ");
        /* Of a worker, or the values of a setting. */
        enum verdict v = verdict_of(json_text(event, "subject"));
        add_value(json_text(event, "text"), v == UNKNOWN ? SHOWN : v, out);
        text_add_char(out, '\n');
    }
}

enum err ctl_report_status(json_t *page, const struct ctl_options *o, struct text *out)
{
    const char *name;
    json_t *application;

    /* Keys of a daemon's locks are texts of its clients. */
    if (json_is_array(json_object_get(page, "types"))) {
        page_add(out, page,
                 "resumelb-poolcounter {version}, {clients:d} clients, up {uptime_s:t}\n");
        return ERR_OK;
    }
    /* What processes have written, and requests that killed workers, may contain anything. */
    json_object_foreach (json_object_get(page, "applications"), name, application) {
        json_object_del(json_object_get(application, "last_failure"), "lines");
        json_object_del(application, "poison");
        json_object_del(application, "settings");
    }
    json_object_del(json_object_get(page, "host"), "settings");
    return ctl_status_text(page, o, out);
}

/* ---- the command ---- */

struct report_run {
    struct ctl_options o;
    const char *file;
};

/* Starts a section; returns where its contents begin. */
static size_t begin_section(const char *title, struct text *out)
{
    text_addf(out, "\n== %s\n", title);
    return out->len;
}

static void end_section(size_t begin, struct text *out)
{
    size_t n = out->len - begin;

    if (n <= SECTION_MAX)
        return;
    out->len = begin + SECTION_MAX;
    text_addf(out, "\n(%zu bytes left out)\n", n - SECTION_MAX);
}

static void add_system(struct text *out)
{
    time_t now = time(NULL);
    struct tm utc;
    char when[32];
    struct utsname system;
    struct text release = {0};

    gmtime_r(&now, &utc);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &utc);
    text_addf(out,
              "resumelb report, %s UTC, resumelbctl " RLB_VERSION "\n"
              "Values that may be secret are ***. Addresses and names of hosts are not removed: "
              "read this file before\nit is passed on.\n",
              when);
    size_t begin = begin_section("system", out);
    if (uname(&system) == 0)
        text_addf(out, "%s %s %s, %ld processors\n", system.sysname, system.release, system.machine,
                  sysconf(_SC_NPROCESSORS_ONLN));
    if (file_read("/etc/os-release", SECTION_MAX, &release) == ERR_OK) {
        for (struct slice rest = text_slice(&release); rest.len != 0;) {
            struct slice line = slice_cut(&rest, '\n');

            if (slice_starts(line, SLICE_LIT("PRETTY_NAME="))) {
                page_add_words(out, line);
                text_add_char(out, '\n');
            }
        }
    }
    text_fini(&release);
    end_section(begin, out);
}

static void add_configuration(const char *file, struct text *out)
{
    size_t begin = begin_section(file, out);
    struct config c;
    struct diag d = {0};

    if (config_read(file, &c, &d)) {
        ctl_report_configuration(&c, out);
        config_fini(&c);
    } else {
        text_add(out, slice_of(d.text));
    }
    diag_fini(&d);
    end_section(begin, out);
}

static void add_configurations(char **files, struct text *out)
{
    static const char *const installed[] = {"/etc/resumelb/resumelb.yaml",
                                            "/etc/resumelb/resumelb-agent.yaml",
                                            "/etc/resumelb/resumelb-poolcounter.yaml"};
    size_t before = out->len;

    for (size_t i = 0; files[0] == NULL && i < ARRAY_LEN(installed); ++i) {
        if (access(installed[i], F_OK) == 0)
            add_configuration(installed[i], out);
    }
    for (; *files != NULL; ++files)
        add_configuration(*files, out);
    if (out->len == before)
        text_add(out, SLICE_LIT("\n== configuration\nnone named, and none in /etc/resumelb\n"));
}

/* Gets PATH, or adds the reason why that failed to OUT, and returns NULL. */
static json_t *get_page(struct ctl_options *o, const char *path, struct text *out)
{
    json_t *page = NULL;

    if (ctl_get_json(o, path, &page) != ERR_OK) {
        text_add(out, slice_of(o->diag.text));
        diag_fini(&o->diag);
        o->diag = (struct diag){0};
    }
    return page;
}

/* Returns false if the program at the admin address did not respond. */
static bool add_pages(struct ctl_options *o, struct text *out)
{
    size_t begin = begin_section("status", out);
    json_t *status = get_page(o, "/status.json", out);

    if (status == NULL)
        return false;
    bool is_balancer = slice_is(json_text(status, "program"), "resumelb");
    json_t *settings = is_balancer ? get_page(o, "/settings.json", out) : json_incref(status);
    struct text text = {0};
    ctl_report_settings(settings, &text);
    if (ctl_report_status(status, o, out) != ERR_OK)
        text_addf(out, "%s is not the admin address of a resumelb program\n", o->address);
    end_section(begin, out);
    begin = begin_section("settings other than the default", out);
    text_add(out, text_slice(&text));
    end_section(begin, out);
    if (is_balancer) {
        begin = begin_section("last events", out);
        json_t *events = get_page(o, "/events", out);
        ctl_report_events(events, out);
        json_decref(events);
        end_section(begin, out);
    }
    text_fini(&text);
    json_decref(settings);
    json_decref(status);
    return true;
}

static int report_main(const struct ctl_command *c, int argc, char **argv)
{
    struct report_run r = {.file = "resumelb-report.txt"};
    struct text report = {0};
    int code = ctl_parse(c, argc, argv, &r.o);

    if (code >= 0)
        return code;
    add_system(&report);
    add_configurations(r.o.words, &report);
    bool responded = add_pages(&r.o, &report);
    enum err e = file_write_output(r.file, text_slice(&report), S_IRUSR | S_IWUSR);
    if (e != ERR_OK)
        diag_add(&r.o.diag, r.file, 0, 0, "%s", strerror(errno));
    else
        text_addf(&r.o.out, "%s: written%s%s%s\n", r.file,
                  responded ? "" : ", without a status: no response from ",
                  responded ? "" : r.o.address, "; read it before you pass it on");
    text_fini(&report);
    return ctl_finish(&r.o, e);
}

static const struct ctl_flag flags[] = {
    CTL_FLAG_ADDRESS,
    CTL_FLAG_TOKEN,
    CTL_FLAG_TIMEOUT,
    {'o', "output", "FILE", CTL_FILES, "file to write (resumelb-report.txt)",
     CTL_TEXT(struct report_run, file)},
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_report = {
    .name = "report",
    .arguments = "[CONFIGURATION] ...",
    .summary = "version, configuration without secrets, status and last events in one file",
    .text =
        "For the description of a problem. CONFIGURATION: files of resumelb, resumelb-agent or\n"
        "resumelb-poolcounter; those in /etc/resumelb without it. Works without a running "
        "program, too.\n",
    .completes = CTL_FILES,
    CTL_FLAGS(flags),
    .run = report_main,
};
