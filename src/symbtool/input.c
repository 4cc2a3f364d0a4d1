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

enum { BLOCK = 256 << 10 };

struct input {
	enum err (*take)(void *arg, const uint8_t *data, size_t len, struct error *e);
	void *arg;
	const char *path;
	struct unpacker *unpacker; /* NULL: not packed */
	uint8_t *inflated;
};

/* A file's first block is as large as the file, or larger than any head. */
static enum err begin(struct input *in, const uint8_t *data, size_t len, struct error *e)
{
	enum packing packing = packing_of(data, len);
	if (packing != PACKING_GZIP && packing != PACKING_ZSTD)
		return ERR_OK;
	in->unpacker = unpacker_new();
	in->inflated = malloc(BLOCK);
	return in->unpacker && in->inflated && unpacker_start(in->unpacker, packing) ? ERR_OK : no_memory(e);
}

static enum err pass_on(struct input *in, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = ERR_OK;
	size_t out = BLOCK;
	if (!in->unpacker)
		return in->take(in->arg, data, len, e);
	while (!err && (len > 0 || out == BLOCK)) {
		err = unpacker_step(in->unpacker, &data, &len, in->inflated, BLOCK, &out);
		if (err)
			return error_set(e, err, "%s", unpacker_bad(in->unpacker));
		if (out > 0)
			err = in->take(in->arg, in->inflated, out, e);
	}
	return err;
}

static enum err read_all(struct input *in, FILE *f, uint8_t *block, struct error *e)
{
	enum err err = ERR_OK;
	bool first = true;
	for (size_t n; !err && (n = fread(block, 1, BLOCK, f)) > 0; first = false) {
		if (first)
			err = begin(in, block, n, e);
		if (!err)
			err = pass_on(in, block, n, e);
	}
	if (!err && ferror(f))
		err = error_set(e, ERR_IO, "%s", strerror(errno));
	if (!err && in->unpacker && !unpacker_complete(in->unpacker))
		err = error_set(e, ERR_CORRUPT, "%s", unpacker_cut(in->unpacker));
	if (!err && in->unpacker && unpacker_trails(in->unpacker))
		complain(in->path, "bytes behind its gzip are ignored");
	return err;
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
	unpacker_free(in.unpacker);
	free(in.inflated);
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

struct head {
	uint8_t *bytes;
	size_t len, size;
};

/* ERR_MISSING, which nothing else returns, once there are enough. */
static enum err take_head(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct head *h = arg;
	(void)e;
	size_t room = h->size - h->len, n = len < room ? len : room;
	memcpy(h->bytes + h->len, data, n);
	h->len += n;
	return h->len < h->size ? ERR_OK : ERR_MISSING;
}

enum err input_head(const char *path, void *to, size_t size, size_t *len, struct error *e)
{
	struct head h = {.bytes = to, .size = size};
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
