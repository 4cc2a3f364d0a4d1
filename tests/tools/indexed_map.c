/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "indexed_map.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "records/pages.h"
#include "sym/reader.h"

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

/* ---- pages ---- */

struct making {
	const struct records *records;
	const struct symspans *spans;
	struct offmap *map;
	uint32_t *order; /* code pages first */
	atomic_uint next;
	atomic_ullong raw_bytes;
};

static void *make_pages(void *arg)
{
	struct making *k = arg;
	struct sympages *pages = checked(sympages_new(k->records, k->spans));
	uint32_t count = k->map->code_count + k->map->string_count, i;
	while ((i = atomic_fetch_add(&k->next, 1)) < count) {
		uint32_t number = k->order[i];
		struct page **slot = number < k->map->code_count ? &k->map->code[number]
		                                                 : &k->map->strings[number - k->map->code_count];
		*slot = number < k->map->code_count ? sympages_code(pages, number)
		                                    : sympages_strings(pages, number - k->map->code_count);
		atomic_fetch_add(&k->raw_bytes, ((struct page *)checked(*slot))->len);
	}
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

/* Completes the map by its pages. */
static void make_all(
        const struct records *x, const struct symspans *s, struct offmap *map, const struct indexed_how *how)
{
	struct making k = {.records = x, .spans = s, .map = map};
	pthread_t threads[THREADS_MAX];
	unsigned n = how->threads < THREADS_MAX ? how->threads : THREADS_MAX;
	choose_order(&k, how->shuffle);
	for (unsigned i = 1; i < n; i++)
		if (pthread_create(&threads[i], NULL, make_pages, &k))
			die("no thread");
	make_pages(&k);
	for (unsigned i = 1; i < n; i++)
		pthread_join(threads[i], NULL);
	map->raw_bytes = k.raw_bytes;
	free(k.order);
}

/* NULL: corrupt. */
static struct symreader *read_all(struct str text, struct str id, const struct indexed_how *how, struct error *e)
{
	struct symreader *x = checked(symreader_new(id, how->page_text));
	enum err err = ERR_OK;
	for (size_t at = 0, n; at < text.len && !err; at += n) {
		n = !how->chunk || text.len - at < how->chunk ? text.len - at : how->chunk;
		/* in a block of its own size, so that a read behind it is seen */
		uint8_t *exact = checked(malloc(n));
		memcpy(exact, text.data + at, n);
		err = symreader_feed(x, exact, n, e);
		free(exact);
	}
	if (!err)
		err = symreader_finish(x, e);
	if (err && err != ERR_CORRUPT)
		die("no memory");
	if (!err)
		return x;
	symreader_free(x);
	return NULL;
}

struct offmap *indexed_map(struct str text, struct str id, const struct indexed_how *how, struct error *e)
{
	struct symreader *x = read_all(text, id, how, e);
	if (!x)
		return NULL;
	struct symspans *s = checked(symspans_new(x->records, how->nearest));
	const bool all = !how->threads && !how->shuffle;
	struct offmap *map = checked(
	        (all ? sympages_all : sympages_map)(x->records, s, (struct str){x->code_file, x->code_file_len}));
	memcpy(map->code_id, x->code_id, sizeof map->code_id);
	map->generation = x->generation;
	map->damaged = x->damaged;
	map->text_bytes = x->text_bytes;
	if (!all)
		make_all(x->records, s, map, how);
	symspans_free(s);
	symreader_free(x);
	return map;
}
