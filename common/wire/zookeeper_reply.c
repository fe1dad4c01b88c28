/* SPDX-License-Identifier: Apache-2.0
 *
 * Each take_... reads one thing off the front of what is left, and says what is wrong with it; each
 * check reads on until something is. Stricter than the protocol where no server makes use of it: a
 * list or a path is always there, and an error has no body.
 */
#include "common/wire/zookeeper_reply.h"

enum {
    PASSWORD_BYTES = 16,
    /* Errors are -1 (of the server) to -127; these of them are for a client to tell itself. */
    ERROR_MIN = -127,
    ERROR_CONNECTION_LOSS = -4,
    ERROR_INVALID_STATE = -9,
    ERROR_CLOSING = -116,
    ERROR_NOTHING = -117,
    /* Of events. Others tell of watches that were taken back, which nobody does here. */
    EVENT_CREATED = 1,
    EVENT_CHILD = 4,
    STATE_CONNECTED = 3,
};

/* A node's figures, as far as anybody looks at them. */
struct figures {
    int32_t data_length, children;
};

const char *zookeeper_fault_text(enum zookeeper_fault f)
{
    static const char *const texts[ZOOKEEPER_FAULT_COUNT] = {
#define ZOOKEEPER_FAULT(name, text) text,
#include "common/wire/zookeeper_fault.def"
#undef ZOOKEEPER_FAULT
    };

    return texts[f];
}

/* ---- the parts of a body ---- */

static enum zookeeper_fault take_bytes(struct slice *rest, size_t n, struct slice *out)
{
    if (rest->len < n)
        return ZOOKEEPER_FAULT_SHORT;
    *out = (struct slice){rest->p, n};
    *rest = (struct slice){rest->p + n, rest->len - n};
    return ZOOKEEPER_FAULT_NONE;
}

static uint64_t number_of(struct slice bytes)
{
    uint64_t v = 0;

    for (size_t i = 0; i < bytes.len; ++i)
        v = v << 8 | (unsigned char)bytes.p[i];
    return v;
}

static enum zookeeper_fault take_i32(struct slice *rest, int32_t *out)
{
    struct slice bytes;
    enum zookeeper_fault f = take_bytes(rest, 4, &bytes);

    if (f == ZOOKEEPER_FAULT_NONE)
        *out = (int32_t)(uint32_t)number_of(bytes);
    return f;
}

static enum zookeeper_fault take_i64(struct slice *rest, int64_t *out)
{
    struct slice bytes;
    enum zookeeper_fault f = take_bytes(rest, 8, &bytes);

    if (f == ZOOKEEPER_FAULT_NONE)
        *out = (int64_t)number_of(bytes);
    return f;
}

/* What begins with its length, MIN to MAX; -1 counts as none. WRONG: what another length is. */
static enum zookeeper_fault take_counted(struct slice *rest, int32_t min, int32_t max,
                                         enum zookeeper_fault wrong, struct slice *out)
{
    int32_t len = 0;
    enum zookeeper_fault f = take_i32(rest, &len);

    if (f != ZOOKEEPER_FAULT_NONE)
        return f;
    if (len < min || len > max)
        return wrong;
    return take_bytes(rest, len > 0 ? (size_t)len : 0, out);
}

static enum zookeeper_fault take_path(struct slice *rest)
{
    struct slice path = SLICE_NULL;
    enum zookeeper_fault f =
        take_counted(rest, 1, ZOOKEEPER_PATH_BYTES_MAX, ZOOKEEPER_FAULT_PATH, &path);

    if (f != ZOOKEEPER_FAULT_NONE)
        return f;
    bool possible = path.p[0] == '/' && slice_find(path, '\0') == SIZE_MAX;
    return possible ? ZOOKEEPER_FAULT_NONE : ZOOKEEPER_FAULT_PATH;
}

static enum zookeeper_fault take_name(struct slice *rest)
{
    struct slice name = SLICE_NULL;
    enum zookeeper_fault f =
        take_counted(rest, 1, ZOOKEEPER_FRAME_MAX, ZOOKEEPER_FAULT_NAME, &name);

    if (f != ZOOKEEPER_FAULT_NONE)
        return f;
    bool possible = slice_find(name, '/') == SIZE_MAX && slice_find(name, '\0') == SIZE_MAX;
    return possible ? ZOOKEEPER_FAULT_NONE : ZOOKEEPER_FAULT_NAME;
}

/* A permission: bits, a scheme, and whom they are for in that. */
static enum zookeeper_fault take_acl(struct slice *rest)
{
    struct slice text = SLICE_NULL;
    int32_t bits = 0;
    enum zookeeper_fault f = take_i32(rest, &bits);

    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_counted(rest, 1, ZOOKEEPER_PATH_BYTES_MAX, ZOOKEEPER_FAULT_ACL, &text);
    if (f == ZOOKEEPER_FAULT_NONE && slice_find(text, '\0') != SIZE_MAX)
        f = ZOOKEEPER_FAULT_ACL;
    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_counted(rest, 0, ZOOKEEPER_PATH_BYTES_MAX, ZOOKEEPER_FAULT_ACL, &text);
    if (f == ZOOKEEPER_FAULT_NONE && slice_find(text, '\0') != SIZE_MAX)
        f = ZOOKEEPER_FAULT_ACL;
    return f;
}

static enum zookeeper_fault take_list(struct slice *rest, int32_t max,
                                      enum zookeeper_fault (*take)(struct slice *rest))
{
    int32_t n = 0;
    enum zookeeper_fault f = take_i32(rest, &n);

    if (f != ZOOKEEPER_FAULT_NONE)
        return f;
    /* Each has a length of its own at least: no more of them are promised than there can be. */
    if (n < 0 || n > max || (size_t)n > rest->len / 4)
        return ZOOKEEPER_FAULT_LIST;
    for (int32_t i = 0; f == ZOOKEEPER_FAULT_NONE && i < n; ++i)
        f = take(rest);
    return f;
}

/*
 * czxid mzxid ctime mtime (8 each)  version cversion aversion (4 each)  ephemeralOwner (8)
 * dataLength numChildren (4 each)  pzxid (8)
 */
static enum zookeeper_fault take_figures(struct slice *rest, struct figures *out)
{
    struct slice skipped = SLICE_NULL;
    int64_t created = 0;
    int64_t modified = 0;
    int64_t children = 0;
    enum zookeeper_fault f = take_i64(rest, &created);

    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_i64(rest, &modified);
    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_bytes(rest, 8 + 8 + 4 + 4 + 4 + 8, &skipped);
    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_i32(rest, &out->data_length);
    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_i32(rest, &out->children);
    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_i64(rest, &children);
    if (f != ZOOKEEPER_FAULT_NONE)
        return f;
    bool possible = created >= 0 && modified >= created && children >= 0 && out->data_length >= 0 &&
                    out->children >= 0;
    return possible ? ZOOKEEPER_FAULT_NONE : ZOOKEEPER_FAULT_STAT;
}

static enum zookeeper_fault take_only_figures(struct slice *rest)
{
    struct figures figures;

    return take_figures(rest, &figures);
}

/* ---- bodies ---- */

static enum zookeeper_fault take_data(struct slice *rest)
{
    struct slice data = SLICE_NULL;
    struct figures figures = {0};
    enum zookeeper_fault f =
        take_counted(rest, -1, ZOOKEEPER_DATA_MAX, ZOOKEEPER_FAULT_DATA, &data);

    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_figures(rest, &figures);
    /* A reader may go by either. */
    if (f == ZOOKEEPER_FAULT_NONE && (size_t)figures.data_length != data.len)
        f = ZOOKEEPER_FAULT_STAT;
    return f;
}

static enum zookeeper_fault take_names(struct slice *rest)
{
    return take_list(rest, ZOOKEEPER_NAMES_MAX, take_name);
}

static enum zookeeper_fault take_names_and_figures(struct slice *rest)
{
    enum zookeeper_fault f = take_names(rest);

    return f == ZOOKEEPER_FAULT_NONE ? take_only_figures(rest) : f;
}

static enum zookeeper_fault take_acls(struct slice *rest)
{
    enum zookeeper_fault f = take_list(rest, ZOOKEEPER_ACLS_MAX, take_acl);

    return f == ZOOKEEPER_FAULT_NONE ? take_only_figures(rest) : f;
}

static enum zookeeper_fault take_nothing(struct slice *rest)
{
    (void)rest;
    return ZOOKEEPER_FAULT_NONE;
}

static const struct body {
    int32_t kind;
    enum zookeeper_fault (*take)(struct slice *rest);
} bodies[] = {
    {ZOOKEEPER_CREATE, take_path},
    {ZOOKEEPER_DELETE, take_nothing},
    {ZOOKEEPER_EXISTS, take_only_figures},
    {ZOOKEEPER_GET_DATA, take_data},
    {ZOOKEEPER_SET_DATA, take_only_figures},
    {ZOOKEEPER_GET_ACL, take_acls},
    {ZOOKEEPER_SET_ACL, take_only_figures},
    {ZOOKEEPER_GET_CHILDREN, take_names},
    {ZOOKEEPER_SYNC, take_path},
    {ZOOKEEPER_PING, take_nothing},
    {ZOOKEEPER_GET_CHILDREN2, take_names_and_figures},
    {ZOOKEEPER_AUTH, take_nothing},
    {ZOOKEEPER_SET_WATCHES, take_nothing},
    {ZOOKEEPER_CLOSE, take_nothing},
};

static const struct body *body_of(int32_t kind)
{
    for (size_t i = 0; i < ARRAY_LEN(bodies); ++i) {
        if (bodies[i].kind == kind)
            return &bodies[i];
    }
    return NULL;
}

static bool is_of_a_server(int32_t error)
{
    return error < 0 && error >= ERROR_MIN && error != ERROR_CONNECTION_LOSS &&
           error != ERROR_INVALID_STATE && error != ERROR_CLOSING && error != ERROR_NOTHING;
}

enum zookeeper_fault zookeeper_reply_check(const struct zookeeper_reply *r, int32_t kind)
{
    const struct body *b = body_of(kind);
    struct slice rest = r->body;
    enum zookeeper_fault f = ZOOKEEPER_FAULT_NONE;

    if (b == NULL)
        return ZOOKEEPER_FAULT_KIND;
    if (r->error == 0)
        f = b->take(&rest);
    else if (!is_of_a_server(r->error))
        f = ZOOKEEPER_FAULT_ERROR;
    if (f == ZOOKEEPER_FAULT_NONE && rest.len != 0)
        f = ZOOKEEPER_FAULT_LONG;
    return f;
}

enum zookeeper_fault zookeeper_event_check(const struct zookeeper_reply *r)
{
    struct slice rest = r->body;
    int32_t type = 0;
    int32_t state = 0;
    enum zookeeper_fault f = take_i32(&rest, &type);

    if (r->error != 0)
        return ZOOKEEPER_FAULT_ERROR;
    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_i32(&rest, &state);
    if (f == ZOOKEEPER_FAULT_NONE &&
        (type < EVENT_CREATED || type > EVENT_CHILD || state != STATE_CONNECTED))
        f = ZOOKEEPER_FAULT_EVENT;
    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_path(&rest);
    if (f == ZOOKEEPER_FAULT_NONE && rest.len != 0)
        f = ZOOKEEPER_FAULT_LONG;
    return f;
}

enum zookeeper_fault zookeeper_reply_read(struct slice frame, struct zookeeper_reply *out)
{
    struct zookeeper_reply r = {.body = frame};
    enum zookeeper_fault f = take_i32(&r.body, &r.xid);

    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_i64(&r.body, &r.zxid);
    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_i32(&r.body, &r.error);
    /* -1: of events, which are of no transaction. */
    if (f == ZOOKEEPER_FAULT_NONE && r.zxid < -1)
        f = ZOOKEEPER_FAULT_ZXID;
    if (f == ZOOKEEPER_FAULT_NONE)
        *out = r;
    return f;
}

/*
 * protocolVersion (4)  timeOut (4)  sessionId (8)  password (counted)  readOnly (1; not from old
 * servers). A session that has expired is answered by none at all; any other than the one asked for
 * by nobody.
 */
enum zookeeper_fault zookeeper_greeting_check(struct slice frame, int64_t session, int64_t *out)
{
    struct slice rest = frame;
    struct slice password = SLICE_NULL;
    int32_t version = 0;
    int32_t timeout_ms = 0;
    int64_t id = 0;
    enum zookeeper_fault f = take_i32(&rest, &version);

    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_i32(&rest, &timeout_ms);
    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_i64(&rest, &id);
    if (f == ZOOKEEPER_FAULT_NONE)
        f = take_counted(&rest, PASSWORD_BYTES, PASSWORD_BYTES, ZOOKEEPER_FAULT_GREETING,
                         &password);
    bool writable = rest.len == 0 || (rest.len == 1 && rest.p[0] == 0);
    if (f != ZOOKEEPER_FAULT_NONE || version != 0 || !writable)
        return ZOOKEEPER_FAULT_GREETING;
    if (session == 0 ? id == 0 : id != 0 && id != session)
        return ZOOKEEPER_FAULT_SESSION;
    if (id == 0 ? timeout_ms != 0 : timeout_ms <= 0 || timeout_ms > ZOOKEEPER_SESSION_MS_MAX)
        return ZOOKEEPER_FAULT_SESSION_TIME;
    *out = id;
    return ZOOKEEPER_FAULT_NONE;
}
