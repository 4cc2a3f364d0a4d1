/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: one symbfile, in pieces or as a whole, gives one map; and what that map answers at and around each record
 * is what the records say, by a scan over all of them. */
#include <config.h>

#include "base/arena.h"
#include "fuzz.h"
#include "map/read.h"
#include "symbfile/map.h"

typedef unsigned __int128 position;

enum { RECORDS_MAX = 64, FRAMES_MAX = 10000 };

/* What the scan needs of the records; the texts are not kept. */
struct record_set {
	struct {
		uint64_t va, length;
		uint32_t depth;
	} ranges[RECORDS_MAX];
	struct {
		uint64_t va;
		size_t count;
	} pads[RECORDS_MAX];
	size_t range_count, pad_count;
	bool too_many;
	struct symbfile_sink next;
};

static enum err see_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	struct record_set *all = arg;
	all->too_many = all->too_many || all->range_count == RECORDS_MAX;
	if (!all->too_many) {
		all->ranges[all->range_count].va = r->va;
		all->ranges[all->range_count].length = r->length;
		all->ranges[all->range_count++].depth = r->depth;
	}
	return all->next.range(all->next.arg, r, e);
}

static enum err see_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	struct record_set *all = arg;
	all->too_many = all->too_many || all->pad_count == RECORDS_MAX;
	if (!all->too_many) {
		all->pads[all->pad_count].va = p->va;
		all->pads[all->pad_count++].count = p->count;
	}
	return all->next.pad(all->next.arg, p, e);
}

static struct offmap *build(const uint8_t *data, size_t size, size_t chunk, struct record_set *all)
{
	static const struct offmap_options options = {.memory_max = 0};
	struct error e;
	struct offmap *map = NULL;
	enum err err = ERR_OK;
	*all = (struct record_set){.range_count = 0};
	struct symbfile_map *m = symbfile_map_new(&options);
	fuzz_check(m, "no memory");
	all->next = symbfile_map_sink(m);
	struct symbfile_sink sink = {see_range, see_pad, all};
	struct symbfile_reader *r = symbfile_reader_new(&sink);
	fuzz_check(r, "no memory");
	for (size_t at = 0, n; at < size && !err; at += n) {
		n = size - at < chunk ? size - at : chunk;
		err = symbfile_reader_feed(r, data + at, n, &e);
	}
	if (!err)
		err = symbfile_reader_finish(r, &e);
	fuzz_check(!err || err == ERR_CORRUPT, "another error");
	/* also of what came before the damage */
	fuzz_check(symbfile_map_all(m, &map) == ERR_OK, "no map");
	symbfile_reader_free(r);
	symbfile_map_free(m);
	return map;
}

static bool covers(const struct record_set *all, size_t i, uint64_t address)
{
	return all->ranges[i].va <= address && address - all->ranges[i].va < all->ranges[i].length;
}

/* How many frames an address has: one for each depth that covers, or those of the last return pad. */
static size_t frames_at(const struct record_set *all, uint64_t address)
{
	size_t count = 0;
	for (size_t i = all->pad_count; i--;)
		if (all->pads[i].va == address && all->pads[i].count)
			return all->pads[i].count;
	for (size_t i = 0; i < all->range_count; i++) {
		bool first = covers(all, i, address);
		for (size_t k = 0; k < i && first; k++)
			first = !covers(all, k, address) || all->ranges[k].depth != all->ranges[i].depth;
		count += first;
	}
	return count;
}

static void check_string(const struct offmap *m, const struct page *p, struct offmap_string s)
{
	if (s.external) {
		int64_t page = offmap_string_page(m, s.external);
		fuzz_check(page >= 0, "no page has the string");
		p = m->strings[page];
		fuzz_check(offmap_string_lookup(p, s.external, &s) == ERR_OK, "a string is missing");
	}
	fuzz_check(!s.len || (s.data >= p->bytes && s.data + s.len <= p->bytes + p->len), "a string outside its page");
}

static void check_address(const struct offmap *m, const struct record_set *all, uint64_t address)
{
	struct arena arena;
	struct offmap_answer a = {.found = false};
	int64_t page = offmap_code_page(m, address);
	arena_init(&arena, 1 << 26);
	fuzz_check(page < 0 || offmap_lookup(m->code[page], address, &arena, &a) == ERR_OK, "a page is not sound");
	size_t want = frames_at(all, address), got = a.found ? a.inline_count + (size_t)1 : 0;
	fuzz_check(want == got || want > FRAMES_MAX, "another number of frames");
	if (a.found) {
		check_string(m, m->code[page], a.frame.function);
		check_string(m, m->code[page], a.frame.file);
	}
	for (uint32_t i = 0; a.found && i < a.inline_count; i++) {
		check_string(m, m->code[page], a.inlines[i].function);
		check_string(m, m->code[page], a.inlines[i].file);
	}
	arena_release(&arena);
}

static void check_around(const struct offmap *m, const struct record_set *all, uint64_t address)
{
	check_address(m, all, address - 1);
	check_address(m, all, address);
	check_address(m, all, address + 1);
}

static void check_same(const struct offmap *a, const struct offmap *b)
{
	fuzz_check(a->code_count == b->code_count && a->string_count == b->string_count, "other pages in pieces");
	for (uint32_t i = 0; i < a->code_count; i++)
		fuzz_check(a->code[i]->len == b->code[i]->len &&
		                   memcmp(a->code[i]->bytes, b->code[i]->bytes, a->code[i]->len) == 0,
		        "another code page in pieces");
	for (uint32_t i = 0; i < a->string_count; i++)
		fuzz_check(a->strings[i]->len == b->strings[i]->len &&
		                   memcmp(a->strings[i]->bytes, b->strings[i]->bytes, a->strings[i]->len) == 0,
		        "another string page in pieces");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct record_set all, pieces;
	struct offmap *m = build(data, size, SIZE_MAX, &all), *other = build(data, size, size % 17 + 1, &pieces);
	fuzz_check(
	        all.range_count == pieces.range_count && all.pad_count == pieces.pad_count, "other records in pieces");
	check_same(m, other);
	for (size_t i = 0; !all.too_many && i < all.range_count; i++) {
		check_around(m, &all, all.ranges[i].va);
		check_around(m, &all, all.ranges[i].va + all.ranges[i].length);
	}
	for (size_t i = 0; !all.too_many && i < all.pad_count; i++)
		check_around(m, &all, all.pads[i].va);
	offmap_free(m);
	offmap_free(other);
	return 0;
}
