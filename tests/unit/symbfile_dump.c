/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbfile_dump.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { FILE_SIZE_MAX = 64 << 20 };

char *load_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return NULL;
	struct buffer b;
	buffer_init(&b, FILE_SIZE_MAX);
	do {
		assert_true(buffer_reserve(&b, 65536));
		*len = fread(b.data + b.len, 1, 65536, f);
		b.len += *len;
	} while (*len > 0);
	assert_false(ferror(f));
	fclose(f);
	*len = b.len;
	return (char *)b.data;
}

json_t *load_json_lines(const char *path)
{
	size_t len;
	char *text = load_file(path, &len);
	if (!text)
		fail_msg("%s cannot be read", path);
	json_t *lines = json_array();
	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - text) - at : len - at;
		json_error_t error;
		json_t *line = json_loadb(text + at, n, JSON_ALLOW_NUL, &error);
		if (!line)
			fail_msg("%s: %s", path, error.text);
		json_array_append_new(lines, line);
		at += n + 1;
	}
	free(text);
	return lines;
}

const char *data_path(char out[512], const char *name)
{
	const char *top = getenv("srcdir");
	snprintf(out, 512, "%s/tests/data/symbfile/%s", top ? top : ".", name);
	return out;
}

static json_t *text_to_json(bool there, struct str s)
{
	json_t *text = there ? json_stringn(s.data, s.len) : json_null();
	assert_non_null(text);
	return text;
}

static json_t *address_to_json(uint64_t va)
{
	return json_sprintf("0x%" PRIx64, va);
}

json_t *range_to_json(const struct symbfile_range *r)
{
	json_t *lines = json_array();
	for (size_t i = 0; i < r->line_count; i++)
		json_array_append_new(
		        lines, json_pack("[I,I]", (json_int_t)r->lines[i].offset, (json_int_t)r->lines[i].line));
	return json_pack("{s:s, s:o, s:I, s:I, s:o, s:o, s:o, s:I, s:o}", "t", "range", "va", address_to_json(r->va),
	        "len", (json_int_t)r->length, "depth", (json_int_t)r->depth, "func", text_to_json(true, r->func),
	        "file", text_to_json(r->has_file, r->file), "call_file", text_to_json(r->has_call_file, r->call_file),
	        "call_line", (json_int_t)r->call_line, "lines", lines);
}

json_t *pad_to_json(const struct symbfile_pad *p)
{
	json_t *entries = json_array();
	for (size_t i = 0; i < p->count; i++)
		json_array_append_new(
		        entries, json_pack("{s:o, s:o, s:I}", "func", text_to_json(true, p->frames[i].func), "file",
		                         text_to_json(p->frames[i].file.len > 0, p->frames[i].file), "line",
		                         (json_int_t)p->frames[i].line));
	return json_pack("{s:s, s:o, s:o}", "t", "pad", "va", address_to_json(p->va), "entries", entries);
}

static enum err keep_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	(void)e;
	assert_int_equal(json_array_append_new(arg, range_to_json(r)), 0);
	return ERR_OK;
}

static enum err keep_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	(void)e;
	assert_int_equal(json_array_append_new(arg, pad_to_json(p)), 0);
	return ERR_OK;
}

enum err feed_chunks(struct symbfile_reader *r, const void *data, size_t len, size_t chunk, struct error *e)
{
	enum err err = ERR_OK;
	for (size_t at = 0; at < len && !err; at += chunk) {
		size_t n = len - at < chunk ? len - at : chunk;
		uint8_t *piece = malloc(n);
		assert_non_null(piece);
		memcpy(piece, (const uint8_t *)data + at, n);
		err = symbfile_reader_feed(r, piece, n, e);
		free(piece);
	}
	return err ? err : symbfile_reader_finish(r, e);
}

json_t *symbfile_to_json(const void *data, size_t len, size_t chunk, enum err *err, struct error *e)
{
	json_t *records = json_array();
	struct symbfile_sink sink = {keep_range, keep_pad, records};
	struct symbfile_reader *r = symbfile_reader_new(&sink);
	assert_non_null(r);
	*err = feed_chunks(r, data, len, chunk, e);
	symbfile_reader_free(r);
	return records;
}

static enum err rewrite_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	return symbfile_write_range(arg, r, e);
}

static enum err rewrite_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	return symbfile_write_pad(arg, p, e);
}

struct symbfile_sink sink_to_writer(struct symbfile_writer *w)
{
	return (struct symbfile_sink){rewrite_range, rewrite_pad, w};
}

void symbfile_rewrite(const void *data, size_t len, struct buffer *out)
{
	struct error e;
	struct symbfile_writer *w = symbfile_writer_new(write_to_buffer, out);
	assert_non_null(w);
	struct symbfile_sink sink = sink_to_writer(w);
	struct symbfile_reader *r = symbfile_reader_new(&sink);
	assert_non_null(r);
	assert_int_equal(feed_chunks(r, data, len, 4096, &e), ERR_OK);
	assert_int_equal(symbfile_writer_finish(w, &e), ERR_OK);
	symbfile_reader_free(r);
	symbfile_writer_free(w);
}

enum err write_to_buffer(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	return buffer_append(arg, data, len) ? ERR_OK : error_set(e, ERR_NO_MEMORY, "the buffer is full");
}
