/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/unit_reader.h"

#include <dwarf.h>
#include <stdlib.h>

#include "base/array.h"
#include "extract/folded.h"

enum { UNIT_MIN = 7 }; /* bytes of a header after its length */

enum err unit_reader_open(struct unit_reader *u, struct dwarf_source *source, const struct code_map *code, bool pads,
        const struct name_symbols *symbols, struct error *e)
{
	*u = (struct unit_reader){.source = source, .code = code, .pads = pads};
	enum err err = dwarf_handle_open(&u->handle, source, e);
	if (err)
		return err;
	Elf *elf = u->handle.elf;
	u->sections.line = elf_section_bytes(elf, ".debug_line");
	u->sections.line_str = elf_section_bytes(elf, ".debug_line_str");
	u->sections.str = elf_section_bytes(elf, ".debug_str");
	u->sections.big = elf_is_big(elf);
	names_init(&u->names, &u->strings);
	u->names.symbols = symbols;
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

static bool known_version(Dwarf_Half version)
{
	return version >= 2 && version <= 5;
}

static int next_unit(const struct unit_reader *u, Dwarf_Off at, Dwarf_Off *next, size_t *header, Dwarf_Half *version)
{
	*version = 0;
	return dwarf_next_unit(u->handle.dwarf, at, next, header, version, NULL, NULL, NULL, NULL, NULL);
}

/* The offset of the unit after one that libdw cannot read, or the end. */
static uint64_t skip_unit(const struct unit_reader *u, struct str info, uint64_t at)
{
	struct reader r = reader_at(info, at);
	uint64_t len = read_fixed(&r, 4, u->sections.big);
	if (len == UINT32_MAX)
		len = read_fixed(&r, 8, u->sections.big);
	read_skip(&r, len);
	return r.bad || len < UNIT_MIN ? info.len : (uint64_t)(r.at - (const uint8_t *)info.data);
}

enum err unit_reader_list(struct unit_reader *u, uint64_t **offsets, size_t *count, struct error *e)
{
	struct str info = elf_section_bytes(u->handle.elf, ".debug_info");
	Dwarf_Off next;
	Dwarf_Half version;
	size_t header;
	uint32_t cap = 0;
	int status;
	*offsets = NULL;
	*count = 0;
	for (Dwarf_Off at = 0; (status = next_unit(u, at, &next, &header, &version)) <= 0; at = next) {
		if (!array_append(offsets, &cap, count, &at, sizeof at))
			return no_memory(e);
		if (status < 0 || next - at < UNIT_MIN)
			next = skip_unit(u, info, at);
		u->source->bad_headers += status < 0 || !known_version(version);
	}
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
	u->lines.comp_dir = str_from(dir ? dir : "");
	return line_table_read(&u->lines, &u->sections, offset, (uint8_t)unit->address_size, u->code, e);
}

/* One function: count pieces. */
static enum err add_function(struct unit_reader *u, const struct code_piece *pieces, size_t count, struct error *e)
{
	struct records *r = &u->records;
	size_t first = r->out->piece_count;
	if (!segments_make(&u->segments, u->functions.nodes, pieces, count))
		return no_memory(e);
	enum err err = records_add_ranges(r, &u->segments, e);
	return !err && u->pads ? records_add_pads(r, &u->segments, first, e) : err;
}

/* The code of one that nobody asked for. */
static enum err add_code(struct unit_reader *u, const struct code_piece *pieces, size_t count, struct error *e)
{
	enum err err = ERR_OK;
	uint64_t done = 0;
	for (size_t i = 0; i < count && !err; i++) {
		const struct code_piece *p = &pieces[i];
		if (u->functions.nodes[p->node].parent != NO_NODE || p->end <= done)
			continue;
		err = records_add_code(&u->records, p->start > done ? p->start : done, p->end, e);
		done = p->end;
	}
	return err;
}

static enum err add_functions(struct unit_reader *u, struct error *e)
{
	const struct functions *f = &u->functions;
	enum err err = ERR_OK;
	for (size_t i = 0, next; i < f->piece_count && !err; i = next) {
		uint32_t function = f->nodes[f->pieces[i].node].function;
		bool asked = false;
		for (next = i; next < f->piece_count && f->nodes[f->pieces[next].node].function == function; next++)
			asked = asked || code_map_asked(u->code, f->pieces[next].start, f->pieces[next].end);
		err = (asked ? add_function : add_code)(u, f->pieces + i, next - i, e);
	}
	return err;
}

/* Shared entries have no code, and the line table of another unit. */
static bool has_code(const struct die_unit *unit)
{
	Dwarf_Die root = unit->root;
	int tag = dwarf_tag(&root);
	return (tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit) &&
	       (dwarf_hasattr(&root, DW_AT_low_pc) || dwarf_hasattr(&root, DW_AT_ranges));
}

/* If functions or lines are malformed, all of them are left out. The line table is that of owner, the unit itself or
 * its skeleton. */
static enum err read_unit(struct unit_reader *u, const struct die_unit *unit, const struct die_unit *owner,
        struct names *names, struct result *out, struct error *e)
{
	enum err functions = functions_read(&u->functions, unit, u->code, e);
	if (functions == ERR_CORRUPT)
		u->functions.piece_count = 0;
	if (functions == ERR_NO_MEMORY || (u->functions.piece_count == 0 && !has_code(owner)))
		return functions;
	enum err lines = read_lines(u, owner, !functions ? e : NULL);
	if (lines == ERR_NO_MEMORY)
		return no_memory(e);
	if (lines)
		line_table_release(&u->lines);
	struct records *r = &u->records;
	r->unit = unit;
	r->copies_known = false;
	r->code = u->code;
	r->functions = &u->functions;
	r->lines = &u->lines;
	r->names = names;
	r->strings = &u->strings;
	r->out = out;
	enum err err = folded_drop(&u->functions, unit, &u->lines, e);
	if (!err)
		err = add_functions(u, e);
	if (!err)
		err = loose_lines_collect(out, &u->lines, &u->strings, e);
	return err ? err : functions ? functions : lines;
}

/* libdw passes over the units before this one, and stops once at each that it cannot read. */
static bool find_root(struct unit_reader *u, uint64_t at, Dwarf_Die *root)
{
	while (!dwarf_offdie(u->handle.dwarf, at, root))
		if (u->stops++ >= u->source->bad_headers)
			return false;
	return true;
}

/* Whether the unit may have code at an address that is asked for. A compile unit that does not say where its code is
 * may. */
static bool may_be_asked(const struct unit_reader *u, Dwarf_Die *root)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	int tag = dwarf_tag(root);
	if (!u->code->asked_count)
		return true;
	if (tag != DW_TAG_compile_unit && tag != DW_TAG_skeleton_unit)
		return false;
	if (!dwarf_hasattr(root, DW_AT_high_pc) && !dwarf_hasattr(root, DW_AT_ranges))
		return true; /* a low_pc alone is only the base of other addresses */
	while ((at = dwarf_ranges(root, at, &base, &start, &end)) > 0)
		if (code_map_asked(u->code, start, end))
			return true;
	return at < 0;
}

/* *asked: whether the unit is needed; otherwise it is not opened. */
static enum err open_unit(struct unit_reader *u, uint64_t at, struct die_unit *unit, bool *asked, struct error *e)
{
	Dwarf_Off next;
	Dwarf_Half version;
	Dwarf_Die root;
	size_t header;
	if (next_unit(u, at, &next, &header, &version) != 0)
		return error_set(e, ERR_CORRUPT, "unit at 0x%llx: %s", (unsigned long long)at, dwarf_errmsg(-1));
	if (!known_version(version))
		return error_set(e, ERR_CORRUPT, "unit at 0x%llx: DWARF version %u is not known",
		        (unsigned long long)at, version);
	if (!find_root(u, at + header, &root))
		return error_set(e, ERR_CORRUPT, "unit at 0x%llx: %s", (unsigned long long)at, dwarf_errmsg(-1));
	*asked = may_be_asked(u, &root);
	return *asked ? die_unit_open(unit, &root, &u->abbrevs, e) : ERR_OK;
}

/* Names are known by their place, which is in another file for the next unit. */
static enum err read_split(struct unit_reader *u, struct split_unit *split, const struct die_unit *owner,
        struct result *out, struct error *e)
{
	struct abbrev_table abbrevs = {0};
	struct names names;
	struct die_unit unit;
	names_init(&names, &u->strings);
	names.symbols = u->names.symbols;
	enum err err = die_unit_open(&unit, &split->root, &abbrevs, e);
	unit.skeleton = &split->skeleton;
	if (!err)
		err = read_unit(u, &unit, owner, &names, out, e);
	names_release(&names);
	abbrev_table_release(&abbrevs);
	return err;
}

/* If its unit is not found, what the skeleton itself says is used. */
static enum err read_any(struct unit_reader *u, const struct die_unit *unit, struct result *out, struct error *e)
{
	struct split_unit split;
	if (!split_is_skeleton(&unit->root))
		return read_unit(u, unit, unit, &u->names, out, e);
	const struct split_main main = {&u->source->main, u->handle.elf};
	enum err err = split_unit_open(&split, &u->source->split, &unit->root, &main, e);
	if (err == ERR_MISSING)
		return read_unit(u, unit, unit, &u->names, out, e);
	if (!err) {
		err = read_split(u, &split, unit, out, e);
		split_unit_close(&split);
	}
	return err;
}

struct result *unit_reader_read(struct unit_reader *u, uint64_t offset)
{
	struct die_unit unit;
	struct result *r = result_new();
	bool asked = false;
	if (!r)
		return NULL;
	r->err = open_unit(u, offset, &unit, &asked, &r->error);
	if (r->err || !asked)
		return r;
	r->err = read_any(u, &unit, r, &r->error);
	dwarf_source_done(u->source, (size_t)(unit.end - unit.start));
	return r;
}
