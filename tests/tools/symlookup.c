/*
 * symlookup: answers offsets from a symbol file through the offset map, in the form of plain_reader.py.
 *
 *   symlookup FILE [--id ID] [--nearest] [--chunk N] [--codec none|lz4|zstd] [--values] [--offsets-from FILE] OFFSET...
 *
 * --chunk N feeds the file in chunks of N bytes; --codec keeps all pages compressed while the map is built; --values
 * sends the root and every page through the form in which memcached holds them.
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
	if (value_encode(&value, &id, p, CODEC_LZ4) || value_decode(value.data, value.len, &id, &copy))
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
	puts("}");
	arena_release(&arena);
}

static struct offmap *build(const char *path, const char *id, const struct offmap_options *options, size_t chunk)
{
	size_t len;
	struct error e;
	struct offmap *m = NULL;
	uint8_t *data = read_file(path, &len);
	struct breakpad *p = breakpad_new(options, str_from(id));
	if (!p)
		die("no memory");
	enum err err = ERR_OK;
	for (size_t at = 0; at < len && !err; at += chunk)
		err = breakpad_feed(p, data + at, len - at < chunk ? len - at : chunk, &e);
	if (!err)
		err = breakpad_finish(p, &m, &e);
	if (err) {
		printf("{\"corrupt\": true, \"why\": \"%s\"}\n", e.text);
	} else {
		printf("{\"corrupt\": false, \"damaged\": %" PRIu64 ", \"code_file\": ", m->damaged);
		if (m->code_file_len)
			printf("\"%.*s\"}\n", (int)m->code_file_len, m->code_file);
		else
			printf("null}\n");
	}
	breakpad_free(p);
	free(data);
	return m;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"id", 1, NULL, 'i'}, {"nearest", 0, NULL, 'n'},
	        {"chunk", 1, NULL, 'c'}, {"codec", 1, NULL, 'z'}, {"values", 0, NULL, 'v'},
	        {"offsets-from", 1, NULL, 'o'}, {NULL, 0, NULL, 0}};
	struct offmap_options how = {false, UINT64_MAX, CODEC_LZ4};
	const char *id = "", *offsets = NULL;
	size_t chunk = 1 << 18;
	bool values = false;
	int c;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'i':
			id = optarg;
			break;
		case 'n':
			how.nearest = true;
			break;
		case 'c':
			chunk = strtoul(optarg, NULL, 10);
			break;
		case 'z':
			how.raw_budget = 0;
			how.codec = strcmp(optarg, "zstd") == 0  ? CODEC_ZSTD
			            : strcmp(optarg, "lz4") == 0 ? CODEC_LZ4
			                                         : CODEC_RAW;
			break;
		case 'v':
			values = true;
			break;
		case 'o':
			offsets = optarg;
			break;
		default:
			return 2;
		}
	}
	if (optind == argc || !chunk)
		die("usage: symlookup FILE [options] OFFSET...");
	struct offmap *m = build(argv[optind++], id, &how, chunk);
	if (!m)
		return 0;
	if (values)
		m = map_through_values(m);
	expand_pages(m->code, m->code_count);
	expand_pages(m->strings, m->string_count);
	for (; optind < argc; optind++)
		print_answer(m, strtoull(argv[optind], NULL, 0));
	if (offsets) {
		char line[64];
		FILE *f = fopen(offsets, "r");
		if (!f)
			die(offsets);
		while (fgets(line, sizeof line, f))
			if (line[0] != '\n')
				print_answer(m, strtoull(line, NULL, 0));
		fclose(f);
	}
	offmap_free(m);
	return 0;
}
