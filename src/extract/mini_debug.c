/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/mini_debug.h"

#include <lzma.h>
#include <stdlib.h>

#include "extract/elf_file.h"

enum {
	OUTPUT_FIRST = 256 << 10, /* bytes; doubled while they do not suffice */
	OUTPUT_MAX = 256 << 20,
	DICTIONARY_MAX = 128 << 20, /* that of xz -9 has 64 MiB */
};

/* Room for more output. */
static enum err grow(lzma_stream *s, char **out, size_t *cap, struct error *e)
{
	size_t want = *cap ? 2 * *cap : OUTPUT_FIRST;
	if (want > OUTPUT_MAX)
		return error_set(e, ERR_CORRUPT, "more than %d MiB when it is inflated", OUTPUT_MAX >> 20);
	char *moved = realloc(*out, want);
	if (!moved)
		return no_memory(e);
	*out = moved;
	s->next_out = (uint8_t *)moved + *cap;
	s->avail_out = want - *cap;
	*cap = want;
	return ERR_OK;
}

static enum err lzma_failure(lzma_ret status, struct error *e)
{
	if (status == LZMA_MEM_ERROR)
		return no_memory(e);
	if (status == LZMA_MEMLIMIT_ERROR)
		return error_set(e, ERR_CORRUPT, "its xz dictionary is too large");
	if (status == LZMA_BUF_ERROR)
		return error_set(e, ERR_CORRUPT, "its xz data end too early");
	return error_set(e, ERR_CORRUPT, "its xz data are damaged");
}

static enum err inflate(lzma_stream *s, char **out, size_t *cap, struct error *e)
{
	lzma_ret status = LZMA_OK;
	while (status == LZMA_OK) {
		enum err err = s->avail_out == 0 ? grow(s, out, cap, e) : ERR_OK;
		if (err)
			return err;
		status = lzma_code(s, LZMA_FINISH);
	}
	return status == LZMA_STREAM_END ? ERR_OK : lzma_failure(status, e);
}

enum err xz_inflate(struct str in, char **out, size_t *len, struct error *e)
{
	lzma_stream s = LZMA_STREAM_INIT;
	size_t cap = 0;
	*out = NULL;
	lzma_ret status = lzma_stream_decoder(&s, DICTIONARY_MAX, 0);
	if (status != LZMA_OK)
		return lzma_failure(status, e);
	s.next_in = (const uint8_t *)in.data;
	s.avail_in = in.len;
	enum err err = inflate(&s, out, &cap, e);
	*len = (size_t)s.total_out;
	lzma_end(&s);
	if (err) {
		free(*out);
		*out = NULL;
	}
	return err;
}

enum err mini_debug_open(struct mini_debug *m, Elf *elf, struct error *e)
{
	struct str packed = elf_section_bytes(elf, ".gnu_debugdata");
	size_t len;
	*m = (struct mini_debug){0};
	if (packed.len == 0)
		return ERR_OK;
	enum err err = xz_inflate(packed, &m->bytes, &len, e);
	if (err)
		return err;
	m->elf = elf_memory(m->bytes, len);
	if (m->elf && elf_kind(m->elf) == ELF_K_ELF)
		return ERR_OK;
	mini_debug_close(m);
	return error_set(e, ERR_CORRUPT, "its content is not an ELF file");
}

void mini_debug_close(struct mini_debug *m)
{
	elf_end(m->elf);
	free(m->bytes);
	*m = (struct mini_debug){0};
}
