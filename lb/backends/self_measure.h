/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers without an agent: measures what they serve, makes their resumes, and stores these in
 * state_dir over our restarts: one file per worker, DIRECTORY/APPLICATION/ADDRESS, a resume line
 * each. Owned by lb/program; outlives the data loops. Files are written by a thread of its own; no
 * loop waits for a disk.
 */
#pragma once

#include "lb/backends/member.h"

struct self_measure;

/* DIRECTORY (NULL: nothing is stored) is locked by LOCK_FD, of which ownership is taken. */
struct self_measure *self_measure_create(const char *directory, int lock_fd);
/* Writes all changes now; self_measure_flushed is called when that is done. */
void self_measure_flush(struct self_measure *s);
bool self_measure_flushed(struct self_measure *s);
/* The lock, to be passed on; -1: nothing is stored. */
int self_measure_lock(const struct self_measure *s);
/* Another process stores the skills from now on: nothing is written any more. */
void self_measure_hand_over(struct self_measure *s);
/* Writes what has changed, and releases the directory. NULL is fine. */
void self_measure_destroy(struct self_measure *s);

/*
 * Control thread: adds M to the pool with the resume that is stored for it (or none), or with that
 * of FROM, which M replaces. From then on its resume is stored.
 */
void self_measure_join(struct self_measure *s, struct member *m, struct member *from);
/* Control thread: the last resume of M is written, and nothing after it. */
void self_measure_leave(struct self_measure *s, struct member *m);
/* Control thread: drops the skill of M at CLS, or all of them (NULL), soon in its file as well. */
void self_measure_forget(struct self_measure *s, struct member *m, const struct slice *cls);
