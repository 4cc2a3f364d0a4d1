/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "symbtool/visible.h"

enum { BAR_WIDTH = 30 };
#define FIRST_DRAW (SECOND / 2)
#define REDRAW (SECOND / 10)

void progress_begin(struct progress *p, const char *label, const char *unit, uint64_t total)
{
	p->label = label;
	p->unit = unit;
	atomic_init(&p->total, (int64_t)total);
	p->on = isatty(STDERR_FILENO) == 1;
	p->started = clock_now();
	p->drawn = false;
	atomic_init(&p->done, 0);
	atomic_init(&p->next, p->started + FIRST_DRAW);
	pthread_mutex_init(&p->lock, NULL);
}

static void draw(struct progress *p)
{
	char bar[BAR_WIDTH + 1];
	int64_t done = atomic_load(&p->done), all = atomic_load(&p->total);
	uint64_t total = all < 0 ? 0 : (uint64_t)all;
	uint64_t n = done < 0 ? 0 : (uint64_t)done;
	if (total && n > total)
		n = total;
	p->drawn = true;
	fputs("\r\033[K", stderr);
	print_visible(stderr, p->label);
	if (!total) {
		fprintf(stderr, ": %" PRIu64 " %s", n, p->unit);
		return;
	}
	size_t filled = (size_t)((double)n / (double)total * BAR_WIDTH);
	memset(bar, '#', filled);
	memset(bar + filled, '.', BAR_WIDTH - filled);
	bar[BAR_WIDTH] = 0;
	fprintf(stderr, ": [%s] %3d %% of %" PRIu64 " %s", bar, (int)((double)n / (double)total * 100), total, p->unit);
}

void progress_add(struct progress *p, int64_t n)
{
	if (!p->on)
		return;
	atomic_fetch_add(&p->done, n);
	int64_t now = clock_now();
	if (now < atomic_load(&p->next) || pthread_mutex_trylock(&p->lock) != 0)
		return;
	atomic_store(&p->next, now + REDRAW);
	draw(p);
	pthread_mutex_unlock(&p->lock);
}

void progress_resize(struct progress *p, int64_t n)
{
	atomic_fetch_add(&p->total, n);
}

void progress_end(struct progress *p)
{
	if (p->drawn)
		fputs("\r\033[K", stderr);
	pthread_mutex_destroy(&p->lock);
}
