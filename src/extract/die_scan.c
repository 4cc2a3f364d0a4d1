/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/die_scan.h"

#include <dwarf.h>

#include "extract/abbrev.h"
#include "extract/elf_file.h"

static enum err corrupt(const struct die_unit *u, const uint8_t *at, struct error *e)
{
	Dwarf_Die die = die_handle(u, at);
	return error_set(e, ERR_CORRUPT, "debug entry at 0x%llx: malformed", (unsigned long long)dwarf_dieoffset(&die));
}

/* Where the section ends that a unit is in. */
static const uint8_t *section_end(Dwarf *dwarf, const uint8_t *unit)
{
	static const char *const names[] = {".debug_info", ".debug_types"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct str s = elf_section_bytes(dwarf_getelf(dwarf), names[i]);
		const uint8_t *begin = (const uint8_t *)s.data;
		if (s.len > 0 && unit >= begin && unit < begin + s.len)
			return begin + s.len;
	}
	return NULL;
}

/* What libdw does not say about a unit is in its header. libdw has checked it, but not that the unit ends within its
 * section: libdw itself reads a longer one up to there. */
static bool read_header(struct die_unit *u, Dwarf *dwarf, uint64_t *abbrev_offset)
{
	Dwarf_Off start = dwarf_dieoffset(&u->root) - dwarf_cuoffset(&u->root), next;
	Dwarf_Half version;
	Dwarf_Off abbrevs;
	uint8_t address_size, offset_size;
	if (dwarf_next_unit(dwarf, start, &next, NULL, &version, &abbrevs, &address_size, &offset_size, NULL, NULL) !=
	        0)
		return false;
	u->start = (const uint8_t *)u->root.addr - dwarf_cuoffset(&u->root);
	u->end = section_end(dwarf, u->start);
	if (!u->end || next <= start)
		return false;
	if (next - start < (uint64_t)(u->end - u->start))
		u->end = u->start + (next - start);
	u->version = version;
	u->address_size = address_size;
	u->offset_size = offset_size;
	*abbrev_offset = abbrevs;
	return true;
}

enum err die_unit_open(struct die_unit *u, const Dwarf_Die *root, struct abbrev_table *abbrevs, struct error *e)
{
	Dwarf *dwarf = dwarf_cu_getdwarf(root->cu);
	uint64_t offset;
	*u = (struct die_unit){.root = *root, .abbrevs = abbrevs};
	u->big = elf_is_big(dwarf_getelf(dwarf));
	if (!read_header(u, dwarf, &offset))
		return error_set(e, ERR_CORRUPT, "a unit header cannot be read");
	return abbrev_table_open(abbrevs, dwarf, offset, u, e);
}

/* Skips the value of an attribute and returns its form. An indirect form stands before the value; only one level, since
 * more are never written. *value is where the value begins. */
static uint64_t skip_value(
        const struct die_unit *u, struct reader *r, const struct abbrev_attr *attr, const uint8_t **value)
{
	uint64_t form = attr->form == DW_FORM_indirect ? reader_varint(r) : attr->form;
	*value = r->at;
	if (attr->size >= 0)
		read_skip(r, (uint64_t)attr->size);
	else
		form_skip(r, form, u->version, u->address_size, u->offset_size, u->big);
	return form;
}

static bool skip_attrs(const struct die_unit *u, const struct die *d, struct reader *r)
{
	if (d->abbrev->size >= 0) {
		read_skip(r, (uint64_t)d->abbrev->size);
		return !r->bad;
	}
	const struct abbrev_attr *attrs = u->abbrevs->attrs + d->abbrev->first;
	const uint8_t *value;
	for (size_t i = 0; i < d->abbrev->count && !r->bad; i++)
		skip_value(u, r, &attrs[i], &value);
	return !r->bad;
}

enum err die_next(const struct die_unit *u, struct die *d, struct error *e)
{
	struct reader r = {.at = d->at ? d->attrs : u->root.addr, .end = u->end};
	if (d->abbrev && !skip_attrs(u, d, &r))
		return corrupt(u, d->at, e);
	if (r.at >= u->end)
		return ERR_MISSING;
	d->at = r.at;
	uint64_t code = reader_varint(&r);
	d->attrs = r.at;
	d->abbrev = code > 0 && !r.bad ? abbrev_find(u->abbrevs, code) : NULL;
	return r.bad || (code > 0 && !d->abbrev) ? corrupt(u, d->at, e) : ERR_OK;
}

struct die_attrs die_attributes(const struct die_unit *u, const struct die *d)
{
	const struct abbrev_attr *first = u->abbrevs->attrs + d->abbrev->first;
	return (struct die_attrs){{.at = d->attrs, .end = u->end}, first, first + d->abbrev->count};
}

bool die_attr_next(const struct die_unit *u, struct die_attrs *i, Dwarf_Attribute *a)
{
	if (i->next == i->end || i->r.bad)
		return false;
	const struct abbrev_attr *attr = i->next++;
	const uint8_t *value;
	uint64_t form = skip_value(u, &i->r, attr, &value);
	if (form == DW_FORM_implicit_const)
		value = attr->constant;
	/* libdw has no const here, but writes nothing. */
	*a = (Dwarf_Attribute){attr->name, (unsigned)form, (unsigned char *)(uintptr_t)value, u->root.cu};
	return !i->r.bad;
}

Dwarf_Die die_handle(const struct die_unit *u, const uint8_t *at)
{
	return (Dwarf_Die){.addr = (void *)(uintptr_t)at, .cu = u->root.cu};
}
