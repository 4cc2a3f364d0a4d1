/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/line_header.h"

#include <dwarf.h>

#include "base/array.h"
#include "extract/abbrev.h"

enum { FORMATS_MAX = 255 };

/* What is read from besides the header itself. */
struct source {
	struct reader r;
	const struct line_sections *sections;
	bool big;
	unsigned offset_size, address_size;
};

struct entry_format {
	uint64_t content, form;
};

bool line_header_add_file(struct line_table *t, struct str name, uint64_t dir)
{
	const struct line_file file = {.name = str_first(name, TEXT_AT_MAX), .dir = dir};
	return array_append(&t->files, &t->file_cap, &t->file_count, &file, sizeof file);
}

static bool add_dir(struct line_table *t, struct str name)
{
	name = str_first(name, TEXT_AT_MAX);
	return array_append(&t->dirs, &t->dir_cap, &t->dir_count, &name, sizeof name);
}

/* Versions 2 to 4: texts up to an empty one. They have no number 0, so we add it: the compilation directory, and no
 * file. */
static bool read_old_lists(struct source *s, struct line_table *t)
{
	if (!add_dir(t, (struct str){"", 0}) || !line_header_add_file(t, (struct str){"", 0}, 0))
		return false;
	for (struct str dir; (dir = read_text(&s->r)).len > 0;)
		if (!add_dir(t, dir))
			return false;
	for (struct str name; (name = read_text(&s->r)).len > 0;) {
		uint64_t dir = reader_varint(&s->r);
		reader_varint(&s->r); /* time */
		reader_varint(&s->r); /* length */
		if (!line_header_add_file(t, name, dir))
			return false;
	}
	return true;
}

/* A number or text; 0 for values of other forms. */
static uint64_t read_form(struct source *s, uint64_t form, struct str *text)
{
	struct reader *r = &s->r;
	switch (form) {
	case DW_FORM_string:
		*text = read_text(r);
		return 0;
	case DW_FORM_line_strp:
		*text = text_at(s->sections->line_str, read_fixed(r, s->offset_size, s->big));
		return 0;
	case DW_FORM_strp:
		*text = text_at(s->sections->str, read_fixed(r, s->offset_size, s->big));
		return 0;
	case DW_FORM_udata:
		return reader_varint(r);
	case DW_FORM_data1:
		return read_fixed(r, 1, s->big);
	case DW_FORM_data2:
		return read_fixed(r, 2, s->big);
	case DW_FORM_data4:
		return read_fixed(r, 4, s->big);
	case DW_FORM_data8:
		return read_fixed(r, 8, s->big);
	case DW_FORM_sdata:
		return (uint64_t)read_sleb(r);
	default:
		form_skip(r, form, 5, s->address_size, s->offset_size, s->big);
		return 0;
	}
}

static size_t read_formats(struct source *s, struct entry_format formats[FORMATS_MAX])
{
	size_t count = (size_t)read_fixed(&s->r, 1, s->big);
	for (size_t i = 0; i < count; i++) {
		formats[i].content = reader_varint(&s->r);
		formats[i].form = reader_varint(&s->r);
	}
	return count;
}

/* Version 5: each list begins with the format of its entries. */
static bool read_list(struct source *s, struct line_table *t, bool files)
{
	struct entry_format formats[FORMATS_MAX];
	size_t n = read_formats(s, formats);
	uint64_t count = reader_varint(&s->r);
	/* an entry of no bytes would be no name, and there could be any number of them */
	if (count > (n ? (uint64_t)(s->r.end - s->r.at) : 0))
		s->r.bad = true;
	for (uint64_t i = 0; i < count && !s->r.bad; i++) {
		struct str name = {"", 0}, other;
		uint64_t dir = 0;
		for (size_t k = 0; k < n; k++) {
			bool is_name = formats[k].content == DW_LNCT_path;
			uint64_t v = read_form(s, formats[k].form, is_name ? &name : &other);
			if (formats[k].content == DW_LNCT_directory_index)
				dir = v;
		}
		if (!s->r.bad && !(files ? line_header_add_file(t, name, dir) : add_dir(t, name)))
			return false;
	}
	return true;
}

/* The bytes of the table at offset; its first number is its length. */
static bool take_table(struct source *s, struct str section, uint64_t offset)
{
	s->offset_size = 4;
	s->r = reader_at(section, offset);
	uint64_t len = read_fixed(&s->r, 4, s->big);
	if (len == 0xffffffff) {
		s->offset_size = 8;
		len = read_fixed(&s->r, 8, s->big);
	}
	if (s->r.bad || len > (uint64_t)(s->r.end - s->r.at))
		return false;
	s->r.end = s->r.at + len;
	return true;
}

/* Up to the lists. Returns the version, 0 for one that is not known. */
static unsigned read_parameters(struct line_header *h, struct source *s, uint8_t address_size)
{
	unsigned version = (unsigned)read_fixed(&s->r, 2, s->big);
	if (version < 2 || version > 5)
		return 0;
	h->address_size = address_size;
	if (version == 5) {
		h->address_size = (uint8_t)read_fixed(&s->r, 1, s->big);
		s->address_size = h->address_size;
		read_skip(&s->r, 1); /* segment selectors */
	}
	uint64_t length = read_fixed(&s->r, s->offset_size, s->big);
	h->program = s->r;
	read_skip(&h->program, length);
	h->min_instruction = (uint8_t)read_fixed(&s->r, 1, s->big);
	h->max_operations = version >= 4 ? (uint8_t)read_fixed(&s->r, 1, s->big) : 1;
	read_skip(&s->r, 1); /* statements and other rows count alike */
	h->line_base = (int8_t)read_fixed(&s->r, 1, s->big);
	h->line_range = (uint8_t)read_fixed(&s->r, 1, s->big);
	h->opcode_base = (uint8_t)read_fixed(&s->r, 1, s->big);
	h->operands = s->r.at;
	read_skip(&s->r, h->opcode_base > 0 ? h->opcode_base - 1 : 0);
	return version;
}

static bool sound(const struct line_header *h)
{
	return (h->address_size == 4 || h->address_size == 8) && h->line_range > 0 && h->opcode_base > 0 &&
	       !h->program.bad;
}

enum err line_header_read(struct line_header *h, struct line_table *t, const struct line_sections *sections,
        uint64_t offset, uint8_t address_size, struct error *e)
{
	struct source s = {.sections = sections, .big = sections->big};
	*h = (struct line_header){.big = sections->big};
	if (!take_table(&s, sections->line, offset))
		return error_set(
		        e, ERR_CORRUPT, "line table at 0x%llx: outside .debug_line", (unsigned long long)offset);
	unsigned version = read_parameters(h, &s, address_size);
	if (version == 0)
		return error_set(e, ERR_CORRUPT, "line table at 0x%llx: unknown version", (unsigned long long)offset);
	bool memory = version == 5 ? read_list(&s, t, false) && read_list(&s, t, true) : read_old_lists(&s, t);
	if (!memory)
		return no_memory(e);
	if (s.r.bad || !sound(h))
		return error_set(e, ERR_CORRUPT, "line table at 0x%llx: bad header", (unsigned long long)offset);
	return ERR_OK;
}
