/* SPDX-License-Identifier: Apache-2.0 */
/* Range lists of a unit in a split file. They are relative to what its skeleton says, which libdw does not know. */
#ifndef EXTRACT_DIE_RANGES_H
#define EXTRACT_DIE_RANGES_H

#include "extract/die_scan.h"

/* What the skeleton of a unit knows. */
struct skeleton {
	uint64_t base;        /* address of its code */
	struct str addresses; /* of .debug_addr, from the unit's part on */
	struct str ranges;    /* of .debug_rnglists, or (GNU's form, DWARF 4) .debug_ranges */
};

struct die_ranges {
	const struct die_unit *u;
	struct reader r;
	uint64_t base;
};

/* a is DW_AT_ranges of an entry of u, which has a skeleton. */
struct die_ranges die_ranges_of(const struct die_unit *u, const Dwarf_Attribute *a);
/* False: no more, or malformed. */
bool die_ranges_next(struct die_ranges *l, uint64_t *start, uint64_t *end);

#endif
