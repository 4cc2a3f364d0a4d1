/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/gate.h"

#include "base/clock.h"
#include "base/metrics.h"
#include "base/resident.h"

void gate_init(struct gate *g, const struct config *c)
{
	*g = (struct gate){.config = c, .memory_max = c->memory ? c->memory : UINT64_MAX};
	TAILQ_INIT(&g->line);
}

static void take_place(struct gate *g, struct load_wait *wait)
{
	wait->gate.placed = true;
	g->places++;
	metric_add(M_COLD_REQUESTS, 1);
}

static void stand_in_line(struct gate *g, struct load_wait *wait)
{
	wait->gate.lined = true;
	wait->gate.deadline = clock_now() + g->config->cold_wait;
	TAILQ_INSERT_TAIL(&g->line, wait, gate.next);
	g->lined++;
	metric_add(M_COLD_QUEUED, 1);
}

void gate_leave_line(struct gate *g, struct load_wait *wait)
{
	wait->gate.lined = false;
	TAILQ_REMOVE(&g->line, wait, gate.next);
	g->lined--;
	metric_add(M_COLD_QUEUED, -1);
}

bool gate_has_place(const struct gate *g)
{
	return g->places < g->config->cold_requests;
}

enum load_result gate_enter(struct gate *g, struct waits *waits, struct load_wait *wait, bool starts)
{
	uint64_t room = g->config->cold_requests + g->config->cold_queue;
	bool full = gate_memory_full(g);
	if (!full && starts && gate_has_place(g)) {
		take_place(g, wait);
		return LOAD_READY;
	}
	/* requests that only join other requests' loads are limited too */
	if (full || waits->count >= 4 * room || (starts && g->lined >= g->config->cold_queue)) {
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
	metric_add(M_COLD_REQUESTS, -1);
}

void gate_admit(struct gate *g, struct waits *waits, struct wait_list *over)
{
	struct load_wait *wait;
	while ((wait = TAILQ_FIRST(&g->line)) && !g->memory_full && gate_has_place(g)) {
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
