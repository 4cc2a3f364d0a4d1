/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "json/reply.h"

static uint8_t *put_string(uint8_t *at, struct offmap_string s)
{
	return s.len ? put_text(at, s.data, s.len) : at;
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

/* The sizes come from the same literals that are written. */
#define SIZE(literal) (sizeof(literal) - 1)

static uint64_t place_size(const struct offmap_call *c)
{
	if (!c->file.len)
		return 0;
	return SIZE(",\"file\":\"\"") + c->file.len + (c->line ? SIZE(",\"line\":") + decimal_digits(c->line) : 0);
}

uint64_t v5_tail_size(uint64_t offset, const struct offmap_answer *a)
{
	uint64_t size = SIZE("\"module_offset\":\"0x\"}") + hex_digits(offset);
	if (!a->found)
		return size;
	size += SIZE(",\"function\":\"\",\"function_offset\":\"0x\"") + a->frame.function.len +
	        hex_digits(a->function_offset) + place_size(&a->frame);
	if (a->has_size)
		size += SIZE(",\"function_size\":\"0x\"") + hex_digits(a->function_size);
	for (uint32_t i = 0; i < a->inline_count; i++)
		size += SIZE("},{\"function\":\"\"") + a->inlines[i].function.len + place_size(&a->inlines[i]);
	if (a->inline_count)
		size += SIZE(",\"inlines\":[{}]") - SIZE("},{");
	return size;
}

uint8_t *put_v5_tail(uint8_t *at, uint64_t offset, const struct offmap_answer *a)
{
	at = PUT(at, "\"module_offset\":\"0x");
	at = put_hex(at, offset);
	*at++ = '"';
	if (a->found) {
		at = PUT(at, ",\"function\":\"");
		at = put_string(at, a->frame.function);
		at = PUT(at, "\",\"function_offset\":\"0x");
		at = put_hex(at, a->function_offset);
		*at++ = '"';
		if (a->has_size) {
			at = PUT(at, ",\"function_size\":\"0x");
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
	return at;
}

uint64_t v4_head_size(uint64_t offset, const struct offmap_answer *a)
{
	return a->found ? a->frame.function.len : SIZE("0x") + hex_digits(offset);
}

uint8_t *put_v4_head(uint8_t *at, uint64_t offset, const struct offmap_answer *a)
{
	return a->found ? put_string(at, a->frame.function) : put_hex(PUT(at, "0x"), offset);
}
