/* SPDX-License-Identifier: Apache-2.0 */
/* Reads symbfiles as they arrive, in chunks that may cut messages anywhere. */
#include <config.h>

#include "symbfile/symbfile.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buffer.h"
#include "base/utf8.h"
#include "base/varint.h"
#include "symbfile/protobuf.h"
#include "symbfile/wire.h"

const char *const symbfile_kind_names[SYMBFILE_KINDS] = {"ranges", "returnpads"};

struct raw_address {
	enum { ADDRESS_NONE, ADDRESS_DELTA, ADDRESS_SET } kind;
	uint64_t value; /* for ADDRESS_DELTA a difference, modulo 2^64 */
};

struct raw_text {
	enum { TEXT_NONE, TEXT_LITERAL, TEXT_REF } kind;
	struct str literal; /* in the message */
	uint32_t ref;
	const uint8_t *at; /* the field */
};

struct column {
	uint32_t *items;
	size_t count;
	uint32_t cap;
};

/* A range or a return pad as it is in the file. Its columns keep their memory from one to the next. */
struct raw_record {
	struct raw_address address;
	struct raw_text func, file, call_file;
	uint64_t length;
	uint32_t call_line, depth;
	struct column offsets, funcs, files, lines;
};

struct symbfile_strings {
	uint8_t *copy;    /* of the message */
	struct column at; /* of each string's field in the copy */
	size_t len;       /* of the copy */
};

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
	struct str body;   /* of the message that is read */
	bool has_va;
	uint64_t va; /* of the record before */
	struct symbfile_strings table;
	struct raw_record record;
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
	free(r->table.copy);
	free(r->table.at.items);
	free(r->record.offsets.items);
	free(r->record.funcs.items);
	free(r->record.files.items);
	free(r->record.lines.items);
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
static uint64_t offset_of(const struct symbfile_reader *r, const uint8_t *at)
{
	return r->at - r->body.len + (uint64_t)(at - (const uint8_t *)r->body.data);
}

static enum err undecodable(struct symbfile_reader *r, const uint8_t *at, const char *text)
{
	return corrupt(r, offset_of(r, at), "cannot be decoded: %s", text);
}

static enum err wrong_wire(struct symbfile_reader *r, const struct proto_field *f)
{
	return undecodable(r, f->at, "a field of the wrong wire type");
}

static enum err end_message(struct symbfile_reader *r, const struct proto *p)
{
	return p->fault ? undecodable(r, p->at, p->fault) : ERR_OK;
}

/* ---- fields ---- */

static bool is_utf8(struct str s)
{
	const uint8_t *p = (const uint8_t *)s.data;
	for (size_t i = 0; i < s.len;) {
		unsigned n = p[i] < 0x80 ? 1 : utf8_sequence(p + i, s.len - i);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

static enum err check_string(struct symbfile_reader *r, const struct proto_field *f)
{
	if (f->wire != PROTO_BYTES)
		return wrong_wire(r, f);
	return is_utf8(f->bytes) ? ERR_OK : undecodable(r, f->at, "a string that is not UTF-8");
}

/* ---- columns: repeated uint32, packed or one by one ---- */

/* The number of varints that end in these bytes. */
static size_t count_varints(struct str s)
{
	size_t n = 0;
	for (size_t i = 0; i < s.len; i++)
		n += (uint8_t)s.data[i] < 0x80;
	return n;
}

static enum err take_column(struct symbfile_reader *r, struct column *c, const struct proto_field *f)
{
	const bool packed = f->wire == PROTO_BYTES;
	const size_t count = packed ? count_varints(f->bytes) : 1;
	if (!packed && f->wire != PROTO_VARINT)
		return wrong_wire(r, f);
	if (count > SYMBFILE_ENTRIES_MAX - c->count)
		return undecodable(r, f->at, "more than 1677721 lines or frames");
	if (!array_reserve(&c->items, &c->cap, c->count + count, sizeof *c->items))
		return no_memory(&r->error);
	if (!packed)
		c->items[c->count] = (uint32_t)f->value;
	struct reader in = proto_start(packed ? f->bytes : (struct str){"", 0}).in;
	for (size_t at = c->count; in.at < in.end;) {
		uint32_t value = (uint32_t)reader_varint(&in);
		if (in.bad)
			return undecodable(r, f->at, "a bad varint in a packed field");
		c->items[at++] = value;
	}
	c->count += count;
	return ERR_OK;
}

/* ---- messages ---- */

/* What becomes of a field, and where in the message's struct. */
struct field_place {
	enum { SKIP, TAKE_U64, TAKE_U32, TAKE_DELTA, TAKE_SET, TAKE_TEXT, TAKE_REF, TAKE_COLUMN, TAKE_LINES } kind;
	uint32_t offset;
};

static const struct field_place range_places[] = {
        [RANGE_DELTA] = {TAKE_DELTA, offsetof(struct raw_record, address)},
        [RANGE_LENGTH] = {TAKE_U64, offsetof(struct raw_record, length)},
        [RANGE_FUNC] = {TAKE_TEXT, offsetof(struct raw_record, func)},
        [RANGE_FILE] = {TAKE_TEXT, offsetof(struct raw_record, file)},
        [RANGE_CALL_LINE] = {TAKE_U32, offsetof(struct raw_record, call_line)},
        [RANGE_CALL_FILE] = {TAKE_TEXT, offsetof(struct raw_record, call_file)},
        [RANGE_DEPTH] = {TAKE_U32, offsetof(struct raw_record, depth)},
        [RANGE_LINES] = {TAKE_LINES, 0},
        [RANGE_FUNC_REF] = {TAKE_REF, offsetof(struct raw_record, func)},
        [RANGE_FILE_REF] = {TAKE_REF, offsetof(struct raw_record, file)},
        [RANGE_CALL_FILE_REF] = {TAKE_REF, offsetof(struct raw_record, call_file)},
        [RANGE_SET] = {TAKE_SET, offsetof(struct raw_record, address)},
};

static const struct field_place pad_places[] = {
        [PAD_DELTA] = {TAKE_DELTA, offsetof(struct raw_record, address)},
        [PAD_FUNC] = {TAKE_COLUMN, offsetof(struct raw_record, funcs)},
        [PAD_FILE] = {TAKE_COLUMN, offsetof(struct raw_record, files)},
        [PAD_LINE] = {TAKE_COLUMN, offsetof(struct raw_record, lines)},
        [PAD_SET] = {TAKE_SET, offsetof(struct raw_record, address)},
};

#define COUNT(places) (sizeof(places) / sizeof *(places))

static enum err take_lines(struct symbfile_reader *r, const struct proto_field *lines)
{
	struct proto p = proto_start(lines->bytes);
	struct proto_field f = {0};
	enum err err = lines->wire == PROTO_BYTES ? ERR_OK : wrong_wire(r, lines);
	while (!err && proto_next(&p, &f))
		if (f.number == LINES_OFFSET || f.number == LINES_LINE)
			err = take_column(r, f.number == LINES_OFFSET ? &r->record.offsets : &r->record.lines, &f);
	return err ? err : end_message(r, &p);
}

/* Reads the fields of the message into r->record, until one is refused. Those without a place are skipped. */
static enum err read_record(struct symbfile_reader *r, const struct field_place *places, size_t count)
{
	struct raw_record *record = &r->record;
	struct proto p = proto_start(r->body);
	struct proto_field f = {0};
	enum err err = ERR_OK;
	record->address.kind = ADDRESS_NONE;
	record->func.kind = record->file.kind = record->call_file.kind = TEXT_NONE;
	record->length = record->call_line = record->depth = 0;
	record->offsets.count = record->funcs.count = record->files.count = record->lines.count = 0;
	while (!err && proto_next(&p, &f)) {
		const struct field_place *place = f.number < count ? &places[f.number] : places;
		void *at = (char *)record + place->offset;
		switch (place->kind) {
		case SKIP:
			continue;
		case TAKE_U64:
			*(uint64_t *)at = f.value;
			break;
		case TAKE_U32: /* the low bits of larger numbers */
			*(uint32_t *)at = (uint32_t)f.value;
			break;
		case TAKE_DELTA:
			*(struct raw_address *)at = (struct raw_address){ADDRESS_DELTA, (uint64_t)unzigzag(f.value)};
			break;
		case TAKE_SET:
			*(struct raw_address *)at = (struct raw_address){ADDRESS_SET, f.value};
			break;
		case TAKE_REF:
			((struct raw_text *)at)->kind = TEXT_REF;
			((struct raw_text *)at)->ref = (uint32_t)f.value;
			((struct raw_text *)at)->at = f.at;
			break;
		case TAKE_TEXT:
			*(struct raw_text *)at = (struct raw_text){TEXT_LITERAL, .literal = f.bytes, .at = f.at};
			err = check_string(r, &f);
			continue;
		case TAKE_COLUMN:
			err = take_column(r, at, &f);
			continue;
		case TAKE_LINES:
			err = take_lines(r, &f);
			continue;
		}
		if (f.wire != PROTO_VARINT)
			return wrong_wire(r, &f);
	}
	return err ? err : end_message(r, &p);
}

/* ---- the string table ---- */

static enum err read_table(struct symbfile_reader *r)
{
	struct symbfile_strings *t = &r->table;
	struct proto p = proto_start(r->body);
	struct proto_field f = {0};
	enum err err = ERR_OK;
	t->at.count = 0;
	while (!err && proto_next(&p, &f)) {
		if (f.number != TABLE_STRING || (err = check_string(r, &f)))
			continue;
		if (!array_reserve(&t->at.items, &t->at.cap, t->at.count + 1, sizeof *t->at.items))
			return no_memory(&r->error);
		t->at.items[t->at.count++] = (uint32_t)(f.at - (const uint8_t *)r->body.data);
	}
	if (err || (err = end_message(r, &p)))
		return err;
	/* Copy the body: the table is needed after the next message has replaced it. */
	uint8_t *copy = realloc(t->copy, r->body.len + 1);
	if (!copy)
		return no_memory(&r->error);
	if (r->body.len)
		memcpy(copy, r->body.data, r->body.len);
	t->copy = copy;
	t->len = r->body.len;
	return ERR_OK;
}

/* ---- records ---- */

/* Makes the address absolute, and keeps it: the next one may be relative to it. */
static enum err resolve_address(struct symbfile_reader *r, const struct raw_address *a, uint64_t *va)
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
	const uint8_t *at = r->table.copy + r->table.at.items[ref];
	struct proto p = proto_start((struct str){(const char *)at, (size_t)(r->table.copy + r->table.len - at)});
	struct proto_field f = {0};
	proto_next(&p, &f);
	*s = f.bytes;
	return ERR_OK;
}

/* If there is no text, *s is unchanged. */
static enum err resolve_text(struct symbfile_reader *r, const struct raw_text *t, struct str *s)
{
	if (t->kind == TEXT_REF)
		return resolve_ref(r, t->ref, offset_of(r, t->at), s);
	if (t->kind == TEXT_LITERAL)
		*s = t->literal;
	return ERR_OK;
}

static enum err resolve_texts(struct symbfile_reader *r, struct symbfile_range *out)
{
	const struct raw_record *w = &r->record;
	out->has_file = w->file.kind != TEXT_NONE;
	out->has_call_file = w->call_file.kind != TEXT_NONE;
	if (w->func.kind == TEXT_NONE)
		return corrupt(r, r->start, "a range without function");
	enum err err = resolve_text(r, &w->func, &out->func);
	if (!err)
		err = resolve_text(r, &w->file, &out->file);
	if (!err)
		err = resolve_text(r, &w->call_file, &out->call_file);
	return err;
}

static enum err sum_lines(struct symbfile_reader *r, struct symbfile_range *out)
{
	const struct column *offsets = &r->record.offsets, *lines = &r->record.lines;
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

static enum err take_range(struct symbfile_reader *r)
{
	struct symbfile_range out = {.func = {"", 0}, .file = {"", 0}, .call_file = {"", 0}};
	enum err err = read_record(r, range_places, COUNT(range_places));
	if (!err)
		err = resolve_address(r, &r->record.address, &out.va);
	if (!err)
		err = resolve_texts(r, &out);
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
	const struct raw_record *w = &r->record;
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

static enum err take_pad(struct symbfile_reader *r)
{
	struct symbfile_pad out = {0};
	const struct raw_record *w = &r->record;
	enum err err = read_record(r, pad_places, COUNT(pad_places));
	if (!err && (w->funcs.count != w->files.count || w->funcs.count != w->lines.count))
		err = corrupt(r, r->start, "a return pad whose columns have %zu functions, %zu files and %zu lines",
		        w->funcs.count, w->files.count, w->lines.count);
	if (!err)
		err = resolve_address(r, &w->address, &out.va);
	if (!err)
		err = make_frames(r, &out);
	return err ? err : sink_result(r, r->sink.pad(r->sink.arg, &out, &r->error));
}

static enum err take_header(struct symbfile_reader *r)
{
	struct proto p = proto_start(r->body);
	struct proto_field f = {0};
	while (proto_next(&p, &f))
		;
	return end_message(r, &p);
}

static enum err take_message(struct symbfile_reader *r, const uint8_t *data, size_t len)
{
	r->body = (struct str){(const char *)data, len};
	switch (r->type) {
	case MESSAGE_HEADER:
		return take_header(r);
	case MESSAGE_RANGE:
		return take_range(r);
	case MESSAGE_PAD:
		return take_pad(r);
	default:
		return read_table(r);
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
