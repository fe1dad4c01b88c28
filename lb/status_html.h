/* SPDX-License-Identifier: Apache-2.0
 *
 * The status page as HTML, made of what /status.json, /settings.json and /events say, so that all
 * say the same, and a test needs no load balancer. Pure functions. Whatever is a name (workers,
 * classes, settings' values) is somebody else's text and goes through text_add_html.
 */
#ifndef RLB_LB_STATUS_HTML_H
#define RLB_LB_STATUS_HTML_H

#include "common/wire/json.h"

enum { STATUS_WORKERS_MAX = 200 /* rows of workers; the search finds the others */ };

struct status_documents {
    const json_t *status, *settings, *events;
    struct slice q; /* what is searched for; empty: nothing */
};

/* The whole page. */
void status_html(const struct status_documents *d, struct text *out);
/* Its <main>, which is what changes. */
void status_html_main(const struct status_documents *d, struct text *out);

/* ---- status_html_parts.c, for status_html.c ---- */

void html_add(struct text *out, const char *markup);
struct slice html_text_of(const json_t *object, const char *name);
double html_real_of(const json_t *object, const char *name);
/* Values as people read them; what is not there, or null, is a dash. */
void html_put_text(struct text *out, const json_t *object, const char *name);
void html_put_number(struct text *out, const json_t *object, const char *name);  /* 12, 3.4 */
void html_put_seconds(struct text *out, const json_t *object, const char *name); /* 3.1 ms, 2 h */
void html_put_percent(struct text *out, const json_t *object, const char *name);
/* " data-v=..." by which the script sorts. */
void html_put_sort_key(struct text *out, double v);
/* The map of classes and workers of one application. */
void html_map(const char *name, const json_t *application, struct text *out);
void html_classes(const json_t *application, struct text *out);

/* ---- status_html_limits.c, for status_html.c ---- */

void html_limits(const json_t *application, struct text *out);

#endif
