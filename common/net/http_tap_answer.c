/* SPDX-License-Identifier: Apache-2.0
 *
 * The tap's own answer to a request that is refused, written past libh2o.
 */
#include "common/net/http_conn.h"

void http_tap_put_answer(struct http_conn *c, enum request_fault f)
{
    int status = request_fault_status(f);
    const char *why = request_fault_text(f);
    struct text *t = &c->tap.answer;
    char date[H2O_TIMESTR_RFC1123_LEN + 1];
    time_t now = h2o_get_timestamp(&c->server->ctx, NULL, NULL)->tv_sec;
    struct tm tm;

    gmtime_r(&now, &tm);
    h2o_time2str_rfc1123(date, &tm);
    text_addf(t, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, http_status_reason(status), date);
    if (*c->server->server_name != '\0')
        text_addf(t, "Server: %s\r\n", c->server->server_name);
    text_addf(t,
              "Connection: close\r\nContent-Length: %zu\r\n"
              "Content-Type: text/plain; charset=utf-8\r\n\r\n%s",
              strlen(why), why);
}
