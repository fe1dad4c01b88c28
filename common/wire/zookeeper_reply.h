/* SPDX-License-Identifier: Apache-2.0
 *
 * What a ZooKeeper server says within a frame, held against what it must look like. Its client
 * library believes a server: from an answer that is none of the question's it ends the process, by
 * an assertion or a crash. Pure computation over borrowed bytes; any thread.
 *
 *   frame:   length (4, not counted itself), then the greeting, or
 *            xid (4)  zxid (8)  error (4)  body, by the kind of the question
 *
 * Numbers are signed and in network order; strings, data and lists begin with their length, -1
 * where there is none at all.
 */
#ifndef RLB_WIRE_ZOOKEEPER_REPLY_H
#define RLB_WIRE_ZOOKEEPER_REPLY_H

#include "common/base/text.h"

enum {
    /* A node's data. By default nobody can write more than 1 MiB (jute.maxbuffer); some raise it.
     */
    ZOOKEEPER_DATA_MAX = 4 * 1024 * 1024,
    /* Data of that length with what stands around them; a list of children. */
    ZOOKEEPER_FRAME_MAX = ZOOKEEPER_DATA_MAX + 64 * 1024,
    /* Children of one node: names of 40 bytes in the longest frame. */
    ZOOKEEPER_NAMES_MAX = 100000,
    ZOOKEEPER_ACLS_MAX = 1000,
    /* A path that we have asked about, or a node below one. */
    ZOOKEEPER_PATH_BYTES_MAX = 16 * 1024,
    /* More than the longest session that any server is set to give (maxSessionTimeout, 40 s by
       default): with such a time-out the client would not notice for days that nobody answers. */
    ZOOKEEPER_SESSION_MS_MAX = 3600 * 1000,
    ZOOKEEPER_HEAD_BYTES = 16, /* of an answer */
};

enum zookeeper_fault {
#define ZOOKEEPER_FAULT(name, text) ZOOKEEPER_FAULT_##name,
#include "common/wire/zookeeper_fault.def"
#undef ZOOKEEPER_FAULT
    ZOOKEEPER_FAULT_COUNT
};

/* "an answer to nothing that was asked". Never NULL. */
const char *zookeeper_fault_text(enum zookeeper_fault f);

/* Kinds of questions, as the protocol numbers them: those that are asked here. */
enum zookeeper_kind {
    ZOOKEEPER_CREATE = 1,
    ZOOKEEPER_DELETE = 2,
    ZOOKEEPER_EXISTS = 3,
    ZOOKEEPER_GET_DATA = 4,
    ZOOKEEPER_SET_DATA = 5,
    ZOOKEEPER_GET_ACL = 6,
    ZOOKEEPER_SET_ACL = 7,
    ZOOKEEPER_GET_CHILDREN = 8,
    ZOOKEEPER_SYNC = 9,
    ZOOKEEPER_PING = 11,
    ZOOKEEPER_GET_CHILDREN2 = 12, /* with the node's figures */
    ZOOKEEPER_AUTH = 100,
    ZOOKEEPER_SET_WATCHES = 101,
    ZOOKEEPER_CLOSE = -11,
};

struct zookeeper_reply {
    int32_t xid; /* the question's; below zero: what is not answered in turn */
    int64_t zxid;
    int32_t error; /* 0: none */
    struct slice body;
};

/*
 * FRAME in answer to a request for SESSION (0: a new one).
 *   out  with ZOOKEEPER_FAULT_NONE: the session's number; 0: it has expired
 */
enum zookeeper_fault zookeeper_greeting_check(struct slice frame, int64_t session,
                                              int64_t *out) must_check;
/* The head of an answer, or of an event. OUT's body is borrowed of FRAME. */
enum zookeeper_fault zookeeper_reply_read(struct slice frame,
                                          struct zookeeper_reply *out) must_check;
/* Whether R can be the answer to a question of the kind KIND: all of its body, to the last byte. */
enum zookeeper_fault zookeeper_reply_check(const struct zookeeper_reply *r,
                                           int32_t kind) must_check;
/* Whether R is news of a node: created, deleted, changed, or its list of children. */
enum zookeeper_fault zookeeper_event_check(const struct zookeeper_reply *r) must_check;

#endif
