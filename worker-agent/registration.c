/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-agent/registration.h"

static json_t *properties_of(const struct registration_facts *f)
{
    json_t *p = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "application", f->application,
                          "version", f->version, "description", f->description, "agent", f->agent,
                          "state", f->state, "incarnation", f->incarnation);

    ASSERT(p != NULL);
    if (f->pid != 0)
        json_object_set_new(p, "pid", json_integer(f->pid));
    return p;
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
