/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/go_table.h"

#include <gelf.h>

#include "extract/dwarf_bytes.h"
#include "extract/elf_file.h"

enum {
	STEPS_OF_CALLS = 2, /* which of a function's further steps these are */
	DATA_OF_CALLS = 3,  /* which of its data */
};

/* Words of the runtime's moduledata, which begins with a pointer to the table. */
enum { MODULE_NAMES = 1, MODULE_FUNCTIONS = 16, MODULE_TEXT = 22, MODULE_CALLS_18 = 38, MODULE_CALLS_20 = 40 };

struct header {
	uint64_t functions, text, names, units, files, steps, pcln;
};

static struct str rest_from(struct str s, uint64_t offset)
{
	return offset < s.len ? (struct str){s.data + offset, s.len - (size_t)offset} : (struct str){"", 0};
}

static unsigned version_of(uint32_t magic)
{
	static const uint32_t magics[][2] = {{0xfffffffb, 2}, {0xfffffffa, 16}, {0xfffffff0, 18}, {0xfffffff1, 20}};
	for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
		if (magics[i][0] == magic)
			return magics[i][1];
	return 0;
}

/* The version, or 0 when this is no header. */
static unsigned read_version(const struct go_table *t, struct str s)
{
	struct reader r = reader_at(s, 0);
	unsigned version = version_of((uint32_t)read_fixed(&r, 4, t->image.big));
	if (s.len < 8 || s.data[4] || s.data[5] || (s.data[6] != 1 && s.data[6] != 2 && s.data[6] != 4))
		return 0;
	return (unsigned)s.data[7] == t->image.pointer_size ? version : 0;
}

static bool read_header(struct go_table *t, struct header *h)
{
	unsigned p = t->image.pointer_size;
	struct reader r = reader_at(t->whole, 8);
	*h = (struct header){.functions = read_fixed(&r, p, t->image.big)};
	read_skip(&r, p); /* number of files */
	if (t->version >= 18) {
		h->text = image_pointer(&t->image, t->address + 8 + 2 * p);
		read_skip(&r, p);
	}
	uint64_t *const fields[] = {&h->names, &h->units, &h->files, &h->steps, &h->pcln};
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		*fields[i] = read_fixed(&r, p, t->image.big);
		if (*fields[i] > t->whole.len)
			return false;
	}
	return !r.bad;
}

/* Bytes of an entry of the list of functions: address and offset. */
static unsigned entry_size(const struct go_table *t)
{
	return t->version >= 18 ? 8 : 2 * t->image.pointer_size;
}

static uint64_t module_word(const struct go_table *t, uint64_t module, unsigned i)
{
	return image_pointer(&t->image, module + (uint64_t)i * t->image.pointer_size);
}

static bool is_module(const struct go_table *t, uint64_t module, const struct header *h)
{
	return module_word(t, module, 0) == t->address &&
	       module_word(t, module, MODULE_NAMES) == t->address + h->names &&
	       module_word(t, module, MODULE_FUNCTIONS) == t->address + h->pcln;
}

/* Where the runtime's moduledata is; 0: not found. Its first word is looked for in relocations and in data. */
static uint64_t find_module(const struct go_table *t, const struct header *h)
{
	const struct image *m = &t->image;
	for (size_t i = 0; i < m->pointer_count; i++)
		if (m->pointers[i].value == t->address && is_module(t, m->pointers[i].address, h))
			return m->pointers[i].address;
	for (size_t i = 0; i < m->section_count; i++) {
		const struct image_section *s = &m->sections[i];
		struct reader r = reader_at(s->bytes, 0);
		for (uint64_t at = s->start; s->writable && (size_t)(r.end - r.at) >= m->pointer_size;
		        at += m->pointer_size)
			if (read_fixed(&r, m->pointer_size, m->big) == t->address && is_module(t, at, h))
				return at;
	}
	return 0;
}

static void read_module(struct go_table *t, const struct header *h)
{
	uint64_t module = find_module(t, h);
	if (module) {
		t->text = module_word(t, module, MODULE_TEXT);
		t->calls = module_word(t, module, t->version >= 20 ? MODULE_CALLS_20 : MODULE_CALLS_18);
		return;
	}
	t->text = h->text;
	for (size_t i = 0; !t->text && i < t->code->count; i++)
		t->text = t->code->sections[i].start;
}

static enum err read_table(struct go_table *t, struct error *e)
{
	struct header h;
	if (t->version < 16)
		return error_set(e, ERR_MISSING, "its .gopclntab is from Go before 1.16");
	if (!read_header(t, &h))
		return error_set(e, ERR_MISSING, "its .gopclntab has a header that points outside of it");
	t->names = rest_from(t->whole, h.names);
	t->units = rest_from(t->whole, h.units);
	t->files = rest_from(t->whole, h.files);
	t->steps = rest_from(t->whole, h.steps);
	t->functions = rest_from(t->whole, h.pcln);
	t->quantum = (uint8_t)t->whole.data[6];
	if (h.functions > t->functions.len / entry_size(t))
		return error_set(e, ERR_MISSING, "its .gopclntab has fewer functions than it says");
	t->count = (size_t)h.functions;
	if (t->version >= 18)
		read_module(t, &h);
	return ERR_OK;
}

/* External linkers put the table of a position-independent program into a section with other data. */
static bool find_in(struct go_table *t, struct str bytes, uint64_t address)
{
	unsigned p = t->image.pointer_size;
	for (size_t i = 0; i + 8 <= bytes.len; i += p) {
		struct str rest = rest_from(bytes, i);
		unsigned version = read_version(t, rest);
		struct header h;
		if (version < 16)
			continue;
		t->version = version;
		t->whole = rest;
		t->address = address + i;
		if (read_header(t, &h) && h.names < h.units && h.units < h.files && h.files < h.steps &&
		        h.steps < h.pcln)
			return true;
	}
	return false;
}

static bool find_table(struct go_table *t, Elf *elf)
{
	static const char *const own[] = {".gopclntab", ".data.rel.ro.gopclntab"};
	GElf_Shdr h;
	for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
		Elf_Scn *s = elf_find_section(elf, own[i]);
		if (!s || !gelf_getshdr(s, &h))
			continue;
		t->address = h.sh_addr;
		t->whole = image_bytes(&t->image, h.sh_addr);
		t->version = read_version(t, t->whole);
		return true;
	}
	Elf_Scn *s = elf_find_section(elf, ".data.rel.ro");
	return s && gelf_getshdr(s, &h) && find_in(t, image_bytes(&t->image, h.sh_addr), h.sh_addr);
}

enum err go_table_open(struct go_table *t, Elf *elf, const struct code_map *code, struct error *e)
{
	*t = (struct go_table){.code = code};
	enum err err = image_read(&t->image, elf, e);
	if (err)
		return err;
	if (!find_table(t, elf))
		return error_set(e, ERR_MISSING, "%s", "");
	if (t->version == 0)
		return error_set(e, ERR_MISSING, "its .gopclntab has an unknown form");
	err = image_read_pointers(&t->image, elf, e);
	return err ? err : read_table(t, e);
}

void go_table_release(struct go_table *t)
{
	image_release(&t->image);
	*t = (struct go_table){0};
}

/* The address in the i-th entry of the list, and the offset in *record, which the last one does not have. */
static bool read_entry(const struct go_table *t, size_t i, uint64_t *address, uint64_t *record)
{
	bool big = t->image.big;
	unsigned p = t->version >= 18 ? 4 : t->image.pointer_size;
	struct reader r = reader_at(t->functions, (uint64_t)i * entry_size(t));
	uint64_t at = t->address + (uint64_t)(r.at - (const uint8_t *)t->whole.data), v = read_fixed(&r, p, big);
	if (record)
		*record = read_fixed(&r, p, big);
	*address = t->version >= 18 ? t->text + v : image_pointer(&t->image, at);
	return !r.bad;
}

/* The inlined calls of a function whose data r stands before. */
static struct str read_calls(const struct go_table *t, struct reader r, uint32_t count)
{
	unsigned p = t->version >= 18 ? 4 : t->image.pointer_size;
	uint64_t at = t->address + (uint64_t)(r.at - (const uint8_t *)t->whole.data);
	if (count <= DATA_OF_CALLS)
		return (struct str){"", 0};
	if (t->version < 18) {
		at += at % p ? p - at % p : 0;
		return image_bytes(&t->image, image_pointer(&t->image, at + DATA_OF_CALLS * p));
	}
	read_skip(&r, DATA_OF_CALLS * 4);
	uint64_t offset = read_fixed(&r, 4, t->image.big);
	if (r.bad || offset == UINT32_MAX || !t->calls)
		return (struct str){"", 0};
	return image_bytes(&t->image, t->calls + offset);
}

static bool read_record(const struct go_table *t, uint64_t offset, struct go_function *f)
{
	bool big = t->image.big;
	struct reader r = reader_at(t->functions, offset);
	read_skip(&r, t->version >= 18 ? 4 : t->image.pointer_size); /* address */
	f->name = (uint32_t)read_fixed(&r, 4, big);
	read_skip(&r, 12); /* arguments, deferred return, steps of the stack */
	f->file_steps = (uint32_t)read_fixed(&r, 4, big);
	f->line_steps = (uint32_t)read_fixed(&r, 4, big);
	uint32_t more_steps = (uint32_t)read_fixed(&r, 4, big);
	f->unit = (uint32_t)read_fixed(&r, 4, big);
	read_skip(&r, t->version >= 20 ? 4 + 3 : 3); /* first line; kind, flags */
	uint32_t more_data = (uint32_t)read_fixed(&r, 1, big);
	struct reader steps = r;
	read_skip(&r, 4 * (uint64_t)more_steps);
	if (more_steps > STEPS_OF_CALLS && !r.bad) {
		read_skip(&steps, STEPS_OF_CALLS * 4);
		f->call_steps = (uint32_t)read_fixed(&steps, 4, big);
	}
	f->calls = r.bad ? (struct str){"", 0} : read_calls(t, r, more_data);
	return !r.bad;
}

/* Code ends where its steps do; padding follows up to the next function. */
static void find_end(const struct go_table *t, struct go_function *f)
{
	uint64_t end = f->start;
	const uint32_t offsets[] = {f->file_steps, f->line_steps};
	struct go_step step;
	for (size_t i = 0; i < 2; i++) {
		struct go_steps s = go_steps_of(t, f, offsets[i]);
		while (go_steps_next(&s, &step))
			end = step.end > end ? step.end : end;
	}
	if (end > f->start)
		f->end = end;
}

bool go_table_function(const struct go_table *t, size_t i, struct go_function *f)
{
	uint64_t record;
	*f = (struct go_function){0};
	if (i >= t->count || !read_entry(t, i, &f->start, &record))
		return false;
	const struct code_section *section = code_map_find(t->code, f->start);
	if (!section || !read_entry(t, i + 1, &f->end, NULL) || f->end <= f->start || !read_record(t, record, f))
		return false;
	if (f->end > section->end)
		f->end = section->end;
	find_end(t, f);
	return true;
}

struct go_steps go_steps_of(const struct go_table *t, const struct go_function *f, uint32_t offset)
{
	struct go_steps s = {.at = f->start, .end = f->end, .value = UINT32_MAX, .quantum = t->quantum};
	if (offset > 0)
		s.r = reader_at(t->steps, offset);
	return s;
}

/* A varint of 32 bits. */
static uint32_t read_number(struct reader *r)
{
	return (uint32_t)reader_varint(r);
}

/* Each step covers code, so there are no more steps than bytes of code. */
bool go_steps_next(struct go_steps *s, struct go_step *step)
{
	if (s->at >= s->end || s->r.at >= s->r.end)
		return false;
	uint32_t difference = read_number(&s->r);
	if (difference == 0 && s->started)
		return false;
	uint64_t length = (uint64_t)read_number(&s->r) * s->quantum;
	if (s->r.bad || length == 0)
		return false;
	s->started = true;
	s->value += difference & 1 ? ~(difference >> 1) : difference >> 1;
	uint64_t end = length < s->end - s->at ? s->at + length : s->end;
	*step = (struct go_step){s->at, end, (int32_t)s->value};
	s->at = end;
	return true;
}

bool go_table_call(const struct go_table *t, const struct go_function *f, uint32_t i, struct go_call *call)
{
	bool old = t->version < 20;
	struct reader r = reader_at(f->calls, (uint64_t)i * (old ? 20 : 16));
	read_skip(&r, old ? 12 : 4); /* parent, kind, file, line; or kind */
	call->name = (uint32_t)read_fixed(&r, 4, t->image.big);
	uint64_t site = read_fixed(&r, 4, t->image.big);
	call->site = site < f->end - f->start ? f->start + site : 0;
	return !r.bad && call->name < t->names.len;
}

bool go_table_file(const struct go_table *t, uint32_t unit, int32_t file, uint32_t *offset)
{
	if (file < 0)
		return false;
	struct reader r = reader_at(t->units, 4 * ((uint64_t)unit + (uint64_t)file));
	*offset = (uint32_t)read_fixed(&r, 4, t->image.big);
	return !r.bad && *offset < t->files.len;
}
