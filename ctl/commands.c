/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of words. What `tree` and `simulate` take is parsed in their own files; their rows here
 * are for shells that complete, and a test holds them against their --help.
 */
#include "ctl/cli/command.h"
#include "ctl/simulate/simulate.h"
#include "ctl/tree/tree.h"

/* clang-format off */
const struct ctl_command *const ctl_commands[] = {
    /* see */
    &ctl_word_status,
    &ctl_word_top,
    &ctl_word_resumes,
    &ctl_word_limits,
    &ctl_word_explain,
    &ctl_word_check,
    &ctl_word_trace,
    /* try */
    &ctl_word_classify,
    &ctl_word_simulate,
    &ctl_word_playback,
    /* act */
    &ctl_word_drain,
    &ctl_word_undrain,
    &ctl_word_confirm_removal,
    &ctl_word_forget,
    &ctl_word_reload,
    &ctl_word_detach,
    &ctl_word_tree,
    &ctl_word_completion,
};
/* clang-format on */
const size_t ctl_ncommands = ARRAY_LEN(ctl_commands);

static int run_tree(const struct ctl_command *c, int argc, char **argv)
{
    (void)c;
    return ctl_tree_main(argc, argv);
}

static int run_simulate(const struct ctl_command *c, int argc, char **argv)
{
    (void)c;
    return ctl_simulate_main(argc, argv);
}

enum { LONG_ONLY = 256 };

static const struct ctl_flag tree_flags[] = {
    {'u', "tree", "URL", NULL, "directory:/PATH or zookeeper://HOST:PORT,HOST:PORT/PATH"},
    {'A', "auth-file", "FILE", CTL_FILES, "ZooKeeper: its first line is USER:PASSWORD"},
    {'t', "timeout", "SECONDS", NULL, "how long to wait for an answer"},
    {'j', "json", NULL, NULL, "print: for programs"},
    {'e', "ephemeral", NULL, NULL, "export: providers, too"},
    {'o', "output", "FILE", CTL_FILES, "export: to FILE"},
    {'n', "dry-run", NULL, NULL, "import: say what would change"},
    {LONG_ONLY, "trim", NULL, NULL, "delete nodes that the text has not"},
    {LONG_ONLY, "no-trim", NULL, NULL, "neither delete them nor tell of them"},
    {LONG_ONLY, "reset-acl", NULL, NULL, "permissions as of new nodes"},
    {LONG_ONLY, "unset", "NAME", NULL, "set: remove a property or link"},
    {LONG_ONLY, "create", NULL, NULL, "set: make the node"},
    CTL_FLAG_HELP,
};
const struct ctl_command ctl_word_tree = {
    .name = "tree",
    .arguments = "VERB ...",
    .summary = "read and edit the tree of settings and workers",
    .completes = "print export import diff set get watch",
    .flags = tree_flags,
    .nflags = ARRAY_LEN(tree_flags),
    .run = run_tree,
};

static const struct ctl_flag simulate_flags[] = {
    {'p', "policy", "LIST", NULL, "policies, or all"},
    {'c', "classifier", "SPEC", "host segment path regex:", "how requests are classified"},
    {'s', "scenario", "NAME",
     "steady light flash crawl newworkers crash drain rolling hetero shift shareddb all",
     "instead of a log"},
    {'o', "plot", "FILE.svg", CTL_FILES, "a picture of it"},
    {'j', "json", NULL, NULL, "for programs"},
    {LONG_ONLY, "tune", NULL, NULL, "search the best classifier, policy, settings"},
    {LONG_ONLY, "queue-is-service", NULL, NULL, "reported times include the wait"},
    CTL_FLAG_HELP,
    {LONG_ONLY, "workers", "N", NULL, "workers"},
    {LONG_ONLY, "cache", "N", NULL, "objects that a worker's cache holds"},
    {LONG_ONLY, "base-ms", "MS", NULL, "work of a request that finds all its objects"},
    {LONG_ONLY, "hit-us", "US", NULL, "and for each object in the cache"},
    {LONG_ONLY, "load-ms", "MS", NULL, "and for each that is loaded"},
    {LONG_ONLY, "db-slots", "N", NULL, "loads going on together"},
    {LONG_ONLY, "clients", "N", NULL, "closed loop: so many clients"},
    {LONG_ONLY, "rate", "N", NULL, "open loop: so many requests a second"},
    {LONG_ONLY, "speed", "FACTOR", NULL, "open loop: when the log says"},
    {LONG_ONLY, "requests", "N", NULL, "so many requests"},
    {LONG_ONLY, "sites", "N", NULL, "sites"},
    {LONG_ONLY, "zipf", "S", NULL, "how uneven their shares are"},
    {LONG_ONLY, "site-objects", "N", NULL, "objects of a site"},
    {LONG_ONLY, "objects", "N", NULL, "objects drawn for a page"},
    {LONG_ONLY, "balancers", "N", NULL, "load balancers before the same workers"},
    {LONG_ONLY, "report-delay-ms", "MS", NULL, "delay of reports between balancers"},
    {LONG_ONLY, "homes-delay-ms", "MS", NULL, "how often workers publish where classes live"},
    {LONG_ONLY, "history", "N", NULL, "requests between a worker's resumes"},
    {LONG_ONLY, "seed", "N", NULL, "of all that is drawn"},
    {LONG_ONLY, "random", "N", NULL, "so many workloads drawn at random"},
};
const struct ctl_command ctl_word_simulate = {
    .name = "simulate",
    .arguments = "[ACCESS-LOG]",
    .summary = "what each policy would do for an access log, or for described work",
    .completes = CTL_FILES,
    .flags = simulate_flags,
    .nflags = ARRAY_LEN(simulate_flags),
    .run = run_simulate,
};
