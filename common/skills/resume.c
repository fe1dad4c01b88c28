/* SPDX-License-Identifier: Apache-2.0 */
#include "common/skills/resume.h"

#include <stdlib.h>

#include "common/base/limits.h"
#include "common/base/text.h"

void resume_fini(struct resume *r)
{
    for (size_t i = 0; i < r->n; ++i)
        free((void *)(uintptr_t)r->rows[i].cls.p);
    free(r->rows);
    *r = (struct resume){0};
}

bool resume_is_class(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        if (s.p[i] < 0x21 || s.p[i] > 0x7e)
            return false;
    }
    return s.len <= CLASS_BYTES_MAX;
}

bool resume_is_fingerprint(struct slice s)
{
    for (size_t i = 0; i < s.len; ++i) {
        bool digit = s.p[i] >= '0' && s.p[i] <= '9';

        if (!digit && (s.p[i] < 'a' || s.p[i] > 'f'))
            return false;
    }
    return s.len == FINGERPRINT_LEN || s.len == 0;
}

static void make_room(struct resume *r, size_t room)
{
    if (room <= r->room)
        return;
    r->rows = xrealloc(r->rows, room * sizeof(r->rows[0]));
    r->room = room;
}

void resume_push(struct resume *r, struct slice cls, double score)
{
    enum { FIRST_ROOM = 8 };

    if (r->n == r->room)
        make_room(r, r->room != 0 ? r->room * 2 : FIRST_ROOM);
    r->rows[r->n++] = (struct resume_row){.cls = {xslicedup(cls), cls.len}, .score = score};
}

void resume_copy(struct resume *to, const struct resume *from)
{
    ASSERT(to != from);
    resume_fini(to);
    make_room(to, from->n);
    for (size_t i = 0; i < from->n; ++i)
        resume_push(to, from->rows[i].cls, from->rows[i].score);
}

size_t resume_forget(struct resume *r, const struct slice *cls)
{
    size_t before = r->n;

    if (cls == NULL) {
        resume_fini(r);
        return before;
    }
    size_t kept = 0;
    for (size_t i = 0; i < before; ++i) {
        if (slice_eq(r->rows[i].cls, *cls))
            free((void *)(uintptr_t)r->rows[i].cls.p);
        else
            r->rows[kept++] = r->rows[i];
    }
    r->n = kept;
    return before - kept;
}

const double *resume_find(const struct resume *r, struct slice cls)
{
    for (size_t i = 0; i < r->n; ++i) {
        if (slice_eq(r->rows[i].cls, cls))
            return &r->rows[i].score;
    }
    return NULL;
}
