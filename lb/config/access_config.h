/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings `access_log_*` as the access log wants them. Stateless.
 */
#ifndef RLB_LB_CONFIG_ACCESS_CONFIG_H
#define RLB_LB_CONFIG_ACCESS_CONFIG_H

#include "lb/access/access_log.h"
#include "lb/settings/settings.h"

/* The fields that LIST names; all when it is empty. False: item *AT is none. */
bool access_fields_read(const struct text_list *list, uint64_t *out, size_t *at) must_check;
/* Of settings that have been checked. */
struct access_options access_options_of(const struct program_settings *s);

#endif
