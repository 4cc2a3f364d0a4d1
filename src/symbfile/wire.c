/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbfile/wire.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/protobuf.h"
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

/* Passes each field of a message to `take`, until one is refused. */
static enum err each_field(struct str body,
        enum err (*take)(void *to, const struct proto_field *f, struct wire_fault *fault), void *to,
        struct wire_fault *fault)
{
	struct proto p = proto_start(body);
	struct proto_field f = {0};
	while (proto_next(&p, &f)) {
		enum err err = take(to, &f, fault);
		if (err)
			return err;
	}
	*fault = (struct wire_fault){p.fault, p.at};
	return p.fault ? ERR_CORRUPT : ERR_OK;
}

/* ---- fields ---- */

static enum err take_u64(uint64_t *to, const struct proto_field *f, struct wire_fault *fault)
{
	*to = f->value;
	return f->wire == PROTO_VARINT ? ERR_OK : wrong_wire(fault, f);
}

/* Takes the low 32 bits of larger numbers. */
static enum err take_u32(uint32_t *to, const struct proto_field *f, struct wire_fault *fault)
{
	*to = (uint32_t)f->value;
	return f->wire == PROTO_VARINT ? ERR_OK : wrong_wire(fault, f);
}

static enum err take_delta(struct wire_address *to, const struct proto_field *f, struct wire_fault *fault)
{
	*to = (struct wire_address){ADDRESS_DELTA, (uint64_t)unzigzag(f->value)};
	return f->wire == PROTO_VARINT ? ERR_OK : wrong_wire(fault, f);
}

static enum err take_set(struct wire_address *to, const struct proto_field *f, struct wire_fault *fault)
{
	*to = (struct wire_address){ADDRESS_SET, f->value};
	return f->wire == PROTO_VARINT ? ERR_OK : wrong_wire(fault, f);
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

static enum err take_own_text(struct wire_text *to, const struct proto_field *f, struct wire_fault *fault)
{
	*to = (struct wire_text){.kind = TEXT_LITERAL, .literal = f->bytes, .at = f->at};
	return check_string(f, fault);
}

static enum err take_ref(struct wire_text *to, const struct proto_field *f, struct wire_fault *fault)
{
	*to = (struct wire_text){.kind = TEXT_REF, .ref = (uint32_t)f->value, .at = f->at};
	return f->wire == PROTO_VARINT ? ERR_OK : wrong_wire(fault, f);
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
	while (in.at < in.end) {
		uint32_t value = (uint32_t)reader_varint(&in);
		if (in.bad)
			return bad_field(fault, f, "a bad varint in a packed field");
		to->items[to->count++] = value;
	}
	return ERR_OK;
}

static enum err take_column(struct wire_column *to, const struct proto_field *f, struct wire_fault *fault)
{
	if (f->wire == PROTO_BYTES)
		return take_packed(to, f, fault);
	if (f->wire != PROTO_VARINT)
		return wrong_wire(fault, f);
	return to->count < SYMBFILE_ENTRIES_MAX ? column_add(to, (uint32_t)f->value) : bad_field(fault, f, too_many);
}

/* ---- messages ---- */

static enum err header_field(void *to, const struct proto_field *f, struct wire_fault *fault)
{
	(void)to, (void)f, (void)fault;
	return ERR_OK;
}

enum err wire_header_read(struct str body, struct wire_fault *fault)
{
	return each_field(body, header_field, NULL, fault);
}

static enum err lines_field(void *to, const struct proto_field *f, struct wire_fault *fault)
{
	struct wire_range *r = to;
	switch (f->number) {
	case LINES_OFFSET:
		return take_column(&r->offsets, f, fault);
	case LINES_LINE:
		return take_column(&r->lines, f, fault);
	default:
		return ERR_OK;
	}
}

static enum err range_field(void *to, const struct proto_field *f, struct wire_fault *fault)
{
	struct wire_range *r = to;
	switch (f->number) {
	case RANGE_DELTA:
		return take_delta(&r->address, f, fault);
	case RANGE_SET:
		return take_set(&r->address, f, fault);
	case RANGE_LENGTH:
		return take_u64(&r->length, f, fault);
	case RANGE_FUNC:
		return take_own_text(&r->func, f, fault);
	case RANGE_FUNC_REF:
		return take_ref(&r->func, f, fault);
	case RANGE_FILE:
		return take_own_text(&r->file, f, fault);
	case RANGE_FILE_REF:
		return take_ref(&r->file, f, fault);
	case RANGE_CALL_FILE:
		return take_own_text(&r->call_file, f, fault);
	case RANGE_CALL_FILE_REF:
		return take_ref(&r->call_file, f, fault);
	case RANGE_CALL_LINE:
		return take_u32(&r->call_line, f, fault);
	case RANGE_DEPTH:
		return take_u32(&r->depth, f, fault);
	case RANGE_LINES:
		return f->wire == PROTO_BYTES ? each_field(f->bytes, lines_field, r, fault) : wrong_wire(fault, f);
	default:
		return ERR_OK;
	}
}

enum err wire_range_read(struct wire_range *r, struct str body, struct wire_fault *fault)
{
	*r = (struct wire_range){.offsets = r->offsets, .lines = r->lines};
	r->offsets.count = r->lines.count = 0;
	return each_field(body, range_field, r, fault);
}

void wire_range_release(struct wire_range *r)
{
	free(r->offsets.items);
	free(r->lines.items);
}

static enum err pad_field(void *to, const struct proto_field *f, struct wire_fault *fault)
{
	struct wire_pad *p = to;
	switch (f->number) {
	case PAD_DELTA:
		return take_delta(&p->address, f, fault);
	case PAD_SET:
		return take_set(&p->address, f, fault);
	case PAD_FUNC:
		return take_column(&p->funcs, f, fault);
	case PAD_FILE:
		return take_column(&p->files, f, fault);
	case PAD_LINE:
		return take_column(&p->lines, f, fault);
	default:
		return ERR_OK;
	}
}

enum err wire_pad_read(struct wire_pad *p, struct str body, struct wire_fault *fault)
{
	p->address.kind = ADDRESS_NONE;
	p->funcs.count = p->files.count = p->lines.count = 0;
	return each_field(body, pad_field, p, fault);
}

void wire_pad_release(struct wire_pad *p)
{
	free(p->funcs.items);
	free(p->files.items);
	free(p->lines.items);
}

/* ---- the string table ---- */

struct table_reading {
	struct wire_table *table;
	const uint8_t *body;
};

static enum err table_field(void *to, const struct proto_field *f, struct wire_fault *fault)
{
	struct table_reading *t = to;
	if (f->number != TABLE_STRING)
		return ERR_OK;
	enum err err = check_string(f, fault);
	return err ? err : column_add(&t->table->at, (uint32_t)(f->at - t->body));
}

enum err wire_table_read(struct wire_table *t, struct str body, struct wire_fault *fault)
{
	struct table_reading reading = {t, (const uint8_t *)body.data};
	t->at.count = 0;
	enum err err = each_field(body, table_field, &reading, fault);
	if (err)
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
