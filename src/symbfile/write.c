/* SPDX-License-Identifier: Apache-2.0 */
/* Which strings go into a string table is known only when all records that use it are known. Until then each record is
 * kept in `records`: its type; the length and bytes of those fields of its message that are not strings; the number of
 * its strings; for each string its index + 1, or 0 for none. All numbers are varints. */
#include <config.h>

#include "symbfile/symbfile.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "base/map64.h"
#include "symbfile/protobuf.h"
#include "symbfile/wire.h"

enum {
	TABLE_MAX = (16 << 20) - (64 << 10), /* bytes; every string table is smaller */
	INLINE_MAX = 64 << 10,               /* longer strings are never written in a range itself */
	HELD_MAX = 16 << 20,                 /* bytes of kept records after which they are written */
	OUT_MAX = 64 << 10,
	/* The most bytes that a message's lines or frames may take; the rest of the message then always fits. */
	COLUMNS_MAX = SYMBFILE_MESSAGE_MAX - 4 * INLINE_MAX,
	U32_MAX_LEN = 5,   /* bytes of a varint of 32 bits */
	RANGE_STRINGS = 3, /* func, file, call file */
	RECORD_EXTRA = 16, /* bytes by which a message may exceed its kept record: lengths and tags */
};

/* The distinct strings of the kept records, and which of them go into the string table. */
struct string {
	uint32_t at, len; /* in texts */
	uint32_t number;  /* in the string table, once that exists */
	bool used, shared;
};

struct strings {
	struct buffer texts;
	struct string *items;
	struct map64 by_hash; /* index into items + 1; strings with equal hashes have consecutive keys */
	size_t count;
	uint32_t cap;
	size_t table_len; /* bytes of a table of all strings */
};

struct symbfile_writer {
	enum err (*write)(void *arg, const uint8_t *data, size_t len, struct error *e);
	void *arg;
	struct strings strings;
	struct buffer records, body;
	struct buffer column, lines; /* scratch: one packed field, a line table */
	uint32_t *ids;               /* scratch: a record's strings */
	uint32_t id_cap;
	uint64_t va; /* of the previous record */
	bool has_va;
	bool begun;        /* magic and Header have been written */
	uint64_t written;  /* bytes passed to `put` */
	size_t held_count; /* records that are kept */
	size_t out_len;
	uint8_t out[OUT_MAX];
};

struct symbfile_writer *symbfile_writer_new(
        enum err (*write)(void *arg, const uint8_t *data, size_t len, struct error *e), void *arg)
{
	struct symbfile_writer *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->write = write;
	w->arg = arg;
	buffer_init(&w->strings.texts, TABLE_MAX);
	buffer_init(&w->records, HELD_MAX + 2 * SYMBFILE_MESSAGE_MAX);
	buffer_init(&w->body, SYMBFILE_MESSAGE_MAX);
	buffer_init(&w->column, SYMBFILE_MESSAGE_MAX);
	buffer_init(&w->lines, SYMBFILE_MESSAGE_MAX);
	return w;
}

void symbfile_writer_free(struct symbfile_writer *w)
{
	if (!w)
		return;
	buffer_release(&w->strings.texts);
	free(w->strings.items);
	map64_release(&w->strings.by_hash);
	buffer_release(&w->records);
	buffer_release(&w->body);
	buffer_release(&w->column);
	buffer_release(&w->lines);
	free(w->ids);
	free(w);
}

/* ---- strings ---- */

static struct str strings_text(const struct strings *s, const struct string *string)
{
	return (struct str){(const char *)s->texts.data + string->at, string->len};
}

/* Bytes of a string in the table: tag, length, text. */
static size_t field_len(size_t len)
{
	uint8_t scratch[VARINT_MAX];
	return 1 + (size_t)(varint_put(scratch, len) - scratch) + len;
}

/* Keeps a string, and sets its index. ERR_TOO_LARGE: a table of all strings would reach TABLE_MAX; ERR_NO_MEMORY. */
static enum err strings_add(struct strings *s, struct str text, uint32_t *index)
{
	uint64_t at, key = checksum(text.data, text.len, "", 0);
	for (; (at = map64_get(&s->by_hash, key)); key++)
		if (str_equal(strings_text(s, &s->items[at - 1]), text)) {
			*index = (uint32_t)at - 1;
			return ERR_OK;
		}
	if (text.len >= TABLE_MAX || s->table_len + field_len(text.len) >= TABLE_MAX)
		return ERR_TOO_LARGE;
	if (!array_reserve(&s->items, &s->cap, s->count + 1, sizeof *s->items))
		return ERR_NO_MEMORY;
	s->items[s->count] = (struct string){.at = (uint32_t)s->texts.len, .len = (uint32_t)text.len};
	/* Reserve at least one byte, so that texts.data exists for an empty string too. */
	if (!buffer_reserve(&s->texts, text.len + 1) || !buffer_append_str(&s->texts, text) ||
	        !map64_put(&s->by_hash, key, s->count + 1))
		return ERR_NO_MEMORY;
	s->table_len += field_len(text.len);
	*index = (uint32_t)s->count++;
	return ERR_OK;
}

/* Counts a use. A string is shared from its second use, or from the first that needs the table. */
static void strings_use(struct strings *s, uint32_t index, bool needs_table)
{
	struct string *item = &s->items[index];
	item->shared = item->shared || item->used || needs_table || item->len > INLINE_MAX;
	item->used = true;
}

/* Numbers the shared strings in the order in which they were added. Returns their number. */
static uint32_t strings_number(struct strings *s)
{
	uint32_t number = 0;
	for (size_t i = 0; i < s->count; i++)
		if (s->items[i].shared)
			s->items[i].number = number++;
	return number;
}

/* ---- fields into buffers; a buffer that ran out of memory remembers it ---- */

static void add_varint(struct buffer *b, uint64_t value)
{
	if (buffer_reserve(b, VARINT_MAX))
		b->len = (size_t)(varint_put(b->data + b->len, value) - b->data);
}

static void add_field(struct buffer *b, uint32_t number, uint64_t value)
{
	if (buffer_reserve(b, 2 * VARINT_MAX))
		b->len = (size_t)(proto_put_varint(b->data + b->len, number, value) - b->data);
}

/* proto3 does not write zeros. */
static void add_nonzero(struct buffer *b, uint32_t number, uint64_t value)
{
	if (value)
		add_field(b, number, value);
}

static void add_bytes(struct buffer *b, uint32_t number, struct str bytes)
{
	add_varint(b, (uint64_t)number << 3 | PROTO_BYTES);
	add_varint(b, bytes.len);
	buffer_append_str(b, bytes);
}

static struct str contents(const struct buffer *b)
{
	return (struct str){(const char *)b->data, b->len};
}

/* Appends the contents of `part` to b as a field, unless they are empty. */
static void add_gathered(struct buffer *b, uint32_t number, struct buffer *part)
{
	if (part->failed)
		b->failed = true;
	else if (part->len)
		add_bytes(b, number, contents(part));
	buffer_reset(part);
}

/* ---- output ---- */

static enum err flush_out(struct symbfile_writer *w, struct error *e)
{
	size_t len = w->out_len;
	w->out_len = 0;
	return len ? w->write(w->arg, w->out, len, e) : ERR_OK;
}

static enum err put_bytes(struct symbfile_writer *w, struct str bytes, struct error *e)
{
	enum err err = ERR_OK;
	w->written += bytes.len;
	if (bytes.len > OUT_MAX - w->out_len)
		err = flush_out(w, e);
	if (err)
		return err;
	if (bytes.len > OUT_MAX)
		return w->write(w->arg, (const uint8_t *)bytes.data, bytes.len, e);
	if (bytes.len)
		memcpy(w->out + w->out_len, bytes.data, bytes.len);
	w->out_len += bytes.len;
	return ERR_OK;
}

/* Writes w->body as a message. */
static enum err put_message(struct symbfile_writer *w, uint32_t type, struct error *e)
{
	uint8_t head[2 * VARINT_MAX], *end = varint_put(varint_put(head, w->body.len), type);
	if (w->body.failed)
		return no_memory(e);
	enum err err = put_bytes(w, (struct str){(const char *)head, (size_t)(end - head)}, e);
	return err ? err : put_bytes(w, contents(&w->body), e);
}

static enum err begin_file(struct symbfile_writer *w, struct error *e)
{
	if (w->begun)
		return ERR_OK;
	w->begun = true;
	buffer_reset(&w->body);
	enum err err = put_bytes(w, str_from(SYMBFILE_MAGIC), e);
	return err ? err : put_message(w, MESSAGE_HEADER, e);
}

static enum err put_table(struct symbfile_writer *w, struct error *e)
{
	if (strings_number(&w->strings) == 0)
		return ERR_OK;
	buffer_reset(&w->body);
	for (size_t i = 0; i < w->strings.count; i++)
		if (w->strings.items[i].shared)
			add_bytes(&w->body, TABLE_STRING, strings_text(&w->strings, &w->strings.items[i]));
	return put_message(w, MESSAGE_TABLE, e);
}

static void add_text(struct symbfile_writer *w, uint64_t id, uint32_t literal, uint32_t ref)
{
	if (id == 0)
		return;
	const struct string *s = &w->strings.items[id - 1];
	if (s->shared)
		add_field(&w->body, ref, s->number);
	else
		add_bytes(&w->body, literal, strings_text(&w->strings, s));
}

static void add_range_strings(struct symbfile_writer *w, struct reader *held)
{
	add_text(w, reader_varint(held), RANGE_FUNC, RANGE_FUNC_REF);
	add_text(w, reader_varint(held), RANGE_FILE, RANGE_FILE_REF);
	add_text(w, reader_varint(held), RANGE_CALL_FILE, RANGE_CALL_FILE_REF);
}

static void add_refs(struct symbfile_writer *w, struct reader *held, uint64_t count, uint32_t number)
{
	for (uint64_t i = 0; i < count; i++)
		add_varint(&w->column, w->strings.items[reader_varint(held) - 1].number);
	add_gathered(&w->body, number, &w->column);
}

static enum err put_record(struct symbfile_writer *w, struct reader *held, struct error *e)
{
	uint32_t type = (uint32_t)reader_varint(held);
	size_t len = (size_t)reader_varint(held);
	buffer_reset(&w->body);
	buffer_append(&w->body, held->at, len);
	held->at += len;
	uint64_t strings = reader_varint(held);
	if (type == MESSAGE_RANGE) {
		add_range_strings(w, held);
	} else {
		add_refs(w, held, strings / 2, PAD_FUNC);
		add_refs(w, held, strings / 2, PAD_FILE);
	}
	return put_message(w, type, e);
}

/* Writes the string table and all kept records, and starts both anew. */
static enum err flush_records(struct symbfile_writer *w, struct error *e)
{
	struct reader held = {w->records.data, w->records.data, false};
	if (w->records.len)
		held.end += w->records.len;
	enum err err = begin_file(w, e);
	if (!err)
		err = put_table(w, e);
	while (!err && held.at < held.end)
		err = put_record(w, &held, e);
	buffer_reset(&w->records);
	w->held_count = 0;
	buffer_reset(&w->strings.texts);
	w->strings.count = w->strings.table_len = 0;
	map64_reset(&w->strings.by_hash);
	return err;
}

/* ---- records ---- */

/* Sets w->ids[place]: 0 if there is no string, else its index + 1. */
static enum err add_id(struct symbfile_writer *w, size_t place, struct str text)
{
	uint32_t index = 0;
	enum err err = strings_add(&w->strings, text, &index);
	w->ids[place] = index + 1;
	return err;
}

static enum err range_ids(struct symbfile_writer *w, const void *record)
{
	const struct symbfile_range *r = record;
	enum err err = add_id(w, 0, r->func);
	w->ids[1] = w->ids[2] = 0;
	if (!err && r->has_file)
		err = add_id(w, 1, r->file);
	if (!err && r->has_call_file)
		err = add_id(w, 2, r->call_file);
	return err;
}

static enum err pad_ids(struct symbfile_writer *w, const void *record)
{
	const struct symbfile_pad *p = record;
	enum err err = ERR_OK;
	for (size_t i = 0; i < p->count && !err; i++)
		err = add_id(w, i, p->frames[i].func);
	for (size_t i = 0; i < p->count && !err; i++)
		err = add_id(w, p->count + i, p->frames[i].file);
	return err;
}

/* Finds the strings of a record. If the table has no room for them, the kept records are written first. */
static enum err take_strings(struct symbfile_writer *w, enum err (*take)(struct symbfile_writer *w, const void *record),
        const void *record, size_t count, struct error *e)
{
	if (!array_reserve(&w->ids, &w->id_cap, count, sizeof *w->ids))
		return no_memory(e);
	enum err err = take(w, record);
	if (err == ERR_TOO_LARGE) {
		enum err flushed = flush_records(w, e);
		if (flushed)
			return flushed;
		err = take(w, record);
	}
	if (err == ERR_NO_MEMORY)
		return no_memory(e);
	return err ? error_set(e, err, "a record whose strings are longer than a string table") : ERR_OK;
}

static void add_address(struct symbfile_writer *w, uint64_t va, uint32_t delta, uint32_t set)
{
	if (w->has_va)
		add_field(&w->body, delta, zigzag((int64_t)(va - w->va)));
	else
		add_field(&w->body, set, va);
	w->va = va;
	w->has_va = true;
}

/* Keeps the record whose fields are in w->body and whose strings are w->ids. */
static enum err hold_record(struct symbfile_writer *w, uint32_t type, size_t count, struct error *e)
{
	w->held_count++;
	add_varint(&w->records, type);
	add_varint(&w->records, w->body.len);
	buffer_append_str(&w->records, contents(&w->body));
	add_varint(&w->records, count);
	for (size_t i = 0; i < count; i++) {
		add_varint(&w->records, w->ids[i]);
		if (w->ids[i])
			strings_use(&w->strings, w->ids[i] - 1, type == MESSAGE_PAD);
	}
	if (w->body.failed || w->records.failed)
		return no_memory(e);
	return w->records.len < HELD_MAX ? ERR_OK : flush_records(w, e);
}

static void add_lines(struct symbfile_writer *w, const struct symbfile_range *r)
{
	uint32_t before = 0;
	for (size_t i = 0; i < r->line_count; i++) {
		add_varint(&w->column, (uint32_t)(r->lines[i].offset - before));
		before = r->lines[i].offset;
	}
	add_gathered(&w->lines, LINES_OFFSET, &w->column);
	for (size_t i = 0; i < r->line_count; i++)
		add_varint(&w->column, r->lines[i].line);
	add_gathered(&w->lines, LINES_LINE, &w->column);
	add_gathered(&w->body, RANGE_LINES, &w->lines);
}

enum err symbfile_write_range(struct symbfile_writer *w, const struct symbfile_range *r, struct error *e)
{
	if (r->length > UINT32_MAX)
		return error_set(e, ERR_TOO_LARGE, "a range of 4 GiB or more");
	if (r->line_count > COLUMNS_MAX / (2 * U32_MAX_LEN))
		return error_set(e, ERR_TOO_LARGE, "a range of %zu lines", r->line_count);
	enum err err = take_strings(w, range_ids, r, RANGE_STRINGS, e);
	if (err)
		return err;
	buffer_reset(&w->body);
	add_address(w, r->va, RANGE_DELTA, RANGE_SET);
	add_nonzero(&w->body, RANGE_LENGTH, r->length);
	add_nonzero(&w->body, RANGE_CALL_LINE, r->call_line);
	add_nonzero(&w->body, RANGE_DEPTH, r->depth);
	add_lines(w, r);
	return hold_record(w, MESSAGE_RANGE, RANGE_STRINGS, e);
}

enum err symbfile_write_pad(struct symbfile_writer *w, const struct symbfile_pad *p, struct error *e)
{
	if (p->count > COLUMNS_MAX / (3 * U32_MAX_LEN))
		return error_set(e, ERR_TOO_LARGE, "a return pad of %zu frames", p->count);
	enum err err = take_strings(w, pad_ids, p, 2 * p->count, e);
	if (err)
		return err;
	buffer_reset(&w->body);
	add_address(w, p->va, PAD_DELTA, PAD_SET);
	for (size_t i = 0; i < p->count; i++)
		add_varint(&w->column, p->frames[i].line);
	add_gathered(&w->body, PAD_LINE, &w->column);
	return hold_record(w, MESSAGE_PAD, 2 * p->count, e);
}

uint64_t symbfile_writer_bound(const struct symbfile_writer *w)
{
	/* Each string is written once, and a reference takes one tag more than its kept index. */
	return w->written + sizeof SYMBFILE_MAGIC + 2 * VARINT_MAX + w->strings.table_len + w->records.len +
	       (uint64_t)w->held_count * RECORD_EXTRA;
}

enum err symbfile_writer_finish(struct symbfile_writer *w, struct error *e)
{
	enum err err = flush_records(w, e);
	return err ? err : flush_out(w, e);
}
