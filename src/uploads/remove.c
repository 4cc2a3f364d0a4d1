/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/remove.h"

static enum err remove_one(struct removal *r, struct store_client *c, const struct file_id *id,
        const struct store_object *o, struct error *e)
{
	char path[STORE_PATH_MAX];
	layout_below(path, id, o->path);
	enum err err = r->dry ? ERR_OK : store_remove(c, path, e);
	if (err)
		return err;
	r->objects++;
	r->bytes += o->size;
	if (r->told)
		r->told(r->arg, path, o->size, o->time);
	return ERR_OK;
}

/* Other objects are nobody's, and stay. */
static bool goes(const struct removal *r, struct str path, bool manifests)
{
	struct set_object o;
	return set_object_parse(&o, path) && o.manifest == manifests && !(r->keeps && r->keeps(r->arg, path));
}

enum err symbfile_remove(struct removal *r, struct store_client *c, const struct file_id *id, struct error *e)
{
	struct store_objects all = {.count = 0};
	char folder[STORE_PATH_MAX];
	layout_executable(folder, id);
	enum err err = store_objects_list(&all, c, folder, e);
	for (size_t i = 0; i < all.count; i++)
		r->young = r->young || (r->none_since && all.items[i].time > r->none_since);
	for (unsigned pass = 0; pass < 2 && !r->young; pass++)
		for (size_t i = 0; i < all.count && !err; i++)
			if (goes(r, str_from(all.items[i].path), pass == 0))
				err = remove_one(r, c, id, &all.items[i], e);
	store_objects_release(&all);
	return err;
}

/* ---- one set ---- */

/* name: of the set. */
static bool is_other(void *name, struct str path)
{
	struct set_object o;
	return !set_object_parse(&o, path) || !str_equal(o.set, *(const struct str *)name);
}

enum err symbfile_remove_set(
        struct removal *r, struct store_client *c, const struct file_id *id, struct str set, struct error *e)
{
	r->keeps = is_other;
	r->arg = &set;
	enum err err = symbfile_remove(r, c, id, e);
	r->arg = NULL;
	return err;
}
