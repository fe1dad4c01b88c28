/* SPDX-License-Identifier: Apache-2.0
 *
 * PCRE2 with its bounds set. No UTF mode, so that nothing a client sends is "invalid".
 *
 * A search needs scratch memory of its own. Idle scratch memory is in a list under a mutex, of at
 * most as many entries as threads ever searched at once.
 */
#include "classifiers/search.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum {
    /* Maximum number of backtracking steps of a search, about a millisecond. */
    MATCH_STEPS_MAX = 100000,
    /* For the interpreter, used without the JIT: maximum depth of nested steps, and memory. */
    MATCH_DEPTH_MAX = 20000,
    MATCH_HEAP_KIB_MAX = 8192,
    JIT_STACK_START_BYTES = 32 * 1024,
    JIT_STACK_MAX_BYTES = 512 * 1024,
};

struct scratch {
    struct scratch *next;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; /* NULL without JIT */
};

struct search {
    pcre2_code *code;
    pthread_mutex_t lock;
    struct scratch *idle; /* under the lock */
};

/* ---- scratch ---- */

static struct scratch *scratch_create(const struct search *search)
{
    struct scratch *s = xcalloc(1, sizeof(*s));

    s->data = pcre2_match_data_create_from_pattern(search->code, NULL);
    ASSERT(s->data != NULL);
    s->context = pcre2_match_context_create(NULL);
    ASSERT(s->context != NULL);
    pcre2_set_match_limit(s->context, MATCH_STEPS_MAX);
    pcre2_set_depth_limit(s->context, MATCH_DEPTH_MAX);
    pcre2_set_heap_limit(s->context, MATCH_HEAP_KIB_MAX);
    s->stack = pcre2_jit_stack_create(JIT_STACK_START_BYTES, JIT_STACK_MAX_BYTES, NULL);
    if (s->stack != NULL)
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
    return s;
}

/* ---- searching ---- */

enum search_result search_run(struct search *search, struct slice subject, uint32_t group,
                              struct slice *part)
{
    if (subject.len > SEARCH_SUBJECT_BYTES_MAX)
        return SEARCH_EXCEEDED;
    if (subject.p == NULL)
        subject = SLICE_LIT("");
    pthread_mutex_lock(&search->lock);
    struct scratch *s = search->idle;
    if (s != NULL)
        search->idle = s->next;
    pthread_mutex_unlock(&search->lock);
    if (s == NULL)
        s = scratch_create(search);
    int found =
        pcre2_match(search->code, (PCRE2_SPTR)subject.p, subject.len, 0, 0, s->data, s->context);
    if (found >= 0) {
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(s->data) + (size_t)group * 2;

        /* \K can set the start after the end. */
        if (ends[0] == PCRE2_UNSET || ends[1] < ends[0])
            *part = SLICE_NULL;
        else
            *part = (struct slice){subject.p + ends[0], ends[1] - ends[0]};
    }
    pthread_mutex_lock(&search->lock);
    s->next = search->idle;
    search->idle = s;
    pthread_mutex_unlock(&search->lock);
    if (found >= 0)
        return SEARCH_FOUND;
    return found == PCRE2_ERROR_NOMATCH ? SEARCH_NONE : SEARCH_EXCEEDED;
}

/* ---- creation ---- */

struct search *search_compile(const char *pattern, char why[SEARCH_WHY_ROOM])
{
    int error;
    PCRE2_SIZE at;
    PCRE2_UCHAR text[128];

    if (strlen(pattern) > SEARCH_PATTERN_BYTES_MAX) {
        snprintf(why, SEARCH_WHY_ROOM, "longer than %d bytes", SEARCH_PATTERN_BYTES_MAX);
        return NULL;
    }
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                     PCRE2_NEVER_UTF | PCRE2_NEVER_UCP, &error, &at, NULL);
    if (code == NULL) {
        pcre2_get_error_message(error, text, sizeof(text));
        snprintf(why, SEARCH_WHY_ROOM, "%s (at its character %zu)", (const char *)text, at + 1);
        return NULL;
    }
    /* Without JIT support for the machine or the pattern it is interpreted, which is slower. */
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);

    struct search *s = xcalloc(1, sizeof(*s));
    s->code = code;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

int search_group(const struct search *s, const char *name)
{
    int n = pcre2_substring_number_from_name(s->code, (PCRE2_SPTR)name);

    if (n > 0)
        return n;
    return n == PCRE2_ERROR_NOUNIQUESUBSTRING ? -1 : 0;
}

void search_destroy(struct search *search)
{
    if (search == NULL)
        return;
    for (struct scratch *s = search->idle, *next; s != NULL; s = next) {
        next = s->next;
        pcre2_jit_stack_free(s->stack);
        pcre2_match_context_free(s->context);
        pcre2_match_data_free(s->data);
        free(s);
    }
    pthread_mutex_destroy(&search->lock);
    pcre2_code_free(search->code);
    free(search);
}
