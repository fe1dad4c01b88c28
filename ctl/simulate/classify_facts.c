/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/simulate/classify.h"

#include <math.h>
#include <stdlib.h>

enum {
    /* Fewer say nothing. */
    REQUESTS_MIN = 20,
    /* In percent of all requests. */
    LARGEST_PERCENT = 50,
    CLASSES_PERCENT = 50,
    SINGLE_PERCENT = 25,
    NAMELESS_PERCENT = 10,
    PERCENT = 100,
};

static int compare(const void *a, const void *b)
{
    const struct class_count *x = a;
    const struct class_count *y = b;

    if (x->requests != y->requests)
        return x->requests > y->requests ? -1 : 1;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = n != 0 ? memcmp(x->name.p, y->name.p, n) : 0;
    if (order != 0)
        return order;
    return x->name.len < y->name.len ? -1 : x->name.len > y->name.len;
}

void classify_sort(struct class_counts *c)
{
    if (c->n != 0)
        qsort(c->classes, c->n, sizeof(c->classes[0]), compare);
}

void classify_facts(const struct class_counts *c, struct class_facts *out)
{
    double entropy = 0;

    *out = (struct class_facts){0};
    for (size_t i = 0; i < c->n; ++i) {
        double share = (double)c->classes[i].requests / (double)c->requests;

        entropy -= share * log(share);
        out->single += c->classes[i].requests == 1;
        if (c->classes[i].name.len == 0)
            out->nameless = share;
        else if (share > out->largest)
            out->largest = share;
    }
    out->as_if_equal = c->n != 0 ? exp(entropy) : 0;
}

/* A class by its name, safe for a terminal. */
static void add_largest(const struct class_counts *c, struct text *out)
{
    size_t i = c->classes[0].name.len == 0 && c->n > 1;

    text_add_escaped(out, c->classes[i].name);
}

size_t classify_warnings(const struct class_counts *c, struct text out[CLASSIFY_WARNINGS_MAX])
{
    struct class_facts f;
    size_t n = 0;

    if (c->requests < REQUESTS_MIN)
        return 0;
    classify_facts(c, &f);
    if (f.nameless * PERCENT >= NAMELESS_PERCENT) {
        text_addf(&out[n++],
                  "%.0f %% of the requests have no class: they go to whichever worker has least to "
                  "do",
                  f.nameless * PERCENT);
    }
    if (c->n == 1 && f.nameless < 1) {
        text_addf(&out[n++], "all requests are of one class: every worker has to know everything");
    } else if (f.largest * PERCENT >= LARGEST_PERCENT) {
        text_addf(&out[n], "one class has %.0f %% of the traffic (", f.largest * PERCENT);
        add_largest(c, &out[n]);
        text_addf(&out[n++], "): the workers that are skilled at it get no others, and it spills");
    }
    if ((double)c->n * PERCENT >= (double)c->requests * CLASSES_PERCENT) {
        text_addf(&out[n++],
                  "nearly as many classes as requests (%zu of %llu): no worker sees one often "
                  "enough to get good at it",
                  c->n, (unsigned long long)c->requests);
    } else if ((double)f.single * PERCENT >= (double)c->requests * SINGLE_PERCENT) {
        text_addf(&out[n++],
                  "%.0f %% of the requests are the only one of their class: they are spread by "
                  "chance",
                  (double)f.single * PERCENT / (double)c->requests);
    }
    return n;
}
