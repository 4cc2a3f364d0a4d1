/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_parse FILE [RUNS]: a symbol file in memory, which may come as gzip, made into records, spans and all pages
 * with their checksums, on one thread. Prints the median in MB/s of text, how many records a second that is, and the
 * parts: inflating and reading in MB/s, the spans in milliseconds, a page in microseconds.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/gzip.h"
#include "base/unpack.h"
#include "records/pages.h"
#include "sym/reader.h"

enum { CHUNK = 256 << 10, RUNS_MAX = 101 };

enum { GUNZIP, BUILD, INDEX, SPANS, PAGES, TIMES };

struct work {
	const uint8_t *data;
	size_t len;
	uint64_t bytes, sum; /* of the pages */
	uint64_t count;      /* of records */
	uint32_t pages;
	uint64_t record_bytes, span_bytes;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "bench_parse: %s\n", what);
	exit(1);
}

static uint8_t *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END) != 0)
		die(path);
	*len = (size_t)ftell(f);
	rewind(f);
	uint8_t *data = malloc(*len);
	if (!data || fread(data, 1, *len, f) != *len)
		die(path);
	fclose(f);
	return data;
}

/* Inflates the file into *text of `cap` bytes, or into the same memory again and again; returns the bytes. */
static size_t inflate(struct gunzip *g, const uint8_t *in, size_t in_len, uint8_t *text, size_t cap)
{
	size_t all = 0, got = 0;
	gunzip_reset(g);
	do {
		if (gunzip_step(g, &in, &in_len, text, cap, &got))
			die("bad gzip");
		all += got;
	} while (in_len || got == cap);
	return all;
}

/* The text of a file that may be gzip, and the times of inflating it. */
static uint8_t *read_text(const char *path, size_t *len, double *times, unsigned runs)
{
	static uint8_t piece[CHUNK];
	size_t packed_len;
	uint8_t *packed = read_file(path, &packed_len), *text = packed;
	struct gunzip *g = gunzip_new();
	*len = packed_len;
	if (!g)
		die("no memory");
	if (packing_of(packed, packed_len) == PACKING_GZIP) {
		for (unsigned i = 0; i < runs; i++) {
			int64_t since = clock_now();
			*len = inflate(g, packed, packed_len, piece, sizeof piece);
			times[i] = (double)(clock_now() - since) / 1e9;
		}
		if (!(text = malloc(*len + 1)))
			die("no memory");
		inflate(g, packed, packed_len, text, *len + 1);
		free(packed);
	}
	gunzip_free(g);
	return text;
}

static struct symreader *read_records(const struct work *w)
{
	struct symreader *x = symreader_new((struct str){"", 0}, 0);
	enum err err = x ? ERR_OK : ERR_NO_MEMORY;
	for (size_t at = 0; at < w->len && !err; at += CHUNK)
		err = symreader_feed(x, w->data + at, w->len - at < CHUNK ? w->len - at : CHUNK, NULL);
	if (err || symreader_finish(x, NULL))
		die("the file cannot be read");
	return x;
}

static void done(struct work *w, struct page *p)
{
	if (!p)
		die("no page");
	w->sum ^= checksum("", 0, p->bytes, p->len);
	w->bytes += p->len;
	page_unref(p);
}

static void make_pages(struct work *w, const struct records *records, const struct symspans *spans)
{
	struct sympages *pages = sympages_new(records, spans);
	if (!pages)
		die("no memory");
	for (uint32_t i = 0; i < spans->page_count; i++)
		done(w, sympages_code(pages, i));
	for (uint32_t i = 0; i < records->string_page_count; i++)
		done(w, sympages_strings(pages, i));
	sympages_free(pages);
}

static double lap(int64_t *since)
{
	int64_t now = clock_now();
	double seconds = (double)(now - *since) / 1e9;
	*since = now;
	return seconds;
}

/* The times of the parts; returns their sum. */
static double build(struct work *w, double *index, double *spans, double *pages)
{
	int64_t since = clock_now();
	struct symreader *reader = read_records(w);
	const struct records *x = reader->records;
	*index = lap(&since);
	struct symspans *s = symspans_new(x, false);
	if (!s)
		die("no memory");
	*spans = lap(&since);
	w->bytes = w->sum = 0;
	w->count = x->funcs + x->publics + x->files.count + x->origins.count + x->lines + x->inlines;
	make_pages(w, x, s);
	*pages = lap(&since);
	w->pages = s->page_count + x->string_page_count;
	w->record_bytes = symreader_bytes(reader);
	w->span_bytes = symspans_bytes(s);
	symspans_free(s);
	symreader_free(reader);
	return *index + *spans + *pages;
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* What n runs of these times make of an amount. */
static void print_speeds(const char *name, const double *times, unsigned n, double amount)
{
	printf(", \"%s\": {\"median\": %.2f, \"min\": %.2f, \"max\": %.2f}", name, amount / times[n / 2],
	        amount / times[n - 1], amount / times[0]);
}

int main(int argc, char **argv)
{
	unsigned runs = argc > 2 ? (unsigned)atoi(argv[2]) : 7;
	static double times[TIMES][RUNS_MAX];
	struct work w = {0};
	if (argc < 2 || !runs || runs > RUNS_MAX)
		die("usage: bench_parse FILE [RUNS]");
	uint8_t *data = read_text(argv[1], &w.len, times[GUNZIP], runs);
	w.data = data;
	for (unsigned i = 0; i < runs; i++)
		times[BUILD][i] = build(&w, &times[INDEX][i], &times[SPANS][i], &times[PAGES][i]);
	for (unsigned i = 0; i < TIMES; i++)
		qsort(times[i], runs, sizeof **times, order);
	double mb = (double)w.len / 1e6, pages = w.pages;
	printf("{\"text\": %.1f, \"map\": %.1f, \"pages\": %.0f, \"records\": %" PRIu64, mb, (double)w.bytes / 1e6,
	        pages, w.count);
	printf(", \"record_bytes\": %" PRIu64 ", \"span_bytes\": %" PRIu64 ", \"spans_ms\": %.2f, \"page_us\": %.1f",
	        w.record_bytes, w.span_bytes, times[SPANS][runs / 2] * 1e3, times[PAGES][runs / 2] / pages * 1e6);
	if (*times[GUNZIP] > 0)
		print_speeds("gunzip", times[GUNZIP], runs, mb);
	print_speeds("build", times[BUILD], runs, mb);
	print_speeds("index", times[INDEX], runs, mb);
	print_speeds("records_s", times[BUILD], runs, (double)w.count / 1e6);
	puts("}");
	free(data);
	return 0;
}
