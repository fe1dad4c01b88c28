/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP's dates, from bytes. Pure functions over borrowed bytes; any thread.
 */
#pragma once

#include "common/base/base.h"

#include <time.h>

/*
 * Read an HTTP-date in any of its three forms (RFC 9110 5.6.7): "Sun, 06 Nov 1994 08:49:37 GMT",
 * "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994".
 *   now_s  seconds since 1970; determines the century of a two-digit year
 *   out    seconds since 1970; may be negative
 * False, and *OUT untouched, for anything else: another zone, a day that is not in its month, an
 * invalid weekday. Whether the weekday matches the date is not checked.
 */
bool http_date_parse(struct slice s, int64_t now_s, int64_t *out) must_check;
/*
 * Reads S by FORMAT of strptime(3), in the "C" locale, if it has the form of PATTERN, in which
 * these stand for others (strptime is lenient about blanks, leading zeros, and the length of
 * names):
 *
 *     9 a digit   _ a digit or a blank   + a sign   * small letters, or none
 *     A a capital letter   a a small letter   @ any letter
 */
bool http_date_match(struct slice s, const char *pattern, const char *format,
                     struct tm *out) must_check;
