/* SPDX-License-Identifier: Apache-2.0
 *
 * resumelbctl top: a pure function renders the screen from two pages and a view. Main thread.
 */
#ifndef RLB_CTL_INSPECT_TOP_H
#define RLB_CTL_INSPECT_TOP_H

#include "ctl/cli/ctl.h"

enum top_key {
    TOP_NAME,
    TOP_BACKLOG,
    TOP_MEAN,
    TOP_OLDEST,
    TOP_REQUESTS, /* a second */
    TOP_FAILURES, /* a second */
    TOP_SERVICE,
    TOP_SKILLS,
    TOP_KEYS
};

struct top_view {
    enum top_key key;
    bool reverse; /* the other way round */
    bool paused, help, quit;
    size_t application; /* which is shown, counted from 0 */
    size_t first;       /* worker of the first line */
    size_t shift;       /* columns after the worker's name that are scrolled out of view */
    unsigned interval_s;
    unsigned rows, columns;
    bool colours;
};

/* Handles a key; UP, DOWN, LEFT and RIGHT are the codes of arrows. Returns false if it has no
 * effect. */
enum { TOP_UP = 0x100, TOP_DOWN, TOP_LEFT, TOP_RIGHT, TOP_PAGE_UP, TOP_PAGE_DOWN };
bool top_press(struct top_view *v, int key);

/*
 * The whole screen to OUT: as many lines as there are rows, none longer than the columns, with
 * "\r\n" between. Columns that do not fit are left out, the least important first; a line names
 * them and the workers that are out of view. A line that is cut ends with "...".
 *   before   the page of SPAN_S seconds ago, for rates; NULL: there is none
 *   problem  why NOW is old, or NULL
 */
void top_draw(const struct top_view *v, const json_t *before, const json_t *now, double span_s,
              const char *problem, struct text *out);

#endif
