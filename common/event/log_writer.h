/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that writes the log of a server, so that a reader of stderr that has stopped, or a
 * slow disk, delays no other thread. Lines beyond its buffer are dropped and counted (log_dropped).
 * One per process; the log owns it. Main thread only.
 */
#pragma once

/* From now on the thread writes the lines; it must not run yet. Must be called after the last fork
 * of a process that continues without exec. */
void log_writer_start(void);
/* Writes the buffered lines, for a second at most; later lines are written by their threads. No
 * effect if it does not run. */
void log_writer_stop(void);
