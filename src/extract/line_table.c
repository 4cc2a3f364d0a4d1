/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/line_table.h"

#include <dwarf.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/search.h"
#include "extract/line_header.h"

/* Rows of code without a gap. */
struct sequence {
	uint64_t start;
	size_t first, count;
	uint32_t file, line; /* of its first row, even if that has no code */
};

/* The line program's registers, and what was read of its sequence so far. */
struct machine {
	struct line_header h;
	struct line_table *t;
	const struct code_map *code;
	uint64_t address, file, line, op_index;
	bool has_last; /* the previous row, which ends where the next one begins */
	bool live;     /* the sequence is of code that is there */
	struct line_row last;
	struct sequence *sequences; /* of live code */
	size_t sequence_count;
	uint32_t sequence_cap;
	bool no_memory;
};

static void reset_row(struct machine *m)
{
	m->address = m->op_index = 0;
	m->file = m->line = 1;
	m->has_last = m->live = false;
}

static void push_row(struct machine *m, const struct line_row *row)
{
	struct line_table *t = m->t;
	struct sequence *s = &m->sequences[m->sequence_count - 1];
	struct line_row *before = s->count > 0 ? &t->rows[t->row_count - 1] : NULL;
	if (before && before->end == row->start && before->file == row->file && before->line == row->line) {
		before->end = row->end;
		return;
	}
	m->no_memory = !array_append(&t->rows, &t->row_cap, &t->row_count, row, sizeof *row);
	s->count++;
}

static void start_sequence(struct machine *m)
{
	const struct sequence s = {m->last.start, m->t->row_count, 0, m->last.file, m->last.line};
	m->live = code_map_find(m->code, m->address) != NULL;
	if (m->live && !array_append(&m->sequences, &m->sequence_cap, &m->sequence_count, &s, sizeof s))
		m->no_memory = true;
}

/* A new row, or the end of the sequence, ends the previous row. Of rows at one address the last one counts. */
static void add_row(struct machine *m)
{
	bool first = !m->has_last;
	if (m->has_last && m->live && m->address > m->last.start) {
		m->last.end = m->address;
		push_row(m, &m->last);
	}
	m->has_last = true;
	m->last = (struct line_row){.start = m->address};
	if (m->file <= UINT32_MAX && m->line <= UINT32_MAX) {
		m->last.file = (uint32_t)m->file;
		m->last.line = (uint32_t)m->line;
	}
	if (first)
		start_sequence(m);
}

static void advance_address(struct machine *m, uint64_t operations)
{
	if (m->h.max_operations <= 1) {
		m->address += operations * m->h.min_instruction;
		return;
	}
	uint64_t index = m->op_index + operations;
	m->address += index / m->h.max_operations * m->h.min_instruction;
	m->op_index = index % m->h.max_operations;
}

static void run_special(struct machine *m, uint8_t opcode)
{
	unsigned adjusted = opcode - m->h.opcode_base;
	advance_address(m, adjusted / m->h.line_range);
	m->line += (uint64_t)(int64_t)(m->h.line_base + (int)(adjusted % m->h.line_range));
	add_row(m);
}

static void define_file(struct machine *m, struct reader *r)
{
	struct str name = read_text(r);
	uint64_t dir = reader_varint(r);
	if (!r->bad && !line_header_add_file(m->t, name, dir))
		m->no_memory = true;
}

static void run_extended(struct machine *m, struct reader *r)
{
	uint64_t len = reader_varint(r);
	struct reader body = *r;
	read_skip(r, len);
	if (r->bad || len == 0)
		return;
	body.end = r->at;
	switch (*body.at++) {
	case DW_LNE_end_sequence:
		add_row(m);
		reset_row(m);
		break;
	case DW_LNE_set_address:
		m->address = read_fixed(&body, len == 5 ? 4 : 8, m->h.big);
		m->op_index = 0;
		r->bad |= body.bad;
		break;
	case DW_LNE_define_file:
		define_file(m, &body);
		break;
	default:
		break;
	}
}

static void skip_operands(struct machine *m, struct reader *r, uint8_t opcode)
{
	for (unsigned i = 0; i < m->h.operands[opcode - 1]; i++)
		reader_varint(r);
}

static void run_standard(struct machine *m, struct reader *r, uint8_t opcode)
{
	switch (opcode) {
	case DW_LNS_copy:
		add_row(m);
		break;
	case DW_LNS_advance_pc:
		advance_address(m, reader_varint(r));
		break;
	case DW_LNS_advance_line:
		m->line += (uint64_t)read_sleb(r);
		break;
	case DW_LNS_set_file:
		m->file = reader_varint(r);
		break;
	case DW_LNS_const_add_pc:
		advance_address(m, (255u - m->h.opcode_base) / m->h.line_range);
		break;
	case DW_LNS_fixed_advance_pc:
		m->address += read_fixed(r, 2, m->h.big);
		m->op_index = 0;
		break;
	default:
		skip_operands(m, r, opcode);
	}
}

static enum err run_program(struct machine *m, struct error *e)
{
	struct reader *r = &m->h.program;
	reset_row(m);
	while (r->at < r->end && !r->bad && !m->no_memory) {
		uint8_t opcode = *r->at++;
		if (opcode >= m->h.opcode_base)
			run_special(m, opcode);
		else if (opcode == 0)
			run_extended(m, r);
		else
			run_standard(m, r, opcode);
	}
	if (m->no_memory)
		return no_memory(e);
	return r->bad ? error_set(e, ERR_CORRUPT, "a line table ends within an instruction") : ERR_OK;
}

static int by_start(const void *a, const void *b)
{
	const struct line_row *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->end > y->end) - (x->end < y->end);
}

static int by_sequence(const void *a, const void *b)
{
	const struct sequence *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->first > y->first) - (x->first < y->first);
}

static void sort_sequences(struct machine *m)
{
	bool sorted = true;
	for (size_t i = 1; i < m->sequence_count && sorted; i++)
		sorted = m->sequences[i - 1].start < m->sequences[i].start;
	if (!sorted)
		qsort(m->sequences, m->sequence_count, sizeof *m->sequences, by_sequence);
}

static uint64_t sequence_end(const struct line_table *t, const struct sequence *s)
{
	return t->rows[s->first + s->count - 1].end;
}

static bool add_fold(struct line_table *t, const struct sequence *s)
{
	const struct line_fold fold = {s->start, s->file, s->line};
	if (t->fold_count > 0 && t->folds[t->fold_count - 1].start == s->start)
		return true;
	return array_append(&t->folds, &t->fold_cap, &t->fold_count, &fold, sizeof fold);
}

/* Of sequences that begin together the first one counts; its rows would be mixed with those of the others. */
static void drop_folded(struct machine *m)
{
	struct line_table *t = m->t;
	const struct sequence *counts = NULL;
	size_t kept = 0;
	sort_sequences(m);
	for (size_t i = 0; i < m->sequence_count; i++) {
		const struct sequence *s = &m->sequences[i];
		if (s->count == 0)
			continue;
		if (!counts || counts->start != s->start) {
			counts = s;
		} else if (sequence_end(t, s) <= sequence_end(t, counts)) {
			m->no_memory |= !add_fold(t, counts);
			for (size_t k = 0; k < s->count; k++)
				t->rows[s->first + k].end = 0;
		}
	}
	for (size_t i = 0; i < t->row_count && t->fold_count > 0; i++)
		if (t->rows[i].end > 0)
			t->rows[kept++] = t->rows[i];
	if (t->fold_count > 0)
		t->row_count = kept;
}

/* Sequences come in any order. */
void line_table_sort(struct line_table *t)
{
	bool sorted = true;
	for (size_t i = 1; i < t->row_count && sorted; i++)
		sorted = t->rows[i].start >= t->rows[i - 1].end;
	if (sorted)
		return;
	qsort(t->rows, t->row_count, sizeof *t->rows, by_start);
	size_t kept = 0;
	for (size_t i = 0; i < t->row_count; i++) {
		struct line_row row = t->rows[i];
		if (kept > 0 && row.start < t->rows[kept - 1].end)
			row.start = t->rows[kept - 1].end;
		if (row.start < row.end)
			t->rows[kept++] = row;
	}
	t->row_count = kept;
}

bool line_table_add(struct line_table *t, uint64_t start, uint64_t end, struct str path, uint32_t line)
{
	if (t->file_count == 0 || t->files[t->file_count - 1].path.data != path.data) {
		if (!line_header_add_file(t, path, 0))
			return false;
		t->files[t->file_count - 1].path = path;
	}
	const struct line_row row = {start, end, (uint32_t)t->file_count - 1, line};
	return array_append(&t->rows, &t->row_cap, &t->row_count, &row, sizeof row);
}

enum err line_table_read(struct line_table *t, const struct line_sections *s, uint64_t offset, uint8_t address_size,
        const struct code_map *code, struct error *e)
{
	struct machine m = {.t = t, .code = code};
	enum err err = line_header_read(&m.h, t, s, offset, address_size, e);
	if (!err)
		err = run_program(&m, e);
	if (!err)
		drop_folded(&m);
	if (!err && m.no_memory)
		err = no_memory(e);
	if (!err)
		line_table_sort(t);
	free(m.sequences);
	return err;
}

void line_table_release(struct line_table *t)
{
	free(t->rows);
	free(t->folds);
	free(t->files);
	free(t->dirs);
	*t = (struct line_table){0};
}

size_t line_table_find(const struct line_table *t, uint64_t address)
{
	return search_up_to(t->rows, t->row_count, sizeof *t->rows, offsetof(struct line_row, end), address);
}

/* Appends part to path after a slash; an absolute part replaces the path. */
static void append(char *path, size_t *len, struct str part)
{
	if (part.len == 0)
		return;
	if (part.data[0] == '/')
		*len = 0;
	else if (*len > 0 && path[*len - 1] != '/')
		path[(*len)++] = '/';
	memcpy(path + *len, part.data, part.len);
	*len += part.len;
}

struct str line_table_path(struct line_table *t, uint64_t file, struct intern *strings)
{
	char path[3 * 4097];
	size_t len = 0;
	if (file >= t->file_count || t->files[file].name.len == 0)
		return (struct str){"", 0};
	struct line_file *f = &t->files[file];
	if (f->path.data)
		return f->path;
	if (f->name.data[0] != '<') { /* <autogenerated>, <built-in>: in no directory */
		append(path, &len, str_first(t->comp_dir, 4096));
		if (f->dir < t->dir_count)
			append(path, &len, t->dirs[f->dir]);
	}
	append(path, &len, f->name);
	f->path = intern_add(strings, (struct str){path, len});
	return f->path;
}
