/* SPDX-License-Identifier: Apache-2.0
 *
 * libh2o allocates from a pool what it has to rewrite. The pool ends with the call.
 */
#include "common/h2o/url_path.h"

#include <h2o.h>

struct slice url_path_normalize(struct slice target, char *out)
{
    struct slice path = SLICE_LIT("/");
    size_t query_at;
    size_t *indexes; /* of each byte in TARGET; in the pool */
    h2o_mem_pool_t pool;

    if (target.len == 0)
        return path;
    h2o_mem_init_pool(&pool);
    h2o_iovec_t found = h2o_url_normalize_path(&pool, target.p, target.len, &query_at, &indexes);
    if (found.base == target.p) {
        path = (struct slice){target.p, found.len};
    } else {
        ASSERT(found.len <= URL_PATH_ROOM(target.len));
        memcpy(out, found.base, found.len);
        path = (struct slice){out, found.len};
    }
    h2o_mem_clear_pool(&pool);
    return path;
}
