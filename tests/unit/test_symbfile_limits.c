/* SPDX-License-Identifier: Apache-2.0 */
/* Symbfiles at their limits: large ones in bounded memory, too little memory, damage. */
#include <config.h>

#include "symbfile/symbfile.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "base/varint.h"
#include "seed.h"
#include "symbfile_dump.h"

enum { MIB = 1 << 20 };

/* ---- generated records: a writer whose bytes go to a reader at once ---- */

struct made {
	struct symbfile_reader *reader;
	char texts[3][2048];
	struct symbfile_line lines[8];
	struct symbfile_frame frames[3];
	uint32_t text_len; /* of the long ones */
	uint32_t taken;    /* records that came out */
	uint64_t bytes;    /* of the file */
	/* the framing, followed byte by byte */
	uint64_t value, length, left, longest_table;
	unsigned shift, tables;
	bool has_length;
};

static struct str make_text(char *to, const char *before, uint32_t number, const char *after, size_t len)
{
	int n = snprintf(to, sizeof((struct made *)0)->texts[0], "%s%u%s", before, number, after);
	for (size_t i = (size_t)n; i < len; i++)
		to[i] = (char)('a' + i % 26);
	return (struct str){to, len > (size_t)n ? len : (size_t)n};
}

static struct symbfile_range make_range(struct made *m, uint32_t i)
{
	for (uint32_t k = 0; k < 8; k++)
		m->lines[k] = (struct symbfile_line){k * (i % 5), i + k};
	return (struct symbfile_range){.va = UINT64_C(0x400000) + 64 * (uint64_t)(i ^ 5),
	        .length = 1 + i % 400,
	        .depth = i % 7,
	        .call_line = i % 3,
	        .func = make_text(m->texts[0], "name_", i, "_of_a_function(int)", m->text_len),
	        .file = make_text(m->texts[1], "/src/file_", i % 1000, ".cc", 0),
	        .call_file = make_text(m->texts[2], "/src/file_", i % 7, ".h", 0),
	        .has_file = true,
	        .has_call_file = i % 3 != 0,
	        .lines = m->lines,
	        .line_count = i % 9};
}

static struct symbfile_pad make_pad(struct made *m, uint32_t i)
{
	struct str func = make_text(m->texts[0], "name_", i, "_of_a_caller()", m->text_len);
	struct str file = make_text(m->texts[1], "/src/file_", i % 1000, ".cc", 0);
	m->frames[0] = (struct symbfile_frame){func, file, i};
	m->frames[1] = (struct symbfile_frame){make_text(m->texts[2], "f", i / 2, "", 0), {"", 0}, 0};
	m->frames[2] = (struct symbfile_frame){func, file, 5};
	return (struct symbfile_pad){.va = UINT64_C(0x500000) + 3 * (uint64_t)i, .frames = m->frames, .count = i % 4};
}

static enum err check_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	struct made *m = arg;
	(void)e;
	struct symbfile_range x = make_range(m, m->taken++);
	assert_true(r->va == x.va && r->length == x.length && r->depth == x.depth && r->call_line == x.call_line);
	assert_true(r->has_file == x.has_file && r->has_call_file == x.has_call_file);
	assert_true(str_equal(r->func, x.func) && str_equal(r->file, x.file));
	assert_true(!x.has_call_file || str_equal(r->call_file, x.call_file));
	assert_int_equal(r->line_count, x.line_count);
	for (size_t i = 0; i < x.line_count; i++)
		assert_true(r->lines[i].offset == x.lines[i].offset && r->lines[i].line == x.lines[i].line);
	return ERR_OK;
}

static enum err check_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	struct made *m = arg;
	(void)e;
	struct symbfile_pad x = make_pad(m, m->taken++);
	assert_true(p->va == x.va && p->count == x.count);
	for (size_t i = 0; i < x.count; i++) {
		assert_true(str_equal(p->frames[i].func, x.frames[i].func));
		assert_true(str_equal(p->frames[i].file, x.frames[i].file));
		assert_int_equal(p->frames[i].line, x.frames[i].line);
	}
	return ERR_OK;
}

/* One byte of the head of a message. */
static void follow_head(struct made *m, uint8_t byte)
{
	m->value |= (uint64_t)(byte & 0x7f) << m->shift;
	m->shift += 7;
	if (byte >= 0x80)
		return;
	if (!m->has_length) {
		m->length = m->value;
	} else {
		m->left = m->length;
		assert_true(m->length <= SYMBFILE_MESSAGE_MAX);
		if (m->value == 4 && m->length > m->longest_table)
			m->longest_table = m->length;
		m->tables += m->value == 4;
	}
	m->has_length = !m->has_length;
	m->value = m->shift = 0;
}

/* The messages as they pass. */
static void follow(struct made *m, const uint8_t *data, size_t len)
{
	for (size_t i = m->bytes == 0 ? 8 : 0; i < len;) {
		uint64_t n = len - i < m->left ? len - i : m->left;
		m->left -= n;
		i += n;
		if (n == 0)
			follow_head(m, data[i++]);
	}
}

static enum err pass_on(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct made *m = arg;
	follow(m, data, len);
	m->bytes += len;
	return symbfile_reader_feed(m->reader, data, len, e);
}

/* Writes and reads count ranges, or pads, with names of text_len bytes. Returns the most memory that was held. */
static size_t pass_through(struct made *m, bool pads, uint32_t count, uint32_t text_len)
{
	struct symbfile_sink sink = {check_range, check_pad, m};
	struct error e = {0};
	*m = (struct made){.text_len = text_len};
	struct made *source = calloc(1, sizeof *source);
	source->text_len = text_len;
	alloc_watch();
	m->reader = symbfile_reader_new(&sink);
	struct symbfile_writer *w = symbfile_writer_new(pass_on, m);
	assert_non_null(w);
	for (uint32_t i = 0; i < count; i++) {
		struct symbfile_range range = make_range(source, i);
		struct symbfile_pad pad = {0};
		if (pads)
			pad = make_pad(source, i);
		enum err err = pads ? symbfile_write_pad(w, &pad, &e) : symbfile_write_range(w, &range, &e);
		if (err)
			fail_msg("record %u: %s", i, e.text);
	}
	assert_int_equal(symbfile_writer_finish(w, &e), ERR_OK);
	assert_int_equal(symbfile_reader_finish(m->reader, &e), ERR_OK);
	assert_int_equal(m->taken, count);
	symbfile_reader_free(m->reader);
	symbfile_writer_free(w);
	size_t peak = alloc_watched().peak;
	free(source);
	return peak;
}

/* A sanitizer's or valgrind's memory says nothing, but the records do. */
static void test_million_ranges(void **state)
{
	(void)state;
	static struct made m;
	size_t most = pass_through(&m, false, slowness() > 1 ? 500000 : 1000000, 0);
	print_message("%" PRIu64 " bytes, %u tables, %zu MiB held\n", m.bytes, m.tables, most / MIB);
	assert_true(m.tables >= 2);
	assert_true(most < 160 * (size_t)MIB);
}

static void test_table_is_replaced_before_it_is_full(void **state)
{
	(void)state;
	static struct made m;
	size_t most = pass_through(&m, true, 60000, 1000);
	print_message("%" PRIu64 " bytes, %u tables, %zu MiB held\n", m.bytes, m.tables, most / MIB);
	assert_true(m.tables >= 3);
	assert_true(m.longest_table < 16 * MIB - 64 * 1024);
	/* and not much too early */
	assert_true(m.longest_table > 15 * MIB);
	assert_true(most < 128 * (size_t)MIB);
	/* Names of ranges that are used once are in no table, however long all are together. */
	pass_through(&m, false, 60000, 1000);
	assert_true(m.longest_table < 64 * 1024);
}

/* ---- messages of the greatest size ---- */

/* A file of a Header and one message whose body is prefix and then only `fill`. */
static struct buffer make_message(uint32_t type, size_t len, const char *prefix, size_t prefix_len, uint8_t fill)
{
	struct buffer b;
	uint8_t head[2 * VARINT_MAX];
	buffer_init(&b, 2 * SYMBFILE_MESSAGE_MAX);
	buffer_append(&b, "symbfile\0\1", 10);
	buffer_append(&b, head, (size_t)(varint_put(varint_put(head, len), type) - head));
	buffer_append(&b, prefix, prefix_len);
	assert_true(buffer_reserve(&b, len - prefix_len));
	memset(b.data + b.len, fill, len - prefix_len);
	b.len += len - prefix_len;
	return b;
}

static enum err count_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	(void)e;
	*(size_t *)arg += p->count;
	return ERR_OK;
}

static enum err count_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	(void)e;
	*(size_t *)arg += r->line_count;
	return ERR_OK;
}

/* Reads, and returns the most memory that the reader held; *items: lines and frames. */
static size_t read_message(const void *data, size_t len, size_t chunk, enum err expected, size_t *items)
{
	struct symbfile_sink sink = {count_range, count_pad, items};
	struct error e = {0};
	*items = 0;
	alloc_watch();
	struct symbfile_reader *r = symbfile_reader_new(&sink);
	enum err err = ERR_OK;
	for (size_t at = 0; at < len && !err; at += chunk)
		err = symbfile_reader_feed(r, (const uint8_t *)data + at, len - at < chunk ? len - at : chunk, &e);
	if (!err)
		err = symbfile_reader_finish(r, &e);
	symbfile_reader_free(r);
	size_t peak = alloc_watched().peak;
	if (err != expected)
		fail_msg("%d: %s", err, e.text);
	return peak;
}

/* An unknown message is passed over without memory, a known one is held once and only when it comes in pieces. */
static void test_longest_message(void **state)
{
	(void)state;
	size_t items, len = SYMBFILE_MESSAGE_MAX;
	struct buffer unknown = make_message(9, len, "", 0, 0xff);
	assert_true(read_message(unknown.data, unknown.len, 4000, ERR_OK, &items) < 64 * 1024);
	assert_true(read_message(unknown.data, unknown.len - 1, 4000, ERR_CORRUPT, &items) < 64 * 1024);
	buffer_release(&unknown);
	/* a range with an unknown field that fills it */
	struct buffer range = make_message(2, len, "\x60\1\x1a\1\x61\x6a\xf6\xff\xff\x07", 10, 'x');
	assert_true(read_message(range.data, range.len, range.len, ERR_OK, &items) < 64 * 1024);
	assert_true(read_message(range.data, range.len, 4000, ERR_OK, &items) < 34 * MIB);
	/* a length is no promise */
	assert_true(read_message(range.data, 100000, 4000, ERR_CORRUPT, &items) < 600 * 1024);
	buffer_release(&range);
}

/* Adds a packed field of n varints of one byte. */
static void add_column(struct buffer *b, uint8_t number, size_t n)
{
	uint8_t head[1 + VARINT_MAX] = {(uint8_t)(number << 3 | 2)};
	buffer_append(b, head, (size_t)(varint_put(head + 1, n) - head));
	assert_true(buffer_reserve(b, n));
	memset(b->data + b->len, 1, n);
	b->len += n;
}

static void add_message(struct buffer *b, unsigned type, const struct buffer *body)
{
	uint8_t head[2 * VARINT_MAX];
	buffer_append(b, head, (size_t)(varint_put(varint_put(head, body->len), type) - head));
	buffer_append(b, body->data, body->len);
	assert_false(b->failed || body->failed);
}

/* A range of n lines, or a return pad of n frames behind a table. */
static struct buffer make_entries(bool pad, size_t n)
{
	struct buffer file, body, lines;
	buffer_init(&file, 2 * SYMBFILE_MESSAGE_MAX);
	buffer_init(&body, SYMBFILE_MESSAGE_MAX);
	buffer_init(&lines, SYMBFILE_MESSAGE_MAX);
	buffer_append(&file, "symbfile\0\1", 10);
	if (pad) {
		buffer_append(&body, "\x0a\0\x0a\0", 4);
		add_message(&file, 4, &body);
		buffer_reset(&body);
		buffer_append(&body, "\x28\1", 2);
		for (uint8_t field = 2; field <= 4; field++)
			add_column(&body, field, n);
		add_message(&file, 3, &body);
	} else {
		uint8_t length[VARINT_MAX];
		add_column(&lines, 1, n);
		add_column(&lines, 2, n);
		buffer_append(&body, "\x60\1\x1a\1\x61\x42", 6);
		buffer_append(&body, length, (size_t)(varint_put(length, lines.len) - length));
		buffer_append(&body, lines.data, lines.len);
		add_message(&file, 2, &body);
	}
	buffer_release(&body);
	buffer_release(&lines);
	return file;
}

/* Messages that become as large as can be in memory. */
static void test_greedy_messages(void **state)
{
	(void)state;
	size_t items;
	/* a table of empty strings: 0a 00 0a 00 … */
	struct buffer table = make_message(4, SYMBFILE_MESSAGE_MAX, "", 0, 0);
	for (size_t i = table.len - SYMBFILE_MESSAGE_MAX; i < table.len; i += 2)
		table.data[i] = 0x0a;
	assert_true(read_message(table.data, table.len, table.len, ERR_OK, &items) < 128 * (size_t)MIB);
	buffer_release(&table);
	for (unsigned pad = 0; pad < 2; pad++) {
		const size_t fits = SYMBFILE_ENTRIES_MAX, most = (SYMBFILE_MESSAGE_MAX - 64) / (pad ? 3 : 2);
		const size_t counts[] = {fits, fits + 1, most};
		for (unsigned i = 0; i < 3; i++) {
			struct buffer b = make_entries(pad, counts[i]);
			size_t peak = read_message(b.data, b.len, b.len, i ? ERR_CORRUPT : ERR_OK, &items);
			print_message("%zu %s: %zu bytes\n", counts[i], pad ? "frames" : "lines", peak);
			assert_int_equal(items, i ? 0 : fits);
			assert_true(peak < (i ? 32 : pad ? 128 : 64) * (size_t)MIB);
			buffer_release(&b);
		}
	}
}

/* ---- too little memory ---- */

static enum err drop_bytes(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	(void)arg, (void)data, (void)len, (void)e;
	return ERR_OK;
}

/* Reads and writes; true when there was memory enough. */
static bool rewrite(void *arg)
{
	const struct str *file = arg;
	struct error e = {0};
	enum err err = ERR_NO_MEMORY;
	struct symbfile_writer *w = symbfile_writer_new(drop_bytes, NULL);
	struct symbfile_sink sink = sink_to_writer(w);
	struct symbfile_reader *r = symbfile_reader_new(&sink);
	if (w && r) {
		err = ERR_OK;
		for (size_t at = 0; at < file->len && !err; at += 100)
			err = symbfile_reader_feed(
			        r, (const uint8_t *)file->data + at, file->len - at < 100 ? file->len - at : 100, &e);
		if (!err)
			err = symbfile_reader_finish(r, &e);
		if (!err)
			err = symbfile_writer_finish(w, &e);
	}
	symbfile_reader_free(r);
	symbfile_writer_free(w);
	if (err && err != ERR_NO_MEMORY)
		fail_msg("%s", e.text);
	return !err;
}

static void check_without_memory(const char *name)
{
	char path[512];
	size_t len;
	char *data = load_file(data_path(path, name), &len);
	assert_non_null(data);
	assert_in_range(fail_each_allocation(rewrite, &(struct str){data, len}), 10, 999);
	free(data);
}

static void test_each_allocation_fails(void **state)
{
	(void)state;
	check_without_memory("cpp-pie-x86_64/ranges.symbfile");
	check_without_memory("cpp-pie-x86_64/pads.symbfile");
}

/* ---- damage ---- */

/* Whatever the bytes are, the answer does not depend on how they come. */
static bool check_damaged(const char *data, size_t len)
{
	struct error e = {0}, e_pieces = {0};
	enum err err, err_pieces;
	json_t *whole = symbfile_to_json(data, len, len, &err, &e);
	json_t *pieces = symbfile_to_json(data, len, 13, &err_pieces, &e_pieces);
	assert_int_equal(err, err_pieces);
	assert_string_equal(e.text, e_pieces.text);
	assert_true(json_equal(whole, pieces));
	assert_true(err == ERR_OK || err == ERR_CORRUPT);
	json_decref(whole);
	json_decref(pieces);
	return err != ERR_OK;
}

static unsigned damage_file(const char *name, unsigned rounds, uint64_t own)
{
	uint64_t seed = seed_of(own);
	char path[512];
	size_t len;
	unsigned refused = 0;
	char *data = load_file(data_path(path, name), &len);
	assert_non_null(data);
	char *damaged = malloc(len);
	for (unsigned i = 0; i < rounds; i++) {
		size_t cut = next_random(&seed) % 8 == 0 ? 1 + next_random(&seed) % len : len;
		memcpy(damaged, data, len);
		for (unsigned k = next_random(&seed) % 4; k > 0; k--)
			damaged[10 + next_random(&seed) % (len - 10)] = (char)next_random(&seed);
		refused += check_damaged(damaged, cut);
	}
	free(damaged);
	free(data);
	return refused;
}

static void test_damage(void **state)
{
	(void)state;
	unsigned refused = damage_file("nolibc-static-x86_64/ranges.symbfile", 3000, 1);
	refused += damage_file("nolibc-static-x86_64/pads.symbfile", 3000, 2);
	refused += damage_file("corner/mixed-deltas.symbfile", 3000, 3);
	assert_in_range(refused, 2000, 8900);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_million_ranges),
	        cmocka_unit_test(test_table_is_replaced_before_it_is_full),
	        cmocka_unit_test(test_longest_message),
	        cmocka_unit_test(test_greedy_messages),
	        cmocka_unit_test(test_each_allocation_fails),
	        cmocka_unit_test(test_damage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
