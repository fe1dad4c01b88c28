/* SPDX-License-Identifier: Apache-2.0
 *
 * The plain text is made first; as HTML it is the same in <pre>.
 */
#include "worker-agent/front/error_body.h"

static void add_lines(const char *title, const struct last_lines *lines, struct text *out)
{
    if (lines->n == 0)
        return;
    text_addf(out, "\n%s\n", title);
    for (size_t i = 0; i < lines->n; ++i) {
        text_add(out, SLICE_LIT("  "));
        last_lines_show(lines, i, out);
        text_add_char(out, '\n');
    }
}

/* Whether the lines of the process tell more than the failure does. */
static bool process_tells(const struct error_facts *e)
{
    return e->lines != NULL && e->lines->n > 0 && (e->failure == NULL || e->failure->pid != e->pid);
}

static void add_plain(const struct error_facts *e, struct text *out)
{
    const struct failure *f = e->failure;

    if (process_tells(e)) {
        text_addf(out, "\nprocess %ld\n", e->pid);
        add_lines("What it wrote last:", e->lines, out);
        return;
    }
    if (f == NULL)
        return;
    text_add_char(out, '\n');
    failure_add_summary(f, out);
    text_addf(out, " (%.1f s ago)\n", (double)(e->now_ms - f->at_ms) / 1000);
    add_lines("What it wrote last:", &f->lines, out);
}

void error_body(const struct error_facts *e, bool html, struct text *out)
{
    struct text plain = {0};

    add_plain(e, &plain);
    if (html)
        text_add(out, SLICE_LIT("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
                                "<title>error</title>\n<h1>"));
    if (html)
        text_add_html(out, e->reason);
    else
        text_add(out, e->reason);
    text_add(out, html ? SLICE_LIT("</h1>\n<pre>") : SLICE_LIT("\n"));
    for (struct slice rest = text_slice(&plain); html && rest.len != 0;) {
        text_add_html(out, slice_cut(&rest, '\n'));
        text_add_char(out, '\n');
    }
    if (html)
        text_add(out, SLICE_LIT("</pre>\n</html>\n"));
    else
        text_add(out, text_slice(&plain));
    text_fini(&plain);
}
