/* SPDX-License-Identifier: Apache-2.0 */
/* Symbfiles: what is read from them, what is refused and where, and what is written. */
#include <config.h>

#include "symbfile/symbfile.h"
#include "symbfile/counts.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbfile_dump.h"

enum { WHOLE = 1 << 30, BUFFER_MAX = 64 << 20 };

static const size_t chunks[] = {1, 3, 7, 11, 1000, WHOLE};
enum { CHUNKS = sizeof chunks / sizeof chunks[0] };

/* ---- the kept files ---- */

/* What our error says where the verdict names a class. */
static const struct {
	const char *class, *text;
} classes[] = {
        {"IO:UnexpectedEof", "ends within"},
        {"InvalidMagic", "not a symbfile"},
        {"TruncatedMessage", "the file ends w"},
        {"UnexpectedType", "not a Header"},
        {"Decoding", "cannot be decoded: "},
        {"VarIntTooLong", "longer than 10 bytes"},
        {"MaximumMsgSizeExceeded", "more than 16777216"},
        {"InvalidMessageType", "message type "},
        {"ColumnLengthMismatch", "columns"},
        {"MissingRequiredField:elf_va", "without address"},
        {"MissingRequiredField:func", "without function"},
        {"RelativeValueWithoutReference", "relative"},
        {"InvalidStringTableIndex", "not in the string table"},
};

static const char *class_text(const char *class)
{
	for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++)
		if (strcmp(classes[i].class, class) == 0)
			return classes[i].text;
	fail_msg("nobody knows the class %s", class);
	return NULL;
}

static void assert_records(const char *name, const json_t *actual, const json_t *expected)
{
	if (json_equal(actual, expected))
		return;
	char *a = json_dumps(actual, JSON_COMPACT | JSON_SORT_KEYS),
	     *b = json_dumps(expected, JSON_COMPACT | JSON_SORT_KEYS);
	print_error("%s: read\n%.2000s\nnot\n%.2000s\n", name, a, b);
	free(a);
	free(b);
	fail();
}

/* What is written of a file's records says the same, and writing that once more gives the same bytes. */
static void check_rewrites(const char *name, const char *data, size_t len, const json_t *expected)
{
	struct buffer once, twice;
	struct error e;
	enum err err;
	buffer_init(&once, BUFFER_MAX);
	buffer_init(&twice, BUFFER_MAX);
	symbfile_rewrite(data, len, &once);
	symbfile_rewrite(once.data, once.len, &twice);
	json_t *records = symbfile_to_json(once.data, once.len, WHOLE, &err, &e);
	assert_int_equal(err, ERR_OK);
	assert_records(name, records, expected);
	assert_int_equal(once.len, twice.len);
	assert_memory_equal(once.data, twice.data, once.len);
	json_decref(records);
	buffer_release(&once);
	buffer_release(&twice);
}

static void check_verdict(const json_t *verdict)
{
	char path[512], name[128];
	size_t len;
	bool ok = json_is_true(json_object_get(verdict, "ok"));
	snprintf(name, sizeof name, "corner/%s", json_string_value(json_object_get(verdict, "file")));
	char *data = load_file(data_path(path, name), &len);
	assert_non_null(data);
	for (size_t i = 0; i < CHUNKS; i++) {
		struct error e = {0};
		enum err err;
		json_t *records = symbfile_to_json(data, len, chunks[i], &err, &e);
		assert_records(name, records, json_object_get(verdict, "records"));
		json_decref(records);
		if (err != (ok ? ERR_OK : ERR_CORRUPT) || (err && strncmp(e.text, "byte ", 5) != 0))
			fail_msg("%s: %s", name, err ? e.text : "could be read");
		if (err && !strstr(e.text, class_text(json_string_value(json_object_get(verdict, "error")))))
			fail_msg("%s: another error was expected than \"%s\"", name, e.text);
	}
	if (ok)
		check_rewrites(name, data, len, json_object_get(verdict, "records"));
	free(data);
}

static void test_corners(void **state)
{
	(void)state;
	char path[512];
	json_t *verdicts = load_json_lines(data_path(path, "corner/verdicts.jsonl")), *verdict;
	size_t i;
	assert_int_equal(json_array_size(verdicts), 82);
	json_array_foreach(verdicts, i, verdict) check_verdict(verdict);
	json_decref(verdicts);
}

/* A symbfile of a program; NULL for dump: only that it can be read and written. False: it is not there. */
static bool check_program_file(const char *dir, const char *symbfile, const char *dump)
{
	char path[1024];
	size_t len;
	struct error e;
	enum err err;
	snprintf(path, sizeof path, "%s/%s", dir, symbfile);
	char *data = load_file(path, &len);
	if (!data)
		return false;
	json_t *records = symbfile_to_json(data, len, WHOLE, &err, &e);
	assert_int_equal(err, ERR_OK);
	if (dump) {
		char dump_path[1024];
		snprintf(dump_path, sizeof dump_path, "%s/%s", dir, dump);
		json_t *expected = load_json_lines(dump_path);
		assert_records(path, records, expected);
		json_decref(expected);
	}
	for (size_t i = 0; i < CHUNKS; i++) {
		json_t *again = symbfile_to_json(data, len, chunks[i], &err, &e);
		assert_int_equal(err, ERR_OK);
		assert_records(path, again, records);
		json_decref(again);
	}
	check_rewrites(path, data, len, records);
	json_decref(records);
	free(data);
	return true;
}

/* Programs in a folder; how many have symbfiles. */
static unsigned check_programs(const char *folder)
{
	enum { FILES_MAX = 10000 };
	unsigned programs = 0, files = 0;
	DIR *d = opendir(folder);
	if (!d)
		return 0;
	for (const struct dirent *entry; files < FILES_MAX && (entry = readdir(d)); files++) {
		char dir[768], path[1024];
		snprintf(dir, sizeof dir, "%s/%s", folder, entry->d_name);
		snprintf(path, sizeof path, "%s/ranges.jsonl", dir);
		if (entry->d_name[0] == '.' || access(path, R_OK) != 0)
			continue;
		programs++;
		assert_true(check_program_file(dir, "ranges.symbfile", "ranges.jsonl"));
		snprintf(path, sizeof path, "%s/pads.jsonl", dir);
		assert_true(check_program_file(dir, "pads.symbfile", access(path, R_OK) == 0 ? "pads.jsonl" : NULL));
		check_program_file(dir, "ranges-multi.symbfile", NULL);
		check_program_file(dir, "pads-multi.symbfile", NULL);
	}
	closedir(d);
	return programs;
}

static void test_programs(void **state)
{
	(void)state;
	char path[512];
	assert_int_equal(check_programs(data_path(path, "")), 5);
}

/* The folder of SHARED_DATA, or the one beside the source tree. */
static void test_shared_programs(void **state)
{
	(void)state;
	char path[512];
	const char *shared = getenv("SHARED_DATA"), *top = getenv("srcdir");
	if (shared)
		snprintf(path, sizeof path, "%s/symbfile", shared);
	else
		snprintf(path, sizeof path, "%s/../shared/data/symbfile", top ? top : ".");
	if (check_programs(path) == 0) {
		print_message("no symbfiles in %s: set SHARED_DATA to the folder that holds them\n", path);
		skip();
	}
}

/* ---- files made here ---- */

#define START "symbfile\0\1"
#define BYTES(text) (text), sizeof(text) - 1

struct made {
	const char *data;
	size_t len;
	const char *expected; /* the error, or the records as JSON */
};

static const struct made refused[] = {
        {BYTES("symbfilf"), "byte 7: not a symbfile"},
        {BYTES("symb"), "byte 4: not a symbfile: it ends within the first eight bytes"},
        {BYTES("symbfile"), "byte 8: the file ends where its Header must be"},
        {BYTES("symbfile\1"), "byte 9: the file ends within the message that begins at byte 8"},
        {BYTES("symbfile\0\2"), "byte 8: the first message is not a Header"},
        {BYTES(START "\0\1"), "byte 10: message type 1: a second Header"},
        {BYTES(START "\0\0"), "byte 10: message type 0 is not allowed"},
        {BYTES(START "\0\5\x81\x80\x80\x08\5"), "byte 12: a message of 16777217 bytes, more than 16777216"},
        {BYTES(START "\3\2\x60\1\x6e"), "byte 14: cannot be decoded: an unknown wire type"},
        {BYTES(START "\3\2\x60\1\x6b"), "byte 14: cannot be decoded: a group without an end"},
        {BYTES(START "\4\2\x60\1\x6b\x74"), "byte 15: cannot be decoded: an end of a group that was not begun"},
        {BYTES(START "\3\2\x60\1\x6c"), "byte 14: cannot be decoded: an end of a group that was not begun"},
        {BYTES(START "\4\2\x6b\0\1\x6c"), "byte 13: cannot be decoded: field number 0"},
        {BYTES(START "\x7\2\x60\1\x80\x80\x80\x80\x10"), "byte 14: cannot be decoded: a bad field number"},
        {BYTES(START "\xc\2\x60\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\1"),
                "byte 12: cannot be decoded: a bad varint"},
        {BYTES(START "\xb\2\x60\xff\xff\xff\xff\xff\xff\xff\xff\xff\2"), "byte 12: cannot be decoded: a bad varint"},
        {BYTES(START "\4\2\x60\1\x1a\2"), "byte 14: cannot be decoded: a field that is longer than its message"},
        {BYTES(START "\5\2\x60\1\x1a\1\xc0"), "byte 14: cannot be decoded: a string that is not UTF-8"},
        {BYTES(START "\7\2\x60\1\x1a\3\xed\xa0\x80"), "byte 14: cannot be decoded: a string that is not UTF-8"},
        {BYTES(START "\5\2\x42\3\x0a\1\x80"), "byte 14: cannot be decoded: a bad varint in a packed field"},
        {BYTES(START "\4\2\x42\2\x0d\0"), "byte 14: cannot be decoded: a field that is longer than its message"},
        {BYTES(START "\7\2\x42\5\x0d\0\0\0\0"), "byte 14: cannot be decoded: a field of the wrong wire type"},
        {BYTES(START "\2\2\x40\1"), "byte 12: cannot be decoded: a field of the wrong wire type"},
        {BYTES(START "\2\4\x08\1"), "byte 12: cannot be decoded: a field of the wrong wire type"},
        {BYTES(START "\3\4\x0a\1\xff"), "byte 12: cannot be decoded: a string that is not UTF-8"},
        /* The first fault of a record, in the order of docs/symbfile.md. */
        {BYTES(START "\x8\2\x60\1\x42\4\x0a\2\1\1"), "byte 10: a range without function"},
        {BYTES(START "\2\3\x10\0"), "byte 10: a return pad whose columns have 1 functions, 0 files and 0 lines"},
        {BYTES(START "\6\3\x10\0\x18\0\x20\0"), "byte 10: a record without address"},
        {BYTES(START "\x8\3\x8\2\x10\0\x18\0\x20\0"), "byte 10: the first record's address is relative"},
        {BYTES(START "\x8\3\x28\2\x10\0\x18\0\x20\0"), "byte 10: string 0 is not in the string table, which has 0"},
        {BYTES(START "\3\4\x0a\1\x61\4\2\x60\1\x48\1"), "byte 19: string 1 is not in the string table, which has 1"},
};

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		for (size_t k = 0; k < CHUNKS; k++) {
			struct error e = {0};
			enum err err;
			json_t *records = symbfile_to_json(refused[i].data, refused[i].len, chunks[k], &err, &e);
			assert_int_equal(json_array_size(records), 0);
			json_decref(records);
			assert_int_equal(err, ERR_CORRUPT);
			assert_int_equal(e.code, ERR_CORRUPT);
			assert_string_equal(e.text, refused[i].expected);
		}
	}
}

#define RANGE(func, rest) \
	"{\"t\":\"range\",\"va\":\"0x1\",\"len\":0,\"depth\":0,\"func\":\"" func "\",\"call_line\":0," rest "}"
#define NO_FILES "\"file\":null,\"call_file\":null,"

static const struct made accepted[] = {
        /* a reference of more than 32 bits: the low ones count */
        {BYTES(START "\3\4\x0a\1\x61\x8\2\x60\1\x48\x80\x80\x80\x80\x10"), RANGE("a", NO_FILES "\"lines\":[]")},
        /* no text at all */
        {BYTES(START "\4\2\x60\1\x1a\0"), RANGE("", NO_FILES "\"lines\":[]")},
        /* an empty call file is there */
        {BYTES(START "\7\2\x60\1\x1a\1\x61\x32\0"), RANGE("a", "\"file\":null,\"call_file\":\"\",\"lines\":[]")},
        /* columns of packed and single numbers, in two line tables, with an unknown field */
        {BYTES(START "\x17\2\x60\1\x42\x8\x0a\2\1\2\x10\5\x78\1\x42\6\x08\3\x12\2\6\7\x1a\1\x61"),
                RANGE("a", NO_FILES "\"lines\":[[1,5],[3,6],[6,7]]")},
        /* groups in a group */
        {BYTES(START "\xb\2\x60\1\x6b\x73\x60\1\x74\x6c\x1a\1\x61"), RANGE("a", NO_FILES "\"lines\":[]")},
        /* a type that nobody knows, with a body that would be a bad message */
        {BYTES(START "\4\x4d\xff\xff\xff\xff\5\2\x60\1\x1a\1\x61"), RANGE("a", NO_FILES "\"lines\":[]")},
        /* an unknown field of a string table, between its strings */
        {BYTES(START "\x8\4\x0a\1\x7a\x10\1\x0a\1\x61\4\2\x60\1\x48\1"), RANGE("a", NO_FILES "\"lines\":[]")},
};

static void test_accepted(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
		json_t *expected = json_pack("[o]", json_loads(accepted[i].expected, 0, NULL));
		assert_non_null(expected);
		for (size_t k = 0; k < CHUNKS; k++) {
			struct error e = {0};
			enum err err;
			json_t *records = symbfile_to_json(accepted[i].data, accepted[i].len, chunks[k], &err, &e);
			if (err)
				fail_msg("case %zu: %s", i, e.text);
			assert_records(accepted[i].expected, records, expected);
			json_decref(records);
		}
		check_rewrites("rewritten", accepted[i].data, accepted[i].len, expected);
		json_decref(expected);
	}
}

/* A Header with `depth` groups inside each other. */
static void test_depth_of_groups(void **state)
{
	(void)state;
	for (unsigned depth = 99; depth <= 101; depth++) {
		uint8_t file[256] = "symbfile";
		struct error e;
		enum err err;
		file[8] = (uint8_t)(0x80 | (2 * depth & 0x7f));
		file[9] = (uint8_t)(2 * depth >> 7);
		file[10] = 1;
		memset(file + 11, 0x6b, depth);
		memset(file + 11 + depth, 0x6c, depth);
		json_decref(symbfile_to_json(file, 11 + 2 * depth, WHOLE, &err, &e));
		assert_int_equal(err, depth > 100 ? ERR_CORRUPT : ERR_OK);
	}
}

static enum err refuse_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	(void)r;
	++*(unsigned *)arg;
	return error_set(e, ERR_UNAVAILABLE, "no room");
}

/* A sink's error ends the reading, and stays. */
static void test_sink_refuses(void **state)
{
	(void)state;
	static const char file[] = START "\5\2\x60\1\x1a\1\x61\5\2\x60\1\x1a\1\x61";
	unsigned calls = 0;
	struct symbfile_sink sink = {refuse_range, NULL, &calls};
	struct symbfile_reader *r = symbfile_reader_new(&sink);
	struct error e = {0};
	assert_int_equal(symbfile_reader_feed(r, (const uint8_t *)file, sizeof file - 1, &e), ERR_UNAVAILABLE);
	assert_string_equal(e.text, "no room");
	assert_int_equal(symbfile_reader_feed(r, (const uint8_t *)"x", 1, NULL), ERR_UNAVAILABLE);
	e = (struct error){0};
	assert_int_equal(symbfile_reader_finish(r, &e), ERR_UNAVAILABLE);
	assert_string_equal(e.text, "no room");
	assert_int_equal(calls, 1);
	symbfile_reader_free(r);
}

/* A file may have records of both kinds. */
static void test_mixed_kinds(void **state)
{
	(void)state;
	enum err err;
	struct error e = {0};
	json_t *records = symbfile_to_json(BYTES(START "\5\2\x60\1\x1a\1\x61"
	                                               "\2\3\x28\1"),
	        5, &err, &e);
	assert_int_equal(err, ERR_OK);
	assert_int_equal(json_array_size(records), 2);
	assert_string_equal(json_string_value(json_object_get(json_array_get(records, 0), "t")), "range");
	assert_string_equal(json_string_value(json_object_get(json_array_get(records, 1), "t")), "pad");
	json_decref(records);
}

/* ---- writing ---- */

static struct buffer written;

static struct symbfile_writer *begin_writing(void)
{
	buffer_init(&written, BUFFER_MAX);
	struct symbfile_writer *w = symbfile_writer_new(write_to_buffer, &written);
	assert_non_null(w);
	return w;
}

static void end_writing(struct symbfile_writer *w, const char *expected, size_t len)
{
	struct error e;
	assert_int_equal(symbfile_writer_finish(w, &e), ERR_OK);
	assert_int_equal(written.len, len);
	assert_memory_equal(written.data, expected, len);
	symbfile_writer_free(w);
	buffer_release(&written);
}

static void test_empty_file(void **state)
{
	(void)state;
	end_writing(begin_writing(), BYTES(START));
}

static const struct symbfile_line two_lines[] = {{3, 10}, {19, 53}};
static const struct symbfile_range a_range = {.va = 0x1000,
        .length = 32,
        .func = {"f", 1},
        .file = {"a.c", 3},
        .has_file = true,
        .lines = two_lines,
        .line_count = 2};

/* A string that is used once lies in the range. */
static void test_bytes_of_range(void **state)
{
	(void)state;
	struct error e;
	struct symbfile_writer *w = begin_writing();
	assert_int_equal(symbfile_write_range(w, &a_range, &e), ERR_OK);
	end_writing(w, BYTES(START "\x17\2\x60\x80\x20\x10\x20\x42\x8\x0a\2\3\x10\x12\2\x0a\x35\x1a\1f\x22\3"
	                           "a.c"));
}

/* Records whose strings are sometimes shared, sometimes new. */
static void write_some(struct symbfile_writer *w, unsigned count, bool pads)
{
	static const struct symbfile_line lines[] = {{0, 1}, {200, 70000}, {UINT32_MAX, 3}};
	char name[300];
	struct error e;
	memset(name, 'x', sizeof name);
	for (unsigned i = 0; i < count; i++) {
		size_t len = (size_t)snprintf(name, 32, "%u", i % 3 ? i : 7) + i % 250;
		struct str text = {name, len};
		struct symbfile_range r = {.va = i * UINT64_C(0x123456789abc),
		        .length = i * 100,
		        .depth = i % 4,
		        .call_line = i % 200,
		        .func = text,
		        .file = {name, len / 2},
		        .has_file = i % 2,
		        .call_file = {name, len / 3},
		        .has_call_file = i % 5 == 0,
		        .lines = lines,
		        .line_count = i % 4};
		struct symbfile_frame frames[] = {
		        {text, {name, 3}, i}, {{name, len / 2}, {"", 0}, 0}, {text, text, 1 << 30}};
		struct symbfile_pad p = {i * UINT64_C(0xfedcba98765), frames, i % 4};
		assert_int_equal(pads ? symbfile_write_pad(w, &p, &e) : symbfile_write_range(w, &r, &e), ERR_OK);
	}
}

/* However many records there are, the file that ends there is no larger than was said, nor much smaller. */
static void test_bound(void **state)
{
	(void)state;
	for (unsigned count = 0; count < 3000; count = count * 3 / 2 + 1) {
		for (int pads = 0; pads < 2; pads++) {
			struct error e;
			struct symbfile_writer *w = begin_writing();
			write_some(w, count, pads);
			uint64_t bound = symbfile_writer_bound(w);
			assert_int_equal(symbfile_writer_finish(w, &e), ERR_OK);
			assert_true(written.len <= bound);
			assert_true(bound < 2 * written.len + 64);
			symbfile_writer_free(w);
			buffer_release(&written);
		}
	}
}

/* Strings that are used twice, and all of return pads, lie in the table; addresses are relative. */
static void test_bytes_of_shared_strings(void **state)
{
	(void)state;
	struct error e;
	struct symbfile_frame frames[] = {{{"main", 4}, {"a.c", 3}, 7}, {{"f", 1}, {"", 0}, 0}};
	struct symbfile_pad pad = {0x0fff, frames, 2};
	struct symbfile_range inlined = {.va = 0x1008,
	        .length = 300,
	        .depth = 1,
	        .call_line = 4,
	        .func = {"g", 1},
	        .call_file = {"a.c", 3},
	        .has_call_file = true};
	struct symbfile_writer *w = begin_writing();
	assert_int_equal(symbfile_write_range(w, &inlined, &e), ERR_OK);
	assert_int_equal(symbfile_write_pad(w, &pad, &e), ERR_OK);
	end_writing(w, BYTES(START "\x10\4\x0a\3"
	                           "a.c\x0a\4main\x0a\1f\x0a\0"
	                           "\xf\2\x60\x88\x20\x10\xac\2\x28\4\x38\1\x1a\1g\x58\0"
	                           "\xe\3\x8\x11\x22\2\7\0\x12\2\1\2\x1a\2\0\3"));
}

/* What no message can hold is refused, and nothing is written of it. */
static void test_writer_refuses(void **state)
{
	(void)state;
	struct error e = {0};
	struct symbfile_range r = a_range;
	struct symbfile_pad pad = {0};
	struct symbfile_writer *w = begin_writing();
	r.length = UINT64_C(1) << 32;
	assert_int_equal(symbfile_write_range(w, &r, &e), ERR_TOO_LARGE);
	r.length = 1;
	r.line_count = 16 << 20;
	assert_int_equal(symbfile_write_range(w, &r, &e), ERR_TOO_LARGE);
	pad.count = 16 << 20;
	assert_int_equal(symbfile_write_pad(w, &pad, &e), ERR_TOO_LARGE);
	r.line_count = 0;
	r.func.len = 16 << 20;
	r.func.data = test_calloc(1, r.func.len);
	assert_int_equal(symbfile_write_range(w, &r, &e), ERR_TOO_LARGE);
	assert_string_equal(e.text, "a record whose strings are longer than a string table");
	test_free((char *)r.func.data);
	end_writing(w, BYTES(START));
}

/* Bytes that may be written. */
static enum err write_within(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	size_t *room = arg;
	(void)data;
	if (len > *room)
		return error_set(e, ERR_UNAVAILABLE, "the disk is full");
	*room -= len;
	return ERR_OK;
}

/* The names of two records do not fit into one string table, so the first record is written before the second one. */
static void test_a_full_table_is_written(void **state)
{
	enum { LEN = 9 << 20, ROOM = 2 * LEN + 1000 };
	char *name = test_calloc(1, LEN);
	struct error e = {0};
	(void)state;
	for (int full = 0; full < 2; full++) {
		size_t room = full ? 0 : ROOM;
		struct symbfile_writer *w = symbfile_writer_new(write_within, &room);
		struct symbfile_frame frame = {.func = {name, LEN}};
		const struct symbfile_pad pad = {0x1000, &frame, 1};
		assert_int_equal(symbfile_write_pad(w, &pad, &e), ERR_OK);
		frame.func.len--;
		assert_int_equal(symbfile_write_pad(w, &pad, &e), full ? ERR_UNAVAILABLE : ERR_OK);
		if (full)
			assert_string_equal(e.text, "the disk is full");
		else
			assert_int_equal(symbfile_writer_finish(w, &e), ERR_OK);
		symbfile_writer_free(w);
	}
	test_free(name);
}

static void test_counts(void **state)
{
	static const struct symbfile_line lines[] = {{.line = 0}, {.line = 1}, {.line = 7}};
	static const struct symbfile_frame known[] = {{.line = 0}, {.line = 1}}, unknown[] = {{.line = 0}};
	struct symbfile_counts counts = {0};
	struct symbfile_sink sink = symbfile_counts_sink(&counts);
	(void)state;
	assert_int_equal(sink.range(sink.arg, &(struct symbfile_range){.lines = lines, .line_count = 3}, NULL), ERR_OK);
	assert_int_equal(
	        sink.range(sink.arg, &(struct symbfile_range){.depth = 1, .lines = lines, .line_count = 1}, NULL),
	        ERR_OK);
	assert_true(counts.functions == 1 && counts.inlines == 1 && counts.lines == 2);
	assert_int_equal(sink.pad(sink.arg, &(struct symbfile_pad){.frames = known, .count = 2}, NULL), ERR_OK);
	assert_true(counts.functions == 2 && counts.inlines == 2 && counts.lines == 3);
	assert_int_equal(sink.pad(sink.arg, &(struct symbfile_pad){.frames = unknown, .count = 1}, NULL), ERR_OK);
	assert_int_equal(sink.pad(sink.arg, &(struct symbfile_pad){.count = 0}, NULL), ERR_OK);
	assert_true(counts.functions == 3 && counts.inlines == 2 && counts.lines == 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_corners),
	        cmocka_unit_test(test_programs),
	        cmocka_unit_test(test_shared_programs),
	        cmocka_unit_test(test_refused),
	        cmocka_unit_test(test_accepted),
	        cmocka_unit_test(test_depth_of_groups),
	        cmocka_unit_test(test_sink_refuses),
	        cmocka_unit_test(test_mixed_kinds),
	        cmocka_unit_test(test_empty_file),
	        cmocka_unit_test(test_bytes_of_range),
	        cmocka_unit_test(test_bound),
	        cmocka_unit_test(test_bytes_of_shared_strings),
	        cmocka_unit_test(test_writer_refuses),
	        cmocka_unit_test(test_a_full_table_is_written),
	        cmocka_unit_test(test_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
