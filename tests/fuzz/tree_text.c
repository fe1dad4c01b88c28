/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken is printed so that it is taken again, as the same tree, and printed the same; what
 * is rejected has a reason with a place.
 */
#include "ctl/tree/tree_text.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *tree = NULL;
    json_t *again = NULL;
    struct text printed = {0};
    struct text twice = {0};
    struct diag d = {0};
    enum err e = tree_text_parse((struct slice){(const char *)data, size}, "f", &tree, &d);

    if (e != ERR_OK) {
        ASSERT(tree == NULL);
        ASSERT(d.errors != 0);
        ASSERT(strncmp(d.text, "f:", 2) == 0);
        diag_fini(&d);
        return 0;
    }
    ASSERT(d.errors == 0);
    ASSERT(tree_text_print(tree, &printed, &d) == 0);
    ASSERT(tree_text_parse(text_slice(&printed), "f", &again, &d) == ERR_OK);
    ASSERT(json_equal(tree, again));
    ASSERT(tree_text_print(again, &twice, &d) == 0);
    ASSERT(slice_eq(text_slice(&printed), text_slice(&twice)));
    ASSERT(d.errors == 0);
    json_decref(tree);
    json_decref(again);
    text_fini(&printed);
    text_fini(&twice);
    return 0;
}
