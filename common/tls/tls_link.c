/* SPDX-License-Identifier: Apache-2.0
 *
 * The library reads ahead: one system call reads a record with its header, and perhaps the next
 * one. After a read that returned data, the socket is read again only if the library's buffer is
 * not empty, so a response costs one system call, as without TLS.
 *
 * The library processes all messages of TLS itself (KeyUpdate, session tickets, requests for a
 * renegotiation, alerts) that have arrived before it returns, and in a handshake all records of a
 * message, however small they are. A peer could determine how long that takes, and repeat it.
 * Therefore records and messages are counted as the library reports them, and above a limit it
 * finds the end of its input. Without SSL_MODE_AUTO_RETRY it would return after such a message, and
 * since OpenSSL 3.2 does not report what has arrived behind a KeyUpdate.
 */
#include "common/tls/tls_link.h"

#include "common/base/clock.h"
#include "common/base/log.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    /* Pieces are joined up to the size of a TLS record. */
    RECORD_MAX = 16 * 1024,
    /* Maximum number of bytes written at once, so that other sockets of the loop are served in
     * between. */
    SEND_MAX = 256 * 1024,
    REASON_ROOM = 160,
    /* Records that one call of the library may read: those of the largest message, each of them of
       the smallest size that peers with little memory use (RFC 6066: 512 bytes). */
    RECORDS_MAX = 512,
    /* Messages after the handshake, and without data in between. A peer sends a few tickets at
       once, and a KeyUpdate every few hundred gigabytes. */
    MESSAGES_PER_SECOND = 10,
    MESSAGES_MAX = 32,
};

/* ---- life ---- */

void tls_link_destroy(struct tls_link *l)
{
    if (l == NULL)
        return;
    /* Otherwise the library marks the session as not resumable. */
    if (l->up && !l->broken)
        SSL_set_shutdown(l->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(l->ssl);
    tls_peer_unref(l->use.peer);
    free(l);
}

static int on_certificate_request(unused_ SSL *ssl, void *context)
{
    struct tls_link *l = context;

    l->requested = true;
    return 1; /* send the certificate of the context, if it has one */
}

/* ---- what the peer makes the library do ---- */

/* The library finds the end of its input, whether it has buffered records or reads the next one. */
static cold_ void stop_flood(struct tls_link *l)
{
    l->flooded = true;
    if (!l->up && l->use.peer == NULL)
        *(enum tls_failure *)SSL_get_app_data(l->ssl) = TLS_FAILURE_OTHER;
    SSL_set_shutdown(l->ssl, SSL_RECEIVED_SHUTDOWN);
    SSL_set0_rbio(l->ssl, BIO_new(BIO_s_null()));
}

static cold_ void count_message(struct tls_link *l)
{
    uint64_t second = clock_mono_us() / 1000000; /* messages are rare: no time is passed for them */

    if (l->second != second)
        l->in_second = 0;
    l->second = second;
    if (++l->in_second > MESSAGES_PER_SECOND || ++l->in_a_row > MESSAGES_MAX)
        stop_flood(l);
}

/* As in SSL_CTX_set_msg_callback(3). */
static void on_message(int ours, unused_ int version, int type, const void *bytes, size_t len,
                       SSL *ssl, void *link)
{
    struct tls_link *l = link;

    if (type == SSL3_RT_HEADER && !ours) {
        if (++l->records == 1 && l->use.peer == NULL)
            tls_server_first_record(ssl, bytes, len);
        if (l->records > l->records_max && !l->flooded)
            stop_flood(l);
    } else if (l->up && !l->flooded &&
               ((type == SSL3_RT_HANDSHAKE && !ours) || type == SSL3_RT_ALERT)) {
        /* A renegotiation is rejected by an alert of ours. */
        count_message(l);
    }
}

static void watch_messages(struct tls_link *l)
{
    SSL_set_msg_callback(l->ssl, on_message);
    SSL_set_msg_callback_arg(l->ssl, l);
}

/*
 * SSL_get_error() examines the error queue of the thread, which must not contain errors of other
 * connections. It is almost always empty, and checking that costs a fraction of ERR_clear_error().
 */
static void clear_errors(void)
{
    if (ERR_peek_error() != 0)
        ERR_clear_error();
}

static void before_read(struct tls_link *l)
{
    clear_errors();
    l->records_max = l->records + RECORDS_MAX;
    errno = 0;
}

struct tls_link *tls_link_create(struct tls_peer *p, int fd, unsigned loop_index)
{
    struct tls_link *l = xcalloc(1, sizeof(*l));

    clear_errors();
    l->ssl = tls_peer_begin(p, loop_index, &l->use);
    if (l->ssl == NULL || SSL_set_fd(l->ssl, fd) != 1) {
        log_warn(p, "worker-tls-failed", "reason=\"cannot be set up for the name %s\"",
                 tls_peer_name(p));
        tls_link_destroy(l);
        return NULL;
    }
    SSL_set_cert_cb(l->ssl, on_certificate_request, l);
    watch_messages(l);
    return l;
}

struct tls_link *tls_link_accept(SSL_CTX *ctx, int fd, enum tls_failure *why)
{
    SSL *ssl = SSL_new(ctx);

    if (ssl == NULL || SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        clear_errors();
        return NULL;
    }
    struct tls_link *l = xcalloc(1, sizeof(*l));
    l->ssl = ssl;
    SSL_set_accept_state(ssl);
    SSL_set_app_data(ssl, why);
    watch_messages(l);
    return l;
}

/* ---- failures ---- */

void tls_link_log(const struct tls_link *l, const char *reason)
{
    log_warn(l->use.peer, "worker-tls-failed", "server_name=%s reason=\"%s\"",
             tls_peer_name(l->use.peer), reason);
}

static bool is_ssl_error(unsigned long code, int reason)
{
    return ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == reason;
}

/* Handles a failure of TLS. */
static void tls_link_fail(struct tls_link *l, int error, int system_error)
{
    char rejected[REASON_ROOM];
    long verdict = SSL_get_verify_result(l->ssl);
    unsigned long code = ERR_peek_error();
    const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;
    bool cut = is_ssl_error(code, SSL_R_UNEXPECTED_EOF_WHILE_READING);
    const char *reason = "closed in the handshake";

    l->broken = true;
    if (l->use.peer == NULL)
        return;
    if (l->flooded) {
        reason = "too many messages or records of TLS without data";
    } else if (!l->up && verdict != X509_V_OK && SSL_get_verify_mode(l->ssl) != SSL_VERIFY_NONE &&
               ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        snprintf(rejected, sizeof(rejected), "certificate rejected: %s",
                 X509_verify_cert_error_string(verdict));
        reason = rejected;
    } else if (is_ssl_error(code, SSL_R_WRONG_VERSION_NUMBER)) {
        reason = "the peer does not speak TLS";
    } else if (text != NULL && !cut) {
        reason = text;
    } else if (error == SSL_ERROR_SYSCALL && system_error != 0 && !cut) {
        reason = strerror(system_error);
    }
    tls_link_log(l, reason);
    /* The session may be the cause, so it is not resumed again. */
    tls_peer_store_session(&l->use, NULL);
}

enum tls_progress tls_link_handshake(struct tls_link *l)
{
    before_read(l);
    int n = SSL_do_handshake(l->ssl);
    int system_error = errno;

    if (n == 1) {
        l->up = true;
        return TLS_DONE;
    }
    int error = SSL_get_error(l->ssl, n);
    if (error == SSL_ERROR_WANT_READ)
        return TLS_READS;
    if (error == SSL_ERROR_WANT_WRITE)
        return TLS_WRITES;
    tls_link_fail(l, error, system_error);
    return TLS_FAILED;
}

/* ---- reading ---- */

/* Ends the input with errno WHY. In TLS 1.3 the peer checks the certificate after this side has
 * completed the handshake, and its alert is lost if it closes with unread data. */
static void end_with(struct tls_link *l, int why)
{
    if (l->requested && !l->received && why != EPROTO)
        tls_link_log(l, "closed after requesting a client certificate");
    l->ended = true;
    l->end = why;
}

/* Handles a read that returned N <= 0. */
static void take_end(struct tls_link *l, int n, int system_error)
{
    unsigned long code = ERR_peek_error();
    int error = SSL_get_error(l->ssl, n);

    if (l->flooded)
        error = SSL_ERROR_SSL;
    switch (error) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: /* a TLS message, which is sent with the next write */
        l->drained = true;
        return;
    case SSL_ERROR_ZERO_RETURN:
        end_with(l, 0);
        return;
    case SSL_ERROR_SYSCALL:
        l->broken = true;
        end_with(l, system_error != 0 ? system_error : ECONNRESET);
        return;
    default:
        if (is_ssl_error(code, SSL_R_UNEXPECTED_EOF_WHILE_READING)) {
            end_with(l, ECONNRESET);
            return;
        }
        tls_link_fail(l, error, system_error);
        end_with(l, EPROTO);
    }
}

ssize_t tls_link_recv(struct tls_link *l, char *p, size_t room)
{
    size_t got = 0;

    while (got < room && !l->ended) {
        before_read(l);
        int want = room - got < INT_MAX ? (int)(room - got) : INT_MAX;
        int n = SSL_read(l->ssl, p + got, want);
        int system_error = errno;
        l->drained = false;
        if (n <= 0) {
            take_end(l, n, system_error);
            break;
        }
        l->received = true;
        l->in_a_row = 0;
        got += (size_t)n;
        l->drained = SSL_has_pending(l->ssl) == 0;
        if (l->drained)
            break;
    }
    if (got != 0)
        return (ssize_t)got;
    if (l->ended && l->end == 0)
        return 0;
    errno = l->ended ? l->end : EAGAIN;
    return -1;
}

bool tls_link_more(const struct tls_link *l)
{
    return l->ended || !l->drained;
}

bool tls_link_quiet(struct tls_link *l)
{
    char byte;

    if (l->ended || l->broken || SSL_pending(l->ssl) != 0)
        return false;
    /* Usually nothing has arrived at all, which recv detects at a lower cost. */
    if (SSL_has_pending(l->ssl) == 0 &&
        recv(SSL_get_fd(l->ssl), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == -1 && errno == EAGAIN) {
        l->drained = true;
        return true;
    }
    before_read(l);
    int n = SSL_peek(l->ssl, &byte, 1);
    int system_error = errno;
    if (n > 0) {
        l->drained = false; /* the bytes are in the library now */
        return false;
    }
    take_end(l, n, system_error);
    return !l->ended;
}

/* ---- writing ---- */

/* Returns the first bytes of N pieces at IOV, copied to ROOM if several pieces have to be
 * joined. */
static struct slice join_pieces(const struct iovec *iov, size_t n, char room[RECORD_MAX])
{
    size_t len = 0;

    if (n == 1 || iov[0].iov_len >= RECORD_MAX)
        return (struct slice){iov[0].iov_base, iov[0].iov_len};
    for (size_t i = 0; i < n && len < RECORD_MAX; ++i) {
        size_t more = RECORD_MAX - len < iov[i].iov_len ? RECORD_MAX - len : iov[i].iov_len;

        if (more != 0)
            memcpy(room + len, iov[i].iov_base, more);
        len += more;
    }
    return (struct slice){room, len};
}

/* Pieces are joined, because the peer can read a record only when all of it has arrived. */
ssize_t tls_link_send(struct tls_link *l, const struct iovec *iov, size_t n_pieces)
{
    char room[RECORD_MAX];
    struct slice now = join_pieces(iov, n_pieces, room);
    size_t sent = 0;

    size_t all = now.len < SEND_MAX ? now.len : SEND_MAX;
    while (sent < all) {
        clear_errors();
        errno = 0;
        int n = SSL_write(l->ssl, now.p + sent, (int)(all - sent));
        int system_error = errno;
        if (n > 0) {
            sent += (size_t)n;
            continue;
        }
        int error = SSL_get_error(l->ssl, n);
        if (error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ) {
            errno = EAGAIN;
        } else {
            /* The cause is determined and logged by the reading side. */
            l->broken = l->broken || error == SSL_ERROR_SYSCALL;
            errno = error == SSL_ERROR_SYSCALL && system_error != 0 ? system_error : EPIPE;
        }
        return sent != 0 ? (ssize_t)sent : -1;
    }
    return (ssize_t)sent;
}

void tls_link_shutdown(struct tls_link *l)
{
    if (!l->up || l->broken || (l->ended && l->end != 0))
        return;
    clear_errors();
    (void)SSL_shutdown(l->ssl);
}
