/* SPDX-License-Identifier: Apache-2.0
 *
 * A hierarchy of nodes that can be watched. A node has properties (a JSON object), children, links
 * and providers: addresses registered by the process that serves them, which end with that process.
 * It is stored in a directory (directory:/path, one machine) or in ZooKeeper (zookeeper://...). On
 * one loop (the control loop); owned by the program; outlives its watches and registrations. The
 * tree's own threads, if any, only post messages to the loop.
 */
#pragma once

#include "common/base/text.h"
#include "common/config/config.h"
#include "common/event/loop.h"
#include "common/stats/metrics.h"
#include "common/tree/node_data.h"

struct tree;
struct tree_watch;
struct tree_registration;

/* Options for ZooKeeper, without effect on a directory. Borrowed for the call. */
struct tree_options {
    const char *auth_file;       /* its first line is USER:PASSWORD, a digest identity; or NULL */
    uint64_t session_timeout_ms; /* requested; 0: TREE_SESSION_MS */
};

/*
 * URL: "directory:/path", or "zookeeper://HOST:PORT,HOST:PORT/path". The path need not exist yet:
 * it is waited for (and created by registrations). O may be NULL: the defaults.
 * Paths of the functions below begin there. Links resolve within the whole tree, as in zc.zk: for
 * ZooKeeper that is all of the server, so that a link to "/a/b" means "/a/b" whatever the URL's
 * path is; for a directory it is the directory of the URL, and no link leads out of it.
 * Errors: ERR_SYNTAX, ERR_UNSUPPORTED (unknown scheme), ERR_SYSTEM (the auth file cannot be read).
 */
enum err tree_open(struct loop *l, struct slice url, const struct tree_options *o,
                   struct tree **out, struct diag *d) must_check;
/*
 * Checks that tree_open() accepts URL (NULL: none), configured at AT, and the auth file AUTH (NULL:
 * none), configured at AUTH_AT, which is read. Problems are added at their position.
 */
void tree_check_config(const struct config *c, const struct config_node *at, const char *url,
                       const struct config_node *auth_at, const char *auth, struct diag *d);
/* Closes the tree. Waits for a limited time until its registrations are no longer visible to
 * others. NULL is allowed. */
void tree_close(struct tree *t);

/* Status and counts since the start. */
struct tree_status {
    bool connected;       /* the tree can be reached now */
    uint64_t sessions;    /* sessions started with a server; 0 for a directory */
    uint64_t connections; /* connections to servers, including reconnections */
    uint64_t expired;     /* sessions lost; their providers were registered again */
    uint64_t reads;       /* reads of nodes, lists of children, and providers */
    size_t quarantined;   /* nodes that are not read because reading them broke the connection */
};
void tree_status(const struct tree *t, struct tree_status *out);
/* One row for each member of struct tree_status; without `each`. */
#define TREE_METRICS 6
extern const struct metric tree_metrics[TREE_METRICS];
/* Adds S to the object open in W. */
void tree_status_describe(const struct tree_status *s, struct json_writer *w);
/* Returns the path of the node in the URL, from the root of the tree: "" or "/a/b". */
const char *tree_top(const struct tree *t);
/* Returns true if other machines may write the tree. Its statements about this machine are then
 * not trusted. */
bool tree_is_remote(const struct tree *t);
/*
 * Writes the member "broken_links" of the object open in W: the problems of links that watches and
 * registrations at PATH and below follow. T may be NULL.
 */
void tree_describe_broken_links(const struct tree *t, const char *path, struct json_writer *w);

/* The current state of a watched node. Borrowed for the call. */
struct tree_view {
    bool exists;
    bool parses;          /* the properties are a JSON object, after following property links */
    bool providers_known; /* false: the providers cannot be read, and are the last known ones */
    uint64_t birth;       /* changes when the node is created again; 0: unknown */
    char *problem;        /* why the properties do not parse, or why a link does not resolve (its
                             property keeps its last value); or NULL */
    json_t *properties;   /* the last valid ones if EXISTS or PARSES is false; never NULL */
    /* Sets (node_data.h); NULL: none. */
    json_t *providers; /* registrations at PATH/providers */
    json_t *children;  /* nodes below */
};
typedef void (*tree_changed_fn)(void *context, const struct tree_view *node);

/*
 * Watches the node PATH ("" or "/": the one that the URL names; node links on the way are followed)
 * and its providers. CHANGED is called soon, then at every change; never inside this call. The
 * first change of a burst is reported at once, further ones at most every 20 ms.
 */
struct tree_watch *tree_watch(struct tree *t, const char *path, tree_changed_fn changed,
                              void *context);
void tree_unwatch(struct tree_watch *w);

/*
 * Registers PATH/providers/NAME while this process lives (until tree_unregister). Parents are
 * created. If another live process has the name, it is registered when that process ends.
 */
struct tree_registration *tree_register(struct tree *t, const char *path, const char *name,
                                        const json_t *properties);
/* Replaces the properties of the registration. */
void tree_registration_set(struct tree_registration *r, const json_t *properties);
bool tree_registered(const struct tree_registration *r);
void tree_unregister(struct tree_registration *r);
