/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/pdb.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "base/varint.h"
#include "extract/dwarf_bytes.h"
#include "extract/pdb_types.h"
#include "extract/pe_view.h"

enum {
	STREAM_INFO = 1,
	STREAM_DBI = 3,
	NO_STREAM = 0xffff,
	DBI_HEADER = 64, /* bytes */
	MODULE_HEADER = 64,
	NAMES_HEADER = 12,
	/* numbers in the list of streams at the end of the DBI stream */
	MOVES_FROM_SOURCE = 4,
	SECTIONS_NOW = 5,
	SECTIONS_SOURCE = 10,
	PUBLIC = 0x110e,         /* S_PUB32 */
	PUBLIC_LIST_HEADER = 28, /* bytes; a table of hashes comes before the list */
	MODULES_MAX = 0xffff,
};
static const uint32_t contributions_1 = 0xf12eba2d, contributions_2 = 0xf13151e4, names_magic = 0xeffeeffe;
static const uint32_t feature_minimal = 0x494e494d;

static enum err damaged(struct error *e, const char *what)
{
	return error_set(e, ERR_CORRUPT, "PDB: %s", what);
}

static uint32_t u32_at(struct str s, size_t at)
{
	return at <= s.len && s.len - at >= 4 ? get_u32((const uint8_t *)s.data + at) : 0;
}

static uint16_t u16_at(struct str s, size_t at)
{
	return at <= s.len && s.len - at >= 2 ? get_u16((const uint8_t *)s.data + at) : 0;
}

/* ---- the stream of the PDB itself: identity, streams with names ---- */

/* The stream of a name; 0: none. Behind the names comes a table of hashes: how many, how large, two sets of bits, and
 * pairs of the name's offset and the stream. What follows it are the file's features. */
static uint32_t named_stream(struct pdb *p, const char *wanted)
{
	struct str info = p->info.bytes;
	uint32_t names_len = u32_at(info, 28), found = 0;
	struct str names = str_first((struct str){info.data + 32, info.len > 32 ? info.len - 32 : 0}, names_len);
	struct reader r = reader_at(info, 32ULL + names_len);
	uint32_t count = (uint32_t)read_fixed(&r, 4, false);
	read_skip(&r, 4);
	for (unsigned set = 0; set < 2; set++)
		read_skip(&r, read_fixed(&r, 4, false) * 4);
	for (uint32_t i = 0; i < count && !r.bad; i++) {
		struct str name = text_at(names, read_fixed(&r, 4, false));
		uint32_t stream = (uint32_t)read_fixed(&r, 4, false);
		if (!r.bad && !found && str_equal(name, str_from(wanted)))
			found = stream;
	}
	while (!r.bad && r.end - r.at >= 4)
		p->minimal |= read_fixed(&r, 4, false) == feature_minimal;
	return found;
}

static enum err read_info(struct pdb *p, struct error *e)
{
	enum err err = msf_read(&p->msf, STREAM_INFO, &p->info, e);
	if (err)
		return err;
	if (p->info.bytes.len < 32)
		return damaged(e, "the stream with its id is cut off");
	uint32_t stream = named_stream(p, "/names");
	p->srcsrv_stream = named_stream(p, "srcsrv");
	p->link_stream = named_stream(p, "sourcelink$1");
	if (!p->link_stream)
		p->link_stream = named_stream(p, "sourcelink");
	if (stream)
		err = msf_read(&p->msf, stream, &p->names, e);
	struct str names = p->names.bytes;
	if (!err && names.len > NAMES_HEADER && u32_at(names, 0) == names_magic)
		p->strings =
		        str_first((struct str){names.data + NAMES_HEADER, names.len - NAMES_HEADER}, u32_at(names, 8));
	return err;
}

/* ---- the stream of debug data ---- */

/* The parts follow each other, with their sizes in the header. */
enum part { PART_MODULES, PART_CONTRIBUTIONS, PART_MAP, PART_FILES, PART_TYPE_SERVERS, PART_EDIT, PART_STREAMS, PARTS };

static bool read_parts(const struct pdb *p, struct str parts[PARTS])
{
	static const uint8_t sizes[PARTS] = {24, 28, 32, 36, 40, 52, 48};
	struct str dbi = p->dbi.bytes;
	uint64_t at = DBI_HEADER;
	for (unsigned i = 0; i < PARTS; i++) {
		uint32_t size = u32_at(dbi, sizes[i]);
		if (size > dbi.len || at > dbi.len - size)
			return false;
		parts[i] = (struct str){dbi.data + at, size};
		at += size;
	}
	return true;
}

/* Each has a header, two names, and what fills up to four bytes. taken: streams that a module has already; no other one
 * has it, or reading all modules would take a time that grows with their number and the stream's size. */
static enum err list_modules(struct pdb *p, struct str part, bool *taken, struct error *e)
{
	struct reader r = reader_at(part, 0);
	while (r.end - r.at > MODULE_HEADER) {
		const uint8_t *h = r.at;
		read_skip(&r, MODULE_HEADER);
		struct pdb_module m = {
		        get_u16(h + 34), get_u32(h + 36), get_u32(h + 40), get_u32(h + 44), read_text(&r)};
		read_text(&r);
		size_t used = (size_t)(r.at - (const uint8_t *)part.data);
		read_skip(&r, -used % 4);
		if (r.bad || p->module_count == MODULES_MAX)
			return damaged(e, "the list of modules is cut off");
		if (m.stream == NO_STREAM || taken[m.stream])
			m.symbols = m.c11 = m.c13 = 0;
		taken[m.stream] = true;
		if (!array_append(&p->modules, &p->module_cap, &p->module_count, &m, sizeof m))
			return no_memory(e);
	}
	return ERR_OK;
}

static enum err read_modules(struct pdb *p, struct str part, struct error *e)
{
	bool *taken = calloc(NO_STREAM + 1, sizeof *taken);
	enum err err = taken ? list_modules(p, part, taken, e) : no_memory(e);
	free(taken);
	return err;
}

static enum err read_contributions(struct pdb *p, struct str part, struct error *e)
{
	uint32_t version = u32_at(part, 0);
	size_t size = version == contributions_1 ? 28 : version == contributions_2 ? 32 : 0;
	size_t count = size ? (part.len - 4) / size : 0;
	bool sorted = true;
	p->contributions = calloc(count + 1, sizeof *p->contributions);
	if (!p->contributions)
		return no_memory(e);
	for (size_t i = 0; i < count; i++) {
		const uint8_t *c = (const uint8_t *)part.data + 4 + i * size;
		struct pdb_contribution *to = &p->contributions[i];
		*to = (struct pdb_contribution){
		        (uint64_t)get_u16(c) << 32 | get_u32(c + 4), get_u32(c + 8), get_u16(c + 16)};
		sorted = sorted && (i == 0 || to[-1].start <= to->start);
	}
	p->contribution_count = count;
	if (!sorted)
		qsort(p->contributions, count, sizeof *p->contributions, search_order);
	return ERR_OK;
}

static enum err read_sections(struct pdb *p, uint32_t stream, struct msf_bytes *bytes, struct pdb_section **sections,
        size_t *count, struct error *e)
{
	enum err err = msf_read(&p->msf, stream, bytes, e);
	size_t n = bytes->bytes.len / PE_SECTION_HEADER;
	if (err)
		return err;
	*sections = calloc(n + 1, sizeof **sections);
	if (!*sections)
		return no_memory(e);
	for (size_t i = 0; i < n; i++) {
		const uint8_t *h = (const uint8_t *)bytes->bytes.data + i * PE_SECTION_HEADER;
		(*sections)[i] = (struct pdb_section){
		        .size = get_u32(h + 8), .start = get_u32(h + 12), .flags = get_u32(h + 36)};
		memcpy((*sections)[i].name, h, 8);
	}
	*count = n;
	return ERR_OK;
}

static int by_from(const void *a, const void *b)
{
	const struct pdb_move *x = a, *y = b;
	return (x->from > y->from) - (x->from < y->from);
}

static enum err read_moves(struct pdb *p, uint32_t stream, struct error *e)
{
	enum err err = msf_read(&p->msf, stream, &p->move_bytes, e);
	size_t n = p->move_bytes.bytes.len / 8;
	p->moves = err ? NULL : calloc(n + 1, sizeof *p->moves);
	if (!p->moves)
		return err ? err : no_memory(e);
	for (size_t i = 0; i < n; i++)
		p->moves[i] =
		        (struct pdb_move){u32_at(p->move_bytes.bytes, 8 * i), u32_at(p->move_bytes.bytes, 8 * i + 4)};
	p->move_count = n;
	qsort(p->moves, n, sizeof *p->moves, by_from);
	return ERR_OK;
}

static uint32_t listed_stream(struct str list, unsigned number)
{
	return number * 2 + 2 <= list.len ? u16_at(list, number * 2) : NO_STREAM;
}

static enum err read_dbi(struct pdb *p, struct error *e)
{
	struct str parts[PARTS];
	enum err err = msf_read(&p->msf, STREAM_DBI, &p->dbi, e);
	if (err)
		return err;
	struct str dbi = p->dbi.bytes;
	if (dbi.len < DBI_HEADER || !read_parts(p, parts))
		return dbi.len == 0 ? error_set(e, ERR_MISSING, "PDB: no debug data of machine code")
		                    : damaged(e, "the stream of debug data is cut off");
	memcpy(p->id.bytes, p->info.bytes.data + 12, GUID_BYTES);
	for (unsigned i = 0; i < 4; i++)
		p->id.bytes[GUID_BYTES + i] = (uint8_t)(u32_at(dbi, 8) >> 8 * (3 - i));
	p->id.len = WINDOWS_ID_BYTES;
	p->public_list_stream = u16_at(dbi, 16);
	p->public_stream = u16_at(dbi, 20);
	p->machine = u16_at(dbi, 58);
	uint32_t source = listed_stream(parts[PART_STREAMS], SECTIONS_SOURCE);
	uint32_t now = listed_stream(parts[PART_STREAMS], SECTIONS_NOW);
	uint32_t moves = listed_stream(parts[PART_STREAMS], MOVES_FROM_SOURCE);
	err = read_modules(p, parts[PART_MODULES], e);
	if (!err)
		err = read_contributions(p, parts[PART_CONTRIBUTIONS], e);
	if (!err)
		err = read_sections(p, now, &p->header_bytes, &p->sections, &p->section_count, e);
	if (!err && moves != NO_STREAM && source != NO_STREAM) {
		err = read_moves(p, moves, e);
		if (!err)
			err = read_sections(
			        p, source, &p->own_header_bytes, &p->own_sections, &p->own_section_count, e);
	}
	return err;
}

enum err pdb_open(struct pdb *p, int fd, uint64_t base, struct error *e)
{
	*p = (struct pdb){.base = base};
	enum err err = msf_open(&p->msf, fd, e);
	if (!err)
		err = read_info(p, e);
	if (!err)
		err = read_dbi(p, e);
	if (!err && p->minimal)
		err = damaged(e, "made by /DEBUG:FASTLINK, its symbols are in the object files: link with /DEBUG:FULL");
	if (!err && pe_view_machine(p->machine) == EM_NONE)
		err = error_set(e, ERR_CORRUPT, "PDB: machine 0x%x is not known", p->machine);
	return err;
}

enum err pdb_sources_open(struct pdb *p, struct error *e)
{
	enum err err = p->srcsrv_stream ? msf_read(&p->msf, p->srcsrv_stream, &p->srcsrv, e) : ERR_OK;
	if (!err && p->link_stream)
		err = msf_read(&p->msf, p->link_stream, &p->link, e);
	return err ? err : pdb_sources_read(&p->sources, p->srcsrv.bytes, p->link.bytes, e);
}

void pdb_close(struct pdb *p)
{
	struct msf_bytes *all[] = {&p->srcsrv, &p->link, &p->info, &p->dbi, &p->names, &p->header_bytes,
	        &p->own_header_bytes, &p->move_bytes, &p->types.stream, &p->ids.stream, &p->types.hash_stream,
	        &p->ids.hash_stream};
	for (size_t i = 0; i < sizeof all / sizeof *all && p->msf.file; i++)
		msf_bytes_release(&p->msf, all[i]);
	for (size_t i = 0; p->exports && i < p->module_count; i++)
		free(p->exports[i].items);
	if (p->has_lock)
		pthread_mutex_destroy(&p->lock);
	free(p->exports);
	free(p->next_of_name);
	map64_release(&p->modules_by_name);
	map64_release(&p->imported);
	pdb_sources_release(&p->sources);
	free(p->types.places);
	free(p->types.by_bucket);
	free(p->ids.places);
	free(p->modules);
	free(p->contributions);
	free(p->sections);
	free(p->own_sections);
	free(p->moves);
	if (p->msf.file)
		msf_close(&p->msf);
	*p = (struct pdb){0};
}

/* ---- addresses ---- */

static const struct pdb_contribution *contribution_at(const struct pdb *p, uint64_t start)
{
	size_t i = search_up_to(p->contributions, p->contribution_count, sizeof *p->contributions, 0, start);
	const struct pdb_contribution *c = i > 0 ? &p->contributions[i - 1] : NULL;
	return c && start - c->start < c->size ? c : NULL;
}

uint32_t pdb_owner(const struct pdb *p, uint16_t section, uint32_t offset)
{
	const struct pdb_contribution *c = contribution_at(p, (uint64_t)section << 32 | offset);
	return c ? c->module : UINT32_MAX;
}

static bool is_up_to(const void *moves, size_t i, uint64_t address)
{
	return ((const struct pdb_move *)moves)[i].from <= address;
}

uint64_t pdb_steps(const struct pdb *p)
{
	enum { TIMES_SAID = 64 };
	return TIMES_SAID * (uint64_t)p->move_count;
}

bool pdb_place(const struct pdb *p, uint16_t section, uint32_t offset, uint32_t len, uint64_t *steps,
        bool (*take)(void *arg, uint64_t start, uint64_t end, uint32_t skip), void *arg)
{
	const struct pdb_section *sections = p->moves ? p->own_sections : p->sections;
	size_t count = p->moves ? p->own_section_count : p->section_count;
	if (section == 0 || section > count || offset >= sections[section - 1].size)
		return true;
	if (len > sections[section - 1].size - offset)
		len = sections[section - 1].size - offset;
	uint64_t start = (uint64_t)sections[section - 1].start + offset, end = start + len;
	if (!p->moves)
		return take(arg, p->base + start, p->base + end, 0);
	size_t behind = search_before(p->move_count, is_up_to, p->moves, start);
	for (uint64_t at = start, next; at < end; at = next) {
		if (at > start && (*steps)-- == 0) {
			*steps = 0;
			return true;
		}
		while (at > start && behind < p->move_count && p->moves[behind].from <= at)
			behind++;
		next = behind < p->move_count && p->moves[behind].from < end ? p->moves[behind].from : end;
		const struct pdb_move *m = behind > 0 ? &p->moves[behind - 1] : NULL;
		if (!m || m->to == 0)
			continue;
		uint64_t moved = p->base + m->to + (at - m->from);
		if (!take(arg, moved, moved + (next - at), (uint32_t)(at - start)))
			return false;
	}
	return true;
}

/* The contribution that an address of the program is in; NULL: none. */
static const struct pdb_contribution *contribution_of(const struct pdb *p, uint64_t address)
{
	for (size_t i = 0; i < p->section_count; i++) {
		uint64_t offset = address - p->base - p->sections[i].start;
		const struct pdb_contribution *c =
		        offset < p->sections[i].size ? contribution_at(p, (uint64_t)(i + 1) << 32 | offset) : NULL;
		if (c)
			return c;
	}
	return NULL;
}

void pdb_needed(const struct pdb *p, const uint64_t *asked, size_t count, bool *needed)
{
	bool all = count == 0 || p->moves;
	for (size_t i = 0; i < count && !all; i++) {
		const struct pdb_contribution *c = contribution_of(p, asked[i]);
		all = !c;
		if (c && c->module < p->module_count)
			needed[c->module] = true;
	}
	for (size_t i = 0; i < p->module_count && all; i++)
		needed[i] = true;
}

/* ---- the view ---- */

enum { AROUND_MAX = 16 };

/* The code around the addresses that are asked for. */
struct around {
	const struct pdb_contribution *items[AROUND_MAX];
	size_t count; /* 0: all code is needed */
};

/* Each address is in the contribution of a module, or all code is needed. */
static void find_around(struct around *around, const struct pdb *p, const struct view_wanted *w)
{
	around->count = 0;
	for (size_t i = 0; i < w->asked_count && w->asked_count <= AROUND_MAX && !p->moves; i++) {
		const struct pdb_contribution *c = contribution_of(p, w->asked[i]);
		if (!c) {
			around->count = 0;
			return;
		}
		around->items[around->count++] = c;
	}
}

struct public_symbol {
	struct view_builder *b;
	struct str name;
	struct error *e;
	enum err err;
	size_t left; /* ends that may still be added */
};

static bool take_public(void *arg, uint64_t start, uint64_t end, uint32_t skip)
{
	struct public_symbol *s = arg;
	(void)end;
	(void)skip;
	s->err = view_add_symbol(s->b, start, 0, s->name, false, s->e);
	return !s->err;
}

/* Adds the public symbol that begins at r, behind which r is then; other records are nothing. */
static void read_public(const struct pdb *p, struct reader *r, struct public_symbol *s)
{
	struct reader record = {.at = r->at + 2};
	read_skip(r, read_fixed(r, 2, false));
	record.end = r->at;
	if (r->bad || read_fixed(&record, 2, false) != PUBLIC)
		return;
	read_skip(&record, 4);
	uint32_t offset = (uint32_t)read_fixed(&record, 4, false);
	uint16_t section = (uint16_t)read_fixed(&record, 2, false);
	s->name = pe_plain_name(read_text(&record), s->b->machine);
	if (!record.bad)
		pdb_place(p, section, offset, 1, &(uint64_t){0}, take_public, s);
}

/* The list of public symbols by address that linkers write: offsets of their records. */
struct public_list {
	struct str offsets, records;
};

/* Section and offset of the i-th symbol. */
static uint64_t place_of(const struct public_list *l, size_t i)
{
	uint64_t at = u32_at(l->offsets, 4 * i);
	return (uint64_t)u16_at(l->records, at + 12) << 32 | u32_at(l->records, at + 8);
}

static bool is_before(const void *list, size_t i, uint64_t place)
{
	return place_of(list, i) < place;
}

static void add_listed(
        const struct pdb *p, const struct public_list *l, const struct pdb_contribution *c, struct public_symbol *s)
{
	size_t count = l->offsets.len / 4;
	for (size_t i = search_before(count, is_before, l, c->start); i < count && !s->err; i++) {
		struct reader r = reader_at(l->records, u32_at(l->offsets, 4 * i));
		if (place_of(l, i) > c->start + c->size)
			return;
		read_public(p, &r, s);
	}
}

/* All public symbols, or those of the contributions that are asked for. Without a list all code is needed. */
static enum err add_publics(struct view_builder *b, const struct pdb *p, struct around *around, struct error *e)
{
	struct msf_bytes bytes, listed;
	struct public_symbol s = {.b = b, .e = e, .err = msf_read(&p->msf, p->public_stream, &bytes, e)};
	struct reader r = reader_at(bytes.bytes, 0);
	struct public_list list = {.records = bytes.bytes};
	if (s.err)
		return s.err;
	s.err = msf_read(&p->msf, around->count ? p->public_list_stream : NO_STREAM, &listed, e);
	struct reader offsets = reader_at(listed.bytes, PUBLIC_LIST_HEADER + (uint64_t)u32_at(listed.bytes, 0));
	list.offsets = str_first(
	        (struct str){(const char *)offsets.at, (size_t)(offsets.end - offsets.at)}, u32_at(listed.bytes, 4));
	if (!list.offsets.len)
		around->count = 0;
	for (size_t i = 0; i < around->count; i++)
		add_listed(p, &list, around->items[i], &s);
	while (!around->count && !s.err && r.end - r.at >= 4)
		read_public(p, &r, &s);
	msf_bytes_release(&p->msf, &listed);
	msf_bytes_release(&p->msf, &bytes);
	return s.err;
}

static bool take_end(void *arg, uint64_t start, uint64_t end, uint32_t skip)
{
	struct public_symbol *s = arg;
	(void)skip;
	if (s->left == 0)
		return false;
	s->left--;
	if (view_code_at(s->b, start))
		s->err = view_add_start(s->b, end, s->e);
	return !s->err;
}

/* Symbols end at the latest where the code of their module does. Contributions of a sound file do not overlap: each
 * move is in one of them. */
static enum err add_ends(struct view_builder *b, const struct pdb *p, const struct around *around, struct error *e)
{
	struct public_symbol s = {.b = b, .e = e, .left = p->contribution_count + p->move_count};
	uint64_t steps = pdb_steps(p);
	size_t count = around->count ? around->count : p->contribution_count;
	for (size_t i = 0; i < count && !s.err; i++) {
		const struct pdb_contribution *c = around->count ? around->items[i] : &p->contributions[i];
		pdb_place(p, (uint16_t)(c->start >> 32), (uint32_t)c->start, c->size, &steps, take_end, &s);
	}
	return s.err;
}

static enum err add_sections(struct view_builder *b, const struct pdb *p, struct error *e)
{
	const struct view_segment image = {0, p->base, 0, 4096, true};
	enum err err = view_add_segment(b, &image, e);
	for (size_t i = 0; i < p->section_count && !err; i++) {
		const struct pdb_section *from = &p->sections[i];
		struct view_section s = {
		        .address = p->base + from->start, .size = from->size, .type = SHT_NOBITS, .loaded = true};
		s.code = from->flags & PE_SECTION_CODE;
		memcpy(s.name, from->name, sizeof from->name);
		if (s.code && s.size > 0)
			err = view_add_section(b, &s, e);
	}
	return err;
}

enum err pdb_view_read(struct view_builder *b, int fd, struct error *e)
{
	struct pdb p;
	struct around around;
	enum err err = pdb_open(&p, fd, b->wanted->base, e);
	if (!err) {
		b->machine = pe_view_machine(p.machine);
		b->kind = VIEW_WINDOWS;
		b->id = p.id;
		find_around(&around, &p, b->wanted);
		err = add_sections(b, &p, e);
	}
	if (!err && !b->wanted->no_symbols)
		err = add_publics(b, &p, &around, e);
	if (!err && !b->wanted->no_symbols)
		err = add_ends(b, &p, &around, e);
	pdb_close(&p);
	return err;
}
