/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over a line: where it ends, and which signs of a frame it has. Most lines of a log have none. */
#ifndef TEXT_SIGNS_H
#define TEXT_SIGNS_H

enum text_sign {
	SIGN_PLUS = 1,   /* + */
	SIGN_BRACE = 2,  /* { | } ~ or DEL */
	SIGN_QUOTE = 4,  /* " or # */
	SIGN_PAREN = 8,  /* ( */
	SIGN_HEX = 16,   /* 0x */
	SIGN_BUILD = 32, /* d-, as in build-id */
	SIGNS_OF_FRAMES = 63,
	SIGN_MAP = 128, /* "p ", as in "r-xp 00026000" of a memory map; not of frames */
};

/* The line feed, or end if there is none. *signs: the signs before it, and no others: what is found in
 * a line may not depend on how much of the next one has come. */
const char *text_scan_line(const char *from, const char *end, unsigned *signs);
/* The same, byte by byte: for processors without SSE2, and for tests. */
const char *text_scan_line_plain(const char *from, const char *end, unsigned *signs);

#endif
