/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/die_ranges.h"

#include <dwarf.h>

/* A header with the number of lists precedes their offsets, which count from its end. */
static uint64_t list_offset(const struct die_unit *u, uint64_t index)
{
	struct str s = u->skeleton->ranges;
	uint64_t header = u->offset_size == 8 ? 20 : 12;
	struct reader r = reader_at(s, header + index * u->offset_size);
	uint64_t offset = read_fixed(&r, u->offset_size, u->big);
	return r.bad || index > s.len ? s.len : header + offset;
}

struct die_ranges die_ranges_of(const struct die_unit *u, const Dwarf_Attribute *a)
{
	struct reader value = {.at = a->valp, .end = u->end};
	uint64_t offset = a->form == DW_FORM_rnglistx ? list_offset(u, reader_varint(&value))
	                  : a->form == DW_FORM_data4  ? read_fixed(&value, 4, u->big)
	                                              : read_fixed(&value, u->offset_size, u->big);
	return (struct die_ranges){u, reader_at(u->skeleton->ranges, offset), u->skeleton->base};
}

static uint64_t address(struct die_ranges *l)
{
	return read_fixed(&l->r, l->u->address_size, l->u->big);
}

/* By its number in .debug_addr. */
static uint64_t indexed(struct die_ranges *l)
{
	uint64_t index = reader_varint(&l->r), size = l->u->address_size;
	struct str s = l->u->skeleton->addresses;
	struct reader r = reader_at(s, index < s.len ? index * size : s.len);
	uint64_t v = read_fixed(&r, (unsigned)size, l->u->big);
	l->r.bad |= r.bad;
	return v;
}

/* Pairs, relative to the base. The largest address announces a new base, and two zeros are the end. */
static bool next_old(struct die_ranges *l, uint64_t *start, uint64_t *end)
{
	uint64_t largest = l->u->address_size == 4 ? UINT32_MAX : UINT64_MAX;
	for (;;) {
		*start = address(l);
		*end = address(l);
		if (l->r.bad || (*start == 0 && *end == 0))
			return false;
		if (*start != largest)
			break;
		l->base = *end;
	}
	*start += l->base;
	*end += l->base;
	return true;
}

bool die_ranges_next(struct die_ranges *l, uint64_t *start, uint64_t *end)
{
	if (l->u->address_size != 4 && l->u->address_size != 8)
		return false;
	if (l->u->version < 5)
		return next_old(l, start, end);
	while (!l->r.bad) {
		switch (read_fixed(&l->r, 1, l->u->big)) {
		case DW_RLE_base_addressx:
			l->base = indexed(l);
			continue;
		case DW_RLE_base_address:
			l->base = address(l);
			continue;
		case DW_RLE_startx_endx:
			*start = indexed(l);
			*end = indexed(l);
			break;
		case DW_RLE_startx_length:
			*start = indexed(l);
			*end = *start + reader_varint(&l->r);
			break;
		case DW_RLE_offset_pair:
			*start = l->base + reader_varint(&l->r);
			*end = l->base + reader_varint(&l->r);
			break;
		case DW_RLE_start_end:
			*start = address(l);
			*end = address(l);
			break;
		case DW_RLE_start_length:
			*start = address(l);
			*end = *start + reader_varint(&l->r);
			break;
		default:
			return false;
		}
		return !l->r.bad;
	}
	return false;
}
