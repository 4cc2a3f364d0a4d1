/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/unpack.h"
#include "extract/view.h"
#include "symbtool/cli.h"

enum { LAYERS = 2 /* as servers unpack: a file may be packed once more */ };

struct input {
	int fd;
	bool whole; /* damage is told at once, not behind what stands before it */
	bool decided;
	unsigned top;           /* the layer that has the bytes: what is unpacked by so many unpackers */
	bool ended[LAYERS + 1]; /* a layer has all its bytes */
	struct unpacker *unpackers[LAYERS + 1]; /* the first is none */
	struct input_block blocks[LAYERS + 1];
};

struct input *input_new(int fd)
{
	struct input *in = malloc(sizeof *in);
	if (in)
		*in = (struct input){.fd = fd};
	return in;
}

void input_free(struct input *in)
{
	for (unsigned i = 0; in && i <= LAYERS; i++)
		unpacker_free(in->unpackers[i]);
	free(in);
}

enum err input_read_some(struct input *in, void *to, size_t size, size_t *len, struct error *e)
{
	ssize_t n;
	while ((n = read(in->fd, to, size)) < 0 && errno == EAGAIN)
		poll(&(struct pollfd){.fd = in->fd, .events = POLLIN}, 1, -1);
	*len = n > 0 ? (size_t)n : 0;
	if (n < 0 && errno == EINTR)
		return ERR_BUSY;
	in->ended[0] = n <= 0;
	return n < 0 ? error_set(e, ERR_IO, "%s", strerror(errno)) : ERR_OK;
}

/* Moves what is left to the front. */
static size_t block_room(struct input_block *b)
{
	memmove(b->bytes, b->bytes + b->at, b->len - b->at);
	b->len -= b->at;
	b->at = 0;
	return sizeof b->bytes - b->len;
}

static enum err fill_layer(struct input *in, unsigned layer, struct error *e);

/* At least a byte unless it ends. */
static enum err unpack_layer(struct input *in, unsigned layer, size_t *n, struct error *e)
{
	struct input_block *from = &in->blocks[layer - 1], *b = &in->blocks[layer];
	struct unpacker *u = in->unpackers[layer];
	size_t room = block_room(b);
	for (*n = 0; !*n;) {
		enum err err = from->at == from->len && !in->ended[layer - 1] ? fill_layer(in, layer - 1, e) : ERR_OK;
		if (err)
			return err;
		const uint8_t *data = from->bytes + from->at;
		size_t left = from->len - from->at;
		if (!left && in->ended[layer - 1]) {
			in->ended[layer] = true;
			return unpacker_complete(u) ? ERR_OK : error_set(e, ERR_CORRUPT, "%s", unpacker_cut(u));
		}
		err = unpacker_step(u, &data, &left, b->bytes + b->len, room, n);
		if (err && err != ERR_CORRUPT)
			return no_memory(e);
		if (err && (!*n || in->whole)) /* what stands before the damage comes first; then it is found again */
			return error_set(e, err, "%s", unpacker_bad(u));
		from->at = err ? from->at : from->len - left;
	}
	return ERR_OK;
}

static enum err fill_layer(struct input *in, unsigned layer, struct error *e)
{
	struct input_block *b = &in->blocks[layer];
	size_t room = block_room(b), n;
	enum err err = layer ? unpack_layer(in, layer, &n, e) : input_read_some(in, b->bytes + b->len, room, &n, e);
	b->len += err ? 0 : n;
	return err;
}

static enum err decide(struct input *in, struct error *e)
{
	while (!in->decided) {
		const struct input_block *b = &in->blocks[in->top];
		enum packing packing = in->top == LAYERS ? PACKING_NONE : packing_of(b->bytes + b->at, b->len - b->at);
		enum err err = ERR_OK;
		if (!packing && !in->ended[in->top]) {
			err = fill_layer(in, in->top, e);
		} else if (packing <= PACKING_NONE) { /* or a few bytes or none */
			in->decided = true;
		} else {
			struct unpacker *u = in->unpackers[in->top + 1] = unpacker_new();
			err = u && unpacker_start(u, packing) ? ERR_OK : no_memory(e);
			in->top += !err;
		}
		if (err)
			return err;
	}
	return ERR_OK;
}

enum err input_fill(struct input *in, size_t least, struct input_block **out, struct error *e)
{
	enum err err = decide(in, e);
	struct input_block *b = *out = &in->blocks[in->top];
	while (!err && b->len - b->at < least && !in->ended[in->top])
		err = fill_layer(in, in->top, e);
	return err;
}

bool input_is_plain(const struct input *in)
{
	return in->decided && !in->top;
}

bool input_ended(const struct input *in)
{
	return in->ended[0];
}

bool input_has_more(const struct input *in)
{
	bool more = in->ended[0];
	for (unsigned i = 0; i <= in->top; i++)
		more = more || in->blocks[i].at < in->blocks[i].len;
	return more;
}

enum err input_read(const char *path, enum err (*take)(void *arg, const uint8_t *data, size_t len, struct error *e),
        void *arg, struct error *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(e, ERR_IO, "%s", strerror(errno));
	struct input *in = input_new(fd);
	struct input_block *b = NULL;
	enum err err = in ? ERR_OK : no_memory(e);
	if (in)
		in->whole = true;
	for (bool end = false; !err && !end;) {
		err = input_fill(in, 1, &b, e);
		end = !err && b->at == b->len;
		if (err == ERR_BUSY) /* a signal */
			err = ERR_OK;
		else if (!err && !end)
			err = take(arg, b->bytes + b->at, b->len - b->at, e);
		if (b)
			b->at = b->len;
	}
	for (unsigned i = 1; !err && i <= in->top; i++)
		if (unpacker_trails(in->unpackers[i]))
			complain(path, "bytes behind its gzip are ignored");
	input_free(in);
	close(fd);
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
