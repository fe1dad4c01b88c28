/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of live settings: what is in force and how it came to be (live_settings.c), and what a
 * node says that is not (live_settings_refused.c). The tree's loop.
 */
#ifndef RLB_TREE_LIVE_SETTINGS_INTERNAL_H
#define RLB_TREE_LIVE_SETTINGS_INTERNAL_H

#include "common/tree/live_settings.h"

/* Why what the tree has for a row is not in force. */
struct refusal {
    char *value; /* as it stands there, cut */
    char *why;   /* NULL: nothing is wrong */
    bool untold;
};

struct values {
    void *s;
    enum setting_origin *origins;
};

struct live_settings {
    struct live_settings_options o;
    char *path;
    size_t nrows; /* of all tables */
    struct values yaml, now;
    struct refusal *refusals; /* per row */
    json_t *properties;       /* the last good ones; NULL: none */
    json_t *warned;           /* unknown names we have spoken of */
    uint64_t birth;           /* of the node that said them; 0: cannot tell */
    char *problem;            /* of the last reading; NULL: none */
    bool heard;               /* the tree has told something */
    bool remembered;          /* properties are of another life */
    uint64_t remembered_age_s, remembered_ms;
    bool held; /* the node is missing or broken; what it said stays until the timer */
    uint64_t held_ms;
    struct timer hold;
    struct live_settings_counts counts;
};

/* Row I of all tables. */
const struct setting_row *live_settings_row(const struct live_settings *l, size_t i);
/* What the node has for row I; NULL: nothing, or JSON's null, which is the same. Borrowed. */
const json_t *live_settings_property(const struct live_settings *l, size_t i);

/* ---- live_settings_refused.c ---- */

/* Remember (to be told once) why the tree's value of row I is not in force; WHY NULL: it is. */
void live_settings_refuse(struct live_settings *l, size_t i, const char *why);
/* What is new, as one line: of several within a second the log would have the first alone. */
void live_settings_tell_refusals(struct live_settings *l);
/* Member "refused" of what is open in W. */
void live_settings_describe_refused(const struct live_settings *l, struct json_writer *w);
void live_settings_free_refusals(struct live_settings *l);
/* Names that are in no table, each once, likewise. */
void live_settings_tell_unknown(struct live_settings *l);

#endif
