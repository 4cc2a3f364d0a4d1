/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/visible.h"

#include <stdint.h>

#include "base/buffer.h"
#include "base/json_text.h"
#include "base/utf8.h"

/* The length of the control character at p, with its code in *code; 0: another character, of *len bytes. */
static size_t control_at(const uint8_t *p, size_t n, unsigned *code, size_t *len)
{
	unsigned sequence = utf8_sequence(p, n);
	*len = sequence ? sequence : 1;
	*code = *p;
	if (sequence == 2 && p[0] == 0xc2 && p[1] < 0xa0) {
		*code = p[1];
		return 2;
	}
	return *p < 0x20 || *p == 0x7f || (!sequence && *p >= 0x80 && *p < 0xa0);
}

/* The number of bytes that p starts with that stand for themselves whatever is around them: all of most names. */
static size_t plain_ascii(const uint8_t *p, size_t n)
{
	size_t i = 0;
	while (i < n && p[i] >= 0x20 && p[i] < 0x7f)
		i++;
	return i;
}

/* keep: control characters to print unchanged. */
static int print_escaped(FILE *out, struct str text, const char *keep)
{
	const uint8_t *at = (const uint8_t *)text.data, *end = at + text.len;
	int printed = 0;
	while (at < end) {
		size_t plain = plain_ascii(at, (size_t)(end - at)), control = 0, len;
		unsigned code = 0;
		for (const uint8_t *p = at + plain; p < end; p += len, plain += len) {
			control = control_at(p, (size_t)(end - p), &code, &len);
			if (control && !(code && strchr(keep, (int)code)))
				break;
			control = 0;
		}
		printed += (int)fwrite(at, 1, plain, out);
		if (control)
			printed += fprintf(out, "\\u%04x", code);
		at += plain + control;
	}
	return printed;
}

int print_visible_str(FILE *out, struct str text)
{
	return print_escaped(out, text, "");
}

int print_visible(FILE *out, const char *text)
{
	return print_escaped(out, str_from(text), "");
}

void print_json_text(FILE *out, struct str text)
{
	print_escaped(out, text, "\t\r\n");
}

json_t *json_of_bytes(const char *text)
{
	return text ? json_of_str(str_from(text)) : json_null();
}

/* jansson passes whole characters. */
static int print_piece(const char *text, size_t len, void *out)
{
	print_json_text(out, (struct str){text, len});
	return 0;
}

void print_json_line(const json_t *value)
{
	if (value)
		json_dump_callback(value, print_piece, stdout, JSON_COMPACT);
	putchar('\n');
}
