/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Written from the description in docs/offset-map.md: a second reader, which trusts the page, so that a change of the
 * bytes that writer and reader agree on is still seen.
 */
#include <config.h>

#include "offmap_dump.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/varint.h"
#include "offmap_tools.h"

enum { BYTES_A_LINE = 16 };

struct dump {
	struct buffer *out;
	const uint8_t *start, *at, *end; /* of the page */
};

/* One line of at most 16 bytes and, unless it is NULL, what they are. */
static void hex_line(struct dump *d, size_t offset, const uint8_t *bytes, size_t n, const char *meaning)
{
	char hex[3 * BYTES_A_LINE + 1] = "";
	for (size_t i = 0; i < n; i++)
		snprintf(hex + 3 * i, 4, " %02x", bytes[i]);
	if (meaning)
		text_add(d->out, "%04zx %-*s  %s\n", offset, 3 * BYTES_A_LINE, hex, meaning);
	else
		text_add(d->out, "%04zx %s\n", offset, hex);
}

/* The next n bytes and what they are. */
static void field(struct dump *d, size_t n, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void field(struct dump *d, size_t n, const char *format, ...)
{
	char text[300];
	va_list arguments;
	assert_in_range(n, 1, d->end - d->at);
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	for (size_t i = 0; i < n; i += BYTES_A_LINE)
		hex_line(d, (size_t)(d->at - d->start) + i, d->at + i, n - i < BYTES_A_LINE ? n - i : BYTES_A_LINE,
		        i ? NULL : text);
	d->at += n;
}

static void title(struct dump *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void title(struct dump *d, const char *format, ...)
{
	char text[100];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	text_add(d->out, "# %s\n", text);
}

static uint64_t peek(const struct dump *d, size_t *n)
{
	struct reader r = {d->at, d->end, false};
	uint64_t v = reader_varint(&r);
	assert_false(r.bad);
	*n = (size_t)(r.at - d->at);
	return v;
}

/* A varint whose meaning is printed before its value. */
static uint64_t number(struct dump *d, const char *what)
{
	size_t n;
	uint64_t v = peek(d, &n);
	field(d, n, "%s %" PRIu64, what, v);
	return v;
}

static uint64_t address(struct dump *d, const char *what)
{
	size_t n;
	uint64_t v = peek(d, &n);
	field(d, n, "%s 0x%" PRIx64, what, v);
	return v;
}

static int64_t difference(struct dump *d, const char *what)
{
	size_t n;
	int64_t v = unzigzag(peek(d, &n));
	field(d, n, "%s %+" PRId64, what, v);
	return v;
}

static uint32_t fixed(struct dump *d, const char *what)
{
	uint32_t v = get_u32(d->at);
	field(d, 4, "%s 0x%" PRIx32, what, v);
	return v;
}

static void text(struct dump *d, size_t n)
{
	field(d, n, "'%.*s'", (int)n, (const char *)d->at);
}

/* ---- root ---- */

static void dump_root(struct dump *d)
{
	static const char *const names[] = {"code pages", "string pages", "FUNC records", "PUBLIC records",
	        "line records", "INLINE records", "damaged lines", "bytes of the symbol file", "bytes of the pages",
	        "bytes of the code file's name", "bytes of its id", "parts of the file", "units that lack entries"};
	uint64_t counts[13];
	title(d, "root");
	field(d, 8, "generation 0x%" PRIx64, get_u64(d->at));
	field(d, 8, "marker 0x%" PRIx64, get_u64(d->at));
	for (unsigned i = 0; i < 13; i++)
		counts[i] = number(d, names[i]);
	for (unsigned i = 9; i < 11; i++)
		if (counts[i])
			text(d, counts[i]);
	for (uint64_t i = 0; i < counts[11]; i++) {
		address(d, "part of the file");
		address(d, "  its size");
		address(d, "  its address in the image");
	}
	for (uint64_t i = 0; i < counts[0]; i++)
		address(d, "first address of the next code page: +");
	for (uint64_t i = 0; i < counts[1]; i++)
		number(d, "first string of the next string page: +");
}

/* ---- code page ---- */

static void dump_nodes(struct dump *d, uint64_t count)
{
	const uint8_t *end;
	uint64_t length = number(d, "bytes of nodes");
	end = d->at + length;
	for (uint64_t i = 1; i <= count; i++) {
		size_t n;
		uint64_t up = peek(d, &n);
		field(d, n, "node %" PRIu64 ": called by node %" PRIu64 "%s", i, i - (up >> 1),
		        up & 1 ? ", call file follows" : "");
		number(d, "  function: string");
		difference(d, "  call line: caller's base line");
		if (up & 1)
			number(d, "  call file: string");
		number(d, "  base file: string");
		number(d, "  base line");
	}
	assert_ptr_equal(d->at, end);
}

static void dump_segment(struct dump *d, bool last)
{
	static const char *const names[] = {"same node", "new node", "node", "node and file"};
	size_t n;
	uint64_t head = peek(d, &n);
	if (last)
		field(d, n, "segment to the end of the piece, %s", names[head & 3]);
	else
		field(d, n, "segment of 0x%" PRIx64 " bytes, %s", head >> 2, names[head & 3]);
	switch (head & 3) {
	case SEGMENT_SAME_NODE:
		difference(d, "  line: the last one's");
		break;
	case SEGMENT_NEW_NODE:
		number(d, "  node: the highest yet +");
		break;
	default:
		difference(d, "  node: the last one");
		difference(d, "  line: base line");
		if ((head & 3) == SEGMENT_NODE_FILE)
			number(d, "  file: string");
	}
}

static void dump_piece(struct dump *d, uint32_t index)
{
	size_t n;
	uint64_t head = peek(d, &n), segments = head >> 3;
	title(d, "body of piece %" PRIu32, index);
	field(d, n, "%" PRIu64 " segments, %s%s%s", segments, head & PIECE_PUBLIC ? "PUBLIC" : "FUNC",
	        head & PIECE_CONTINUED ? ", continued" : "", head & PIECE_WHOLE ? ", to its end" : "");
	address(d, "size");
	if (head & PIECE_CONTINUED)
		address(d, "offset in the function");
	number(d, "name: string");
	if (!(head & PIECE_WHOLE))
		address(d, "answers for (0: endless)");
	if (!segments)
		return;
	number(d, "base file: string");
	number(d, "base line");
	uint64_t nodes = number(d, "nodes");
	if (nodes)
		dump_nodes(d, nodes);
	for (uint64_t i = 0; i < segments; i++)
		dump_segment(d, i + 1 == segments);
}

static void dump_strings(struct dump *d, const uint8_t *codes, uint32_t count)
{
	title(d, "string codes");
	for (uint32_t i = 0; i < count; i++)
		field(d, 1,
		        *d->at == STRING_EXTERNAL ? "string %" PRIu32 ": in a string page"
		        : *d->at == STRING_FAR    ? "string %" PRIu32 ": far"
		                                  : "string %" PRIu32 ": here",
		        i + 1);
	title(d, "string data");
	for (uint32_t i = 0; i < count; i++) {
		if (codes[i] == STRING_EXTERNAL)
			field(d, 4, "string %" PRIu32 ": number %" PRIu32 " of the string pages", i + 1,
			        get_u32(d->at));
		else if (codes[i] == STRING_FAR)
			field(d, 6, "string %" PRIu32 ": at far bytes + %" PRIu32 ", %u bytes", i + 1, get_u32(d->at),
			        get_u16(d->at + 4));
		else if (codes[i])
			text(d, codes[i]);
	}
}

static void dump_code_page(struct dump *d)
{
	title(d, "code page");
	field(d, 8, "first address 0x%" PRIx64, get_u64(d->at));
	uint32_t pieces = fixed(d, "pieces"), strings = fixed(d, "strings"), codes = fixed(d, "string codes at"),
	         far = fixed(d, "far bytes at");
	title(d, "directory");
	for (uint32_t i = 0; i < pieces; i++) {
		field(d, 4, "piece %" PRIu32 ": first address + 0x%" PRIx32, i, get_u32(d->at));
		field(d, 4, "  its body at 0x%" PRIx32 "%s", get_u32(d->at) & ~PIECE_HAS_LINES,
		        get_u32(d->at) & PIECE_HAS_LINES ? ", has lines" : "");
	}
	for (uint32_t i = 0; i < pieces; i++) {
		assert_int_equal(
		        d->at - d->start, get_u32(d->start + CODE_HEADER + CODE_ENTRY * i + 4) & ~PIECE_HAS_LINES);
		dump_piece(d, i);
	}
	assert_int_equal(d->at - d->start, codes);
	dump_strings(d, d->at, strings);
	assert_int_equal(d->at - d->start, far);
	if (d->at < d->end) {
		title(d, "far bytes");
		text(d, (size_t)(d->end - d->at));
	}
}

/* ---- string page ---- */

static void dump_string_page(struct dump *d)
{
	title(d, "string page");
	fixed(d, "first number");
	uint32_t count = fixed(d, "strings");
	for (uint32_t i = 0; i < count; i++)
		text(d, number(d, "length"));
}

/* ---- value ---- */

static void dump_header(struct dump *d)
{
	title(d, "value header");
	field(d, 4, "magic '%.4s'", (const char *)d->at);
	field(d, 1, "version %u", *d->at);
	field(d, 1, "kind %u", *d->at);
	field(d, 1, "codec %u", *d->at);
	field(d, 1, "reserved");
	field(d, 16, "module");
	field(d, 8, "generation 0x%" PRIx64, get_u64(d->at));
	fixed(d, "number of the page");
	fixed(d, "raw length");
	field(d, 8, "checksum 0x%" PRIx64, get_u64(d->at));
}

void dump_value(struct buffer *out, const struct value_id *id, const struct page *page)
{
	struct buffer value = text_new();
	assert_int_equal(value_encode(&value, id, page, CODEC_RAW, NULL), ERR_OK);
	struct dump d = {out, value.data, value.data, value.data + VALUE_HEADER};
	dump_header(&d);
	d.start = d.at;
	d.end = value.data + value.len;
	if (id->kind == PAGE_ROOT)
		dump_root(&d);
	else if (id->kind == PAGE_CODE)
		dump_code_page(&d);
	else
		dump_string_page(&d);
	assert_ptr_equal(d.at, d.end);
	text_add(out, "\n");
	buffer_release(&value);
}
