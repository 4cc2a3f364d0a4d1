/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symlookup: answers offsets from a symbol file through the offset map, in the form of plain_reader.py.
 *
 *   symlookup FILE [--id ID] [--nearest] [--chunk N] [--values lz4|zstd|none] [--shuffle SEED] [--threads N]
 *       [--page-text N] [--hash] [--offsets-from FILE] OFFSET...
 *   symlookup --batch
 *
 * --chunk N feeds the file in chunks of N bytes; --values sends the root and every page through the form in which
 * memcached holds them, compressed so; the pages are made in an order that --shuffle chooses, by N threads, from N bytes
 * of text for a page.
 * --hash prints the hash of all pages, with their places in the map and the counts of records.
 * --batch reads such command lines from standard input, whose words have no blanks within, and prints an empty line
 * after the answers of each.
 */
#include <config.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "indexed_map.h"
#include "map/read.h"
#include "map/value.h"

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
static struct page *through_value(struct page *p, uint32_t number, uint64_t generation, enum page_codec codec)
{
	struct buffer value;
	struct page *copy;
	struct value_id id = {{{1, 2, 3}}, generation, number, p->kind};
	buffer_init(&value, SIZE_MAX);
	if (value_encode(&value, &id, p, codec, NULL) || value_decode(value.data, value.len, &id, NULL, &copy))
		die("a page does not survive its value");
	buffer_release(&value);
	page_unref(p);
	return copy;
}

static struct offmap *map_through_values(struct offmap *m, enum page_codec codec)
{
	struct offmap *copy;
	struct page *root = offmap_root_encode(m);
	if (!root)
		die("no root");
	root = through_value(root, 0, 0, codec);
	if (offmap_root_decode(root->bytes, root->len, &copy))
		die("the root does not survive its value");
	page_unref(root);
	for (uint32_t i = 0; i < m->code_count; i++) {
		copy->code[i] = through_value(m->code[i], i, m->generation, codec);
		m->code[i] = NULL;
	}
	for (uint32_t i = 0; i < m->string_count; i++) {
		copy->strings[i] = through_value(m->strings[i], i, m->generation, codec);
		m->strings[i] = NULL;
	}
	offmap_free(m);
	return copy;
}

static void print_string(const struct offmap *m, struct offmap_string s)
{
	if (s.external) {
		int64_t page = offmap_string_page(m, s.external);
		if (page < 0 || offmap_string_lookup(m->strings[page], s.external, &s))
			die("a string is missing");
	}
	printf("\"%.*s\"", (int)s.len, (const char *)s.data);
}

static void print_place(const struct offmap *m, const struct offmap_call *c)
{
	if (!c->file.external && !c->file.len)
		return;
	printf(", \"file\": ");
	print_string(m, c->file);
	if (c->line)
		printf(", \"line\": %" PRIu32, c->line);
}

static void print_answer(const struct offmap *m, uint64_t offset)
{
	struct arena arena;
	struct offmap_answer a = {0};
	int64_t page = offmap_code_page(m, offset);
	arena_init(&arena, SIZE_MAX);
	if (page >= 0 && offmap_lookup(m->code[page], offset, &arena, &a))
		die("a page is corrupt");
	printf("{\"offset\": \"0x%" PRIx64 "\"", offset);
	if (a.found) {
		printf(", \"function\": ");
		print_string(m, a.frame.function);
		printf(", \"function_offset\": \"0x%" PRIx64 "\"", a.function_offset);
		if (a.has_size)
			printf(", \"function_size\": \"0x%" PRIx64 "\"", a.function_size);
		print_place(m, &a.frame);
		for (uint32_t i = 0; i < a.inline_count; i++) {
			printf("%s{\"function\": ", i ? ", " : ", \"inlines\": [");
			print_string(m, a.inlines[i].function);
			print_place(m, &a.inlines[i]);
			printf("}%s", i + 1 == a.inline_count ? "]" : "");
		}
	}
	printf("}\n");
	arena_release(&arena);
}

/* What is to be done with the file. */
struct job {
	struct indexed_how how;
	const char *id;
	uint8_t *data;
	size_t len;
	bool values, hash;
	enum page_codec codec; /* of the values */
	uint64_t *offsets;
	size_t count, cap;
};

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

static void hash_number(struct text_hash *h, uint64_t n)
{
	uint8_t bytes[8];
	put_u64(bytes, n);
	text_hash_add(h, bytes, sizeof bytes);
}

static void print_hash(const struct offmap *m)
{
	struct text_hash *h = text_hash_new();
	if (!h)
		die("no memory");
	const uint64_t counts[] = {m->generation, m->funcs, m->publics, m->lines, m->inlines, m->damaged, m->text_bytes,
	        m->raw_bytes, m->code_count, m->string_count};
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
		hash_number(h, counts[i]);
	for (uint32_t i = 0; i < m->code_count; i++) {
		hash_number(h, m->code_first[i]);
		text_hash_add(h, m->code[i]->bytes, m->code[i]->len);
	}
	for (uint32_t i = 0; i < m->string_count; i++) {
		hash_number(h, m->string_first[i]);
		text_hash_add(h, m->strings[i]->bytes, m->strings[i]->len);
	}
	printf("%016" PRIx64 "\n", text_hash_value(h));
	text_hash_free(h);
}

static void answer_all(const struct job *j)
{
	struct error e;
	struct offmap *m = indexed_map((struct str){(char *)j->data, j->len}, str_from(j->id), &j->how, &e);
	if (m && j->values)
		m = map_through_values(m, j->codec);
	print_head(m, &e);
	if (m && j->hash)
		print_hash(m);
	for (size_t i = 0; i < j->count && m; i++)
		print_answer(m, j->offsets[i]);
	offmap_free(m);
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
	        {"chunk", 1, NULL, 'c'}, {"values", 1, NULL, 'v'}, {"shuffle", 1, NULL, 's'}, {"threads", 1, NULL, 't'},
	        {"page-text", 1, NULL, 'p'}, {"offsets-from", 1, NULL, 'o'},
	        {"hash", 0, NULL, 'h'},
	        {NULL, 0, NULL, 0}};
	struct job j = {.id = ""};
	const char *offsets = NULL;
	int c;
	optind = 0; /* from the start: there may have been another command line */
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'i':
			j.id = optarg;
			break;
		case 'n':
			j.how.nearest = true;
			break;
		case 'c':
			j.how.chunk = strtoul(optarg, NULL, 10);
			break;
		case 'v':
			j.values = true;
			j.codec = strcmp(optarg, "zstd") == 0  ? CODEC_ZSTD
			          : strcmp(optarg, "lz4") == 0 ? CODEC_LZ4
			                                       : CODEC_RAW;
			break;
		case 's':
			j.how.shuffle = strtoull(optarg, NULL, 10);
			break;
		case 't':
			j.how.threads = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'p':
			j.how.page_text = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'h':
			j.hash = true;
			break;
		case 'o':
			offsets = optarg;
			break;
		default:
			return 2;
		}
	}
	if (optind == argc)
		die("usage: symlookup FILE [options] OFFSET...");
	j.data = read_file(argv[optind++], &j.len);
	for (; optind < argc; optind++)
		add_offset(&j, argv[optind]);
	if (offsets)
		add_offsets_from(&j, offsets);
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
