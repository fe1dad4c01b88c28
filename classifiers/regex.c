/* SPDX-License-Identifier: Apache-2.0
 *
 * A pattern searched in one variable. The variable's bytes are the client's, the pattern may be one
 * that backtracks: subject, work and memory of one search are bounded, and a search that hits a
 * bound has found nothing. Bytes are bytes: no UTF mode, so that nothing a client sends is
 * "invalid".
 *
 * A search needs scratch memory of its own. What is free of it is kept in a list under a mutex,
 * which never holds more than as many threads as ever searched at once.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "classifiers/kind.h"
#include "common/base/text.h"

enum {
    /* A pattern is written by hand. */
    PATTERN_BYTES_MAX = 4096,
    VARIABLE_BYTES_MAX = 100,
    /* As long as a request line may sensibly be; what is longer has no class. */
    SUBJECT_BYTES_MAX = 8192,
    /* Steps of backtracking of one search: about a millisecond of a data loop's time. */
    MATCH_STEPS_MAX = 100000,
    /* For the interpreter, where there is no JIT: nested steps, and what they may take. */
    MATCH_DEPTH_MAX = 20000,
    MATCH_HEAP_KIB_MAX = 8192,
    JIT_STACK_START_BYTES = 32 * 1024,
    JIT_STACK_MAX_BYTES = 512 * 1024,
};

struct scratch {
    struct scratch *next;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; /* NULL: no JIT */
};

/* The one part of a regex that changes. */
struct idle {
    pthread_mutex_t lock;
    struct scratch *first;
};

struct regex {
    struct classifier super; /* first */
    char *variable;
    pcre2_code *code;
    uint32_t group; /* number of the group "class" */
    struct idle *idle;
};

static const struct regex *regex_of(const struct classifier *k)
{
    return (const struct regex *)(const void *)k;
}

/* ---- scratch ---- */

static struct scratch *scratch_create(const struct regex *r)
{
    struct scratch *s = xcalloc(1, sizeof(*s));

    s->data = pcre2_match_data_create_from_pattern(r->code, NULL);
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

static void scratch_destroy(struct scratch *s)
{
    pcre2_jit_stack_free(s->stack);
    pcre2_match_context_free(s->context);
    pcre2_match_data_free(s->data);
    free(s);
}

static struct scratch *scratch_get(const struct regex *r)
{
    struct idle *idle = r->idle;

    pthread_mutex_lock(&idle->lock);
    struct scratch *s = idle->first;
    if (s != NULL)
        idle->first = s->next;
    pthread_mutex_unlock(&idle->lock);
    return s != NULL ? s : scratch_create(r);
}

static void scratch_put(const struct regex *r, struct scratch *s)
{
    struct idle *idle = r->idle;

    pthread_mutex_lock(&idle->lock);
    s->next = idle->first;
    idle->first = s;
    pthread_mutex_unlock(&idle->lock);
}

/* ---- classifying ---- */

static size_t search(const struct regex *r, struct slice subject, struct scratch *s,
                     char out[CLASS_BYTES_MAX])
{
    int found = pcre2_match(r->code, (PCRE2_SPTR)subject.p, subject.len, 0, 0, s->data, s->context);

    /* No match, or a bound reached. */
    if (found < 0)
        return CLASSIFIER_NONE;
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(s->data);
    size_t at = (size_t)r->group * 2;
    size_t start = ends[at];
    size_t end = ends[at + 1];
    if (start == PCRE2_UNSET || end < start || end - start > CLASS_BYTES_MAX)
        return CLASSIFIER_NONE;
    memcpy(out, subject.p + start, end - start);
    return end - start;
}

static size_t regex_classify(const struct classifier *k, const struct rlb_environment *env,
                             char out[CLASS_BYTES_MAX])
{
    const struct regex *r = regex_of(k);
    struct slice subject = SLICE_NULL;

    subject.p = env->get(env, r->variable, &subject.len);
    if (subject.p == NULL || subject.len > SUBJECT_BYTES_MAX)
        return CLASSIFIER_NONE;
    struct scratch *s = scratch_get(r);
    size_t n = search(r, subject, s, out);
    scratch_put(r, s);
    return n;
}

static void regex_destroy(struct classifier *k)
{
    struct regex *r = (struct regex *)(void *)k;

    for (struct scratch *s = r->idle->first, *next; s != NULL; s = next) {
        next = s->next;
        scratch_destroy(s);
    }
    pthread_mutex_destroy(&r->idle->lock);
    free(r->idle);
    pcre2_code_free(r->code);
    free(r->variable);
    free(r);
}

static const struct classifier_kind regex_kind = {"regex", regex_destroy, regex_classify};

/* ---- making ---- */

static bool check_variable(const char *variable, char why[CLASSIFIER_WHY_ROOM])
{
    size_t len = strlen(variable);
    bool good = len != 0 && len <= VARIABLE_BYTES_MAX;

    for (size_t i = 0; i < len && good; ++i) {
        char c = variable[i];

        good = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '.';
    }
    if (!good)
        snprintf(why, CLASSIFIER_WHY_ROOM,
                 "variable: expected a name such as PATH_INFO or HTTP_X_TENANT");
    return good;
}

static pcre2_code *compile(const char *pattern, char why[CLASSIFIER_WHY_ROOM])
{
    int error;
    PCRE2_SIZE at;
    PCRE2_UCHAR text[128];

    if (strlen(pattern) > PATTERN_BYTES_MAX) {
        snprintf(why, CLASSIFIER_WHY_ROOM, "pattern: longer than %d bytes", PATTERN_BYTES_MAX);
        return NULL;
    }
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                     PCRE2_NEVER_UTF | PCRE2_NEVER_UCP, &error, &at, NULL);
    if (code == NULL) {
        pcre2_get_error_message(error, text, sizeof(text));
        snprintf(why, CLASSIFIER_WHY_ROOM, "pattern: %s (at its character %zu)", (const char *)text,
                 at + 1);
    }
    return code;
}

/* Number of the group "class", or 0. */
static uint32_t find_group(const pcre2_code *code, char why[CLASSIFIER_WHY_ROOM])
{
    int n = pcre2_substring_number_from_name(code, (PCRE2_SPTR) "class");

    if (n > 0)
        return (uint32_t)n;
    const char *problem = n == PCRE2_ERROR_NOUNIQUESUBSTRING
                              ? "has several groups named class; alternatives inside of one, or "
                                "(?|...|...) around them, will do"
                              : "has no group named class: (?<class>...)";
    snprintf(why, CLASSIFIER_WHY_ROOM, "pattern: %s", problem);
    return 0;
}

struct classifier *regex_create(const struct regex_settings *s, char why[CLASSIFIER_WHY_ROOM])
{
    if (!check_variable(s->variable, why))
        return NULL;
    pcre2_code *code = compile(s->pattern, why);
    if (code == NULL)
        return NULL;
    uint32_t group = find_group(code, why);
    if (group == 0) {
        pcre2_code_free(code);
        return NULL;
    }
    /* Where the machine has no JIT, or the pattern is beyond it, it is interpreted: the same,
     * slower. */
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);

    struct regex *r = xcalloc(1, sizeof(*r));
    r->super.kind = &regex_kind;
    r->variable = xstrdup(s->variable);
    r->code = code;
    r->group = group;
    r->idle = xcalloc(1, sizeof(*r->idle));
    pthread_mutex_init(&r->idle->lock, NULL);
    return &r->super;
}
