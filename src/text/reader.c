/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/reader.h"

#include <stdlib.h>

#include "text/formats.h"

struct text_reader *text_reader_new(
        uint32_t max_modules, bool (*frame)(void *arg, const struct text_frame *f), void *arg)
{
	struct text_reader *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->frame = frame;
	r->arg = arg;
	if (text_modules_init(&r->modules, max_modules))
		return r;
	text_reader_free(r);
	return NULL;
}

void text_reader_free(struct text_reader *r)
{
	if (!r)
		return;
	text_modules_release(&r->modules);
	free(r);
}

bool text_reader_know(struct text_reader *r, struct str name, struct str id)
{
	return text_modules_know(&r->modules, name, (struct str){"", 0}, id, TEXT_ID_GIVEN, true);
}

uint32_t text_reader_modules(const struct text_reader *r)
{
	return r->modules.count;
}

const struct text_module *text_reader_module(const struct text_reader *r, uint32_t index)
{
	return text_modules_at(&r->modules, index);
}

bool text_reader_is_crowded(const struct text_reader *r)
{
	return text_modules_crowded(&r->modules);
}

void text_reader_forget(struct text_reader *r)
{
	text_modules_forget(&r->modules);
	r->base_count = 0;
}

/* ---- what formats find ---- */

bool text_found(struct text_reader *r, struct text_frame *f, struct str path, struct str id, enum text_id kind)
{
	if (r->result || path.len > TEXT_NAME_MAX || id.len > TEXT_NAME_MAX)
		return true;
	f->line = r->line;
	f->module = TEXT_NO_MODULE;
	if (path.len) {
		f->module = text_modules_find(&r->modules, path, id, kind);
		if (f->module < 0) {
			r->result = text_modules_full(&r->modules) ? TEXT_TOO_MANY_MODULES : TEXT_NO_MEMORY;
			return true;
		}
	}
	r->frames++;
	if (!r->frame(r->arg, f))
		r->result = TEXT_STOPPED;
	return true;
}

void text_edit_one(
        const struct text_reader *r, struct text_frame *f, const char *from, const char *to, enum text_style style)
{
	f->edits[0] = (struct text_edit){r->at + (uint64_t)(from - r->start), (uint32_t)(to - from), style};
	f->edit_count = 1;
}

bool text_told(struct text_reader *r, struct str path, struct str symbols, struct str id, enum text_id kind)
{
	if (!r->result && !text_modules_know(&r->modules, path, symbols, id, kind, false))
		r->result = text_modules_full(&r->modules) ? TEXT_TOO_MANY_MODULES : TEXT_NO_MEMORY;
	return true;
}

/* ---- lines ---- */

/* The first format that recognises a line takes it. */
static bool (*const formats[])(struct text_reader *r, struct rest line) = {
        text_read_json,
        text_read_numbered,
        text_read_glibc,
        text_read_perf,
        text_read_mac,
        text_read_module_line,
        text_read_pipes,
        text_read_anything,
};

/* Most lines of a log have no format: every format needs one of these characters. */
static bool may_say_something(struct rest line)
{
	size_t n = (size_t)(line.end - line.at);
	return n && (memchr(line.at, '+', n) || memchr(line.at, '|', n) || memchr(line.at, '#', n) ||
	                    memchr(line.at, '<', n) || memchr(line.at, '(', n) || memchr(line.at, '"', n) ||
	                    memchr(line.at, '{', n) || memchr(line.at, '}', n) || memmem(line.at, n, "[0x", 3) ||
	                    memmem(line.at, n, "odule ", 6) || memmem(line.at, n, "MODULE ", 7) || *line.at == 'P' ||
	                    *line.at == 'I');
}

/* Java's hs_err: "C  [libjn.so+0x112c]  name+0x1c", "j  J.go()V+1", "v  ~StubRoutines::call_stub". */
static bool is_hotspot(struct rest line)
{
	return line.end - line.at > 2 && memchr("CVvJjA", *line.at, 6) && line.at[1] == ' ';
}

static void read_line(struct text_reader *r, struct rest line)
{
	unsigned perf_depth = r->perf_depth;
	r->frames = 0;
	r->hotspot_depth = is_hotspot(line) ? r->hotspot_depth + 1 : 0;
	if (line.end > line.at && line.end[-1] == '\r')
		line.end--;
	for (size_t i = 0; may_say_something(line) && i < sizeof formats / sizeof *formats; i++)
		if (formats[i](r, line))
			break;
	if (!r->frames)
		r->base_count = 0;
	if (r->perf_depth == perf_depth)
		r->perf_depth = 0;
	blanks(&line);
	if (line.at < line.end && !strchr("{}[]\"", *line.at))
		r->depth = 0;
}

enum text_result text_reader_read(struct text_reader *r, struct str text, bool last, size_t *used)
{
	*used = 0;
	r->result = TEXT_OK;
	while (*used < text.len && !r->result) {
		const char *start = text.data + *used, *lf = memchr(start, '\n', text.len - *used);
		size_t len = lf ? (size_t)(lf - start) : text.len - *used;
		if (!lf && !last && !r->skips && len <= TEXT_LINE_MAX)
			break;
		if (!r->skips)
			r->line++;
		r->start = start;
		if (!r->skips && len <= TEXT_LINE_MAX)
			read_line(r, (struct rest){start, start + len});
		r->skips = !lf;
		len += lf != NULL;
		*used += len;
		r->at += len;
	}
	return r->result;
}
