/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/inflate.h"

#include <errno.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_ISAL
#include <isa-l/igzip_lib.h>
#else
#include <zlib.h>
#endif
#include <zstd.h>

#include "extract/temp_file.h"

enum {
	BLOCK = 128 << 10,
	XZ_MEMORY = 128 << 20, /* xz -9 takes 65 MiB */
};

/* A transfer from one file to the other. */
struct transfer {
	struct inflate_source rest; /* not read yet */
	uint64_t max, size;
	int to;
	void *state;    /* of the method */
	bool ended;     /* a stream is complete */
	size_t at, len; /* of in: taken, and there */
	size_t made;    /* of out */
	uint8_t in[BLOCK], out[BLOCK];
};

/* step takes from in, fills out and sets ended. open returns NULL if out of memory. */
struct method {
	void *(*open)(void);
	enum err (*step)(struct transfer *t, struct error *e);
	void (*close)(void *state);
};

static enum err corrupt(struct error *e, const char *what)
{
	return error_set(e, ERR_CORRUPT, "compressed data: %s", what);
}

/* ---- methods ---- */

static void *open_plain(void)
{
	return malloc(1);
}

static enum err step_plain(struct transfer *t, struct error *e)
{
	(void)e;
	t->made = t->len - t->at;
	memcpy(t->out, t->in + t->at, t->made);
	t->at = t->len;
	t->ended = true;
	return ERR_OK;
}

#ifdef HAVE_ISAL

static void start_zlib(struct inflate_state *s)
{
	isal_inflate_reset(s);
	s->crc_flag = ISAL_ZLIB;
}

static void *open_zlib(void)
{
	struct inflate_state *s = malloc(sizeof *s);
	if (s) {
		isal_inflate_init(s);
		start_zlib(s);
	}
	return s;
}

/* After a stream the library has bytes left that are not its own. They may be of the block before this one, so the file
 * is read again from there. */
static void give_back(struct transfer *t, uint64_t bytes)
{
	uint64_t unread = t->len - t->at + bytes;
	t->rest.at -= unread;
	t->rest.len += unread;
	t->at = t->len = 0;
}

static enum err step_zlib(struct transfer *t, struct error *e)
{
	struct inflate_state *s = t->state;
	if (t->ended)
		start_zlib(s);
	s->next_in = t->in + t->at;
	s->avail_in = (uint32_t)(t->len - t->at);
	s->next_out = t->out;
	s->avail_out = BLOCK;
	int status = isal_inflate(s);
	if (status < 0 || status == ISAL_NEED_DICT)
		return corrupt(e, status == ISAL_INCORRECT_CHECKSUM ? "incorrect checksum" : "damaged");
	t->ended = s->block_state == ISAL_BLOCK_FINISH;
	t->at = t->len - s->avail_in;
	t->made = BLOCK - s->avail_out;
	if (t->ended)
		give_back(t, (uint64_t)s->read_in_length / 8);
	return ERR_OK;
}

static void close_zlib(void *state)
{
	free(state);
}

#else

static void *open_zlib(void)
{
	z_stream *z = calloc(1, sizeof *z);
	if (z && inflateInit(z) == Z_OK)
		return z;
	free(z);
	return NULL;
}

static enum err step_zlib(struct transfer *t, struct error *e)
{
	z_stream *z = t->state;
	if (t->ended)
		inflateReset(z);
	z->next_in = t->in + t->at;
	z->avail_in = (uInt)(t->len - t->at);
	z->next_out = t->out;
	z->avail_out = BLOCK;
	int status = inflate(z, Z_NO_FLUSH);
	if (status == Z_MEM_ERROR)
		return no_memory(e);
	if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
		return corrupt(e, z->msg ? z->msg : "damaged");
	t->ended = status == Z_STREAM_END;
	t->at = t->len - z->avail_in;
	t->made = BLOCK - z->avail_out;
	return ERR_OK;
}

static void close_zlib(void *state)
{
	inflateEnd(state);
	free(state);
}

#endif

static void *open_zstd(void)
{
	return ZSTD_createDCtx();
}

static enum err step_zstd(struct transfer *t, struct error *e)
{
	ZSTD_inBuffer in = {t->in, t->len, t->at};
	ZSTD_outBuffer out = {t->out, BLOCK, 0};
	size_t left = ZSTD_decompressStream(t->state, &out, &in);
	if (ZSTD_isError(left))
		return corrupt(e, ZSTD_getErrorName(left));
	t->ended = left == 0;
	t->at = in.pos;
	t->made = out.pos;
	return ERR_OK;
}

static void close_zstd(void *state)
{
	ZSTD_freeDCtx(state);
}

static void *open_xz(void)
{
	static const lzma_stream empty = LZMA_STREAM_INIT;
	lzma_stream *s = malloc(sizeof *s);
	if (!s)
		return NULL;
	*s = empty;
	if (lzma_stream_decoder(s, XZ_MEMORY, LZMA_CONCATENATED) == LZMA_OK)
		return s;
	free(s);
	return NULL;
}

static enum err step_xz(struct transfer *t, struct error *e)
{
	lzma_stream *s = t->state;
	s->next_in = t->in + t->at;
	s->avail_in = t->len - t->at;
	s->next_out = t->out;
	s->avail_out = BLOCK;
	lzma_ret status = lzma_code(s, t->rest.len > 0 ? LZMA_RUN : LZMA_FINISH);
	if (status == LZMA_MEM_ERROR)
		return no_memory(e);
	if (status != LZMA_OK && status != LZMA_STREAM_END && status != LZMA_BUF_ERROR)
		return corrupt(e, status == LZMA_MEMLIMIT_ERROR ? "its dictionary is too large" : "damaged");
	t->ended = status == LZMA_STREAM_END;
	t->at = t->len - s->avail_in;
	t->made = BLOCK - s->avail_out;
	return ERR_OK;
}

static void close_xz(void *state)
{
	lzma_end(state);
	free(state);
}

static const struct method methods[] = {
        [INFLATE_NONE] = {open_plain, step_plain, free},
        [INFLATE_ZLIB] = {open_zlib, step_zlib, close_zlib},
        [INFLATE_ZSTD] = {open_zstd, step_zstd, close_zstd},
        [INFLATE_XZ] = {open_xz, step_xz, close_xz},
};

/* ---- transfer ---- */

/* The next block; len is 0 at the end of the source. */
static enum err read_block(struct transfer *t, struct error *e)
{
	ssize_t n;
	size_t want = t->rest.len < BLOCK ? (size_t)t->rest.len : BLOCK;
	do
		n = pread(t->rest.fd, t->in, want, (off_t)t->rest.at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_set(e, ERR_IO, "%s", strerror(errno));
	if (n == 0 && want > 0)
		return corrupt(e, "outside the file");
	t->at = 0;
	t->len = (size_t)n;
	t->rest.at += (uint64_t)n;
	t->rest.len -= (uint64_t)n;
	return ERR_OK;
}

static enum err write_out(struct transfer *t, struct error *e)
{
	if (t->made > t->max - t->size)
		return corrupt(e, "more than its header says");
	t->size += t->made;
	return temp_file_write(t->to, t->out, t->made, e);
}

static enum err run_method(struct transfer *t, const struct method *m, struct error *e)
{
	bool full = false; /* there may be more to come without new input */
	enum err err = ERR_OK;
	while (!err && !(t->ended && t->size == t->max)) {
		if (t->at == t->len && !full) {
			err = read_block(t, e);
			if (!err && t->len == 0)
				return t->ended ? ERR_OK : corrupt(e, "cut off");
		}
		if (!err)
			err = m->step(t, e);
		if (!err)
			err = write_out(t, e);
		full = t->made == BLOCK && !t->ended;
	}
	return err;
}

enum err inflate_file(enum inflate_method method, const struct inflate_source *source, uint64_t max, int to,
        uint64_t *size, struct error *e)
{
	const struct method *m = &methods[method];
	struct transfer *t = malloc(sizeof *t);
	void *state = t ? m->open() : NULL;
	enum err err = ERR_NO_MEMORY;
	*size = 0;
	if (state) {
		t->rest = *source;
		t->max = max;
		t->to = to;
		t->state = state;
		t->ended = false;
		t->size = t->at = t->len = t->made = 0;
		err = run_method(t, m, e);
		*size = t->size;
		m->close(state);
	} else {
		err = no_memory(e);
	}
	free(t);
	return err;
}
