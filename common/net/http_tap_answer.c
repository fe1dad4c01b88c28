/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told of a request that is refused by the tap: to its client, written past libh2o, and to
 * us.
 */
#include "common/net/http_conn.h"

void http_tap_put_answer(const struct http_conn *c, int status, const char *why, struct text *out)
{
    char date[H2O_TIMESTR_RFC1123_LEN + 1];
    time_t now = h2o_get_timestamp(&c->server->ctx, NULL, NULL)->tv_sec;
    struct tm tm;

    gmtime_r(&now, &tm);
    h2o_time2str_rfc1123(date, &tm);
    text_addf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, http_status_reason(status), date);
    if (*c->server->server_name != '\0')
        text_addf(out, "Server: %s\r\n", c->server->server_name);
    text_addf(out,
              "Connection: close\r\nContent-Length: %zu\r\n"
              "Content-Type: text/plain; charset=utf-8\r\n\r\n%s",
              strlen(why), why);
}

void http_tap_report(struct http_conn *c, enum request_fault f, const struct http1_request_facts *r)
{
    struct http_refusal refusal = {
        .conn = c,
        .fault = f,
        .status = c->http2 ? 0 : request_fault_status(f),
        .version = c->http2 ? 0x200 : 0x101,
    };

    if (r != NULL) {
        refusal.method = r->method;
        refusal.target = r->target;
        refusal.host = r->host;
    }
    http_server_refused(c->server, &refusal);
}
