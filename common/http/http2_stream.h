/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of HTTP/2, included by its three files only:
 *
 *     http2_server.c  the connection: reading, SETTINGS, limits, phases, GOAWAY, its end
 *     http2_stream.c  requests: heads, bodies, rejections, resets
 *     http2_output.c  all that is sent: heads, DATA by windows and priorities, control frames
 *
 * A stream exists from its head until its response has been taken by the transport, or until it is
 * reset. Functions that call a user's code may close the connection: `closed` is set then, all
 * streams have been freed, and struct http2_server is freed when the outermost function of this
 * module returns (http2_enter, http2_leave).
 */
#pragma once

#include "common/h2o/priority_tree.h"
#include "common/http/http2_urgency.h"
#include "common/http/http_server_internal.h"
#include "common/wire/http2/hpack.h"
#include "common/wire/http2/http2_reader.h"

enum {
    HTTP2_STREAMS_MAX = 100,         /* concurrent ones, as announced */
    HTTP2_WINDOW = 16 * 1024 * 1024, /* for what a client sends: of each stream, and of all */
    HTTP2_CREDIT = 1024 * 1024,      /* a window is renewed when so much of it has been used */
    HTTP2_INITIAL_WINDOW = 65535,    /* unless SETTINGS change it */
    /* Bytes that the transport has not taken: DATA and heads are added below the first limit. A
     * client that reads nothing and exceeds the second one loses its connection. */
    HTTP2_OUTPUT_MAX = 64 * 1024,
    HTTP2_UNREAD_MAX = 256 * 1024,
    HTTP2_BUCKETS = 16,
    HTTP2_RESETS_STORED = 128,
    HTTP2_REJECTED_MAX = 10, /* requests of one connection that violate a rule; then it ends */
    HTTP2_FEW_PIECES = 4,
    HTTP2_STREAM_ROOM = 2048,
};

struct http2_server {
    struct http_conn *conn;
    struct http2_reader *reader;
    struct http2_reader_limits limits;
    uint32_t per_second[HTTP2_TYPES + 1];
    struct http2_meter meter;
    unsigned depth;     /* of http2_enter */
    bool closed;        /* by http2_fini */
    bool closing;       /* no new streams; the connection ends when the last one has */
    uint64_t goaway_ms; /* when the first GOAWAY of a drain was sent; 0: it was not */
    uint32_t last_id;   /* the highest stream that was processed */
    uint32_t requests;
    unsigned excess; /* incomplete requests above HTTP2_STREAMS_MAX, in a row */
    /* Streams. */
    struct list streams;
    struct http2_stream *buckets[HTTP2_BUCKETS];
    unsigned nstreams;
    unsigned nbodies;       /* with an incomplete request */
    uint32_t *resets;       /* streams that are discarded; NULL: none yet */
    unsigned next_reset;    /* they are a ring */
    size_t discarded_bytes; /* since a reset last showed that they are not needed */
    /* Windows. */
    int64_t send_window, initial_window;
    uint64_t data_bytes; /* of responses that are, or were, in the output */
    uint32_t credit;     /* of the window for what is received: used, and not yet renewed */
    uint32_t updates;    /* WINDOW_UPDATE frames for DATA that was sent, which are not counted */
    /* HEADER_TABLE_SIZE in a SETTINGS frame that is not complete. */
    bool table_reported;
    uint32_t table_lowest, table_last;
    /* Output. It begins with a frame's head. */
    struct text out;
    size_t out_at;      /* bytes of it that the transport has taken */
    uint64_t out_taken; /* in all */
    bool blocked;       /* the transport takes no more for now */
    struct pace stall;  /* while it is blocked: whether the client takes anything */
    struct hpack_encoder encoder;
    struct http2_urgency *urgency; /* NULL: the client has stated none; else TREE is not used */
    struct priority_tree *tree;    /* NULL: no stream has had to wait yet */
    unsigned nactive;              /* streams that wait to be served, in either */
    struct list due;    /* streams with a head or an end that waits for room, not for a window */
    struct list copied; /* all that they had is in the output, and they may have more */
    struct list ending; /* their last frame is in the output; in that order */
    struct loop_deferred flush;
    /* Times. */
    uint64_t idle_since_ms;
    uint64_t head_since_ms; /* a header block is incomplete since then; 0: none is */
    uint32_t head_after;    /* the last stream before it */
};

enum http2_state {
    HTTP2_STREAM_BODY,   /* the request is incomplete */
    HTTP2_STREAM_BUSY,   /* it has been handed over */
    HTTP2_STREAM_ENDING, /* the last frame of the response is in the output */
};

struct http2_stream {
    struct http2_server *h2;
    struct http2_stream *next; /* in its bucket */
    struct list node;          /* in streams */
    struct list line;          /* in due, copied or ending, or in none */
    uint32_t id;
    enum http2_state state;
    struct http2_side side;
    bool cut; /* ENDING: by a reset of ours */
    /* The request's body. */
    uint32_t credit; /* as of the connection */
    uint64_t begun_ms;
    struct pace pace;
    struct body_sink body;
    /* The response. */
    bool head_put, last;          /* LAST: it ends with the pieces */
    bool active;                  /* it waits to be served, with bytes and a window */
    struct priority_entry *entry; /* in the tree; NULL: it has not had to wait yet */
    struct urgency_entry urgency; /* if the connection has urgencies */
    int64_t send_window;
    uint64_t body_bytes;   /* of DATA that are, or were, in the output */
    size_t left;           /* bytes of the pieces that are not in the output */
    struct iovec *pieces;  /* of the body; FEW, or allocated */
    size_t piece, npieces; /* the first that is not used up */
    uint64_t end_at;       /* ENDING: out_taken is at least this when the last frame was taken */
    struct iovec few[HTTP2_FEW_PIECES];
    struct http_request req;
    _Alignas(ARENA_ALIGN) char room[HTTP2_STREAM_ROOM];
};

/* ---- http2_server.c ---- */
static inline struct http2_server *http2_enter(struct http2_server *h2)
{
    ++h2->depth;
    return h2;
}
/* The last access to H2: it may be freed. */
void http2_leave(struct http2_server *h2);
/* A stream was abandoned by its client: end the connection if that happens too often. */
void http2_count_abandoned(struct http2_server *h2);
/* If no more streams can come and all that there is has been sent: end the connection. */
void http2_end_if_done(struct http2_server *h2);

/* ---- http2_stream.c: events of the reader, see there ---- */
struct http2_side *http2_on_side(void *owner, uint32_t id);
enum request_fault http2_on_request(void *owner, struct http2_head *head);
enum request_fault http2_on_malformed(void *owner, uint32_t id, struct http2_side *side,
                                      struct http2_head *head, enum request_fault fault);
enum request_fault http2_on_data(void *owner, const struct http2_data *d);
enum request_fault http2_on_trailers(void *owner, struct http2_side *side, struct http2_head *head);
enum request_fault http2_on_reset(void *owner, uint32_t id, uint32_t code);

/* NULL: it does not exist, or not any more. */
struct http2_stream *http2_find(const struct http2_server *h2, uint32_t id);
/* A flow-control window of S has become too large, or was exceeded: S is reset. An incomplete
 * request is reported. Calls http_response_lost(), so that H2 may be closed. */
enum request_fault http2_on_overflow(struct http2_stream *s);
/* Frees S: its response is complete, or LOST (http_response_lost). H2 may be closed then, too. */
void http2_stream_destroy(struct http2_stream *s, bool lost);
/* The client has ended the connection: report the requests that are incomplete. */
void http2_report_ended(struct http2_server *h2);
/* Bodies that are too slow. */
void http2_sweep_bodies(struct http2_server *h2, uint64_t now_ms);

/* ---- http2_output.c ---- */
static inline size_t http2_unsent(const struct http2_server *h2)
{
    return h2->out.len - h2->out_at;
}
void http2_output_init(struct http2_server *h2);
/* Send at the end of the turn, unless the transport is blocked. */
void http2_schedule(struct http2_server *h2);

/* Appends a frame to the output. Returns where its payload goes, of LEN bytes. */
char *http2_put_frame(struct http2_server *h2, size_t len, enum http2_type type, unsigned flags,
                      uint32_t id);
void http2_put_settings(struct http2_server *h2);
void http2_put_reset(struct http2_server *h2, uint32_t id, enum http2_error code);
void http2_put_goaway(struct http2_server *h2, uint32_t last_id, enum http2_error code);
void http2_put_window(struct http2_server *h2, uint32_t id, uint32_t amount);
/* "100 Continue". */
void http2_put_continue(struct http2_server *h2, uint32_t id);
/* A whole response of the server's own. Without the text if the windows have no room for it, or if
 * the request IS_HEAD. */
void http2_put_response(struct http2_server *h2, uint32_t id, int status, const char *text,
                        bool is_head);

/* The client changes the windows of S, or of the connection (S is NULL). False: it would become too
 * large; nothing is changed. */
bool http2_grow_window(struct http2_server *h2, struct http2_stream *s, int64_t amount);
/* A PRIORITY frame, or what HEADERS have of it. */
enum request_fault http2_on_priority(void *owner, uint32_t id, const struct http2_priority *p);
/* The client states urgencies instead of dependencies from now on. Accepts repetitions. */
void http2_use_urgency(struct http2_server *h2);
/* Sets the urgency of a new stream, if its client states any. */
void http2_set_urgency(struct http2_stream *s);
/* A PRIORITY_UPDATE frame. */
enum request_fault http2_on_priority_update(void *owner, uint32_t id, struct slice value);
/* Removes S from the output. Must be called before S is freed. */
void http2_output_remove(struct http2_stream *s);
