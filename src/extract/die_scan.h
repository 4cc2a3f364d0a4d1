/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over the debug entries of a unit in the order of the bytes.
 * libdw steps from an entry to its sibling by reading everything below it, once for each level. Here each entry is read
 * once; libdw interprets the attributes. */
#ifndef EXTRACT_DIE_SCAN_H
#define EXTRACT_DIE_SCAN_H

#include <elfutils/libdw.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/map64.h"
#include "extract/dwarf_bytes.h"

struct abbrev_attr {
	uint32_t name, form;
	int size;                /* bytes of the value, -1: it depends */
	const uint8_t *constant; /* of an implicit constant, as signed LEB128 */
};

struct abbrev {
	uint64_t code;
	uint32_t tag;
	bool children;
	size_t first, count; /* attributes */
	int64_t size;        /* bytes of all attributes, -1: it depends */
};

/* The abbreviations of a unit, or of all units that share them; read when a unit needs them. */
struct abbrev_table {
	Dwarf *dwarf; /* whose .debug_abbrev section is */
	struct str section;
	struct reader rest; /* not read yet */
	const uint8_t *start;
	struct abbrev *items;
	struct abbrev_attr *attrs;
	size_t count, attr_count;
	uint32_t cap, attr_cap;
	struct map64 by_code; /* index + 1 into items, of codes that are not that themselves */
	unsigned version, address_size, offset_size;
};

/* A cleared one is empty. */
void abbrev_table_release(struct abbrev_table *t);

struct skeleton;

struct die_unit {
	Dwarf_Die root;
	const struct skeleton *skeleton; /* of a unit of a split file; NULL: it is whole */
	const uint8_t *start, *end;      /* of the unit, its header included */
	struct abbrev_table *abbrevs;
	unsigned version, address_size, offset_size;
	bool big;
};

/* Where a scan is. */
struct die {
	const uint8_t *at;           /* as Dwarf_Die.addr; NULL before the first one */
	const uint8_t *attrs;        /* its first attribute */
	const struct abbrev *abbrev; /* NULL: it ends the children of one before */
};

/* Prepares a unit for scanning. abbrevs is kept between units, and used again if they share a table.
 * ERR_CORRUPT, ERR_NO_MEMORY. */
enum err die_unit_open(struct die_unit *u, const Dwarf_Die *root, struct abbrev_table *abbrevs, struct error *e);
/* Steps to the next entry. ERR_MISSING: the unit is at its end. */
enum err die_next(const struct die_unit *u, struct die *d, struct error *e);

/* The attributes of an entry, in order. */
struct die_attrs {
	struct reader r;
	const struct abbrev_attr *next, *end;
};

struct die_attrs die_attributes(const struct die_unit *u, const struct die *d);
/* Fills a, by which libdw gives the value. False: no more. */
bool die_attr_next(const struct die_unit *u, struct die_attrs *i, Dwarf_Attribute *a);
/* LLVM's two forms of an address in .debug_addr plus an offset, which libdw does not know: a form of its own, and an
 * expression. */
enum { FORM_LLVM_ADDRX_OFFSET = 0x2001 };
/* The address that an attribute gives, in whatever form. False: it is none. */
bool die_address(const struct die_unit *u, Dwarf_Attribute *a, Dwarf_Addr *address);
/* The entry for libdw. */
Dwarf_Die die_handle(const struct die_unit *u, const uint8_t *at);

#endif
