/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs for fuzz_page, in the page format of today: page_seeds FOLDER FILE... writes the root and the pages of symbol
 * files as they are, as values, and as what such a value holds, in each codec. */
#include <config.h>

#include <inttypes.h>

#include "base/hash.h"
#include "base/varint.h"
#include "fuzz.h"
#include "fuzz_page.h"
#include "indexed_map.h"

enum { FILE_MAX = 1 << 20, PATH_SIZE = 4096 };

/* Equal inputs get the same name. */
static void write_seed(const char *folder, uint8_t kind, const uint8_t *start, size_t start_len, struct str rest)
{
	char path[PATH_SIZE];
	uint64_t name = checksum(start, start_len, rest.data, rest.len) + kind;
	int n = snprintf(path, sizeof path, "%s/%012" PRIx64, folder, name >> 16);
	FILE *out = n > 0 && n < PATH_SIZE ? fopen(path, "wb") : NULL;
	fuzz_check(out, path);
	fputc(kind, out);
	fwrite(start, 1, start_len, out);
	fwrite(rest.data, 1, rest.len, out);
	fuzz_check(!ferror(out) && !fclose(out), path);
}

static void write_values(const char *folder, uint8_t kind, const struct page *p)
{
	for (uint8_t codec = CODEC_RAW; codec <= CODEC_ZSTD; codec++) {
		uint8_t sealed[6] = {kind, codec};
		struct buffer value;
		buffer_init(&value, SIZE_MAX);
		fuzz_check(!value_encode(&value, &page_ids[kind], p, (enum page_codec)codec, NULL), "no value");
		write_seed(folder, VALUE, NULL, 0, (struct str){(char *)value.data, value.len});
		sealed[1] = value.data[6];
		put_u32(sealed + 2, p->len);
		write_seed(folder, SEALED, sealed, sizeof sealed,
		        (struct str){(char *)value.data + VALUE_HEADER, value.len - VALUE_HEADER});
		buffer_release(&value);
	}
}

static void write_page(const char *folder, uint8_t kind, const struct page *p)
{
	write_seed(folder, kind, NULL, 0, (struct str){(const char *)p->bytes, p->len});
	write_values(folder, kind, p);
}

static void write_map(const char *folder, struct offmap *m)
{
	struct page *root = offmap_root_encode(m);
	fuzz_check(root, "no root");
	write_page(folder, ROOT, root);
	page_unref(root);
	for (uint32_t i = 0; i < m->code_count; i++)
		write_page(folder, CODE, m->code[i]);
	for (uint32_t i = 0; i < m->string_count; i++)
		write_page(folder, STRINGS, m->strings[i]);
}

static void read_sym(const char *folder, const char *path)
{
	struct indexed_how how = {0};
	struct error e;
	char *text = malloc(FILE_MAX);
	FILE *in = fopen(path, "rb");
	fuzz_check(text && in, path);
	size_t n = fread(text, 1, FILE_MAX, in);
	fuzz_check(feof(in), path);
	fclose(in);
	struct offmap *m = indexed_map((struct str){text, n}, (struct str){"", 0}, &how, &e);
	if (m)
		write_map(folder, m);
	offmap_free(m);
	free(text);
}

int main(int argc, char **argv)
{
	for (int i = 2; i < argc; i++)
		read_sym(argv[1], argv[i]);
	return argc > 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
