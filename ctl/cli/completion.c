/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl completion: what bash and zsh complete, made of the table of commands, which
 * takes the place of each % in assets/. The build installs its output.
 */
#include "assets.h"
#include "ctl/cli/ctl.h"

#include <stdio.h>
#include <stdlib.h>

/* S with a backslash before each byte that is one of SPECIAL. */
static void completion_add_escaped(struct text *out, const char *s, const char *special)
{
    for (; *s != '\0'; ++s) {
        if (strchr(special, *s) != NULL)
            text_add_char(out, '\\');
        text_add_char(out, *s);
    }
}

/* A text within single quotes of a shell. */
static void add_quoted(struct text *out, const char *s)
{
    text_add_char(out, '\'');
    for (; *s != '\0'; ++s)
        text_addf(out, *s == '\'' ? "'\\'%c" : "%c", *s);
    text_add_char(out, '\'');
}

/* "-a --address" of a flag. */
static void add_flag_names(const struct ctl_flag *f, const char *between, struct text *out)
{
    if (f->letter != 0)
        text_addf(out, "-%c%s", f->letter, between);
    text_addf(out, "--%s", f->name);
}

static bool is_files(const char *completes)
{
    return completes != NULL && strcmp(completes, CTL_FILES) == 0;
}

/* ---- bash ---- */

/* The line of the script that sets COMPREPLY for a value. */
static void add_bash_reply(const char *completes, const char *end, struct text *out)
{
    if (completes == NULL) {
        text_add(out, SLICE_LIT("COMPREPLY=()"));
    } else if (is_files(completes)) {
        text_add(out, SLICE_LIT("_resumelbctl_files \"$cur\""));
    } else {
        text_add(out, SLICE_LIT("_resumelbctl_words \"$cur\" "));
        add_quoted(out, completes);
    }
    text_add(out, slice_of(end));
}

static void print_bash(struct text *out)
{
    struct slice rest = {(const char *)asset_completion_bash_in, sizeof(asset_completion_bash_in)};

    text_add(out, slice_cut(&rest, '%'));
    for (size_t i = 0; i < ctl_ncommands; ++i)
        text_addf(out, "%s%s", i != 0 ? " " : "", ctl_commands[i]->name);
    text_add(out, slice_cut(&rest, '%'));
    for (size_t k = 0; k < ctl_ncommands; ++k) {
        const struct ctl_command *c = ctl_commands[k];

        text_addf(out, "    %s)\n        case $prev in\n", c->name);
        for (size_t i = 0; i < c->nflags; ++i) {
            if (c->flags[i].value == NULL)
                continue;
            text_add(out, SLICE_LIT("        "));
            add_flag_names(&c->flags[i], "|", out);
            text_add(out, SLICE_LIT(") "));
            add_bash_reply(c->flags[i].completes, "; return ;;\n", out);
        }
        text_add(out, SLICE_LIT("        esac\n"
                                "        if [[ $cur == -* ]]; then\n"
                                "            _resumelbctl_words \"$cur\" '"));
        for (size_t i = 0; i < c->nflags; ++i) {
            text_addf(out, "%s", i != 0 ? " " : "");
            add_flag_names(&c->flags[i], " ", out);
        }
        text_add(out, SLICE_LIT("'\n        else\n            "));
        add_bash_reply(c->completes, "\n        fi\n        ;;\n", out);
    }
    text_add(out, rest);
}

/* ---- zsh ---- */

/* An argument of _arguments: NAME, which may have a HELP, and a value, called VALUE, or NULL. */
static void add_zsh_spec(const char *name, const char *help, const char *value,
                         const char *completes, struct text *out)
{
    static const char special[] = "[]:\\";
    struct text spec = {0};

    text_addf(&spec, "*%s", name);
    if (help != NULL) {
        text_add_char(&spec, '[');
        completion_add_escaped(&spec, help, special);
        text_add_char(&spec, ']');
    }
    if (value != NULL) {
        text_add_char(&spec, ':');
        completion_add_escaped(&spec, value, special);
        text_add_char(&spec, ':');
    }
    if (is_files(completes)) {
        text_add(&spec, SLICE_LIT("_files"));
    } else if (completes != NULL) {
        text_add_char(&spec, '(');
        completion_add_escaped(&spec, completes, ":");
        text_add_char(&spec, ')');
    }
    text_add(out, SLICE_LIT(" \\\n            "));
    add_quoted(out, text_cstr(&spec));
    text_fini(&spec);
}

static void print_zsh(struct text *out)
{
    struct slice rest = {(const char *)asset_completion_zsh_in, sizeof(asset_completion_zsh_in)};

    text_add(out, slice_cut(&rest, '%'));
    for (size_t i = 0; i < ctl_ncommands; ++i) {
        char *row = xasprintf("%s:%s", ctl_commands[i]->name, ctl_commands[i]->summary);

        text_add(out, SLICE_LIT("        "));
        add_quoted(out, row);
        text_add_char(out, '\n');
        free(row);
    }
    text_add(out, slice_cut(&rest, '%'));
    for (size_t k = 0; k < ctl_ncommands; ++k) {
        const struct ctl_command *c = ctl_commands[k];

        text_addf(out, "    %s)\n        _arguments -s", c->name);
        for (const struct ctl_flag *f = c->flags; f < c->flags + c->nflags; ++f) {
            char name[64];

            snprintf(name, sizeof(name), "-%c", f->letter);
            if (f->letter != 0)
                add_zsh_spec(name, f->help, f->value, f->completes, out);
            snprintf(name, sizeof(name), "--%s", f->name);
            add_zsh_spec(name, f->help, f->value, f->completes, out);
        }
        add_zsh_spec("", NULL, c->arguments != NULL ? c->arguments : "nothing", c->completes, out);
        text_add(out, SLICE_LIT("\n        ;;\n"));
    }
    text_add(out, rest);
}

static int completion_main(const struct ctl_command *c, int argc, char **argv)
{
    struct ctl_options o = {0};
    int code = ctl_parse(c, argc, argv, &o);

    if (code >= 0)
        return code;
    if (o.words[0] == NULL)
        return ctl_usage_error(c, "expected a shell: bash or zsh", NULL);
    if (strcmp(o.words[0], "bash") == 0)
        print_bash(&o.out);
    else if (strcmp(o.words[0], "zsh") == 0)
        print_zsh(&o.out);
    else
        return ctl_usage_error(c, "unknown shell: expected bash or zsh", o.words[0]);
    return ctl_finish(&o, ERR_OK);
}

static const struct ctl_flag flags[] = {CTL_FLAG_HELP};
const struct ctl_command ctl_word_completion = {
    .name = "completion",
    .arguments = "bash|zsh",
    .summary = "completion of these commands for a shell",
    .completes = "bash zsh",
    CTL_FLAGS(flags),
    .run = completion_main,
};
