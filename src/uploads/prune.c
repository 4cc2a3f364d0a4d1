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
#include "uploads/old.h"
#include "uploads/remove.h"

#define BUILD_IDS CLAIMS_FOLDER "/"
#define TEMPORARY (&STORE_TEMPORARY[sizeof STORE_FOLDER])

enum { YOUNG = 24 * 3600 }; /* seconds; far longer than an upload takes */

struct executable {
	struct file_id id;
	int64_t newest; /* time of its newest object */
	bool gone;
};

/* A path that leads from a build id to an executable: BUILD_IDS, two segments, the FileID, and the rest. */
struct lead {
	struct file_id id;
	char *path;
	uint64_t size;
	int64_t time;
};

struct prune {
	struct store_client *client;
	const struct prune_rules *rules;
	struct prune_counts *counts;
	struct executable *executables;
	size_t executable_count;
	uint32_t executable_cap;
	struct lead *claims;
	size_t claim_count;
	uint32_t claim_cap;
	bool no_memory;
};

/* ---- what is there ---- */

static bool add_claim(struct prune *p, struct str path, const struct file_id *id, uint64_t size, int64_t time)
{
	char *copy = strndup(path.data, path.len);
	p->no_memory = !copy || !array_reserve(&p->claims, &p->claim_cap, p->claim_count + 1, sizeof *p->claims);
	if (p->no_memory) {
		free(copy);
		return false;
	}
	p->claims[p->claim_count++] = (struct lead){*id, copy, size, time};
	return true;
}

/* Objects of an executable come one after the other. */
static bool add_part(struct prune *p, const struct file_id *id, int64_t time)
{
	struct executable *last = p->executable_count ? &p->executables[p->executable_count - 1] : NULL;
	if (last && memcmp(&last->id, id, sizeof *id) == 0) {
		last->newest = time > last->newest ? time : last->newest;
		return true;
	}
	p->no_memory =
	        !array_reserve(&p->executables, &p->executable_cap, p->executable_count + 1, sizeof *p->executables);
	if (p->no_memory)
		return false;
	p->executables[p->executable_count++] = (struct executable){*id, time, false};
	return true;
}

static struct str after_slash(struct str path)
{
	const char *slash = path.len ? memchr(path.data, '/', path.len) : NULL;
	size_t skip = slash ? (size_t)(slash - path.data) + 1 : path.len;
	return (struct str){path.data + skip, path.len - skip};
}

static bool read_id(struct file_id *id, struct str path)
{
	const size_t digits = 2 * sizeof id->bytes;
	return path.len > digits && path.data[digits] == '/' &&
	       hex_read(id->bytes, sizeof id->bytes, (struct str){path.data, digits});
}

/* Objects that are neither are not ours, and stay. */
static bool on_object(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct prune *p = arg;
	struct file_id id;
	bool good = true;
	if (path.len > strlen(BUILD_IDS) && memcmp(path.data, BUILD_IDS, strlen(BUILD_IDS)) == 0) {
		if (!read_id(&id, after_slash(after_slash(after_slash(path)))))
			return true;
		good = add_claim(p, path, &id, size, time);
	} else if (read_id(&id, path)) {
		good = add_part(p, &id, time);
	} else {
		return true;
	}
	p->counts->objects++;
	p->counts->bytes += size;
	return good;
}

static int by_id(const void *a, const void *b)
{
	const struct executable *x = a, *y = b;
	return memcmp(&x->id, &y->id, sizeof x->id);
}

/* ---- what goes ---- */

static void tell(void *arg, const char *path, uint64_t size, int64_t time)
{
	struct prune *p = arg;
	p->counts->gone_objects++;
	p->counts->gone_bytes += size;
	p->rules->told(p->rules->arg, path, size, time);
}

static enum err take_away(struct prune *p, const char *path, uint64_t size, int64_t time, struct error *e)
{
	char full[STORE_PATH_MAX];
	snprintf(full, sizeof full, STORE_FOLDER "/%s", path);
	enum err err = p->rules->remove ? store_remove(p->client, full, e) : ERR_OK;
	if (!err)
		tell(p, path, size, time);
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
	struct old_part part;
	struct str kind, set, rest = path;
	snprintf(text, sizeof text, "%.*s", STR_FMT(path));
	if (k->count && bsearch(&wanted, k->paths, k->count, sizeof *k->paths, by_text))
		return true;
	bool old = old_part_parse(&part, path);
	layout_segment(&rest, &kind);
	layout_segment(&rest, &set);
	for (size_t i = 0; i < k->set_count; i++) {
		const struct symbfile_set *s = k->sets[i];
		bool same = str_equal(kind, str_from(symbfile_kind_names[s->kind])) && s->old == old;
		if (same && (old || (manifest_is_name(rest) && str_equal(set, str_from(s->name)))))
			return true;
	}
	return false;
}

static void tell_kept(void *arg, const char *path, uint64_t size, int64_t time)
{
	tell(((struct kept *)arg)->prune, path, size, time);
}

static enum err keep_best(struct prune *p, const struct executable *x, struct removal *r, struct error *e)
{
	struct symbfile_sets sets;
	struct kept k = {.prune = p};
	enum err err = symbfile_sets_get(&sets, p->client, &x->id, NULL, e);
	if (err)
		return err;
	/* what version 1.0 stored takes its place among the others */
	for (size_t i = 0; i < sets.count && !err && sets.count > 1; i++)
		if (sets.items[i].old)
			err = symbfile_set_count(&sets.items[i], p->client, &x->id, NULL, e);
	if (!err && !choose_kept(&k, &sets, p->rules->keep))
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
static enum err prune_executable(struct prune *p, struct executable *x, struct error *e)
{
	int64_t now = p->rules->now, older_than = p->rules->older_than;
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

static bool stop_at_first(void *arg, struct str path, uint64_t size, int64_t time)
{
	(void)path;
	(void)size;
	(void)time;
	*(bool *)arg = true;
	return false;
}

/* Prunes the claim of an executable of which there was nothing, unless something has arrived meanwhile. */
static enum err prune_claim(struct prune *p, const struct lead *claim, struct error *e)
{
	struct executable wanted = {.id = claim->id};
	const struct executable *x =
	        p->executable_count ? bsearch(&wanted, p->executables, p->executable_count, sizeof wanted, by_id)
	                            : NULL;
	char folder[STORE_PATH_MAX];
	bool any = false;
	if ((x && !x->gone) || claim->time > p->rules->now - YOUNG * SECOND)
		return ERR_OK;
	layout_executable(folder, &claim->id);
	enum err err = p->rules->remove ? store_list(p->client, folder, stop_at_first, &any, NULL, e) : ERR_OK;
	return err || any ? err : take_away(p, claim->path, claim->size, claim->time, e);
}

/* What a process that died was storing. */
static bool on_leftover(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct prune *p = arg;
	char full[STORE_PATH_MAX];
	if (time > p->rules->now - YOUNG * SECOND)
		return true;
	snprintf(full, sizeof full, "%s/%.*s", TEMPORARY, STR_FMT(path));
	return add_claim(p, str_from(full), &(struct file_id){{0}}, size, time);
}

static enum err prune_leftovers(struct prune *p, struct error *e)
{
	size_t before = p->claim_count;
	enum err err = store_list(p->client, STORE_TEMPORARY, on_leftover, p, NULL, e);
	for (size_t i = before; i < p->claim_count && !err; i++)
		err = take_away(p, p->claims[i].path, p->claims[i].size, p->claims[i].time, e);
	return err;
}

enum err symbfile_prune(
        struct store_client *c, const struct prune_rules *rules, struct prune_counts *counts, struct error *e)
{
	struct prune p = {.client = c, .rules = rules, .counts = counts};
	memset(counts, 0, sizeof *counts);
	enum err err = store_list(c, STORE_FOLDER, on_object, &p, NULL, e);
	if (!err && p.no_memory)
		err = no_memory(e);
	if (p.executable_count)
		qsort(p.executables, p.executable_count, sizeof *p.executables, by_id);
	counts->executables = p.executable_count;
	for (size_t i = 0; i < p.executable_count && !err; i++)
		err = prune_executable(&p, &p.executables[i], e);
	for (size_t i = 0; i < p.claim_count && !err; i++)
		err = prune_claim(&p, &p.claims[i], e);
	if (!err)
		err = prune_leftovers(&p, e);
	for (size_t i = 0; i < p.claim_count; i++)
		free(p.claims[i].path);
	free(p.claims);
	free(p.executables);
	return err;
}

/* ---- tries ---- */

static bool on_try(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct prune *p = arg;
	p->counts->objects++;
	p->counts->bytes += size;
	return time >= p->rules->now - p->rules->older_than || add_claim(p, path, &(struct file_id){{0}}, size, time);
}

/* The folder of a file has no other. */
struct later {
	int64_t since;
	bool found;
};

static bool look_for_later(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct later *l = arg;
	(void)path;
	(void)size;
	l->found |= time >= l->since;
	return true;
}

/* Unless it has been uploaded again meanwhile. */
static enum err prune_try(struct prune *p, const struct lead *file, struct error *e)
{
	char full[STORE_PATH_MAX], folder[STORE_PATH_MAX];
	struct later later = {.since = p->rules->now - p->rules->older_than};
	int n = snprintf(full, sizeof full, BUCKET_TRY "/%s", file->path);
	if (n >= (int)sizeof full)
		return ERR_OK; /* nothing that an upload can have written */
	snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(full, '/') - full), full);
	enum err err = p->rules->remove ? store_list(p->client, folder, look_for_later, &later, NULL, e) : ERR_OK;
	if (!err && p->rules->remove && !later.found)
		err = store_remove(p->client, full, e);
	if (!err && !later.found)
		tell(p, full, file->size, file->time);
	return err;
}

enum err symfile_prune_tries(
        struct store_client *c, const struct prune_rules *rules, struct prune_counts *counts, struct error *e)
{
	struct prune p = {.client = c, .rules = rules, .counts = counts};
	memset(counts, 0, sizeof *counts);
	enum err err = store_list(c, BUCKET_TRY, on_try, &p, NULL, e);
	if (!err && p.no_memory)
		err = no_memory(e);
	for (size_t i = 0; i < p.claim_count && !err; i++)
		err = prune_try(&p, &p.claims[i], e);
	for (size_t i = 0; i < p.claim_count; i++)
		free(p.claims[i].path);
	free(p.claims);
	return err;
}
