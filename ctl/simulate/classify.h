/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation of a classifier: its classes, the distribution of the traffic over them, and problems
 * with it. Counting is plain computation; the caller owns the count.
 */
#ifndef RLB_CTL_SIMULATE_CLASSIFY_H
#define RLB_CTL_SIMULATE_CLASSIFY_H

#include "common/base/text.h"

struct class_count {
    struct slice name;
    uint64_t requests;
};

/* All of one classifier's. */
struct class_counts {
    const char *label;
    struct class_count *classes; /* the largest first */
    size_t n;
    uint64_t requests;
};

struct class_facts {
    size_t single;      /* classes that only one request has */
    double largest;     /* share of the largest class that has a name */
    double nameless;    /* share of requests without a class */
    double as_if_equal; /* so many classes of the same size would be as uneven (exp of entropy) */
};

/* Sort them: the largest first, ties by name. */
void classify_sort(struct class_counts *c);
void classify_facts(const struct class_counts *c, struct class_facts *out);
/*
 * A line of text for each problem, without its end; the caller frees it. None if there are too few
 * requests to judge.
 */
enum { CLASSIFY_WARNINGS_MAX = 8 };
size_t classify_warnings(const struct class_counts *c, struct text out[CLASSIFY_WARNINGS_MAX]);

#endif
