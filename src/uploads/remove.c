/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/remove.h"

#include <stdlib.h>

#include "base/array.h"
#include "uploads/old.h"

struct object {
	char *path;
	uint64_t size;
	int64_t time;
	bool manifest;
};

struct listing {
	struct removal *removal;
	struct object *objects;
	size_t count;
	uint32_t cap;
	bool no_memory;
};

/* The name of an object of one set, or nothing. */
static struct str name_in_set(struct str path)
{
	struct str kind, set, name;
	bool good = layout_segment(&path, &kind) && layout_segment(&path, &set) && layout_segment(&path, &name) &&
	            !path.len;
	return good ? name : (struct str){"", 0};
}

/* Other objects are nobody's, and stay. */
static bool is_ours(struct str path)
{
	struct old_part old;
	struct part_name part;
	struct str name = name_in_set(path);
	return old_part_parse(&old, path) || manifest_is_name(name) || part_name_parse(&part, name);
}

static bool on_object(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct listing *l = arg;
	struct removal *r = l->removal;
	r->young = r->young || (r->none_since && time > r->none_since);
	if (path.len >= STORE_PATH_MAX || !is_ours(path) || (r->keeps && r->keeps(r->arg, path)))
		return true;
	char *copy = strndup(path.data, path.len);
	l->no_memory = !copy || !array_reserve(&l->objects, &l->cap, l->count + 1, sizeof *l->objects);
	if (l->no_memory)
		free(copy);
	else
		l->objects[l->count++] = (struct object){copy, size, time, manifest_is_name(name_in_set(path))};
	return !l->no_memory;
}

static enum err remove_one(
        struct removal *r, struct store_client *c, const struct file_id *id, const struct object *o, struct error *e)
{
	char path[STORE_PATH_MAX];
	layout_below(path, id, o->path);
	enum err err = r->dry ? ERR_OK : store_remove(c, path, e);
	if (err)
		return err;
	r->objects++;
	r->bytes += o->size;
	if (r->told)
		r->told(r->arg, path + strlen(STORE_FOLDER "/"), o->size, o->time);
	return ERR_OK;
}

enum err symbfile_remove(struct removal *r, struct store_client *c, const struct file_id *id, struct error *e)
{
	struct listing l = {.removal = r};
	char folder[STORE_PATH_MAX];
	layout_executable(folder, id);
	enum err err = store_list(c, folder, on_object, &l, NULL, e);
	if (!err && l.no_memory)
		err = no_memory(e);
	for (unsigned pass = 0; pass < 2 && !r->young; pass++)
		for (size_t i = 0; i < l.count && !err; i++)
			if (l.objects[i].manifest == (pass == 0))
				err = remove_one(r, c, id, &l.objects[i], e);
	for (size_t i = 0; i < l.count; i++)
		free(l.objects[i].path);
	free(l.objects);
	return err;
}

/* ---- one set ---- */

struct one_set {
	struct removal *outer;
	struct str name;
	bool old[SYMBFILE_KINDS]; /* that of version 1.0 is called so */
};

static bool is_other(void *arg, struct str path)
{
	const struct one_set *s = arg;
	struct old_part part;
	struct str kind, set, rest = path;
	if (old_part_parse(&part, path))
		return !s->old[part.kind];
	return !(layout_segment(&rest, &kind) && layout_segment(&rest, &set) && str_equal(set, s->name));
}

static void tell(void *arg, const char *path, uint64_t size, int64_t time)
{
	const struct one_set *s = arg;
	if (s->outer->told)
		s->outer->told(s->outer->arg, path, size, time);
}

enum err symbfile_remove_set(
        struct removal *r, struct store_client *c, const struct file_id *id, struct str set, struct error *e)
{
	struct one_set one = {.outer = r, .name = set};
	struct symbfile_sets sets;
	enum err err = symbfile_sets_get(&sets, c, id, NULL, e);
	if (err)
		return err;
	for (size_t i = 0; i < sets.count; i++)
		if (sets.items[i].old && str_equal(str_from(sets.items[i].name), set))
			one.old[sets.items[i].kind] = true;
	symbfile_sets_release(&sets);
	struct removal inner = {
	        .keeps = is_other, .told = tell, .arg = &one, .dry = r->dry, .none_since = r->none_since};
	err = symbfile_remove(&inner, c, id, e);
	r->objects += inner.objects;
	r->bytes += inner.bytes;
	r->young = inner.young;
	return err;
}
