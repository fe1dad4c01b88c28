/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of HTTP/2 (RFC 9113): frame types, flags, settings, error codes and sizes.
 */
#ifndef RLB_WIRE_HTTP2_HTTP2_TYPES_H
#define RLB_WIRE_HTTP2_HTTP2_TYPES_H

#include <stdint.h>

enum {
    HTTP2_PREFACE_BYTES = 24, /* section 3.4 */
    HTTP2_HEAD_BYTES = 9,     /* section 4.1 */
    HTTP2_FRAME_MAX = 16384,  /* the default of SETTINGS_MAX_FRAME_SIZE; what is sent */
    /*
     * SETTINGS_MAX_FRAME_SIZE as it is announced: what is received. DATA is passed on as it comes,
     * so that a large frame costs no memory; header blocks have a limit of their own. Clients that
     * copy their buffer for each frame, as python3-h2 does, need fewer frames.
     */
    HTTP2_FRAME_ACCEPTED = 1024 * 1024,
    HTTP2_FRAME_LIMIT = (1 << 24) - 1, /* its largest value */
    HTTP2_PRIORITY_BYTES = 5,
    HTTP2_SETTING_BYTES = 6,
    HTTP2_WINDOW_MAX = INT32_MAX,
};

/* Section 6. */
enum http2_type {
    TYPE_DATA = 0,
    TYPE_HEADERS = 1,
    TYPE_PRIORITY = 2,
    TYPE_RST_STREAM = 3,
    TYPE_SETTINGS = 4,
    TYPE_PUSH_PROMISE = 5,
    TYPE_PING = 6,
    TYPE_GOAWAY = 7,
    TYPE_WINDOW_UPDATE = 8,
    TYPE_CONTINUATION = 9,
    HTTP2_TYPES, /* this one and those above are extensions */
};

enum {
    FLAG_END_STREAM = 0x1,
    FLAG_ACK = 0x1,
    FLAG_END_HEADERS = 0x4,
    FLAG_PADDED = 0x8,
    FLAG_PRIORITY = 0x20,
};

/* Section 6.5.2. */
enum http2_setting {
    HTTP2_SETTING_HEADER_TABLE = 1,
    HTTP2_SETTING_ENABLE_PUSH = 2,
    HTTP2_SETTING_STREAMS = 3,
    HTTP2_SETTING_INITIAL_WINDOW = 4,
    HTTP2_SETTING_FRAME_MAX = 5,
    HTTP2_SETTING_HEADER_LIST = 6,
};

/* Section 7. */
enum http2_error {
    HTTP2_ERROR_NONE = 0,
    HTTP2_ERROR_PROTOCOL = 1,
    HTTP2_ERROR_INTERNAL = 2,
    HTTP2_ERROR_FLOW_CONTROL = 3,
    HTTP2_ERROR_SETTINGS_TIMEOUT = 4,
    HTTP2_ERROR_STREAM_CLOSED = 5,
    HTTP2_ERROR_FRAME_SIZE = 6,
    HTTP2_ERROR_REFUSED_STREAM = 7,
    HTTP2_ERROR_CANCEL = 8,
    HTTP2_ERROR_COMPRESSION = 9,
    HTTP2_ERROR_CONNECT = 10,
    HTTP2_ERROR_ENHANCE_YOUR_CALM = 11,
};

static inline uint32_t http2_get32(const void *bytes)
{
    const unsigned char *p = bytes;

    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

#endif
