/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual time, and the scripted ends of connections, for tests in which the program under test and
 * its peers share one thread: no port, no sleep, and no dependence on the speed of the machine.
 *
 * The clock. After virtual_start() the clocks of the program stand still; only virtual_pass()
 * advances them, from timer to timer. virtual_settle() turns the loop until it is quiet: until
 * several turns in a row have moved no byte at any scripted end. Bytes on a unix socket arrive
 * within the call that sends them, so what a test observes then is always the same.
 *
 * The ends. A scripted_peer is one end of a unix socket, plain or TLS, with everything that it has
 * received. It reads only in scripted_step(), and not while it is DEAF. Its last received byte
 * stays in the socket (of pieces of at most 4 KiB): closing a unix socket with unread bytes is what
 * its peer sees as a reset, so scripted_reset() can be called at any time.
 *
 * Programs that use this link test_peer (CMakeLists.txt here), which replaces the clocks and
 * timerfd_settime(2).
 */
#pragma once

#include "common/base/text.h"
#include "common/event/loop.h"

#include <openssl/ssl.h>

/* ---- virtual time ---- */

/* Where the clocks stand after virtual_start(). */
enum { VIRTUAL_START_S = 1000000, VIRTUAL_WALL_START_S = 1800000000 };

/* Stops the clocks at their start. */
void virtual_start(void);
/* The clocks run again. */
void virtual_end(void);
/* Virtual time since virtual_start() [ms]. */
uint64_t virtual_ms(void);
/* Turns L until it is quiet, with STEP(CONTEXT) after each turn: whether it has moved bytes. */
void virtual_settle(struct loop *l, bool (*step)(void *context), void *context);
/*
 * Lets time pass from timer to timer, until UNTIL_MS of virtual_ms(), or until DONE(CONTEXT), which
 * may be NULL. L is quiet at each time.
 */
void virtual_pass(struct loop *l, uint64_t until_ms, bool (*step)(void *context),
                  bool (*done)(void *context), void *context);

/* ---- an end of a connection ---- */

struct scripted_peer {
    int fd;           /* -1: not connected any more */
    SSL *ssl;         /* NULL: plain */
    bool deaf;        /* reads nothing */
    bool left_byte;   /* the last byte received is still in the socket */
    bool ended;       /* the peer has closed its sending side */
    bool reset;       /* the connection has failed */
    bool truncated;   /* TLS: it has ended without close_notify */
    struct text in;   /* received, decrypted, and not taken by the test yet */
    uint64_t in_all;  /* the number of bytes received so far */
    struct text out;  /* to be sent as soon as the socket accepts it */
    bool end_at_sent; /* then the sending side is closed */
};

/* Takes over FD, which is connected, or accepted from a listening socket. TLS: NULL for plain;
 * SERVER: it is the server of the handshake. */
void scripted_open(struct scripted_peer *p, int fd, SSL_CTX *tls, bool server);
/* Connects to the unix socket PATH. */
void scripted_connect(struct scripted_peer *p, const char *path, SSL_CTX *tls);
/* A socket that listens at PATH, which is removed before. */
int scripted_listen(const char *path, int backlog);
/* Moves bytes in both directions. Returns whether there was anything to be moved. */
bool scripted_step(struct scripted_peer *p);
/* Queues BYTES to be sent. */
void scripted_send(struct scripted_peer *p, struct slice bytes);
/* Closes the sending side after what is queued. */
void scripted_end(struct scripted_peer *p);
/* Closes the connection; with TLS after close_notify. What is queued is lost. */
void scripted_close(struct scripted_peer *p);
/* Closes the connection such that its peer sees a reset. */
void scripted_reset(struct scripted_peer *p);
void scripted_fini(struct scripted_peer *p);
/* Whether neither side has closed it. */
bool scripted_is_open(const struct scripted_peer *p);
/* Sends STEP. It may end with $close, $reset, $end (of the sending side) or $deaf, which is done
 * then. Returns another "$..." at its end, or "". */
const char *scripted_run(struct scripted_peer *p, const char *step);

/* ---- HTTP messages ---- */

/* The length of the complete head, or of the complete message with its Content-Length, at the start
 * of IN; 0: there is none. */
size_t scripted_head_length(const struct text *in);
size_t scripted_message_length(const struct text *in);

/* ---- expectations: FILE and LINE are the test's ---- */

/* Fails: WHAT is GOT, and not WANTED. */
void scripted_differ(const char *what, struct slice got, struct slice wanted, const char *file,
                     int line);
/* IN is exactly BYTES; it is empty then. */
void scripted_expect_all(struct text *in, const char *what, const char *bytes, const char *file,
                         int line);
/* A call reached RECEIVER, which is NAME, with a request GOT that begins with BYTES. */
void scripted_expect_call(const char *receiver, struct slice got, const char *name,
                          const char *bytes, const char *file, int line);
/* P, a client, has received exactly BYTES, apart from Date fields; they are dropped. */
void scripted_expect_bytes(struct scripted_peer *p, const char *bytes, const char *file, int line);
/* P, a client, has received one response with STATUS and each of FIELDS, up to NULL, but not those
 * after a '!'; it is dropped. */
void scripted_expect_status(struct scripted_peer *p, int status, const char *const *fields,
                            const char *file, int line);
void scripted_expect_closed(const struct scripted_peer *p, bool closed, const char *file, int line);

/* TLS contexts of the scripted ends, made once: a server with a certificate of its own, and a
 * client that verifies nothing. */
SSL_CTX *scripted_tls_server(void);
SSL_CTX *scripted_tls_client(void);
