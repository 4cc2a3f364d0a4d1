/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a symbol is read through a window of whole lines, in place or copied. Lines in an unusual form go to the
 * careful reader of sym/line.h. Damaged lines are counted either here or by the index: the index counts those with
 * keywords that it reads, this file those of records and without a known keyword.
 */
#include <config.h>

#include "sym/records.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sym/fields.h"

enum { WINDOW = 64 << 10, USUAL_RANGES = 64 };

void symrecords_release(struct symrecords *r)
{
	free(r->ranges);
	free(r->room);
	*r = (struct symrecords){0};
}

uint64_t symrecords_bytes(const struct symrecords *r)
{
	return r->ranges_cap * (uint64_t)sizeof *r->ranges + r->room_cap;
}

/* Gets the next `len` bytes; NULL as for RECORD_FAILED. There is room for one more. */
static const uint8_t *get_bytes(struct symrecords *r, size_t len)
{
	if (!array_reserve(&r->room, &r->room_cap, (uint32_t)len + 1, sizeof *r->room))
		return NULL;
	return r->text->get(r->text->arg, r->place, len, r->room);
}

/* The last bytes of the text have no line feed: adds one. */
static bool end_window(struct symrecords *r, const uint8_t *at, size_t len)
{
	if (at != r->room)
		memcpy(r->room, at, len);
	r->room[len] = '\n';
	r->start = r->at = r->room;
	r->stop = r->room + len + 1;
	r->place = r->end;
	return true;
}

static void count_long_line(struct symrecords *r, const uint8_t *at)
{
	struct line l = {at, at + BREAKPAD_LINE_MAX};
	enum line_kind kind = line_take_kind(&l);
	r->damaged += kind == LINE_INLINE || kind == LINE_OTHER;
}

/* Counts and skips a line that is too long. */
static bool pass_long_line(struct symrecords *r, const uint8_t *at)
{
	count_long_line(r, at);
	while (r->place < r->end) {
		size_t len = r->end - r->place < WINDOW ? (size_t)(r->end - r->place) : WINDOW;
		if (!(at = get_bytes(r, len)))
			return false;
		const uint8_t *feed = memchr(at, '\n', len);
		r->place += feed ? (size_t)(feed + 1 - at) : len;
		if (feed)
			break;
	}
	return true;
}

/* Moves the window to the next lines; it is empty only at the end. */
static bool next_window(struct symrecords *r)
{
	size_t most = WINDOW;
	r->start = r->at = r->stop = NULL;
	while (r->place < r->end) {
		size_t len = r->end - r->place < most ? (size_t)(r->end - r->place) : most;
		const uint8_t *at = get_bytes(r, len), *last = at ? memrchr(at, '\n', len) : NULL;
		if (!at)
			return false;
		if (last) {
			r->start = r->at = at;
			r->stop = last + 1;
			r->place += (size_t)(r->stop - at);
			return true;
		}
		if (len > BREAKPAD_LINE_MAX) {
			if (!pass_long_line(r, at))
				return false;
			most = WINDOW;
		} else if (len == r->end - r->place) {
			return end_window(r, at, len);
		} else {
			most = BREAKPAD_LINE_MAX + 1;
		}
	}
	return true;
}

bool symrecords_begin(struct symrecords *r, const struct symtext *text, const struct symindex_symbol *symbol)
{
	uint64_t addr, size;
	if (!r->scan)
		r->scan = symtext_scan_best();
	if (!array_reserve(&r->ranges, &r->ranges_cap, USUAL_RANGES, sizeof *r->ranges))
		return false;
	r->text = text;
	r->place = symbol->place;
	r->end = symbol->end;
	r->damaged = 0;
	if (!next_window(r) || r->at == r->stop)
		return false;
	const uint8_t *start = r->at, *feed = memchr(r->at, '\n', (size_t)(r->stop - r->at));
	struct line l = line_content(r->at, feed);
	bool is_public = line_take_kind(&l) == LINE_PUBLIC;
	r->at = feed + 1;
	r->name_place = symbol->place;
	if (!line_read_symbol(l, is_public, &addr, &size, &r->name))
		return false; /* not the text that was indexed */
	r->name_place += (uint64_t)((const uint8_t *)r->name.data - start);
	return true;
}

/* Reads a line after its `INLINE `. Returns the start of the next line, or NULL: use the careful reader. */
static const uint8_t *fast_inline(struct symrecords *r, const uint8_t *at)
{
	struct inline_fields *f = &r->fields;
	uint32_t numbers[4];
	r->range_count = r->ranges_cap;
	const uint8_t *next = r->scan->inlined(at, r->stop, numbers, r->ranges, &r->range_count);
	if (next)
		*f = (struct inline_fields){numbers[0], numbers[1], numbers[2], numbers[3], true};
	return next;
}

enum record_kind symrecords_read_line(struct symrecords *r, const uint8_t *at, const uint8_t *feed)
{
	if (feed - at > BREAKPAD_LINE_MAX) {
		count_long_line(r, at);
		return RECORD_NONE;
	}
	struct line l = line_content(at, feed);
	switch (line_take_kind(&l)) {
	case LINE_INLINE:
		if (!line_read_inline(&l, &r->fields))
			break;
		for (r->range_count = 0;; r->range_count += 2) {
			uint64_t addr, size;
			if (!line_take_range(&l, &addr, &size))
				return RECORD_INLINE;
			if (!array_reserve(&r->ranges, &r->ranges_cap, r->range_count + 2, sizeof *r->ranges))
				return RECORD_FAILED;
			r->ranges[r->range_count] = addr;
			r->ranges[r->range_count + 1] = size;
		}
	case LINE_OTHER:
		if (line_read_record(l, &r->addr, &r->size, &r->line, &r->file))
			return RECORD_LINE;
		break;
	default:
		return RECORD_NONE;
	}
	r->damaged++;
	return RECORD_NONE;
}

uint32_t symrecords_lines(struct symrecords *r, struct symtext_line *out, uint32_t n)
{
	return r->at < r->stop && *r->at != 'I' ? r->scan->lines(&r->at, r->stop, out, n) : 0;
}

enum record_kind symrecords_next(struct symrecords *r)
{
	for (;;) {
		if (r->at == r->stop) {
			if (!next_window(r))
				return RECORD_FAILED;
			if (r->at == r->stop)
				return RECORD_NONE;
		}
		const uint8_t *at = r->at, *next;
		if (*at == 'I' && r->stop - at > 7 && memcmp(at, "INLINE ", 7) == 0) {
			if ((next = fast_inline(r, at + 7))) {
				r->at = next;
				return RECORD_INLINE;
			}
		} else {
			uint32_t file;
			if ((next = fast_record(at, r->stop, &r->addr, &r->size, &r->line, &file))) {
				r->at = next;
				r->file = file;
				return RECORD_LINE;
			}
		}
		const uint8_t *feed = memchr(at, '\n', (size_t)(r->stop - at));
		r->at = feed + 1;
		enum record_kind kind = symrecords_read_line(r, at, feed);
		if (kind)
			return kind;
	}
}

bool symrecords_skip(struct symrecords *r, uint64_t bytes)
{
	uint64_t left = (uint64_t)(r->stop - r->at);
	if (bytes > left) {
		r->place = bytes - left < r->end - r->place ? r->place + (bytes - left) : r->end;
		if (!next_window(r))
			return false;
		bytes = 0;
	}
	const uint8_t *feed = r->at < r->stop ? memchr(r->at + bytes, '\n', (size_t)(r->stop - r->at) - bytes) : NULL;
	r->at = feed ? feed + 1 : r->stop;
	return true;
}
