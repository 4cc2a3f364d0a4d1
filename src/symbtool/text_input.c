/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/text_input.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/unpack.h"

enum {
	BLOCK = 64 << 10,
	UNDECODED = 0xfffd, /* the character in place of one that is none */
};

enum encoding { UNDECIDED, PLAIN, UTF16_LITTLE, UTF16_BIG };

/* Bytes from `at` to `len` are still to be taken. */
struct block {
	size_t at, len;
	uint8_t bytes[BLOCK];
};

struct text_input {
	int fd;
	bool end;
	enum packing packing;
	struct unpacker *unpacker;
	enum encoding encoding;
	uint16_t high; /* of a surrogate pair, whose other half is still to come; 0: none */
	struct block raw, unpacked;
};

struct text_input *text_input_new(int fd)
{
	struct text_input *in = malloc(sizeof *in);
	if (!in)
		return NULL;
	*in = (struct text_input){.fd = fd};
	return in;
}

void text_input_free(struct text_input *in)
{
	if (in)
		unpacker_free(in->unpacker);
	free(in);
}

/* ---- bytes ---- */

static enum err read_some(struct text_input *in, void *to, size_t size, size_t *len, struct error *e)
{
	ssize_t n;
	while ((n = read(in->fd, to, size)) < 0 && errno == EAGAIN)
		poll(&(struct pollfd){.fd = in->fd, .events = POLLIN}, 1, -1);
	*len = n > 0 ? (size_t)n : 0;
	if (n < 0 && errno == EINTR)
		return ERR_BUSY;
	in->end = n <= 0;
	return n < 0 ? error_set(e, ERR_IO, "%s", strerror(errno)) : ERR_OK;
}

/* Moves what is left to the front. */
static size_t block_room(struct block *b)
{
	memmove(b->bytes, b->bytes + b->at, b->len - b->at);
	b->len -= b->at;
	b->at = 0;
	return BLOCK - b->len;
}

static enum err fill_raw(struct text_input *in, struct error *e)
{
	size_t room = block_room(&in->raw), n;
	enum err err = read_some(in, in->raw.bytes + in->raw.len, room, &n, e);
	in->raw.len += n;
	return err;
}

static enum err find_packing(struct text_input *in, struct error *e)
{
	enum err err = ERR_OK;
	while (!err && !in->packing) {
		in->packing = packing_of(in->raw.bytes, in->raw.len);
		if (!in->packing && in->end)
			in->packing = PACKING_NONE;
		if (!in->packing)
			err = fill_raw(in, e);
	}
	if (err || in->packing == PACKING_NONE || in->unpacker)
		return err;
	in->unpacker = unpacker_new();
	return in->unpacker && unpacker_start(in->unpacker, in->packing) ? ERR_OK : no_memory(e);
}

/* More of what is packed, at least a byte unless it ends. */
static enum err fill_unpacked(struct text_input *in, struct error *e)
{
	struct block *raw = &in->raw, *b = &in->unpacked;
	size_t room = block_room(b), n = 0;
	while (!n) {
		enum err err = raw->at == raw->len && !in->end ? fill_raw(in, e) : ERR_OK;
		if (err)
			return err;
		const uint8_t *from = raw->bytes + raw->at;
		size_t left = raw->len - raw->at;
		if (!left && in->end)
			return unpacker_complete(in->unpacker)
			               ? ERR_OK
			               : error_set(e, ERR_CORRUPT, "%s", unpacker_cut(in->unpacker));
		err = unpacker_step(in->unpacker, &from, &left, b->bytes + b->len, room, &n);
		if (err && err != ERR_CORRUPT)
			return no_memory(e);
		if (err && !n) /* what stands before the damage comes first; then it is found again */
			return error_set(e, err, "%s", unpacker_bad(in->unpacker));
		raw->at = err ? raw->at : raw->len - left;
		b->len += n;
	}
	return ERR_OK;
}

/* ---- characters ---- */

/* The block with the text's bytes, of which there are `least`, unless it ends. */
static enum err fill(struct text_input *in, size_t least, struct block **out, struct error *e)
{
	enum err err = find_packing(in, e);
	bool packed = in->packing != PACKING_NONE;
	struct block *b = *out = packed ? &in->unpacked : &in->raw;
	while (!err && b->len - b->at < least) {
		size_t before = b->len - b->at;
		err = packed ? fill_unpacked(in, e) : in->end ? ERR_OK : fill_raw(in, e);
		if (b->len - b->at == before)
			break;
	}
	return err;
}

static enum err find_encoding(struct text_input *in, struct error *e)
{
	struct block *b;
	enum err err = fill(in, 1, &b, e);
	bool may_be = !err && b->len > b->at && b->bytes[b->at] >= 0xfe;
	if (may_be)
		err = fill(in, 2, &b, e);
	if (err)
		return err;
	const uint8_t *p = b->bytes + b->at;
	in->encoding = PLAIN;
	if (!may_be || b->len - b->at < 2)
		return ERR_OK;
	if (p[0] == 0xff && p[1] == 0xfe)
		in->encoding = UTF16_LITTLE;
	else if (p[0] == 0xfe && p[1] == 0xff)
		in->encoding = UTF16_BIG;
	b->at += in->encoding == PLAIN ? 0 : 2;
	return ERR_OK;
}

static size_t put_character(char *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* The next unit; a half of a pair waits for the other one, and alone becomes U+FFFD. Returns the bytes written, at most
 * seven. */
static size_t put_unit(struct text_input *in, char *to, uint32_t unit)
{
	uint32_t high = in->high;
	bool is_low = unit >= 0xdc00 && unit < 0xe000, is_high = unit >= 0xd800 && unit < 0xdc00;
	in->high = 0;
	if (high && is_low)
		return put_character(to, 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00));
	size_t n = high ? put_character(to, UNDECODED) : 0;
	if (is_high)
		in->high = (uint16_t)unit;
	else
		n += put_character(to + n, is_low ? UNDECODED : unit);
	return n;
}

static enum err read_utf16(struct text_input *in, char *to, size_t size, size_t *len, struct error *e)
{
	struct block *b;
	enum err err = ERR_OK;
	while (!*len && !err && !(err = fill(in, 2, &b, e)) && b->len > b->at) {
		for (; b->len - b->at >= 2 && size - *len >= TEXT_INPUT_LEAST; b->at += 2) {
			unsigned first = b->bytes[b->at], second = b->bytes[b->at + 1];
			*len += put_unit(in, to + *len,
			        in->encoding == UTF16_LITTLE ? second << 8 | first : first << 8 | second);
		}
		if (b->len - b->at == 1 && in->end) {
			b->at++;
			*len += put_character(to + *len, UNDECODED);
		}
	}
	if (!err && !*len && in->high) {
		in->high = 0;
		*len = put_character(to, UNDECODED);
	}
	return err;
}

enum err text_input_read(struct text_input *in, char *to, size_t size, size_t *len, struct error *e)
{
	struct block *b;
	*len = 0;
	enum err err = in->encoding ? ERR_OK : find_encoding(in, e);
	if (err)
		return err;
	if (in->encoding != PLAIN)
		return read_utf16(in, to, size, len, e);
	if (in->packing == PACKING_NONE && in->raw.at == in->raw.len)
		return in->end ? ERR_OK : read_some(in, to, size, len, e);
	err = fill(in, 1, &b, e);
	*len = b->len - b->at < size ? b->len - b->at : size;
	memcpy(to, b->bytes + b->at, *len);
	b->at += *len;
	return err;
}

bool text_input_wait(struct text_input *in, int milliseconds)
{
	if (in->end || in->raw.at < in->raw.len || in->unpacked.at < in->unpacked.len)
		return true;
	return poll(&(struct pollfd){.fd = in->fd, .events = POLLIN}, 1, milliseconds) == 1;
}
