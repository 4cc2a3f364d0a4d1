/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/alias.h"

#include <stdlib.h>
#include <string.h>

struct gathering {
	const struct build_id_question *question;
	bool (*found)(void *arg, const struct claim *claim);
	void *arg;
};

static bool on_claim(void *arg, struct str path, uint64_t size, int64_t time)
{
	const struct gathering *g = arg;
	struct claim claim = {.time = time};
	(void)size;
	bool asked = layout_parse_claim(&claim, path) && build_id_answers(&claim.build_id, g->question);
	return !asked || g->found(g->arg, &claim);
}

enum err symbfile_claims_each(struct store_client *c, const struct build_id_question *q,
        bool (*found)(void *arg, const struct claim *claim), void *arg, const atomic_bool *cancel, struct error *e)
{
	struct gathering g = {q, found, arg};
	char path[STORE_PATH_MAX];
	layout_claims(path, q);
	return store_list(c, path, on_claim, &g, cancel, e);
}

/* For equal times, any order that is the same on every host will do. */
static bool is_later(const struct claim *a, const struct claim *b)
{
	return a->time != b->time ? a->time > b->time : memcmp(a->id.bytes, b->id.bytes, sizeof a->id.bytes) > 0;
}

static bool take_claim(void *arg, const struct claim *claim)
{
	struct symbfile_claims *c = arg;
	unsigned at = c->count;
	while (at > 0 && is_later(claim, &c->items[at - 1]))
		at--;
	if (at == ALIAS_CLAIMS)
		return true;
	c->count += c->count < ALIAS_CLAIMS;
	memmove(&c->items[at + 1], &c->items[at], (c->count - at - 1) * sizeof *c->items);
	c->items[at] = *claim;
	return true;
}

enum err symbfile_claims_get(struct symbfile_claims *claims, struct store_client *c, const struct build_id_question *q,
        const atomic_bool *cancel, struct error *e)
{
	claims->count = 0;
	return symbfile_claims_each(c, q, take_claim, claims, cancel, e);
}

/* What the executables have, in the order of the claims. */
struct merits {
	struct symbfile_sets sets[ALIAS_CLAIMS];
	struct symbfile_set items[ALIAS_CLAIMS];
	bool any[ALIAS_CLAIMS];
};

static enum err get_merits(struct merits *m, const struct symbfile_claims *claims, struct store_client *c,
        const atomic_bool *cancel, struct error *e)
{
	enum err err = ERR_OK;
	for (unsigned i = 0; i < claims->count && !err; i++) {
		err = symbfile_sets_get(&m->sets[i], c, &claims->items[i].id, cancel, e);
		m->any[i] = !err && symbfile_sets_merit(&m->items[i], &m->sets[i]);
	}
	return err;
}

/* The latest upload that says where the executable's segments are; NULL: none. */
static const struct symbfile_set *latest_with_segments(const struct symbfile_sets *sets)
{
	const struct symbfile_set *latest = NULL;
	for (size_t i = 0; i < sets->count; i++) {
		const struct symbfile_set *s = &sets->items[i];
		if (s->complete && s->manifest.segments.count && (!latest || s->time > latest->time))
			latest = s;
	}
	return latest;
}

static bool is_same_image(const struct claim *a, const struct claim *b)
{
	return a->image_base == b->image_base && a->build_id.len == b->build_id.len &&
	       memcmp(a->build_id.bytes, b->build_id.bytes, a->build_id.len) == 0;
}

/* Where the chosen executable is loaded. What does not know it itself, such as a debug file, is loaded like others of
 * its build id. */
static struct file_map file_of(const struct merits *m, const struct symbfile_claims *claims, unsigned chosen)
{
	const struct symbfile_set *s = latest_with_segments(&m->sets[chosen]);
	for (unsigned i = 0; i < claims->count && !s; i++)
		if (is_same_image(&claims->items[i], &claims->items[chosen]))
			s = latest_with_segments(&m->sets[i]);
	return s ? file_map_of(&s->manifest.segments) : (struct file_map){.count = 0};
}

enum err symbfile_alias_choose(struct symbfile_alias *alias, bool *found, const struct symbfile_claims *claims,
        struct store_client *c, const atomic_bool *cancel, struct error *e)
{
	struct merits *m = calloc(1, sizeof *m);
	unsigned chosen = 0;
	enum err err = m ? get_merits(m, claims, c, cancel, e) : no_memory(e);
	for (unsigned i = 1; i < claims->count && !err; i++)
		if (m->any[i] && (!m->any[chosen] || symbfile_set_is_better(&m->items[i], &m->items[chosen])))
			chosen = i;
	*found = claims->count && !err;
	if (*found)
		*alias = (struct symbfile_alias){
		        claims->items[chosen].id, claims->items[chosen].image_base, file_of(m, claims, chosen)};
	for (unsigned i = 0; i < claims->count && m; i++)
		symbfile_sets_release(&m->sets[i]);
	free(m);
	return err;
}
