/* SPDX-License-Identifier: Apache-2.0
 *
 * Every compiled-in bound of the system, with its reason. What an operator may want to change is a
 * setting instead (settings.def of each program); these are bounds of formats and of sanity.
 */
#pragma once

enum {
    /* Length of an encoded class name: the maximum of a DNS name, which fits a log line and a
     * row of a resume. */
    CLASS_BYTES_MAX = 255,
    /* Length of a resume line on the wire, and of a resume file: 10,000 skills of 100 bytes. */
    RESUME_LINE_MAX = 1 << 20,
    /* A worker's or listener's address as text: a unix path (107) or a percent-encoded one. */
    ADDR_TEXT_MAX = 400,
    /* Length of an instance: 128 random bits in hexadecimal, and room for those that other
     * programs choose. */
    INSTANCE_MAX = 64,
    /* Length of the version that a worker reports. */
    VERSION_MAX = 100,
    /* Number of hexadecimal digits of a classifier's fingerprint. */
    FINGERPRINT_LEN = 16,
    /* Maximum number of workers that an exchange records as tried; bounds setting `retries`. */
    TRIED_MAX = 16,
    /* JSON from outside: levels of nesting, and number of members and elements in all. */
    JSON_DEPTH_MAX = 8,
    JSON_ENTRIES_MAX = 50000,
    /* Bytes of the properties of a tree node, as the default of ZooKeeper's jute.maxbuffer. */
    NODE_BYTES_MAX = 1 << 20,
    /* Bytes of a configuration file, levels of its nesting, and number of its nodes. */
    CONFIG_BYTES_MAX = 4 << 20,
    CONFIG_DEPTH_MAX = 16,
    CONFIG_NODES_MAX = 100000,
    /* Problems reported per configuration. Further problems are only counted. */
    CONFIG_PROBLEMS_MAX = 100,
    /* Data loops. More loops do not scale because of contention for the pool lock. */
    LOOPS_MAX = 64,
    /* Header fields of one message from a worker, and bytes of its head. */
    RESPONSE_HEADERS_MAX = 100,
    RESPONSE_HEAD_MAX = 64 * 1024,
    /* Options in the Connection fields of one head, besides close and keep-alive. Each field of the
     * head is compared with each of them; messages in use have at most three. */
    CONNECTION_OPTIONS_MAX = 16,
};
