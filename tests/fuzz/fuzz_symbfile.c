/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: a symbfile says the same in pieces as in one, and what is written of its records says so, too. */
#include <config.h>

#include "base/buffer.h"
#include "fuzz.h"
#include "symbfile/symbfile.h"

static enum err write_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	return symbfile_write_range(arg, r, e);
}

static enum err write_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	return symbfile_write_pad(arg, p, e);
}

static enum err append(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	return buffer_append(arg, data, len) ? ERR_OK : error_set(e, ERR_NO_MEMORY, "no memory");
}

/* Reads in chunks; what was read is written to out. */
static struct error rewrite(const uint8_t *data, size_t size, size_t chunk, struct buffer *out)
{
	struct error e = {0}, ignored;
	struct symbfile_writer *w = symbfile_writer_new(append, out);
	struct symbfile_sink sink = {write_range, write_pad, w};
	struct symbfile_reader *r = symbfile_reader_new(&sink);
	if (!w || !r)
		abort();
	enum err err = ERR_OK;
	for (size_t at = 0; at < size && !err; at += chunk)
		err = symbfile_reader_feed(r, data + at, size - at < chunk ? size - at : chunk, &e);
	symbfile_reader_finish(r, &e);
	symbfile_writer_finish(w, &ignored);
	symbfile_reader_free(r);
	symbfile_writer_free(w);
	return e;
}

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static bool same(const struct buffer *a, const struct buffer *b)
{
	return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buffer whole, pieces, again;
	buffer_init(&whole, 64 << 20);
	buffer_init(&pieces, 64 << 20);
	buffer_init(&again, 64 << 20);
	struct error e = rewrite(data, size, size + 1, &whole), e_pieces = rewrite(data, size, 3, &pieces);
	check(e.code == e_pieces.code && (!e.code || strcmp(e.text, e_pieces.text) == 0), "another error in pieces");
	check(same(&whole, &pieces), "other records in pieces");
	e = rewrite(whole.data, whole.len, 1000, &again);
	check(!e.code, "what was written cannot be read");
	check(same(&whole, &again), "what was written says something else");
	buffer_release(&whole);
	buffer_release(&pieces);
	buffer_release(&again);
	return 0;
}
