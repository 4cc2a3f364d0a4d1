/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "store/percent.h"

char *percent_encode(char *out, struct str text, bool slashes)
{
	static const char digits[] = "0123456789ABCDEF";
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];
		bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
		             (c && strchr("-._~", c)) || (c == '/' && slashes);
		if (plain) {
			*out++ = (char)c;
		} else {
			*out++ = '%';
			*out++ = digits[c >> 4];
			*out++ = digits[c & 15];
		}
	}
	return out;
}

static int hex_value(char c)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	const char *at = c ? strchr(digits, c) : NULL;
	int value = at ? (int)(at - digits) : -1;
	return value < 16 ? value : value - 6;
}

bool percent_decode(char *out, const char *text)
{
	for (; *text; text++) {
		int value = (unsigned char)*text;
		if (value == '%') {
			int high = hex_value(text[1]), low = high < 0 ? -1 : hex_value(text[2]);
			if (low < 0 || high + low == 0)
				return false;
			value = high << 4 | low;
			text += 2;
		}
		*out++ = (char)value;
	}
	*out = 0;
	return true;
}
