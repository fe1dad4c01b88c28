/* SPDX-License-Identifier: Apache-2.0
 *
 * What is logged goes to stderr: a test lets that be a file for a while.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct log_capture {
    int file;
    int real_stderr;
    char text[16384];
};

static inline void log_capture_start(struct log_capture *c)
{
    char path[] = RLB_TEST_DIR "/log_capture.XXXXXX";

    *c = (struct log_capture){.file = mkstemp(path), .real_stderr = dup(STDERR_FILENO)};
    assert_true(c->file >= 0);
    unlink(path);
    assert_true(dup2(c->file, STDERR_FILENO) >= 0);
}

/* All that was logged since the start. */
static inline const char *log_capture_end(struct log_capture *c)
{
    dup2(c->real_stderr, STDERR_FILENO);
    close(c->real_stderr);
    ssize_t n = pread(c->file, c->text, sizeof(c->text) - 1, 0);
    assert_true(n >= 0);
    c->text[n] = '\0';
    close(c->file);
    return c->text;
}
