/* SPDX-License-Identifier: Apache-2.0 */
/* Reads symbfiles as they arrive, in chunks that may cut messages anywhere. */
#include <config.h>

#include "symbfile/symbfile.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/buffer.h"
#include "base/varint.h"
#include "symbfile/wire.h"

enum state { STATE_MAGIC, STATE_LENGTH, STATE_TYPE, STATE_BODY, STATE_SKIP };

struct symbfile_reader {
	struct symbfile_sink sink;
	struct error error; /* the first error, which is final; code ERR_OK: none */
	enum state state;
	uint64_t at;       /* bytes of the file taken so far */
	uint64_t start;    /* where the message began */
	uint64_t value;    /* of the varint that is being read */
	unsigned digits;   /* bytes read of value, or of the magic */
	uint64_t left;     /* bytes of the body still to come */
	uint32_t type;     /* of the message */
	bool begun;        /* the Header has been read */
	struct buffer buf; /* a body that came in pieces */
	bool has_va;
	uint64_t va; /* of the record before */
	struct wire_table table;
	struct wire_record record;
	struct symbfile_line *lines;
	struct symbfile_frame *frames;
	uint32_t line_cap, frame_cap;
};

struct symbfile_reader *symbfile_reader_new(const struct symbfile_sink *sink)
{
	struct symbfile_reader *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->sink = *sink;
	buffer_init(&r->buf, SYMBFILE_MESSAGE_MAX);
	return r;
}

void symbfile_reader_free(struct symbfile_reader *r)
{
	if (!r)
		return;
	buffer_release(&r->buf);
	wire_table_release(&r->table);
	wire_record_release(&r->record);
	free(r->lines);
	free(r->frames);
	free(r);
}

/* ---- errors ---- */

static enum err corrupt(struct symbfile_reader *r, uint64_t offset, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

static enum err corrupt(struct symbfile_reader *r, uint64_t offset, const char *format, ...)
{
	char text[160];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return error_set(&r->error, ERR_CORRUPT, "byte %" PRIu64 ": %s", offset, text);
}

/* The file offset of a byte of the body. The whole body must have been read. */
static uint64_t offset_of(const struct symbfile_reader *r, struct str body, const uint8_t *at)
{
	return r->at - body.len + (uint64_t)(at - (const uint8_t *)body.data);
}

static enum err check_body(struct symbfile_reader *r, struct str body, enum err err, const struct wire_fault *fault)
{
	if (err == ERR_NO_MEMORY)
		return no_memory(&r->error);
	return err ? corrupt(r, offset_of(r, body, fault->at), "cannot be decoded: %s", fault->text) : ERR_OK;
}

/* ---- records ---- */

/* Makes the address absolute, and keeps it: the next one may be relative to it. */
static enum err resolve_address(struct symbfile_reader *r, const struct wire_address *a, uint64_t *va)
{
	if (a->kind == ADDRESS_NONE)
		return corrupt(r, r->start, "a record without address");
	if (a->kind == ADDRESS_DELTA && !r->has_va)
		return corrupt(r, r->start, "the first record's address is relative");
	r->va = a->kind == ADDRESS_SET ? a->value : r->va + a->value;
	r->has_va = true;
	*va = r->va;
	return ERR_OK;
}

static enum err resolve_ref(struct symbfile_reader *r, uint32_t ref, uint64_t offset, struct str *s)
{
	if (ref >= r->table.at.count)
		return corrupt(r, offset, "string %" PRIu32 " is not in the string table, which has %zu", ref,
		        r->table.at.count);
	*s = wire_table_string(&r->table, ref);
	return ERR_OK;
}

/* If there is no text, *s is unchanged. */
static enum err resolve_text(struct symbfile_reader *r, struct str body, const struct wire_text *t, struct str *s)
{
	if (t->kind == TEXT_REF)
		return resolve_ref(r, t->ref, offset_of(r, body, t->at), s);
	if (t->kind == TEXT_LITERAL)
		*s = t->literal;
	return ERR_OK;
}

static enum err resolve_texts(struct symbfile_reader *r, struct str body, struct symbfile_range *out)
{
	const struct wire_record *w = &r->record;
	out->has_file = w->file.kind != TEXT_NONE;
	out->has_call_file = w->call_file.kind != TEXT_NONE;
	if (w->func.kind == TEXT_NONE)
		return corrupt(r, r->start, "a range without function");
	enum err err = resolve_text(r, body, &w->func, &out->func);
	if (!err)
		err = resolve_text(r, body, &w->file, &out->file);
	if (!err)
		err = resolve_text(r, body, &w->call_file, &out->call_file);
	return err;
}

static enum err sum_lines(struct symbfile_reader *r, struct symbfile_range *out)
{
	const struct wire_column *offsets = &r->record.offsets, *lines = &r->record.lines;
	uint32_t offset = 0;
	if (offsets->count != lines->count)
		return corrupt(r, r->start, "a line table whose columns have %zu offsets and %zu lines", offsets->count,
		        lines->count);
	if (!array_reserve(&r->lines, &r->line_cap, lines->count, sizeof *r->lines))
		return no_memory(&r->error);
	for (size_t i = 0; i < lines->count; i++) {
		offset += offsets->items[i];
		r->lines[i] = (struct symbfile_line){offset, lines->items[i]};
	}
	out->lines = r->lines;
	out->line_count = lines->count;
	return ERR_OK;
}

/* Adds an error text if the sink has set none. */
static enum err sink_result(struct symbfile_reader *r, enum err err)
{
	if (err && !r->error.code)
		error_set(&r->error, err, "the record was refused");
	return err;
}

static enum err take_range(struct symbfile_reader *r, struct str body)
{
	struct wire_fault fault;
	struct symbfile_range out = {.func = {"", 0}, .file = {"", 0}, .call_file = {"", 0}};
	enum err err = check_body(r, body, wire_range_read(&r->record, body, &fault), &fault);
	if (!err)
		err = resolve_address(r, &r->record.address, &out.va);
	if (!err)
		err = resolve_texts(r, body, &out);
	if (!err)
		err = sum_lines(r, &out);
	if (err)
		return err;
	out.length = (uint32_t)r->record.length;
	out.depth = r->record.depth;
	out.call_line = r->record.call_line;
	return sink_result(r, r->sink.range(r->sink.arg, &out, &r->error));
}

static enum err make_frames(struct symbfile_reader *r, struct symbfile_pad *out)
{
	const struct wire_record *w = &r->record;
	enum err err = ERR_OK;
	if (!array_reserve(&r->frames, &r->frame_cap, w->funcs.count, sizeof *r->frames))
		return no_memory(&r->error);
	for (size_t i = 0; i < w->funcs.count && !err; i++) {
		struct symbfile_frame *f = &r->frames[i];
		f->line = w->lines.items[i];
		err = resolve_ref(r, w->funcs.items[i], r->start, &f->func);
		if (!err)
			err = resolve_ref(r, w->files.items[i], r->start, &f->file);
	}
	out->frames = r->frames;
	out->count = w->funcs.count;
	return err;
}

static enum err take_pad(struct symbfile_reader *r, struct str body)
{
	struct wire_fault fault;
	struct symbfile_pad out = {0};
	const struct wire_record *w = &r->record;
	enum err err = check_body(r, body, wire_pad_read(&r->record, body, &fault), &fault);
	if (!err && (w->funcs.count != w->files.count || w->funcs.count != w->lines.count))
		err = corrupt(r, r->start, "a return pad whose columns have %zu functions, %zu files and %zu lines",
		        w->funcs.count, w->files.count, w->lines.count);
	if (!err)
		err = resolve_address(r, &w->address, &out.va);
	if (!err)
		err = make_frames(r, &out);
	return err ? err : sink_result(r, r->sink.pad(r->sink.arg, &out, &r->error));
}

static enum err take_message(struct symbfile_reader *r, const uint8_t *data, size_t len)
{
	struct str body = {(const char *)data, len};
	struct wire_fault fault = {0};
	switch (r->type) {
	case MESSAGE_HEADER:
		return check_body(r, body, wire_header_read(body, &fault), &fault);
	case MESSAGE_RANGE:
		return take_range(r, body);
	case MESSAGE_PAD:
		return take_pad(r, body);
	default:
		return check_body(r, body, wire_table_read(&r->table, body, &fault), &fault);
	}
}

/* ---- messages out of bytes ---- */

static enum err take_magic(struct symbfile_reader *r, uint8_t byte)
{
	if (byte != (uint8_t)SYMBFILE_MAGIC[r->digits])
		return corrupt(r, r->at - 1, "not a symbfile");
	if (++r->digits < sizeof SYMBFILE_MAGIC - 1)
		return ERR_OK;
	r->digits = 0;
	r->state = STATE_LENGTH;
	return ERR_OK;
}

/* *done: r->value is complete. Drops bits beyond 64, as the reference implementation does. */
static enum err take_digit(struct symbfile_reader *r, uint8_t byte, bool *done)
{
	if (r->digits == 0)
		r->value = 0;
	r->value |= (uint64_t)(byte & 0x7f) << 7 * r->digits;
	r->digits++;
	*done = byte < 0x80;
	if (*done)
		r->digits = 0;
	else if (r->digits == VARINT_MAX)
		return corrupt(r, r->start, "a number longer than %d bytes before a message", VARINT_MAX);
	return ERR_OK;
}

static enum err take_length(struct symbfile_reader *r, uint8_t byte)
{
	bool done;
	if (r->digits == 0)
		r->start = r->at - 1;
	enum err err = take_digit(r, byte, &done);
	if (err || !done)
		return err;
	if (r->value > SYMBFILE_MESSAGE_MAX)
		return corrupt(
		        r, r->start, "a message of %" PRIu64 " bytes, more than %d", r->value, SYMBFILE_MESSAGE_MAX);
	r->left = r->value;
	r->state = STATE_TYPE;
	return ERR_OK;
}

static enum err begin_body(struct symbfile_reader *r)
{
	if (!r->begun && r->value != MESSAGE_HEADER)
		return corrupt(r, r->start, "the first message is not a Header");
	if (r->begun && r->value == MESSAGE_HEADER)
		return corrupt(r, r->start, "message type 1: a second Header");
	if (r->value == 0 || r->value > MESSAGE_TYPE_MAX)
		return corrupt(r, r->start, "message type %" PRIu64 " is not allowed", r->value);
	r->begun = true;
	r->type = (uint32_t)r->value;
	bool known = r->type <= MESSAGE_TABLE;
	r->state = r->left == 0 ? STATE_LENGTH : known ? STATE_BODY : STATE_SKIP;
	return r->left == 0 && known ? take_message(r, (const uint8_t *)"", 0) : ERR_OK;
}

static enum err take_type(struct symbfile_reader *r, uint8_t byte)
{
	bool done;
	enum err err = take_digit(r, byte, &done);
	return err || !done ? err : begin_body(r);
}

/* Takes n bytes, at most r->left. A body within one chunk is not copied. */
static enum err take_body(struct symbfile_reader *r, const uint8_t *data, size_t n)
{
	bool skip = r->state == STATE_SKIP;
	r->left -= n;
	if (r->left == 0)
		r->state = STATE_LENGTH;
	if (skip)
		return ERR_OK;
	if (r->left == 0 && r->buf.len == 0)
		return take_message(r, data, n);
	if (!buffer_append(&r->buf, data, n))
		return no_memory(&r->error);
	if (r->left > 0)
		return ERR_OK;
	enum err err = take_message(r, r->buf.data, r->buf.len);
	buffer_reset(&r->buf);
	return err;
}

/* Takes at least one byte; *used says how many. */
static enum err take_some(struct symbfile_reader *r, const uint8_t *data, size_t len, size_t *used)
{
	*used = r->state < STATE_BODY ? 1 : len < r->left ? len : (size_t)r->left;
	r->at += *used;
	switch (r->state) {
	case STATE_MAGIC:
		return take_magic(r, *data);
	case STATE_LENGTH:
		return take_length(r, *data);
	case STATE_TYPE:
		return take_type(r, *data);
	default:
		return take_body(r, data, *used);
	}
}

static enum err report(const struct symbfile_reader *r, struct error *e)
{
	if (e && r->error.code)
		*e = r->error;
	return r->error.code;
}

enum err symbfile_reader_feed(struct symbfile_reader *r, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = r->error.code;
	for (size_t at = 0, used; at < len && !err; at += used)
		err = take_some(r, data + at, len - at, &used);
	return report(r, e);
}

enum err symbfile_reader_finish(struct symbfile_reader *r, struct error *e)
{
	if (r->error.code)
		return report(r, e);
	if (r->state == STATE_MAGIC)
		corrupt(r, r->at, "not a symbfile: it ends within the first eight bytes");
	else if (r->state != STATE_LENGTH || r->digits > 0)
		corrupt(r, r->at, "the file ends within the message that begins at byte %" PRIu64, r->start);
	else if (!r->begun)
		corrupt(r, r->at, "the file ends where its Header must be");
	return report(r, e);
}
