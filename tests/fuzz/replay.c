/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzz target over the files of the folders it is given, without libFuzzer: in every build.
 * A folder that is not there is empty; no input at all is a failure.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "tests/fuzz/fuzz.h"

enum { INPUT_MAX = 8 << 20 };

static void replay_file(const char *path)
{
    struct text bytes = {0};
    enum err e = file_read(path, INPUT_MAX, &bytes);

    if (e != ERR_OK) {
        fprintf(stderr, "%s: %s\n", path, err_text(e));
        exit(1);
    }
    printf("%s\n", path);
    fflush(stdout);
    /* A block of its own size, so that a sanitizer sees one byte too many. */
    uint8_t *exact = xmalloc(bytes.len + 1);
    uint8_t *start = exact + 1;
    if (bytes.len != 0)
        memcpy(start, bytes.p, bytes.len);
    LLVMFuzzerTestOneInput(start, bytes.len);
    free(exact);
    text_fini(&bytes);
}

static unsigned replay_folder(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    unsigned n = 0;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        char *file = xasprintf("%s/%s", path, entry->d_name);
        replay_file(file);
        free(file);
        ++n;
    }
    if (folder != NULL)
        closedir(folder);
    return n;
}

int main(int argc, char **argv)
{
    unsigned n = 0;

    for (int i = 1; i < argc; ++i)
        n += replay_folder(argv[i]);
    if (n == 0)
        fprintf(stderr, "nothing to replay\n");
    return n != 0 ? 0 : 1;
}
