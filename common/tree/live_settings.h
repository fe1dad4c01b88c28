/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings that follow a node of the tree: the values of the YAML configuration, overlaid by the
 * node's properties. Owned by the owner of the settings (an application of either program, a pool
 * counter); on the tree's loop. Must outlive all borrowers of live_settings_now().
 *
 *   candidate = YAML, then each property by its row  ->  check across fields  ->  effective
 *
 * A property that is invalid or not LIVE is rejected alone: the last good value from the tree
 * stays, or else that of YAML. If a check across fields fails, all changes are rejected. If the
 * node vanishes or does not parse, its previous properties are held for a while, also if it comes
 * back empty, and for as long as the tree cannot be reached; the absence of a property is only
 * effective in a node that parses.
 */
#pragma once

#include "common/base/json.h"
#include "common/config/settings.h"
#include "common/tree/snapshot.h"

struct live_settings;

struct live_settings_options {
    struct loop *loop;
    /* Tables over one struct, of tables[0]->bytes; constant. Origins are per row of all of them, in
     * order. */
    const struct settings_table *const *tables;
    size_t ntables;
    const void *yaml;                   /* copied, except rows of type NODE */
    const enum setting_origin *origins; /* copied */
    const char *path;                   /* the node's; copied */
    const void *subject;                /* of log lines (log.h), or NULL; borrowed */
    /* The rules across fields; NULL: none. Returns false, with the broken rule in WHY. */
    bool (*check)(void *context, const void *s, char why[SETTINGS_WHY_ROOM]);
    /* Returns true if the node may set ROW to its value in S; YAML has the value of the file. If
     * not, the reason is in WHY, and the row is as in YAML. NULL: all values are permitted. */
    bool (*allowed)(const struct setting_row *row, const void *s, const void *yaml,
                    char why[SETTINGS_WHY_ROOM]);
    /* How long to hold the values of a vanished node. NOW: the effective settings. */
    uint64_t (*hold_ms)(void *context, const void *now);
    /* Whether a row keeps its initial value when YAML is re-read. NULL: no row does. */
    bool (*frozen)(const struct setting_row *row);
    /* Effective values (VALUES) or one of the counts have changed. Not called from within a
     * function of this header, except those that report new input. */
    void (*changed)(void *context, bool values);
    void *context;
};

struct live_settings *live_settings_create(const struct live_settings_options *o);
void live_settings_destroy(struct live_settings *l);
/* The effective settings. The address is constant; the content changes. */
const void *live_settings_now(const struct live_settings *l);
enum setting_origin live_settings_origin(const struct live_settings *l,
                                         const struct setting_row *row);
/* Why the tree's value of ROW is not effective, or NULL if nothing is wrong with it. */
const char *live_settings_rejection(const struct live_settings *l, const struct setting_row *row);
/* Applies YAML and ORIGINS, which were re-read. Both are copied. */
void live_settings_set_yaml(struct live_settings *l, const void *yaml,
                            const enum setting_origin *origins);
/* Applies NODE, the state of the node that the tree has reported. */
void live_settings_node(struct live_settings *l, const struct tree_view *node);
/*
 * Restores PROPERTIES that the node had AGE_S seconds ago, cached by a previous process. They are
 * effective until the tree reports something else, and pass the same checks. Does nothing if the
 * tree has already reported the node.
 */
void live_settings_restore(struct live_settings *l, const json_t *properties, uint64_t age_s);

struct live_settings_counts {
    uint64_t changes;    /* rows changed since the start */
    uint64_t rejections; /* new ones since the start */
    size_t rejected;     /* rows rejected at present */
    bool held;           /* the node is missing or broken */
    bool remembered;     /* restored values are effective; no response from the tree yet */
};
void live_settings_counts(const struct live_settings *l, struct live_settings_counts *out);
/*
 * Members "settings" (each value with its origin, and why the tree's is rejected), "rejected",
 * "problem" (why the node cannot be read, or which link does not resolve; or null), "held",
 * "held_s", "remembered", "remembered_age_s" of the object that is open in W.
 */
void live_settings_describe(const struct live_settings *l, struct json_writer *w);

/* ---- following the node ---- */

/* The part of the snapshot for a program's or an application's own node. */
#define LIVE_SETTINGS_PART "settings"
/*
 * Watches the node PATH of the options in T, stores it as PART (copied) of SNAPSHOT, and takes it
 * from there if T does not respond within WAIT_MS. Both are borrowed until
 * live_settings_unfollow().
 */
void live_settings_follow(struct live_settings *l, struct tree *t, struct snapshot *snapshot,
                          const char *part, uint64_t wait_ms);
/* Makes the values of the snapshot effective at once, until the tree responds. */
void live_settings_recall(struct live_settings *l);
/* Harmless if L does not follow its node. */
void live_settings_unfollow(struct live_settings *l);
