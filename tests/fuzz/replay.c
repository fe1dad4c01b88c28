/* SPDX-License-Identifier: Apache-2.0
 *
 * main() of the fuzz targets of one module: replays the files of directories through one target,
 * without libFuzzer, in every build. PROGRAM TARGET DIRECTORY... A missing directory counts as
 * empty; no input at all is a failure. Each source's function is renamed to TARGET_test_part()
 * (rlb_test_programs).
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/file.h"
#include "tests/fuzz/fuzz.h"

enum { INPUT_MAX = 8 << 20 };

typedef int target_fn(const uint8_t *data, size_t size);

#define TEST_PART(noun) target_fn noun##_test_part;
#include "test_parts.def"
#undef TEST_PART

static const struct {
    const char *name;
    target_fn *run;
} targets[] = {
#define TEST_PART(noun) {#noun, noun##_test_part},
#include "test_parts.def"
};

static target_fn *target_named(const char *name)
{
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; ++i) {
        if (strcmp(targets[i].name, name) == 0)
            return targets[i].run;
    }
    return NULL;
}

static void replay_file(target_fn *target, const char *path)
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
    target(start, bytes.len);
    free(exact);
    text_fini(&bytes);
}

static unsigned replay_directory(target_fn *target, const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    unsigned n = 0;

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        char *file = xasprintf("%s/%s", path, entry->d_name);
        replay_file(target, file);
        free(file);
        ++n;
    }
    if (directory != NULL)
        closedir(directory);
    return n;
}

int main(int argc, char **argv)
{
    target_fn *target = argc > 1 ? target_named(argv[1]) : NULL;
    unsigned n = 0;

    if (target == NULL) {
        fprintf(stderr, "usage: %s TARGET DIRECTORY...\n", argv[0]);
        return 2;
    }
    for (int i = 2; i < argc; ++i)
        n += replay_directory(target, argv[i]);
    if (n == 0)
        fprintf(stderr, "nothing to replay\n");
    return n != 0 ? 0 : 1;
}
