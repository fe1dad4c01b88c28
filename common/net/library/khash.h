/* SPDX-License-Identifier: Apache-2.0
 *
 * libh2o's h2o/http2_internal.h wants this header, which it ships without: the layout of its tables
 * of streams, and looking one up. Only to read; libh2o alone changes them.
 */
#ifndef RLB_NET_LIBRARY_KHASH_H
#define RLB_NET_LIBRARY_KHASH_H

#include <stdint.h>

typedef uint32_t khint_t;
typedef khint_t khiter_t;

#define khash_t(name) kh_##name##_t

/* Two bits of flags for each bucket: empty, deleted. */
static inline int kh_is_used(const uint32_t *flags, khint_t i)
{
    return (flags[i >> 4] >> ((i & 15) << 1) & 3) == 0;
}

#define KHASH_MAP_INIT_INT64(name, type)                                                           \
    typedef struct {                                                                               \
        khint_t n_buckets, size, n_occupied, upper_bound;                                          \
        uint32_t *flags;                                                                           \
        uint64_t *keys;                                                                            \
        type *vals;                                                                                \
    } kh_##name##_t;                                                                               \
    static inline khint_t kh_get_##name(const kh_##name##_t *h, uint64_t key)                      \
    {                                                                                              \
        for (khint_t i = 0; i < h->n_buckets; ++i) {                                               \
            if (kh_is_used(h->flags, i) && h->keys[i] == key)                                      \
                return i;                                                                          \
        }                                                                                          \
        return h->n_buckets;                                                                       \
    }

#define kh_get(name, h, key) kh_get_##name(h, key)
#define kh_end(h) ((h)->n_buckets)
#define kh_val(h, i) ((h)->vals[i])

#endif
