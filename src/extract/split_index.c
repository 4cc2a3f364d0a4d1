/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a package of split units (.dwp) tells which bytes of its sections belong to a unit. */
#include <config.h>

#include "extract/dwarf_bytes.h"
#include "extract/split.h"

enum { HEADER = 16, COLUMNS_MAX = 16 };

static uint64_t table_number(const struct split_index *x, uint64_t at, unsigned size, bool big)
{
	struct reader r = reader_at(x->table, at);
	return read_fixed(&r, size, big);
}

/* A header, the ids of a hash table, the rows that belong to them, the columns, offsets by rows, lengths by rows. */
void split_index_read(struct split_index *x, struct str section, bool big)
{
	*x = (struct split_index){.table = section};
	uint64_t version = table_number(x, 0, 4, big) == 2 ? 2 : table_number(x, 0, 2, big);
	uint64_t columns = table_number(x, 4, 4, big), units = table_number(x, 8, 4, big),
	         slots = table_number(x, 12, 4, big);
	if (section.len < HEADER || (version != 2 && version != 5) || columns > COLUMNS_MAX || slots == 0 ||
	        slots & (slots - 1))
		return;
	if (slots > section.len / 12 || units > section.len / 4 ||
	        HEADER + slots * 12 + columns * 4 + units * columns * 8 > section.len)
		return;
	x->version = (unsigned)version;
	x->columns = (uint32_t)columns;
	x->units = (uint32_t)units;
	x->slots = (uint32_t)slots;
}

/* The row of a unit, counted from 1; 0: there is none. */
static uint64_t find_row(const struct split_index *x, uint64_t id, bool big)
{
	uint64_t mask = x->slots - 1, at = id & mask, step = (id >> 32 & mask) | 1;
	for (uint32_t i = 0; i < x->slots; i++, at = (at + step) & mask) {
		uint64_t row = table_number(x, HEADER + (uint64_t)x->slots * 8 + at * 4, 4, big);
		if (row == 0 || row > x->units)
			return 0;
		if (table_number(x, HEADER + at * 8, 8, big) == id)
			return row;
	}
	return 0;
}

/* The part of a column's number; -1: one that is not needed. 8 is another one in version 2. */
static int part_of(uint64_t column, unsigned version)
{
	static const int parts[] = {-1, SPLIT_INFO, -1, SPLIT_ABBREV, -1, -1, SPLIT_STR_OFFSETS, -1, SPLIT_RNGLISTS};
	return column < (version == 5 ? 9 : 8) ? parts[column] : -1;
}

bool split_index_find(const struct split_index *x, uint64_t id, bool big, const struct str whole[SPLIT_PARTS],
        struct str parts[SPLIT_PARTS])
{
	uint64_t row = x->version ? find_row(x, id, big) : 0;
	uint64_t columns = HEADER + (uint64_t)x->slots * 12, cells = columns + (uint64_t)x->columns * 4;
	if (row == 0)
		return false;
	for (int i = 0; i < SPLIT_PARTS; i++)
		parts[i] = (struct str){"", 0};
	parts[SPLIT_STR] = whole[SPLIT_STR]; /* the units share it */
	for (uint64_t i = 0; i < x->columns; i++) {
		int part = part_of(table_number(x, columns + i * 4, 4, big), x->version);
		uint64_t offset = table_number(x, cells + ((row - 1) * x->columns + i) * 4, 4, big);
		uint64_t len = table_number(x, cells + ((x->units + row - 1) * x->columns + i) * 4, 4, big);
		if (part < 0)
			continue;
		if (offset > whole[part].len || len > whole[part].len - offset)
			return false;
		parts[part] = (struct str){whole[part].data + offset, (size_t)len};
	}
	return parts[SPLIT_INFO].len > 0;
}
