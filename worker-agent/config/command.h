/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process is started with: words of its command, its environment, and where {port} and
 * {socket} stand in them. Plain computation; any thread.
 */
#ifndef RLB_AGENT_CONFIG_COMMAND_H
#define RLB_AGENT_CONFIG_COMMAND_H

#include <jansson.h>

#include "worker-agent/config/agent_config.h"

/* Find out c->listen, and check the bounds. False: WHY says what is wrong. */
bool command_check(struct app_config *c, char why[SETTINGS_WHY_ROOM]);
/* A hash of everything that processes are started with: an adopted one with another is replaced. */
void command_spec(const struct app_config *c, char out[FINGERPRINT_LEN + 1]);
/* New lists of texts: the words; and "NAME=value" of the whole environment. */
json_t *command_words(const struct app_config *c);
json_t *command_environment(const struct app_config *c);
/* A copy of WORD with each PLACE ("{port}") replaced. */
char *command_replace(const char *word, const char *place, const char *with);

#endif
