/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets without a name. One of a single part is called after its content. The parts of a larger one are gathered in a
 * pass of the client that sends them, known by its key and address. When all have come, the pass is complete, and the
 * next part begins another; so does a part that comes long after the others, which were given up. Of each number the
 * latest part counts: a client that begins again sends them in order.
 */
#include <config.h>

#include "uploads/arrive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"

/* ---- which set ---- */

/* "~CLIENT-" of a client's passes */
enum {
	CLIENT_DIGITS = 16,
	PASS_PREFIX = CLIENT_DIGITS + 2,
	GIVEN_UP = 3600, /* seconds */
};

static bool pass_prefix(char out[PASS_PREFIX + 1], const struct arrival *a)
{
	char text[256], hash[SHA256_HEX + 1];
	int len = snprintf(text, sizeof text, "%s %u %.64s", a->about.uploader, a->part.parts, a->address);
	if (!sha256_hex(hash, text, (size_t)len))
		return false;
	snprintf(out, PASS_PREFIX + 1, "%c%.*s-", SET_OURS, CLIENT_DIGITS, hash);
	return true;
}

/* What is there of the latest pass. */
struct passes {
	char prefix[PASS_PREFIX + 1];
	uint64_t latest; /* 0: there is none */
	bool complete;
	int64_t newest; /* when its newest part was stored */
};

static bool on_pass(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct passes *p = arg;
	struct part_name part;
	struct str set;
	uint64_t number;
	(void)size;
	if (!layout_segment(&path, &set) || set.len <= PASS_PREFIX || memcmp(set.data, p->prefix, PASS_PREFIX) != 0 ||
	        !str_number((struct str){set.data + PASS_PREFIX, set.len - PASS_PREFIX}, INT32_MAX, &number) ||
	        number < p->latest)
		return true;
	if (number > p->latest) {
		p->complete = false;
		p->newest = 0;
	}
	p->latest = number;
	p->complete = p->complete || !part_name_parse(&part, path);
	p->newest = time > p->newest ? time : p->newest;
	return true;
}

static enum err find_pass(struct arrival *a, struct store_client *c, struct error *e)
{
	char folder[STORE_PATH_MAX];
	struct passes p = {.latest = 0};
	if (!pass_prefix(p.prefix, a))
		return no_memory(e);
	layout_below(folder, &a->id, symbfile_kind_names[a->about.kind]);
	enum err err = store_list(c, folder, on_pass, &p, NULL, e);
	bool over = !p.latest || p.complete || p.newest < store_now(c) - GIVEN_UP * SECOND;
	uint64_t number = p.latest + over;
	snprintf(a->name, sizeof a->name, "%s%" PRIu64, p.prefix, number);
	return err;
}

static enum err name_set(struct arrival *a, struct store_client *c, struct error *e)
{
	if (a->set)
		snprintf(a->name, sizeof a->name, "%s", a->set);
	else if (a->part.parts == 1)
		snprintf(a->name, sizeof a->name, "%c%s", SET_OURS, a->part.hash);
	else
		return find_pass(a, c, e);
	return ERR_OK;
}

/* ---- whether it is complete ---- */

struct gathered {
	struct part_name name; /* without a hash: it is not there */
	uint64_t size;
	int64_t time;
};

struct gathering {
	struct gathered *parts; /* by number */
	unsigned count, there;
};

static bool on_part(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct gathering *g = arg;
	struct part_name part;
	if (!part_name_parse(&part, path) || part.parts != g->count)
		return true;
	struct gathered *have = &g->parts[part.part];
	bool first = !*have->name.hash;
	g->there += first;
	if (first || time > have->time || (time == have->time && strcmp(part.hash, have->name.hash) > 0))
		*have = (struct gathered){part, size, time};
	return true;
}

/* The build id first, so that whatever is visible is found by it. */
static enum err make_visible(struct arrival *a, struct store_client *c, const struct gathering *g, struct error *e)
{
	char path[STORE_PATH_MAX];
	struct claim claim = {.build_id = a->about.build_id, .id = a->id, .image_base = a->about.image_base};
	enum err err = ERR_OK;
	if (claim.build_id.len) {
		layout_claim(path, &claim);
		err = store_put_object(c, path, (struct str){"", 0}, e);
	}
	if (err)
		return err;
	json_t *names = json_array();
	char name[PART_NAME_SIZE];
	bool ok = names;
	a->about.set = a->name;
	a->about.time = store_now(c);
	a->about.counts = (struct symbfile_counts){0};
	a->about.size = 0;
	for (unsigned i = 0; i < g->count && ok; i++) {
		symbfile_counts_add(&a->about.counts, &g->parts[i].name.counts);
		a->about.size += g->parts[i].size;
		part_name_print(name, &g->parts[i].name);
		ok = json_array_append_new(names, json_string(name)) == 0;
	}
	err = ok ? manifest_put(&a->about, names, c, &a->id, e) : no_memory(e);
	json_decref(names);
	a->visible = !err;
	return err;
}

static enum err complete(struct arrival *a, struct store_client *c, uint64_t size, struct error *e)
{
	struct gathering g = {.count = a->part.parts, .there = 1};
	char folder[STORE_PATH_MAX];
	enum err err = ERR_OK;
	g.parts = calloc(g.count, sizeof *g.parts);
	if (!g.parts)
		return no_memory(e);
	/* it is there, whether it is listed yet or not; and it is the newest */
	g.parts[a->part.part] = (struct gathered){a->part, size, INT64_MAX};
	layout_set(folder, &a->id, a->about.kind, a->name);
	if (g.count > 1)
		err = store_list(c, folder, on_part, &g, NULL, e);
	if (!err && g.there == g.count)
		err = make_visible(a, c, &g, e);
	else if (!err && a->more == MORE_NONE)
		err = error_set(e, ERR_UNAVAILABLE,
		        "%u of the set's %u parts are not listed yet: send the last one again", g.count - g.there,
		        g.count);
	free(g.parts);
	return err;
}

enum err symbfile_arrive(struct arrival *a, struct store_client *c, struct store_put *put, struct error *e)
{
	char path[STORE_PATH_MAX], name[PART_NAME_SIZE];
	uint64_t size = a->about.size;
	enum err err = name_set(a, c, e);
	if (err) {
		store_put_abort(put);
		return err;
	}
	part_name_print(name, &a->part);
	layout_object(path, &a->id, a->about.kind, a->name, name);
	err = store_put_commit(put, path, e);
	return err || a->more == MORE_COMES ? err : complete(a, c, size, e);
}
