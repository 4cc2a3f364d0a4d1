/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/turns.h"

#include <stdlib.h>

void turns_init(struct turns *t, unsigned places, uint64_t seed)
{
	*t = (struct turns){.places = places, .seed = seed};
	TAILQ_INIT(&t->order);
}

void turns_destroy(struct turns *t)
{
	while (!LIST_EMPTY(&t->free))
		turns_shrink(t);
}

bool turns_grow(struct turns *t)
{
	struct turn_client *c = calloc(1, sizeof *c);
	if (c)
		LIST_INSERT_HEAD(&t->free, c, chain);
	return c != NULL;
}

void turns_shrink(struct turns *t)
{
	struct turn_client *c = LIST_FIRST(&t->free);
	LIST_REMOVE(c, chain);
	free(c);
}

static bool waits(const struct turn_client *c)
{
	return c->waiting > 0;
}

static unsigned chain_of(const struct turns *t, struct client_key key)
{
	return (unsigned)(client_key_hash(key, t->seed) % TURNS_CHAINS);
}

static struct turn_client *find_client(const struct turns *t, struct client_key key)
{
	struct turn_client *c;
	LIST_FOREACH(c, &t->chains[chain_of(t, key)], chain)
		if (client_key_equal(c->key, key))
			break;
	return c;
}

/* There is a free one, since there is one for each that may wait or hold a place. */
static struct turn_client *have_client(struct turns *t, struct client_key key)
{
	struct turn_client *c = find_client(t, key);
	if (c)
		return c;
	c = LIST_FIRST(&t->free);
	LIST_REMOVE(c, chain);
	*c = (struct turn_client){.key = key};
	TAILQ_INIT(&c->fresh);
	TAILQ_INIT(&c->begun);
	LIST_INSERT_HEAD(&t->chains[chain_of(t, key)], c, chain);
	return c;
}

static void forget_idle(struct turns *t, struct turn_client *c)
{
	if (c->held || waits(c))
		return;
	LIST_REMOVE(c, chain);
	LIST_INSERT_HEAD(&t->free, c, chain);
}

/* Mostly it is the oldest of those that have begun, or the youngest of the new ones. */
static void insert_by_age(struct turn_list *list, struct turn *turn)
{
	struct turn *before = TAILQ_FIRST(list);
	if (!before || before->since > turn->since) {
		TAILQ_INSERT_HEAD(list, turn, next);
		return;
	}
	for (before = TAILQ_LAST(list, turn_list); before->since > turn->since;)
		before = TAILQ_PREV(before, turn_list, next);
	TAILQ_INSERT_AFTER(list, before, turn, next);
}

void turns_add(struct turns *t, struct turn *turn)
{
	struct turn_client *c = have_client(t, turn->client);
	if (!waits(c))
		TAILQ_INSERT_TAIL(&t->order, c, order);
	c->waiting++;
	insert_by_age(turn->begun ? &c->begun : &c->fresh, turn);
}

void turns_drop(struct turns *t, struct turn *turn)
{
	struct turn_client *c = find_client(t, turn->client);
	TAILQ_REMOVE(turn->begun ? &c->begun : &c->fresh, turn, next);
	c->waiting--;
	if (!waits(c))
		TAILQ_REMOVE(&t->order, c, order);
	forget_idle(t, c);
}

unsigned turns_waiting(const struct turns *t, struct client_key client)
{
	const struct turn_client *c = find_client(t, client);
	return c ? c->waiting : 0;
}

/* One that waits. */
static bool may_have(const struct turns *t, const struct turn_client *c)
{
	bool others = TAILQ_FIRST(&t->order) != c || TAILQ_NEXT(c, order);
	return client_may_have(c->held, t->busy, t->places, others);
}

/* Which of those that wait a caller has in mind; without `may`: all. */
struct choice {
	bool (*may)(const struct turn *turn, void *arg);
	void *arg;
};

static struct turn *first_of(const struct turn_list *list, const struct choice *of)
{
	struct turn *turn;
	TAILQ_FOREACH(turn, list, next)
		if (!of->may || of->may(turn, of->arg))
			break;
	return turn;
}

/* The client's next; NULL: it has none such. */
static struct turn *next_turn(const struct turn_client *c, const struct choice *of)
{
	struct turn *turn = first_of(c->after_begun ? &c->fresh : &c->begun, of);
	return turn ? turn : first_of(c->after_begun ? &c->begun : &c->fresh, of);
}

static struct turn *find_next(const struct turns *t, const struct choice *of, struct turn_client **client)
{
	struct turn *turn;
	TAILQ_FOREACH(*client, &t->order, order)
		if (may_have(t, *client) && (turn = next_turn(*client, of)))
			return turn;
	return NULL;
}

void turns_note_held_back(struct turns *t, struct turn *turn)
{
	if (turn->held)
		return;
	turn->held = true;
	t->held_back = turn->client;
	t->held_back_count++;
}

/* The clients before `next` that hold too many must wait although it was their turn. */
static void note_held_back(struct turns *t, const struct turn_client *next)
{
	static const struct choice any = {NULL, NULL};
	struct turn_client *c;
	TAILQ_FOREACH(c, &t->order, order) {
		if (c == next)
			return;
		if (!may_have(t, c))
			turns_note_held_back(t, next_turn(c, &any));
	}
}

bool turns_ready(const struct turns *t)
{
	struct turn_client *c;
	TAILQ_FOREACH(c, &t->order, order)
		if (may_have(t, c))
			return true;
	return false;
}

/* It no longer waits; its client comes last. */
static void take(struct turns *t, struct turn_client *c, struct turn *turn)
{
	TAILQ_REMOVE(turn->begun ? &c->begun : &c->fresh, turn, next);
	c->waiting--;
	c->after_begun = turn->begun;
	TAILQ_REMOVE(&t->order, c, order);
	if (waits(c))
		TAILQ_INSERT_TAIL(&t->order, c, order);
}

struct turn *turns_next_that(
        struct turns *t, bool (*may)(const struct turn *turn, void *arg), void *arg, struct turn_client **client)
{
	const struct choice of = {may, arg};
	struct turn *turn = find_next(t, &of, client);
	if (!turn)
		return NULL;
	note_held_back(t, *client);
	take(t, *client, turn);
	(*client)->held++;
	t->busy++;
	return turn;
}

struct turn *turns_next(struct turns *t, struct turn_client **client)
{
	return turns_next_that(t, NULL, NULL, client);
}

void turns_done(struct turns *t, struct turn_client *client)
{
	client->held--;
	t->busy--;
	forget_idle(t, client);
}

struct turn *turns_remove(struct turns *t)
{
	static const struct choice any = {NULL, NULL};
	struct turn_client *c = TAILQ_FIRST(&t->order);
	struct turn *turn = c ? next_turn(c, &any) : NULL;
	if (turn) {
		take(t, c, turn);
		forget_idle(t, c);
	}
	return turn;
}
