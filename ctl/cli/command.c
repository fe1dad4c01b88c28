/* SPDX-License-Identifier: Apache-2.0
 *
 * getopt_long over the rows of a word.
 */
#include "ctl/cli/command.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LETTERS_END = 256, TIMEOUT_MAX_S = 3600 };

int ctl_usage_error(const struct ctl_command *c, const char *what, const char *which)
{
    fprintf(stderr, "resumelbctl: %s%s%s\nTry resumelbctl %s%s--help.\n", what,
            which != NULL ? ": " : "", which != NULL ? which : "", c != NULL ? c->name : "",
            c != NULL ? " " : "");
    return CTL_USAGE;
}

const struct ctl_command *ctl_command_find(struct slice name)
{
    for (size_t i = 0; i < ctl_ncommands; ++i) {
        if (slice_is(name, ctl_commands[i]->name))
            return ctl_commands[i];
    }
    return NULL;
}

/* ---- help ---- */

/* "  -a, --address ADDRESS   ", as wide as the widest. */
static size_t flag_width(const struct ctl_flag *f)
{
    return strlen("  -x, --") + strlen(f->name) + (f->value != NULL ? strlen(f->value) + 1 : 0);
}

static void add_flag(const struct ctl_flag *f, size_t width, struct text *out)
{
    if (f->letter < LETTERS_END)
        text_addf(out, "  -%c, --%s", f->letter, f->name);
    else
        text_addf(out, "      --%s", f->name);
    if (f->value != NULL)
        text_addf(out, " %s", f->value);
    text_addf(out, "%*s  %s\n", (int)(width - flag_width(f)), "", f->help);
}

void ctl_command_help(const struct ctl_command *c, struct text *out)
{
    size_t width = 0;

    text_addf(out, "usage: resumelbctl %s [OPTIONS]%s%s\n\n%s\n", c->name,
              c->arguments != NULL ? " " : "", c->arguments != NULL ? c->arguments : "",
              c->summary);
    if (c->text != NULL)
        text_addf(out, "\n%s", c->text);
    text_add(out, SLICE_LIT("\noptions:\n"));
    for (size_t i = 0; i < c->nflags; ++i)
        width = flag_width(&c->flags[i]) > width ? flag_width(&c->flags[i]) : width;
    for (size_t i = 0; i < c->nflags; ++i)
        add_flag(&c->flags[i], width, out);
}

/* ---- options ---- */

/* The rows as getopt wants them; LETTERS has room for three bytes a row. */
static void make_options(const struct ctl_command *c, char *letters, struct option *longs)
{
    for (size_t i = 0; i < c->nflags; ++i) {
        const struct ctl_flag *f = &c->flags[i];

        longs[i] =
            (struct option){f->name, f->value != NULL ? required_argument : no_argument, NULL, 0};
        longs[i].val = f->letter;
        if (f->letter >= LETTERS_END)
            continue;
        *letters++ = (char)f->letter;
        if (f->value != NULL)
            *letters++ = ':';
    }
    *letters = '\0';
    longs[c->nflags] = (struct option){NULL, 0, NULL, 0};
}

/* Its line of help has a word for each. */
static size_t arguments_max(const struct ctl_command *c)
{
    struct slice rest = slice_of(c->arguments);
    size_t n = 0;

    for (; rest.len != 0; ++n)
        (void)slice_cut(&rest, ' ');
    return n;
}

int ctl_command_parse(const struct ctl_command *c, int argc, char **argv, int *first,
                      ctl_take_fn take, void *context)
{
    size_t max = arguments_max(c);
    char letters[2 * CTL_FLAGS_MAX + 1];
    struct option longs[CTL_FLAGS_MAX + 1];
    int letter;

    ASSERT(c->nflags <= CTL_FLAGS_MAX);
    make_options(c, letters, longs);
    optind = 0; /* reset: a test parses more than once */
    while ((letter = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        if (letter == 'h') {
            struct text help = {0};

            ctl_command_help(c, &help);
            bool done = ctl_print(text_slice(&help));
            text_fini(&help);
            return done ? CTL_OK : CTL_FAILED;
        }
        if (letter == '?') {
            /* getopt has said what is wrong. */
            fprintf(stderr, "Try resumelbctl %s --help.\n", c->name);
            return CTL_USAGE;
        }
        int code = take(context, letter, optarg);
        if (code != CTL_OK)
            return code;
    }
    if ((size_t)(argc - optind) > max)
        return ctl_usage_error(c, "unexpected argument", argv[(size_t)optind + max]);
    *first = optind;
    return -1;
}

int ctl_take_number(const struct ctl_command *c, const char *name, const char *text, uint64_t min,
                    uint64_t max, uint64_t *out)
{
    uint64_t n = 0;
    char what[160];

    if (parse_u64(slice_of(text), max, &n) && n >= min) {
        *out = n;
        return CTL_OK;
    }
    snprintf(what, sizeof(what), "--%s wants a whole number from %" PRIu64 " to %" PRIu64 ", not",
             name, min, max);
    return ctl_usage_error(c, what, text);
}

int ctl_take_real(const struct ctl_command *c, const char *name, const char *text, double min,
                  double max, double *out)
{
    double v = 0;
    char what[160];

    if (parse_double(slice_of(text), &v) && v >= min && v <= max) {
        *out = v;
        return CTL_OK;
    }
    snprintf(what, sizeof(what), "--%s wants a number from %g to %g, not", name, min, max);
    return ctl_usage_error(c, what, text);
}

int ctl_take_asking(const struct ctl_command *c, struct ctl_options *o, int letter,
                    const char *value)
{
    uint64_t n = 0;
    int code = CTL_OK;

    switch (letter) {
    case 'a':
        o->address = value;
        break;
    case 'j':
        o->json = true;
        break;
    case 'T':
        o->token_file = value;
        break;
    case 't':
        code = ctl_take_number(c, "timeout", value, 1, TIMEOUT_MAX_S, &n);
        if (code == CTL_OK)
            o->timeout_ms = (unsigned)n * 1000;
        break;
    default:
        code = -1;
        break;
    }
    return code;
}

/* ---- a terminal ---- */

bool ctl_colours(void)
{
    const char *none = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && (none == NULL || none[0] == '\0') && term != NULL &&
           term[0] != '\0' && strcmp(term, "dumb") != 0;
}

bool ctl_print(struct slice out)
{
    size_t written = out.len != 0 ? fwrite(out.p, 1, out.len, stdout) : 0;

    if (written == out.len && fflush(stdout) == 0)
        return true;
    perror("resumelbctl: stdout");
    return false;
}

int ctl_finish(enum err e, struct text *out, struct diag *d)
{
    bool printed = ctl_print(text_slice(out));

    if (d->text != NULL)
        fprintf(stderr, "resumelbctl: %s", d->text);
    diag_fini(d);
    text_fini(out);
    return e == ERR_OK && printed ? CTL_OK : CTL_FAILED;
}
