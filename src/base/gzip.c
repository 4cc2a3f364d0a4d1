/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/gzip.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

/* Each library is wrapped as an engine of five functions. The code below them handles gzip itself (members, ends,
 * growing output) once for both. */

enum { ENGINE_STEP_MAX = 1 << 30 }; /* both libraries count in 32 bits */

/* The remaining input and the remaining room for output. */
struct flow {
	const uint8_t *in;
	size_t in_len;
	uint8_t *out;
	size_t room;
};

static uint32_t step_size(size_t n)
{
	return n < ENGINE_STEP_MAX ? (uint32_t)n : ENGINE_STEP_MAX;
}

static void flow_advance(struct flow *f, const uint8_t *in, const uint8_t *out)
{
	f->in_len -= (size_t)(in - f->in);
	f->in = in;
	f->room -= (size_t)(out - f->out);
	f->out += out - f->out;
}

/* The streams of both libraries have these fields. Neither library writes through next_in, which only lacks the const.
 */
#define SET_STREAM(s, f)                                      \
	do {                                                  \
		(s)->next_in = (uint8_t *)(uintptr_t)(f)->in; \
		(s)->avail_in = step_size((f)->in_len);       \
		(s)->next_out = (f)->out;                     \
		(s)->avail_out = step_size((f)->room);        \
	} while (0)

#ifdef HAVE_ISAL

#include <isa-l/igzip_lib.h>

/* The library can read a member's header, but loses its place if the input is cut within the optional parts. So we read
 * the header here, with a struct that lasts from call to call. */
struct inflater {
	struct inflate_state state;
	struct isal_gzip_header header;
	bool header_read;
};

static void inflater_reset(struct inflater *i)
{
	isal_inflate_init(&i->state);
	i->state.crc_flag = ISAL_GZIP;
	isal_gzip_header_init(&i->header);
	i->header_read = false;
}

static bool inflater_init(struct inflater *i)
{
	inflater_reset(i);
	return true;
}

static void inflater_release(struct inflater *i)
{
	(void)i;
}

static enum err inflater_run(struct inflater *i, struct flow *f, bool *ended)
{
	struct inflate_state *s = &i->state;
	SET_STREAM(s, f);
	int result = i->header_read ? ISAL_DECOMP_OK : isal_read_gzip_header(s, &i->header);
	i->header_read = result == ISAL_DECOMP_OK;
	if (i->header_read)
		result = isal_inflate(s);
	flow_advance(f, s->next_in, s->next_out);
	*ended = s->block_state == ISAL_BLOCK_FINISH;
	return result < 0 ? ERR_CORRUPT : ERR_OK;
}

struct deflater {
	struct isal_zstream stream;
	uint8_t level_buf[ISAL_DEF_LVL1_DEFAULT];
};

static bool deflater_init(struct deflater *d)
{
	isal_deflate_init(&d->stream);
	d->stream.gzip_flag = IGZIP_GZIP;
	d->stream.level = 1;
	d->stream.level_buf = d->level_buf;
	d->stream.level_buf_size = sizeof d->level_buf;
	return true;
}

static void deflater_release(struct deflater *d)
{
	(void)d;
}

static bool deflater_run(struct deflater *d, struct flow *f, bool last, bool *ended)
{
	struct isal_zstream *s = &d->stream;
	SET_STREAM(s, f);
	s->end_of_stream = last && s->avail_in == f->in_len;
	int result = isal_deflate(s);
	flow_advance(f, s->next_in, s->next_out);
	*ended = s->internal_state.state == ZSTATE_END;
	return result == COMP_OK;
}

#else

#include <zlib.h>

enum { WINDOW_GZIP = 15 + 16 };

struct inflater {
	z_stream stream;
};

static bool inflater_init(struct inflater *i)
{
	return inflateInit2(&i->stream, WINDOW_GZIP) == Z_OK;
}

static void inflater_release(struct inflater *i)
{
	inflateEnd(&i->stream);
}

static void inflater_reset(struct inflater *i)
{
	inflateReset(&i->stream);
}

static enum err inflater_run(struct inflater *i, struct flow *f, bool *ended)
{
	z_stream *s = &i->stream;
	SET_STREAM(s, f);
	int result = inflate(s, Z_NO_FLUSH);
	flow_advance(f, s->next_in, s->next_out);
	*ended = result == Z_STREAM_END;
	if (result == Z_MEM_ERROR)
		return ERR_NO_MEMORY;
	/* Z_BUF_ERROR: too little input or room to do anything, which the caller notices. */
	return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR ? ERR_OK : ERR_CORRUPT;
}

struct deflater {
	z_stream stream;
};

static bool deflater_init(struct deflater *d)
{
	return deflateInit2(&d->stream, 1, Z_DEFLATED, WINDOW_GZIP, 8, Z_DEFAULT_STRATEGY) == Z_OK;
}

static void deflater_release(struct deflater *d)
{
	deflateEnd(&d->stream);
}

static bool deflater_run(struct deflater *d, struct flow *f, bool last, bool *ended)
{
	z_stream *s = &d->stream;
	SET_STREAM(s, f);
	int result = deflate(s, last && s->avail_in == f->in_len ? Z_FINISH : Z_NO_FLUSH);
	flow_advance(f, s->next_in, s->next_out);
	*ended = result == Z_STREAM_END;
	return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
}

#endif

struct gunzip {
	struct inflater inflater;
	enum err broken; /* the first failure, which is final */
	bool ended;      /* the last byte consumed ended a member or was padding */
	bool padded;     /* padding was found, so nothing else may follow */
	bool ignores;    /* what follows, */
	bool trails;     /* which there is */
};

struct gunzip *gunzip_new(void)
{
	struct gunzip *g = calloc(1, sizeof *g);
	if (g && inflater_init(&g->inflater))
		return g;
	free(g);
	return NULL;
}

void gunzip_free(struct gunzip *g)
{
	if (!g)
		return;
	inflater_release(&g->inflater);
	free(g);
}

void gunzip_reset(struct gunzip *g)
{
	inflater_reset(&g->inflater);
	g->broken = ERR_OK;
	g->ended = false;
	g->padded = g->trails = false;
}

void gunzip_ignore_trailing(struct gunzip *g)
{
	g->ignores = true;
}

bool gunzip_trails(const struct gunzip *g)
{
	return g->trails;
}

/* After a member: skips zero bytes; if there are none, gets ready for another member. */
static void pass_padding(struct gunzip *g, struct flow *f)
{
	enum { MEMBER = 0x1f }; /* the first byte of one */
	while (f->in_len > 0 && *f->in == 0) {
		flow_advance(f, f->in + 1, f->out);
		g->padded = true;
	}
	g->trails = g->trails || (g->ignores && f->in_len > 0 && (g->padded || *f->in != MEMBER));
	if (g->trails)
		flow_advance(f, f->in + f->in_len, f->out);
	else if (f->in_len > 0 && g->padded)
		g->broken = ERR_CORRUPT;
	else if (f->in_len > 0)
		gunzip_reset(g);
}

enum err gunzip_step(
        struct gunzip *g, const uint8_t **in, size_t *in_len, uint8_t *out, size_t out_cap, size_t *out_len)
{
	struct flow f = {*in, *in_len, out, out_cap};
	while (!g->broken && !(g->ended && f.in_len == 0)) {
		if (g->ended) {
			pass_padding(g, &f);
			continue;
		}
		struct flow before = f;
		g->broken = inflater_run(&g->inflater, &f, &g->ended);
		if (!g->ended && (f.in_len == 0 || f.room == 0))
			break;
		/* An engine that makes no progress despite input and room would make the caller loop for ever. */
		if (!g->broken && f.in_len == before.in_len && f.room == before.room)
			g->broken = ERR_CORRUPT;
	}
	*in = f.in;
	*in_len = f.in_len;
	*out_len = out_cap - f.room;
	return g->broken;
}

bool gunzip_complete(const struct gunzip *g)
{
	return g->ended && !g->broken;
}

struct gzip {
	struct deflater deflater;
	struct buffer out; /* the result, for the caller */
};

static bool deflate_some(struct gzip *g, const void *data, size_t len, bool last)
{
	struct buffer *out = &g->out;
	struct flow f = {data, len, NULL, 0};
	bool ended = false;
	while (last ? !ended : f.in_len > 0) {
		if (!buffer_reserve(out, 1))
			return false;
		f.out = out->data + out->len;
		f.room = out->cap - out->len;
		if (!deflater_run(&g->deflater, &f, last, &ended))
			return false;
		out->len = out->cap - f.room;
	}
	return true;
}

struct gzip *gzip_new(uint64_t size)
{
	struct gzip *g = calloc(1, sizeof *g);
	if (!g || !deflater_init(&g->deflater)) {
		free(g);
		return NULL;
	}
	buffer_init(&g->out, SIZE_MAX);
	/* Symbol text and replies shrink to an eighth or less; anything else costs up to three doublings. */
	if (buffer_reserve(&g->out, size / 8 + 1024))
		return g;
	gzip_free(g);
	return NULL;
}

void gzip_free(struct gzip *g)
{
	if (!g)
		return;
	deflater_release(&g->deflater);
	buffer_release(&g->out);
	free(g);
}

bool gzip_add(struct gzip *g, const void *data, size_t len)
{
	return deflate_some(g, data, len, false);
}

struct iovec gzip_take(struct gzip *g, size_t least)
{
	struct iovec made = {g->out.data, g->out.len};
	if (made.iov_len < least)
		return (struct iovec){NULL, 0};
	buffer_reset(&g->out);
	return made;
}

enum err gzip_finish(struct gzip *g, uint8_t **out, size_t *out_len)
{
	if (!deflate_some(g, "", 0, true))
		return ERR_NO_MEMORY;
	*out = g->out.data;
	*out_len = g->out.len;
	buffer_init(&g->out, SIZE_MAX);
	return ERR_OK;
}

enum err gzip_compress(const void *data, size_t len, uint8_t **out, size_t *out_len)
{
	struct gzip *g = gzip_new(len);
	bool good = g && gzip_add(g, data, len);
	enum err result = good ? gzip_finish(g, out, out_len) : ERR_NO_MEMORY;
	gzip_free(g);
	return result;
}
