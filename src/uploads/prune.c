/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/prune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/hex.h"
#include "objects/bucket.h"
#include "uploads/remove.h"

enum { YOUNG = 24 * 3600 }; /* seconds; far longer than an upload takes */

struct stored_executable {
	struct file_id id;
	int64_t newest; /* time of its newest object */
	bool gone;
};

struct prune {
	struct store_client *client;
	const struct prune_rules *rules;
	struct prune_counts *counts;
	int64_t now; /* by the store's clock */
	struct stored_executable *executables;
	size_t executable_count;
	uint32_t executable_cap;
	struct store_objects claims;
	bool no_memory;
};

/* ---- what is there ---- */

/* Objects of an executable come one after the other. */
static bool add_part(struct prune *p, const struct file_id *id, int64_t time)
{
	struct stored_executable *last = p->executable_count ? &p->executables[p->executable_count - 1] : NULL;
	if (last && memcmp(&last->id, id, sizeof *id) == 0) {
		last->newest = time > last->newest ? time : last->newest;
		return true;
	}
	p->no_memory =
	        !array_reserve(&p->executables, &p->executable_cap, p->executable_count + 1, sizeof *p->executables);
	if (p->no_memory)
		return false;
	p->executables[p->executable_count++] = (struct stored_executable){*id, time, false};
	return true;
}

/* CLAIMS_FOLDER, the key of a build id, and the claim. */
static bool parse_claim(struct claim *claim, struct str path)
{
	struct str folder, key;
	return layout_segment(&path, &folder) && str_equal(folder, str_from(CLAIMS_FOLDER)) &&
	       layout_segment(&path, &key) && layout_parse_claim(claim, path);
}

/* Objects that are neither are not ours, and stay. */
static bool on_object(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct prune *p = arg;
	struct claim claim;
	struct file_id id;
	struct str rest = path, first;
	bool good;
	if (parse_claim(&claim, path))
		good = store_objects_add(&p->claims, path, size, time);
	else if (layout_segment(&rest, &first) && rest.len && hex_read(id.bytes, sizeof id.bytes, first))
		good = add_part(p, &id, time);
	else
		return true;
	p->counts->objects++;
	p->counts->bytes += size;
	return good;
}

static int by_id(const void *a, const void *b)
{
	const struct stored_executable *x = a, *y = b;
	return memcmp(&x->id, &y->id, sizeof x->id);
}

/* ---- what goes ---- */

/* path: below the store's URL. */
static void tell(void *arg, const char *path, uint64_t size, int64_t time)
{
	struct prune *p = arg;
	size_t above = strlen(STORE_FOLDER "/");
	p->counts->gone_objects++;
	p->counts->gone_bytes += size;
	p->rules->told(p->rules->arg, strncmp(path, STORE_FOLDER "/", above) == 0 ? path + above : path, size, time);
}

/* Whether a listing has anything that was stored since. */
struct later {
	int64_t since;
	bool found;
};

static bool look_for_later(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct later *l = arg;
	(void)path;
	(void)size;
	l->found = time >= l->since;
	return !l->found;
}

/* Takes an object away, unless something that was stored since is in this folder by now (NULL: in any case). */
static enum err take_away(struct prune *p, const char *folder, int64_t since, const char *path,
        const struct store_object *o, struct error *e)
{
	struct later later = {.since = since};
	enum err err = ERR_OK;
	if (p->rules->remove && folder)
		err = store_list(p->client, folder, look_for_later, &later, NULL, e);
	if (err || later.found)
		return err;
	if (p->rules->remove)
		err = store_remove(p->client, path, e);
	if (!err)
		tell(p, path, o->size, o->time);
	return err;
}

/* What stays of an executable. */
struct kept {
	struct prune *prune;
	const char **paths; /* of parts, sorted */
	size_t count;
	const struct symbfile_set **sets;
	size_t set_count;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int better_first(const void *a, const void *b)
{
	const struct symbfile_set *x = *(const struct symbfile_set *const *)a,
	                          *y = *(const struct symbfile_set *const *)b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->answers != y->answers)
		return y->answers - x->answers;
	return symbfile_set_is_better(x, y) ? -1 : symbfile_set_is_better(y, x);
}

/* The best sets of each kind, and the one that answers. False if out of memory. */
static bool choose_kept(struct kept *k, const struct symbfile_sets *sets, unsigned keep)
{
	size_t parts = 0, all = 0, in_kind = 0;
	enum symbfile_kind kind = SYMBFILE_RANGES;
	k->sets = malloc((sets->count + 1) * sizeof *k->sets);
	for (size_t i = 0; k->sets && i < sets->count; i++) {
		parts += sets->items[i].have_count;
		if (sets->items[i].complete || sets->items[i].answers)
			k->sets[all++] = &sets->items[i];
	}
	k->paths = malloc((parts + 1) * sizeof *k->paths);
	if (!k->sets || !k->paths)
		return false;
	qsort(k->sets, all, sizeof(struct symbfile_set *), better_first);
	for (size_t i = 0; i < all; i++) {
		const struct symbfile_set *s = k->sets[i];
		in_kind = i > 0 && s->kind == kind ? in_kind + 1 : 0;
		kind = s->kind;
		if (in_kind >= keep)
			continue;
		k->sets[k->set_count++] = s;
		for (unsigned n = 0; n < s->have_count; n++)
			k->paths[k->count++] = s->have[n].path;
	}
	qsort(k->paths, k->count, sizeof *k->paths, by_text);
	return true;
}

static bool is_kept(void *arg, struct str path)
{
	const struct kept *k = arg;
	char text[STORE_PATH_MAX];
	const char *wanted = text;
	struct set_object o;
	snprintf(text, sizeof text, "%.*s", STR_FMT(path));
	if (k->count && bsearch(&wanted, k->paths, k->count, sizeof *k->paths, by_text))
		return true;
	bool ours = set_object_parse(&o, path);
	for (size_t i = 0; ours && i < k->set_count; i++) {
		const struct symbfile_set *s = k->sets[i];
		if (s->kind == o.kind && o.manifest && str_equal(o.set, str_from(s->name)))
			return true;
	}
	return false;
}

static void tell_kept(void *arg, const char *path, uint64_t size, int64_t time)
{
	tell(((struct kept *)arg)->prune, path, size, time);
}

static enum err keep_best(struct prune *p, const struct stored_executable *x, struct removal *r, struct error *e)
{
	struct symbfile_sets sets;
	struct kept k = {.prune = p};
	enum err err = symbfile_sets_get(&sets, p->client, &x->id, NULL, e);
	if (err)
		return err;
	if (!choose_kept(&k, &sets, p->rules->keep))
		err = no_memory(e);
	r->keeps = is_kept;
	r->told = tell_kept;
	r->arg = &k;
	if (!err)
		err = symbfile_remove(r, p->client, &x->id, e);
	free(k.sets);
	free(k.paths);
	symbfile_sets_release(&sets);
	return err;
}

/* Lists the objects again right before removing them, so that what was stored meanwhile stays. */
static enum err prune_executable(struct prune *p, struct stored_executable *x, struct error *e)
{
	int64_t now = p->now, older_than = p->rules->older_than;
	bool whole = older_than && x->newest < now - older_than;
	if (x->newest > now - YOUNG * SECOND || (!whole && !p->rules->keep))
		return ERR_OK;
	struct removal r = {.told = tell, .arg = p, .dry = !p->rules->remove};
	r.none_since = now - (whole ? older_than : YOUNG * SECOND);
	enum err err = whole ? symbfile_remove(&r, p->client, &x->id, e) : keep_best(p, x, &r, e);
	x->gone = !err && whole && r.objects > 0;
	p->counts->gone_executables += x->gone;
	return err;
}

/* Prunes the claim of an executable of which there was nothing, unless something has arrived meanwhile. */
static enum err prune_claim(struct prune *p, const struct store_object *object, struct error *e)
{
	struct claim claim;
	parse_claim(&claim, str_from(object->path));
	struct stored_executable wanted = {.id = claim.id};
	const struct stored_executable *x =
	        p->executable_count ? bsearch(&wanted, p->executables, p->executable_count, sizeof wanted, by_id)
	                            : NULL;
	char folder[STORE_PATH_MAX], path[STORE_PATH_MAX];
	if ((x && !x->gone) || object->time > p->now - YOUNG * SECOND)
		return ERR_OK;
	layout_executable(folder, &claim.id);
	snprintf(path, sizeof path, STORE_FOLDER "/%s", object->path);
	return take_away(p, folder, INT64_MIN, path, object, e);
}

/* What a process that died was storing. */
static enum err prune_leftovers(struct prune *p, struct error *e)
{
	struct store_objects all = {.count = 0};
	char path[STORE_PATH_MAX];
	enum err err = store_objects_list(&all, p->client, STORE_TEMPORARY, e);
	for (size_t i = 0; i < all.count && !err; i++) {
		snprintf(path, sizeof path, STORE_TEMPORARY "/%s", all.items[i].path);
		if (all.items[i].time <= p->now - YOUNG * SECOND)
			err = take_away(p, NULL, 0, path, &all.items[i], e);
	}
	store_objects_release(&all);
	return err;
}

enum err symbfile_prune(
        struct store_client *c, const struct prune_rules *rules, struct prune_counts *counts, struct error *e)
{
	struct prune p = {.client = c, .rules = rules, .counts = counts};
	memset(counts, 0, sizeof *counts);
	enum err err = store_list(c, STORE_FOLDER, on_object, &p, NULL, e);
	if (!err && (p.no_memory || p.claims.no_memory))
		err = no_memory(e);
	if (p.executable_count)
		qsort(p.executables, p.executable_count, sizeof *p.executables, by_id);
	counts->executables = p.executable_count;
	p.now = store_now(c);
	for (size_t i = 0; i < p.executable_count && !err; i++)
		err = prune_executable(&p, &p.executables[i], e);
	for (size_t i = 0; i < p.claims.count && !err; i++)
		err = prune_claim(&p, &p.claims.items[i], e);
	if (!err)
		err = prune_leftovers(&p, e);
	store_objects_release(&p.claims);
	free(p.executables);
	return err;
}

/* ---- tries ---- */

/* NAME/ID/FILE.sym. What was uploaded, not as a try, for a module that is called "try" lies there too, as ID/try.sym.
 */
static bool is_try(struct str path)
{
	struct str segment;
	unsigned n = 0;
	while (layout_segment(&path, &segment))
		n++;
	return n == 3 && !path.len;
}

/* A try that has been uploaded again meanwhile stays: the folder of a file has no other. */
enum err symfile_prune_tries(
        struct store_client *c, const struct prune_rules *rules, struct prune_counts *counts, struct error *e)
{
	struct prune p = {.client = c, .rules = rules, .counts = counts};
	struct store_objects all = {.count = 0};
	memset(counts, 0, sizeof *counts);
	enum err err = store_objects_list(&all, c, BUCKET_TRY, e);
	int64_t since = store_now(c) - rules->older_than;
	for (size_t i = 0; i < all.count; i++) {
		const struct store_object *o = &all.items[i];
		char path[STORE_PATH_MAX], folder[STORE_PATH_MAX];
		if (!is_try(str_from(o->path)))
			continue;
		counts->objects++;
		counts->bytes += o->size;
		/* no upload can have written a longer path */
		if (err || o->time >= since || snprintf(path, sizeof path, BUCKET_TRY "/%s", o->path) >= STORE_PATH_MAX)
			continue;
		snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
		err = take_away(&p, folder, since, path, o, e);
	}
	store_objects_release(&all);
	return err;
}
