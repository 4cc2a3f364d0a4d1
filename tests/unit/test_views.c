/* SPDX-License-Identifier: Apache-2.0 */
/* Files of Windows that are made to cost much: what is read of them costs no more than their size allows. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/map64.h"
#include "base/sanitizers.h"
#include "base/varint.h"
#include "extract/extract.h"
#include "extract/pdb_sources.h"

enum {
	BLOCK = 4096,
	STREAMS = 10,
	INFO = 1,
	TYPES = 2,
	DBI = 3,
	SECTIONS = 5,
	MODULE = 6,
	MOVES = 7,
	SOURCE_SECTIONS = 8,
	PLACES = 9,
	CODE_START = 0x1000,
	CODE_SIZE = 0x1000000,
	SECONDS_MAX = 8,        /* of processor time; each attack would take several times as long */
	MEMORY_MAX = 256 << 20, /* bytes */
};

/* ---- a PDB file ---- */

struct pdb_parts {
	struct buffer streams[STREAMS];
	struct buffer modules, contributions;
	bool moved;
};

static void add_u16(struct buffer *b, uint16_t v)
{
	uint8_t bytes[2];
	put_u16(bytes, v);
	assert_true(buffer_append(b, bytes, sizeof bytes));
}

static void add_u32(struct buffer *b, uint32_t v)
{
	uint8_t bytes[4];
	put_u32(bytes, v);
	assert_true(buffer_append(b, bytes, sizeof bytes));
}

static void add_zeros(struct buffer *b, size_t n)
{
	assert_true(buffer_reserve(b, n));
	memset(b->data + b->len, 0, n);
	b->len += n;
}

static void add_section(struct buffer *b)
{
	assert_true(buffer_append(b, ".text\0\0", 8));
	add_u32(b, CODE_SIZE);
	add_u32(b, CODE_START);
	add_zeros(b, 20);
	add_u32(b, 0x20000000);
}

static void parts_init(struct pdb_parts *p)
{
	*p = (struct pdb_parts){.moved = false};
	for (size_t i = 0; i < STREAMS; i++)
		buffer_init(&p->streams[i], SIZE_MAX);
	buffer_init(&p->modules, SIZE_MAX);
	buffer_init(&p->contributions, SIZE_MAX);
	add_zeros(&p->streams[INFO], 36);
	add_section(&p->streams[SECTIONS]);
	add_u32(&p->streams[MODULE], 4);
}

/* A module of the one stream; c13: bytes of its lines, at the stream's end. */
static void add_module(struct pdb_parts *p, size_t c13)
{
	add_zeros(&p->modules, 34);
	add_u16(&p->modules, MODULE);
	add_u32(&p->modules, (uint32_t)(p->streams[MODULE].len - c13));
	add_u32(&p->modules, 0);
	add_u32(&p->modules, (uint32_t)c13);
	add_zeros(&p->modules, 16);
	assert_true(buffer_append(&p->modules, "a\0b", 4));
}

static void make_dbi(struct pdb_parts *p)
{
	struct buffer *b = &p->streams[DBI];
	add_zeros(b, 20);
	add_u16(b, 0xffff);
	add_u16(b, 0);
	add_u32(b, (uint32_t)p->modules.len);
	add_u32(b, (uint32_t)p->contributions.len);
	add_zeros(b, 16);
	add_u32(b, 22);
	add_zeros(b, 6);
	add_u16(b, 0x8664);
	add_zeros(b, 4);
	assert_true(buffer_append(b, p->modules.data, p->modules.len));
	assert_true(buffer_append(b, p->contributions.data, p->contributions.len));
	for (unsigned i = 0; i < 11; i++)
		add_u16(b, i == 5                ? SECTIONS
		           : i == 4 && p->moved  ? MOVES
		           : i == 10 && p->moved ? SOURCE_SECTIONS
		                                 : 0xffff);
}

static size_t blocks_of(size_t bytes)
{
	return (bytes + BLOCK - 1) / BLOCK;
}

static void fill(struct buffer *file, const struct buffer *part)
{
	assert_true(buffer_append(file, part->data, part->len));
	add_zeros(file, blocks_of(part->len) * BLOCK - part->len);
}

/* Releases the parts. */
static int make_pdb(struct pdb_parts *p)
{
	struct buffer file, directory, list;
	make_dbi(p);
	buffer_init(&file, SIZE_MAX);
	buffer_init(&directory, SIZE_MAX);
	buffer_init(&list, SIZE_MAX);
	add_zeros(&file, 3 * BLOCK);
	add_u32(&directory, STREAMS);
	for (size_t i = 0; i < STREAMS; i++)
		add_u32(&directory, (uint32_t)p->streams[i].len);
	for (size_t i = 0; i < STREAMS; i++) {
		for (size_t k = 0; k < blocks_of(p->streams[i].len); k++)
			add_u32(&directory, (uint32_t)(file.len / BLOCK + k));
		fill(&file, &p->streams[i]);
		buffer_release(&p->streams[i]);
	}
	buffer_release(&p->modules);
	buffer_release(&p->contributions);
	for (size_t k = 0; k < blocks_of(directory.len); k++)
		add_u32(&list, (uint32_t)(file.len / BLOCK + k));
	fill(&file, &directory);
	memcpy(file.data,
	        "Microsoft C/C++ MSF 7.00\r\n\x1a"
	        "DS\0\0",
	        32);
	put_u32(file.data + 32, BLOCK);
	put_u32(file.data + 44, (uint32_t)directory.len);
	put_u32(file.data + 52, (uint32_t)(file.len / BLOCK));
	fill(&file, &list);
	int fd = memfd_create("pdb", MFD_CLOEXEC);
	assert_true(fd >= 0 && write(fd, file.data, file.len) == (ssize_t)file.len);
	buffer_release(&file);
	buffer_release(&directory);
	buffer_release(&list);
	return fd;
}

/* ---- symbols of its module ---- */

static void add_procedure(struct pdb_parts *p, uint32_t end, uint32_t offset, uint32_t len, uint32_t type)
{
	struct buffer *b = &p->streams[MODULE];
	add_u16(b, 39);
	add_u16(b, 0x1110);
	add_u32(b, 0);
	add_u32(b, end);
	add_u32(b, 0);
	add_u32(b, len);
	add_u32(b, 0);
	add_u32(b, 0);
	add_u32(b, type);
	add_u32(b, offset);
	add_u16(b, 1);
	assert_true(buffer_append(b, "\0f", 3));
}

static void add_site(struct pdb_parts *p, uint32_t end, uint32_t inlinee, const uint8_t *annotations, size_t len)
{
	struct buffer *b = &p->streams[MODULE];
	add_u16(b, (uint16_t)(14 + len));
	add_u16(b, 0x114d);
	add_u32(b, 0);
	add_u32(b, end);
	add_u32(b, inlinee);
	assert_true(buffer_append(b, annotations, len));
}

/* The stream "/names", with the name "f" at 0. */
static void add_names(struct pdb_parts *p)
{
	buffer_reset(&p->streams[INFO]);
	add_zeros(&p->streams[INFO], 28);
	add_u32(&p->streams[INFO], 7);
	assert_true(buffer_append(&p->streams[INFO], "/names", 7));
	add_u32(&p->streams[INFO], 1);
	add_zeros(&p->streams[INFO], 12);
	add_u32(&p->streams[INFO], 0);
	add_u32(&p->streams[INFO], PLACES);
	add_u32(&p->streams[PLACES], 0xeffeeffe);
	add_u32(&p->streams[PLACES], 1);
	add_u32(&p->streams[PLACES], 2);
	assert_true(buffer_append(&p->streams[PLACES], "f", 2));
}

/* ---- reading it ---- */

enum { KEPT = 4 };

struct seen {
	uint64_t ranges;
	struct {
		uint64_t start, length;
		char name[8];
	} first[KEPT];
	uint32_t line; /* the first one of an inlined call */
};

static enum err take_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	struct seen *s = arg;
	(void)e;
	if (s->ranges < KEPT) {
		s->first[s->ranges].start = r->va;
		s->first[s->ranges].length = r->length;
		snprintf(s->first[s->ranges].name, sizeof s->first->name, "%.*s", STR_FMT(r->func));
	}
	s->ranges++;
	if (r->depth == 1 && r->line_count > 0 && !s->line)
		s->line = r->lines[0].line;
	return ERR_OK;
}

static double processor_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct seen read_file(int fd)
{
	static struct extract_stats stats;
	char path[32];
	struct error e = {0};
	struct seen seen = {0};
	const struct extract_options options = {.debug_dir = "/dev/null", .threads = 1};
	const struct symbfile_sink sink = {.range = take_range, .arg = &seen};
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	double before = processor_time();
	if (extract_here(path, &options, &sink, &stats, &e))
		fail_msg("%s", e.text);
	double took = processor_time() - before;
	close(fd);
	if (took > SECONDS_MAX)
		fail_msg("it took %.1f s of processor time", took);
	return seen;
}

/* ---- attacks ---- */

static void test_scopes_of_procedures_that_never_end(void **state)
{
	enum { COUNT = 150000 };
	struct pdb_parts p;
	(void)state;
	parts_init(&p);
	for (uint32_t i = 0; i < COUNT; i++)
		add_procedure(&p, UINT32_MAX, 16 * i, 16, 0);
	add_module(&p, 0);
	assert_int_equal(read_file(make_pdb(&p)).ranges, COUNT);
}

static void test_modules_with_one_stream(void **state)
{
	enum { COUNT = 20000, MODULES = 5000 };
	struct pdb_parts p;
	(void)state;
	parts_init(&p);
	for (uint32_t i = 0; i < COUNT; i++)
		add_procedure(&p, 0, 16 * i, 16, 0);
	for (unsigned i = 0; i < MODULES; i++)
		add_module(&p, 0);
	assert_int_equal(read_file(make_pdb(&p)).ranges, COUNT);
}

static void test_parts_of_procedures_that_are_not_there(void **state)
{
	enum { COUNT = 150000 };
	struct pdb_parts p;
	(void)state;
	parts_init(&p);
	for (uint32_t i = 0; i < COUNT; i++) {
		add_u16(&p.streams[MODULE], 30);
		add_u16(&p.streams[MODULE], 0x1132);
		add_zeros(&p.streams[MODULE], 28);
	}
	add_u16(&p.streams[MODULE], 25); /* a thunk, so that there is code */
	add_u16(&p.streams[MODULE], 0x1102);
	add_zeros(&p.streams[MODULE], 16);
	add_u16(&p.streams[MODULE], 1);
	add_u16(&p.streams[MODULE], 16);
	assert_true(buffer_append(&p.streams[MODULE], "\0t", 3));
	add_module(&p, 0);
	assert_int_equal(read_file(make_pdb(&p)).ranges, 1);
}

/* Each call inside another one is cut where lines of that one change. */
static void test_calls_times_lines(void **state)
{
	enum { LINES = 30000, CALLS = 500 };
	static uint8_t lines[2 * LINES];
	const uint8_t whole[] = {12, 0xc0, 0, LINES >> 8, LINES & 0xff, 0};
	struct pdb_parts p;
	(void)state;
	for (size_t i = 0; i < LINES; i++)
		memcpy(lines + 2 * i, "\x0b\x21", 2);
	parts_init(&p);
	size_t scope = p.streams[MODULE].len + 8;
	add_procedure(&p, 0, 0, LINES, 0);
	add_site(&p, UINT32_MAX, 1, lines, sizeof lines);
	for (uint32_t i = 0; i < CALLS; i++)
		add_site(&p, 0, 2 + i, whole, sizeof whole);
	put_u32(p.streams[MODULE].data + scope, (uint32_t)p.streams[MODULE].len);
	add_u16(&p.streams[MODULE], 2);
	add_u16(&p.streams[MODULE], 6);
	add_module(&p, 0);
	assert_in_range(read_file(make_pdb(&p)).ranges, 1, 1 << 20);
}

/* Of procedures that all have all of the code. */
static void test_procedures_times_lines(void **state)
{
	enum { COUNT = 2000, LINES = 30000 };
	struct pdb_parts p;
	(void)state;
	parts_init(&p);
	for (unsigned i = 0; i < COUNT; i++)
		add_procedure(&p, 0, 0, CODE_SIZE, 0);
	struct buffer *b = &p.streams[MODULE];
	size_t symbols = b->len;
	add_u32(b, 0xf4); /* a file, whose name is at 0 */
	add_u32(b, 8);
	add_zeros(b, 8);
	add_u32(b, 0xf2);
	add_u32(b, 24 + 8 * LINES);
	add_u32(b, 0);
	add_u32(b, 1); /* the section */
	add_u32(b, CODE_SIZE);
	add_u32(b, 0);
	add_u32(b, LINES);
	add_u32(b, 12 + 8 * LINES);
	for (uint32_t i = 0; i < LINES; i++) {
		add_u32(b, 16 * i);
		add_u32(b, 1 + i);
	}
	add_module(&p, b->len - symbols);
	add_names(&p);
	assert_int_equal(read_file(make_pdb(&p)).ranges, 1);
}

/* Of a file whose code was moved after linking (OMAP). */
static void moved_init(struct pdb_parts *p)
{
	parts_init(p);
	p->moved = true;
	add_section(&p->streams[SOURCE_SECTIONS]);
}

static void add_move(struct pdb_parts *p, uint32_t from, uint32_t to)
{
	add_u32(&p->streams[MOVES], from);
	add_u32(&p->streams[MOVES], to);
}

/* Lines of code that is in pieces after it was moved. */
static void test_lines_times_moves(void **state)
{
	enum { BLOCKS = 500, COUNT = 20000 };
	struct pdb_parts p;
	(void)state;
	moved_init(&p);
	for (uint32_t i = 0; i < COUNT; i++)
		add_move(&p, CODE_START + i * 16, CODE_START + i * 16);
	add_procedure(&p, 0, 0, 16, 0);
	size_t symbols = p.streams[MODULE].len;
	for (unsigned i = 0; i < BLOCKS; i++) {
		add_u32(&p.streams[MODULE], 0xf2);
		add_u32(&p.streams[MODULE], 32);
		add_u32(&p.streams[MODULE], 0);
		add_u32(&p.streams[MODULE], 1); /* the section */
		add_u32(&p.streams[MODULE], CODE_SIZE);
		add_u32(&p.streams[MODULE], 0);
		add_u32(&p.streams[MODULE], 1);
		add_u32(&p.streams[MODULE], 20);
		add_u32(&p.streams[MODULE], 0);
		add_u32(&p.streams[MODULE], 7);
	}
	add_module(&p, p.streams[MODULE].len - symbols);
	read_file(make_pdb(&p));
}

/* Code that is gone, which many procedures are said to have. */
static void test_procedures_times_moves(void **state)
{
	enum { COUNT = 60000, COUNT_OF_MOVES = 60000 };
	struct pdb_parts p;
	(void)state;
	moved_init(&p);
	for (uint32_t i = 0; i < COUNT_OF_MOVES; i++)
		add_move(&p, CODE_START + 16 + i * 16, 0);
	add_move(&p, CODE_START, CODE_START);
	for (unsigned i = 0; i < COUNT; i++)
		add_procedure(&p, 0, 16, CODE_SIZE, 0);
	add_procedure(&p, 0, 0, 16, 0);
	add_module(&p, 0);
	assert_int_equal(read_file(make_pdb(&p)).ranges, 1);
}

/* Ends of code that is said to be of many modules, after it was moved. */
static void test_contributions_times_moves(void **state)
{
	enum { COUNT = 2000, COUNT_OF_MOVES = 20000 };
	struct pdb_parts p;
	(void)state;
	moved_init(&p);
	for (uint32_t i = 0; i < COUNT_OF_MOVES; i++)
		add_move(&p, CODE_START + i * 16, CODE_START + i * 16);
	add_u32(&p.contributions, 0xf12eba2d);
	for (uint32_t i = 0; i < COUNT; i++) {
		add_u32(&p.contributions, 1);
		add_u32(&p.contributions, 0);
		add_u32(&p.contributions, CODE_SIZE);
		add_zeros(&p.contributions, 16);
	}
	add_procedure(&p, 0, 0, 16, 0);
	add_module(&p, 0);
	assert_int_equal(read_file(make_pdb(&p)).ranges, 1);
}

/* A place tells that many types are before it, where none are. */
static void test_types_that_are_far_behind_their_place(void **state)
{
	enum { COUNT = 2000, BYTES = 16 << 20, GAP = 256 << 10 };
	struct pdb_parts p;
	struct buffer *t = &p.streams[TYPES];
	(void)state;
	parts_init(&p);
	add_u32(t, 20040203);
	add_u32(t, 56);
	add_u32(t, 0x1000);
	add_u32(t, 0x40000000);
	add_u32(t, BYTES);
	add_u32(t, PLACES);
	add_zeros(t, 20);
	add_u32(t, 8 * (BYTES / GAP));
	add_zeros(t, 8 + BYTES);
	put_u32(t->data + 40, 0);
	put_u32(t->data + 44, 8 * (BYTES / GAP));
	for (uint32_t i = 0; i < BYTES / GAP; i++) {
		add_u32(&p.streams[PLACES], i ? 0x20000000 + i : 0x1000);
		add_u32(&p.streams[PLACES], i * GAP);
	}
	for (uint32_t i = 0; i < COUNT; i++)
		add_procedure(&p, 0, 16 * i, 16, 0x1fffffff);
	add_module(&p, 0);
	assert_int_equal(read_file(make_pdb(&p)).ranges, COUNT);
}

/* ---- code that is elsewhere ---- */

static void assert_range(const struct seen *s, unsigned i, uint64_t offset, uint64_t length, const char *name)
{
	assert_int_equal(s->first[i].start, offset);
	assert_int_equal(s->first[i].length, length);
	assert_string_equal(s->first[i].name, name);
}

/* After linking the halves of a function were put elsewhere (OMAP), and what follows was dropped. */
static void test_a_function_that_was_moved(void **state)
{
	static const uint32_t moves[][2] = {
	        {CODE_START, 0}, {CODE_START + 0x100, 0x5000}, {CODE_START + 0x110, 0x3000}, {CODE_START + 0x120, 0}};
	struct pdb_parts p;
	(void)state;
	moved_init(&p);
	for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
		add_move(&p, moves[i][0], moves[i][1]);
	add_procedure(&p, 0, 0x100, 0x40, 0);
	add_module(&p, 0);
	struct seen s = read_file(make_pdb(&p));
	assert_int_equal(s.ranges, 2);
	assert_range(&s, 0, 0x3000, 0x10, "f");
	assert_range(&s, 1, 0x5000, 0x10, "f");
}

/* S_SEPCODE and S_THUNK32. */
static void test_a_cold_part_and_a_thunk(void **state)
{
	struct pdb_parts p;
	struct buffer *b = &p.streams[MODULE];
	(void)state;
	parts_init(&p);
	add_u16(b, 30);
	add_u16(b, 0x1132);
	add_zeros(b, 8);
	add_u32(b, 0x10);
	add_zeros(b, 4);
	add_u32(b, 0x800);
	add_u32(b, 0x100);
	add_u16(b, 1);
	add_u16(b, 1);
	add_u16(b, 2);
	add_u16(b, 6);
	add_procedure(&p, 0, 0x100, 0x20, 0);
	add_u16(b, 25);
	add_u16(b, 0x1102);
	add_zeros(b, 12);
	add_u32(b, 0x40);
	add_u16(b, 1);
	add_u16(b, 5);
	assert_true(buffer_append(b, "\0t", 3));
	add_module(&p, 0);
	struct seen s = read_file(make_pdb(&p));
	assert_int_equal(s.ranges, 3);
	assert_range(&s, 0, CODE_START + 0x800, 0x10, "f");
	assert_range(&s, 1, CODE_START + 0x100, 0x20, "f");
	assert_range(&s, 2, CODE_START + 0x40, 5, "t");
}

/* ---- what is said in two places ---- */

static void test_two_lists_of_inlined_functions(void **state)
{
	const uint8_t whole[] = {12, 16, 0};
	struct pdb_parts p;
	(void)state;
	parts_init(&p);
	size_t scope = p.streams[MODULE].len + 8;
	add_procedure(&p, 0, 0, 16, 0);
	add_site(&p, UINT32_MAX, 1, whole, sizeof whole);
	put_u32(p.streams[MODULE].data + scope, (uint32_t)p.streams[MODULE].len);
	add_u16(&p.streams[MODULE], 2);
	add_u16(&p.streams[MODULE], 6);
	size_t symbols = p.streams[MODULE].len;
	add_u32(&p.streams[MODULE], 0xf4); /* a file, whose name is at 0 */
	add_u32(&p.streams[MODULE], 8);
	add_zeros(&p.streams[MODULE], 8);
	for (uint32_t i = 1; i <= 2; i++) {
		add_u32(&p.streams[MODULE], 0xf6);
		add_u32(&p.streams[MODULE], 16);
		add_u32(&p.streams[MODULE], 0);
		add_u32(&p.streams[MODULE], i);
		add_u32(&p.streams[MODULE], 0);
		add_u32(&p.streams[MODULE], 100 * i);
	}
	add_module(&p, p.streams[MODULE].len - symbols);
	add_names(&p);
	assert_int_equal(read_file(make_pdb(&p)).line, 100);
}

/* ---- others ---- */

static void test_a_program_with_too_many_sections(void **state)
{
	enum { COUNT = 60000 };
	static struct extract_stats stats;
	static uint8_t file[0x200 + 40 * COUNT];
	char path[32];
	struct error e = {0};
	const struct extract_options options = {.debug_dir = "/dev/null", .threads = 1};
	struct seen seen = {0};
	const struct symbfile_sink sink = {.range = take_range, .arg = &seen};
	(void)state;
	memcpy(file, "MZ", 2);
	put_u32(file + 0x3c, 0x40);
	memcpy(file + 0x40, "PE\0", 4);
	put_u16(file + 0x44, 0x8664);
	put_u16(file + 0x46, COUNT);
	put_u16(file + 0x54, 240);
	put_u16(file + 0x58, 0x20b);
	int fd = memfd_create("pe", MFD_CLOEXEC);
	assert_true(fd >= 0 && write(fd, file, sizeof file) == sizeof file);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	assert_int_equal(extract_here(path, &options, &sink, &stats, &e), ERR_CORRUPT);
	assert_non_null(strstr(e.text, "PE: more than 512 sections"));
	close(fd);
}

/* Many exports with one name. */
static void test_a_name_of_many_exports(void **state)
{
	enum {
		COUNT = 20000,
		NAME = 4000,
		CODE = 0x200,
		TABLE = CODE + 16,
		NAMES = TABLE + 40,
		TEXT = NAMES + 4 * COUNT
	};
	enum { ORDINALS = TEXT + NAME + 1, END = ORDINALS + 2 * COUNT };
	static struct extract_stats stats;
	static uint8_t file[END];
	char path[32];
	struct error e = {0};
	const struct extract_options options = {.debug_dir = "/dev/null", .threads = 1};
	struct seen seen = {0};
	const struct symbfile_sink sink = {.range = take_range, .arg = &seen};
	(void)state;
	memcpy(file, "MZ", 2);
	put_u32(file + 0x3c, 0x40);
	memcpy(file + 0x40, "PE\0", 4);
	put_u16(file + 0x44, 0x8664);
	put_u16(file + 0x46, 1);
	put_u16(file + 0x54, 240);
	put_u16(file + 0x58, 0x20b);
	put_u32(file + 0x58 + 108, 16);
	put_u32(file + 0x58 + 112, TABLE);
	put_u32(file + 0x58 + 116, 40);
	uint8_t *section = file + 0x58 + 240;
	memcpy(section, ".text", 5);
	put_u32(section + 12, CODE);
	put_u32(section + 16, END - CODE);
	put_u32(section + 20, CODE);
	put_u32(section + 36, 0x20000000);
	put_u32(file + TABLE + 20, 1);
	put_u32(file + TABLE + 24, COUNT);
	put_u32(file + TABLE + 28, CODE);
	put_u32(file + TABLE + 32, NAMES);
	put_u32(file + TABLE + 36, ORDINALS);
	put_u32(file + CODE, CODE);
	for (size_t i = 0; i < COUNT; i++)
		put_u32(file + NAMES + 4 * i, TEXT);
	memset(file + TEXT, 'x', NAME);
	int fd = memfd_create("pe", MFD_CLOEXEC);
	assert_true(fd >= 0 && write(fd, file, sizeof file) == sizeof file);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	assert_int_equal(extract_here(path, &options, &sink, &stats, &e), ERR_CORRUPT);
	assert_non_null(strstr(e.text, "the names of symbols are larger than the file"));
	close(fd);
}

/* One large use does not make each later one slow. */
static void test_a_map_that_was_large_once(void **state)
{
	struct map64 m = {0};
	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		assert_true(map64_put(&m, i, 1));
	size_t cap = m.cap;
	map64_reset(&m);
	assert_int_equal(m.cap, cap);
	assert_true(map64_put(&m, 7, 1));
	map64_reset(&m);
	assert_true(m.cap < 1000);
	assert_int_equal(map64_get(&m, 7), 0);
	assert_true(map64_put(&m, 7, 2));
	assert_int_equal(map64_get(&m, 7), 2);
	map64_release(&m);
}

/* What each of many paths costs if a text about their sources has a very long part. */
static void expect_fast(const char *before, const char *after, bool link)
{
	enum { LEN = 32 << 20, PATHS = 2000 };
	static struct pdb_sources s;
	struct buffer text;
	struct error e;
	char path[32], out[SOURCE_NAME_MAX];
	const struct str none = {"", 0};
	buffer_init(&text, SIZE_MAX);
	buffer_append(&text, before, strlen(before));
	for (size_t i = 0; i < LEN / sizeof path; i++)
		buffer_append(&text, "uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu", sizeof path);
	buffer_append(&text, after, strlen(after));
	struct str all = {(const char *)text.data, text.len};
	assert_false(text.failed || pdb_sources_read(&s, link ? none : all, link ? all : none, &e));
	double start = processor_time();
	for (unsigned i = 0; i < PATHS; i++) {
		snprintf(path, sizeof path, link ? "C:\\%u.c" : "a.c", i);
		assert_false(pdb_sources_name(&s, str_from(path), out));
	}
	double took = processor_time() - start;
	pdb_sources_release(&s);
	buffer_release(&text);
	if (took > 1)
		fail_msg("it took %.1f s of processor time", took);
}

static void test_paths_times_long_texts_of_sources(void **state)
{
	static const char target[] = "SRCSRV: variables\nSRCSRVTRG=https://hg.x/raw-file/%var2%%v%\n",
	                  files[] = "SRCSRV: source files\na.c*";
	char text[256];
	(void)state;
	expect_fast("{\"documents\":{\"C:\\\\*\":\"https://", "/*\"}}", true);
	snprintf(text, sizeof text, "%s%s", target, files);
	expect_fast(text, "\n", false);
	snprintf(text, sizeof text, "%sv=", target);
	expect_fast(text, "\nSRCSRV: source files\na.c*\n", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_scopes_of_procedures_that_never_end),
	        cmocka_unit_test(test_modules_with_one_stream),
	        cmocka_unit_test(test_parts_of_procedures_that_are_not_there),
	        cmocka_unit_test(test_calls_times_lines),
	        cmocka_unit_test(test_procedures_times_lines),
	        cmocka_unit_test(test_lines_times_moves),
	        cmocka_unit_test(test_procedures_times_moves),
	        cmocka_unit_test(test_a_function_that_was_moved),
	        cmocka_unit_test(test_a_cold_part_and_a_thunk),
	        cmocka_unit_test(test_contributions_times_moves),
	        cmocka_unit_test(test_types_that_are_far_behind_their_place),
	        cmocka_unit_test(test_two_lists_of_inlined_functions),
	        cmocka_unit_test(test_a_program_with_too_many_sections),
	        cmocka_unit_test(test_a_name_of_many_exports),
	        cmocka_unit_test(test_a_map_that_was_large_once),
	        cmocka_unit_test(test_paths_times_long_texts_of_sources),
	};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	const struct rlimit most = {MEMORY_MAX, MEMORY_MAX};
	setrlimit(RLIMIT_DATA, &most);
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
