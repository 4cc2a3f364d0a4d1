/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: the index of a package of split units, and lists of ranges: parts lie in their sections, and lists end. */
#include <config.h>

#include "extract/split.h"
#include "fuzz.h"

enum { PART_BYTES = 200, IDS = 16, RANGES_MAX = 1 << 20 };

/* Input: byte order, form and size of addresses in one byte; then the index. */
static void find_units(const struct split_index *x, bool big, const struct str whole[SPLIT_PARTS])
{
	for (uint64_t i = 0; i < IDS && i < x->slots; i++) {
		struct str parts[SPLIT_PARTS];
		struct reader r = reader_at(x->table, 16 + i * 8);
		uint64_t id = read_fixed(&r, 8, big);
		if (!split_index_find(x, id, big, whole, parts))
			continue;
		fuzz_check(parts[SPLIT_INFO].len > 0, "a unit of nothing");
		for (int k = 0; k < SPLIT_PARTS; k++)
			fuzz_check(parts[k].len == 0 ||
			                   (parts[k].data >= whole[k].data &&
			                           parts[k].data + parts[k].len <= whole[k].data + whole[k].len),
			        "a part outside its section");
	}
}

/* The same bytes as lists of ranges and as the addresses of these. */
static void read_ranges(struct str s, uint8_t flags)
{
	static const unsigned sizes[] = {4, 8, 2, 1};
	struct skeleton skeleton = {.base = 0x1000, .addresses = s, .ranges = s};
	struct die_unit u = {.skeleton = &skeleton,
	        .version = flags & 2 ? 5 : 4,
	        .address_size = sizes[flags >> 2 & 3],
	        .offset_size = flags & 16 ? 8 : 4,
	        .big = flags & 1};
	u.start = (const uint8_t *)s.data;
	u.end = u.start + s.len;
	static const unsigned forms[] = {0x17, 0x23, 0x06}; /* offset, number of a list, 4 bytes */
	for (size_t i = 0; i < 3; i++) {
		Dwarf_Attribute a = {.code = 0x55, .form = forms[i], .valp = (unsigned char *)(uintptr_t)u.start};
		struct die_ranges list = die_ranges_of(&u, &a);
		uint64_t start, end;
		size_t n = 0;
		while (die_ranges_next(&list, &start, &end))
			fuzz_check(++n <= s.len, "more ranges than bytes");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	uint8_t *copy = fuzz_copy(data + 1, size - 1);
	struct str s = {(const char *)copy, size - 1}, whole[SPLIT_PARTS];
	static const char bytes[PART_BYTES];
	bool big = data[0] & 1;
	struct split_index x;
	for (int i = 0; i < SPLIT_PARTS; i++)
		whole[i] = (struct str){bytes, sizeof bytes};
	split_index_read(&x, s, big);
	find_units(&x, big, whole);
	read_ranges(s, data[0]);
	free(copy);
	return 0;
}
