/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to a ZooKeeper server, as its bytes tell: which questions were asked, and whether
 * each frame of the server is an answer to one. A server answers in the order in which it was
 * asked; only pings, identities and watches set again, whose numbers are fixed, are answered out of
 * turn. Pure computation; belongs to whoever has the connection, under the lock of that.
 *
 *   asked:  greeting | 7 get  8 get  -2 ping  9 exists         heard:  greeting | 7 ...  -2  8 ...
 */
#ifndef RLB_WIRE_ZOOKEEPER_DIALOG_H
#define RLB_WIRE_ZOOKEEPER_DIALOG_H

#include "common/wire/zookeeper_reply.h"

enum {
    /* Questions without an answer: far more than anybody here asks at once. */
    ZOOKEEPER_QUESTIONS_MAX = 65536,
    /* Bytes of a question's frame that are looked at: those of the first one. */
    ZOOKEEPER_QUESTION_HEAD = 24,
};

struct zookeeper_question {
    int32_t xid, kind;
};

/* Zero-initialise; zookeeper_dialog_fini at the end. */
struct zookeeper_dialog {
    int64_t session; /* asked for, then had; 0: a new one, or an expired one */
    bool begun;      /* the first question, for a session, was asked */
    bool greeted;    /* and answered */
    unsigned char head[4 + ZOOKEEPER_QUESTION_HEAD]; /* of what is being asked */
    size_t head_bytes;
    size_t left;                      /* bytes of it to come */
    struct zookeeper_question *asked; /* a ring of ROOM, a power of two */
    size_t first, n, room;
    unsigned pings, identities, watches; /* without an answer */
};

void zookeeper_dialog_fini(struct zookeeper_dialog *d);
/* BYTES went to the server; questions may begin and end anywhere in them. */
enum zookeeper_fault zookeeper_dialog_sent(struct zookeeper_dialog *d,
                                           struct slice bytes) must_check;
/* Whether a frame of LENGTH bytes may come now. */
enum zookeeper_fault zookeeper_dialog_length(const struct zookeeper_dialog *d,
                                             uint32_t length) must_check;
/* Whether FRAME, without its length, may come now. If so it has. */
enum zookeeper_fault zookeeper_dialog_heard(struct zookeeper_dialog *d,
                                            struct slice frame) must_check;

#endif
