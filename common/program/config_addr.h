/* SPDX-License-Identifier: Apache-2.0
 *
 * What the programs' configuration files have in common about addresses: how they are complained
 * of, the mode of a unix socket.
 */
#ifndef RLB_PROGRAM_CONFIG_ADDR_H
#define RLB_PROGRAM_CONFIG_ADDR_H

#include "common/config/config.h"
#include "common/config/settings_value.h"
#include "common/net/addr.h"

/* The address TEXT of WHAT, at AT of FILE, was refused by addr_parse with E: what is to be written
 * instead. */
void config_addr_complain(const struct config *file, const struct config_node *at, const char *what,
                          const char *text, enum err e, struct diag *d);
/* Where item I of the list AT stands; AT itself when it is one value only; NULL of NULL. */
const struct config_node *config_item(const struct config_node *at, size_t i);
/*
 * A program cannot listen at A, which is item I of the list or value AT, where it already does at
 * one of the N OTHERS, which setting OTHER names.
 */
void config_addr_check_free(const struct config *file, const struct config_node *at, size_t i,
                            const char *what, const struct addr *a, const char *other,
                            const struct addr *others, size_t n, struct diag *d);
/* Converts decimal digits as written (660) to an octal mode. Returns false if one is not octal. */
bool config_octal(int64_t written, unsigned *mode);

#endif
