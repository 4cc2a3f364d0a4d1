/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symlookup: answers offsets from a symbol file through the offset map, in the form of plain_reader.py.
 *
 *   symlookup FILE [--id ID] [--nearest] [--chunk N] [--codec none|lz4|zstd] [--values] [--threaded] [--asked N]
 *       [--indexed SEED] [--block N] [--page-text N] [--offsets-from FILE] OFFSET...
 *   symlookup --batch
 *
 * --chunk N feeds the file in chunks of N bytes; --codec keeps all pages compressed while the map is built; --values
 * sends the root and every page through the form in which memcached holds them; --threaded builds on two threads;
 * --asked N makes maps for N offsets each, the first of them for the first, another from the middle and so on, and
 * answers each offset from its own. --indexed SEED makes the pages from an index, in an order that SEED chooses (0: in
 * theirs; with --threaded by four threads) and from a text that lies in blocks of N bytes, N bytes of it for a page.
 * --compare prints but what differs between that map and the builder's, or {"same": true}.
 * --batch reads such command lines from standard input, whose words have no blanks within, and prints an empty line
 * after the answers of each.
 */
#include <config.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "format/breakpad.h"
#include "format/offmap_read.h"
#include "format/offmap_value.h"
#include "indexed_map.h"

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "symlookup: %s\n", what);
	exit(2);
}

static uint8_t *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END) != 0)
		die(path);
	*len = (size_t)ftell(f);
	rewind(f);
	uint8_t *data = malloc(*len + 1);
	if (!data || fread(data, 1, *len, f) != *len)
		die(path);
	fclose(f);
	return data;
}

/* The page as another host would get it. */
static struct page *through_value(struct page *p, uint32_t number, uint64_t generation)
{
	struct buffer value;
	struct page *copy;
	struct value_id id = {{{1, 2, 3}}, generation, number, p->kind};
	buffer_init(&value, SIZE_MAX);
	if (value_encode(&value, &id, p, CODEC_LZ4, NULL) || value_decode(value.data, value.len, &id, NULL, &copy))
		die("a page does not survive its value");
	buffer_release(&value);
	page_unref(p);
	return copy;
}

static struct offmap *map_through_values(struct offmap *m)
{
	struct offmap *copy;
	struct page *root = offmap_root_encode(m);
	if (!root)
		die("no root");
	root = through_value(root, 0, 0);
	if (offmap_root_decode(root->bytes, root->len, &copy))
		die("the root does not survive its value");
	page_unref(root);
	for (uint32_t i = 0; i < m->code_count; i++) {
		copy->code[i] = through_value(m->code[i], i, m->generation);
		m->code[i] = NULL;
	}
	for (uint32_t i = 0; i < m->string_count; i++) {
		copy->strings[i] = through_value(m->strings[i], i, m->generation);
		m->strings[i] = NULL;
	}
	offmap_free(m);
	return copy;
}

static void expand_pages(struct page **pages, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct page *raw = page_expand(pages[i]);
		if (!raw)
			die("a page does not expand");
		page_unref(pages[i]);
		pages[i] = raw;
	}
}

static void print_string(FILE *out, const struct offmap *m, struct offmap_string s)
{
	if (s.external) {
		int64_t page = offmap_string_page(m, s.external);
		if (page < 0 || offmap_string_lookup(m->strings[page], s.external, &s))
			die("a string is missing");
	}
	fprintf(out, "\"%.*s\"", (int)s.len, (const char *)s.data);
}

static void print_place(FILE *out, const struct offmap *m, const struct offmap_call *c)
{
	if (!c->file.external && !c->file.len)
		return;
	fprintf(out, ", \"file\": ");
	print_string(out, m, c->file);
	if (c->line)
		fprintf(out, ", \"line\": %" PRIu32, c->line);
}

static void print_answer(FILE *out, const struct offmap *m, uint64_t offset)
{
	struct arena arena;
	struct offmap_answer a = {0};
	int64_t page = offmap_code_page(m, offset);
	arena_init(&arena, SIZE_MAX);
	if (page >= 0 && offmap_lookup(m->code[page], offset, &arena, &a))
		die("a page is corrupt");
	fprintf(out, "{\"offset\": \"0x%" PRIx64 "\"", offset);
	if (a.found) {
		fprintf(out, ", \"function\": ");
		print_string(out, m, a.frame.function);
		fprintf(out, ", \"function_offset\": \"0x%" PRIx64 "\"", a.function_offset);
		if (a.has_size)
			fprintf(out, ", \"function_size\": \"0x%" PRIx64 "\"", a.function_size);
		print_place(out, m, &a.frame);
		for (uint32_t i = 0; i < a.inline_count; i++) {
			fprintf(out, "%s{\"function\": ", i ? ", " : ", \"inlines\": [");
			print_string(out, m, a.inlines[i].function);
			print_place(out, m, &a.inlines[i]);
			fprintf(out, "}%s", i + 1 == a.inline_count ? "]" : "");
		}
	}
	fprintf(out, "}\n");
	arena_release(&arena);
}

/* What is to be done with the file. */
struct job {
	struct offmap_options options;
	const char *id;
	uint8_t *data;
	size_t len, chunk;
	bool values;
	uint64_t *offsets;
	size_t count, cap;
	size_t asked; /* offsets a map; 0: one map for all */
	bool indexed, compare;
	uint64_t shuffle;
	size_t block;
	uint32_t page_text;
};

static int offset_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Asks for the offsets first, first + step and so on. */
static void ask(struct breakpad *p, const struct job *j, size_t first, size_t step)
{
	uint64_t *asked = malloc((j->count / step + 1) * sizeof *asked);
	size_t n = 0;
	if (!asked)
		die("no memory");
	for (size_t i = first; i < j->count; i += step)
		asked[n++] = j->offsets[i];
	qsort(asked, n, sizeof *asked, offset_order);
	if (!breakpad_ask(p, asked, n))
		die("no memory");
	free(asked);
}

static struct offmap *build_indexed(const struct job *j, struct error *e)
{
	struct indexed_how how = {.nearest = j->options.nearest,
	        .chunk = j->chunk,
	        .block = j->block,
	        .page_text = j->page_text,
	        .shuffle = j->shuffle,
	        .threads = j->options.threaded ? 4 : j->shuffle != 0};
	struct offmap *m = indexed_map((struct str){(char *)j->data, j->len}, str_from(j->id), &how, e);
	return m && j->values ? map_through_values(m) : m;
}

static struct offmap *build(const struct job *j, size_t first, size_t step, struct error *e)
{
	struct offmap *m = NULL;
	if (j->indexed)
		return build_indexed(j, e);
	struct breakpad *p = breakpad_new(&j->options, str_from(j->id));
	if (!p)
		die("no memory");
	if (j->asked)
		ask(p, j, first, step);
	enum err err = ERR_OK;
	for (size_t at = 0; at < j->len && !err; at += j->chunk)
		err = breakpad_feed(p, j->data + at, j->len - at < j->chunk ? j->len - at : j->chunk, e);
	if (!err)
		err = breakpad_finish(p, &m, e);
	breakpad_free(p);
	if (!m)
		return NULL;
	if (j->values)
		m = map_through_values(m);
	expand_pages(m->code, m->code_count);
	expand_pages(m->strings, m->string_count);
	return m;
}

static void print_head(const struct offmap *m, const struct error *e)
{
	if (!m) {
		printf("{\"corrupt\": true, \"why\": \"%s\"}\n", e->text);
		return;
	}
	printf("{\"corrupt\": false, \"damaged\": %" PRIu64 ", \"code_file\": ", m->damaged);
	if (m->code_file_len)
		printf("\"%.*s\"}\n", (int)m->code_file_len, m->code_file);
	else
		printf("null}\n");
}

static void answer_all(const struct job *j)
{
	size_t maps = j->asked ? (j->count + j->asked - 1) / j->asked : 1;
	struct error e;
	if (!maps)
		maps = 1;
	struct offmap **map = calloc(maps, sizeof *map);
	if (!map)
		die("no memory");
	for (size_t i = 0; i < maps; i++) {
		map[i] = build(j, i, maps, &e);
		if (!i)
			print_head(map[0], &e);
		if (!map[i] != !map[0])
			die("some maps only are corrupt");
	}
	for (size_t i = 0; i < j->count && map[0]; i++)
		print_answer(stdout, map[i % maps], j->offsets[i]);
	for (size_t i = 0; i < maps; i++)
		offmap_free(map[i]);
	free(map);
}

static char *answers_of(const struct offmap *m, const uint64_t *offsets, size_t count)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	if (!out)
		die("no memory");
	for (size_t i = 0; i < count; i++)
		print_answer(out, m, offsets[i]);
	if (m)
		fprintf(out,
		        "{\"damaged\": %" PRIu64 ", \"lines\": %" PRIu64 ", \"inlines\": %" PRIu64
		        ", \"funcs\": %" PRIu64 ", \"publics\": %" PRIu64 ", \"generation\": \"%" PRIx64
		        "\", \"code_file\": \"%.*s\"}\n",
		        m->damaged, m->lines, m->inlines, m->funcs, m->publics, m->generation, (int)m->code_file_len,
		        m->code_file ? m->code_file : "");
	fclose(out);
	return text;
}

/* Prints what the two say of the first offset where they differ; false: nothing. */
static bool print_difference(const struct offmap *want, const struct offmap *got, const uint64_t *offsets, size_t count)
{
	char *a = answers_of(want, offsets, count), *b = answers_of(got, offsets, count);
	bool differ = strcmp(a, b) != 0;
	free(a);
	free(b);
	if (differ && count == 0)
		puts("{\"same\": false}");
	for (size_t i = 0, found = 0; i < count && differ && !found; i++) {
		a = answers_of(want, offsets + i, 1);
		b = answers_of(got, offsets + i, 1);
		found = strcmp(a, b) != 0;
		if (found)
			printf("%s%s", a, b);
		free(a);
		free(b);
	}
	return differ;
}

static void compare(struct job *j)
{
	struct error e;
	j->indexed = false;
	struct offmap *want = build(j, 0, 1, &e);
	j->indexed = true;
	struct offmap *got = build(j, 0, 1, &e);
	if (!want != !got)
		puts("{\"same\": false, \"why\": \"one is corrupt\"}");
	else if (!want || !print_difference(want, got, j->offsets, j->count))
		puts("{\"same\": true}");
	offmap_free(want);
	offmap_free(got);
}

static void add_offset(struct job *j, const char *text)
{
	if (j->count == j->cap) {
		j->cap = j->cap ? 2 * j->cap : 64;
		j->offsets = realloc(j->offsets, j->cap * sizeof *j->offsets);
		if (!j->offsets)
			die("no memory");
	}
	j->offsets[j->count++] = strtoull(text, NULL, 0);
}

static void add_offsets_from(struct job *j, const char *path)
{
	char line[64];
	FILE *f = fopen(path, "r");
	if (!f)
		die(path);
	while (fgets(line, sizeof line, f))
		if (line[0] != '\n')
			add_offset(j, line);
	fclose(f);
}

static int run(int argc, char **argv)
{
	static const struct option options[] = {{"id", 1, NULL, 'i'}, {"nearest", 0, NULL, 'n'},
	        {"chunk", 1, NULL, 'c'}, {"codec", 1, NULL, 'z'}, {"values", 0, NULL, 'v'}, {"asked", 1, NULL, 'a'},
	        {"threaded", 0, NULL, 't'}, {"compare", 0, NULL, 'C'}, {"indexed", 1, NULL, 'x'},
	        {"block", 1, NULL, 'b'}, {"page-text", 1, NULL, 'p'}, {"offsets-from", 1, NULL, 'o'},
	        {NULL, 0, NULL, 0}};
	struct job j = {.options = {.raw_budget = UINT64_MAX, .codec = CODEC_LZ4}, .id = "", .chunk = 1 << 18};
	const char *offsets = NULL;
	int c;
	optind = 0; /* from the start: there may have been another command line */
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'i':
			j.id = optarg;
			break;
		case 'n':
			j.options.nearest = true;
			break;
		case 'c':
			j.chunk = strtoul(optarg, NULL, 10);
			break;
		case 'z':
			j.options.raw_budget = 0;
			j.options.codec = strcmp(optarg, "zstd") == 0  ? CODEC_ZSTD
			                  : strcmp(optarg, "lz4") == 0 ? CODEC_LZ4
			                                               : CODEC_RAW;
			break;
		case 'v':
			j.values = true;
			break;
		case 't':
			j.options.threaded = true;
			break;
		case 'a':
			j.asked = strtoul(optarg, NULL, 10);
			break;
		case 'C':
			j.compare = true;
			break;
		case 'x':
			j.indexed = true;
			j.shuffle = strtoull(optarg, NULL, 10);
			break;
		case 'p':
			j.page_text = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'b':
			j.block = strtoul(optarg, NULL, 10);
			break;
		case 'o':
			offsets = optarg;
			break;
		default:
			return 2;
		}
	}
	if (optind == argc || !j.chunk)
		die("usage: symlookup FILE [options] OFFSET...");
	j.data = read_file(argv[optind++], &j.len);
	for (; optind < argc; optind++)
		add_offset(&j, argv[optind]);
	if (offsets)
		add_offsets_from(&j, offsets);
	if (j.compare)
		compare(&j);
	else
		answer_all(&j);
	free(j.offsets);
	free(j.data);
	return 0;
}

static int batch(void)
{
	enum { MOST = 64 };
	char name[] = "symlookup", *line = NULL;
	size_t cap = 0;
	int code = 0;
	while (!code && getline(&line, &cap, stdin) > 0) {
		char *argv[MOST + 1] = {name};
		int argc = 1;
		for (char *word = strtok(line, " \n"); word && argc < MOST; word = strtok(NULL, " \n"))
			argv[argc++] = word;
		code = run(argc, argv);
		putchar('\n');
		fflush(stdout);
	}
	free(line);
	return code;
}

int main(int argc, char **argv)
{
	return argc == 2 && strcmp(argv[1], "--batch") == 0 ? batch() : run(argc, argv);
}
