/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/alias.h"

#include <string.h>

#include "uploads/sets.h"

struct gathering {
	struct symbfile_claims *claims;
	const struct build_id_question *question;
};

/* For equal times, any order that is the same on every host will do. */
static bool is_later(const struct store_claim *a, const struct store_claim *b)
{
	return a->time != b->time ? a->time > b->time : memcmp(a->id.bytes, b->id.bytes, sizeof a->id.bytes) > 0;
}

static bool take_claim(void *arg, const struct store_claim *claim)
{
	const struct gathering *g = arg;
	struct symbfile_claims *c = g->claims;
	unsigned at = c->count;
	if (!build_id_answers(&claim->build_id, g->question))
		return true;
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
	struct gathering g = {claims, q};
	claims->count = 0;
	return store_list_claims(c, q, take_claim, &g, cancel, e);
}

/* How good a claim is: complete sets come first, then newer ones, as uploads/sets.h says. */
struct merit {
	bool any, whole, told;
	int64_t time;
};

static struct merit merit_of(const struct symbfile_sets *sets)
{
	struct merit m = {.whole = symbfile_sets_missing(sets) == 0};
	for (unsigned i = 0; i < SYMBFILE_KINDS; i++) {
		const struct symbfile_set *set = &sets->kinds[i];
		m.any = m.any || set->have_count;
		if (set->have_count && (set->told != m.told ? set->told : set->time > m.time)) {
			m.time = set->time;
			m.told = set->told;
		}
	}
	return m;
}

static bool is_better(const struct merit *a, const struct merit *b)
{
	if (a->any != b->any || a->whole != b->whole)
		return a->any != b->any ? a->any : a->whole;
	return a->told != b->told ? a->told : a->time > b->time;
}

enum err symbfile_alias_choose(struct symbfile_alias *alias, bool *found, const struct symbfile_claims *claims,
        struct store_client *c, const atomic_bool *cancel, struct error *e)
{
	struct merit best = {0};
	const struct store_claim *chosen = claims->count ? &claims->items[0] : NULL;
	enum err err = ERR_OK;
	for (unsigned i = 0; i < claims->count && claims->count > 1 && !err; i++) {
		struct symbfile_sets sets;
		err = symbfile_sets_get(&sets, c, &claims->items[i].id, cancel, e);
		if (err)
			break;
		struct merit merit = merit_of(&sets);
		symbfile_sets_release(&sets);
		if (is_better(&merit, &best)) {
			best = merit;
			chosen = &claims->items[i];
		}
	}
	*found = chosen && !err;
	if (*found)
		*alias = (struct symbfile_alias){chosen->id, chosen->image_base};
	return err;
}
