/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines are read where they lie in the chunk; only a line that is cut by the chunk's end is copied. Line records and
 * INLINE records are most of a file: each has a fast path that reads it in one go, relying on the line feed that ends
 * it, and falls back to the careful reader on anything unusual. "Damaged" is a line that cannot be read; it costs
 * itself only.
 *
 * Where a map for a few offsets is built, most functions have records that nobody wants: these lines are not read at
 * all, only looked through for the next keyword.
 */
#include <config.h>

#include "format/breakpad.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "format/breakpad_fields.h"
#include "format/breakpad_scan.h"

struct breakpad {
	struct offmap_builder *builder;
	struct text_hash *hash;
	char *id;
	size_t id_len;
	uint8_t *carry; /* the start of a line whose end has not come */
	size_t carry_len, carry_cap;
	bool skipping; /* the rest of a line that is too long */
	bool seen_module;
	bool in_func; /* line and INLINE records have a function */
	bool asked;   /* for some offsets only */
	enum offmap_want want;
	uint64_t text_bytes, damaged;
};

struct breakpad *breakpad_new(const struct offmap_options *options, struct str id)
{
	struct breakpad *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->builder = offmap_builder_new(options);
	p->hash = text_hash_new();
	p->id = malloc(id.len + 1);
	if (!p->builder || !p->hash || !p->id) {
		breakpad_free(p);
		return NULL;
	}
	memcpy(p->id, id.data, id.len);
	p->id_len = id.len;
	return p;
}

void breakpad_free(struct breakpad *p)
{
	if (!p)
		return;
	offmap_builder_free(p->builder);
	text_hash_free(p->hash);
	free(p->id);
	free(p->carry);
	free(p);
}

bool breakpad_ask(struct breakpad *p, const uint64_t *offsets, size_t count)
{
	p->asked = true;
	return offmap_builder_ask(p->builder, offsets, count);
}

void breakpad_use_threads(struct breakpad *p)
{
	offmap_builder_use_threads(p->builder);
}

uint64_t breakpad_damaged(const struct breakpad *p)
{
	return p->damaged;
}

/* ---- records; each returns false when the line is damaged ---- */

static bool read_file(struct breakpad *p, struct line l)
{
	uint64_t id;
	struct str name;
	if (!line_read_file(l, &id, &name))
		return false;
	offmap_add_file(p->builder, id, name);
	return true;
}

static bool read_origin(struct breakpad *p, struct line l)
{
	uint64_t id;
	struct str name;
	if (!line_read_origin(l, &id, &name))
		return false;
	offmap_add_origin(p->builder, id, name);
	return true;
}

/* The records behind have no function. */
static void end_func(struct breakpad *p)
{
	offmap_end_func(p->builder);
	p->in_func = false;
	p->want = offmap_builder_want(p->builder);
}

static bool read_func(struct breakpad *p, struct line l)
{
	uint64_t addr, size;
	struct str name;
	end_func(p);
	if (!line_read_func(l, &addr, &size, &name))
		return false;
	offmap_add_func(p->builder, addr, size, name);
	p->in_func = true;
	p->want = offmap_builder_want(p->builder);
	return true;
}

static bool read_public(struct breakpad *p, struct line l)
{
	uint64_t addr;
	struct str name;
	end_func(p);
	if (!line_read_public(l, &addr, &name))
		return false;
	offmap_add_public(p->builder, addr, name);
	return true;
}

static bool read_inline(struct breakpad *p, struct line l)
{
	struct inline_fields i;
	uint64_t addr, size;
	if (!p->in_func || !line_read_inline(&l, &i))
		return false;
	offmap_add_inline(p->builder, i.depth, i.call_line, i.has_call_file, i.call_file, i.origin);
	while (line_take_range(&l, &addr, &size))
		offmap_add_inline_range(p->builder, addr, size);
	return true;
}

static bool read_line_record(struct breakpad *p, struct line l)
{
	uint64_t addr, size, file;
	uint32_t line;
	if (!p->in_func || !line_read_record(l, &addr, &size, &line, &file))
		return false;
	offmap_add_line(p->builder, addr, size, line, file);
	return true;
}

static bool read_info(struct breakpad *p, struct line l)
{
	struct str name;
	if (line_read_code_file(l, &name))
		offmap_set_code_file(p->builder, name);
	return true;
}

static enum err read_module(struct breakpad *p, struct line l, struct error *e)
{
	struct str id;
	if (!line_read_module(l, &id))
		return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
	if (p->id_len && (id.len != p->id_len || strncasecmp(id.data, p->id, id.len) != 0))
		return error_set(e, ERR_CORRUPT, "MODULE line has another debug id");
	p->seen_module = true;
	p->want = offmap_builder_want(p->builder);
	return ERR_OK;
}

/* One line, [at, end) without its line feed. */
static enum err read_line(struct breakpad *p, const uint8_t *at, const uint8_t *end, struct error *e)
{
	struct line l = line_content(at, end);
	if (!p->seen_module)
		return read_module(p, l, e);
	bool ok = true;
	switch (line_take_kind(&l)) {
	case LINE_FUNC:
		ok = read_func(p, l);
		break;
	case LINE_INLINE:
		ok = read_inline(p, l);
		break;
	case LINE_PUBLIC:
		ok = read_public(p, l);
		break;
	case LINE_ORIGIN:
		ok = read_origin(p, l);
		break;
	case LINE_FILE:
		ok = read_file(p, l);
		break;
	case LINE_INFO:
		ok = read_info(p, l);
		break;
	case LINE_OTHER:
		ok = read_line_record(p, l);
		break;
	case LINE_BLANK:
	case LINE_STACK:
		break;
	}
	p->damaged += !ok;
	return ERR_OK;
}

/* ---- the fast paths: at starts a line, and a line feed comes before the memory ends ---- */

/* The start of the next line, or NULL: read it carefully. */
static const uint8_t *fast_line_record(struct breakpad *p, const uint8_t *at, const uint8_t *end)
{
	uint64_t addr, size;
	uint32_t line, file;
	if (!p->in_func || !(at = fast_record(at, end, &addr, &size, &line, &file)))
		return NULL;
	offmap_add_line(p->builder, addr, size, line, file);
	return at;
}

/* `INLINE ` has been seen. Ranges are added as they are read: a line that turns out odd behind its first pair is taken
 * back. */
static const uint8_t *fast_inline(struct breakpad *p, const uint8_t *at, const uint8_t *end)
{
	uint64_t pairs[2 * 16];
	uint32_t depth, call_line, file, origin;
	unsigned n = 0;
	if (!p->in_func || !fast_decimal(&at, end, &depth) || !fast_blank(&at) || !fast_decimal(&at, end, &call_line) ||
	        !fast_blank(&at) || !fast_decimal(&at, end, &file) || !fast_blank(&at) ||
	        !fast_decimal(&at, end, &origin))
		return NULL;
	offmap_expect_origin(p->builder, origin);
	do {
		if (n == sizeof pairs / sizeof *pairs || !fast_blank(&at) || !fast_hex(&at, end, &pairs[n]) ||
		        !fast_blank(&at) || !fast_hex(&at, end, &pairs[n + 1]))
			return NULL;
		n += 2;
	} while (*at == ' ');
	if (!fast_end(&at))
		return NULL;
	offmap_add_inline(p->builder, depth, call_line, true, file, origin);
	for (unsigned i = 0; i < n; i += 2)
		offmap_add_inline_range(p->builder, pairs[i], pairs[i + 1]);
	return at;
}

/* The first line from `at` on that may be wanted. */
static const uint8_t *skip_unwanted(struct breakpad *p, const uint8_t *at, const uint8_t *end)
{
	p->want = offmap_builder_want(p->builder); /* a line was enough */
	if (p->want == OFFMAP_WANT_NOTHING)
		return keyword_line(at, end);
	while (p->want == OFFMAP_WANT_LINE && at < end && *at == 'I' && end - at > 7 && memcmp(at, "INLINE ", 7) == 0)
		at = (const uint8_t *)memchr(at, '\n', (size_t)(end - at)) + 1;
	return at;
}

/* Whole lines: the last byte before end is a line feed. */
static enum err read_lines(struct breakpad *p, const uint8_t *at, const uint8_t *end, struct error *e)
{
	while (at < end) {
		const uint8_t *next = NULL;
		if (p->want != OFFMAP_WANT_ALL && (at = skip_unwanted(p, at, end)) == end)
			break;
		if ((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f') || (*at >= 'A' && *at <= 'E'))
			next = fast_line_record(p, at, end);
		else if (*at == 'I' && end - at > 7 && memcmp(at, "INLINE ", 7) == 0)
			next = fast_inline(p, at + 7, end);
		else if (*at == 'S' && end - at > 6 && memcmp(at, "STACK ", 6) == 0 && p->seen_module)
			next = (const uint8_t *)memchr(at, '\n', (size_t)(end - at)) + 1;
		if (!next) {
			const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
			enum err err = read_line(p, at, stop, e);
			if (err)
				return err;
			next = stop + 1;
		}
		at = next;
	}
	return ERR_OK;
}

/* ---- chunks ---- */

static enum err too_large(struct error *e)
{
	return error_set(e, ERR_TOO_LARGE, "the map takes too much memory while it is built");
}

/* A line that starts with these BREAKPAD_LINE_MAX bytes is too long. */
static void skip_long_line(struct breakpad *p, const uint8_t *start)
{
	struct line l = {start, start + BREAKPAD_LINE_MAX};
	enum line_kind kind = line_take_kind(&l);
	p->damaged++;
	if (kind == LINE_FUNC || kind == LINE_PUBLIC)
		end_func(p);
}

static enum err keep(struct breakpad *p, const uint8_t *data, size_t len, struct error *e)
{
	bool too_long = p->carry_len + len - (len && data[len - 1] == '\n') > BREAKPAD_LINE_MAX;
	if (p->skipping)
		return ERR_OK;
	if (too_long && !p->seen_module)
		return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
	if (too_long)
		len = BREAKPAD_LINE_MAX - p->carry_len; /* its keyword may be cut between the two */
	if (p->carry_len + len > p->carry_cap) {
		size_t cap = 2 * (p->carry_len + len) + 256;
		uint8_t *grown = realloc(p->carry, cap);
		if (!grown)
			return error_set(e, ERR_NO_MEMORY, "out of memory");
		p->carry = grown;
		p->carry_cap = cap;
	}
	if (len)
		memcpy(p->carry + p->carry_len, data, len);
	p->carry_len += len;
	if (too_long) {
		p->skipping = true;
		skip_long_line(p, p->carry);
		p->carry_len = 0;
	}
	return ERR_OK;
}

/* The line whose start was kept ends with these bytes, the last of which is its line feed. */
static enum err end_kept(struct breakpad *p, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = keep(p, data, len, e);
	if (!err && !p->skipping && p->carry_len)
		err = read_lines(p, p->carry, p->carry + p->carry_len, e);
	p->carry_len = 0;
	p->skipping = false;
	return err;
}

enum err breakpad_feed(struct breakpad *p, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = ERR_OK;
	const uint8_t *end = data + len, *last;
	if (!len)
		return ERR_OK;
	if (!p->asked)
		text_hash_add(p->hash, data, len);
	p->text_bytes += len;
	last = memrchr(data, '\n', len);
	if (!last)
		return keep(p, data, len, e);
	if (p->carry_len || p->skipping) {
		const uint8_t *first = memchr(data, '\n', len);
		err = end_kept(p, data, (size_t)(first + 1 - data), e);
		data = first + 1;
	}
	/* A line of the chunk is never over the limit unless the chunk is: then each is cut out and measured. */
	while (!err && data <= last && (size_t)(last + 1 - data) > BREAKPAD_LINE_MAX) {
		const uint8_t *stop = memrchr(data, '\n', BREAKPAD_LINE_MAX + 1);
		if (stop) {
			err = read_lines(p, data, stop + 1, e);
		} else {
			stop = memchr(data, '\n', (size_t)(last + 1 - data));
			if (!p->seen_module)
				return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
			skip_long_line(p, data);
		}
		data = stop + 1;
	}
	if (!err && data <= last)
		err = read_lines(p, data, last + 1, e);
	if (!err && offmap_builder_too_large(p->builder))
		err = too_large(e);
	return err ? err : keep(p, last + 1, (size_t)(end - last - 1), e);
}

enum err breakpad_finish(struct breakpad *p, struct offmap **out, struct error *e)
{
	enum err err = ERR_OK;
	*out = NULL;
	if (p->carry_len && !p->skipping)
		err = end_kept(p, (const uint8_t *)"\n", 1, e);
	if (err)
		return err;
	if (!p->seen_module)
		return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
	err = offmap_builder_finish(p->builder, out);
	if (err == ERR_CORRUPT)
		return error_set(e, err, "neither FUNC nor PUBLIC in the file");
	if (err == ERR_TOO_LARGE)
		return too_large(e);
	if (err)
		return error_set(e, err, "out of memory");
	(*out)->damaged = p->damaged;
	(*out)->text_bytes = p->text_bytes;
	(*out)->generation = p->asked ? 0 : text_hash_value(p->hash);
	return ERR_OK;
}
