/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/scopes.h"

#include <dwarf.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/search.h"
#include "extract/dwarf_bytes.h"

struct open_scope {
	ptrdiff_t scope;
	const uint8_t *function; /* the innermost within that scope, which is no scope yet; NULL: none */
};

/* What is around each entry that is open. */
struct open_scopes {
	bool of_functions;        /* functions are scopes of all that they declare */
	struct open_scope *outer; /* outside of it */
	size_t count;
	uint32_t cap;
	struct open_scope current;
};

static bool is_scope(uint32_t tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type || tag == DW_TAG_union_type || tag == DW_TAG_interface_type ||
	       tag == DW_TAG_enumeration_type;
}

static bool add_change(struct scopes *s, const uint8_t *at, ptrdiff_t scope)
{
	const struct scope_change change = {at, scope};
	return array_append(&s->changes, &s->change_cap, &s->change_count, &change, sizeof change);
}

/* Adds a scope within the current one, and makes it current. */
static bool add_item(struct scopes *s, const uint8_t *die, bool function, struct open_scopes *open)
{
	const struct scope scope = {die, open->current.scope, function, {0}};
	open->current = (struct open_scope){(ptrdiff_t)s->count, NULL};
	return array_append(&s->items, &s->cap, &s->count, &scope, sizeof scope);
}

/* A function is a scope of the classes in it, not of what else it declares; but in D. */
static bool add_scope(struct scopes *s, const struct die *d, struct open_scopes *open)
{
	const uint8_t *function = open->current.function;
	if (function && !add_item(s, function, true, open))
		return false;
	return add_item(s, d->at, false, open) && add_change(s, d->attrs, open->current.scope);
}

/* An entry with children begins. */
static bool enter_scope(struct scopes *s, const struct die *d, struct open_scopes *open)
{
	if (!array_append(&open->outer, &open->cap, &open->count, &open->current, sizeof open->current))
		return false;
	if (d->abbrev->tag == DW_TAG_subprogram && open->of_functions)
		return add_item(s, d->at, true, open) && add_change(s, d->attrs, open->current.scope);
	if (d->abbrev->tag == DW_TAG_subprogram)
		open->current.function = d->at;
	return !is_scope(d->abbrev->tag) || add_scope(s, d, open);
}

static bool leave_scope(struct scopes *s, const struct die *d, struct open_scopes *open)
{
	if (open->count == 0)
		return true;
	struct open_scope outer = open->outer[--open->count];
	bool ok = outer.scope == open->current.scope || add_change(s, d->attrs, outer.scope);
	open->current = outer;
	return ok;
}

enum err scopes_read(struct scopes *s, const Dwarf_Die *root, struct abbrev_table *abbrevs, struct error *e)
{
	struct open_scopes open = {.current = {SCOPE_NONE, NULL}};
	struct die d = {0};
	Dwarf_Die unit = *root;
	open.of_functions = dwarf_srclang(&unit) == DW_LANG_D;
	enum err err = die_unit_open(&s->unit, root, abbrevs, e);
	while (!err && !(err = die_next(&s->unit, &d, e))) {
		bool ok = !d.abbrev ? leave_scope(s, &d, &open) : !d.abbrev->children || enter_scope(s, &d, &open);
		if (!ok)
			err = no_memory(e);
	}
	free(open.outer);
	return err == ERR_MISSING ? ERR_OK : err;
}

void scopes_free(struct scopes *s)
{
	free(s->items);
	free(s->changes);
	free(s);
}

/* The scope of what begins at a place. */
static ptrdiff_t scope_at(const struct scopes *s, const uint8_t *at)
{
	size_t changes = search_up_to(
	        s->changes, s->change_count, sizeof *s->changes, offsetof(struct scope_change, at), (uintptr_t)at);
	return changes ? s->changes[changes - 1].scope : SCOPE_NONE;
}

ptrdiff_t scopes_around(const struct scopes *s, const uint8_t *die)
{
	struct reader r = {.at = die, .end = s->unit.end};
	reader_varint(&r);
	ptrdiff_t within = scope_at(s, r.at);
	bool itself = within != SCOPE_NONE && s->items[within].die == die;
	return itself ? s->items[within].parent : scope_at(s, die);
}
