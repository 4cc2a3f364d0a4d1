/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unpack.h"
#include "extract/view.h"
#include "symbtool/cli.h"

enum { BLOCK = 256 << 10, LAYERS = 2 /* as servers unpack: a file may be packed once more */ };

struct layer {
	struct packing_head head;
	struct unpacker *unpacker; /* NULL: not packed */
	uint8_t *inflated;
};

struct input {
	enum err (*take)(void *arg, const uint8_t *data, size_t len, struct error *e);
	void *arg;
	const char *path;
	struct layer layers[LAYERS];
};

static enum err add_to_layer(struct input *in, unsigned level, const uint8_t *data, size_t len, struct error *e);

static enum err begin_layer(struct layer *l, struct error *e)
{
	if (l->head.packing == PACKING_NONE)
		return ERR_OK;
	l->unpacker = unpacker_new();
	l->inflated = malloc(BLOCK);
	return l->unpacker && l->inflated && unpacker_start(l->unpacker, l->head.packing) ? ERR_OK : no_memory(e);
}

static enum err unpack_layer(struct input *in, unsigned level, const uint8_t *data, size_t len, struct error *e)
{
	struct layer *l = &in->layers[level];
	enum err err = ERR_OK;
	size_t out = BLOCK;
	if (!l->unpacker)
		return add_to_layer(in, LAYERS, data, len, e);
	while (!err && (len > 0 || out == BLOCK)) {
		err = unpacker_step(l->unpacker, &data, &len, l->inflated, BLOCK, &out);
		if (err)
			return error_set(e, err, "%s", unpacker_bad(l->unpacker));
		err = add_to_layer(in, level + 1, l->inflated, out, e);
	}
	return err;
}

static enum err add_to_layer(struct input *in, unsigned level, const uint8_t *data, size_t len, struct error *e)
{
	struct layer *l = &in->layers[level];
	if (level == LAYERS)
		return len ? in->take(in->arg, data, len, e) : ERR_OK;
	if (l->head.packing != PACKING_UNKNOWN)
		return unpack_layer(in, level, data, len, e);
	if (!packing_look(&l->head, &data, &len))
		return ERR_OK;
	enum err err = begin_layer(l, e);
	if (!err)
		err = unpack_layer(in, level, l->head.bytes, l->head.len, e);
	return err ? err : unpack_layer(in, level, data, len, e);
}

static enum err end_layers(struct input *in, struct error *e)
{
	enum err err = ERR_OK;
	for (struct layer *l = in->layers; l < in->layers + LAYERS && !err; l++) {
		if (l->head.packing == PACKING_UNKNOWN) /* a few bytes or none */
			err = add_to_layer(in, LAYERS, l->head.bytes, l->head.len, e);
		else if (l->unpacker && !unpacker_complete(l->unpacker))
			err = error_set(e, ERR_CORRUPT, "%s", unpacker_cut(l->unpacker));
		else if (l->unpacker && unpacker_trails(l->unpacker))
			complain(in->path, "bytes behind its gzip are ignored");
	}
	return err;
}

static enum err read_all(struct input *in, FILE *f, uint8_t *block, struct error *e)
{
	enum err err = ERR_OK;
	for (size_t n; !err && (n = fread(block, 1, BLOCK, f)) > 0;)
		err = add_to_layer(in, 0, block, n, e);
	if (!err && ferror(f))
		err = error_set(e, ERR_IO, "%s", strerror(errno));
	return err ? err : end_layers(in, e);
}

enum err input_read(const char *path, enum err (*take)(void *arg, const uint8_t *data, size_t len, struct error *e),
        void *arg, struct error *e)
{
	struct input in = {.take = take, .arg = arg, .path = path};
	FILE *f = fopen(path, "rbe");
	uint8_t *block = malloc(BLOCK);
	enum err err = ERR_OK;
	if (!f)
		err = error_set(e, ERR_IO, "%s", strerror(errno));
	else if (!block)
		err = no_memory(e);
	else
		err = read_all(&in, f, block, e);
	if (f)
		fclose(f);
	for (unsigned i = 0; i < LAYERS; i++) {
		unpacker_free(in.layers[i].unpacker);
		free(in.layers[i].inflated);
	}
	free(block);
	return err;
}

static enum err feed_reader(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	return symbfile_reader_feed(arg, data, len, e);
}

enum err input_symbfile(const char *path, const struct symbfile_sink *sink, struct error *e)
{
	struct symbfile_reader *reader = symbfile_reader_new(sink);
	enum err err = reader ? input_read(path, feed_reader, reader, e) : no_memory(e);
	if (!err)
		err = symbfile_reader_finish(reader, e);
	symbfile_reader_free(reader);
	return err;
}

/* ---- what it is ---- */

struct file_start {
	uint8_t *bytes;
	size_t len, size;
};

/* ERR_MISSING, which nothing else returns, once there are enough. */
static enum err take_head(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct file_start *h = arg;
	(void)e;
	size_t room = h->size - h->len, n = len < room ? len : room;
	memcpy(h->bytes + h->len, data, n);
	h->len += n;
	return h->len < h->size ? ERR_OK : ERR_MISSING;
}

enum err input_head(const char *path, void *to, size_t size, size_t *len, struct error *e)
{
	struct file_start h = {.bytes = to, .size = size};
	enum err err = input_read(path, take_head, &h, e);
	*len = h.len;
	return err == ERR_MISSING ? ERR_OK : err;
}

enum err input_kind_of(const char *path, enum input_kind *kind, struct error *e)
{
	uint8_t start[FORMAT_HEAD];
	size_t len;
	enum err err = input_head(path, start, sizeof start, &len, e);
	*kind = INPUT_OTHER;
	if (file_format_of(start, len) != FORMAT_OTHER)
		*kind = INPUT_ELF;
	else if (len >= 8 && memcmp(start, "symbfile", 8) == 0)
		*kind = INPUT_SYMBFILE;
	return err;
}
