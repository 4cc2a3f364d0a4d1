/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/gate.h"

#include "base/clock.h"
#include "base/metrics.h"
#include "base/process.h"

void gate_init(struct gate *g, const struct config *c)
{
	*g = (struct gate){.config = c, .memory_max = c->memory ? c->memory : UINT64_MAX};
	TAILQ_INIT(&g->line);
}

static void take_place(struct gate *g, struct load_wait *wait)
{
	wait->gate.placed = true;
	g->places++;
	if (wait->share)
		wait->share->places++;
	metric_add(M_COLD_REQUESTS, 1);
}

static void stand_in_line(struct gate *g, struct load_wait *wait)
{
	wait->gate.lined = true;
	wait->gate.deadline = clock_now() + g->config->cold_wait;
	TAILQ_INSERT_TAIL(&g->line, wait, gate.next);
	g->lined++;
	if (wait->share)
		wait->share->lined++;
	metric_add(M_COLD_QUEUED, 1);
}

void gate_leave_line(struct gate *g, struct load_wait *wait)
{
	wait->gate.lined = false;
	TAILQ_REMOVE(&g->line, wait, gate.next);
	g->lined--;
	if (wait->share)
		wait->share->lined--;
	metric_add(M_COLD_QUEUED, -1);
}

bool gate_has_place(const struct gate *g, const struct share *share)
{
	return share_allows(
	        share ? share->places : 0, g->places, g->config->cold_requests, share && g->lined > share->lined);
}

/* Whether the client may have one more place in line. */
static bool has_place_in_line(const struct gate *g, const struct share *share)
{
	return share_allows(
	        share ? share->lined : 0, g->lined, g->config->cold_queue, share && g->lined > share->lined);
}

/* Requests that only join other requests' loads are limited too. */
static bool may_wait(const struct gate *g, const struct waits *waits, const struct share *share)
{
	uint64_t most = 4 * (g->config->cold_requests + g->config->cold_queue);
	return share_allows(share ? share->waits : 0, waits->count, most, false);
}

static void hold_back(struct gate *g, const struct share *share)
{
	if (!share)
		return;
	g->held_back = share->client;
	g->held_back_count++;
	metric_add(M_HELD_BACK, 1);
}

uint64_t gate_held_back(struct gate *g, struct client_key *client)
{
	uint64_t count = g->held_back_count;
	*client = g->held_back;
	g->held_back_count = 0;
	return count;
}

enum load_result gate_enter(struct gate *g, struct waits *waits, struct load_wait *wait, bool starts)
{
	const struct share *share = wait->share;
	bool full = gate_memory_full(g);
	if (!full && starts && gate_has_place(g, share)) {
		take_place(g, wait);
		return LOAD_READY;
	}
	bool refused = full || !may_wait(g, waits, share) || (starts && !has_place_in_line(g, share));
	if (!full && (starts || refused) && g->places < g->config->cold_requests)
		hold_back(g, share);
	if (refused) {
		metric_add(M_COLD_REFUSED, 1);
		return LOAD_REFUSED;
	}
	if (!starts)
		return LOAD_READY;
	stand_in_line(g, wait);
	waits_begin(waits, wait);
	return LOAD_WAIT;
}

void gate_leave(struct gate *g, struct load_wait *wait)
{
	wait->gate.placed = false;
	g->places--;
	if (wait->share)
		wait->share->places--;
	metric_add(M_COLD_REQUESTS, -1);
}

static uint64_t places_of(const struct load_wait *wait)
{
	return wait->share ? wait->share->places : 0;
}

/* Of those that may have a place, the first whose client holds fewest; NULL: nobody may. */
static struct load_wait *next_in_line(const struct gate *g)
{
	struct load_wait *wait, *best = NULL;
	TAILQ_FOREACH(wait, &g->line, gate.next)
		if (gate_has_place(g, wait->share) && (!best || places_of(wait) < places_of(best)))
			best = wait;
	return best;
}

void gate_admit(struct gate *g, struct waits *waits, struct wait_list *over)
{
	struct load_wait *wait;
	while (!g->memory_full && g->places < g->config->cold_requests && (wait = next_in_line(g))) {
		gate_leave_line(g, wait);
		take_place(g, wait);
		waits_end(waits, wait, over);
	}
}

bool gate_above_memory(const struct gate *g)
{
	return resident_bytes() > g->memory_max;
}

bool gate_memory_full(struct gate *g)
{
	g->memory_full = g->memory_full || gate_above_memory(g); /* stays true until the keeper clears it */
	return g->memory_full;
}

bool gate_note_memory(struct gate *g, bool full)
{
	bool noticed = full || g->memory_full;
	g->memory_full = full;
	return noticed;
}
