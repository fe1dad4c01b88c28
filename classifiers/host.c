/* SPDX-License-Identifier: Apache-2.0
 *
 * The Host as a class: one name for all the ways a browser may write it. "WWW.Example.com.:8080"
 * and "example.com" are one class; an IPv6 literal keeps its brackets.
 */
#include <stdlib.h>

#include "classifiers/kind.h"
#include "common/base/text.h"

static size_t host_of_host(struct slice host, char out[CLASS_BYTES_MAX])
{
    if (host.p == NULL)
        return CLASSIFIER_NONE;
    host = host_without_port(slice_trim(host));
    /* The root's dot: the same name to DNS. */
    if (host.len != 0 && host.p[host.len - 1] == '.')
        --host.len;
    if (host.len >= 4 && slice_eq_nocase((struct slice){host.p, 4}, SLICE_LIT("www.")))
        host = (struct slice){host.p + 4, host.len - 4};
    if (host.len > CLASS_BYTES_MAX)
        return CLASSIFIER_NONE;
    ascii_lower_copy(out, host);
    return host.len;
}

static size_t host_classify(const struct classifier *k, const struct rlb_environment *env,
                            char out[CLASS_BYTES_MAX])
{
    struct slice host = SLICE_NULL;

    (void)k;
    host.p = env->get(env, "HTTP_HOST", &host.len);
    return host_of_host(host, out);
}

static void host_destroy(struct classifier *k)
{
    free(k);
}

static const struct classifier_kind host_kind = {"host", host_destroy, host_classify, host_of_host};

struct classifier *host_create(void)
{
    struct classifier *k = xcalloc(1, sizeof(*k));

    k->kind = &host_kind;
    return k;
}
