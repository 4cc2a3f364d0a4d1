#include <config.h>

#include "format/reply_json.h"

#include <string.h>

uint8_t *put_text(uint8_t *at, const char *text, size_t len)
{
	memcpy(at, text, len);
	return at + len;
}

uint8_t *put_hex(uint8_t *at, uint64_t v)
{
	static const char digits[] = "0123456789abcdef";
	int shift = v ? (63 - __builtin_clzll(v)) & ~3 : 0;
	*at++ = '0';
	*at++ = 'x';
	for (; shift >= 0; shift -= 4)
		*at++ = (uint8_t)digits[v >> shift & 15];
	return at;
}

uint8_t *put_decimal(uint8_t *at, uint64_t v)
{
	uint8_t digits[20];
	unsigned n = 0;
	do
		digits[n++] = (uint8_t)('0' + v % 10);
	while (v /= 10);
	while (n)
		*at++ = digits[--n];
	return at;
}

static uint8_t *put_string(uint8_t *at, struct offmap_string s)
{
	return s.len ? put_text(at, (const char *)s.data, s.len) : at;
}

/* ,"file":"…","line":N as far as they are known */
static uint8_t *put_place(uint8_t *at, const struct offmap_call *c)
{
	if (!c->file.len)
		return at;
	at = PUT(at, ",\"file\":\"");
	at = put_string(at, c->file);
	*at++ = '"';
	if (c->line) {
		at = PUT(at, ",\"line\":");
		at = put_decimal(at, c->line);
	}
	return at;
}

/* More than the names of the keys and the numbers of a call take. */
enum { CALL_ROOM = 64, FRAME_ROOM = 256 };

static size_t call_size(const struct offmap_call *c)
{
	return CALL_ROOM + (size_t)c->function.len + c->file.len;
}

bool reply_v5_tail(struct buffer *out, uint64_t offset, const struct offmap_answer *a)
{
	size_t room = FRAME_ROOM + call_size(&a->frame);
	for (uint32_t i = 0; i < a->inline_count; i++)
		room += call_size(&a->inlines[i]);
	if (!buffer_reserve(out, room))
		return false;
	uint8_t *at = out->data + out->len;
	at = PUT(at, "\"module_offset\":\"");
	at = put_hex(at, offset);
	*at++ = '"';
	if (a->found) {
		at = PUT(at, ",\"function\":\"");
		at = put_string(at, a->frame.function);
		at = PUT(at, "\",\"function_offset\":\"");
		at = put_hex(at, a->function_offset);
		*at++ = '"';
		if (a->has_size) {
			at = PUT(at, ",\"function_size\":\"");
			at = put_hex(at, a->function_size);
			*at++ = '"';
		}
		at = put_place(at, &a->frame);
		for (uint32_t i = 0; i < a->inline_count; i++) {
			at = i ? PUT(at, "},{\"function\":\"") : PUT(at, ",\"inlines\":[{\"function\":\"");
			at = put_string(at, a->inlines[i].function);
			*at++ = '"';
			at = put_place(at, &a->inlines[i]);
		}
		if (a->inline_count)
			at = PUT(at, "}]");
	}
	*at++ = '}';
	out->len = (size_t)(at - out->data);
	return true;
}

bool reply_v4_head(struct buffer *out, uint64_t offset, const struct offmap_answer *a)
{
	if (!buffer_reserve(out, 32 + (size_t)a->frame.function.len))
		return false;
	uint8_t *at = out->data + out->len;
	at = a->found ? put_string(at, a->frame.function) : put_hex(at, offset);
	out->len = (size_t)(at - out->data);
	return true;
}
