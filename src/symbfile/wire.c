/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbfile/wire.h"

#include <stdlib.h>

#include "base/array.h"
#include "symbfile/protobuf.h"
#include "base/utf8.h"
#include "symbfile/symbfile.h"

const char *const symbfile_kind_names[SYMBFILE_KINDS] = {"ranges", "returnpads"};

static enum err bad_field(struct wire_fault *fault, const struct proto_field *f, const char *text)
{
	*fault = (struct wire_fault){text, f->at};
	return ERR_CORRUPT;
}

static enum err wrong_wire(struct wire_fault *fault, const struct proto_field *f)
{
	return bad_field(fault, f, "a field of the wrong wire type");
}

static enum err end_message(const struct proto *p, struct wire_fault *fault)
{
	*fault = (struct wire_fault){p->fault, p->at};
	return p->fault ? ERR_CORRUPT : ERR_OK;
}

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

static enum err check_string(const struct proto_field *f, struct wire_fault *fault)
{
	if (f->wire != PROTO_BYTES)
		return wrong_wire(fault, f);
	return is_utf8(f->bytes) ? ERR_OK : bad_field(fault, f, "a string that is not UTF-8");
}

/* ---- columns: repeated uint32, packed or one by one ---- */

static bool column_reserve(struct wire_column *c, size_t n)
{
	return array_reserve(&c->items, &c->cap, c->count + n, sizeof *c->items);
}

static enum err column_add(struct wire_column *c, uint32_t value)
{
	if (!column_reserve(c, 1))
		return ERR_NO_MEMORY;
	c->items[c->count++] = value;
	return ERR_OK;
}

/* The number of varints that end in these bytes. */
static size_t count_varints(struct str s)
{
	size_t n = 0;
	for (size_t i = 0; i < s.len; i++)
		n += (uint8_t)s.data[i] < 0x80;
	return n;
}

static const char too_many[] = "more than 1677721 lines or frames";

static enum err take_packed(struct wire_column *to, const struct proto_field *f, struct wire_fault *fault)
{
	struct reader in = proto_start(f->bytes).in;
	size_t count = count_varints(f->bytes);
	if (count > SYMBFILE_ENTRIES_MAX - to->count)
		return bad_field(fault, f, too_many);
	if (!column_reserve(to, count))
		return ERR_NO_MEMORY;
	for (size_t at = to->count; in.at < in.end;) {
		uint32_t value = (uint32_t)reader_varint(&in);
		if (in.bad)
			return bad_field(fault, f, "a bad varint in a packed field");
		to->items[at++] = value;
	}
	to->count += count;
	return ERR_OK;
}

static enum err take_column(struct wire_column *c, const struct proto_field *f, struct wire_fault *fault)
{
	if (f->wire == PROTO_BYTES)
		return take_packed(c, f, fault);
	if (f->wire != PROTO_VARINT)
		return wrong_wire(fault, f);
	return c->count < SYMBFILE_ENTRIES_MAX ? column_add(c, (uint32_t)f->value) : bad_field(fault, f, too_many);
}

/* ---- messages ---- */

/* What becomes of a field, and where in the message's struct. */
struct field_place {
	enum { SKIP, TAKE_U64, TAKE_U32, TAKE_DELTA, TAKE_SET, TAKE_TEXT, TAKE_REF, TAKE_COLUMN, TAKE_LINES } kind;
	uint32_t offset;
};

static const struct field_place range_places[] = {
        [RANGE_DELTA] = {TAKE_DELTA, offsetof(struct wire_record, address)},
        [RANGE_LENGTH] = {TAKE_U64, offsetof(struct wire_record, length)},
        [RANGE_FUNC] = {TAKE_TEXT, offsetof(struct wire_record, func)},
        [RANGE_FILE] = {TAKE_TEXT, offsetof(struct wire_record, file)},
        [RANGE_CALL_LINE] = {TAKE_U32, offsetof(struct wire_record, call_line)},
        [RANGE_CALL_FILE] = {TAKE_TEXT, offsetof(struct wire_record, call_file)},
        [RANGE_DEPTH] = {TAKE_U32, offsetof(struct wire_record, depth)},
        [RANGE_LINES] = {TAKE_LINES, 0},
        [RANGE_FUNC_REF] = {TAKE_REF, offsetof(struct wire_record, func)},
        [RANGE_FILE_REF] = {TAKE_REF, offsetof(struct wire_record, file)},
        [RANGE_CALL_FILE_REF] = {TAKE_REF, offsetof(struct wire_record, call_file)},
        [RANGE_SET] = {TAKE_SET, offsetof(struct wire_record, address)},
};

static const struct field_place pad_places[] = {
        [PAD_DELTA] = {TAKE_DELTA, offsetof(struct wire_record, address)},
        [PAD_FUNC] = {TAKE_COLUMN, offsetof(struct wire_record, funcs)},
        [PAD_FILE] = {TAKE_COLUMN, offsetof(struct wire_record, files)},
        [PAD_LINE] = {TAKE_COLUMN, offsetof(struct wire_record, lines)},
        [PAD_SET] = {TAKE_SET, offsetof(struct wire_record, address)},
};

#define COUNT(places) (sizeof(places) / sizeof *(places))

static enum err take_lines(struct wire_record *r, const struct proto_field *lines, struct wire_fault *fault)
{
	struct proto p = proto_start(lines->bytes);
	struct proto_field f = {0};
	enum err err = lines->wire == PROTO_BYTES ? ERR_OK : wrong_wire(fault, lines);
	while (!err && proto_next(&p, &f))
		if (f.number == LINES_OFFSET || f.number == LINES_LINE)
			err = take_column(f.number == LINES_OFFSET ? &r->offsets : &r->lines, &f, fault);
	return err ? err : end_message(&p, fault);
}

/* Reads the fields of a message into the struct `to`, until one is refused. Those without a place are skipped. */
static enum err read_fields(
        struct str body, const struct field_place *places, size_t count, void *to, struct wire_fault *fault)
{
	struct proto p = proto_start(body);
	struct proto_field f = {0};
	enum err err = ERR_OK;
	while (!err && proto_next(&p, &f)) {
		const struct field_place *place = f.number < count ? &places[f.number] : places;
		void *at = (char *)to + place->offset;
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
			*(struct wire_address *)at = (struct wire_address){ADDRESS_DELTA, (uint64_t)unzigzag(f.value)};
			break;
		case TAKE_SET:
			*(struct wire_address *)at = (struct wire_address){ADDRESS_SET, f.value};
			break;
		case TAKE_REF:
			((struct wire_text *)at)->kind = TEXT_REF;
			((struct wire_text *)at)->ref = (uint32_t)f.value;
			((struct wire_text *)at)->at = f.at;
			break;
		case TAKE_TEXT:
			*(struct wire_text *)at = (struct wire_text){TEXT_LITERAL, .literal = f.bytes, .at = f.at};
			err = check_string(&f, fault);
			continue;
		case TAKE_COLUMN:
			err = take_column(at, &f, fault);
			continue;
		case TAKE_LINES:
			err = take_lines(to, &f, fault);
			continue;
		}
		if (f.wire != PROTO_VARINT)
			return wrong_wire(fault, &f);
	}
	return err ? err : end_message(&p, fault);
}

enum err wire_header_read(struct str body, struct wire_fault *fault)
{
	struct proto p = proto_start(body);
	struct proto_field f = {0};
	while (proto_next(&p, &f))
		;
	return end_message(&p, fault);
}

static void reset_record(struct wire_record *r)
{
	r->address.kind = ADDRESS_NONE;
	r->func.kind = r->file.kind = r->call_file.kind = TEXT_NONE;
	r->length = r->call_line = r->depth = 0;
	r->offsets.count = r->funcs.count = r->files.count = r->lines.count = 0;
}

enum err wire_range_read(struct wire_record *r, struct str body, struct wire_fault *fault)
{
	reset_record(r);
	return read_fields(body, range_places, COUNT(range_places), r, fault);
}

enum err wire_pad_read(struct wire_record *r, struct str body, struct wire_fault *fault)
{
	reset_record(r);
	return read_fields(body, pad_places, COUNT(pad_places), r, fault);
}

void wire_record_release(struct wire_record *r)
{
	free(r->offsets.items);
	free(r->funcs.items);
	free(r->files.items);
	free(r->lines.items);
}

/* ---- the string table ---- */

enum err wire_table_read(struct wire_table *t, struct str body, struct wire_fault *fault)
{
	struct proto p = proto_start(body);
	struct proto_field f = {0};
	enum err err = ERR_OK;
	t->at.count = 0;
	while (!err && proto_next(&p, &f))
		if (f.number == TABLE_STRING && !(err = check_string(&f, fault)))
			err = column_add(&t->at, (uint32_t)(f.at - (const uint8_t *)body.data));
	if (err || (err = end_message(&p, fault)))
		return err;
	/* Copy the body: the table is needed after the next message has replaced it. */
	uint8_t *copy = realloc(t->copy, body.len + 1);
	if (!copy)
		return ERR_NO_MEMORY;
	if (body.len)
		memcpy(copy, body.data, body.len);
	t->copy = copy;
	t->len = body.len;
	return ERR_OK;
}

struct str wire_table_string(const struct wire_table *t, uint32_t index)
{
	uint32_t at = t->at.items[index];
	struct proto p = proto_start((struct str){(const char *)t->copy + at, t->len - at});
	struct proto_field f = {0};
	proto_next(&p, &f);
	return f.bytes;
}

void wire_table_release(struct wire_table *t)
{
	free(t->copy);
	free(t->at.items);
}
