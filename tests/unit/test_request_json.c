/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/data/request holds bodies with what is read from them (valid/X.json, X.expect) or why they are refused
 * (invalid/X.json, X.error); names that begin with "v4-" are read as version 4. The rest is compared with jansson.
 */
#include <config.h>

#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "json/request.h"
#include "json/scan.h"
#include "request_oracle.h"
#include "seed.h"

enum { FILES_MAX = 1000, FILE_MAX = 1 << 20, ARENA_MAX = 1 << 30 };

static const struct request_limits limits = {1000, 1000000, 10000, 1000000};

/* Memory of exactly its size, so that the sanitizer sees a read behind the end. */
static struct str copy(struct str s)
{
	char *data = malloc(s.len ? s.len : 1);
	assert_non_null(data);
	if (s.len)
		memcpy(data, s.data, s.len);
	return (struct str){data, s.len};
}

static void drop(struct str s)
{
	free((char *)s.data);
}

/* A file of the source tree. */
static char *source_path(char *out, size_t size, const char *dir, const char *name, const char *suffix)
{
	const char *top = getenv("srcdir");
	snprintf(out, size, "%s/tests/%s/%s%s", top ? top : ".", dir, name, suffix);
	return out;
}

static struct str read_file(const char *dir, const char *name, const char *suffix)
{
	char path[512];
	FILE *f = fopen(source_path(path, sizeof path, dir, name, suffix), "rb");
	if (!f)
		fail_msg("%s cannot be opened", path);
	char *data = malloc(FILE_MAX);
	assert_non_null(data);
	size_t len = fread(data, 1, FILE_MAX, f);
	assert_true(len < FILE_MAX && !ferror(f));
	fclose(f);
	struct str all = {data, len}, exact = copy(all);
	drop(all);
	return exact;
}

/* Calls fn for each file of a folder whose name ends in suffix. At least `least` must be there. */
static void each_file(
        const char *dir, const char *suffix, unsigned least, void (*fn)(const char *dir, const char *name))
{
	char path[512], name[256];
	unsigned found = 0;
	DIR *d = opendir(source_path(path, sizeof path, dir, "", ""));
	if (!d)
		fail_msg("%s cannot be opened", path);
	for (const struct dirent *entry; found < FILES_MAX && (entry = readdir(d));) {
		size_t len = strlen(entry->d_name), end = strlen(suffix);
		if (entry->d_name[0] == '.' || len < end || strcmp(entry->d_name + len - end, suffix) != 0)
			continue;
		snprintf(name, sizeof name, "%.*s", (int)(len - end), entry->d_name);
		fn(dir, name);
		found++;
	}
	closedir(d);
	assert_true(found >= least);
}

static enum request_version version_of(const char *name)
{
	return strncmp(name, "v4-", 3) == 0 ? REQUEST_V4 : REQUEST_V5;
}

static void agree(struct str body, enum request_version version, const struct request_limits *l)
{
	const char *difference = oracle_compare(body, version, l);
	if (difference)
		fail_msg("%.*s: %s", STR_FMT(body), difference);
}

static void print_decoded(FILE *out, struct str s)
{
	fputs(" <", out);
	for (size_t i = 0; i < s.len; i++)
		fprintf(out, s.data[i] >= 0x20 && s.data[i] < 0x7f ? "%c" : "\\x%02x", (unsigned char)s.data[i]);
	fputc('>', out);
}

static void print_module(FILE *out, const struct request_module *m)
{
	fprintf(out, "  module \"%.*s\" \"%.*s\"", STR_FMT(m->name_raw), STR_FMT(m->id_raw));
	if (!str_equal(m->name, m->name_raw) || !str_equal(m->id, m->id_raw)) {
		fputs(" means", out);
		print_decoded(out, m->name);
		print_decoded(out, m->id);
	}
	fputc('\n', out);
}

static void print_stack(FILE *out, const struct request_job *job, const struct request_stack *stack)
{
	fputs("  stack", out);
	for (uint32_t i = 0; i < stack->count; i++) {
		const struct request_frame *f = &stack->frames[i];
		fprintf(out, " %" PRId32, f->module);
		if (f->kind == OFFSET_ADDRESS)
			fprintf(out, "+0x%" PRIx64, f->offset);
		else if (f->kind == OFFSET_NONE)
			fputs("+none", out);
		else
			fprintf(out, "+\"%.*s\"", STR_FMT(job->texts[f->offset]));
	}
	fputc('\n', out);
}

/* In the words of the .expect files; malloc'd. */
static char *print_request(const struct request *r)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	assert_non_null(out);
	fprintf(out, "%" PRIu32 " jobs, %" PRIu64 " frames, %" PRIu64 " modules\n", r->job_count, r->frame_count,
	        r->module_count);
	for (uint32_t i = 0; i < r->job_count; i++) {
		const struct request_job *job = &r->jobs[i];
		fputs("job\n", out);
		for (uint32_t k = 0; k < job->module_count; k++)
			print_module(out, &job->modules[k]);
		for (uint32_t k = 0; k < job->stack_count; k++)
			print_stack(out, job, &job->stacks[k]);
	}
	fclose(out);
	return text;
}

static void check_valid(const char *dir, const char *name)
{
	struct str body = read_file(dir, name, ".json"), expected = read_file(dir, name, ".expect");
	struct arena arena;
	struct request r;
	struct error e;
	arena_init(&arena, ARENA_MAX);
	if (request_read(&r, body, version_of(name), &limits, NULL, &arena, &e))
		fail_msg("%s: %s", name, e.text);
	char *text = print_request(&r);
	if (!str_equal(str_from(text), expected))
		fail_msg("%s: read as\n%s", name, text);
	agree(body, version_of(name), &limits);
	free(text);
	arena_release(&arena);
	drop(body);
	drop(expected);
}

static void check_invalid(const char *dir, const char *name)
{
	struct str body = read_file(dir, name, ".json"), expected = read_file(dir, name, ".error");
	struct arena arena;
	struct request r;
	struct error e;
	arena_init(&arena, ARENA_MAX);
	assert_true(expected.len > 0 && expected.data[expected.len - 1] == '\n');
	expected.len--;
	enum err err = request_read(&r, body, version_of(name), &limits, NULL, &arena, &e);
	if (err != ERR_BAD_REQUEST || e.code != err || !str_equal(str_from(e.text), expected))
		fail_msg("%s: %s", name, err ? e.text : "accepted");
	assert_true(r.job_count == 0 && r.jobs == NULL);
	agree(body, version_of(name), &limits);
	arena_release(&arena);
	drop(body);
	drop(expected);
}

static void test_valid_files(void **state)
{
	(void)state;
	each_file("data/request/valid", ".json", 20, check_valid);
}

static void test_invalid_files(void **state)
{
	(void)state;
	each_file("data/request/invalid", ".json", 80, check_invalid);
}

static void check_corpus(const char *dir, const char *name)
{
	struct str body = read_file(dir, name, "");
	agree(body, REQUEST_V5, &limits);
	agree(body, REQUEST_V4, &limits);
	drop(body);
}

static void test_fuzz_corpus(void **state)
{
	(void)state;
	each_file("fuzz/corpus/request_json", "", 10, check_corpus);
}

static const char *const samples[] = {
        "{\"jobs\":[{\"memoryMap\":[[\"a\",\"1\"],[\"b\\u00e9\",\"\"]],\"stacks\":[[[0,12],[-1,-1]],[[1,1.5e3],[1,"
        "\"x\\n\"]]]}]}",
        "{\"stacks\":[[[0,18446744073709551615]]], "
        "\"version\":4,\"memoryMap\":[[\"\xc3\xa9\xf0\x9f\x98\x80\",\"0\"]],\"x\":{\"y\":[null,true,{}]}}",
        "{\"memoryMap\":[],\"stacks\":[[[-0,0]]],\"stacks\":[[]],\"\\ud83d\\ude00\":\"\\\\\",\"z\":[[],-0.5E-2]}",
};

enum { SAMPLES = sizeof samples / sizeof samples[0] };

static void test_every_truncation(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SAMPLES; i++)
		for (size_t len = 0; len <= strlen(samples[i]); len++) {
			struct str body = copy((struct str){samples[i], len});
			agree(body, REQUEST_V5, &limits);
			agree(body, REQUEST_V4, &limits);
			drop(body);
		}
}

static void test_every_changed_byte(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SAMPLES; i++) {
		struct str body = copy(str_from(samples[i]));
		for (size_t at = 0; at < body.len; at++)
			/* Where it takes long, other values at each place. */
			for (unsigned c = at % slowness(); c < 256; c += slowness()) {
				((char *)body.data)[at] = (char)c;
				agree(body, i == 1 ? REQUEST_V4 : REQUEST_V5, &limits);
				((char *)body.data)[at] = samples[i][at];
			}
		drop(body);
	}
}

static void test_every_byte_left_out_or_doubled(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SAMPLES; i++) {
		size_t len = strlen(samples[i]);
		for (size_t at = 0; at < len; at++) {
			struct str less = copy((struct str){samples[i], len - 1});
			memcpy((char *)less.data + at, samples[i] + at + 1, len - at - 1);
			agree(less, REQUEST_V5, &limits);
			drop(less);
			struct str more = {malloc(len + 1), len + 1};
			assert_non_null(more.data);
			memcpy((char *)more.data, samples[i], at + 1);
			memcpy((char *)more.data + at + 1, samples[i] + at, len - at);
			agree(more, REQUEST_V5, &limits);
			drop(more);
		}
	}
}

/* Random bodies: mostly requests, with anything at any place now and then. */
struct generator {
	uint64_t state;
	FILE *out;
	unsigned strange; /* one in so many choices is something else */
};

static unsigned pick(struct generator *g, unsigned n)
{
	g->state ^= g->state << 13;
	g->state ^= g->state >> 7;
	g->state ^= g->state << 17;
	return (unsigned)((g->state >> 11) % n);
}

static const char *one_of(struct generator *g, const char *const *list, unsigned n)
{
	return list[pick(g, n)];
}

#define ONE_OF(g, list) one_of(g, list, sizeof(list) / sizeof((list)[0]))

static void put(struct generator *g, const char *text)
{
	static const char *const spaces[] = {" ", "\n", "\t", "\r", "  "};
	if (pick(g, 8) == 0)
		fputs(ONE_OF(g, spaces), g->out);
	fputs(text, g->out);
}

static void put_string(struct generator *g)
{
	static const char *const parts[] = {"a", "B", "/", "\\/", "\\\"", "\\\\", "\\u00e9", "\\uD83D\\uDE00",
	        "\xc3\xa9", "\xf0\x9f\x98\x80", "\\n", "\x7f", "\\u0000", "\\ud800", "xul.pdb"};
	put(g, "\"");
	for (unsigned n = pick(g, 4); n > 0; n--)
		fputs(ONE_OF(g, parts), g->out);
	fputs("\"", g->out);
}

static void put_number(struct generator *g)
{
	static const char *const numbers[] = {"0", "-0", "1", "-1", "-2", "7", "2147483647", "2147483648",
	        "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "1.0",
	        "1e0", "-1.5E+10", "1e400", "0.00", "-9223372036854775808", "123456789", "4"};
	put(g, ONE_OF(g, numbers));
}

static void put_any(struct generator *g, unsigned depth)
{
	static const char *const odd[] = {"null", "true", "false", "[]", "{}", "\"", "01", "nul", "[1,]", "{\"a\"}",
	        "-", "\\", "[[[[]]]]", "{\"stacks\":1}"};
	switch (pick(g, depth < 4 ? 6 : 3)) {
	case 0:
		put_string(g);
		break;
	case 1:
		put_number(g);
		break;
	case 2:
		put(g, ONE_OF(g, odd));
		break;
	case 3:
		put(g, "{");
		put_string(g);
		put(g, ":");
		put_any(g, depth + 1);
		put(g, "}");
		break;
	default:
		put(g, "[");
		for (unsigned n = pick(g, 4); n > 0; n--) {
			put_any(g, depth + 1);
			put(g, n > 1 ? "," : "");
		}
		put(g, "]");
	}
}

static bool strange(struct generator *g)
{
	if (pick(g, g->strange))
		return false;
	put_any(g, 0);
	return true;
}

/* A list of up to most - 1 items; what one item is, fn says. */
static void put_list(struct generator *g, unsigned most, void (*fn)(struct generator *g))
{
	if (strange(g))
		return;
	put(g, "[");
	for (unsigned n = pick(g, most), i = 0; i < n; i++) {
		put(g, i ? "," : "");
		if (!strange(g))
			fn(g);
	}
	put(g, "]");
}

static void put_frame(struct generator *g)
{
	static const char *const indexes[] = {"0", "0", "0", "1", "-1", "-0", "2", "-99999999999999999999"};
	put(g, "[");
	if (!strange(g))
		put(g, ONE_OF(g, indexes));
	put(g, ",");
	if (pick(g, 4) == 0)
		put_string(g);
	else if (!strange(g))
		put_number(g);
	put(g, "]");
}

static void put_stack(struct generator *g)
{
	put_list(g, 5, put_frame);
}

static void put_module(struct generator *g)
{
	put(g, "[");
	put_string(g);
	put(g, ",");
	if (!strange(g))
		put_string(g);
	put(g, "]");
}

static void put_job(struct generator *g);

static void put_member(struct generator *g, unsigned what)
{
	static const char *const keys[] = {
	        "\"memoryMap\":", "\"stacks\":", "\"jobs\":", "\"version\":", "\"st\\u0061cks\":"};
	if (what < 5)
		put(g, keys[what]);
	if (what == 0)
		put_list(g, 4, put_module);
	else if (what == 1 || what == 4)
		put_list(g, 4, put_stack);
	else if (what == 2)
		put_list(g, 3, put_job);
	else if (what == 3)
		put_number(g);
	if (what < 5)
		return;
	put_string(g);
	put(g, ":");
	put_any(g, 0);
}

static void put_job(struct generator *g)
{
	bool swapped = pick(g, 2);
	put(g, "{");
	if (pick(g, 6) == 0) {
		put_member(g, pick(g, 6) == 2 ? 5 : pick(g, 2));
		put(g, ",");
	}
	put_member(g, swapped);
	put(g, ",");
	put_member(g, !swapped);
	if (pick(g, 6) == 0) {
		put(g, ",");
		put_member(g, pick(g, 8) ? 3 + pick(g, 3) : 0);
	}
	put(g, "}");
}

static void put_body(struct generator *g)
{
	g->strange = 2 + pick(g, 100);
	if (pick(g, 2)) {
		put_job(g);
		return;
	}
	put(g, "{");
	put_member(g, pick(g, 8) ? 2 : pick(g, 6));
	if (pick(g, 8) == 0) {
		put(g, ",");
		put_member(g, pick(g, 6));
	}
	put(g, "}");
}

static void test_random_bodies(void **state)
{
	const struct request_limits tight = {2, 4, 3, 3};
	struct generator g = {.state = seed_of(20260917)};
	(void)state;
	for (unsigned i = 0; i < rounds(30000); i++) {
		char *data = NULL;
		size_t len;
		g.out = open_memstream(&data, &len);
		assert_non_null(g.out);
		put_body(&g);
		fclose(g.out);
		struct str body = copy((struct str){data, len});
		free(data);
		agree(body, pick(&g, 4) ? REQUEST_V5 : REQUEST_V4, pick(&g, 3) ? &limits : &tight);
		drop(body);
	}
}

/* head, n times item with commas between, tail */
static struct str repeat(const char *head, const char *item, size_t n, const char *tail)
{
	size_t step = strlen(item) + 1, len = strlen(head);
	char *data = malloc(len + n * step + strlen(tail) + 1);
	assert_non_null(data);
	memcpy(data, head, len + 1);
	for (size_t i = 0; i < n; i++) {
		memcpy(data + len, item, step - 1);
		data[len + step - 1] = ',';
		len += step;
	}
	len -= n > 0;
	memcpy(data + len, tail, strlen(tail) + 1);
	return (struct str){data, len + strlen(tail)};
}

static void expect_limit(const char *head, const char *item, const char *tail, size_t most, const char *what)
{
	const struct request_limits l = {5, 5, 5, 5};
	for (size_t n = 0; n <= most + 2; n++) {
		struct str body = repeat(head, item, n, tail);
		struct arena arena;
		struct request r;
		struct error e;
		char text[128];
		arena_init(&arena, ARENA_MAX);
		enum err err = request_read(&r, body, REQUEST_V5, &l, NULL, &arena, &e);
		assert_int_equal(err, n <= most ? ERR_OK : ERR_BAD_REQUEST);
		snprintf(text, sizeof text, "too many %s: at most 5 a request", what);
		if (n > most)
			assert_string_equal(e.text, text);
		agree(body, REQUEST_V5, &l);
		arena_release(&arena);
		drop(body);
	}
}

static void test_limits(void **state)
{
	(void)state;
	expect_limit("{\"jobs\":[", "{\"memoryMap\":[],\"stacks\":[]}", "]}", 5, "jobs");
	expect_limit("{\"memoryMap\":[],\"stacks\":[[", "[-1,1]", "]]}", 5, "frames");
	expect_limit("{\"memoryMap\":[],\"stacks\":[", "[[-1,1],[-1,1]],[]", "]}", 2, "frames");
	expect_limit("{\"stacks\":[],\"memoryMap\":[", "[\"a\",\"b\"]", "]}", 5, "modules");
	expect_limit("{\"memoryMap\":[],\"stacks\":[", "[]", "]}", 5, "stacks");
	/* over all jobs */
	expect_limit("{\"jobs\":[", "{\"memoryMap\":[[\"a\",\"b\"],[\"a\",\"b\"]],\"stacks\":[]}", "]}", 2, "modules");
	expect_limit("{\"jobs\":[", "{\"memoryMap\":[],\"stacks\":[[[-1,1],[-1,2]]]}", "]}", 2, "frames");
	expect_limit("{\"jobs\":[", "{\"memoryMap\":[],\"stacks\":[[],[]]}", "]}", 2, "stacks");
}

/* What a later key replaces, or `jobs` sets aside, does not count. */
static void test_limits_count_what_is_used(void **state)
{
	static const char *const bodies[] = {
	        "{\"memoryMap\":[],\"stacks\":[[],[],[]],\"stacks\":[[],[]]}",
	        "{\"memoryMap\":[],\"stacks\":[[[-1,1],[-1,2],[-1,3]]],\"stacks\":[[[-1,4],[-1,5]]]}",
	        "{\"stacks\":[],\"memoryMap\":[[\"a\",\"\"],[\"\",\"\"],[\"\",\"\"]],\"memoryMap\":[[\"d\",\"\"]]}",
	        "{\"stacks\":[[[-1,1],[-1,2],[-1,3]]],\"jobs\":[{\"memoryMap\":[],\"stacks\":[[[-1,4],[-1,5]]]}]}",
	        "{\"jobs\":[{},{},{}],\"jobs\":[{\"memoryMap\":[],\"stacks\":[]},{\"memoryMap\":[],\"stacks\":[]}]}",
	};
	const struct request_limits l = {2, 2, 2, 2};
	(void)state;
	for (unsigned i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
		struct arena arena;
		struct request r;
		struct error e;
		arena_init(&arena, ARENA_MAX);
		if (request_read(&r, str_from(bodies[i]), REQUEST_V5, &l, NULL, &arena, &e))
			fail_msg("%s: %s", bodies[i], e.text);
		agree(str_from(bodies[i]), REQUEST_V5, &l);
		arena_release(&arena);
	}
}

static enum err read_nested(const char *open, const char *inner, const char *close, size_t depth, struct error *e)
{
	static const char head[] = "{\"memoryMap\":[],\"x\":", tail[] = ",\"stacks\":[]}";
	size_t len = 0;
	char *data = malloc(sizeof head + sizeof tail + strlen(inner) + depth * (strlen(open) + strlen(close)));
	struct arena arena;
	struct request r;
	assert_non_null(data);
	len += (size_t)sprintf(data + len, "%s", head);
	for (size_t i = 0; i < depth; i++)
		len += (size_t)sprintf(data + len, "%s", open);
	len += (size_t)sprintf(data + len, "%s", inner);
	for (size_t i = 0; i < depth; i++)
		len += (size_t)sprintf(data + len, "%s", close);
	len += (size_t)sprintf(data + len, "%s", tail);
	arena_init(&arena, ARENA_MAX);
	enum err err = request_read(&r, (struct str){data, len}, REQUEST_V5, &limits, NULL, &arena, e);
	arena_release(&arena);
	free(data);
	return err;
}

static void test_nesting(void **state)
{
	struct error e;
	(void)state;
	assert_int_equal(read_nested("[", "", "]", SCAN_DEPTH_MAX, &e), ERR_OK);
	assert_int_equal(read_nested("[", "1", "]", SCAN_DEPTH_MAX, &e), ERR_OK);
	assert_int_equal(read_nested("{\"a\":", "\"\"", "}", SCAN_DEPTH_MAX, &e), ERR_OK);
	assert_int_equal(read_nested("[1,[],{\"\":", "null", "},[]]", SCAN_DEPTH_MAX / 2, &e), ERR_OK);
	assert_int_equal(read_nested("[", "", "]", SCAN_DEPTH_MAX + 1, &e), ERR_BAD_REQUEST);
	assert_string_equal(e.text, "byte 2068: nested too deeply");
	assert_int_equal(read_nested("{\"a\":", "\"\"", "}", SCAN_DEPTH_MAX + 1, &e), ERR_BAD_REQUEST);
	assert_int_equal(read_nested("[", "", "", rounds(1000000), &e), ERR_BAD_REQUEST);
	assert_string_equal(e.text, "byte 2068: nested too deeply");
}

static void test_no_bytes(void **state)
{
	struct arena arena;
	struct request r;
	struct error e;
	(void)state;
	arena_init(&arena, ARENA_MAX);
	assert_int_equal(
	        request_read(&r, (struct str){NULL, 0}, REQUEST_V5, &limits, NULL, &arena, &e), ERR_BAD_REQUEST);
	assert_string_equal(e.text, "byte 0: expected a value");
	assert_int_equal(
	        request_read(&r, (struct str){NULL, 0}, REQUEST_V4, &limits, NULL, &arena, NULL), ERR_BAD_REQUEST);
	arena_release(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_valid_files),
	        cmocka_unit_test(test_invalid_files),
	        cmocka_unit_test(test_fuzz_corpus),
	        cmocka_unit_test(test_every_truncation),
	        cmocka_unit_test(test_every_changed_byte),
	        cmocka_unit_test(test_every_byte_left_out_or_doubled),
	        cmocka_unit_test(test_random_bodies),
	        cmocka_unit_test(test_limits),
	        cmocka_unit_test(test_limits_count_what_is_used),
	        cmocka_unit_test(test_nesting),
	        cmocka_unit_test(test_no_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
