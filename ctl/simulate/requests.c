/* SPDX-License-Identifier: Apache-2.0
 *
 * A line that begins with a slash or a scheme is a URL; anything else has to be of a log. Blank
 * lines and those that begin with '#' are nobody's fault.
 */
#include "ctl/simulate/requests.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/text.h"
#include "common/wire/url_line.h"

enum err requests_open(const char *file, struct requests *out, struct diag *d)
{
    *out = (struct requests){.file = file};
    out->in = strcmp(file, "-") == 0 ? stdin : fopen(file, "re");
    if (out->in == NULL) {
        diag_add(d, file, 0, 0, "%s", strerror(errno));
        return ERR_SYSTEM;
    }
    out->line = xmalloc(ACCESS_LINE_MAX + 1);
    out->room = xmalloc(ACCESS_LINE_MAX + 1 + ACCESS_HOST_MAX);
    return ERR_OK;
}

enum err requests_close(struct requests *r, struct diag *d)
{
    enum err e = ferror(r->in) ? ERR_SYSTEM : ERR_OK;

    if (e != ERR_OK)
        diag_add(d, r->file, 0, 0, "%s", strerror(errno));
    if (r->in != stdin)
        fclose(r->in);
    free(r->line);
    free(r->room);
    r->line = r->room = NULL;
    r->in = NULL;
    return e;
}

/* A line without its end; what is longer than any that counts is cut by a byte too many. */
static bool read_line(struct requests *r, struct slice *out)
{
    size_t n = 0;
    int c;

    while ((c = getc(r->in)) != EOF && c != '\n') {
        if (n <= ACCESS_LINE_MAX)
            r->line[n++] = (char)c;
    }
    if (c == EOF && n == 0)
        return false;
    if (n != 0 && r->line[n - 1] == '\r')
        --n;
    ++r->lines;
    *out = (struct slice){r->line, n};
    return true;
}

static void note_bad(struct requests *r, const char *why)
{
    if (r->first_bad != 0)
        return;
    r->first_bad = r->lines;
    r->bad_why = why;
}

static bool is_url(struct slice line)
{
    return line.p[0] == '/' || slice_starts(line, SLICE_LIT("http://")) ||
           slice_starts(line, SLICE_LIT("https://"));
}

/* The host of URL in lower case, without its port. */
static struct slice plain_host(struct requests *r, struct slice host)
{
    size_t n = 0;

    while (n < host.len && (host.p[n] != ':' || host.p[0] == '[')) {
        r->room[n] = ascii_lower(host.p[n]);
        if (host.p[n++] == ']')
            break;
    }
    return (struct slice){r->room, n};
}

static bool take_url(struct requests *r, struct slice line, struct access_line *out)
{
    struct url_line u;
    const char *why = url_line_parse(line, &u);

    if (why != NULL) {
        ++r->bad_urls;
        note_bad(r, why);
        return false;
    }
    *out = (struct access_line){
        .method = SLICE_LIT("GET"),
        .path = u.path,
        .query = u.query,
        .host = plain_host(r, u.host),
    };
    return true;
}

static bool take_log_line(struct requests *r, struct slice line, struct access_line *out)
{
    enum access_fault f = access_line_parse(line, r->room, out);

    if (f == ACCESS_FAULT_NONE)
        return true;
    ++r->faults[f];
    note_bad(r, access_fault_text(f));
    return false;
}

bool requests_next(struct requests *r, struct access_line *out)
{
    struct slice line;

    while (read_line(r, &line)) {
        if (line.len == 0 || line.p[0] == '#')
            continue;
        if (is_url(line) ? take_url(r, line, out) : take_log_line(r, line, out))
            return true;
    }
    return false;
}

size_t requests_bad(const struct requests *r)
{
    size_t n = r->bad_urls;

    for (size_t i = 0; i < ACCESS_FAULTS; ++i)
        n += r->faults[i];
    return n;
}

void requests_print_bad(const struct requests *r, struct text *out)
{
    size_t n = requests_bad(r);

    if (n != 0)
        text_addf(out, "%zu of %zu lines left out; the first, line %zu: %s\n", n, r->lines,
                  r->first_bad, r->bad_why);
}
