/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_parse FILE [RUNS]: a symbol file in memory, parsed and built into pages with their checksums on one thread,
 * on two, for a few offsets only, and one pass of memchr over its line ends. Prints the median of each in MB/s of text.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "format/breakpad.h"

enum { CHUNK = 256 << 10, RUNS_MAX = 101, ASKED = 25 };

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Sorts the times of n runs over so many MB, and prints their speeds. */
static void print_speeds(const char *name, double *times, unsigned n, double mb)
{
	qsort(times, n, sizeof *times, order);
	printf(", \"%s\": {\"median\": %.1f, \"min\": %.1f, \"max\": %.1f}", name, mb / times[n / 2], mb / times[n - 1],
	        mb / times[0]);
}

static uint8_t *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END) != 0) {
		perror(path);
		exit(2);
	}
	*len = (size_t)ftell(f);
	rewind(f);
	uint8_t *data = malloc(*len);
	if (!data || fread(data, 1, *len, f) != *len) {
		perror(path);
		exit(2);
	}
	fclose(f);
	return data;
}

static uint64_t sum_pages(struct page *const *pages, uint32_t count)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < count; i++)
		sum ^= checksum("", 0, pages[i]->bytes, pages[i]->len);
	return sum;
}

static double count_lines(const uint8_t *data, size_t len, uint64_t *lines)
{
	int64_t start = clock_now();
	const uint8_t *end = data + len;
	*lines = 0;
	for (const uint8_t *at = data; (at = memchr(at, '\n', (size_t)(end - at))); at++)
		(*lines)++;
	return (double)(clock_now() - start) / 1e9;
}

/* The map of all when asked is NULL. */
static struct offmap *parse(const uint8_t *data, size_t len, const uint64_t *asked, bool threaded)
{
	struct offmap_options options = {.raw_budget = UINT64_MAX, .codec = CODEC_LZ4, .threaded = threaded};
	struct offmap *m = NULL;
	struct breakpad *p = breakpad_new(&options, (struct str){"", 0});
	enum err err = p && (!asked || breakpad_ask(p, asked, ASKED)) ? ERR_OK : ERR_NO_MEMORY;
	for (size_t at = 0; at < len && !err; at += CHUNK)
		err = breakpad_feed(p, data + at, len - at < CHUNK ? len - at : CHUNK, NULL);
	if (err || breakpad_finish(p, &m, NULL)) {
		fputs("the file cannot be parsed\n", stderr);
		exit(1);
	}
	breakpad_free(p);
	return m;
}

static double build(const uint8_t *data, size_t len, bool threaded, uint64_t *raw)
{
	int64_t start = clock_now();
	struct offmap *m = parse(data, len, NULL, threaded);
	uint64_t sum = sum_pages(m->code, m->code_count) ^ sum_pages(m->strings, m->string_count);
	double seconds = (double)(clock_now() - start) / 1e9;
	*raw = m->raw_bytes + (sum == 1);
	offmap_free(m);
	return seconds;
}

/* Offsets all over the file. */
static void choose(const uint8_t *data, size_t len, uint64_t asked[ASKED])
{
	struct offmap *m = parse(data, len, NULL, false);
	for (uint32_t i = 0; i < ASKED; i++)
		asked[i] = m->code_count ? m->code_first[(uint64_t)m->code_count * i / ASKED] + 1 : i;
	offmap_free(m);
}

static double build_asked(const uint8_t *data, size_t len, const uint64_t asked[ASKED])
{
	int64_t start = clock_now();
	offmap_free(parse(data, len, asked, false));
	return (double)(clock_now() - start) / 1e9;
}

int main(int argc, char **argv)
{
	unsigned runs = argc > 2 ? (unsigned)atoi(argv[2]) : 7;
	double scans[RUNS_MAX], builds[RUNS_MAX], threaded[RUNS_MAX], few[RUNS_MAX];
	uint64_t asked[ASKED];
	uint64_t lines, raw;
	size_t len;
	if (argc < 2 || !runs || runs > RUNS_MAX) {
		fputs("usage: bench_parse FILE [RUNS]\n", stderr);
		return 2;
	}
	uint8_t *data = read_file(argv[1], &len);
	choose(data, len, asked);
	for (unsigned i = 0; i < runs; i++) {
		scans[i] = count_lines(data, len, &lines);
		builds[i] = build(data, len, false, &raw);
		threaded[i] = build(data, len, true, &raw);
		few[i] = build_asked(data, len, asked);
	}
	double mb = (double)len / 1e6;
	printf("{\"text\": %.1f, \"lines\": %" PRIu64 ", \"map\": %.1f", mb, lines, (double)raw / 1e6);
	print_speeds("memchr", scans, runs, mb);
	print_speeds("build", builds, runs, mb);
	print_speeds("threaded", threaded, runs, mb);
	print_speeds("asked", few, runs, mb);
	puts("}");
	free(data);
	return 0;
}
