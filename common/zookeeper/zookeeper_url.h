/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses zookeeper://HOST[:PORT][,HOST[:PORT]...][/PATH], and reads the file with the identity for
 * these servers. Plain functions over borrowed values; any thread.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/text.h"

enum {
    ZOOKEEPER_PORT = 2181,
    /* Servers of one ensemble: nine are many. */
    ZOOKEEPER_HOSTS_MAX = 32,
    /* A host's name, as DNS bounds it. */
    ZOOKEEPER_HOST_MAX = 253,
    /* The path of a URL: half of a node's path in the tree, so that there is room below it. */
    ZOOKEEPER_TOP_MAX = 256,
    /* The first line of an auth file. */
    ZOOKEEPER_AUTH_MAX = 1024,
};

/*
 * PLACE is what follows "zookeeper:". On ERR_OK both outs are owned by the caller (free()):
 *   hosts   "host:port,host:port", each with its port, as zookeeper_init takes them: no brackets
 *           around an IPv6 address, no path
 *   top     "" or "/a/b": no doubled or trailing slashes
 * Errors: ERR_SYNTAX, ERR_RANGE (a port), ERR_TOO_LARGE; the reason is in D.
 */
enum err zookeeper_url_parse(struct slice location, char **hosts, char **top,
                             struct diag *d) must_check;

/*
 * *IDENTITY becomes the first line of FILE, USER:PASSWORD, to be freed by crypto_free(); NULL: FILE
 * is only checked. A file that others than its owner and group may read or write is rejected.
 * Its contents are never logged. Errors: ERR_SYSTEM (cannot be read), ERR_UNSUPPORTED (not a
 * regular file, or accessible to others), ERR_TOO_LARGE, ERR_SYNTAX; the reason is in D.
 */
enum err zookeeper_auth_read(const char *file, char **identity, struct diag *d) must_check;
