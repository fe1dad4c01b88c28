/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP's rules (RFC 9111) for giving one response to several requests: which requests and responses
 * take part, how old a response is, whether it may be served stale, and by which of a request's
 * fields it was chosen. For a shared cache: what is private is not shared. Pure functions over
 * borrowed bytes; any thread. Time is an argument.
 *
 * Everything read is hostile: what is malformed, contradicts itself or is over a limit is read as
 * the strictest it could mean, and is then not shared.
 */
#pragma once

#include "common/base/err.h"
#include "common/base/text.h"
#include "common/wire/http1_head.h"

enum {
    /* All Cache-Control lines of one message; known servers send some 150 bytes, 6 directives. */
    CACHE_CONTROL_BYTES_MAX = 4096,
    CACHE_DIRECTIVES_MAX = 64,
    /* Fields that a response may vary by, and bytes of their names in all. */
    VARY_NAMES_MAX = 16,
    VARY_BYTES_MAX = 1024,
    /* A variant's key (cache_variant_key): a Cookie and an Accept of the usual size fit. */
    VARIANT_KEY_MAX = 8192,
    /* Names in struct cache_names: each field of a request is compared with each. */
    CACHE_NAMES_MAX = 128,
};

/* Maximum of ages and lifetimes, in seconds (RFC 9111 1.2.2). */
#define CACHE_SECONDS_MAX UINT32_C(2147483648)
/* A number of seconds that was not given. */
#define CACHE_SECONDS_NONE UINT32_MAX

/* Header fields of either message, in the order of arrival; names in any case. */
struct cache_fields {
    const struct message_field *fields;
    size_t n;
};

/* ---- Cache-Control ---- */

/* One message's directives, of both directions; those that are not there are false or NONE. */
struct cache_control {
    bool no_store, no_cache; /* no_cache, private_: with names of fields or without */
    bool private_, public_;
    bool must_revalidate, proxy_revalidate, must_understand;
    uint32_t max_age_s, s_maxage_s;
    uint32_t stale_if_error_s;         /* RFC 5861 4 */
    uint32_t max_stale_s, min_fresh_s; /* requests; max-stale without a number: SECONDS_MAX */
    bool malformed;                    /* not a list of directives, or over a limit */
};
/*
 * Reads all Cache-Control fields of F. A number is a token or quoted. One that is malformed, or
 * missing where it is required, counts as the strictest value: 0, or the maximum for min-fresh. Of
 * several, the strictest counts (RFC 9111 4.2.1: not well-formed is stale).
 */
void cache_control_parse(struct cache_fields f, struct cache_control *out);

/* ---- requests ---- */

struct cache_request {
    struct slice method;
    /* To check the request: as the client sent them, but for what the server took out. To find the
     * variant: as the worker gets them. */
    struct cache_fields fields;
    bool body; /* has one, or announced one */
    bool upgrade;
};

/* The age limits of a request (RFC 9111 5.2.1); NONE where it has none. */
struct cache_wish {
    uint32_t max_age_s, max_stale_s, min_fresh_s;
};

/* Names of fields, borrowed; compared in any case, and with '_' for '-'. */
struct cache_names {
    size_t n;
    struct slice names[CACHE_NAMES_MAX];
};

/* Which requests that identify their user take part. */
struct cache_policy {
    bool cookies;      /* with a Cookie, which RFC 9111 does not mention: Vary or private decide */
    bool certificates; /* with a verified client certificate, by X-SSL-Client-* */
    const struct cache_names *private_fields; /* not with any of these; NULL: none */
};

/* Whether FIELDS identify the user of their request so that it takes no part by POLICY. */
bool cache_has_user(struct cache_fields fields, const struct cache_policy *policy);
/* Whether REQUEST may get the response to another one, or the response to it given to
 * others; then WISH is set. Not if it has a user (cache_has_user). */
bool cache_check_request(const struct cache_request *request, const struct cache_policy *policy,
                         struct cache_wish *wish) must_check;

/* Whether a response STATUS to METHOD invalidates what is stored of its target (RFC 9111 4.4). */
bool cache_invalidates(struct slice method, int status);

/* ---- responses ---- */

struct cache_response {
    int status;
    struct cache_fields fields;
    int64_t received_s; /* when its head came: seconds since 1970 */
    uint32_t delay_s;   /* from sending the request until then */
};

/* The properties that determine how a response may be used. */
struct cache_facts {
    uint32_t age_s;      /* on receipt of its head (RFC 9111 4.2.3, corrected_initial_age) */
    uint32_t lifetime_s; /* explicit freshness lifetime (4.2.1); 0: none */
    bool must_validate;  /* must not be served when stale (4.2.4, 5.2.2) */
    bool good;           /* its status is understood (5.2.2.3): may be served instead of an error */
    uint32_t stale_s;    /* stale-if-error: maximum staleness; NONE: not specified */
};

/*
 * Whether the complete response R to an eligible GET may also be served to other requests; then
 * FACTS is set.
 *
 * A response with an explicit lifetime of 0 may: the waiting requests were received before it
 * arrived, and RFC 9111 4.2.4 leaves serving stale responses to the configuration. It may not if
 * stale responses must be validated (must-revalidate, proxy-revalidate, s-maxage), because a
 * lifetime of 0 is then equivalent to no-cache.
 */
bool cache_check_response(const struct cache_response *r, struct cache_facts *facts) must_check;

/* Whether a response of age AGE_S may be served to a request received before it arrived. */
bool cache_may_share(const struct cache_facts *f, uint64_t age_s);
/*
 * Whether the response, possibly stale, may be served instead of an error to a request with this
 * WISH. The configuration allows that (4.2.4) unless the response or the request forbids it.
 */
bool cache_may_serve_stale(const struct cache_facts *f, const struct cache_wish *wish,
                           uint64_t age_s);

/* ---- variants (RFC 9111 4.1) ---- */

/*
 * Appends the variant key of RESPONSE to OUT: one line for each field named by its Vary, sorted by
 * name, without duplicates; "name=value", or "name" if REQUEST has no such field. REQUEST has the
 * fields as sent to the worker, with the values that the load balancer sets. Names are in lower
 * case; a value consists of the field's lines, trimmed, joined by ", " ("; " for Cookie). The key
 * has at most VARIANT_KEY_MAX bytes.
 *
 * Two rules go beyond the RFC, because a client could otherwise choose the responses of others. In
 * names, '_' equals '-', because CGI-like interfaces do not distinguish them. Fields from which
 * applications learn their public address (X-Forwarded-Host, ...) are treated as if Vary named
 * them, if REQUEST has them.
 *
 * False, and OUT is untouched, if the response must not be shared: Vary is malformed, over its
 * limits, "*" or names a field that differs for each request; or a value of REQUEST is malformed.
 */
bool cache_variant_key(struct cache_fields response, struct cache_fields request,
                       struct text *out) must_check;
/* Whether REQUEST selects the response with KEY, which cache_variant_key() has created. */
bool cache_variant_matches(struct slice key, struct cache_fields request);
