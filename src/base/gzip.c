/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/gzip.h"

#include <stdlib.h>
#include <string.h>

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

static void flow_advance(struct flow *f, size_t in, size_t out)
{
	f->in += in;
	f->in_len -= in;
	f->out += out;
	f->room -= out;
}

#ifdef HAVE_ISAL

#include <isa-l/igzip_lib.h>

/* The library can read a member's header, but loses its place if the input is cut within the optional parts. So we read
 * the header here, with a struct that lasts from call to call. */
struct inflater {
	struct inflate_state state;
	struct isal_gzip_header header;
	bool header_read;
};

static void inflater_prepare(struct inflater *i)
{
	i->state.crc_flag = ISAL_GZIP;
	isal_gzip_header_init(&i->header);
	i->header_read = false;
}

static enum err inflater_init(struct inflater *i)
{
	isal_inflate_init(&i->state);
	inflater_prepare(i);
	return ERR_OK;
}

static void inflater_release(struct inflater *i)
{
	(void)i;
}

static void inflater_reset(struct inflater *i)
{
	isal_inflate_reset(&i->state);
	inflater_prepare(i);
}

static enum err inflater_run(struct inflater *i, struct flow *f, bool *ended)
{
	struct inflate_state *s = &i->state;
	uint32_t in = step_size(f->in_len), out = step_size(f->room);
	/* The library does not write through next_in, which only lacks the const. */
	s->next_in = (uint8_t *)(uintptr_t)f->in;
	s->avail_in = in;
	s->next_out = f->out;
	s->avail_out = out;
	int result = i->header_read ? ISAL_DECOMP_OK : isal_read_gzip_header(s, &i->header);
	i->header_read = result == ISAL_DECOMP_OK;
	if (i->header_read)
		result = isal_inflate(s);
	flow_advance(f, in - s->avail_in, out - s->avail_out);
	*ended = s->block_state == ISAL_BLOCK_FINISH;
	return result < 0 ? ERR_CORRUPT : ERR_OK;
}

/* All of a state but what of its buffer is not in use. */
struct saved {
	bool header_read;
	struct isal_gzip_header header;
	size_t len;
	uint8_t state[];
};

static struct saved *inflater_save(const struct inflater *i)
{
	size_t len = offsetof(struct inflate_state, tmp_out_buffer) + (size_t)i->state.tmp_out_valid;
	struct saved *s = malloc(sizeof *s + len);
	if (!s)
		return NULL;
	s->header_read = i->header_read;
	s->header = i->header;
	s->len = len;
	memcpy(s->state, &i->state, len);
	return s;
}

static size_t saved_bytes(const struct saved *s)
{
	return sizeof *s + s->len;
}

static size_t inflater_bytes(void)
{
	return sizeof(struct inflater);
}

static void saved_free(struct saved *s)
{
	free(s);
}

static bool inflater_go(struct inflater *i, const struct saved *s)
{
	memcpy(&i->state, s->state, s->len);
	i->header = s->header;
	i->header_read = s->header_read;
	return true;
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
	uint32_t in = step_size(f->in_len), out = step_size(f->room);
	s->next_in = (uint8_t *)(uintptr_t)f->in;
	s->avail_in = in;
	s->next_out = f->out;
	s->avail_out = out;
	s->end_of_stream = last && in == f->in_len;
	int result = isal_deflate(s);
	flow_advance(f, in - s->avail_in, out - s->avail_out);
	*ended = s->internal_state.state == ZSTATE_END;
	return result == COMP_OK;
}

#else

#include <zlib.h>

enum { WINDOW_GZIP = 15 + 16 };

struct inflater {
	z_stream stream;
};

static enum err inflater_init(struct inflater *i)
{
	return inflateInit2(&i->stream, WINDOW_GZIP) == Z_OK ? ERR_OK : ERR_NO_MEMORY;
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
	uint32_t in = step_size(f->in_len), out = step_size(f->room);
	s->next_in = (uint8_t *)(uintptr_t)f->in;
	s->avail_in = in;
	s->next_out = f->out;
	s->avail_out = out;
	int result = inflate(s, Z_NO_FLUSH);
	flow_advance(f, in - s->avail_in, out - s->avail_out);
	*ended = result == Z_STREAM_END;
	if (result == Z_MEM_ERROR)
		return ERR_NO_MEMORY;
	/* Z_BUF_ERROR: too little input or room to do anything, which the caller notices. */
	return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR ? ERR_OK : ERR_CORRUPT;
}

struct saved {
	z_stream stream;
};

static struct saved *inflater_save(const struct inflater *i)
{
	struct saved *s = calloc(1, sizeof *s);
	/* The library does not write to what it copies, which only lacks the const. */
	if (s && inflateCopy(&s->stream, (z_stream *)(uintptr_t)&i->stream) == Z_OK)
		return s;
	free(s);
	return NULL;
}

/* A window, and the tables of a block: zconf.h. */
static size_t inflater_bytes(void)
{
	return sizeof(struct inflater) + (40 << 10);
}

static size_t saved_bytes(const struct saved *s)
{
	(void)s;
	return inflater_bytes();
}

static void saved_free(struct saved *s)
{
	inflateEnd(&s->stream);
	free(s);
}

static bool inflater_go(struct inflater *i, const struct saved *s)
{
	inflateEnd(&i->stream);
	return inflateCopy(&i->stream, (z_stream *)(uintptr_t)&s->stream) == Z_OK;
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
	uint32_t in = step_size(f->in_len), out = step_size(f->room);
	s->next_in = (uint8_t *)(uintptr_t)f->in;
	s->avail_in = in;
	s->next_out = f->out;
	s->avail_out = out;
	int result = deflate(s, last && in == f->in_len ? Z_FINISH : Z_NO_FLUSH);
	flow_advance(f, in - s->avail_in, out - s->avail_out);
	*ended = result == Z_STREAM_END;
	return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR;
}

#endif

struct gunzip {
	struct inflater inflater;
	enum err broken; /* the first failure, which is final */
	bool ended;      /* the last byte consumed ended a member or was padding */
	bool padded;     /* padding was found, so nothing else may follow */
};

struct gunzip *gunzip_new(void)
{
	struct gunzip *g = calloc(1, sizeof *g);
	if (g && inflater_init(&g->inflater)) {
		free(g);
		return NULL;
	}
	return g;
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
	g->padded = false;
}

/* After a member: skips zero bytes; if there are none, gets ready for another member. */
static void pass_padding(struct gunzip *g, struct flow *f)
{
	while (f->in_len > 0 && *f->in == 0) {
		flow_advance(f, 1, 0);
		g->padded = true;
	}
	if (f->in_len > 0 && g->padded)
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

size_t gunzip_bytes(const struct gunzip *g)
{
	return sizeof *g - sizeof g->inflater + inflater_bytes();
}

struct gunzip_place {
	struct saved *inflater;
	bool ended, padded;
};

struct gunzip_place *gunzip_save(const struct gunzip *g)
{
	struct gunzip_place *p = malloc(sizeof *p);
	if (!p)
		return NULL;
	*p = (struct gunzip_place){inflater_save(&g->inflater), g->ended, g->padded};
	if (p->inflater)
		return p;
	free(p);
	return NULL;
}

void gunzip_place_free(struct gunzip_place *p)
{
	if (!p)
		return;
	saved_free(p->inflater);
	free(p);
}

size_t gunzip_place_bytes(const struct gunzip_place *p)
{
	return sizeof *p + saved_bytes(p->inflater);
}

bool gunzip_go(struct gunzip *g, const struct gunzip_place *p)
{
	bool went = inflater_go(&g->inflater, p->inflater);
	g->broken = went ? ERR_OK : ERR_NO_MEMORY;
	g->ended = p->ended;
	g->padded = p->padded;
	return went;
}

struct gzip {
	struct deflater deflater;
	uint8_t *out; /* the result, for the caller */
	size_t len, cap;
};

static bool grow(struct gzip *g)
{
	size_t cap = g->cap * 2;
	uint8_t *bigger = cap > g->cap ? realloc(g->out, cap) : NULL;
	if (!bigger)
		return false;
	g->out = bigger;
	g->cap = cap;
	return true;
}

static bool deflate_some(struct gzip *g, const void *data, size_t len, bool last)
{
	struct flow f = {data, len, NULL, 0};
	bool ended = false;
	while (last ? !ended : f.in_len > 0) {
		if (g->len == g->cap && !grow(g))
			return false;
		f.out = g->out + g->len;
		f.room = g->cap - g->len;
		if (!deflater_run(&g->deflater, &f, last, &ended))
			return false;
		g->len = g->cap - f.room;
	}
	return true;
}

struct gzip *gzip_new(uint64_t size)
{
	struct gzip *g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	if (!deflater_init(&g->deflater)) {
		free(g);
		return NULL;
	}
	/* Symbol text and replies shrink to an eighth or less; anything else costs up to three doublings. */
	g->cap = size / 8 + 1024;
	g->out = malloc(g->cap);
	if (g->out)
		return g;
	gzip_free(g);
	return NULL;
}

void gzip_free(struct gzip *g)
{
	if (!g)
		return;
	deflater_release(&g->deflater);
	free(g->out);
	free(g);
}

bool gzip_add(struct gzip *g, const void *data, size_t len)
{
	return deflate_some(g, data, len, false);
}

struct iovec gzip_take(struct gzip *g, size_t least)
{
	struct iovec made = {g->out, g->len};
	if (g->len < least)
		return (struct iovec){NULL, 0};
	g->len = 0;
	return made;
}

enum err gzip_finish(struct gzip *g, uint8_t **out, size_t *out_len)
{
	if (!deflate_some(g, "", 0, true))
		return ERR_NO_MEMORY;
	*out = g->out;
	*out_len = g->len;
	g->out = NULL;
	return ERR_OK;
}

enum err gzip_compress(const struct iovec *parts, unsigned count, uint8_t **out, size_t *out_len)
{
	uint64_t total = 0;
	for (unsigned i = 0; i < count; i++)
		total += parts[i].iov_len;
	struct gzip *g = gzip_new(total);
	bool good = g != NULL;
	for (unsigned i = 0; i < count && good; i++)
		good = gzip_add(g, parts[i].iov_base, parts[i].iov_len);
	enum err result = good ? gzip_finish(g, out, out_len) : ERR_NO_MEMORY;
	gzip_free(g);
	return result;
}
