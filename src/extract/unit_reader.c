#include <config.h>

#include "extract/unit_reader.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "extract/grow.h"

enum err unit_reader_open(
        struct unit_reader *u, struct dwarf_source *source, const struct code_map *code, bool pads, struct error *e)
{
	*u = (struct unit_reader){.source = source, .code = code, .pads = pads};
	enum err err = dwarf_handle_open(&u->handle, source, e);
	if (err != ERR_OK)
		return err;
	Elf *elf = u->handle.elf;
	u->sections.line = elf_section_bytes(elf, ".debug_line");
	u->sections.line_str = elf_section_bytes(elf, ".debug_line_str");
	u->sections.str = elf_section_bytes(elf, ".debug_str");
	u->sections.big = elf_getident(elf, NULL)[EI_DATA] == ELFDATA2MSB;
	names_init(&u->names, &u->strings);
	return ERR_OK;
}

void unit_reader_close(struct unit_reader *u)
{
	if (!u->handle.dwarf)
		return;
	names_release(&u->names);
	intern_release(&u->strings);
	abbrev_table_release(&u->abbrevs);
	functions_release(&u->functions);
	segments_release(&u->segments);
	line_table_release(&u->lines);
	records_release(&u->records);
	dwarf_handle_close(&u->handle);
}

enum err unit_reader_list(struct unit_reader *u, uint64_t **offsets, size_t *count, struct error *e)
{
	Dwarf_Off at = 0, next;
	size_t header, cap = 0;
	int status;
	*offsets = NULL;
	*count = 0;
	while ((status = dwarf_next_unit(u->handle.dwarf, at, &next, &header, NULL, NULL, NULL, NULL, NULL, NULL)) ==
	        0) {
		uint64_t *items = grown(*offsets, &cap, *count, sizeof *items);
		if (!items)
			return error_set(e, ERR_NO_MEMORY, "out of memory");
		*offsets = items;
		items[(*count)++] = at + header;
		at = next;
	}
	if (status < 0)
		return error_set(e, ERR_CORRUPT, "unit at 0x%llx: %s", (unsigned long long)at, dwarf_errmsg(-1));
	return ERR_OK;
}

static enum err read_lines(struct unit_reader *u, const struct die_unit *unit, struct error *e)
{
	Dwarf_Die root = unit->root;
	Dwarf_Attribute a;
	Dwarf_Word offset;
	const char *dir = dwarf_attr(&root, DW_AT_comp_dir, &a) ? dwarf_formstring(&a) : NULL;
	line_table_release(&u->lines);
	if (!dwarf_attr(&root, DW_AT_stmt_list, &a))
		return ERR_OK;
	if (dwarf_formudata(&a, &offset) != 0)
		return error_set(e, ERR_CORRUPT, "a unit's line table has no offset");
	return line_table_read(
	        &u->lines, &u->sections, offset, (uint8_t)unit->address_size, str_from(dir ? dir : ""), u->code, e);
}

/* One function: count pieces. */
static enum err add_function(struct unit_reader *u, const struct code_piece *pieces, size_t count, struct error *e)
{
	struct records *r = &u->records;
	size_t first = r->out->piece_count;
	if (!segments_make(&u->segments, u->functions.nodes, pieces, count))
		return error_set(e, ERR_NO_MEMORY, "out of memory");
	enum err err = records_add_ranges(r, &u->segments, e);
	return err == ERR_OK && u->pads ? records_add_pads(r, &u->segments, first, e) : err;
}

static enum err add_functions(struct unit_reader *u, struct error *e)
{
	const struct functions *f = &u->functions;
	enum err err = ERR_OK;
	for (size_t i = 0, next; i < f->piece_count && err == ERR_OK; i = next) {
		uint32_t function = f->nodes[f->pieces[i].node].function;
		for (next = i + 1; next < f->piece_count && f->nodes[f->pieces[next].node].function == function;)
			next++;
		err = add_function(u, f->pieces + i, next - i, e);
	}
	return err;
}

static enum err read_unit(struct unit_reader *u, const struct die_unit *unit, struct result *out, struct error *e)
{
	enum err err = functions_read(&u->functions, unit, u->code, e);
	if (err != ERR_OK || u->functions.piece_count == 0)
		return err;
	err = read_lines(u, unit, e);
	if (err != ERR_OK)
		return err;
	struct records *r = &u->records;
	r->unit = unit;
	r->code = u->code;
	r->functions = &u->functions;
	r->lines = &u->lines;
	r->names = &u->names;
	r->strings = &u->strings;
	r->out = out;
	return add_functions(u, e);
}

static enum err open_unit(struct unit_reader *u, uint64_t offset, struct die_unit *unit, struct error *e)
{
	Dwarf_Die root;
	if (!dwarf_offdie(u->handle.dwarf, offset, &root))
		return error_set(e, ERR_CORRUPT, "unit at 0x%llx: %s", (unsigned long long)offset, dwarf_errmsg(-1));
	return die_unit_open(unit, &root, &u->abbrevs, e);
}

struct result *unit_reader_read(struct unit_reader *u, uint64_t offset)
{
	struct die_unit unit;
	struct result *r = result_new();
	if (!r)
		return NULL;
	r->err = open_unit(u, offset, &unit, &r->error);
	if (r->err != ERR_OK)
		return r;
	r->err = read_unit(u, &unit, r, &r->error);
	dwarf_source_done(u->source, (size_t)(unit.end - unit.start));
	return r;
}
