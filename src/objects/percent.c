/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "objects/percent.h"

#include "base/hex.h"

char *percent_encode(char *out, struct str text, bool slashes)
{
	static const char digits[] = "0123456789ABCDEF";
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];
		if (str_is_word((struct str){text.data + i, 1}, slashes ? "-._~/" : "-._~")) {
			*out++ = (char)c;
		} else {
			*out++ = '%';
			*out++ = digits[c >> 4];
			*out++ = digits[c & 15];
		}
	}
	return out;
}

bool percent_decode(char *out, struct str text)
{
	uint8_t byte;
	for (size_t i = 0; i < text.len; i++) {
		*out = text.data[i];
		if (*out == '%') {
			if (text.len - i < 3 || !hex_read(&byte, 1, (struct str){text.data + i + 1, 2}) || !byte)
				return false;
			*out = (char)byte;
			i += 2;
		}
		out++;
	}
	*out = 0;
	return true;
}
