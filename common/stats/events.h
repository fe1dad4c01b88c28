/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of the last hour, for the status page: workers that joined, left or were ejected, changed
 * settings. A ring that overwrites its oldest event. Owned by the observer; control thread.
 */
#pragma once

#include "common/base/text.h"

enum {
    EVENTS_MAX = 512,
    EVENT_TEXT_MAX = 240, /* size of an event's text with its NUL; longer texts are truncated */
    EVENTS_AGE_MS = 60 * 60 * 1000,
};

struct event {
    uint64_t serial;  /* 1, 2, ... */
    uint64_t wall_ms; /* since 1970 */
    uint64_t mono_ms;
    const char *kind; /* constant: "joined", "left", "ejected", ... */
    bool bad;         /* an operator may have to act */
    char application[64];
    char subject[128]; /* worker or setting */
    char text[EVENT_TEXT_MAX];
};

struct events {
    struct event *ring; /* EVENTS_MAX entries, allocated for the first event */
    uint64_t serial;    /* serial of the newest event */
};

void events_fini(struct events *e);
/* Adds an event. KIND must be a constant; the other texts are copied and truncated to their
 * room. */
void events_add(struct events *e, const char *kind, bool bad, const char *application,
                const char *subject, const char *text);
/* Appends {"events": [...]} with the events after serial AFTER, oldest first. NOW_MS: monotonic. */
void events_json(const struct events *e, uint64_t after, uint64_t now_ms, struct text *out);
