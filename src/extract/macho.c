/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/macho.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "base/varint.h"
#include "extract/dwarf_bytes.h"

enum {
	MAGIC_64 = 0xfeedfacf - (1LL << 32), /* as an int */
	LC_SYMTAB = 2,
	LC_SEGMENT = 1,
	LC_SEGMENT_64 = 0x19,
	LC_UUID = 0x1b,
	LC_FUNCTION_STARTS = 0x26,
	TYPE_OBJECT = 1,
	TYPE_CORE = 4,
	TYPE_DSYM = 10,
	SECTION_ZEROFILL = 1,
	NAME = 16,   /* bytes of a name */
	STAB = 0xe0, /* bits of a symbol's type: for debuggers */
	IN_SECTION = 0xe,
	TYPE_BITS = 0xe,
	EXTERNAL = 1,
};
static const uint32_t code_flags = 0x80000400; /* pure instructions, some instructions */

struct macho {
	struct view_builder *b;
	const uint8_t *bytes;
	uint64_t at; /* of the slice in the file */
	size_t len;
	bool wide;
	uint32_t type, commands, commands_len;
	uint64_t text; /* address of the segment __TEXT */
	bool has_text;
	uint64_t code_sections; /* a bit for each of the first sections, by number */
	unsigned section_number;
	struct str symbols, strings, starts;
	struct error *e;
};

static uint16_t machine_of(uint32_t cpu)
{
	static const struct {
		uint32_t cpu;
		uint16_t machine;
	} machines[] = {
	        {0x01000007, EM_X86_64}, {7, EM_386}, {0x0100000c, EM_AARCH64}, {0x0200000c, EM_AARCH64}, {12, EM_ARM}};
	for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
		if (machines[i].cpu == cpu)
			return machines[i].machine;
	return EM_NONE;
}

static bool read_header(struct macho *m, const uint8_t *bytes, size_t len, uint16_t *machine)
{
	if (len < 32 || file_format_of(bytes, len) != FORMAT_MACHO)
		return false;
	m->bytes = bytes;
	m->len = len;
	m->wide = get_u32(bytes) == (uint32_t)MAGIC_64;
	*machine = machine_of(get_u32(bytes + 4));
	m->type = get_u32(bytes + 12);
	m->commands = get_u32(bytes + 16);
	m->commands_len = get_u32(bytes + 20);
	return true;
}

/* Bytes of the slice; false: outside. */
static bool part(const struct macho *m, uint64_t at, uint64_t size, struct str *out)
{
	if (at > m->len || size > m->len - at)
		return false;
	*out = (struct str){(const char *)m->bytes + at, (size_t)size};
	return true;
}

/* .debug_x for __debug_x; names are cut at 16 bytes. */
static void name_section(char out[24], const char *name, bool code)
{
	if (strncmp(name, "__debug_", 8) == 0 || strncmp(name, "__zdebug_", 9) == 0)
		snprintf(out, 24, ".%.14s%s", name + 2,
		        strcmp(name, "__debug_str_offs") == 0   ? "ets"
		        : strcmp(name, "__zdebug_str_off") == 0 ? "sets"
		                                                : "");
	else if (strcmp(name, "__gopclntab") == 0 || (code && strcmp(name, "__text") == 0))
		snprintf(out, 24, ".%.14s", name + 2);
	else
		snprintf(out, 24, "%.16s", name);
}

/* Of the sections of a dSYM file only those with debug data are there. */
static enum err add_section(struct macho *m, const uint8_t *p)
{
	char name[NAME + 1] = {0};
	const uint8_t *numbers = p + 2 * (size_t)NAME;
	uint64_t address = m->wide ? get_u64(numbers) : get_u32(numbers);
	uint64_t size = m->wide ? get_u64(numbers + 8) : get_u32(numbers + 4);
	const uint8_t *rest = numbers + (m->wide ? 16 : 8);
	uint32_t at = get_u32(rest), flags = get_u32(rest + 16);
	bool dwarf = strncmp((const char *)p + NAME, "__DWARF", NAME) == 0, code = flags & code_flags;
	memcpy(name, p, NAME);
	m->section_number++;
	if (code && m->section_number < 64)
		m->code_sections |= 1ULL << m->section_number;
	bool absent = (m->type == TYPE_DSYM && !dwarf) || (flags & 0xff) == SECTION_ZEROFILL || at == 0;
	bool wanted = code || dwarf || strcmp(name, "__gopclntab") == 0 || !strcmp(name, "__noptrdata");
	if (!wanted || (dwarf && absent) || size == 0)
		return ERR_OK;
	struct view_section s = {.address = dwarf ? 0 : address,
	        .at = absent ? 0 : m->at + at,
	        .size = size,
	        .type = absent ? SHT_NOBITS : SHT_PROGBITS,
	        .code = code,
	        .loaded = !dwarf};
	name_section(s.name, name, code);
	if (!absent && (at > m->len || size > m->len - at))
		return error_set(m->e, ERR_CORRUPT, "Mach-O: section %s lies outside the file", s.name);
	return view_add_section(m->b, &s, m->e);
}

static enum err read_segment(struct macho *m, const uint8_t *p, size_t len)
{
	size_t head = m->wide ? 72 : 56, size = m->wide ? 80 : 68;
	if (len < head)
		return error_set(m->e, ERR_CORRUPT, "Mach-O: a segment's command is cut off");
	uint64_t address = m->wide ? get_u64(p + 24) : get_u32(p + 24);
	uint64_t memory = m->wide ? get_u64(p + 32) : get_u32(p + 28);
	uint64_t at = m->wide ? get_u64(p + 40) : get_u32(p + 32);
	uint64_t file = m->wide ? get_u64(p + 48) : get_u32(p + 36);
	const uint8_t *rest = p + (m->wide ? 56 : 40);
	bool text = strncmp((const char *)p + 8, "__TEXT", NAME) == 0;
	struct view_segment s = {m->at + at, address, file, memory, get_u32(rest + 4) & 4};
	enum err err = ERR_OK;
	if (text && !m->has_text) {
		m->has_text = true;
		m->text = address;
	}
	if (text || (file > 0 && strncmp((const char *)p + 8, "__DWARF", NAME) != 0 && m->type != TYPE_DSYM))
		err = view_add_segment(m->b, &s, m->e);
	for (uint32_t i = 0, n = get_u32(rest + 8); i < n && !err; i++) {
		if (head + (uint64_t)(i + 1) * size > len)
			return error_set(m->e, ERR_CORRUPT, "Mach-O: a section's header is cut off");
		err = add_section(m, p + head + i * size);
	}
	return err;
}

static enum err read_command(struct macho *m, uint32_t command, const uint8_t *p, size_t len)
{
	bool ok = true;
	if (command == (m->wide ? LC_SEGMENT_64 : LC_SEGMENT))
		return read_segment(m, p, len);
	if (command == LC_UUID && len >= 8 + GUID_BYTES && !m->b->id.len) {
		memcpy(m->b->id.bytes, p + 8, GUID_BYTES);
		m->b->id.len = GUID_BYTES;
	} else if (command == LC_SYMTAB && len >= 24) {
		ok = part(m, get_u32(p + 8), (uint64_t)get_u32(p + 12) * (m->wide ? 16 : 12), &m->symbols) &&
		     part(m, get_u32(p + 16), get_u32(p + 20), &m->strings);
	} else if (command == LC_FUNCTION_STARTS && len >= 16) {
		ok = part(m, get_u32(p + 8), get_u32(p + 12), &m->starts);
	}
	return ok ? ERR_OK
	          : error_set(m->e, ERR_CORRUPT, "Mach-O: %s outside the file",
	                    command == LC_SYMTAB ? "symbols lie" : "the starts of functions lie");
}

static enum err read_commands(struct macho *m)
{
	size_t at = m->wide ? 32 : 28, end = at + m->commands_len;
	enum err err = ERR_OK;
	if (end > m->len)
		return error_set(m->e, ERR_CORRUPT, "Mach-O: load commands lie outside the file");
	for (uint32_t i = 0; i < m->commands && !err; i++) {
		uint32_t size = end - at >= 8 ? get_u32(m->bytes + at + 4) : 0;
		if (size < 8 || size > end - at)
			return error_set(m->e, ERR_CORRUPT, "Mach-O: load command %u is cut off", i);
		err = read_command(m, get_u32(m->bytes + at), m->bytes + at, size);
		at += size;
	}
	return err;
}

/* Differences from the address of __TEXT on. */
static enum err add_starts(struct macho *m)
{
	struct reader r = reader_at(m->starts, 0);
	uint64_t address = m->text, step;
	enum err err = ERR_OK;
	while (!err && r.at < r.end && (step = reader_varint(&r)) > 0) {
		address += step;
		err = view_add_start(m->b, m->b->machine == EM_ARM ? address & ~1ULL : address, m->e);
	}
	return err;
}

/* Symbols in code, without the linker's underscore and the assembler's own labels. names: false: only where they begin.
 */
static enum err add_symbol(struct macho *m, const uint8_t *p, bool names)
{
	uint8_t type = p[4], section = p[5];
	uint64_t address = m->wide ? get_u64(p + 8) : get_u32(p + 8);
	bool code = section > 0 && (section >= 64 || (m->code_sections >> section & 1)), local = !(type & EXTERNAL);
	if ((type & STAB) || (type & TYPE_BITS) != IN_SECTION || !code)
		return ERR_OK;
	if (m->b->machine == EM_ARM)
		address &= ~1ULL;
	struct str name =
	        local || (names && view_wants(m->b, address)) ? text_at(m->strings, get_u32(p)) : (struct str){"", 0};
	if (local && name.len >= 4 && memcmp(name.data, "ltmp", 4) == 0)
		return ERR_OK;
	if (!names)
		return view_add_start(m->b, address, m->e);
	if (name.len > 0 && name.data[0] == '_')
		name = (struct str){name.data + 1, name.len - 1};
	if (!view_wants(m->b, address))
		return ERR_OK;
	return name.len ? view_add_symbol(m->b, address, 0, name, local, m->e) : view_add_start(m->b, address, m->e);
}

static enum err add_symbols(struct macho *m, bool names)
{
	size_t size = m->wide ? 16 : 12;
	enum err err = ERR_OK;
	for (size_t i = 0; i + size <= m->symbols.len && !err; i += size)
		err = add_symbol(m, (const uint8_t *)m->symbols.data + i, names);
	return err;
}

enum err macho_read(struct view_builder *b, uint64_t at, size_t len, struct error *e)
{
	struct macho m = {.b = b, .at = at, .e = e};
	uint16_t machine;
	if (!read_header(&m, b->file + at, len, &machine))
		return error_set(e, ERR_CORRUPT, "Mach-O: the header is cut off");
	if (machine == EM_NONE)
		return error_set(e, ERR_CORRUPT, "Mach-O: machine 0x%x is not known", get_u32(m.bytes + 4));
	if (m.type == TYPE_OBJECT || m.type == TYPE_CORE)
		return error_set(e, ERR_CORRUPT, "Mach-O: %s",
		        m.type == TYPE_OBJECT ? "not linked: its code has no addresses yet" : "a core file");
	b->machine = machine;
	b->kind = VIEW_MACHO;
	enum err err = read_commands(&m);
	if (err || b->wanted->no_symbols)
		return err;
	err = add_starts(&m);
	if (!err && b->stretches)
		err = add_symbols(&m, false);
	return err ? err : add_symbols(&m, true);
}

bool macho_id(struct build_id *id, const uint8_t *file, size_t len)
{
	struct macho m = {0};
	uint16_t machine;
	*id = (struct build_id){0};
	if (!read_header(&m, file, len, &machine) || machine == EM_NONE || m.type == TYPE_OBJECT || m.type == TYPE_CORE)
		return false;
	size_t at = m.wide ? 32 : 28, end = at + m.commands_len < len ? at + m.commands_len : len;
	for (uint32_t i = 0, size; i < m.commands && end - at >= 8; i++, at += size) {
		size = get_u32(file + at + 4);
		if (size < 8 || size > end - at)
			break;
		if (get_u32(file + at) == LC_UUID && size >= 8 + GUID_BYTES) {
			memcpy(id->bytes, file + at + 8, GUID_BYTES);
			id->len = GUID_BYTES;
			break;
		}
	}
	return true;
}
