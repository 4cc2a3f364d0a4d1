/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/text_input.h"

#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbtool/input.h"

enum { UNDECODED = 0xfffd }; /* the character in place of one that is none */

enum encoding { UNDECIDED, PLAIN, UTF16_LITTLE, UTF16_BIG };

struct text_input {
	int fd;
	struct input *bytes;
	enum encoding encoding;
	uint16_t high; /* of a surrogate pair, whose other half is still to come; 0: none */
};

struct text_input *text_input_new(int fd)
{
	struct text_input *in = calloc(1, sizeof *in);
	if (!in)
		return NULL;
	*in = (struct text_input){.fd = fd, .bytes = input_new(fd)};
	if (in->bytes)
		return in;
	free(in);
	return NULL;
}

void text_input_free(struct text_input *in)
{
	if (in)
		input_free(in->bytes);
	free(in);
}

/* ---- characters ---- */

static enum err find_encoding(struct text_input *in, struct error *e)
{
	struct input_block *b;
	enum err err = input_fill(in->bytes, 1, &b, e);
	bool may_be = !err && b->len > b->at && b->bytes[b->at] >= 0xfe;
	if (may_be)
		err = input_fill(in->bytes, 2, &b, e);
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
	struct input_block *b;
	enum err err = ERR_OK;
	while (!*len && !err && !(err = input_fill(in->bytes, 2, &b, e)) && b->len > b->at) {
		for (; b->len - b->at >= 2 && size - *len >= TEXT_INPUT_LEAST; b->at += 2) {
			unsigned first = b->bytes[b->at], second = b->bytes[b->at + 1];
			*len += put_unit(in, to + *len,
			        in->encoding == UTF16_LITTLE ? second << 8 | first : first << 8 | second);
		}
		if (b->len - b->at == 1 && input_ended(in->bytes)) {
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
	struct input_block *b;
	*len = 0;
	enum err err = in->encoding ? ERR_OK : find_encoding(in, e);
	if (err)
		return err;
	if (in->encoding != PLAIN)
		return read_utf16(in, to, size, len, e);
	if (input_is_plain(in->bytes) && !input_has_more(in->bytes))
		return input_read_some(in->bytes, to, size, len, e);
	err = input_fill(in->bytes, 1, &b, e);
	*len = b->len - b->at < size ? b->len - b->at : size;
	memcpy(to, b->bytes + b->at, *len);
	b->at += *len;
	return err;
}

bool text_input_wait(struct text_input *in, int milliseconds)
{
	if (input_has_more(in->bytes))
		return true;
	return poll(&(struct pollfd){.fd = in->fd, .events = POLLIN}, 1, milliseconds) == 1;
}
