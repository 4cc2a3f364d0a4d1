/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "indexed_map.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sym/index.h"
#include "sym/pages.h"
#include "sym/spans.h"

enum { THREADS_MAX = 16 };

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "indexed map: %s\n", what);
	abort();
}

static void *checked(void *p)
{
	if (!p)
		die("no memory");
	return p;
}

/* ---- the text in blocks, each of its own size, so that a read behind it is seen ---- */

struct blocks {
	uint8_t **blocks;
	size_t size, count;
};

static void make_blocks(struct blocks *b, struct str text, size_t size)
{
	b->size = size;
	b->count = (text.len + size - 1) / size;
	b->blocks = checked(calloc(b->count + 1, sizeof *b->blocks));
	for (size_t i = 0; i < b->count; i++) {
		size_t len = text.len - i * size < size ? text.len - i * size : size;
		b->blocks[i] = checked(malloc(len));
		memcpy(b->blocks[i], text.data + i * size, len);
	}
}

static void free_blocks(struct blocks *b)
{
	for (size_t i = 0; i < b->count; i++)
		free(b->blocks[i]);
	free(b->blocks);
}

static const uint8_t *get_from_blocks(void *arg, uint64_t place, size_t len, uint8_t *room)
{
	const struct blocks *b = arg;
	size_t first = place / b->size, within = place % b->size;
	if (within + len <= b->size)
		return b->blocks[first] + within;
	for (size_t done = 0; done < len; first++, within = 0) {
		size_t n = b->size - within < len - done ? b->size - within : len - done;
		memcpy(room + done, b->blocks[first] + within, n);
		done += n;
	}
	return room;
}

/* ---- pages ---- */

struct making {
	const struct symindex *index;
	const struct symspans *spans;
	const struct symtext *text;
	struct offmap *map;
	uint32_t *order; /* code pages first */
	atomic_uint next;
	atomic_ullong lines, inlines, damaged, raw_bytes;
};

static void *make_pages(void *arg)
{
	struct making *k = arg;
	struct sympages *pages = checked(sympages_new(k->index, k->spans, k->text));
	uint32_t count = k->map->code_count + k->map->string_count, i;
	struct sympages_counts counts = {0};
	while ((i = atomic_fetch_add(&k->next, 1)) < count) {
		uint32_t number = k->order[i];
		struct page **slot = number < k->map->code_count ? &k->map->code[number]
		                                                 : &k->map->strings[number - k->map->code_count];
		*slot = number < k->map->code_count ? sympages_code(pages, number, &counts)
		                                    : sympages_strings(pages, number - k->map->code_count);
		atomic_fetch_add(&k->raw_bytes, ((struct page *)checked(*slot))->len);
	}
	atomic_fetch_add(&k->lines, counts.lines);
	atomic_fetch_add(&k->inlines, counts.inlines);
	atomic_fetch_add(&k->damaged, counts.damaged);
	sympages_free(pages);
	return NULL;
}

static void choose_order(struct making *k, uint64_t shuffle)
{
	uint32_t count = k->map->code_count + k->map->string_count;
	k->order = checked(malloc((count + 1) * sizeof *k->order));
	for (uint32_t i = 0; i < count; i++)
		k->order[i] = i;
	for (uint32_t i = count; shuffle && i > 1; i--) {
		shuffle = shuffle * UINT64_C(6364136223846793005) + 1442695040888963407;
		uint32_t j = (uint32_t)(shuffle >> 33) % i, swap = k->order[j];
		k->order[j] = k->order[i - 1];
		k->order[i - 1] = swap;
	}
}

static struct offmap *make_all(
        const struct symindex *x, const struct symspans *s, const struct symtext *text, const struct indexed_how *how)
{
	struct making k = {.index = x, .spans = s, .text = text, .map = checked(sympages_map(x, s))};
	pthread_t threads[THREADS_MAX];
	unsigned n = how->threads < THREADS_MAX ? how->threads : THREADS_MAX;
	choose_order(&k, how->shuffle);
	for (unsigned i = 1; i < n; i++)
		if (pthread_create(&threads[i], NULL, make_pages, &k))
			die("no thread");
	make_pages(&k);
	for (unsigned i = 1; i < n; i++)
		pthread_join(threads[i], NULL);
	struct sympages *pages = checked(sympages_new(x, s, text));
	struct sympages_counts rest = {0};
	if (!sympages_count_rest(pages, &rest))
		die("no memory");
	sympages_free(pages);
	k.map->lines = k.lines + rest.lines;
	k.map->inlines = k.inlines + rest.inlines;
	k.map->damaged += k.damaged + rest.damaged;
	k.map->raw_bytes = k.raw_bytes;
	free(k.order);
	return k.map;
}

/* NULL: corrupt. */
static struct symindex *read_index(struct str text, struct str id, size_t chunk, struct error *e)
{
	struct symindex *x = checked(symindex_new(id));
	enum err err = ERR_OK;
	for (size_t at = 0, n; at < text.len && !err; at += n) {
		n = !chunk || text.len - at < chunk ? text.len - at : chunk;
		/* in a block of its own size, so that a read behind it is seen */
		uint8_t *exact = checked(malloc(n));
		memcpy(exact, text.data + at, n);
		err = symindex_feed(x, exact, n, e);
		free(exact);
	}
	if (!err)
		err = symindex_finish(x, e);
	if (err && err != ERR_CORRUPT)
		die("no memory");
	if (!err)
		return x;
	symindex_free(x);
	return NULL;
}

struct offmap *indexed_map(struct str text, struct str id, const struct indexed_how *how, struct error *e)
{
	struct symindex *x = read_index(text, id, how->chunk, e);
	struct blocks blocks;
	if (!x)
		return NULL;
	make_blocks(&blocks, text, how->block ? how->block : text.len);
	struct symtext source = {get_from_blocks, &blocks};
	struct symspans *s = checked(symspans_new(x, &source, how->nearest, how->page_text, NULL, NULL, NULL));
	struct offmap *map =
	        how->threads || how->shuffle ? make_all(x, s, &source, how) : checked(sympages_all(x, s, &source));
	symspans_free(s);
	symindex_free(x);
	free_blocks(&blocks);
	return map;
}
