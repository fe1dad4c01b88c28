/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/pool/registration.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/text.h"

static json_t *properties_of(const struct registration_facts *f)
{
    json_t *p = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "application", f->application,
                          "version", f->version, "description", f->description, "agent", f->agent,
                          "state", f->state, "incarnation", f->incarnation);

    ASSERT(p != NULL);
    if (f->admin != NULL)
        json_object_set_new(p, "admin", json_string(f->admin));
    if (f->fingerprint != NULL)
        json_object_set_new(p, "classifier_fingerprint", json_string(f->fingerprint));
    if (f->pid != 0)
        json_object_set_new(p, "pid", json_integer(f->pid));
    return p;
}

void registration_name(const char *advertise, const struct addr *a, char out[ADDR_TEXT_MAX])
{
    if (advertise == NULL || a->sa.sa_family == AF_UNIX)
        addr_format(a, out);
    else
        snprintf(out, ADDR_TEXT_MAX, "%s:%u", advertise, addr_port(a));
}

void registration_set(struct registration *r, struct tree *tree, const char *path, const char *name,
                      const struct registration_facts *f)
{
    if (tree == NULL)
        return;
    json_t *properties = properties_of(f);
    if (r->entry == NULL) {
        r->entry = tree_register(tree, path, name, properties);
    } else if (json_equal(properties, r->properties)) {
        json_decref(properties);
        return;
    } else {
        tree_registration_set(r->entry, properties);
    }
    json_decref(r->properties);
    r->properties = properties;
}

void registration_end(struct registration *r)
{
    if (r->entry != NULL)
        tree_unregister(r->entry);
    json_decref(r->properties);
    *r = (struct registration){0};
}
