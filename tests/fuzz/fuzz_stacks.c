/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: stacks in any text. Read whole and in pieces it has the same frames; edits are in their lines and in
 * order, and modules are named. Names of what the input says are one part of a line. */
#include <config.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "text/reader.h"
#include "text/write_names.h"

enum { MODULES = 50, PLACED = 1000 };

struct seen {
	const struct text_reader *reader;
	const uint8_t *data;
	size_t size;
	uint64_t line, sum, count;
	struct text_frame frames[PLACED]; /* the first ones, for the maps to place */
};

/* At the offset or a byte before it; of a file of Windows, the offset may count from where the linker put it. */
static bool is_near(const struct text_frame *f)
{
	bool lowered = f->base == TEXT_IMAGE && f->offset >= UINT64_C(0x140000000);
	return f->address <= f->offset && (f->offset - f->address <= 1 || lowered);
}

static bool take_frame(void *arg, const struct text_frame *f)
{
	struct seen *s = arg;
	fuzz_check(f->line >= s->line && (is_near(f) || f->module == TEXT_NO_MODULE), "an address or a line");
	s->line = f->line;
	const struct text_span *own = &f->own.function;
	fuzz_check(own->at <= s->size && own->len <= s->size - own->at, "a name outside the text");
	fuzz_check(!f->named || (own->len && !f->edit_count), "a named frame without a name, or with edits");
	s->sum = s->sum * 31 + f->stack * 5 + f->number + own->at + own->len + f->own.file.len + f->own.line;
	fuzz_check(f->edit_count <= TEXT_EDITS_MAX, "too many edits");
	fuzz_check(
	        f->module == TEXT_NO_MODULE || (uint32_t)f->module < text_reader_modules(s->reader), "no such module");
	for (unsigned i = 0; i < f->edit_count; i++) {
		const struct text_edit *e = &f->edits[i];
		fuzz_check(e->at <= s->size && e->cut <= s->size - e->at, "an edit outside the text");
		fuzz_check(!memchr(s->data + e->at, '\n', e->cut), "an edit of more than a line");
		fuzz_check(!i || e->at >= e[-1].at + e[-1].cut, "edits out of order");
		s->sum = s->sum * 31 + e->at * 7 + e->cut * 3 + e->style;
	}
	s->sum = s->sum * 31 + (uint64_t)f->module + f->address + f->line;
	if (s->count < PLACED)
		s->frames[s->count] = *f;
	s->count++;
	return true;
}

static enum text_result read_pieces(const uint8_t *data, size_t size, size_t piece, struct seen *s)
{
	size_t at = 0, end = 0, used;
	enum text_result result = TEXT_OK;
	memset(s, 0, sizeof *s);
	s->data = data;
	s->size = size;
	struct text_reader *r = text_reader_new(MODULES, take_frame, s);
	fuzz_check(
	        r && text_reader_know(r, str_from("prog"), str_from("0123456789ABCDEF0123456789ABCDEF0")), "no memory");
	s->reader = r;
	if (size % 2)
		text_reader_tell_named(r, true);
	if (size % 4 > 1) {
		text_reader_use_fixed(r, str_from(""));
		fuzz_check(text_reader_know(r, str_from("vmlinux"), str_from("")), "no memory");
	}
	while (at < size && !result) {
		end = size - end > piece ? end + piece : size;
		result = text_reader_read(r, (struct str){(const char *)data + at, end - at}, end == size, &used);
		fuzz_check(used <= end - at && (result || used || end < size), "not used");
		at += used;
	}
	for (size_t i = 0; i < s->count && i < PLACED; i++) {
		struct text_frame *f = &s->frames[i];
		if (text_reader_place(r, f) || text_reader_find_path(r, f))
			continue;
		fuzz_check(f->module == TEXT_NO_MODULE || is_near(f), "a placed address"); /* else it may be made up */
		fuzz_check(
		        f->module == TEXT_NO_MODULE || (uint32_t)f->module < text_reader_modules(r), "no such module");
		s->sum = s->sum * 31 + (uint64_t)f->module + f->address + f->base;
	}
	for (uint32_t i = 0; i < text_reader_modules(r); i++) {
		const struct text_module *m = text_reader_module(r, i);
		fuzz_check(m->path.len && m->path.len <= TEXT_NAME_MAX, "a module without a path");
		s->sum = s->sum * 31 + m->id.len + m->build_id.len;
	}
	text_reader_free(r);
	return result;
}

static void write_names(const uint8_t *data, size_t size)
{
	struct buffer out;
	uint8_t *escaped = malloc(6 * size + 1);
	fuzz_check(escaped, "no memory");
	size_t len = json_escape(escaped, data, size);
	struct text_call call = {{(const char *)escaped, len}, {(const char *)escaped, len / 2}, 7};
	call.file.len = 0;
	buffer_init(&out, 64 << 20);
	for (int style = TEXT_AT; style <= TEXT_FIELDS; style++)
		text_write_names(&out, &(struct text_edit){.style = (uint8_t)style}, &call, 1);
	for (size_t i = 0; i < out.len; i++)
		fuzz_check(out.data[i] >= ' ' && out.data[i] != 0x7f, "a control character");
	buffer_release(&out);
	free(escaped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct seen whole, pieces;
	uint8_t *exact = fuzz_copy(data, size);
	enum text_result result = read_pieces(exact, size, SIZE_MAX / 2, &whole);
	fuzz_check(read_pieces(exact, size, 5, &pieces) == result, "another result in pieces");
	fuzz_check(result || (whole.sum == pieces.sum && whole.count == pieces.count), "other frames in pieces");
	write_names(exact, size);
	free(exact);
	return 0;
}
