/* SPDX-License-Identifier: Apache-2.0
 *
 * The tap on HTTP/2 connections: how many frames of each kind a client may send.
 */
#include "common/net/http_conn.h"

enum {
    /* Per second and connection, where no client has a reason to come near. */
    SETTINGS_MAX = 50,
    EMPTY_DATA_MAX = 100,
    CONTINUATION_MAX = 500,
    BLOCK_FRAMES_MAX = 32,
    /* Decoded they are checked against the setting, with an answer; so here is room for more. */
    BLOCK_BYTES_FACTOR = 2,
};

static uint32_t or_none(uint32_t limit)
{
    return limit != 0 ? limit : UINT32_MAX;
}

static struct http2_frame_limits limits_of(const struct http_server_options *o)
{
    return (struct http2_frame_limits){
        .per_second =
            {
                [HTTP2_PING] = or_none(o->http2_pings),
                [HTTP2_SETTINGS] = SETTINGS_MAX,
                [HTTP2_EMPTY_DATA] = EMPTY_DATA_MAX,
                [HTTP2_CONTINUATION] = CONTINUATION_MAX,
                [HTTP2_PRIORITY] = or_none(o->http2_priorities),
                [HTTP2_WINDOW_UPDATE] = or_none(o->http2_window_updates),
                [HTTP2_RST_STREAM] = or_none(o->http2_resets),
                [HTTP2_UNKNOWN] = or_none(o->http2_unknown_frames),
            },
        .block_frames = BLOCK_FRAMES_MAX,
        .block_bytes =
            o->max_header_bytes != 0 ? BLOCK_BYTES_FACTOR * o->max_header_bytes : SIZE_MAX,
    };
}

enum request_fault http_tap_check_http2(struct http_conn *c, struct slice fresh)
{
    struct http2_frame_limits limits = limits_of(&c->server->options);

    return http2_frames_check(&c->tap.frames, &limits, fresh, loop_now_ms(c->server->loop));
}
