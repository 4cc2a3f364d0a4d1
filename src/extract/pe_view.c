/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/pe_view.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "extract/dwarf_bytes.h"

enum {
	SYMBOL = 18,
	EXPORTS = 0, /* numbers of data directories */
	EXCEPTIONS = 3,
	DEBUG = 6,
	DEBUG_ENTRY = 28,
	DEBUG_CODEVIEW = 2,
	RSDS = 24,   /* bytes before the path */
	CHAINED = 4, /* flag of unwinding data: it goes on with another function's */
	CLASS_EXTERNAL = 2,
	CLASS_STATIC = 3,
	TYPE_FUNCTION = 0x20,
	SECTIONS_MAX = 512, /* Windows loads 96; each address is looked for among them */
};

/* Bytes of the image: a section as it is loaded. */
struct loaded {
	uint64_t start, size, at; /* relative to the image; in the file */
};

struct pe_reader {
	struct view_builder *b;
	struct pe_file pe;
	uint64_t base;
	struct loaded *loaded;
	size_t loaded_count;
	struct str directories; /* pairs of address and size */
	struct str symbols, strings;
	struct error *e;
};

uint16_t pe_view_machine(uint16_t machine)
{
	enum { ARM64EC = 0xa641, ARM64X = 0xa64e }; /* of PDB files only */
	return machine == PE_X86_64                                               ? EM_X86_64
	       : machine == PE_I386                                               ? EM_386
	       : machine == PE_AARCH64 || machine == ARM64EC || machine == ARM64X ? EM_AARCH64
	       : machine == PE_ARM                                                ? EM_ARM
	                                                                          : EM_NONE;
}

struct str pe_plain_name(struct str name, uint16_t elf_machine)
{
	if (elf_machine != EM_386 || name.len < 2 || (name.data[0] != '_' && name.data[0] != '@'))
		return name;
	struct str plain = {name.data + 1, name.len - 1};
	size_t end = plain.len;
	while (end > 1 && plain.data[end - 1] >= '0' && plain.data[end - 1] <= '9')
		end--;
	if (end < plain.len && end > 1 && plain.data[end - 1] == '@')
		plain.len = end - 1;
	return plain;
}

static struct str file_part(const struct pe_reader *r, uint64_t at, uint64_t size)
{
	if (at > r->b->file_len || size > r->b->file_len - at)
		return (struct str){"", 0};
	return (struct str){(const char *)r->b->file + at, (size_t)size};
}

/* From an address to the end of its section; empty if it is in none. */
static struct str image_part(const struct pe_reader *r, uint64_t address)
{
	for (size_t i = 0; i < r->loaded_count; i++) {
		const struct loaded *l = &r->loaded[i];
		if (address >= l->start && address - l->start < l->size)
			return file_part(r, l->at + (address - l->start), l->size - (address - l->start));
	}
	return (struct str){"", 0};
}

/* The bytes of a data directory that the file has. */
static struct str directory(const struct pe_reader *r, unsigned number, uint32_t *address)
{
	struct reader d = reader_at(r->directories, (uint64_t)number * 8);
	*address = (uint32_t)read_fixed(&d, 4, false);
	uint32_t size = (uint32_t)read_fixed(&d, 4, false);
	return d.bad || *address == 0 ? (struct str){"", 0} : str_first(image_part(r, *address), size);
}

/* "/123": an offset in the table of strings. */
static void name_section(const struct pe_reader *r, char out[24], const uint8_t *header)
{
	char name[9] = {0};
	memcpy(name, header, 8);
	struct str full = name[0] == '/' ? text_at(r->strings, strtoul(name + 1, NULL, 10)) : str_from(name);
	snprintf(out, 24, "%.*s", (int)(full.len < 23 ? full.len : 23), full.data);
}

static enum err add_section(struct pe_reader *r, const uint8_t *h)
{
	uint32_t virtual = get_u32(h + 8), address = get_u32(h + 12), raw = get_u32(h + 16), at = get_u32(h + 20);
	uint32_t flags = get_u32(h + 36), size = virtual && virtual < raw ? virtual : raw;
	struct view_section s = {.at = at, .size = size, .type = SHT_PROGBITS};
	name_section(r, s.name, h);
	r->loaded[r->loaded_count++] = (struct loaded){address, size, at};
	if (strncmp(s.name, ".debug_", 7) == 0 || strncmp(s.name, ".zdebug_", 8) == 0)
		return size > 0 ? view_add_section(r->b, &s, r->e) : ERR_OK;
	s.code = flags & PE_SECTION_CODE;
	s.loaded = true;
	s.address = r->base + address;
	if (s.code && size == 0) {
		s.type = SHT_NOBITS; /* as in a file of debug data alone */
		s.size = virtual;
	}
	const struct view_segment segment = {at, s.address, size, virtual, s.code};
	enum err err = view_add_segment(r->b, &segment, r->e);
	return err || s.size == 0 ? err : view_add_section(r->b, &s, r->e);
}

static enum err read_headers(struct pe_reader *r)
{
	uint64_t at = get_u32(r->b->file + 0x3c) + 24ULL;
	struct str optional = file_part(r, at, r->pe.sections - at);
	struct str headers = file_part(r, r->pe.sections, (uint64_t)r->pe.section_count * PE_SECTION_HEADER);
	const uint8_t *coff = r->b->file + at - 20, *o = (const uint8_t *)optional.data;
	if (optional.len < 96)
		return error_set(
		        r->e, ERR_CORRUPT, "PE: the optional header at %#llx is cut off", (unsigned long long)at);
	if (headers.len == 0)
		return error_set(r->e, ERR_CORRUPT, "PE: the headers of sections at %#llx lie outside the file",
		        (unsigned long long)r->pe.sections);
	if (r->pe.section_count > SECTIONS_MAX)
		return error_set(r->e, ERR_CORRUPT, "PE: more than %d sections", SECTIONS_MAX);
	bool wide = get_u16(o) == 0x20b;
	size_t before = wide ? 112 : 96;
	uint32_t count = get_u32(o + before - 4);
	r->base = wide ? get_u64(o + 24) : get_u32(o + 28);
	if (optional.len > before)
		r->directories = str_first((struct str){optional.data + before, optional.len - before}, count * 8ULL);
	uint64_t symbols = get_u32(coff + 8), bytes = get_u32(coff + 12) * (uint64_t)SYMBOL;
	if (symbols) {
		r->symbols = file_part(r, symbols, bytes);
		struct reader size = reader_at(file_part(r, symbols + bytes, 4), 0);
		r->strings = file_part(r, symbols + bytes, read_fixed(&size, 4, false));
	}
	const struct view_segment head = {0, r->base, get_u32(o + 60), get_u32(o + 60), false};
	enum err err = view_add_segment(r->b, &head, r->e);
	r->loaded = calloc(r->pe.section_count, sizeof *r->loaded);
	if (!r->loaded)
		return no_memory(r->e);
	for (unsigned i = 0; i < r->pe.section_count && !err; i++)
		err = add_section(r, (const uint8_t *)headers.data + i * PE_SECTION_HEADER);
	return err;
}

/* The id of the PDB file, and its name. Without one, the code id is all that identifies the program. */
static void read_debug_directory(struct pe_reader *r)
{
	uint32_t address;
	struct str d = directory(r, DEBUG, &address);
	memcpy(r->b->id.bytes, r->pe.id, PE_ID_BYTES);
	r->b->id.len = PE_ID_BYTES;
	for (size_t at = 0; at + DEBUG_ENTRY <= d.len; at += DEBUG_ENTRY) {
		const uint8_t *p = (const uint8_t *)d.data + at;
		struct str s = file_part(r, get_u32(p + 24), get_u32(p + 16));
		if (get_u32(p + 12) != DEBUG_CODEVIEW || s.len < RSDS || memcmp(s.data, "RSDS", 4) != 0)
			continue;
		uint32_t age = get_u32((const uint8_t *)s.data + 20);
		memcpy(r->b->id.bytes, s.data + 4, GUID_BYTES);
		for (unsigned i = 0; i < 4; i++)
			r->b->id.bytes[GUID_BYTES + i] = (uint8_t)(age >> 8 * (3 - i));
		r->b->id.len = WINDOWS_ID_BYTES;
		struct str path = {s.data + RSDS, s.len - RSDS};
		const char *name = path.data;
		size_t len = strnlen(path.data, path.len);
		for (size_t i = 0; i < len; i++)
			if (path.data[i] == '\\' || path.data[i] == '/')
				name = path.data + i + 1;
		if (len < path.len && *name)
			r->b->debug_name = name;
		return;
	}
}

/* ---- functions ---- */

static enum err add_coff_symbol(struct pe_reader *r, const uint8_t *p)
{
	uint16_t section = get_u16(p + 12), type = get_u16(p + 14);
	if (section == 0 || section > r->loaded_count || (p[16] != CLASS_EXTERNAL && p[16] != CLASS_STATIC))
		return ERR_OK;
	struct str name = get_u32(p) == 0 ? text_at(r->strings, get_u32(p + 4))
	                                  : (struct str){(const char *)p, strnlen((const char *)p, 8)};
	/* sections have symbols, too */
	if (type != TYPE_FUNCTION && (name.len == 0 || name.data[0] == '.'))
		return ERR_OK;
	uint64_t start = r->base + r->loaded[section - 1].start + get_u32(p + 8);
	return view_add_symbol(r->b, start, 0, pe_plain_name(name, r->b->machine), p[16] == CLASS_STATIC, r->e);
}

static enum err add_coff_symbols(struct pe_reader *r)
{
	enum err err = ERR_OK;
	for (size_t at = 0; at + SYMBOL <= r->symbols.len && !err;) {
		const uint8_t *p = (const uint8_t *)r->symbols.data + at;
		err = add_coff_symbol(r, p);
		at += SYMBOL * (1 + (size_t)p[17]);
	}
	return err;
}

static enum err add_export(struct pe_reader *r, uint32_t number, struct str functions, struct str ordinals,
        struct str names, uint32_t first, uint32_t size)
{
	struct reader o = reader_at(ordinals, number * 2ULL), n = reader_at(names, number * 4ULL);
	struct reader f = reader_at(functions, read_fixed(&o, 2, false) * 4);
	uint64_t address = read_fixed(&f, 4, false);
	struct str name = text_at(image_part(r, read_fixed(&n, 4, false)), 0);
	if (f.bad || n.bad || (address >= first && address - first < size)) /* a forwarder: a name in its place */
		return ERR_OK;
	return view_add_symbol(r->b, r->base + address, 0, pe_plain_name(name, r->b->machine), false, r->e);
}

static enum err add_exports(struct pe_reader *r)
{
	uint32_t address;
	struct str d = directory(r, EXPORTS, &address);
	enum err err = ERR_OK;
	if (d.len < 40)
		return ERR_OK;
	const uint8_t *p = (const uint8_t *)d.data;
	struct str functions = str_first(image_part(r, get_u32(p + 28)), get_u32(p + 20) * 4ULL);
	struct str ordinals = image_part(r, get_u32(p + 36));
	struct str names = str_first(image_part(r, get_u32(p + 32)), get_u32(p + 24) * 4ULL);
	for (uint32_t i = 0; i < names.len / 4 && !err; i++)
		err = add_export(r, i, functions, ordinals, names, address, (uint32_t)d.len);
	return err;
}

/* Functions by the table for unwinding (.pdata). A part of a function that is unwound like another begins none. */
static enum err add_unwound(struct pe_reader *r)
{
	uint32_t address;
	struct str d = directory(r, EXCEPTIONS, &address);
	size_t size = r->pe.machine == PE_X86_64 ? 12 : 8;
	enum err err = ERR_OK;
	if (r->pe.machine == PE_I386)
		return ERR_OK;
	for (size_t at = 0; at + size <= d.len && !err; at += size) {
		const uint8_t *p = (const uint8_t *)d.data + at;
		uint32_t start = get_u32(p);
		struct str unwind = r->pe.machine == PE_X86_64 ? image_part(r, get_u32(p + 8)) : (struct str){"", 0};
		if (unwind.len == 0 || !((uint8_t)unwind.data[0] >> 3 & CHAINED))
			err = view_add_start(r->b, r->base + (r->pe.machine == PE_ARM ? start & ~1U : start), r->e);
		/* code behind its end is of a function without an entry */
		if (!err && r->pe.machine == PE_X86_64 && get_u32(p + 4) > start &&
		        !(at + 2 * size <= d.len && get_u32(p + 12) == get_u32(p + 4)))
			err = view_add_start(r->b, r->base + get_u32(p + 4), r->e);
	}
	return err;
}

enum err pe_view_read(struct view_builder *b, int fd, struct error *e)
{
	struct pe_reader r = {.b = b, .e = e};
	enum err err = pe_file_read(&r.pe, fd, e);
	if (err)
		return err;
	b->machine = pe_view_machine(r.pe.machine);
	b->kind = VIEW_WINDOWS;
	if (b->machine == EM_NONE)
		return error_set(e, ERR_CORRUPT, "PE: machine 0x%x is not known", r.pe.machine);
	err = read_headers(&r);
	if (!err) {
		read_debug_directory(&r);
		err = b->wanted->no_symbols ? ERR_OK : add_coff_symbols(&r);
	}
	if (!err && !b->wanted->no_symbols)
		err = add_exports(&r);
	if (!err && !b->wanted->no_symbols)
		err = add_unwound(&r);
	free(r.loaded);
	return err;
}
