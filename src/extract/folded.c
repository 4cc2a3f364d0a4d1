/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a function begin with the line of its declaration or one below it. */
#include <config.h>

#include "extract/folded.h"

#include <dwarf.h>
#include <stdlib.h>

#include "base/search.h"

/* The function that a fold belongs to. */
struct owner {
	uint32_t node; /* + 1; 0: none so far */
	uint32_t line; /* of its declaration; 0: not where the rows are */
};

static const struct line_fold *find_fold(const struct line_table *t, uint64_t start)
{
	const struct line_fold key = {.start = start};
	return bsearch(&key, t->folds, t->fold_count, sizeof key, search_order);
}

static uint64_t number_of(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute a;
	Dwarf_Word v;
	return dwarf_attr_integrate(die, name, &a) && dwarf_formudata(&a, &v) == 0 ? v : 0;
}

/* The line of a function's declaration, if the rows of the fold may be its own; else 0. */
static uint32_t declared(const struct die_unit *unit, const struct code_node *n, const struct line_fold *fold)
{
	Dwarf_Die die = die_handle(unit, n->die);
	uint64_t line = number_of(&die, DW_AT_decl_line);
	return number_of(&die, DW_AT_decl_file) == fold->file && line <= fold->line ? (uint32_t)line : 0;
}

static void find_owners(
        const struct functions *f, const struct die_unit *unit, const struct line_table *t, struct owner *owners)
{
	for (size_t i = 0; i < f->piece_count; i++) {
		const struct code_piece *p = &f->pieces[i];
		const struct line_fold *fold = f->nodes[p->node].parent == NO_NODE ? find_fold(t, p->start) : NULL;
		if (!fold)
			continue;
		struct owner *o = &owners[fold - t->folds];
		uint32_t line = declared(unit, &f->nodes[p->node], fold);
		if (!o->node || line > o->line)
			*o = (struct owner){p->node + 1, line};
	}
}

enum err folded_drop(struct functions *f, const struct die_unit *unit, const struct line_table *lines, struct error *e)
{
	if (lines->fold_count == 0)
		return ERR_OK;
	struct owner *owners = calloc(lines->fold_count, sizeof *owners);
	if (!owners)
		return no_memory(e);
	find_owners(f, unit, lines, owners);
	size_t kept = 0;
	struct code_piece dropped = {.node = NO_NODE};
	for (size_t i = 0; i < f->piece_count; i++) {
		struct code_piece p = f->pieces[i];
		bool is_function = f->nodes[p.node].parent == NO_NODE;
		const struct line_fold *fold = is_function ? find_fold(lines, p.start) : NULL;
		if (fold && owners[fold - lines->folds].node != p.node + 1)
			dropped = p;
		else if (is_function || f->nodes[p.node].function != dropped.node || p.start >= dropped.end)
			f->pieces[kept++] = p;
	}
	f->piece_count = kept;
	free(owners);
	return ERR_OK;
}
