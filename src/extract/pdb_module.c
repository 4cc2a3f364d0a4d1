/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/pdb_module.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "base/varint.h"
#include "extract/dwarf_bytes.h"
#include "extract/pe_view.h"

enum {
	S_THUNK = 0x1102,
	S_LPROC = 0x110f,
	S_GPROC = 0x1110,
	S_SEPCODE = 0x1132,
	S_LPROC_ID = 0x1146,
	S_GPROC_ID = 0x1147,
	S_INLINESITE = 0x114d,
	S_LPROC_DPC = 0x1155,
	S_LPROC_DPC_ID = 0x1156,
	S_INLINESITE_2 = 0x115d,
	SIGNATURE = 4,       /* bytes before the first symbol */
	HIDDEN_1 = 0xfeefee, /* lines that are none */
	HIDDEN_2 = 0xf00f00,
	LINE_BITS = 24,
	PIECES_MIN = 4096,
	VARIANTS_LOOKED_AT = 8,
	NO_LENGTH = -1,
	SHARED_MAX = 4, /* how often procedures of a sound file share code, at most, on average: folded ones do */
};

/* A record of the module's symbols. */
struct pdb_symbol {
	uint16_t kind;
	uint32_t at, next; /* offsets in the stream */
	struct reader r;   /* behind its kind */
};

static bool next_symbol(const struct pdb_reader *r, uint32_t at, struct pdb_symbol *s)
{
	struct reader all = reader_at(r->symbols, at);
	uint64_t len = read_fixed(&all, 2, false);
	if (all.bad || len < 2 || len > (uint64_t)(all.end - all.at))
		return false;
	s->at = at;
	s->next = at + 2 + (uint32_t)len;
	s->r = (struct reader){.at = all.at, .end = all.at + len};
	s->kind = (uint16_t)read_fixed(&s->r, 2, false);
	return true;
}

/* ---- lines ---- */

/* The path of a file, or its name in a repository, by the offset of its checksum, which has that of its name. data is
 * NULL if out of memory. */
static struct str find_path(struct pdb_reader *r, uint32_t file)
{
	uint64_t known = map64_get(&r->paths, (uint64_t)file + 1);
	if (known)
		return known > 1 ? intern_at(known) : (struct str){"", 0};
	struct reader entry = reader_at(r->checksums, file);
	uint64_t name = read_fixed(&entry, 4, false);
	struct str own = text_at(r->p->strings, name);
	char place[SOURCE_NAME_MAX];
	if (!entry.bad && pdb_sources_name(&r->p->sources, own, place))
		own = str_from(place);
	struct str path = entry.bad ? (struct str){"", 0} : intern_add(&r->strings, own);
	if (path.data && !map64_put(&r->paths, (uint64_t)file + 1, path.len ? (uintptr_t)path.data : 1))
		path.data = NULL;
	return path;
}

static struct str path_of(struct pdb_reader *r, uint32_t file)
{
	if (!r->last_path.data || r->last_file != file)
		r->last_path = find_path(r, file);
	r->last_file = file;
	return r->last_path;
}

struct row_taker {
	struct pdb_reader *r;
	struct pdb_rows *rows;
	struct str path;
	uint32_t line;
};

/* Code that was moved may be in as many pieces as there are moves: what is behind the first one is counted. */
static bool may_split(struct pdb_reader *r, uint32_t skip)
{
	bool ok = skip == 0 || r->budget > 0;
	r->budget -= skip > 0 && ok;
	return ok;
}

static bool take_row(void *arg, uint64_t start, uint64_t end, uint32_t skip)
{
	struct row_taker *t = arg;
	const struct pdb_row row = {start, end, t->path, t->line};
	return !may_split(t->r, skip) ||
	       array_append(&t->rows->items, &t->rows->cap, &t->rows->count, &row, sizeof row);
}

static bool add_row(struct pdb_reader *r, struct pdb_rows *rows, uint16_t section, uint32_t offset, uint32_t len,
        struct str path, uint32_t line)
{
	struct row_taker t = {r, rows, path, line};
	return path.data && (len == 0 || pdb_place(r->p, section, offset, len, &r->steps, take_row, &t));
}

/* One of a block of lines, before it is known where it ends. */
struct entry {
	uint64_t order; /* its offset, and then its number */
	uint32_t file, line;
};

/* Entries of all files of a block are in one order: each ends where the next one begins. Hidden ones let the one before
 * go on. */
static bool add_entries(
        struct pdb_reader *r, struct entry *entries, size_t count, uint16_t section, uint32_t offset, uint32_t size)
{
	bool ok = true;
	if (count > 0)
		qsort(entries, count, sizeof *entries, search_order);
	for (size_t i = 0; i < count && ok; i++) {
		uint64_t start = entries[i].order >> 32, end = i + 1 < count ? entries[i + 1].order >> 32 : size;
		if (start < size && end > start)
			ok = add_row(r, &r->rows, section, offset + (uint32_t)start,
			        (uint32_t)((end < size ? end : size) - start), path_of(r, entries[i].file),
			        entries[i].line);
	}
	return ok;
}

static bool read_block(struct pdb_reader *r, struct str data)
{
	struct reader in = reader_at(data, 0);
	uint32_t offset = (uint32_t)read_fixed(&in, 4, false);
	uint16_t section = (uint16_t)read_fixed(&in, 2, false), columns = read_fixed(&in, 2, false) & 1;
	uint32_t size = (uint32_t)read_fixed(&in, 4, false), cap = 0;
	struct entry *entries = NULL;
	size_t count = 0;
	bool ok = true;
	while (ok && in.end - in.at >= 12) {
		uint32_t file = (uint32_t)read_fixed(&in, 4, false), n = (uint32_t)read_fixed(&in, 4, false);
		read_skip(&in, 4);
		for (uint32_t i = 0; i < n && in.end - in.at >= 8 && ok; i++) {
			uint64_t at = read_fixed(&in, 4, false);
			uint32_t line = read_fixed(&in, 4, false) & ((1U << LINE_BITS) - 1);
			const struct entry entry = {at << 32 | count, file, line};
			if (line != HIDDEN_1 && line != HIDDEN_2)
				ok = array_append(&entries, &cap, &count, &entry, sizeof entry);
		}
		read_skip(&in, columns ? n * 4ULL : 0);
	}
	ok = ok && add_entries(r, entries, count, section, offset, size);
	free(entries);
	return ok;
}

static int by_start(const void *a, const void *b)
{
	const struct pdb_row *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

/* Of rows that overlap what begins first counts. */
static size_t sort_rows(struct pdb_row *rows, size_t count)
{
	size_t kept = 0;
	if (count > 0)
		qsort(rows, count, sizeof *rows, by_start);
	for (size_t i = 0; i < count; i++) {
		struct pdb_row row = rows[i];
		if (kept > 0 && row.start < rows[kept - 1].end)
			row.start = rows[kept - 1].end;
		if (row.start < row.end)
			rows[kept++] = row;
	}
	return kept;
}

/* Where the functions that are inlined begin: id, file, line; and with signature 1 more files. */
static bool list_inlinees(struct pdb_reader *r, struct str part)
{
	struct reader in = reader_at(part, 0);
	bool more = read_fixed(&in, 4, false) == 1, ok = true;
	while (ok && in.end - in.at >= 12) {
		uint64_t at = (uint64_t)(in.at - (const uint8_t *)r->c13.data), id = read_fixed(&in, 4, false) + 1;
		read_skip(&in, 8);
		if (more)
			read_skip(&in, read_fixed(&in, 4, false) * 4);
		if (!map64_get(&r->inlinees, id))
			ok = map64_put(&r->inlinees, id, at + 1);
	}
	return ok;
}

static enum err read_lines(struct pdb_reader *r, struct error *e)
{
	struct reader in = reader_at(r->c13, 0);
	uint32_t kind;
	bool ok = true;
	r->checksums = pdb_subsection(r->c13, PDB_CHECKSUMS);
	pdb_namer_module(&r->namer, pdb_subsection(r->c13, PDB_IMPORTS));
	for (struct str data; ok && pdb_next_subsection(&in, &kind, &data);) {
		if (kind == PDB_LINES)
			ok = read_block(r, data);
		else if (kind == PDB_INLINEES)
			ok = list_inlinees(r, data);
	}
	r->rows.count = ok ? sort_rows(r->rows.items, r->rows.count) : 0;
	if (!ok)
		return no_memory(e);
	return in.bad ? error_set(e, ERR_CORRUPT, "PDB: the lines of a module are cut off") : ERR_OK;
}

/* ---- annotations: the code of an inlined call, with its lines ---- */

/* Numbers of 1, 2 or 4 bytes, by the first bits. */
static uint32_t read_compressed(struct reader *in)
{
	uint32_t first = (uint32_t)read_fixed(in, 1, true);
	if (first < 0x80)
		return first;
	if (first < 0xc0)
		return (first & 0x3f) << 8 | (uint32_t)read_fixed(in, 1, true);
	if (first < 0xe0)
		return (first & 0x1f) << 24 | (uint32_t)read_fixed(in, 3, true);
	in->bad = true;
	return 0;
}

static int32_t signed_value(uint32_t v)
{
	return v & 1 ? -(int32_t)(v >> 1) : (int32_t)(v >> 1);
}

struct procedure {
	uint16_t section;
	uint32_t offset, len;
	struct str name;
	uint32_t type;
	bool is_id;
};

struct annotations {
	struct pdb_reader *r;
	const struct procedure *procedure;
	uint32_t code, base, file, line;
	bool open; /* a row without a length */
	uint32_t open_start, open_file, open_line;
	bool ok;
};

static void close_row(struct annotations *a, uint32_t end)
{
	const struct procedure *p = a->procedure;
	if (a->open && end > a->open_start && a->open_start < p->len)
		a->ok = a->ok && add_row(a->r, &a->r->site_rows, p->section, p->offset + a->open_start,
		                         (end < p->len ? end : p->len) - a->open_start, path_of(a->r, a->open_file),
		                         a->open_line);
	a->open = false;
}

/* A row that begins at the code offset; it ends there + length, or where the next one begins. */
static void emit(struct annotations *a, int64_t length)
{
	uint32_t start = a->base + a->code;
	close_row(a, start);
	a->open = true;
	a->open_start = start;
	a->open_file = a->file;
	a->open_line = a->line;
	if (length >= 0)
		close_row(a, start + (uint32_t)length);
}

/* Each code of an operation has one number behind it, but for 12. */
static void run_annotations(struct annotations *a, struct reader in)
{
	while (in.at < in.end && a->ok) {
		uint32_t code = read_compressed(&in), v = code ? read_compressed(&in) : 0;
		if (code == 0 || in.bad)
			return;
		switch (code) {
		case 1:
			a->code = v;
			break;
		case 2:
			a->base = v;
			break;
		case 3:
			a->code += v;
			emit(a, NO_LENGTH);
			break;
		case 4:
			close_row(a, a->open_start + v);
			a->code += v;
			break;
		case 5:
			a->file = v;
			break;
		case 6:
			a->line += (uint32_t)signed_value(v);
			break;
		case 11:
			a->code += v & 0xf;
			a->line += (uint32_t)signed_value(v >> 4);
			emit(a, NO_LENGTH);
			break;
		case 12:
			a->code += read_compressed(&in);
			if (!in.bad)
				emit(a, v);
			break;
		default: /* columns, kinds of ranges: nothing here */
			break;
		}
	}
}

/* ---- inlined calls ---- */

static bool add_site(struct pdb_reader *r, const struct procedure *p, struct pdb_symbol *s, uint32_t parent)
{
	struct pdb_site site = {
	        .parent = parent, .depth = parent ? r->sites[parent - 1].depth + 1 : 1, .row = r->site_rows.count};
	read_skip(&s->r, 4);
	site.end = (uint32_t)read_fixed(&s->r, 4, false);
	site.inlinee = (uint32_t)read_fixed(&s->r, 4, false);
	if (s->kind == S_INLINESITE_2)
		read_skip(&s->r, 4);
	struct annotations a = {.r = r, .procedure = p, .ok = true};
	uint64_t at = map64_get(&r->inlinees, (uint64_t)site.inlinee + 1);
	struct reader start = reader_at(r->c13, at ? at + 3 : UINT64_MAX);
	a.file = at ? (uint32_t)read_fixed(&start, 4, false) : UINT32_MAX;
	a.line = at ? (uint32_t)read_fixed(&start, 4, false) : 0;
	run_annotations(&a, s->r);
	site.row_count = sort_rows(r->site_rows.items + site.row, r->site_rows.count - site.row);
	r->site_rows.count = site.row + site.row_count;
	if (parent && a.ok) {
		site.next = r->sites[parent - 1].child;
		r->sites[parent - 1].child = (uint32_t)r->site_count + 1;
	}
	return a.ok && array_append(&r->sites, &r->site_cap, &r->site_count, &site, sizeof site);
}

/* The sites between a procedure's record and the end of its scope. */
static bool read_sites(struct pdb_reader *r, const struct procedure *p, uint32_t at, uint32_t end)
{
	struct pdb_symbol s;
	uint32_t open = 0; /* the innermost site that is open */
	bool ok = true;
	r->site_count = r->site_rows.count = 0;
	for (; ok && at < end && next_symbol(r, at, &s); at = s.next) {
		while (open && r->sites[open - 1].end <= at)
			open = r->sites[open - 1].parent;
		if (s.kind != S_INLINESITE && s.kind != S_INLINESITE_2)
			continue;
		if (open && r->sites[open - 1].depth >= INLINE_DEPTH_MAX)
			continue;
		ok = add_site(r, p, &s, open);
		open = (uint32_t)r->site_count;
	}
	return ok;
}

static bool add_work(struct pdb_reader *r, uint64_t start, uint64_t end)
{
	const struct pdb_span span = {start, end};
	if (r->budget == 0)
		return true;
	r->budget--;
	return array_append(&r->work, &r->work_cap, &r->work_count, &span, sizeof span);
}

/* The code of a site is that of its rows, and that of the calls inside it: some compilers leave it out of the rows. */
static bool join_spans(struct pdb_reader *r, struct pdb_site *s)
{
	bool ok = true;
	r->work_count = 0;
	for (size_t i = 0; i < s->row_count && ok; i++)
		ok = add_work(r, r->site_rows.items[s->row + i].start, r->site_rows.items[s->row + i].end);
	for (uint32_t c = s->child; c && ok; c = r->sites[c - 1].next)
		for (size_t i = 0; i < r->sites[c - 1].span_count && ok; i++) {
			const struct pdb_span *span = &r->spans[r->sites[c - 1].span + i];
			ok = add_work(r, span->start, span->end);
		}
	if (r->work_count > 0)
		qsort(r->work, r->work_count, sizeof *r->work, search_order);
	s->span = r->span_count;
	for (size_t i = 0; i < r->work_count && ok; i++) {
		struct pdb_span *last = r->span_count > s->span ? &r->spans[r->span_count - 1] : NULL;
		if (last && r->work[i].start <= last->end)
			last->end = r->work[i].end > last->end ? r->work[i].end : last->end;
		else
			ok = array_append(&r->spans, &r->span_cap, &r->span_count, &r->work[i], sizeof *r->work);
	}
	s->span_count = r->span_count - s->span;
	return ok;
}

/* ---- nodes ---- */

static size_t row_at(const struct pdb_row *rows, size_t count, uint64_t address)
{
	return search_up_to(rows, count, sizeof *rows, offsetof(struct pdb_row, end), address);
}

/* The rows of a node: of its site, or of the module. */
static const struct pdb_row *rows_of(const struct pdb_reader *r, uint32_t site, size_t *count)
{
	*count = site ? r->sites[site - 1].row_count : r->rows.count;
	return site ? r->site_rows.items + r->sites[site - 1].row : r->rows.items;
}

static bool add_node(struct pdb_reader *r, struct code_node n, uint32_t site)
{
	struct functions *f = &r->functions;
	return array_append(&r->site_of, &r->site_of_cap, &r->site_of_count, &site, sizeof site) &&
	       array_append(&f->nodes, &f->node_cap, &f->node_count, &n, sizeof n);
}

/* The node of a site for calls from one line of one node of its caller; UINT32_MAX: out of memory. A call has one line,
 * but not by each compiler's rows. */
static uint32_t node_for(
        struct pdb_reader *r, uint32_t site, size_t first, uint32_t parent, struct str path, uint32_t line)
{
	struct functions *f = &r->functions;
	const struct pdb_site *s = &r->sites[site - 1];
	for (size_t i = f->node_count; i > first && f->node_count - i < VARIANTS_LOOKED_AT; i--) {
		const struct code_node *n = &f->nodes[i - 1];
		if (n->parent == parent && n->call_line == line && n->call_path.data == path.data)
			return (uint32_t)i - 1;
	}
	const struct code_node n = {.parent = parent,
	        .depth = s->depth,
	        .call_line = line,
	        .call_path = path,
	        .name = pdb_name_inlinee(&r->namer, s->inlinee)};
	return n.name.data && path.data && add_node(r, n, site) ? (uint32_t)f->node_count - 1 : UINT32_MAX;
}

static bool add_owned(struct pdb_reader *r, size_t first, uint64_t start, uint64_t end, uint32_t node)
{
	struct code_piece *last = r->owned_count > first ? &r->owned[r->owned_count - 1] : NULL;
	const struct code_piece piece = {start, end, node};
	if (last && last->node == node && last->end == start) {
		last->end = end;
		return true;
	}
	if (r->budget == 0)
		return true;
	r->budget--;
	return array_append(&r->owned, &r->owned_cap, &r->owned_count, &piece, sizeof piece);
}

/* Code of a site that is inside one piece of its caller, cut where the caller's line changes. */
static bool cut_by_line(struct pdb_reader *r, uint32_t site, size_t first_node, const struct code_piece *caller,
        uint64_t start, uint64_t end)
{
	size_t count;
	const struct pdb_row *rows = rows_of(r, r->sites[site - 1].parent, &count);
	size_t i = row_at(rows, count, start);
	uint32_t node = UINT32_MAX;
	bool ok = true;
	for (uint64_t at = start, next; at < end && ok && r->budget > 0; at = next) {
		while (i < count && rows[i].end <= at)
			i++;
		bool has = i < count && rows[i].start <= at;
		next = has ? rows[i].end : i < count ? rows[i].start : end;
		next = next < end ? next : end;
		node = node_for(r, site, first_node, caller->node, has ? rows[i].path : (struct str){"", 0},
		        has ? rows[i].line : 0);
		ok = node != UINT32_MAX && add_owned(r, r->sites[site - 1].owned, at, next, node);
	}
	return ok;
}

static bool own_code(struct pdb_reader *r, uint32_t site, size_t procedure_pieces)
{
	struct pdb_site *s = &r->sites[site - 1];
	size_t first_node = r->functions.node_count;
	size_t caller = s->parent ? r->sites[s->parent - 1].owned : 0;
	size_t end = s->parent ? caller + r->sites[s->parent - 1].owned_count : procedure_pieces;
	bool ok = true;
	s->owned = r->owned_count;
	for (size_t i = 0; i < s->span_count && ok && r->budget > 0; i++) {
		const struct pdb_span *span = &r->spans[s->span + i];
		while (caller < end && r->owned[caller].end <= span->start)
			caller++;
		for (size_t k = caller; k < end && r->owned[k].start < span->end && ok && r->budget > 0; k++) {
			const struct code_piece piece = r->owned[k];
			ok = cut_by_line(r, site, first_node, &piece,
			        span->start > piece.start ? span->start : piece.start,
			        span->end < piece.end ? span->end : piece.end);
		}
	}
	s->owned_count = r->owned_count - s->owned;
	return ok;
}

static int by_address(const void *a, const void *b)
{
	const struct code_piece *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

/* ---- procedures ---- */

static bool take_piece(void *arg, uint64_t start, uint64_t end, uint32_t skip)
{
	struct pdb_reader *r = arg;
	const struct code_section *section = code_map_find(r->code, start);
	if (!section || !may_split(r, skip))
		return true;
	const struct code_piece piece = {start, end < section->end ? end : section->end, 0};
	return array_append(&r->owned, &r->owned_cap, &r->owned_count, &piece, sizeof piece);
}

/* Procedures that all have all of the code would cost a time and memory that grow with their number and the code. */
static bool take_code(struct pdb_reader *r)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < r->owned_count; i++)
		bytes += r->owned[i].end - r->owned[i].start;
	bool ok = bytes <= r->code_left;
	r->code_left -= ok ? bytes : 0;
	return ok;
}

static bool is_asked(const struct pdb_reader *r)
{
	for (size_t i = 0; i < r->owned_count; i++)
		if (code_map_asked(r->code, r->owned[i].start, r->owned[i].end))
			return true;
	return false;
}

/* The rows of the innermost call at each address, for records. */
static bool list_rows(struct pdb_reader *r)
{
	r->lines.row_count = r->lines.file_count = 0;
	for (size_t i = 0; i < r->segments.count; i++) {
		const struct segment *s = &r->segments.items[i];
		size_t count;
		const struct pdb_row *rows = rows_of(r, r->site_of[s->node], &count);
		for (size_t k = row_at(rows, count, s->start); k < count && rows[k].start < s->end; k++) {
			uint64_t start = rows[k].start > s->start ? rows[k].start : s->start;
			uint64_t end = rows[k].end < s->end ? rows[k].end : s->end;
			if (rows[k].path.len > 0 && !line_table_add(&r->lines, start, end, rows[k].path, rows[k].line))
				return false;
		}
	}
	line_table_sort(&r->lines);
	return true;
}

/* Nodes and pieces of the procedure whose pieces are in owned. */
static bool make_functions(struct pdb_reader *r, const struct procedure *p)
{
	struct functions *f = &r->functions;
	const struct code_node root = {.parent = NO_NODE,
	        .name = pdb_name_function(&r->namer, p->name, p->type, p->is_id),
	        .call_path = {"", 0}};
	size_t own = r->owned_count;
	f->node_count = f->piece_count = r->site_of_count = r->span_count = 0;
	bool ok = root.name.data && add_node(r, root, 0);
	for (size_t i = r->site_count; i > 0 && ok; i--)
		ok = join_spans(r, &r->sites[i - 1]);
	for (size_t i = 0; i < r->site_count && ok; i++)
		ok = own_code(r, (uint32_t)i + 1, own);
	if (!ok)
		return false;
	for (size_t i = 0; i < r->owned_count && ok; i++)
		ok = array_append(&f->pieces, &f->piece_cap, &f->piece_count, &r->owned[i], sizeof *r->owned);
	qsort(f->pieces, f->piece_count, sizeof *f->pieces, by_address);
	return ok;
}

/* The code of a procedure that nobody asked for. */
static enum err add_code(struct pdb_reader *r, struct error *e)
{
	enum err err = ERR_OK;
	for (size_t i = 0; i < r->owned_count && !err; i++)
		err = records_add_code(&r->records, r->owned[i].start, r->owned[i].end, e);
	return err;
}

static enum err add_procedure(
        struct pdb_reader *r, const struct procedure *p, uint32_t at, uint32_t end, struct error *e)
{
	struct result *out = r->records.out;
	size_t first = out->piece_count;
	r->owned_count = r->site_count = 0;
	if (!pdb_place(r->p, p->section, p->offset, p->len, &r->steps, take_piece, r))
		return no_memory(e);
	if (r->owned_count == 0 || !take_code(r))
		return ERR_OK;
	if (r->owned_count > 1)
		qsort(r->owned, r->owned_count, sizeof *r->owned, by_address);
	if (!is_asked(r))
		return add_code(r, e);
	if (!read_sites(r, p, at, end) || !make_functions(r, p) ||
	        !segments_make(&r->segments, r->functions.nodes, r->functions.pieces, r->functions.piece_count) ||
	        !list_rows(r))
		return no_memory(e);
	enum err err = records_add_ranges(&r->records, &r->segments, e);
	return !err && r->pads ? records_add_pads(&r->records, &r->segments, first, e) : err;
}

/* Whose code it is, the linker says: of folded functions one is left. */
static bool is_own(const struct pdb_reader *r, uint32_t module, const struct procedure *p)
{
	uint32_t owner = pdb_owner(r->p, p->section, p->offset);
	return owner == module || owner == UINT32_MAX;
}

static bool is_procedure(uint16_t kind)
{
	return kind == S_LPROC || kind == S_GPROC || kind == S_LPROC_ID || kind == S_GPROC_ID || kind == S_LPROC_DPC ||
	       kind == S_LPROC_DPC_ID;
}

/* False: the record is too short, or of another kind. *end: where its scope ends. */
static bool read_procedure(struct pdb_symbol s, struct procedure *p, uint32_t *end)
{
	*p = (struct procedure){.is_id = s.kind == S_LPROC_ID || s.kind == S_GPROC_ID || s.kind == S_LPROC_DPC_ID};
	read_skip(&s.r, 4);
	*end = (uint32_t)read_fixed(&s.r, 4, false);
	read_skip(&s.r, 4);
	if (is_procedure(s.kind)) {
		p->len = (uint32_t)read_fixed(&s.r, 4, false);
		read_skip(&s.r, 8);
		p->type = (uint32_t)read_fixed(&s.r, 4, false);
		p->offset = (uint32_t)read_fixed(&s.r, 4, false);
		p->section = (uint16_t)read_fixed(&s.r, 2, false);
		read_skip(&s.r, 1);
	} else if (s.kind == S_THUNK) {
		p->offset = (uint32_t)read_fixed(&s.r, 4, false);
		p->section = (uint16_t)read_fixed(&s.r, 2, false);
		p->len = (uint32_t)read_fixed(&s.r, 2, false);
		read_skip(&s.r, 1);
	} else {
		return false;
	}
	p->name = read_text(&s.r);
	return !s.r.bad;
}

/* The procedure of the module at a place; false: none. All are listed when the first one is looked for. */
static bool find_procedure(struct pdb_reader *r, uint16_t section, uint32_t offset, struct procedure *found)
{
	struct pdb_symbol s;
	uint32_t end, at = SIGNATURE;
	for (; !r->procedures_listed && next_symbol(r, at, &s); at = s.next) {
		if (!is_procedure(s.kind) || !read_procedure(s, found, &end))
			continue;
		uint64_t place = (uint64_t)found->section << 32 | found->offset;
		if (!map64_get(&r->procedures, place) && !map64_put(&r->procedures, place, at))
			return false;
	}
	r->procedures_listed = true;
	at = (uint32_t)map64_get(&r->procedures, (uint64_t)section << 32 | offset);
	return at && next_symbol(r, at, &s) && read_procedure(s, found, &end);
}

/* Code of a procedure that was put elsewhere, such as handlers of exceptions. */
static bool read_part(struct pdb_reader *r, struct pdb_symbol s, struct procedure *p, uint32_t *end)
{
	read_skip(&s.r, 4);
	*end = (uint32_t)read_fixed(&s.r, 4, false);
	uint32_t len = (uint32_t)read_fixed(&s.r, 4, false);
	read_skip(&s.r, 4);
	uint32_t offset = (uint32_t)read_fixed(&s.r, 4, false), of = (uint32_t)read_fixed(&s.r, 4, false);
	uint16_t section = (uint16_t)read_fixed(&s.r, 2, false), of_section = (uint16_t)read_fixed(&s.r, 2, false);
	if (s.r.bad || !find_procedure(r, of_section, of, p))
		return false;
	p->section = section;
	p->offset = offset;
	p->len = len;
	return true;
}

static enum err add_procedures(struct pdb_reader *r, uint32_t module, struct error *e)
{
	struct procedure p;
	struct pdb_symbol s;
	enum err err = ERR_OK;
	uint32_t at = SIGNATURE, end;
	for (; !err && next_symbol(r, at, &s); at = s.next) {
		bool part = s.kind == S_SEPCODE;
		if (!(part ? read_part(r, s, &p, &end) : read_procedure(s, &p, &end)))
			continue;
		/* a scope ends with a record: one that goes on to the end of all is damaged, and not read */
		end = !part && end < r->symbols.len ? end : 0;
		if (is_own(r, module, &p))
			err = add_procedure(r, &p, s.next, end, e);
		/* what is inside has been read; scopes that end before they begin are damaged */
		if (end > s.next)
			s.next = end;
	}
	if (!err && at < r->symbols.len)
		err = error_set(e, ERR_CORRUPT, "PDB: a symbol of a module is cut off");
	return err;
}

/* ---- modules ---- */

/* Lines of code that no procedure describes. */
static enum err add_loose_lines(struct pdb_reader *r, struct error *e)
{
	r->lines.row_count = r->lines.file_count = 0;
	for (size_t i = 0; i < r->rows.count; i++) {
		const struct pdb_row *row = &r->rows.items[i];
		if (row->path.len > 0 && !line_table_add(&r->lines, row->start, row->end, row->path, row->line))
			return no_memory(e);
	}
	return loose_lines_collect(r->records.out, &r->lines, &r->strings, e);
}

static enum err read_module(struct pdb_reader *r, uint32_t number, struct error *e)
{
	const struct pdb_module *m = &r->p->modules[number];
	enum err err = msf_read(&r->p->msf, m->stream, &r->stream, e);
	if (err)
		return err;
	struct str bytes = r->stream.bytes;
	r->symbols = str_first(bytes, m->symbols);
	struct reader c13 = reader_at(bytes, (uint64_t)m->symbols + m->c11);
	r->c13 = str_first((struct str){(const char *)c13.at, (size_t)(c13.end - c13.at)}, m->c13);
	bool cut = c13.bad || r->c13.len < m->c13;
	r->rows.count = 0;
	r->budget = bytes.len + PIECES_MIN;
	map64_reset(&r->paths);
	r->last_path.data = NULL;
	map64_reset(&r->inlinees);
	map64_reset(&r->procedures);
	r->procedures_listed = false;
	enum err lines = read_lines(r, e);
	if (lines == ERR_NO_MEMORY)
		return lines;
	err = add_procedures(r, number, lines ? NULL : e);
	if (err != ERR_NO_MEMORY && add_loose_lines(r, NULL))
		return no_memory(e);
	if (!err && !lines && cut)
		return error_set(e, ERR_CORRUPT, "PDB: the stream of a module is cut off");
	return err ? err : lines;
}

struct result *pdb_reader_read(struct pdb_reader *r, uint32_t module)
{
	struct result *out = result_new();
	if (!out)
		return NULL;
	r->records.code = r->code;
	r->records.functions = &r->functions;
	r->records.lines = &r->lines;
	r->records.strings = &r->strings;
	r->records.out = out;
	out->err = read_module(r, module, &out->error);
	msf_bytes_release(&r->p->msf, &r->stream);
	return out;
}

void pdb_reader_open(struct pdb_reader *r, struct pdb *p, const struct code_map *code, bool pads)
{
	*r = (struct pdb_reader){.p = p, .code = code, .pads = pads, .steps = pdb_steps(p)};
	for (size_t i = 0; i < code->count; i++)
		r->code_left += SHARED_MAX * (code->sections[i].end - code->sections[i].start);
	pdb_namer_init(&r->namer, p, &r->strings);
}

void pdb_reader_close(struct pdb_reader *r)
{
	if (!r->p)
		return;
	pdb_namer_release(&r->namer);
	intern_release(&r->strings);
	functions_release(&r->functions);
	segments_release(&r->segments);
	line_table_release(&r->lines);
	records_release(&r->records);
	map64_release(&r->paths);
	map64_release(&r->inlinees);
	map64_release(&r->procedures);
	free(r->rows.items);
	free(r->site_rows.items);
	free(r->sites);
	free(r->spans);
	free(r->work);
	free(r->owned);
	free(r->site_of);
	*r = (struct pdb_reader){0};
}
