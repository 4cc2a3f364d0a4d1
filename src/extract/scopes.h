/* SPDX-License-Identifier: Apache-2.0 */
/* The namespaces and classes that the entries of a unit are in, and the functions that such classes are in. */
#ifndef EXTRACT_SCOPES_H
#define EXTRACT_SCOPES_H

#include <stddef.h>
#include <stdint.h>

#include "extract/die_scan.h"

enum { SCOPE_NONE = -1 };

struct scope {
	const uint8_t *die;
	ptrdiff_t parent; /* index, or SCOPE_NONE */
	bool function;
	struct str name; /* of its user; data NULL: not looked up yet */
};

/* From at on entries are in scope. */
struct scope_change {
	const uint8_t *at;
	ptrdiff_t scope;
};

struct scopes {
	struct scopes *next;
	struct die_unit unit; /* its abbreviations are gone */
	struct scope *items;
	struct scope_change *changes;
	size_t count, change_count;
	uint32_t cap, change_cap;
};

/* Scans the unit of root. s is cleared; it must be freed even after an error. */
enum err scopes_read(struct scopes *s, const Dwarf_Die *root, struct abbrev_table *abbrevs, struct error *e);
void scopes_free(struct scopes *s);
/* The innermost scope around an entry of the unit, or SCOPE_NONE. A function is one for the classes in it alone; in D
 * for the functions in it, too. */
ptrdiff_t scopes_around(const struct scopes *s, const uint8_t *die);

#endif
