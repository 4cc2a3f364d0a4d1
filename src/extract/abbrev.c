/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/abbrev.h"

#include <dwarf.h>
#include <stdlib.h>

#include "base/array.h"
#include "extract/elf_file.h"

void abbrev_table_release(struct abbrev_table *t)
{
	free(t->items);
	free(t->attrs);
	map64_release(&t->by_code);
	*t = (struct abbrev_table){0};
}

enum err abbrev_table_open(
        struct abbrev_table *t, Dwarf *dwarf, uint64_t offset, const struct die_unit *u, struct error *e)
{
	if (t->dwarf != dwarf) {
		t->dwarf = dwarf;
		t->section = elf_section_bytes(dwarf_getelf(dwarf), ".debug_abbrev");
	}
	if (offset >= t->section.len)
		return error_set(
		        e, ERR_CORRUPT, "abbreviations at 0x%llx: outside .debug_abbrev", (unsigned long long)offset);
	const uint8_t *start = (const uint8_t *)t->section.data + offset;
	unsigned version = u->version == 2 ? 2 : 3; /* the size of a reference is another in version 2 */
	if (t->start == start && t->address_size == u->address_size && t->offset_size == u->offset_size &&
	        t->version == version)
		return ERR_OK;
	t->count = t->attr_count = 0;
	if (t->by_code.count > 0)
		map64_release(&t->by_code);
	t->start = start;
	t->rest = (struct reader){.at = start, .end = (const uint8_t *)t->section.data + t->section.len};
	t->address_size = u->address_size;
	t->offset_size = u->offset_size;
	t->version = version;
	return ERR_OK;
}

/* The bytes of values by the number of their form (DWARF 5, 7.5.6), which many forms alone do not tell. */
enum { DEPENDS = -1, ADDRESS = -2, OFFSET = -3, REFERENCE = -4 };
static const int8_t sizes[] = {
        /* 0x00 */ DEPENDS, ADDRESS, DEPENDS, DEPENDS, DEPENDS, 2, 4, 8,
        /* 0x08 */ DEPENDS, DEPENDS, DEPENDS, 1, 1, DEPENDS, OFFSET, DEPENDS,
        /* 0x10 */ REFERENCE, 1, 2, 4, 8, DEPENDS, DEPENDS, OFFSET,
        /* 0x18 */ DEPENDS, 0, DEPENDS, DEPENDS, 4, OFFSET, 16, OFFSET,
        /* 0x20 */ 8, 0, DEPENDS, DEPENDS, 8, 1, 2, 3,
        /* 0x28 */ 4, 1, 2, 3, 4};

/* -1: it depends. */
static int form_size(uint64_t form, unsigned version, unsigned address_size, unsigned offset_size)
{
	int size = form < sizeof sizes                                           ? sizes[form]
	           : form == DW_FORM_GNU_ref_alt || form == DW_FORM_GNU_strp_alt ? OFFSET
	                                                                         : DEPENDS;
	if (size >= DEPENDS)
		return size;
	return (int)(size == ADDRESS || (size == REFERENCE && version == 2) ? address_size : offset_size);
}

void form_skip(struct reader *r, uint64_t form, unsigned version, unsigned address_size, unsigned offset_size, bool big)
{
	int size = form_size(form, version, address_size, offset_size);
	if (size >= 0) {
		read_skip(r, (uint64_t)size);
		return;
	}
	switch (form) {
	case DW_FORM_block1:
		read_skip(r, read_fixed(r, 1, big));
		break;
	case DW_FORM_block2:
		read_skip(r, read_fixed(r, 2, big));
		break;
	case DW_FORM_block4:
		read_skip(r, read_fixed(r, 4, big));
		break;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		read_skip(r, reader_varint(r));
		break;
	case FORM_LLVM_ADDRX_OFFSET:
		reader_varint(r);
		read_skip(r, 4);
		break;
	case DW_FORM_string:
		read_text(r);
		break;
	case DW_FORM_sdata:
		read_sleb(r);
		break;
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		reader_varint(r);
		break;
	default:
		r->bad = true;
	}
}

/* Name and form in pairs up to a pair of zeros. */
static bool read_attrs(struct abbrev_table *t, struct abbrev *a)
{
	a->first = t->attr_count;
	while (!t->rest.bad) {
		uint64_t name = reader_varint(&t->rest), form = reader_varint(&t->rest);
		struct abbrev_attr attr = {.name = (uint32_t)name, .form = (uint32_t)form, .constant = t->rest.at};
		if (name == 0 && form == 0)
			break;
		if (name > UINT32_MAX || form > UINT32_MAX)
			return false;
		if (form == DW_FORM_implicit_const)
			read_sleb(&t->rest);
		attr.size = form_size(form, t->version, t->address_size, t->offset_size);
		a->size = attr.size < 0 || a->size < 0 ? -1 : a->size + attr.size;
		if (!array_append(&t->attrs, &t->attr_cap, &t->attr_count, &attr, sizeof attr))
			return false;
	}
	a->count = t->attr_count - a->first;
	return !t->rest.bad;
}

/* Reads the next abbreviation and returns its code; 0 at the end of the table, and where the table is broken. */
static uint64_t read_one(struct abbrev_table *t)
{
	if (!array_reserve(&t->items, &t->cap, t->count + 1, sizeof *t->items))
		return 0;
	uint64_t code = reader_varint(&t->rest);
	struct abbrev a = {.tag = (uint32_t)reader_varint(&t->rest)};
	a.children = read_fixed(&t->rest, 1, false) != 0;
	if (code == 0 || !read_attrs(t, &a)) {
		t->rest.at = t->rest.end;
		return 0;
	}
	a.code = code;
	t->items[t->count++] = a;
	if (code != t->count && !map64_get(&t->by_code, code) && !map64_put(&t->by_code, code, t->count))
		return 0;
	return code;
}

/* Nearly all compilers count codes up from 1; then the code is the index. */
static const struct abbrev *find_read(const struct abbrev_table *t, uint64_t code)
{
	if (code > 0 && code <= t->count && t->items[code - 1].code == code)
		return &t->items[code - 1];
	uint64_t at = map64_get(&t->by_code, code);
	return at > 0 ? &t->items[at - 1] : NULL;
}

const struct abbrev *abbrev_find(struct abbrev_table *t, uint64_t code)
{
	const struct abbrev *found;
	while (!(found = find_read(t, code)) && t->rest.at < t->rest.end)
		if (read_one(t) == 0)
			return NULL;
	return found;
}
