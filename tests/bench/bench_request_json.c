/* SPDX-License-Identifier: Apache-2.0 */
/* Nanoseconds a frame to read a request of one job, beside jansson on the same body. Usage: bench_request_json [FRAMES]
 */
#include <config.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"
#include "json/request.h"

enum { ROUNDS = 15, FRAME_MAX = 32 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Offsets of seven or eight digits, as in a profile of a large library; space behind commas if spaced. */
static struct str make_body(size_t frames, bool spaced)
{
	static const char head[] =
	        "{\"memoryMap\":[[\"libxul.so\",\"44E4EC8C2F41492B9369D6B9A059577C2\"]],\"stacks\":[[";
	size_t len = sizeof head - 1;
	char *body = malloc(sizeof head + frames * FRAME_MAX + 4);
	uint32_t seed = 1;
	if (!body)
		abort();
	memcpy(body, head, len);
	for (size_t i = 0; i < frames; i++) {
		seed = seed * 1664525 + 1013904223;
		len += (size_t)snprintf(body + len, FRAME_MAX, spaced ? "%s[0, %" PRIu32 "]" : "%s[0,%" PRIu32 "]",
		        i ? (spaced ? ", " : ",") : "", seed >> 5);
	}
	memcpy(body + len, "]]}", 3);
	return (struct str){body, len + 3};
}

static double time_ours(struct str body, size_t frames)
{
	const struct request_limits limits = {1, frames, 1, frames};
	struct arena arena;
	struct request request;
	struct error e;
	arena_init(&arena, SIZE_MAX);
	double start = now();
	if (request_read(&request, body, REQUEST_V5, &limits, NULL, &arena, &e) || request.frame_count != frames)
		abort();
	double took = now() - start;
	arena_release(&arena);
	return took;
}

static double time_jansson(struct str body)
{
	json_error_t e;
	double start = now();
	json_t *root = json_loadb(body.data, body.len, 0, &e);
	double took = now() - start;
	if (!root)
		abort();
	json_decref(root);
	return took;
}

static void run(size_t frames, bool spaced)
{
	struct str body = make_body(frames, spaced);
	double ours = 0, jansson = 0;
	for (int i = 0; i < ROUNDS; i++) {
		double a = time_ours(body, frames), b = time_jansson(body);
		ours = i == 0 || a < ours ? a : ours;
		jansson = i == 0 || b < jansson ? b : jansson;
	}
	printf("%zu frames, %zu bytes%s: %.1f ns a frame; jansson %.1f\n", frames, body.len, spaced ? ", spaced" : "",
	        ours / (double)frames, jansson / (double)frames);
	free((char *)body.data);
}

int main(int argc, char **argv)
{
	size_t frames = argc > 1 ? strtoul(argv[1], NULL, 10) : 60000;
	if (frames < 1 || frames > 10000000) {
		fprintf(stderr, "usage: bench_request_json [FRAMES], from 1 to 10000000\n");
		return 2;
	}
	run(frames, false);
	run(frames, true);
	return 0;
}
