/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_index FILE [RUNS]: a symbol file in memory, indexed, swept, made into pages, and the map as today's builder
 * makes it. Prints the median of each: MB/s of text, milliseconds, microseconds a page, with the sizes of all.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "format/breakpad.h"
#include "format/symindex.h"
#include "format/symindex_scan.h"
#include "format/sympages.h"
#include "format/symspans.h"

enum { CHUNK = 256 << 10, RUNS_MAX = 101 };

enum { SCAN, INDEX, SPANS, PAGES, STRINGS, BUILDER, TIMES };

struct text {
	uint8_t *data;
	size_t len;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_index: %s\n", what);
	exit(1);
}

static struct text read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct text t;
	if (!f || fseek(f, 0, SEEK_END) != 0)
		die(path);
	t.len = (size_t)ftell(f);
	rewind(f);
	t.data = malloc(t.len);
	if (!t.data || fread(t.data, 1, t.len, f) != t.len)
		die(path);
	fclose(f);
	return t;
}

static struct symindex *make_index(const struct text *t)
{
	struct symindex *x = symindex_new((struct str){"", 0});
	enum err err = x ? ERR_OK : ERR_NO_MEMORY;
	for (size_t at = 0; at < t->len && !err; at += CHUNK)
		err = symindex_feed(x, t->data + at, t->len - at < CHUNK ? t->len - at : CHUNK, NULL);
	if (err || symindex_finish(x, NULL))
		die("no index");
	return x;
}

static uint64_t count_lines(const struct text *t)
{
	uint64_t lines = 0;
	const uint8_t *end = t->data + t->len;
	for (const uint8_t *at = t->data; (at = memchr(at, '\n', (size_t)(end - at))); at++)
		lines++;
	return lines;
}

static uint64_t make_code(struct sympages *pages, const struct symspans *s)
{
	struct sympages_counts counts = {0};
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < s->page_count; i++) {
		struct page *p = sympages_code(pages, i, &counts);
		if (!p)
			die("no page");
		bytes += p->len;
		page_unref(p);
	}
	return bytes;
}

static uint64_t make_strings(struct sympages *pages, const struct symindex *x)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < x->string_page_count; i++) {
		struct page *p = sympages_strings(pages, i);
		if (!p)
			die("no page");
		bytes += p->len;
		page_unref(p);
	}
	return bytes;
}

static uint64_t build(const struct text *t)
{
	struct offmap_options options = {.raw_budget = UINT64_MAX, .codec = CODEC_LZ4};
	struct offmap *m = NULL;
	struct breakpad *p = breakpad_new(&options, (struct str){"", 0});
	enum err err = p ? ERR_OK : ERR_NO_MEMORY;
	for (size_t at = 0; at < t->len && !err; at += CHUNK)
		err = breakpad_feed(p, t->data + at, t->len - at < CHUNK ? t->len - at : CHUNK, NULL);
	if (err || breakpad_finish(p, &m, NULL))
		die("no map");
	breakpad_free(p);
	uint64_t pages = m->code_count;
	offmap_free(m);
	return pages;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double lap(int64_t *since)
{
	int64_t now = clock_now();
	double seconds = (double)(now - *since) / 1e9;
	*since = now;
	return seconds;
}

int main(int argc, char **argv)
{
	unsigned runs = argc > 2 ? (unsigned)atoi(argv[2]) : 7;
	static double times[TIMES][RUNS_MAX];
	uint64_t code_bytes = 0, string_bytes = 0, lines = 0, builder_pages = 0, index_bytes = 0, span_bytes = 0;
	uint32_t pages = 0, string_pages = 0;
	if (argc < 2 || !runs || runs > RUNS_MAX)
		die("usage: bench_index FILE [RUNS]");
	struct text t = read_file(argv[1]);
	struct symtext source = symtext_whole(t.data);
	for (unsigned i = 0; i < runs; i++) {
		int64_t since = clock_now();
		lines = count_lines(&t);
		times[SCAN][i] = lap(&since);
		struct symindex *x = make_index(&t);
		times[INDEX][i] = lap(&since);
		struct symspans *s = symspans_new(x, &source, false, 0);
		times[SPANS][i] = lap(&since);
		struct sympages *p = s ? sympages_new(x, s, &source) : NULL;
		if (!p)
			die("no spans");
		code_bytes = make_code(p, s);
		times[PAGES][i] = lap(&since);
		string_bytes = make_strings(p, x);
		times[STRINGS][i] = lap(&since);
		pages = s->page_count;
		string_pages = x->string_page_count;
		index_bytes = symindex_bytes(x);
		span_bytes = symspans_bytes(s);
		sympages_free(p);
		symspans_free(s);
		symindex_free(x);
		since = clock_now();
		builder_pages = build(&t);
		times[BUILDER][i] = lap(&since);
	}
	double mb = (double)t.len / 1e6, median[TIMES];
	for (unsigned i = 0; i < TIMES; i++) {
		qsort(times[i], runs, sizeof **times, order);
		median[i] = times[i][runs / 2];
	}
	double all = median[INDEX] + median[SPANS] + median[PAGES] + median[STRINGS];
	printf("{\"text\": %.1f, \"lines\": %" PRIu64 ", \"memchr\": %.0f, \"index\": %.0f, \"spans_ms\": %.2f, ", mb,
	        lines, mb / median[SCAN], mb / median[INDEX], median[SPANS] * 1e3);
	printf("\"page_us\": %.1f, \"strings_us\": %.1f, \"all\": %.0f, \"builder\": %.0f,\n",
	        median[PAGES] / pages * 1e6, string_pages ? median[STRINGS] / string_pages * 1e6 : 0, mb / all,
	        mb / median[BUILDER]);
	printf(" \"pages\": %" PRIu32 ", \"page_bytes\": %.0f, \"string_pages\": %" PRIu32 ", \"map\": %.1f, ", pages,
	        (double)code_bytes / pages, string_pages, (double)(code_bytes + string_bytes) / 1e6);
	printf("\"index_kb\": %" PRIu64 ", \"spans_kb\": %" PRIu64 ", \"builder_pages\": %" PRIu64 "}\n",
	        index_bytes / 1000, span_bytes / 1000, builder_pages);
	free(t.data);
	return 0;
}
