/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/prune.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/hex.h"
#include "uploads/sets.h"

#define BUILD_IDS "build-ids/"

enum { YOUNG = 24 * 3600 }; /* seconds; far longer than an upload takes */

struct executable {
	struct file_id id;
	int64_t newest; /* time of its newest part */
	bool gone;
};

/* A path that leads from a build id to an executable: BUILD_IDS, two segments, the FileID, and the rest. */
struct claim {
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
	struct claim *claims;
	size_t claim_count;
	uint32_t claim_cap;
	struct store_part *parts; /* the parts of one executable that are removed */
	size_t part_count;
	uint32_t part_cap;
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
	p->claims[p->claim_count++] = (struct claim){*id, copy, size, time};
	return true;
}

/* Parts of an executable come one after the other. */
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

static enum err take_away(struct prune *p, const char *path, uint64_t size, int64_t time, struct error *e)
{
	enum err err = p->rules->remove ? store_remove(p->client, path, e) : ERR_OK;
	if (err)
		return err;
	p->counts->gone_objects++;
	p->counts->gone_bytes += size;
	p->rules->told(p->rules->arg, path, size, time);
	return ERR_OK;
}

static bool collect_part(void *arg, const struct store_part *part)
{
	struct prune *p = arg;
	p->no_memory = !array_reserve(&p->parts, &p->part_cap, p->part_count + 1, sizeof *p->parts);
	if (p->no_memory)
		return false;
	p->parts[p->part_count++] = *part;
	return true;
}

static bool any_since(const struct prune *p, int64_t time)
{
	for (size_t i = 0; i < p->part_count; i++)
		if (!p->parts[i].is_time && p->parts[i].time > time)
			return true;
	return false;
}

/* Lists the parts again right before removing them, so that what was stored meanwhile stays. */
static enum err find_parts(struct prune *p, const struct executable *x, bool whole, struct error *e)
{
	p->part_count = 0;
	struct symbfile_unused unused = {p->rules->keep, p->rules->now - YOUNG * SECOND, collect_part, p};
	enum err err = whole ? store_list_with_times(p->client, &x->id, collect_part, p, NULL, e)
	                     : symbfile_sets_unused(p->client, &x->id, &unused, e);
	if (!err && p->no_memory)
		return no_memory(e);
	if (!err && whole && any_since(p, p->rules->now - p->rules->older_than))
		p->part_count = 0;
	return err;
}

static enum err prune_executable(struct prune *p, struct executable *x, struct error *e)
{
	bool whole = p->rules->older_than && x->newest < p->rules->now - p->rules->older_than;
	char path[STORE_PATH_SIZE];
	if (x->newest > p->rules->now - YOUNG * SECOND || (!whole && !p->rules->keep))
		return ERR_OK;
	enum err err = find_parts(p, x, whole, e);
	for (size_t i = 0; i < p->part_count && !err; i++) {
		const struct store_part *part = &p->parts[i];
		store_part_path(path, &x->id, part);
		err = take_away(p, path, part->size, part->time, e);
	}
	x->gone = !err && whole && p->part_count > 0;
	p->counts->gone_executables += x->gone;
	return err;
}

static bool stop_at_first(void *arg, const struct store_part *part)
{
	(void)part;
	*(bool *)arg = true;
	return false;
}

/* Prunes the claim of an executable that had no part, unless a part has arrived meanwhile. */
static enum err prune_claim(struct prune *p, const struct claim *claim, struct error *e)
{
	struct executable wanted = {.id = claim->id};
	const struct executable *x =
	        p->executable_count ? bsearch(&wanted, p->executables, p->executable_count, sizeof wanted, by_id)
	                            : NULL;
	bool any = false;
	if ((x && !x->gone) || claim->time > p->rules->now - YOUNG * SECOND)
		return ERR_OK;
	enum err err = p->rules->remove ? store_list(p->client, &claim->id, stop_at_first, &any, NULL, e) : ERR_OK;
	return err || any ? err : take_away(p, claim->path, claim->size, claim->time, e);
}

enum err symbfile_prune(
        struct store_client *c, const struct prune_rules *rules, struct prune_counts *counts, struct error *e)
{
	struct prune p = {.client = c, .rules = rules, .counts = counts};
	memset(counts, 0, sizeof *counts);
	enum err err = store_walk(c, on_object, &p, e);
	if (!err && p.no_memory)
		err = no_memory(e);
	if (p.executable_count)
		qsort(p.executables, p.executable_count, sizeof *p.executables, by_id);
	counts->executables = p.executable_count;
	for (size_t i = 0; i < p.executable_count && !err; i++)
		err = prune_executable(&p, &p.executables[i], e);
	for (size_t i = 0; i < p.claim_count && !err; i++)
		err = prune_claim(&p, &p.claims[i], e);
	for (size_t i = 0; i < p.claim_count; i++)
		free(p.claims[i].path);
	free(p.claims);
	free(p.executables);
	free(p.parts);
	return err;
}
